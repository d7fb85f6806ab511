//! The runs of a gateway.
