//! Holds that outlive their process.

use std::collections::BTreeMap;
use std::time::Duration;

use endstop_core::units::Millis;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Budget;
use super::amounts::Amounts;
use crate::limits::MAX_LEASES;

/// The version that is written.
const VERSION: u32 = 1;

/// The calls in flight, to be stored next to a run before they begin.
///
/// A guard dies with its process, and the spend of its call is then unknown. A table that is stored with the run
/// still names the call when the run is resumed: the first caller that closes the lease settles it, and a lease that
/// was not closed in time is charged in full.
///
/// ```
/// use endstop_runtime::ledger::{Amounts, Budget, LeaseTable, Limits};
/// use std::time::Duration;
///
/// let worst = Amounts { tokens: 900, ..Amounts::ZERO };
/// let mut leases = LeaseTable::new();
/// leases.open(1, worst, Duration::from_secs(60))?;
///
/// // The process ends, and another one reads what was stored.
/// let mut leases: LeaseTable = serde_json::from_str(&serde_json::to_string(&leases)?)?;
/// let budget = Budget::root(Limits::unlimited());
/// assert_eq!(leases.expire(Duration::from_secs(61), &budget).len(), 1);
/// assert_eq!(budget.settled(), worst);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct LeaseTable {
    leases: BTreeMap<u64, Lease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lease {
    amounts: Amounts,
    /// Offset on the clock of the run, in milliseconds.
    until: u64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    leases: BTreeMap<u64, Lease>,
}

/// A lease that was not closed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The number under which it was opened.
    pub id: u64,
    /// The amounts it had reserved, which are charged.
    pub amounts: Amounts,
    /// The time at which it ended.
    pub until: Millis,
}

/// Why a lease cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// The number is in use.
    #[error("lease `{0}` is already open")]
    AlreadyOpen(u64),
    /// There are [`MAX_LEASES`].
    #[error("{MAX_LEASES} leases are open")]
    TooMany,
    /// Written by a later version.
    #[error("the leases have version {0}; this program reads version 1")]
    Version(u32),
}

impl LeaseTable {
    /// Creates an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { leases: BTreeMap::new() }
    }

    /// Notes that `amounts` are reserved under `id` until `until`, an offset on the clock of the run.
    ///
    /// # Errors
    /// Returns an error if `id` is open, or the table is full. The call must not begin then.
    pub fn open(&mut self, id: u64, amounts: Amounts, until: Duration) -> Result<(), LeaseError> {
        if self.leases.contains_key(&id) {
            return Err(LeaseError::AlreadyOpen(id));
        }
        if self.leases.len() >= MAX_LEASES {
            return Err(LeaseError::TooMany);
        }
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.leases.insert(id, Lease { amounts, until });
        Ok(())
    }

    /// Ends the lease, and says what it had reserved. `None` if it has ended already, closed or expired:
    /// then it is settled, and must not be settled again.
    pub fn close(&mut self, id: u64) -> Option<Amounts> {
        self.leases.remove(&id).map(|lease| lease.amounts)
    }

    /// Ends the leases that passed, charges each in full to `budget`, and says which they were.
    pub fn expire(&mut self, now: Duration, budget: &Budget) -> Vec<Expired> {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let passed: Vec<Expired> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.until <= now)
            .map(|(id, lease)| Expired {
                id: *id,
                amounts: lease.amounts,
                until: Millis(lease.until),
            })
            .collect();
        for expired in &passed {
            self.leases.remove(&expired.id);
            budget.charge(expired.amounts);
        }
        passed
    }

    /// Like [`expire`](Self::expire), for all leases: the process that held them is known to be gone.
    pub fn abandon(&mut self, budget: &Budget) -> Vec<Expired> {
        self.expire(Duration::MAX, budget)
    }

    /// Returns how many leases are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Returns whether no lease is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }
}

impl Default for LeaseTable {
    fn default() -> Self {
        Self::new()
    }
}

impl From<LeaseTable> for Stored {
    fn from(table: LeaseTable) -> Self {
        Self { version: VERSION, leases: table.leases }
    }
}

impl TryFrom<Stored> for LeaseTable {
    type Error = LeaseError;

    fn try_from(stored: Stored) -> Result<Self, LeaseError> {
        if stored.version != VERSION {
            return Err(LeaseError::Version(stored.version));
        }
        if stored.leases.len() > MAX_LEASES {
            return Err(LeaseError::TooMany);
        }
        Ok(Self { leases: stored.leases })
    }
}
