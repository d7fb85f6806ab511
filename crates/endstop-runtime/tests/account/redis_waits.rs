//! A run that waits for the end of a window in Redis.

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::condition::named::max_steps;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::units::{TokenUsage, WallTime};
use endstop_price::PriceTable;
use endstop_runtime::account::{
    Account, AccountSet, AccountWait, OnFull, RedisBudgetStore, RunAccounts,
};
use endstop_runtime::observe::RunInfo;
use endstop_runtime::store::RunId;
use endstop_runtime::{
    CallPlan, InputBound, NotBegun, OpenCall, Outcome, Pricing, RunEnvironment, RunHandle, Waited,
};

use super::server::RedisServer;
use super::stores::*;

fn run(accounts: &RunAccounts) -> RunHandle {
    let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    let id = RunId::new();
    let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    let program = Program::new(&Policy::from(max_steps(99)), &Probes::new()).unwrap();
    let accounts = Some(accounts.clone());
    let environment = RunEnvironment { accounts, ..RunEnvironment::default() };
    let run = RunHandle::root(info, Arc::new(program), environment);
    run.begin();
    run
}

/// $0.0045.
fn reply(call: OpenCall) {
    let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
    call.replied(&Outcome { usage, ..Outcome::default() });
}

#[tokio::test]
async fn a_run_that_waits_for_a_budget_continues_when_its_window_is_over() {
    let Some(server) = RedisServer::start() else { return };
    let clock = Clock::at(MIDNIGHT + 12 * HOUR);
    let store = RedisBudgetStore::open_with_clock(&server.url(), clock.wall()).unwrap();
    let me = Account { on_full: OnFull::Pause, ..account("me", &["$0.02 per day"]) };
    let set = AccountSet::new([me]).unwrap();
    let accounts = RunAccounts::new(Arc::new(store), set, &["me"], "test").unwrap();
    let run = run(&accounts);
    let pricing = Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded());
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
    for _ in 0..4 {
        assert!(run.begin_step(&plan).admits(), "{:?}", run.status());
        reply(run.begin_call(&plan).unwrap());
    }
    assert!(run.begin_step(&plan).admits(), "{:?}", run.status());
    let tomorrow = MIDNIGHT + 24 * HOUR;
    let mut waits = 0;
    let call = loop {
        match run.begin_call(&plan) {
            Ok(call) => break call,
            Err(NotBegun::AwaitsAccount(wait)) => {
                let AccountWait::Room { until, .. } = &wait else { panic!("{wait:?}") };
                assert_eq!(*until, Some(WallTime(tomorrow)));
                waits += 1;
                if waits == 2 {
                    clock.set(tomorrow);
                }
                assert_eq!(run.wait_for_account(&wait).await, Waited::Done(()));
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    reply(call);
    let limit = accounts.read().unwrap().remove(0).limits.remove(0);
    assert_eq!((waits, limit.settled, limit.held), (2, 4_500_000_000, 0));
}
