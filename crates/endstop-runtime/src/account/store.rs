//! The trait of stores of accounts, and what they say.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use endstop_core::units::WallTime;
use thiserror::Error;

use super::limit::AccountLimit;
use super::refused::{AccountRefused, time};
use super::spec::Account;
use crate::ledger::{Amounts, Dimension};

/// The identity of a hold.
///
/// See the example of [the module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldTerms<'h> {
    /// The id, which no other hold has: 1 to 128 bytes.
    pub id: &'h str,
    /// The process that settles it, for people.
    pub owner: &'h str,
    /// The time after which it expires unless it is extended.
    pub ttl: Duration,
}

/// A correction of an account by a person, or amounts from elsewhere.
///
/// See the example of [`BudgetStore::adjust`].
#[derive(Clone, Copy, Debug)]
pub struct Adjustment<'a> {
    /// An id, so that a repeated correction counts once.
    pub id: &'a str,
    /// The account.
    pub account: &'a Account,
    /// The accounts above it ([`AccountSet::parents`](super::AccountSet::parents)): each counts the correction as well, as it
    /// counts every charge. Empty if there are none.
    pub parents: &'a [&'a Account],
    /// Counts as spent in the window of each limit.
    pub spent: Amounts,
    /// Counts as given back: at most what the account has spent in one of its windows. No counter falls below zero, so one that
    /// has less gives back less.
    pub returned: Amounts,
    /// The person or program that corrects.
    pub who: &'a str,
    /// Why.
    pub why: &'a str,
}

/// A correction that a store has recorded.
///
/// See the example of [`BudgetStore::adjustments`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAdjustment {
    /// The time of the store.
    pub at: WallTime,
    /// Counted as spent.
    pub spent: Amounts,
    /// Counted as given back, as far as so much was spent.
    pub returned: Amounts,
    /// The person or program that corrected.
    pub who: String,
    /// Why.
    pub why: String,
}

/// The current state of one limit of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The limit.
    pub limit: AccountLimit,
    /// The settled amount in its window; unconfirmed amounts included.
    pub settled: u64,
    /// The part of it that no settlement confirmed: holds that expired.
    pub unconfirmed: u64,
    /// The held amount.
    pub held: u64,
    /// The end of the window; of a rolling one, the time at which the first part of the spend leaves it. `None` if it never does.
    pub resets_at: Option<WallTime>,
    /// The same time in the time zone of the account, for people.
    pub resets_text: Option<String>,
}

impl LimitState {
    /// Returns the remaining amount of the limit.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.limit.amount.saturating_sub(self.settled).saturating_sub(self.held)
    }

    pub(super) fn with_reset(self, account: &Account) -> Self {
        let resets_text = self.resets_at.map(|at| time(at, &account.zone));
        Self { resets_text, ..self }
    }
}

/// The current state of an account.
///
/// See the example of [`BudgetStore::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountState {
    /// The name.
    pub account: String,
    /// The time of the store.
    pub now: WallTime,
    /// How far the clock is behind the time of the store: it was set back, or had been ahead. Windows end later by that.
    pub clock_behind: Duration,
    /// Each limit.
    pub limits: Vec<LimitState>,
}

/// Why a store of accounts did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BudgetStoreError {
    /// An account has too little left. Nothing is held.
    #[error(transparent)]
    Refused(Box<AccountRefused>),
    /// The hold was settled or has expired: it cannot grow, and its id cannot be used again.
    #[error("the hold `{0}` has ended")]
    Ended(String),
    /// It was never reserved, or it ended so long ago that its record was deleted.
    #[error("no hold `{0}`")]
    UnknownHold(String),
    /// An id of no bytes or too many.
    #[error("an id has 1 to 128 bytes, not {0}")]
    Id(usize),
    /// A correction would take back more than the account has spent in any of its windows. Nothing is corrected.
    #[error(
        "budget {account} has spent less in its current windows than the correction takes back"
    )]
    NotSpent {
        /// The account.
        account: String,
        /// The unit of the amounts.
        dimension: Dimension,
        /// The amount to take back: pico-dollars, if it is money.
        asked: u64,
        /// The most that can be taken back.
        most: u64,
    },
    /// A later version of the program wrote the file.
    #[error("`{}` has format {found}, and this program knows up to {known}; use a later version of it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        found: u64,
        /// The last version that is known.
        known: u64,
    },
    /// The file belongs to another program, or is damaged.
    #[error("`{}` is not a store of budgets: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error in it.
        why: String,
    },
    /// The server cannot be reached or does not answer. Nothing is known to have happened; a background thread tries again.
    #[error(
        "the store of budgets `{server}` is away ({why}): no call begins until it is back; see that it runs and can be reached"
    )]
    Away {
        /// Its address, without the password.
        server: String,
        /// The error.
        why: String,
    },
    /// The address of a server cannot be used. The text never shows the address, which can have a password.
    #[error("the address of the store of budgets cannot be used: {0}")]
    Address(String),
    /// Everything that uses the store was killed: this process admits no further call.
    #[error("killed: {0}")]
    Killed(String),
    /// The medium refused, or others kept it busy for too long.
    #[error("cannot {doing} (`{}`): {why}", path.display())]
    Failed {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The message of the system or the database.
        why: String,
    },
}

/// Counters of accounts, changed by four operations and read by two.
///
/// Every operation is atomic over all accounts: it happens completely or not at all. If it returns an error, it has
/// not happened, and it can be repeated; after a crash of the caller it has or has not happened, and repeating it
/// with the same id is safe in both cases, as long as the store remembers the id: for the last 65,536 ended holds in memory, for
/// seven days in a file, and for ten minutes on a server. The limits of the accounts are on steps, tokens or money, which
/// [`AccountSet::new`](super::AccountSet::new) checks. Operations block: about ten microseconds for a local file, and longer
/// while other processes write.
///
/// # Panics
/// The operations of the stores of this crate panic at an account with a limit in another unit, which only one that was built by
/// its fields can have. Check such an account with [`AccountSet::new`](super::AccountSet::new) first.
pub trait BudgetStore: Debug + Send + Sync {
    /// Holds amounts on all accounts, in the current window of each of their limits, or on none.
    ///
    /// After a crash: if it happened, the hold counts until it expires, and is then settled in full. A repetition with the
    /// same id holds nothing more.
    ///
    /// # Errors
    /// Returns [`BudgetStoreError::Refused`] if it does not fit. [`BudgetStoreError::Ended`] if the id was used.
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError>;

    /// Adds to a hold, in the windows in which it was reserved, and lets it last `ttl` from now. With nothing to add it is
    /// the sign that the owner lives.
    ///
    /// After a crash: a growth that happened stays; unlike the others, this operation adds again if it is repeated.
    ///
    /// # Errors
    /// Returns [`BudgetStoreError::Refused`] if it does not fit: the hold is as before. [`BudgetStoreError::Ended`] if
    /// it is no longer held.
    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError>;

    /// Ends a hold with the actual amounts, in the windows in which it was reserved; more than was held counts in full. A
    /// hold that expired is corrected.
    ///
    /// After a crash: a repetition counts once. A hold that is never settled expires, so an actual amount can be
    /// counted too high, and never too low.
    ///
    /// # Errors
    /// Returns [`BudgetStoreError::UnknownHold`]; never because of an amount.
    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError>;

    /// Reads accounts. Nothing changes.
    ///
    /// ```
    /// use endstop_runtime::account::{Account, BudgetStore, MemoryBudgetStore};
    ///
    /// let me = Account::new("me", &["$5 per day"])?;
    /// let state = MemoryBudgetStore::new().read(&[&me])?;
    /// assert_eq!(state[0].limits[0].left(), 5_000_000_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError>;

    /// Corrects an account and those above it, all or none, and notes at the account who did it and why.
    ///
    /// After a crash: a repetition with the same id counts once, and succeeds.
    ///
    /// ```
    /// use endstop_core::units::Money;
    /// use endstop_runtime::account::{Account, Adjustment, BudgetStore, MemoryBudgetStore};
    /// use endstop_runtime::ledger::Amounts;
    ///
    /// let (store, me) = (MemoryBudgetStore::new(), Account::new("me", &["$5 per day"])?);
    /// let spent = Amounts { cost: Money::from_picos(2_000_000_000_000), ..Amounts::ZERO };
    /// let (account, parents, returned) = (&me, &[], Amounts::ZERO);
    /// let why = "spent elsewhere";
    /// store.adjust(&Adjustment { id: "1", account, parents, spent, returned, who: "ann", why })?;
    /// assert_eq!(store.read(&[&me])?[0].limits[0].settled, 2_000_000_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`BudgetStoreError::NotSpent`] if more is taken back than the account has spent in any of its windows, in a unit that
    /// it limits: the rest would be taken from the spend of others in the accounts above it. Returns an error if the store cannot be
    /// written.
    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError>;

    /// Reads the latest corrections of an account by its name, the newest first: at most `most` of them, and at most 100.
    /// Nothing changes.
    ///
    /// ```
    /// use endstop_core::units::Money;
    /// use endstop_runtime::account::{Account, Adjustment, BudgetStore, MemoryBudgetStore};
    /// use endstop_runtime::ledger::Amounts;
    ///
    /// let (store, me) = (MemoryBudgetStore::new(), Account::new("me", &["$5 per day"])?);
    /// let spent = Amounts { cost: Money::from_picos(2_000_000_000_000), ..Amounts::ZERO };
    /// let (account, parents, returned) = (&me, &[], Amounts::ZERO);
    /// let why = "spent elsewhere";
    /// store.adjust(&Adjustment { id: "1", account, parents, spent, returned, who: "ann", why })?;
    /// let past = store.adjustments("me", 10)?;
    /// assert_eq!((past[0].who.as_str(), past[0].spent), ("ann", spent));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError>;

    /// Whether a call that draws on no account may begin now. It may, unless the store kills over machines, and the process
    /// has been killed or cannot know whether it has been.
    ///
    /// # Errors
    /// Returns the reason if it may not.
    fn admit(&self) -> Result<(), BudgetStoreError> {
        Ok(())
    }
}
