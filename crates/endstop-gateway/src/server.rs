//! Connections of clients.
