//! Bodies that are sent to clients.
