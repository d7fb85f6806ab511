//! A call that an account refused, in numbers and in words.

use std::fmt;

use endstop_core::human;
use endstop_core::units::{Millis, WallTime};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::limit::AccountLimit;
use super::spec::OnFull;
use crate::ledger::Refused;

/// The key of the time at which a full budget resets, in milliseconds since 1970.
pub(crate) const RESET_KEY: &str = "resets_at";

/// A reservation that an account refused: which account, which window, the remaining amount, and when it resets.
///
/// ```
/// use endstop_runtime::account::{Account, BudgetStore, BudgetStoreError, HoldTerms, MemoryBudgetStore};
/// use endstop_runtime::ledger::Amounts;
/// use std::time::Duration;
///
/// let store = MemoryBudgetStore::new();
/// let team = Account::new("team-a", &["1000 steps per day"])?;
/// let terms = HoldTerms { id: "call-1", owner: "run-1", ttl: Duration::from_secs(60) };
/// let steps = |steps| Amounts { steps, ..Amounts::ZERO };
/// let Err(BudgetStoreError::Refused(refused)) = store.reserve(&[&team], steps(1_001), &terms) else { panic!() };
/// assert_eq!((refused.account.as_str(), refused.left()), ("team-a", 1_000));
/// assert!(!refused.fits_after_reset());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRefused {
    /// The account; the outermost, if several refuse.
    pub account: String,
    /// The reaction of a run to a full account.
    pub on_full: OnFull,
    /// The limit.
    pub limit: AccountLimit,
    /// The settled amount in its window.
    pub settled: u64,
    /// The held amount in its window.
    pub held: u64,
    /// The needed amount.
    pub asked: u64,
    /// The time of the store.
    pub now: WallTime,
    /// When enough of the window is over; `None` if it is the whole time, or the limit itself is smaller than the need.
    pub resets_at: Option<WallTime>,
    /// The time zone of the account, in which the reset is shown.
    pub(super) zone: TimeZone,
}

impl AccountRefused {
    /// Returns the remaining amount of the limit.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.limit.amount.saturating_sub(self.settled).saturating_sub(self.held)
    }

    /// Returns the budget and the time of its reset, for a call that waits for it: `budget team-a until 2026-11-26 00:00 UTC`.
    #[must_use]
    pub fn awaited(&self) -> String {
        let until = self.resets_at.map(|at| format!(" until {}", time(at, &self.zone)));
        format!("budget {}{}", self.account, until.unwrap_or_default())
    }

    /// Returns whether only the holds of calls in flight are in the way.
    #[must_use]
    pub const fn is_only_held(&self) -> bool {
        self.held > 0 && self.settled.saturating_add(self.asked) <= self.limit.amount
    }

    /// Returns whether the same call fits once the window has reset.
    #[must_use]
    pub const fn fits_after_reset(&self) -> bool {
        self.resets_at.is_some()
    }
}

impl fmt::Display for AccountRefused {
    /// `budget team-a has used $4.88 of $5.00 per day, and this call could cost $0.30; resets in 7h 12m, at 2026-11-26 00:00
    /// UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amounts = Refused {
            budget: 0,
            dimension: self.limit.dimension,
            limit: self.limit.amount,
            settled: self.settled,
            held: self.held,
            asked: self.asked,
        };
        let owner = format!("budget {} has", self.account);
        f.write_str(&amounts.text_with_limit(&owner, &self.limit.to_string()))?;
        let Some(at) = self.resets_at else { return Ok(()) };
        let rest = at.0.saturating_sub(self.now.0);
        // Whole seconds, or whole minutes if it is long.
        let unit = if rest >= 600_000 { 60_000 } else { 1_000 };
        let rest = human::duration(Millis(rest.div_ceil(unit) * unit));
        write!(f, "; resets in {rest}, at {}", time(at, &self.zone))
    }
}

impl std::error::Error for AccountRefused {}

/// A time to the minute, in a zone.
pub(super) fn time(at: WallTime, zone: &TimeZone) -> String {
    let time = i64::try_from(at.0).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    time.map_or_else(
        || "never".to_owned(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string(),
    )
}
