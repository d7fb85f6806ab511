//! Holds that are never settled, and settlements that no store takes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::account::{Adjustment, HoldTerms, MemoryBudgetStore, PastAdjustment};

#[test]
fn a_hold_that_is_dropped_is_not_extended() {
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &["me"], "test").unwrap();
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let reserve = || accounts.now().reserve("", "", step, step).unwrap().unwrap();
    let (dropped, settled) = (reserve(), reserve());
    assert_eq!(accounts.shared.open().holds.len(), 2);
    drop(dropped);
    assert_eq!(accounts.shared.open().holds.len(), 1);
    settled.settle(step);
    assert!(accounts.shared.open().holds.is_empty());
    let limit = accounts.read().unwrap().remove(0).limits.remove(0);
    assert_eq!((limit.settled, limit.held), (1, 1), "it expires and is charged");
}

#[test]
fn a_clock_that_is_set_back_is_told_once() {
    let now = Arc::new(std::sync::atomic::AtomicU64::new(1_700_000_000_000));
    let wall = Arc::clone(&now);
    let store =
        MemoryBudgetStore::with_clock(Arc::new(move || WallTime(wall.load(Ordering::SeqCst))));
    let set = AccountSet::new([Account::new("me", &["9 steps per day"]).unwrap()]).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let accounts = RunAccounts::new(Arc::new(store), set, &["me"], "test")
        .unwrap()
        .with_warnings(move |warning| telling.lock().unwrap().push(warning.clone()));
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let call = || {
        accounts.now().check("", "", &step).unwrap();
        accounts.now().reserve("", "", step, step).unwrap().unwrap().settle(step);
    };
    call();
    // Less than the clocks of machines differ.
    now.fetch_sub(30_000, Ordering::SeqCst);
    call();
    assert!(told.lock().unwrap().is_empty());
    now.fetch_sub(2 * 60 * 60 * 1000, Ordering::SeqCst);
    (0..3).for_each(|_| call());
    let told = told.lock().unwrap();
    let is_clock = matches!(told.as_slice(), [AccountWarning::ClockBehind(_)]);
    assert!(is_clock && told[0].to_string().starts_with("the clock is 2h"), "{told:?}");
}

/// A store that counts how often it is asked, and takes no settlement for some time.
#[derive(Debug, Default)]
struct Counting {
    store: MemoryBudgetStore,
    /// Settlements that it does not take.
    refuses: AtomicU32,
    asked: AtomicU32,
    grown: AtomicU32,
}

impl Counting {
    /// Waits until every hold has been extended since now.
    fn wait_for_signs(&self) {
        let before = self.grown.load(Ordering::SeqCst);
        let begun = std::time::Instant::now();
        while self.grown.load(Ordering::SeqCst) < before + 3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no sign of the owner");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl BudgetStore for Counting {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        self.store.reserve(accounts, amounts, terms)
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        let grown = self.store.grow(accounts, id, by, ttl);
        self.grown.fetch_add(1, Ordering::SeqCst);
        grown
    }

    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let less = |left: u32| left.checked_sub(1);
        if self.refuses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            return self.store.settle(id, actual);
        }
        let why = "fails on purpose".to_owned();
        Err(BudgetStoreError::Failed { doing: "settle", path: "test".into(), why })
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.store.read(accounts)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.store.adjust(adjustment)
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        self.store.adjustments(account, most)
    }
}

#[test]
fn a_store_that_takes_nothing_is_asked_once_for_all_settlements() {
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store = Arc::new(Counting { refuses: AtomicU32::new(u32::MAX), ..Counting::default() });
    let shared: Arc<dyn BudgetStore> = Arc::<Counting>::clone(&store);
    let accounts = RunAccounts::new(shared, set, &["me"], "test").unwrap();
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let reserve = || accounts.now().reserve("", "", step, step).unwrap().unwrap();
    let holds = [reserve(), reserve(), reserve()];
    holds.into_iter().for_each(|hold| hold.settle(step));
    assert_eq!(store.asked.load(Ordering::SeqCst), 3);
    drop(reserve());
    assert_eq!(store.asked.load(Ordering::SeqCst), 4);
    assert_eq!(accounts.shared.open().unsettled.len(), 3);
}

#[test]
fn names_of_handles_that_are_gone_keep_no_account() {
    let both = ["a", "b"].map(|name| Account::new(name, &["9 steps"]).unwrap());
    let set = AccountSet::new(both).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &[], "test").unwrap();
    let stays = accounts.named(&["a"]).unwrap();
    for _ in 0..99 {
        drop(accounts.named(&["b"]).unwrap());
    }
    assert!(accounts.shared.changes().named.len() < 9);
    assert_eq!(accounts.replace(AccountTables::default()), ["a"]);
    assert_eq!(stays.drawn_names(), ["a"]);
    assert_eq!(accounts.read().unwrap().len(), 1);
}

/// A source that answers when the test lets it.
#[derive(Debug)]
struct Slow {
    entered: std::sync::mpsc::SyncSender<()>,
    let_go: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl AccountSource for Slow {
    fn look(&self) -> Option<AccountTables> {
        self.entered.send(()).unwrap();
        // Without an end the test would fail by its silence.
        let _ = self.let_go.lock().unwrap().recv_timeout(Duration::from_secs(60));
        None
    }
}

#[test]
fn a_call_does_not_wait_for_another_that_looks_for_new_definitions() {
    let (entered, has_entered) = std::sync::mpsc::sync_channel(9);
    let (let_go, gate) = std::sync::mpsc::channel();
    let source = Arc::new(Slow { entered, let_go: Mutex::new(gate) });
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &["me"], "test").unwrap().with_source(source);
    thread::scope(|scope| {
        let looking = scope.spawn(|| accounts.now().drawn_names());
        has_entered.recv().unwrap();
        assert_eq!(accounts.now().drawn_names(), ["me"]);
        assert!(!looking.is_finished());
        let_go.send(()).unwrap();
        assert_eq!(looking.join().unwrap(), ["me"]);
    });
}

#[test]
fn the_heartbeat_goes_on_while_a_settlement_is_repeated() {
    let mut open = OpenHolds::default();
    assert!(!open.has_more());
    open.repeating = 1;
    assert!(open.has_more(), "what is repeated is in no list, and can come back");
    open.repeating = 0;
    open.unsettled.push(("a".to_owned(), Amounts::ZERO));
    assert!(open.has_more());
}

/// Accounts on a store whose clock the test sets, of an owner that shows that it lives in some interval.
fn beating(store: &Arc<Counting>, interval: Duration) -> RunAccounts {
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store: Arc<dyn BudgetStore> = Arc::<Counting>::clone(store);
    RunAccounts::new(store, set, &["me"], "test")
        .unwrap()
        .with(|shared| shared.heartbeat = interval)
}

#[test]
fn the_holds_of_an_owner_that_lives_stay_and_those_of_a_stopped_one_are_charged() {
    let now = Arc::new(std::sync::atomic::AtomicU64::new(1_700_000_000_000));
    let wall = Arc::clone(&now);
    let wall = Arc::new(move || WallTime(wall.load(Ordering::SeqCst)));
    let store =
        Arc::new(Counting { store: MemoryBudgetStore::with_clock(wall), ..Counting::default() });
    let lives = beating(&store, Duration::from_millis(1));
    // As a process that is suspended.
    let stopped = beating(&store, Duration::from_secs(3_600));
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let reserve = |of: &RunAccounts| of.now().reserve("", "", step, step).unwrap().unwrap();
    let (kept, lost) = (reserve(&lives), reserve(&stopped));
    let counted = || {
        let limit = lives.read().unwrap().remove(0).limits.remove(0);
        (limit.held, limit.settled, limit.unconfirmed)
    };
    assert_eq!(counted(), (2, 0, 0));
    for _ in 0..4 {
        // Each time less than a hold lasts, and together more.
        store.wait_for_signs();
        now.fetch_add(50_000, Ordering::SeqCst);
    }
    assert_eq!(counted(), (1, 1, 1));
    // It continues, and its settlement corrects the charge.
    lost.settle(Amounts::ZERO);
    kept.settle(step);
    assert_eq!(counted(), (0, 1, 0));

    // The thread has ended with the last hold, and begins again with the next.
    while lives.shared.open().has_heartbeat {
        thread::sleep(Duration::from_millis(1));
    }
    let next = reserve(&lives);
    store.wait_for_signs();
    now.fetch_add(50_000, Ordering::SeqCst);
    store.wait_for_signs();
    now.fetch_add(50_000, Ordering::SeqCst);
    assert_eq!(counted(), (1, 1, 0));
    drop(next);
}

#[test]
fn a_settlement_that_the_store_did_not_take_is_repeated_without_another_call() {
    let store = Arc::new(Counting { refuses: AtomicU32::new(3), ..Counting::default() });
    let accounts = beating(&store, Duration::from_millis(1));
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    accounts.now().reserve("", "", step, step).unwrap().unwrap().settle(step);
    let begun = std::time::Instant::now();
    let counted = || accounts.read().unwrap().remove(0).limits.remove(0);
    while counted().settled == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "not repeated");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((counted().settled, counted().held, counted().unconfirmed), (1, 0, 0));
}
