//! The history of runs: what it has is what the runs report, whatever happens to their calls and to its writers.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail as their tests do")]

#[cfg(unix)]
#[path = "history/kill.rs"]
mod kill;
#[path = "../../../tests/support/wal.rs"]
mod log_places;
#[path = "history/wal.rs"]
mod wal;

use std::path::PathBuf;
use std::sync::Arc;

use endstop_core::condition::named::max_steps;
use endstop_core::event::EventKind;
use endstop_core::policy::{FallbackRates, OnUnpriced, Policy};
use endstop_core::probe::Probes;
use endstop_core::units::{Money, TokenUsage};
use endstop_core::{Program, Status};
use endstop_price::PriceTable;
use endstop_runtime::account::{Account, AccountSet, MemoryBudgetStore, RunAccounts};
use endstop_runtime::history::{
    History, HistoryOrigin, HistoryRecorder, RecordedCall, RecordedRun,
};
use endstop_runtime::observe::{Detail, Observer, Reporter, RunInfo};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{Replay, TraceRecorder};
use endstop_runtime::{
    CallPlan, InputBound, ModelError, ModelErrorKind, OpenCall, Outcome, Pricing, Received,
    RunEnvironment, RunHandle,
};

/// A history in its own directory.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("endstop-history-{}", RunId::new())))
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.sqlite")
    }

    fn recorder(&self) -> Arc<HistoryRecorder> {
        Arc::new(HistoryRecorder::new(self.file(), origin()))
    }

    fn history(&self) -> History {
        History::open(self.file()).unwrap().unwrap()
    }

    fn run(&self, run: &RunHandle) -> (RecordedRun, Vec<RecordedCall>) {
        let history = self.history();
        let recorded = history.run(run.info().id.as_str()).unwrap().unwrap();
        let mut calls = Vec::new();
        history.each_call_of(&recorded, |call| calls.push(call)).unwrap();
        (recorded, calls)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn origin() -> HistoryOrigin {
    let (kind, program, directory) = ("run".into(), "agent".into(), "shop".into());
    HistoryOrigin { kind, program, directory }
}

fn info(id: RunId) -> RunInfo {
    let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false }
}

fn program(policy: &Policy) -> Arc<Program> {
    Arc::new(Program::new(policy, &Probes::new()).unwrap())
}

fn watched(observers: Vec<Arc<dyn Observer>>) -> RunEnvironment {
    RunEnvironment { observers, ..RunEnvironment::default() }
}

fn pricing() -> Pricing {
    Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded())
}

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

fn step(run: &RunHandle, pricing: &Pricing) -> OpenCall {
    let plan = plan(pricing);
    assert!(run.begin_step(&plan).admits(), "{:?}", run.status());
    run.begin_call(&plan).unwrap()
}

fn retry(run: &RunHandle, pricing: &Pricing) -> OpenCall {
    run.begin_call(&plan(pricing)).unwrap()
}

fn reply(call: OpenCall) {
    let usage = TokenUsage { input: 700, cache_read: 300, output: 101, ..TokenUsage::default() };
    call.replied(&Outcome { usage, ..Outcome::default() });
}

fn sum(calls: &[RecordedCall]) -> Money {
    calls.iter().fold(Money::ZERO, |sum, call| sum.checked_add(call.cost).unwrap())
}

fn unconfirmed(calls: &[RecordedCall]) -> Money {
    calls.iter().fold(Money::ZERO, |sum, call| sum.checked_add(call.unconfirmed).unwrap())
}

/// A run and its sub-agent, with a call of every kind.
fn busy_run(run: &RunHandle) {
    let pricing = pricing();
    run.begin();
    reply(step(run, &pricing));
    run.record(&EventKind::StepEnd, Detail::None);
    // Refused without a charge, then cut off after a part, then answered.
    let refused = ModelError::new(ModelErrorKind::Rejected, "no");
    step(run, &pricing).failed(&refused, &Received::default());
    let told = TokenUsage { input: 900, ..TokenUsage::default() };
    let part = Received { usage: Some(told), output_bytes: 300, is_stream: true, choices: 1 };
    retry(run, &pricing).failed(&ModelError::new(ModelErrorKind::Truncated, "cut"), &part);
    reply(retry(run, &pricing));
    run.record(&EventKind::StepEnd, Detail::None);
    // Aborted in flight: its worst case.
    drop(step(run, &pricing));
    run.record(&EventKind::StepEnd, Detail::None);
    // A sub-agent, and tools that cost money.
    run.record(&EventKind::ChildBegin { depth: 1 }, Detail::None);
    let below = Policy { unbounded: true, on_unpriced: None, ..Policy::default() };
    let child = run.child(RunId::new(), "helper", program(&below));
    child.begin();
    reply(step(&child, &pricing));
    let cents = |cents: u64| Some(Money::from_picos(cents * 10_000_000_000));
    let tool = |most| child.begin_tool_call_at_most("search", most, Detail::None).unwrap();
    tool(cents(3)).succeeded(cents(2));
    tool(cents(3)).failed(None);
    tool(None).succeeded(cents(1));
    child.record(&EventKind::StepEnd, Detail::None);
    child.ended();
    run.record(&EventKind::ChildEnd, Detail::None);
    // A model without a price.
    let unpriced = Pricing::new("nobody", "no-such-model", PriceTable::embedded());
    reply(step(run, &unpriced));
    run.record(&EventKind::StepEnd, Detail::None);
}

#[test]
fn the_calls_of_a_run_add_up_to_its_report() {
    let rates = FallbackRates { input: "3".parse().unwrap(), output: "15".parse().unwrap() };
    for on_unpriced in [OnUnpriced::Ignore, OnUnpriced::Rates(rates)] {
        let place = Place::new();
        let last = Arc::new(std::sync::Mutex::new(None));
        let into = Arc::clone(&last);
        let reporter = Reporter::new(move |report| *into.lock().unwrap() = Some(report.clone()));
        let recorder = place.recorder();
        let environment = watched(vec![Arc::clone(&recorder) as _, Arc::new(reporter)]);
        let policy = Policy { on_unpriced: Some(on_unpriced), ..Policy::from(max_steps(99)) };
        let run = RunHandle::root(info(RunId::new()), program(&policy), environment);
        busy_run(&run);
        run.ended();
        let report = last.lock().unwrap().take().unwrap();
        let (recorded, calls) = place.run(&run);
        assert_eq!(sum(&calls).to_decimal(), report.spend.usd, "{calls:#?}");
        assert_eq!(unconfirmed(&calls), report.spend.unconfirmed_usd);
        let tokens: u64 = calls.iter().map(|call| call.input + call.output).sum();
        assert_eq!(tokens, report.totals.tokens);
        let unpriced = calls.iter().filter(|call| !call.is_priced).count();
        assert_eq!(unpriced as u64, report.spend.unpriced_calls);
        // All but the refused one; three of the nine are tools.
        assert_eq!(calls.len(), 9);
        assert_eq!(calls.iter().filter(|call| call.tool.is_some()).count(), 3);
        assert!(calls.iter().all(|call| call.run == run.info().id.as_str()));
        assert_eq!((recorded.sub_agents, recorded.origin), (1, origin()));
        assert_eq!(recorder.finish(), 0);
    }
}

#[test]
fn a_call_names_the_budgets_that_it_is_charged_to_and_the_key() {
    let place = Place::new();
    let org = Account::new("org", &["$100 per day"]).unwrap();
    let mut me = Account::new("me", &["$50 per day"]).unwrap();
    me.parent = Some("org".to_owned());
    let mut opus = Account::new("opus", &["$10 per day"]).unwrap();
    opus.models = vec!["claude-opus-*".to_owned()];
    let set = AccountSet::new([org, me, opus]).unwrap();
    let accounts =
        RunAccounts::new(Arc::new(MemoryBudgetStore::new()), set, &["me"], "test").unwrap();
    let environment =
        RunEnvironment { accounts: Some(accounts), ..watched(vec![place.recorder()]) };
    let run =
        RunHandle::root(info(RunId::new()), program(&Policy::from(max_steps(9))), environment);
    run.begin();
    run.set_key("alice");
    let call = step(&run, &pricing());
    // It belongs to the key that it began with.
    run.set_key("bob");
    reply(call);
    run.record(&EventKind::StepEnd, Detail::None);
    let opus = Pricing::new("anthropic", "claude-opus-4-5", PriceTable::embedded());
    reply(step(&run, &opus));
    let (_, calls) = place.run(&run);
    let mut of_calls: Vec<(Vec<String>, Option<String>)> =
        calls.into_iter().map(|call| (call.budgets, call.key)).collect();
    of_calls.iter_mut().for_each(|(budgets, _)| budgets.sort());
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let expected = [
        (named(&["me", "org"]), Some("alice".to_owned())),
        (named(&["me", "opus", "org"]), Some("bob".to_owned())),
    ];
    assert_eq!(of_calls, expected);
}

#[test]
fn a_call_that_a_dead_process_left_in_flight_is_recorded_when_its_run_continues() {
    let place = Place::new();
    let trace = place.0.join("trace.jsonl");
    std::fs::create_dir_all(&place.0).unwrap();
    let (id, policy) = (RunId::parse("kept").unwrap(), Policy::from(max_steps(9)));
    {
        let tracer = Arc::new(TraceRecorder::one_file(std::fs::File::create(&trace).unwrap()));
        let environment = watched(vec![place.recorder(), tracer]);
        let run = RunHandle::root(info(id.clone()), program(&policy), environment);
        run.begin();
        reply(step(&run, &pricing()));
        run.record(&EventKind::StepEnd, Detail::None);
        // The process dies here: nothing settles the call.
        std::mem::forget(step(&run, &pricing()));
    }
    let mut replay = Replay::new(program(&policy));
    for line in std::fs::read_to_string(&trace).unwrap().lines().skip(1) {
        replay.take_line(line.as_bytes()).unwrap();
    }
    let info = RunInfo { is_resumed: true, ..info(id) };
    let run = RunHandle::replayed(info, replay.finish(), watched(vec![place.recorder()]));
    let (_, calls) = place.run(&run);
    assert_eq!(calls.len(), 2);
    assert_eq!(sum(&calls).to_decimal(), run.report().spend.usd);
    assert!(calls[1].unconfirmed == calls[1].cost && !calls[1].cost.is_zero(), "{calls:?}");
    reply(step(&run, &pricing()));
    let (_, calls) = place.run(&run);
    assert_eq!((calls.len(), sum(&calls).to_decimal()), (3, run.report().spend.usd));
}

#[test]
fn a_call_that_is_in_the_history_and_not_in_the_log_is_recorded_once_when_its_run_continues() {
    let place = Place::new();
    let trace = place.0.join("trace.jsonl");
    std::fs::create_dir_all(&place.0).unwrap();
    let (id, policy) = (RunId::parse("kept").unwrap(), Policy::from(max_steps(9)));
    {
        let tracer = Arc::new(TraceRecorder::one_file(std::fs::File::create(&trace).unwrap()));
        let environment = watched(vec![place.recorder(), tracer]);
        let run = RunHandle::root(info(id.clone()), program(&policy), environment);
        run.begin();
        reply(step(&run, &pricing()));
        run.record(&EventKind::StepEnd, Detail::None);
        run.set_key("alice");
        reply(step(&run, &pricing()));
        assert_eq!(place.run(&run).1.len(), 2);
    }
    // The process died before the log had the second response.
    let logged = std::fs::read_to_string(&trace).unwrap();
    let mut lines: Vec<&str> = logged.lines().skip(1).collect();
    let last = lines.iter().rposition(|line| line.contains(r#""event":"reply""#)).unwrap();
    lines.truncate(last);
    // The second process dies before the log has what it added.
    for _ in 0..2 {
        let mut replay = Replay::new(program(&policy));
        lines.iter().for_each(|line| replay.take_line(line.as_bytes()).unwrap());
        let info = RunInfo { is_resumed: true, ..info(id.clone()) };
        let run = RunHandle::replayed(info, replay.finish(), watched(vec![place.recorder()]));
        let (_, calls) = place.run(&run);
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert_eq!(
            (calls[1].model.as_ref(), calls[1].key.as_deref()),
            (calls[0].model.as_ref(), Some("alice"))
        );
        assert_eq!(sum(&calls).to_decimal(), run.report().spend.usd);
        assert!(calls[1].unconfirmed == calls[1].cost && !calls[1].cost.is_zero(), "{calls:?}");
    }
}

#[test]
fn a_run_that_ends_and_continues_has_the_end_that_it_has() {
    let place = Place::new();
    let policy = Policy::from(max_steps(2));
    let run =
        RunHandle::root(info(RunId::new()), program(&policy), watched(vec![place.recorder()]));
    run.begin();
    reply(step(&run, &pricing()));
    run.record(&EventKind::StepEnd, Detail::None);
    assert_eq!(run.status(), Status::Completed);
    run.ended();
    let (recorded, _) = place.run(&run);
    assert_eq!(recorded.status.as_deref(), Some("completed"));
    assert!(recorded.ended.is_some());
    let call = step(&run, &pricing());
    call.replied(&Outcome {
        usage: TokenUsage { input: 9, ..TokenUsage::default() },
        ..Outcome::default()
    });
    let (recorded, _) = place.run(&run);
    assert_eq!((recorded.status, recorded.ended), (None, None), "it continues");
    run.record(&EventKind::StepEnd, Detail::None);
    assert!(!run.begin_step(&plan(&pricing())).admits());
    run.ended();
    let (recorded, _) = place.run(&run);
    assert_eq!(recorded.reason.as_deref(), Some("steps_limit"));
    assert!(recorded.text.is_some_and(|text| !text.is_empty()));
}

#[test]
fn words_of_models_and_tools_are_not_recorded() {
    const MARKER: &str = "a-word-of-the-prompt";
    let place = Place::new();
    let run = RunHandle::root(
        info(RunId::new()),
        program(&Policy::from(max_steps(9))),
        watched(vec![place.recorder()]),
    );
    run.begin();
    let call = step(&run, &pricing());
    let usage = TokenUsage { input: 9, output: 9, ..TokenUsage::default() };
    call.replied(&Outcome { usage, text: MARKER, ..Outcome::default() });
    let (arguments, result) = (MARKER, MARKER);
    run.record(&EventKind::ToolBegin { tool: "read" }, Detail::None);
    let end = EventKind::ToolEnd { tool: "read", arguments, result, failed: false };
    run.record(&end, Detail::None);
    // A tool may stop the run in words of the model.
    let signal =
        endstop_core::signal::StopSignal::new(endstop_core::signal::StopReason::StopRequested);
    run.raise(&signal.with_message(MARKER));
    run.ended();
    let (recorded, _) = place.run(&run);
    assert_eq!((recorded.status.as_deref(), recorded.text), (Some("stopped"), None));
    for entry in std::fs::read_dir(&place.0).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(MARKER.len()).any(|part| part == MARKER.as_bytes()));
    }
}
