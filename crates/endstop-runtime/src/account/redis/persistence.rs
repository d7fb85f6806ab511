//! The data that a restart of the server can lose, by its configuration.

use std::fmt;

use redis::{FromRedisValue as _, cmd};

use super::RedisBudgetStore;
use super::connections::CallError;

/// The data that a restart of the server of a store can lose.
///
/// ```no_run
/// use endstop_runtime::account::{RedisBudgetStore, StorePersistence};
///
/// let store = RedisBudgetStore::open("redis://127.0.0.1:6379")?;
/// if store.persistence() != StorePersistence::Always {
///     eprintln!("{}", store.persistence());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorePersistence {
    /// Nothing: `appendonly yes` and `appendfsync always`.
    Always,
    /// About the last second: `appendonly yes` and `appendfsync everysec`.
    EverySecond,
    /// The changes that the system has not written: `appendonly yes` and `appendfsync no`.
    System,
    /// Everything since the last snapshot: `save` without `appendonly`.
    Snapshots,
    /// Everything.
    Nothing,
    /// The server may delete counters when its memory is full: a `maxmemory-policy` of all keys.
    Evicts,
    /// The server does not say: `CONFIG GET` is not allowed, or failed.
    Unknown,
}

impl RedisBudgetStore {
    /// Asks the server how it keeps its data.
    #[must_use]
    pub fn persistence(&self) -> StorePersistence {
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(&["appendonly", "appendfsync", "save", "maxmemory-policy"]);
        let answer = self.shared.connections.call(&command, true);
        let pairs = answer.and_then(|value| {
            Vec::<(String, String)>::from_redis_value(value)
                .map_err(|error| CallError::Away(error.to_string()))
        });
        let Ok(pairs) = pairs else { return StorePersistence::Unknown };
        let of = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        if of("maxmemory-policy").is_some_and(|policy| policy.starts_with("allkeys")) {
            return StorePersistence::Evicts;
        }
        match (of("appendonly"), of("appendfsync"), of("save")) {
            (Some("yes"), Some("always"), _) => StorePersistence::Always,
            (Some("yes"), Some("everysec"), _) => StorePersistence::EverySecond,
            (Some("yes"), _, _) => StorePersistence::System,
            (Some(_), _, Some("")) => StorePersistence::Nothing,
            (Some(_), _, Some(_)) => StorePersistence::Snapshots,
            _ => StorePersistence::Unknown,
        }
    }

    /// Asks the server how many replicas are connected to it. After a failover to one of them, what it had not received is
    /// lost. `None` if the server does not say: `INFO` is not allowed, or failed.
    ///
    /// Decision: no operation waits for replicas by `WAIT`. It would cost each call another round trip, and a failover
    /// can still choose a replica that has not answered; counts that have to survive a machine need `appendfsync always` on
    /// its disk.
    ///
    /// ```no_run
    /// use endstop_runtime::account::RedisBudgetStore;
    ///
    /// let store = RedisBudgetStore::open("redis://127.0.0.1:6379")?;
    /// println!("{:?} replicas", store.replicas());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn replicas(&self) -> Option<u64> {
        let mut command = cmd("INFO");
        command.arg("replication");
        let value = self.shared.connections.call(&command, true).ok()?;
        let text = String::from_redis_value(value).ok()?;
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("connected_slaves:"))?;
        count.trim().parse().ok()
    }
}

impl fmt::Display for StorePersistence {
    /// `a restart of the server can lose the last second (appendfsync everysec)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "a restart of the server loses nothing (appendfsync always)",
            Self::EverySecond => {
                "a restart of the server can lose the last second (appendfsync everysec)"
            }
            Self::System => {
                "a restart of its machine can lose about half a minute (appendfsync no)"
            }
            Self::Snapshots => {
                "a restart of the server can lose all that was counted since its last snapshot (appendonly no)"
            }
            Self::Nothing => {
                "a restart of the server loses all that was counted (appendonly no, no snapshots)"
            }
            Self::Evicts => {
                "the server deletes counters when its memory is full (maxmemory-policy allkeys-..)"
            }
            Self::Unknown => {
                "unknown what a restart of the server loses: CONFIG GET is not allowed"
            }
        })
    }
}
