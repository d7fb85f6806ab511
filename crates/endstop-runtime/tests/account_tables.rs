//! Definitions of accounts that change while runs draw on them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of these tests fail as their tests do"
)]

use std::sync::{Arc, Mutex};

use endstop_core::Program;
use endstop_core::condition::named::max_steps;
use endstop_core::policy::{OnUnpriced, Policy};
use endstop_core::probe::Probes;
use endstop_core::units::{TokenUsage, WallTime};
use endstop_price::PriceTable;
use endstop_runtime::account::{
    Account, AccountSet, AccountSource, AccountTables, AccountWait, BudgetStore, MemoryBudgetStore,
    OnFull, RunAccounts,
};
use endstop_runtime::observe::RunInfo;
use endstop_runtime::store::RunId;
use endstop_runtime::{
    CallPlan, InputBound, NotBegun, OpenCall, Outcome, Pricing, RunEnvironment, RunHandle,
};

/// 2026-11-25 12:00 UTC.
const NOON: u64 = 1_795_608_000_000;

fn store() -> MemoryBudgetStore {
    MemoryBudgetStore::with_clock(Arc::new(|| WallTime(NOON)))
}

fn account(name: &str, limits: &[&str]) -> Account {
    Account::new(name, limits).unwrap()
}

/// Definitions of which runs draw on `me`.
fn tables(accounts: impl IntoIterator<Item = Account>) -> AccountTables {
    let set = AccountSet::new(accounts).unwrap();
    AccountTables { set, names: vec!["me".to_owned()], ..AccountTables::default() }
}

fn accounts(store: &MemoryBudgetStore, limits: &[&str]) -> RunAccounts {
    let set = AccountSet::new([account("me", limits)]).unwrap();
    RunAccounts::new(Arc::new(store.clone()), set, &["me"], "test").unwrap()
}

fn run_with(accounts: &RunAccounts, on_unpriced: OnUnpriced) -> RunHandle {
    let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    let id = RunId::new();
    let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    let policy = Policy { on_unpriced: Some(on_unpriced), ..Policy::from(max_steps(99)) };
    let program = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    let accounts = Some(accounts.clone());
    let run =
        RunHandle::root(info, program, RunEnvironment { accounts, ..RunEnvironment::default() });
    run.begin();
    run
}

fn run(accounts: &RunAccounts) -> RunHandle {
    run_with(accounts, OnUnpriced::Stop)
}

fn pricing(model: &str) -> Pricing {
    Pricing::new("anthropic", model, PriceTable::embedded())
}

/// A call of 1,000 input tokens and up to 1,000 output tokens.
fn plan(pricing: &Pricing) -> CallPlan<'_> {
    CallPlan {
        pricing,
        input: InputBound::of_bytes(1_000),
        tool_input: 0,
        max_output: 1_000,
        min_output: 16,
        is_wrap_up: false,
        is_final: true,
        takes_share: false,
        accounts: None,
    }
}

/// Whether the next step of a run begins, with a call that is answered.
fn goes_on(run: &RunHandle, model: &str) -> bool {
    let pricing = pricing(model);
    let plan = plan(&pricing);
    if !run.begin_step(&plan).admits() {
        return false;
    }
    reply(run.begin_call(&plan).unwrap());
    true
}

const SONNET: &str = "claude-sonnet-4-5";
const OPUS: &str = "claude-opus-4-5";

fn reply(call: OpenCall) {
    let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
    call.replied(&Outcome { usage, ..Outcome::default() });
}

fn message(run: &RunHandle) -> String {
    run.look(|run| run.last_stop_signal().cloned()).unwrap().message
}

/// Settled steps of the first limit.
fn steps(store: &MemoryBudgetStore, account: &Account) -> u64 {
    store.read(&[account]).unwrap()[0].limits[0].settled
}

#[test]
fn the_next_reservation_is_under_the_new_limits() {
    let store = store();
    let accounts = accounts(&store, &["9 steps per day"]);
    let run = run(&accounts);
    assert!(goes_on(&run, SONNET));
    assert!(accounts.replace(tables([account("me", &["1 steps per day"])])).is_empty());
    assert!(!goes_on(&run, SONNET));
    let text = message(&run);
    assert!(text.starts_with("budget me has used 1 of 1 step"), "{text}");
    // The spend of the day stays.
    accounts.replace(tables([account("me", &["2 steps per day"])]));
    let other = self::run(&accounts);
    assert!(goes_on(&other, SONNET) && !goes_on(&other, SONNET));
}

#[test]
fn an_account_of_a_model_a_parent_and_a_window_can_be_added() {
    let store = store();
    let accounts = accounts(&store, &["9 steps"]);
    let run = run(&accounts);
    assert!(goes_on(&run, OPUS));
    let mut opus = account("opus", &["1 steps"]);
    opus.models = vec!["claude-opus-*".to_owned()];
    let me = Account {
        parent: Some("org".to_owned()),
        ..account("me", &["9 steps", "9 steps per day"])
    };
    let org = account("org", &["9 steps"]);
    accounts.replace(tables([me.clone(), org.clone(), opus.clone()]));
    assert_eq!(accounts.drawn_names(), ["me", "opus", "org"]);
    assert!(goes_on(&run, OPUS) && goes_on(&run, SONNET) && !goes_on(&run, OPUS));
    assert_eq!((steps(&store, &org), steps(&store, &opus)), (2, 1));
    // A new window begins at nothing.
    let counted = store.read(&[&me]).unwrap().remove(0).limits;
    assert_eq!((counted[0].settled, counted[1].settled), (3, 2));
}

#[test]
fn a_call_in_flight_settles_where_it_was_reserved() {
    let store = store();
    let accounts = accounts(&store, &["9 steps per day"]);
    let run = run(&accounts);
    let pricing = pricing(SONNET);
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    let call = run.begin_call(&plan).unwrap();
    let other = account("me", &["9 steps per week"]);
    accounts.replace(tables([other.clone()]));
    reply(call);
    assert_eq!(steps(&store, &account("me", &["9 steps per day"])), 1);
    assert_eq!(steps(&store, &other), 0);
}

#[test]
fn a_wait_for_a_full_account_ends_when_its_limit_is_raised() {
    let store = store();
    let pausing = |limit: &str| Account { on_full: OnFull::Pause, ..account("me", &[limit]) };
    let accounts = accounts(&store, &["1 steps per day"]);
    accounts.replace(tables([pausing("1 steps per day")]));
    let run = run(&accounts);
    assert!(goes_on(&run, SONNET));
    let pricing = pricing(SONNET);
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    match run.begin_call(&plan) {
        Err(NotBegun::AwaitsAccount(AccountWait::Room { until: Some(_), .. })) => {}
        begun => panic!("{begun:?}"),
    }
    accounts.replace(tables([pausing("2 steps per day")]));
    reply(run.begin_call(&plan).unwrap());
    assert_eq!(steps(&store, &account("me", &["2 steps per day"])), 2);
}

#[test]
fn a_call_that_begins_under_a_new_limit_of_money_has_an_output_cap() {
    let accounts = accounts(&store(), &["9 steps"]);
    let run = run(&accounts);
    let pricing = pricing(SONNET);
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits() && !run.is_metered());
    let source = Arc::new(Scripted::default());
    let accounts = accounts.with_source(Arc::<Scripted>::clone(&source));
    run.set_accounts(Some(accounts));
    source.next(tables([account("me", &["9 steps", "$1"])]));
    let call = run.begin_call(&plan).unwrap();
    assert_eq!(call.output_cap(), Some(1_000));
    reply(call);
}

#[test]
fn a_model_without_a_price_is_refused_by_a_new_limit_of_money() {
    let store = store();
    let steps = accounts(&store, &["9 steps"]);
    for (accounts, is_refused) in [(steps.clone(), false), (steps.refusing_unpriced(), true)] {
        let run = run_with(&accounts, OnUnpriced::Ignore);
        assert!(goes_on(&run, "no-such-model"));
        accounts.replace(tables([account("me", &["$5 per day"])]));
        assert_eq!(goes_on(&run, "no-such-model"), !is_refused);
        if is_refused {
            assert!(message(&run).contains("`no-such-model` has no price"), "{}", message(&run));
        }
    }
}

/// A source that has what the test gives it, and remembers its reports.
#[derive(Debug, Default)]
struct Scripted {
    next: Mutex<Option<AccountTables>>,
    kept: Mutex<Vec<String>>,
}

impl Scripted {
    fn next(&self, tables: AccountTables) {
        *self.next.lock().unwrap() = Some(tables);
    }
}

impl AccountSource for Scripted {
    fn look(&self) -> Option<AccountTables> {
        self.next.lock().unwrap().take()
    }

    fn kept(&self, names: &[String]) {
        self.kept.lock().unwrap().extend_from_slice(names);
    }
}

#[test]
fn an_account_that_is_removed_stays_for_those_that_name_it() {
    let store = store();
    let source = Arc::new(Scripted::default());
    let org = || account("org", &["2 steps"]);
    let team = || Account { parent: Some("org".to_owned()), ..account("team", &["9 steps"]) };
    let opus = || Account { models: vec!["*opus*".to_owned()], ..account("opus", &["0 steps"]) };
    let all = || [account("me", &["9 steps"]), org(), team(), opus()];
    let set = AccountSet::new(all()).unwrap();
    let accounts = RunAccounts::new(Arc::new(store.clone()), set, &["me"], "test").unwrap();
    let accounts = accounts.with_source(Arc::<Scripted>::clone(&source));
    let of_team = accounts.named(&["team"]).unwrap();
    let (one, other) = (run(&accounts), run(&of_team));
    source.next(AccountTables::default());
    assert!(goes_on(&one, SONNET) && goes_on(&other, SONNET));
    // No run draws on the account of a model by name, so it is gone.
    assert!(goes_on(&other, OPUS) && !goes_on(&other, SONNET));
    assert!(message(&other).starts_with("budget org has used 2 of 2 steps"), "{}", message(&other));
    assert_eq!(steps(&store, &account("me", &["9 steps"])), 1);
    assert_eq!(*source.kept.lock().unwrap(), ["me", "org", "team"]);
    // It is reported once, and again only if an account was defined in between.
    source.next(AccountTables::default());
    accounts.refresh();
    source.next(tables([account("me", &["1 steps"])]));
    assert!(!goes_on(&one, SONNET), "the new definition of one that was removed holds");
    source.next(AccountTables::default());
    accounts.refresh();
    assert_eq!(*source.kept.lock().unwrap(), ["me", "org", "team", "me"]);
    // Accounts that nothing names are gone too.
    other.set_accounts(None);
    drop(of_team);
    assert_eq!(accounts.replace(AccountTables::default()), ["me"]);
}

#[test]
fn what_another_process_counts_can_change_too() {
    let accounts = accounts(&store(), &["9 steps"]);
    let counted_elsewhere = vec!["me".to_owned()];
    let me = account("me", &["0 steps"]);
    accounts.replace(AccountTables { counted_elsewhere, ..tables([me]) });
    assert!(goes_on(&run(&accounts), SONNET));
    assert_eq!(accounts.drawn_names(), ["me"]);
}

#[test]
fn a_call_is_admitted_by_the_definitions_that_its_driver_has_seen() {
    let store = store();
    let source = Arc::new(Scripted::default());
    let accounts = accounts(&store, &["9 steps"]).with_source(Arc::<Scripted>::clone(&source));
    let run = run(&accounts);
    let pricing = pricing(SONNET);
    let seen = run.refresh_accounts();
    // Between the questions of one admission, such as whether the call has to be bounded.
    source.next(tables([account("me", &["0 steps"])]));
    let seen = CallPlan { accounts: seen.as_ref(), ..plan(&pricing) };
    assert!(run.begin_step(&seen).admits());
    reply(run.begin_call(&seen).unwrap());
    assert_eq!(steps(&store, &account("me", &["9 steps"])), 1);
    assert!(!goes_on(&run, SONNET), "the next call is admitted by the new ones");
}
