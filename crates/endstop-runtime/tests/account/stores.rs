//! The stores under test, with a clock that the test sets.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop_core::units::{Money, WallTime};
use endstop_runtime::account::{
    Account, AccountRefused, BudgetStore, BudgetStoreError, HoldTerms, LimitState,
    MemoryBudgetStore,
};
use endstop_runtime::clock::WallClock;
use endstop_runtime::ledger::Amounts;

/// 2026-11-25 00:00 UTC, a Wednesday.
pub(super) const MIDNIGHT: u64 = 1_795_564_800_000;
pub(super) const HOUR: u64 = 3_600_000;
pub(super) const TTL: Duration = Duration::from_secs(60);

/// A clock that the test sets, in milliseconds since 1970.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(super) fn at(millis: u64) -> Self {
        Self(Arc::new(AtomicU64::new(millis)))
    }

    pub(super) fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn wall(&self) -> WallClock {
        let clock = self.clone();
        Arc::new(move || WallTime(clock.now()))
    }
}

/// Opens one more handle of a store.
type Open = Box<dyn Fn() -> Box<dyn BudgetStore>>;

/// Two handles of one store, as two processes have them.
pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) handles: [Box<dyn BudgetStore>; 2],
    open: Open,
    directory: Option<PathBuf>,
    /// Ends after the handles.
    #[cfg(feature = "redis")]
    _server: Option<super::server::RedisServer>,
}

impl Pair {
    pub(super) fn new(
        name: &'static str,
        open: impl Fn() -> Box<dyn BudgetStore> + 'static,
    ) -> Self {
        Self {
            name,
            handles: [open(), open()],
            open: Box::new(open),
            directory: None,
            #[cfg(feature = "redis")]
            _server: None,
        }
    }

    /// Replaces a handle by a new one, as a process that starts again has it.
    pub(super) fn reopen(&mut self, handle: usize) {
        self.handles[handle] = (self.open)();
    }

    pub(super) fn memory(clock: &Clock) -> Self {
        let store = MemoryBudgetStore::with_clock(clock.wall());
        Self::new("memory", move || Box::new(store.clone()))
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite(clock: &Clock) -> Self {
        use endstop_runtime::account::SqliteBudgetStore;
        let directory = std::env::temp_dir()
            .join(format!("endstop-accounts-{}", endstop_runtime::store::RunId::new()));
        let (file, clock) = (directory.join("budgets.sqlite"), clock.clone());
        let mut pair = Self::new("sqlite", move || {
            Box::new(SqliteBudgetStore::open_with_clock(&file, clock.wall()).unwrap())
        });
        pair.directory = Some(directory);
        pair
    }

    /// `None` if no server is installed.
    #[cfg(feature = "redis")]
    pub(super) fn redis(clock: &Clock) -> Option<Self> {
        use endstop_runtime::account::RedisBudgetStore;
        let server = super::server::RedisServer::start()?;
        let (url, clock) = (server.url(), clock.clone());
        let mut pair = Self::new("redis", move || {
            Box::new(RedisBudgetStore::open_with_clock(&url, clock.wall()).unwrap())
        });
        pair._server = Some(server);
        Some(pair)
    }

    pub(super) fn all(clock: &Clock) -> Vec<Self> {
        [
            Some(Self::memory(clock)),
            #[cfg(feature = "sqlite")]
            Some(Self::sqlite(clock)),
            #[cfg(feature = "redis")]
            Self::redis(clock),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // The file stays where it is in use; nothing depends on it.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

pub(super) fn cents(cents: u64) -> Amounts {
    Amounts { cost: Money::from_picos(cents * 10_000_000_000), ..Amounts::ZERO }
}

pub(super) fn account(name: &str, limits: &[&str]) -> Account {
    Account::new(name, limits).unwrap()
}

pub(super) fn terms(id: &str) -> HoldTerms<'_> {
    HoldTerms { id, owner: "test", ttl: TTL }
}

pub(super) fn refused(result: Result<(), BudgetStoreError>) -> AccountRefused {
    match result {
        Err(BudgetStoreError::Refused(refused)) => *refused,
        other => panic!("not refused: {other:?}"),
    }
}

/// The first limit of an account.
pub(super) fn first(store: &dyn BudgetStore, account: &Account) -> LimitState {
    store.read(&[account]).unwrap()[0].limits[0].clone()
}

/// Settled and held cents of the first limit.
pub(super) fn committed(store: &dyn BudgetStore, account: &Account) -> (u64, u64) {
    let LimitState { settled, held, .. } = first(store, account);
    (settled / 10_000_000_000, held / 10_000_000_000)
}
