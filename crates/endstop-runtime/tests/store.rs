//! Stores of runs: one contract for all of them, and what `kill -9` leaves.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of these tests fail as their tests do"
)]

#[path = "../../../tests/support/damage.rs"]
mod broken;
#[path = "store/contract.rs"]
mod contract;
#[path = "store/damage.rs"]
mod damage;
#[path = "../../../tests/support/golden.rs"]
mod file;
#[path = "store/files.rs"]
mod files;
#[path = "store/golden.rs"]
mod golden;
#[cfg(unix)]
#[path = "store/kill.rs"]
mod kill;
#[path = "store/place.rs"]
mod place;
#[cfg(feature = "sqlite")]
#[path = "store/sqlite.rs"]
mod sqlite;
