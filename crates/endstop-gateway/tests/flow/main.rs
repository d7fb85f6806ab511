//! Calls through the gateway, against an upstream that counts them.

mod fake;
mod kit;

mod apis;
mod failures;
mod limits;
mod runs;
mod streams;
mod transparent;
