//! Budgets that are killed, and the runs that draw on them.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail as their tests do")]

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::condition::named::max_steps;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::run::Status;
use endstop_price::PriceTable;
use endstop_runtime::account::{Account, AccountSet, MemoryBudgetStore, RunAccounts};
use endstop_runtime::observe::RunInfo;
use endstop_runtime::store::RunId;
use endstop_runtime::{
    CallPlan, InputBound, OpenCall, Outcome, Pricing, RunEnvironment, RunHandle,
};

const SONNET: &str = "claude-sonnet-4-5";
const OPUS: &str = "claude-opus-4-5";

/// All draw on `me`, and calls of Opus on `opus` and its parent `org`.
fn accounts() -> RunAccounts {
    let account = |name| Account::new(name, &["99 steps"]).unwrap();
    let models = vec!["claude-opus-*".to_owned()];
    let opus = Account { models, parent: Some("org".to_owned()), ..account("opus") };
    let set = AccountSet::new([account("me"), opus, account("org")]).unwrap();
    RunAccounts::new(Arc::new(MemoryBudgetStore::new()), set, &["me"], "test").unwrap()
}

fn run(accounts: &RunAccounts) -> RunHandle {
    let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    let id = RunId::new();
    let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    let program = Program::new(&Policy::from(max_steps(99)), &Probes::new()).unwrap();
    let environment =
        RunEnvironment { accounts: Some(accounts.clone()), ..RunEnvironment::default() };
    let run = RunHandle::root(info, Arc::new(program), environment);
    run.begin();
    run
}

/// Begins a step with a call of a model.
fn begin(run: &RunHandle, model: &str) -> Option<OpenCall> {
    let pricing = Pricing::new("anthropic", model, PriceTable::embedded());
    let plan = CallPlan {
        pricing: &pricing,
        input: InputBound::of_bytes(1_000),
        tool_input: 0,
        max_output: 1_000,
        min_output: 16,
        is_wrap_up: false,
        is_final: true,
        takes_share: false,
        accounts: None,
    };
    if !run.begin_step(&plan).admits() {
        return None;
    }
    run.begin_call(&plan).ok()
}

fn goes_on(run: &RunHandle, model: &str) -> bool {
    begin(run, model).map(|call| call.replied(&Outcome::default())).is_some()
}

#[test]
fn only_runs_that_have_asked_for_a_model_of_a_budget_draw_on_it() {
    let accounts = accounts();
    let (one, other) = (run(&accounts), run(&accounts));
    assert!(goes_on(&one, SONNET) && goes_on(&other, SONNET));
    let draw = |run: &RunHandle| ["me", "opus", "org"].map(|name| run.draws_on_budget(name));
    assert_eq!((draw(&one), draw(&other)), ([true, false, false], [true, false, false]));
    // From the reservation on, not only when it is settled.
    let call = begin(&one, OPUS).unwrap();
    assert_eq!((draw(&one), draw(&other)), ([true; 3], [true, false, false]));
    drop(call);
}

#[test]
fn a_killed_budget_of_a_model_stops_a_run_that_asks_for_the_model_and_no_other() {
    let accounts = accounts();
    let (one, other) = (run(&accounts), run(&accounts));
    for run in [&one, &other] {
        assert!(goes_on(run, SONNET));
        run.kill_budget("opus", "too dear");
        run.kill_budget("opus", "again");
        assert!(goes_on(run, SONNET));
    }
    assert!(!goes_on(&one, OPUS));
    assert_eq!(one.status(), Status::Stopped);
    let signal = one.look(|run| run.last_stop_signal().cloned()).unwrap();
    assert_eq!(
        (signal.message.as_str(), signal.reason.to_string().as_str()),
        ("too dear", "user_requested")
    );
    assert!(!goes_on(&one, SONNET) && goes_on(&other, SONNET));
    assert!(accounts.read().unwrap().iter().all(|state| {
        let settled: u64 = state.limits.iter().map(|limit| limit.settled + limit.held).sum();
        settled == if state.account == "me" { 5 } else { 0 }
    }));
}

#[test]
fn a_killed_parent_of_a_budget_refuses_its_calls_too() {
    let run = run(&accounts());
    run.kill_budget("org", "a test");
    assert!(goes_on(&run, SONNET) && !goes_on(&run, OPUS));
}

#[test]
fn the_call_of_a_sub_agent_on_a_killed_budget_stops_the_whole_tree() {
    let root = run(&accounts());
    let program = Program::new(&Policy::from(max_steps(9)), &Probes::new()).unwrap();
    let child = root.child(RunId::new(), "helper", Arc::new(program));
    child.begin();
    root.kill_budget("opus", "a test");
    assert!(!goes_on(&child, OPUS) && !goes_on(&root, SONNET));
    assert!(root.draws_on_budget("opus"));
    assert_eq!((child.status(), root.status()), (Status::Stopped, Status::Stopped));
}
