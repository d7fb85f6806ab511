//! Calls that wait for the reset of a budget, as observers and the run show them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of these tests fail as their tests do"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop_core::Program;
use endstop_core::condition::named::max_steps;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::units::WallTime;
use endstop_price::PriceTable;
use endstop_runtime::account::{
    Account, AccountRefused, AccountSet, AccountWait, MemoryBudgetStore, OnFull, RunAccounts,
};
use endstop_runtime::observe::{Observation, Observer, RunInfo};
use endstop_runtime::store::RunId;
use endstop_runtime::{
    CallPlan, InputBound, NotBegun, Outcome, Pricing, RunEnvironment, RunHandle, ShownAccountWait,
};

/// The accounts that calls waited for, and the ends of waits, with the name of the agent.
#[derive(Default)]
struct Told(Mutex<Vec<(String, Option<String>)>>);

impl Observer for Told {
    fn observe(&self, _: &Observation<'_>) {}

    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        let account = refused.map(|refused| refused.account.clone());
        self.0.lock().unwrap().push((info.agent.clone(), account));
    }
}

fn program() -> Arc<Program> {
    Arc::new(Program::new(&Policy::from(max_steps(9)), &Probes::new()).unwrap())
}

fn pricing() -> Pricing {
    Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded())
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

/// Begins and answers a call of a run.
fn call(run: &RunHandle) {
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    run.begin_call(&plan).unwrap().replied(&Outcome::default());
}

/// Why the next call of a run waits.
fn wait_of(run: &RunHandle) -> AccountWait {
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    match run.begin_call(&plan) {
        Err(NotBegun::AwaitsAccount(wait)) => wait,
        other => panic!("{other:?}"),
    }
}

/// A root run that draws on the full budget `me`, and a child of it.
fn runs(told: &Arc<Told>) -> (RunHandle, RunHandle) {
    let me =
        Account { on_full: OnFull::Pause, ..Account::new("me", &["1 steps per month"]).unwrap() };
    let set = AccountSet::new([me]).unwrap();
    let store = Arc::new(MemoryBudgetStore::with_clock(Arc::new(|| WallTime(1_795_608_000_000))));
    let accounts = RunAccounts::new(store, set, &["me"], "test").unwrap();
    let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    let id = RunId::new();
    let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    let environment = RunEnvironment {
        accounts: Some(accounts),
        observers: vec![Arc::clone(told) as Arc<dyn Observer>],
        ..RunEnvironment::default()
    };
    let run = RunHandle::root(info, program(), environment);
    run.begin();
    let child = run.child(RunId::new(), "helper", program());
    child.begin();
    call(&run);
    (run, child)
}

#[test]
fn the_first_wait_and_the_end_of_the_last_are_told_for_the_whole_tree() {
    let told = Arc::new(Told::default());
    let (run, child) = runs(&told);
    let (mut one, mut other) = (ShownAccountWait::default(), ShownAccountWait::default());
    let wait = wait_of(&child);
    assert!(matches!(&wait, AccountWait::Room { until: Some(_), .. }), "{wait:?}");
    one.show(&child, &wait);
    one.show(&child, &wait);
    other.show(&run, &wait);
    assert_eq!(run.awaited_account().unwrap().account, "me");
    drop(one);
    assert!(run.awaited_account().is_some() && told.0.lock().unwrap().len() == 1);
    // A wait for the store is none for a budget.
    other.show(&run, &AccountWait::Store { why: "away".to_owned(), lasts: Duration::ZERO });
    assert_eq!(run.awaited_account(), None);
    drop(other);
    let main = || "main".to_owned();
    assert_eq!(*told.0.lock().unwrap(), [(main(), Some("me".to_owned())), (main(), None)]);
}

#[test]
fn calls_that_wait_for_different_budgets_are_told_once_each_however_often_they_look_again() {
    let told = Arc::new(Told::default());
    let (run, child) = runs(&told);
    let AccountWait::Room { refused, until } = wait_of(&run) else { panic!("it waits for room") };
    let of = |account: &str, until| {
        let mut refused = refused.clone();
        refused.account = account.to_owned();
        AccountWait::Room { refused, until }
    };
    let awaited = || run.awaited_account().map(|refused| refused.account);
    let (mut one, mut other) = (ShownAccountWait::default(), ShownAccountWait::default());
    // Only calls in flight are in the way.
    one.show(&run, &of("a", None));
    assert_eq!(awaited(), None);
    for _ in 0..3 {
        one.show(&run, &of("a", until));
        other.show(&child, &of("b", until));
        one.show(&run, &of("a", None));
    }
    assert_eq!(awaited().as_deref(), Some("b"));
    other.end();
    assert_eq!(awaited().as_deref(), Some("a"), "one call waits for it");
    other.show(&child, &of("a", until));
    one.show(&run, &of("b", until));
    one.end();
    assert_eq!(awaited().as_deref(), Some("a"), "the other waits for it");
    drop((one, other));
    assert_eq!(awaited(), None);
    let told: Vec<Option<String>> =
        told.0.lock().unwrap().iter().map(|(_, account)| account.clone()).collect();
    assert_eq!(
        told,
        ["a", "b", "b", ""].map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()))
    );
}
