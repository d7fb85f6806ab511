//! Calls of runs on accounts: what is held, settled and refused, and waits for room.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail as their tests do")]

#[path = "../../../tests/support/flaky_store.rs"]
mod flaky_store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop_core::condition::named::max_steps;
use endstop_core::policy::{OnUnpriced, Policy};
use endstop_core::probe::Probes;
use endstop_core::run::Directive;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};
use endstop_core::{Program, Status};
use endstop_price::PriceTable;
use endstop_runtime::account::{
    Account, AccountSet, AccountWait, AccountWarning, Adjustment, BudgetStore, BudgetStoreError,
    LimitState, MemoryBudgetStore, OnFull, RunAccounts,
};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::observe::{Detail, RunInfo};
use endstop_runtime::store::RunId;
use endstop_runtime::{
    CallPlan, InputBound, NotBegun, OpenCall, Outcome, Pricing, RunEnvironment, RunHandle,
    ToolNotBegun, Waited,
};
use flaky_store::{FlakyStore, away};
use tokio::time::Instant;

/// 2026-11-25 12:00 UTC.
const NOON: u64 = 1_795_608_000_000;

fn pricing() -> Pricing {
    Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded())
}

/// A call of 1,000 input tokens (at most $0.00375, if they are written to a cache) and up to 1,000 output tokens ($0.015).
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

fn policy() -> Policy {
    Policy { on_unpriced: Some(OnUnpriced::Stop), ..Policy::from(max_steps(99)) }
}

fn run(accounts: &RunAccounts) -> RunHandle {
    let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    let id = RunId::new();
    let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    let program = Arc::new(Program::new(&policy(), &Probes::new()).unwrap());
    let accounts = Some(accounts.clone());
    let run =
        RunHandle::root(info, program, RunEnvironment { accounts, ..RunEnvironment::default() });
    run.begin();
    run
}

fn accounts(store: impl BudgetStore + 'static, account: Account) -> RunAccounts {
    let name = account.name.clone();
    let set = AccountSet::new([account]).unwrap();
    RunAccounts::new(Arc::new(store), set, &[&name], "test").unwrap()
}

fn me(limits: &[&str]) -> Account {
    Account::new("me", limits).unwrap()
}

fn first(accounts: &RunAccounts) -> LimitState {
    accounts.read().unwrap().remove(0).limits.remove(0)
}

fn begin(run: &RunHandle) -> Result<OpenCall, NotBegun> {
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits(), "{:?}", run.status());
    run.begin_call(&plan)
}

/// $0.003 + $0.0015.
fn reply(call: OpenCall) {
    let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
    call.replied(&Outcome { usage, ..Outcome::default() });
}

fn signal(run: &RunHandle) -> StopSignal {
    run.look(|run| run.last_stop_signal().cloned()).unwrap()
}

#[test]
fn a_call_holds_its_worst_case_and_settles_at_its_cost() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$1 per day", "9 steps", "1M tokens"]));
    let run = run(&accounts);
    let call = begin(&run).unwrap();
    let states = accounts.read().unwrap().remove(0).limits;
    let held: Vec<u64> = states.iter().map(|limit| limit.held).collect();
    assert_eq!(held, [18_750_000_000, 1, 2_000]);
    reply(call);
    let states = accounts.read().unwrap().remove(0).limits;
    let both: Vec<_> = states.iter().map(|limit| (limit.settled, limit.held)).collect();
    assert_eq!(both, [(4_500_000_000, 0), (1, 0), (1_100, 0)]);
    assert_eq!(run.cost(), Cost::Known("0.0045".parse().unwrap()));
}

#[test]
fn a_retry_is_no_second_step() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["9 steps"]));
    let run = run(&accounts);
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    for _ in 0..3 {
        reply(run.begin_call(&plan).unwrap());
    }
    assert_eq!(first(&accounts).settled, 1);
}

#[test]
fn the_output_cap_is_lowered_to_what_the_account_leaves() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$0.0105 per day"]));
    let run = run(&accounts);
    let call = begin(&run).unwrap();
    assert_eq!(call.output_cap(), Some(450));
    assert_eq!(call.lowered_by(), Some(StopReason::CostLimitReached));
    reply(call);
    // $0.006 are left: 150 more output tokens.
    let call = begin(&run).unwrap();
    assert_eq!(call.output_cap(), Some(150));
    reply(call);
    assert_eq!(first(&accounts).settled, 9_000_000_000);
}

#[test]
fn a_full_account_stops_the_run_before_its_step() {
    let store = MemoryBudgetStore::with_clock(Arc::new(|| WallTime(NOON)));
    let accounts = accounts(store, me(&["$0.005 per day"]));
    let run = run(&accounts);
    reply(begin(&run).unwrap());
    let pricing = pricing();
    assert!(!run.begin_step(&plan(&pricing)).admits());
    let signal = signal(&run);
    assert_eq!(signal.reason, StopReason::CostLimitReached);
    assert_eq!(signal.source.as_deref(), Some("budget:me"));
    assert_eq!(
        signal.message,
        "budget me has used $0.0045 of $0.005 per day, and this call could cost $0.004; resets in 12h, \
         at 2026-11-26 00:00 UTC"
    );
    assert_eq!(run.look(|run| run.step_count()), 1);
    assert!(run.is_out_of_budget());
    // Another run is refused at its first call.
    let other = self::run(&accounts);
    assert!(!other.begin_step(&plan(&pricing)).admits());
    assert_eq!(first(&accounts).settled, 4_500_000_000);
}

#[test]
fn a_call_that_costs_nothing_goes_on_beside_an_overspent_account() {
    let store = MemoryBudgetStore::new();
    let account = me(&["$0.01 per day"]);
    let spent = Amounts { cost: "0.02".parse().unwrap(), ..Amounts::ZERO };
    let (returned, who, why) = (Amounts::ZERO, "test", "overspent");
    let parents = &[];
    let adjustment = Adjustment { id: "a", account: &account, parents, spent, returned, who, why };
    store.adjust(&adjustment).unwrap();
    let accounts = accounts(store, account.clone());
    let run = run(&accounts);
    let table = r#"{"version":"ours 1","providers":[{"id":"lab","models":[{"id":"small",
        "match":{"equals":"small"},"prices":{"input_mtok":0,"output_mtok":0}}]}]}"#;
    let table = Box::leak(Box::new(PriceTable::from_json(table).unwrap()));
    let pricing = Pricing::new("lab", "small", table);
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits(), "{:?}", signal(&run));
    let call = run.begin_call(&plan).unwrap();
    assert_eq!(call.output_cap(), Some(1_000));
    reply(call);
    // A call that costs something is refused.
    assert!(!run.begin_step(&self::plan(&self::pricing())).admits());
}

#[test]
fn a_count_of_the_input_helps_where_an_account_alone_is_short() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$0.01 per day"]));
    let run = run(&accounts);
    let pricing = pricing();
    let wants = |tokens, counted| {
        let input = InputBound { tokens, counted };
        run.would_gain_by_count(&CallPlan { input, max_output: 100, ..plan(&pricing) })
    };
    // At most $0.00375 for a thousand.
    assert!(!wants(1_000, 0));
    assert!(wants(9_000, 0));
    assert!(!wants(9_000, 8_000));
}

#[test]
fn each_unit_has_its_stop_reason() {
    for (limit, reason) in [
        ("0 steps", StopReason::StepsLimitReached),
        ("900 tokens", StopReason::TokenLimitReached),
        ("$0", StopReason::CostLimitReached),
    ] {
        let accounts = accounts(MemoryBudgetStore::new(), me(&[limit]));
        let run = run(&accounts);
        assert!(!run.begin_step(&plan(&pricing())).admits());
        assert_eq!((signal(&run).reason, run.status()), (reason, Status::Stopped), "{limit}");
    }
}

#[test]
fn a_call_that_is_dropped_counts_its_worst_case() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$1"]));
    let run = run(&accounts);
    drop(begin(&run).unwrap());
    assert_eq!((first(&accounts).settled, first(&accounts).held), (18_750_000_000, 0));
}

#[test]
fn the_rules_of_the_run_refuse_without_a_trace_on_the_account() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$1"]));
    let run = run(&accounts);
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    run.raise(&StopSignal::new(StopReason::StopRequested));
    assert!(matches!(run.begin_call(&plan), Err(NotBegun::Over(Status::Stopped))));
    assert_eq!((first(&accounts).settled, first(&accounts).held), (0, 0));
}

#[test]
fn a_model_without_a_price_is_refused_where_an_account_limits_money() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$1"]));
    let run = run(&accounts);
    let pricing = Pricing::new("nobody", "no-such-model", PriceTable::embedded());
    assert!(!run.begin_step(&plan(&pricing)).admits());
    assert!(signal(&run).message.contains("`no-such-model` has no price"), "{:?}", signal(&run));
}

#[tokio::test]
async fn a_call_waits_for_the_calls_of_others() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$0.02"]));
    let (one, other) = (run(&accounts), run(&accounts));
    let call = begin(&one).unwrap();
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(other.begin_step(&plan).admits());
    let wait = match other.begin_call(&plan) {
        Err(NotBegun::AwaitsAccount(wait)) => wait,
        begun => panic!("{begun:?}"),
    };
    assert!(matches!(wait, AccountWait::Room { until: None, .. }));
    assert_eq!(other.wait_for_account(&wait).await, Waited::Done(()));
    reply(call);
    reply(other.begin_call(&plan).unwrap());
    assert_eq!(first(&accounts).settled, 9_000_000_000);
}

#[test]
fn a_response_that_ends_at_a_cap_of_others_stops_nothing() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$0.03"]));
    let (one, other) = (run(&accounts), run(&accounts));
    let first = begin(&one).unwrap();
    assert_eq!(first.output_cap(), Some(1_000));
    // $0.01125 are left next to it: more than a quarter of the room without it.
    let second = begin(&other).unwrap();
    assert_eq!((second.output_cap(), second.lowered_by()), (Some(500), None));
    assert!(second.is_cut_by_others(Some("max_tokens")));
    assert!(!second.can_be_repeated());
    let usage = TokenUsage { input: 1_000, output: 500, ..TokenUsage::default() };
    let finish = Some("max_tokens");
    second.replied(&Outcome { usage, finish, ..Outcome::default() });
    assert_eq!(other.status(), Status::InProgress);
    reply(first);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_reset_continues_by_itself() {
    let clock = Arc::new(AtomicU64::new(NOON));
    let wall = Arc::clone(&clock);
    let store =
        MemoryBudgetStore::with_clock(Arc::new(move || WallTime(wall.load(Ordering::SeqCst))));
    let mut account = me(&["$0.02 per day"]);
    account.on_full = OnFull::Pause;
    let accounts = accounts(store, account);
    let run = run(&accounts);
    for _ in 0..4 {
        reply(begin(&run).unwrap());
    }
    let pricing = pricing();
    let plan = plan(&pricing);
    assert!(run.begin_step(&plan).admits());
    let mut waits = 0;
    let call = loop {
        match run.begin_call(&plan) {
            Ok(call) => break call,
            Err(NotBegun::AwaitsAccount(wait)) => {
                let AccountWait::Room { until, .. } = &wait else { panic!("{wait:?}") };
                assert_eq!(*until, Some(WallTime(NOON + 12 * 3_600_000)));
                let begun = tokio::time::Instant::now();
                assert_eq!(run.wait_for_account(&wait).await, Waited::Done(()));
                assert!(begun.elapsed() <= Duration::from_secs(1), "asked again in time");
                waits += 1;
                if waits == 5 {
                    clock.store(NOON + 12 * 3_600_000, Ordering::SeqCst);
                }
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    reply(call);
    assert_eq!((waits, first(&accounts).settled), (5, 4_500_000_000));
    // A person ends the wait.
    run.token().cancel(
        StopSignal::new(StopReason::UserRequested),
        endstop_runtime::cancel::Urgency::Graceful,
    );
}

#[test]
fn a_call_that_wants_more_than_the_whole_limit_waits_for_the_reset() {
    let store = MemoryBudgetStore::with_clock(Arc::new(|| WallTime(NOON)));
    let mut account = me(&["$0.01 per hour"]);
    account.on_full = OnFull::Pause;
    let accounts = accounts(store, account);
    let run = run(&accounts);
    for _ in 0..2 {
        reply(begin(&run).unwrap());
    }
    // $0.001 are left; the least is $0.00399, and $0.01875 are wanted.
    match begin(&run) {
        Err(NotBegun::AwaitsAccount(wait)) => {
            let AccountWait::Room { until, .. } = &wait else { panic!("{wait:?}") };
            assert_eq!(*until, Some(WallTime(NOON + 3_600_000)));
        }
        begun => panic!("{begun:?}"),
    }
    assert_eq!((first(&accounts).settled, first(&accounts).held), (9_000_000_000, 0));
}

#[test]
fn accounts_of_models_are_drawn_on_by_their_calls_alone() {
    let mut opus = Account::new("opus", &["$0.001"]).unwrap();
    opus.models = vec!["claude-opus-*".to_owned()];
    let set = AccountSet::new([me(&["$1"]), opus]).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &["me"], "test").unwrap();
    let run = run(&accounts);
    reply(begin(&run).unwrap());
    let opus = Pricing::new("anthropic", "claude-opus-4-5", PriceTable::embedded());
    assert!(!run.begin_step(&plan(&opus)).admits());
    assert_eq!(signal(&run).source.as_deref(), Some("budget:opus"));
}

#[test]
fn an_account_that_is_not_defined_is_refused() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$1"]));
    let error = accounts.named(&["me", "team-b"]).unwrap_err();
    assert_eq!(error.to_string(), "[budget.team-b]: it is not defined");
    let (store, set) = (Arc::new(MemoryBudgetStore::new()), AccountSet::default());
    assert_eq!(RunAccounts::new(store, set, &["team-b"], "test").unwrap_err(), error);
    assert!(accounts.named(&["me"]).is_ok());
}

#[test]
fn a_threshold_warns_once_per_window() {
    let mut account = me(&["$0.01 per day"]);
    account.warn = Some(80);
    let warned = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&warned);
    let accounts = accounts(MemoryBudgetStore::new(), account)
        .with_warnings(move |warning| said.lock().unwrap().push(warning.to_string()));
    let run = run(&accounts);
    for _ in 0..2 {
        reply(begin(&run).unwrap());
    }
    run.begin_step(&plan(&pricing()));
    let warned = warned.lock().unwrap();
    assert_eq!(*warned, ["budget me: $0.009 of $0.01 per day spent (warns at 80%)"]);
}

#[test]
fn a_rolling_limit_warns_again_once_its_spend_was_below_or_its_length_is_over() {
    let now = Arc::new(AtomicU64::new(NOON));
    let wall = Arc::clone(&now);
    let store =
        MemoryBudgetStore::with_clock(Arc::new(move || WallTime(wall.load(Ordering::SeqCst))));
    let mut account = me(&["$0.04 per rolling 5h"]);
    account.warn = Some(20);
    let warned = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&warned);
    let accounts = accounts(store, account)
        .with_warnings(move |warning| said.lock().unwrap().push(warning.clone()));
    let run = run(&accounts);
    let call_and_count = || {
        reply(begin(&run).unwrap());
        warned.lock().unwrap().len()
    };
    // $0.0045 each: the threshold is $0.008.
    assert_eq!([0, 1, 2].map(|_| call_and_count()), [0, 1, 1]);
    let hours = |hours: u64| now.fetch_add(hours * 3_600_000, Ordering::SeqCst);
    hours(6);
    assert_eq!([0, 1].map(|_| call_and_count()), [1, 2], "below in between");
    hours(3);
    assert_eq!(call_and_count(), 2);
    hours(3);
    // The spend was above the threshold at each look.
    assert_eq!([0, 1].map(|_| call_and_count()), [3, 3], "its length is over");
    let AccountWarning::Threshold(first) = warned.lock().unwrap()[0].clone() else { panic!() };
    assert_eq!((first.account.as_str(), first.percent(), first.threshold), ("me", 22, 20));
    assert_eq!(first.limit.to_string(), "$0.04 per rolling 5h");
    assert!(first.resets_at.is_some_and(|at| at.0 > NOON), "{first:?}");
}

#[test]
fn a_cost_that_no_store_counts_is_told_in_words() {
    let flaky = FlakyStore::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let accounts = accounts(flaky.clone(), me(&["$1"]))
        .with_warnings(move |warning| telling.lock().unwrap().push(warning.to_string()));
    let run = run(&accounts);
    let call = run.begin_tool_call_at_most("search", None, Detail::None).unwrap();
    let damaged =
        || BudgetStoreError::Damaged { path: "test".into(), why: "on purpose".to_owned() };
    flaky.fail(Some(damaged));
    call.succeeded(Some("0.05".parse().unwrap()));
    let told = told.lock().unwrap();
    let is_said = told.iter().all(|text| {
        text.starts_with("a cost is not counted in the budgets: ") && text.contains("on purpose")
    });
    assert!(told.len() == 1 && is_said, "{told:?}");
}

#[test]
fn a_cost_that_nothing_was_held_for_is_counted_once_the_store_is_back() {
    let flaky = FlakyStore::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let accounts = accounts(flaky.clone(), me(&["$1"]))
        .with_warnings(move |warning| telling.lock().unwrap().push(warning.to_string()));
    let run = run(&accounts);
    let spent = || accounts.read().unwrap().remove(0).limits.remove(0).settled;
    let call = run.begin_tool_call_at_most("search", None, Detail::None).unwrap();
    flaky.fail(Some(away));
    call.succeeded(Some("0.05".parse().unwrap()));
    flaky.fail(None);
    assert_eq!(spent(), 0);
    reply(begin(&run).unwrap());
    let once = spent();
    // With the cost of the model call, which is less.
    assert!((50_000_000_000..100_000_000_000).contains(&once), "{once}");
    reply(begin(&run).unwrap());
    assert!(spent() < 100_000_000_000, "{}", spent());
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn nothing_is_sent_that_no_store_can_count() {
    let flaky = FlakyStore::default();
    let accounts = accounts(flaky.clone(), me(&["$1"]));
    let run = run(&accounts);
    let damaged =
        || BudgetStoreError::Damaged { path: "test".into(), why: "on purpose".to_owned() };
    flaky.fail(Some(damaged));
    assert!(!run.begin_step(&plan(&pricing())).admits());
    assert_eq!((signal(&run).reason, run.status()), (StopReason::ErrorForbade, Status::Failed));
}

#[tokio::test(start_paused = true)]
async fn calls_wait_ten_seconds_for_a_store_that_is_away() {
    let flaky = FlakyStore::default();
    let accounts = accounts(flaky.clone(), me(&["$1"]));
    let run = run(&accounts);
    let wait = |run: &RunHandle| match begin(run) {
        Err(NotBegun::AwaitsAccount(wait)) => wait,
        other => panic!("{other:?}"),
    };
    let outage = Instant::now();
    flaky.fail(Some(away));
    loop {
        let wait = wait(&run);
        if wait.is_over() {
            break;
        }
        assert_eq!(run.wait_for_account(&wait).await, Waited::Done(()));
    }
    assert_eq!(outage.elapsed(), Duration::from_secs(10));
    // An outage ends when the store is back, and when nothing has failed for long.
    flaky.fail(None);
    reply(begin(&run).unwrap());
    flaky.fail(Some(away));
    assert!(!wait(&run).is_over());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let last = wait(&run);
    assert!(!last.is_over() && run.status() == Status::InProgress);
    run.give_up_on_account(&last);
    assert_eq!((signal(&run).reason, run.status()), (StopReason::ErrorForbade, Status::Failed));
}

#[test]
fn a_settlement_that_the_store_does_not_take_is_repeated() {
    let flaky = FlakyStore::default();
    let accounts = accounts(flaky.clone(), me(&["$1"]));
    let run = run(&accounts);
    let call = begin(&run).unwrap();
    flaky.fail(Some(away));
    reply(call);
    flaky.fail(None);
    assert_eq!(first(&accounts).held, 18_750_000_000);
    reply(begin(&run).unwrap());
    assert_eq!((first(&accounts).settled, first(&accounts).held), (9_000_000_000, 0));
}

#[test]
fn costs_of_tools_are_held_and_settled_on_accounts() {
    let accounts = accounts(MemoryBudgetStore::new(), me(&["$0.50 per day"]));
    let run = run(&accounts);
    let cents = |cents: u64| Money::from_picos(cents * 10_000_000_000);
    let both = || (first(&accounts).settled, first(&accounts).held);
    let begin = |most| run.begin_tool_call_at_most("search", most, Detail::None);
    let call = begin(Some(cents(30))).unwrap();
    assert_eq!(both(), (0, cents(30).picos()));
    // It would fit once the first is settled.
    assert!(matches!(begin(Some(cents(30))), Err(ToolNotBegun::AwaitsAccount(_))));
    call.succeeded(Some(cents(12)));
    assert_eq!(both(), (cents(12).picos(), 0));
    drop(begin(Some(cents(10))).unwrap());
    begin(None).unwrap().succeeded(Some(cents(5)));
    begin(Some(cents(3))).unwrap().not_made();
    assert_eq!(both(), (cents(27).picos(), 0));
    assert_eq!(begin(Some(cents(30))).unwrap_err(), ToolNotBegun::Refused(Directive::Stop));
    assert_eq!(run.status(), Status::Stopped);
    let signal = signal(&run);
    assert_eq!(signal.reason, StopReason::CostLimitReached);
    assert_eq!(signal.source.as_deref(), Some("budget:me"));
    assert_eq!(both(), (cents(27).picos(), 0));
}
