//! Calls through the gateway, against an upstream that counts them.

mod fake;
mod kit;

mod limits;
mod streams;
