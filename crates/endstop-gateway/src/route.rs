//! Which run a request belongs to, which upstream it is for, which interface it speaks.
