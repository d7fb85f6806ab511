//! The ledger: a tree of budgets that cannot be overshot.
