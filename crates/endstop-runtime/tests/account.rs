//! Stores of accounts: one contract for all, generated schedules, and what `kill -9` leaves. And logs of runs, which share a
//! server with them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of these tests fail as their tests do"
)]

#[path = "account/calendar.rs"]
mod calendar;
#[path = "account/contract.rs"]
mod contract;
#[cfg(feature = "redis")]
#[path = "account/faults.rs"]
mod faults;
#[cfg(feature = "sqlite")]
#[path = "account/golden.rs"]
mod golden;
#[cfg(feature = "sqlite")]
#[path = "../../../tests/support/golden.rs"]
mod golden_file;
#[cfg(all(unix, feature = "sqlite"))]
#[path = "account/kill.rs"]
mod kill;
#[cfg(feature = "sqlite")]
#[path = "../../../tests/support/wal.rs"]
mod log_places;
#[cfg(feature = "redis")]
#[path = "account/redis.rs"]
mod redis;
#[cfg(feature = "redis")]
#[path = "account/redis_access.rs"]
mod redis_access;
#[cfg(feature = "redis")]
#[path = "account/redis_keys.rs"]
mod redis_keys;
#[cfg(feature = "redis")]
#[path = "account/redis_kills.rs"]
mod redis_kills;
#[cfg(feature = "redis")]
#[path = "account/redis_persistence.rs"]
mod redis_persistence;
#[cfg(feature = "redis")]
#[path = "account/redis_versions.rs"]
mod redis_versions;
#[cfg(feature = "redis")]
#[path = "account/redis_waits.rs"]
mod redis_waits;
#[cfg(feature = "redis")]
#[path = "../../../tests/support/faulty_relay.rs"]
mod relay;
#[path = "account/run_logs.rs"]
mod run_logs;
#[path = "account/schedule.rs"]
mod schedule;
#[path = "account/schedules.rs"]
mod schedules;
#[cfg(feature = "redis")]
#[path = "../../../tests/support/redis.rs"]
mod server;
#[path = "account/stores.rs"]
mod stores;
#[path = "account/threads.rs"]
mod threads;
#[cfg(feature = "sqlite")]
#[path = "account/wal.rs"]
mod wal;
#[cfg(all(unix, feature = "sqlite"))]
#[path = "account/write_errors.rs"]
mod write_errors;
