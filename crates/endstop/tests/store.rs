//! Stores of runs: one contract for all of them, and what `kill -9` leaves.

#[path = "store/contract.rs"]
mod contract;
#[path = "store/files.rs"]
mod files;
#[cfg(unix)]
#[path = "store/kill.rs"]
mod kill;
#[path = "store/place.rs"]
mod place;
#[cfg(feature = "sqlite")]
#[path = "store/sqlite.rs"]
mod sqlite;
