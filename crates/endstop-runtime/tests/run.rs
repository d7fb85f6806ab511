//! Runs that are driven without the loop: every ancestor has to admit a call, and spend is settled for all of
//! them.
#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use endstop_core::Program;
use endstop_core::event::EventKind;
use endstop_core::expr::parse;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::run::{Directive, Run, Status};
use endstop_core::signal::{StopReason, StopSignal, StopSignals};
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::Line;
use endstop_price::{PriceTable, ReportedUsage};
use endstop_runtime::cancel::Urgency;
use endstop_runtime::ledger::{Budget, Limits};
use endstop_runtime::observe::{Detail, Observation, Observer, RunInfo, SpendCertainty};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{Recording, Replay};
use endstop_runtime::{
    CallPlan, CancelOn, Carried, ErrorBilling, InputBound, MIN_OUTPUT_TOKENS, ModelError,
    ModelErrorKind, Outcome, Pricing, Received, ResponseReport, RunEnvironment, RunHandle, Waited,
};

fn program(condition: &str) -> Arc<Program> {
    let policy = Policy::stop(parse(condition).expect("a condition"));
    Arc::new(Program::new(&policy, &Probes::new()).expect("a program"))
}

fn without_rules() -> Arc<Program> {
    let policy = Policy { unbounded: true, ..Policy::default() };
    Arc::new(Program::new(&policy, &Probes::new()).expect("a program"))
}

fn info() -> RunInfo {
    RunInfo {
        id: RunId::new(),
        parent: None,
        agent: "agent".to_owned(),
        model: "claude-sonnet-4-5".to_owned(),
        provider: "anthropic".to_owned(),
        depth: 0,
        is_resumed: false,
    }
}

fn root(condition: &str) -> RunHandle {
    let run = RunHandle::root(info(), program(condition), RunEnvironment::default());
    assert_eq!(run.begin(), Directive::Proceed);
    run
}

fn pricing() -> Pricing {
    Pricing::new("anthropic", "claude-sonnet-4-5", PriceTable::embedded())
}

const fn call(pricing: &Pricing, input: u64, output: u64) -> CallPlan<'_> {
    CallPlan {
        pricing,
        input: InputBound::of_bytes(input),
        tool_input: 0,
        max_output: output,
        min_output: MIN_OUTPUT_TOKENS,
        is_wrap_up: false,
        is_final: true,
        takes_share: false,
        accounts: None,
    }
}

/// One step whose call uses so much; whether it was made.
fn step(run: &RunHandle, pricing: &Pricing, input: u64, output: u64) -> bool {
    let call = call(pricing, input, output);
    if !run.begin_step(&call).admits() {
        return false;
    }
    let Ok(open) = run.begin_call(&call) else { return false };
    let usage = TokenUsage { input, output, ..TokenUsage::default() };
    open.replied(&Outcome { usage, ..Outcome::default() });
    run.record(&EventKind::StepEnd, Detail::None);
    true
}

#[test]
fn a_limit_of_three_steps_admits_three_wherever_they_are_taken() {
    let (run, pricing) = (root("steps >= 3"), pricing());
    run.record(&EventKind::ChildBegin { depth: 1 }, Detail::None);
    let child = run.child(RunId::new(), "child", without_rules());
    child.begin();
    assert!(step(&run, &pricing, 10, 10));
    assert!(step(&child, &pricing, 10, 10));
    assert!(step(&child, &pricing, 10, 10), "{}", child.look(Run::explain));
    assert!(!step(&child, &pricing, 10, 10));
    assert_eq!(
        run.look(|run| run.last_stop_signal().expect("it stopped").reason),
        StopReason::StepsLimitReached
    );
    assert_eq!(child.status(), Status::Stopped, "for the reason of the run above");
    assert!(!step(&run, &pricing, 10, 10));
    assert_eq!(run.look(endstop_core::Run::step_count), 3);
}

#[test]
fn calls_at_the_same_time_never_pass_the_budget() {
    let (run, pricing) = (root("cost >= $0.10"), pricing());
    // $3 and $15 a million: input may be written to a cache at $3.75. Eight fit whole, and a
    // ninth with a lower cap.
    let mut open = Vec::new();
    for _ in 0..100 {
        let child = run.child(RunId::new(), "side", without_rules());
        child.begin();
        let call = call(&pricing, 1_000, 500);
        if child.begin_step(&call).admits()
            && let Ok(begun) = child.begin_call(&call)
        {
            open.push(begun);
        }
    }
    assert_eq!(open.len(), 9);
    for call in open {
        let output = call.output_cap().expect("money is limited");
        let usage = TokenUsage { input: 1_000, output, ..TokenUsage::default() };
        call.replied(&Outcome { usage, ..Outcome::default() });
    }
    let settled = run.budget().settled().cost;
    assert!(settled <= "$0.10".parse::<Money>().expect("money"), "{settled}");
    assert_eq!(run.budget().held().cost, Money::ZERO);
}

#[test]
fn a_call_of_unknown_usage_is_charged_with_all_that_its_tools_at_the_provider_can_add() {
    let pricing = pricing();
    let run = root("tokens >= 1_000_000");
    let call = CallPlan { tool_input: 200_000, ..call(&pricing, 1_000, 50) };
    assert!(run.begin_step(&call).admits());
    let open = run.begin_call(&call).expect("a call that fits");
    assert_eq!(run.budget().held().tokens, 201_050);
    open.failed(&ModelError::new(ModelErrorKind::Truncated, "cut"), &Received::default());
    assert_eq!(run.budget().settled().tokens, 201_050);
}

#[test]
fn a_call_whose_input_was_reported_is_charged_with_the_rest_that_was_reserved() {
    let (run, plain) = (root("tokens >= 1_000_000"), pricing());
    let searching = plain.clone().with_searches(3);
    let told = TokenUsage { input: 100, cache_read: 900, ..TokenUsage::default() };
    let reported = ReportedUsage::from(told);
    let report = ResponseReport { usage: Some(&reported), ..ResponseReport::default() };
    let cut = |plan: &CallPlan<'_>| {
        assert!(run.begin_step(plan).admits());
        let open = run.begin_call(plan).expect("a call that fits");
        let charge = open.charge(&Received::default(), &report);
        open.failed_at(&ModelError::new(ModelErrorKind::Truncated, "cut"), charge);
        charge
    };
    // Text alone: its output is the rest.
    let charge = cut(&call(&plain, 1_000, 50));
    assert_eq!(charge.usage, TokenUsage { output: 50, ..told });
    assert_eq!(charge.cost, plain.cost(&charge.usage, WallTime(0)));
    // Searches have fees, and what they find is input.
    let plan = CallPlan { tool_input: 100_000, ..call(&searching, 1_000, 50) };
    let charge = cut(&plan);
    assert_eq!(charge.usage, TokenUsage { input: 100_100, output: 50, ..told });
    let Cost::Known(cost) = charge.cost else { panic!("a price") };
    let Cost::Known(of_tokens) = plain.cost(&charge.usage, WallTime(0)) else { panic!("a price") };
    assert!(cost >= of_tokens.saturating_add("$0.03".parse().expect("money")), "{cost}");
    assert!(charge.unconfirmed > Money::ZERO && charge.unconfirmed < cost, "{charge:?}");
}

#[test]
fn a_call_that_is_dropped_charges_its_worst_case() {
    let (run, pricing) = (root("cost >= $1.00"), pricing());
    let call = call(&pricing, 1_000, 1_000);
    assert!(run.begin_step(&call).admits());
    drop(run.begin_call(&call).expect("it fits"));
    // Writing to the cache is the most expensive input.
    assert_eq!(run.budget().settled().cost, "$0.01875".parse::<Money>().expect("money"));
    assert_eq!(run.budget().held().cost, Money::ZERO);
    assert_eq!(
        run.usage(),
        (TokenUsage { input: 1_000, output: 1_000, ..TokenUsage::default() }, true)
    );
}

#[test]
fn a_run_that_goes_on_has_what_it_spent() {
    let (run, pricing) = (root("steps >= 2 or cost >= $1.00"), pricing());
    assert!(step(&run, &pricing, 1_000, 100));
    let saved = run.look(|run| run.to_state().expect("it can be saved"));
    let program = program("steps >= 2 or cost >= $1.00");
    let carried = Carried { usage: run.usage().0, ..Carried::default() };
    let core = endstop_core::Run::from_state(program, saved).expect("it loads");
    let again = RunHandle::resumed(info(), core, carried, RunEnvironment::default());
    assert_eq!(again.budget().settled().cost, run.budget().settled().cost);
    assert!(step(&again, &pricing, 1_000, 100));
    assert!(!step(&again, &pricing, 1_000, 100));
}

#[test]
fn a_model_without_a_price_stops_a_run_that_limits_money() {
    let run = root("cost >= $1.00");
    let pricing = Pricing::new("", "unlisted-model", PriceTable::embedded());
    assert!(!step(&run, &pricing, 10, 10));
    assert!(run.is_over());
    assert_eq!(
        run.look(|run| run.last_stop_signal().expect("it stopped").reason),
        StopReason::CostLimitReached
    );
}

/// A run that was seen, and its events.
fn seen(condition: &str) -> (RunHandle, Arc<Recording>) {
    let recording = Arc::new(Recording::new());
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&recording) as _];
    let around = RunEnvironment { observers, ..RunEnvironment::default() };
    let run = RunHandle::root(info(), program(condition), around);
    run.begin();
    (run, recording)
}

fn replay(condition: &str, lines: &[String]) -> RunHandle {
    let mut replay = Replay::new(program(condition));
    for line in lines {
        let line: Line<'_> = serde_json::from_str(line).expect("a line");
        replay.take(&line);
    }
    RunHandle::replayed(info(), replay.finish(), RunEnvironment::default())
}

#[test]
fn a_run_that_is_replayed_has_spent_what_it_had_spent_wherever_it_was_cut() {
    let limits = "steps >= 6 or cost >= $1.00";
    let ((run, recording), pricing) = (seen(limits), pricing());
    run.record(&EventKind::ChildBegin { depth: 1 }, Detail::None);
    let child = run.child(RunId::new(), "child", without_rules());
    child.begin();
    for turn in 0..5 {
        assert!(step(if turn % 2 == 0 { &run } else { &child }, &pricing, 1_000, 500));
    }
    let lines = recording.lines(&run.info().id);
    // The call costs all that was reserved, but that no cache was written.
    let worst = "$0.01125".parse::<Money>().expect("money");
    for cut in 0..lines.len() {
        let (settled, is_open) = told(&lines[..cut]);
        let expected = if is_open { settled.checked_add(worst).expect("money") } else { settled };
        let replayed = replay(limits, &lines[..cut]);
        assert_eq!(replayed.budget().settled().cost, expected, "{cut}");
        assert_eq!(replayed.cost(), Cost::Known(expected), "{cut}");
        assert!(replayed.budget().held().is_zero());
    }
    let whole = replay(limits, &lines);
    assert_eq!(whole.budget().settled(), run.budget().settled());
    assert_eq!(whole.usage(), run.usage());
    assert!(step(&whole, &pricing, 10, 10));
    assert!(!step(&whole, &pricing, 10, 10));
    // Today's limits count.
    assert!(!step(&replay("steps >= 2", &lines), &pricing, 10, 10));
    assert!(step(&replay("steps >= 7", &lines), &pricing, 10, 10));
}

/// The money of the replies, and whether a request has none.
fn told(lines: &[String]) -> (Money, bool) {
    let (mut sum, mut is_open) = (Money::ZERO, false);
    for line in lines {
        let line: Line<'_> = serde_json::from_str(line).expect("a line");
        match line.as_event().kind {
            EventKind::AttemptBegin { .. } => is_open = true,
            EventKind::Reply { cost: Some(Cost::Known(money)), .. } => {
                (sum, is_open) = (sum.checked_add(money).expect("money"), false);
            }
            _ => {}
        }
    }
    (sum, is_open)
}

#[test]
fn what_a_limit_refused_is_not_counted_where_today_s_limits_admit_more() {
    let limits = "steps >= 2";
    let ((run, recording), pricing) = (seen(limits), pricing());
    while step(&run, &pricing, 10, 10) {}
    let lines = recording.lines(&run.info().id);
    assert_eq!(lines.iter().filter(|line| line.contains("\"refused\":true")).count(), 1);
    let again = replay(limits, &lines);
    assert_eq!((again.status(), again.budget().settled().steps), (Status::Stopped, 2));
    let looser = replay("steps >= 4", &lines);
    assert_eq!((looser.status(), looser.budget().settled().steps), (Status::Completed, 2));
    assert!(step(&looser, &pricing, 10, 10) && step(&looser, &pricing, 10, 10));
    assert!(!step(&looser, &pricing, 10, 10));
}

#[test]
fn a_person_stops_for_good_what_was_over() {
    let ((run, recording), pricing) = (seen("steps >= 1"), pricing());
    while step(&run, &pricing, 10, 10) {}
    let signal = StopSignal::new(StopReason::UserRequested).with_message("enough");
    run.token().cancel(signal, Urgency::Graceful);
    for _ in 0..3 {
        run.checkpoint();
    }
    let lines = recording.lines(&run.info().id);
    assert_eq!(lines.iter().filter(|line| line.contains("\"cancel\"")).count(), 1);
    let looser = replay("steps >= 9", &lines);
    assert_eq!(looser.status(), Status::Stopped);
    let reason = looser.look(|run| run.stop_reason());
    assert_eq!(reason, Some(StopReason::UserRequested));
}

#[test]
fn cancellations_after_the_first_stand_in_the_record_once_each_and_those_after_the_stop_as_late() {
    let (run, pricing) = (root("steps >= 9"), pricing());
    let cancel = |message: &str| {
        let signal = StopSignal::new(StopReason::UserRequested).with_message(message);
        run.token().cancel(signal, Urgency::Graceful);
    };
    let call = call(&pricing, 10, 10);
    assert!(run.begin_step(&call).admits());
    let open = run.begin_call(&call).expect("a call that fits");
    cancel("person");
    run.checkpoint();
    cancel("switch");
    run.checkpoint();
    open.replied(&Outcome::default());
    run.record(&EventKind::StepEnd, Detail::None);
    cancel("again");
    run.checkpoint();
    run.checkpoint();
    let record = run.look(Run::trip_record);
    let messages =
        |signals: &StopSignals| signals.iter().map(|it| it.message.clone()).collect::<Vec<_>>();
    assert_eq!(messages(&record.signals), ["person", "switch"]);
    assert_eq!(messages(&record.late_signals), ["again"]);
    assert_eq!(run.look(Run::stop_reason), Some(StopReason::UserRequested));
}

#[test]
fn approving_an_unknown_rule_is_refused_and_lifts_no_limit() {
    let (run, recording) = seen("cost >= $1.00 or steps >= 3");
    let limits = run.budget().limits();
    assert!(!run.approve("no such rule", None));
    assert!(!run.approve("no such rule", Some(Money::from_picos(1))));
    // An approval is of a pause rule: it would raise a hard limit.
    let stop = run.look(|run| run.program().policy().rules[0].id.clone());
    assert!(!run.approve(&stop, None) && !run.approve(&stop, Some(Money::from_picos(1 << 60))));
    assert_eq!(run.budget().limits(), limits);
    let lines = recording.lines(&run.info().id);
    assert!(lines.iter().all(|line| !line.contains("no such rule")), "{lines:?}");
}

#[test]
fn a_report_says_what_is_an_estimate_also_after_a_replay() {
    let ((run, recording), pricing) = (seen("steps >= 9"), pricing());
    assert!(step(&run, &pricing, 10, 10));
    assert_eq!(run.report().spend.is, SpendCertainty::Known);
    run.begin_step(&call(&pricing, 10, 10));
    let open = run.begin_call(&call(&pricing, 10, 10)).expect("it begins");
    open.replied(&Outcome { is_estimate: true, ..Outcome::default() });
    run.record(&EventKind::StepEnd, Detail::None);
    let lines = recording.lines(&run.info().id);
    for run in [&run, &replay("steps >= 9", &lines)] {
        let money = run.report().spend;
        assert_eq!((money.is, money.estimated_calls), (SpendCertainty::Estimate, 1));
        assert!(run.usage().1);
    }
}

/// Every row of docs/semantics.md, "Charging when usage is missing", that a failed call can be.
#[test]
fn a_failed_call_is_charged_by_what_happened_and_replay_knows_the_unconfirmed_part() {
    use ModelErrorKind::{
        ClientLeft, Connection, Malformed, RateLimited, Rejected, TimedOut, Truncated, Unavailable,
    };
    let of = |kind| ModelError::new(kind, "it failed");
    let with = |kind, status, is_free| ModelError {
        status: Some(status),
        billing: if is_free { ErrorBilling::Free } else { ErrorBilling::OfApi },
        ..ModelError::new(kind, "it failed")
    };
    for (error, cause) in [
        (of(Connection), None),
        (with(Rejected, 400, true), None),
        (with(RateLimited, 429, true), None),
        (of(Unavailable), None),
        (with(Unavailable, 500, true), None),
        (with(Unavailable, 503, true), None),
        (with(Unavailable, 529, true), None),
        (with(Unavailable, 500, false), Some("answered 500")),
        (with(Unavailable, 502, false), Some("answered 502")),
        (with(TimedOut, 408, true), Some("answered 408")),
        (with(TimedOut, 504, true), Some("answered 504")),
        (of(TimedOut), Some("timed out")),
        (of(Truncated), Some("cut off")),
        (of(ClientLeft), Some("abandoned by the client")),
        (of(Malformed), Some("with an unreadable response")),
    ] {
        let is_charged = cause.is_some();
        let limit = "steps >= 9 or cost >= $1.00";
        let ((run, recording), pricing) = (seen(limit), pricing());
        run.begin_step(&call(&pricing, 1_000, 100));
        let open = run.begin_call(&call(&pricing, 1_000, 100)).expect("it begins");
        let worst = run.budget().held().cost;
        // An error response came instead of a stream, so no stream was closed.
        let is_stream = error.status.is_some();
        let charge = open.failed(&error, &Received { is_stream, ..Received::default() });
        run.record(&EventKind::StepEnd, Detail::None);
        let expected = if is_charged { worst } else { Money::ZERO };
        assert_eq!(charge.is_some(), is_charged, "{error:?}");
        assert_eq!(run.budget().settled().cost, expected, "{error:?}");
        let lines = recording.lines(&run.info().id);
        for run in [&run, &replay(limit, &lines)] {
            let money = run.report().spend;
            let unconfirmed = (money.unconfirmed_usd, money.unconfirmed_calls);
            assert_eq!(unconfirmed, (expected, u64::from(is_charged)), "{error:?}");
            let named = cause.map(|cause| format!("unconfirmed: 1 call {cause})"));
            let says = named.is_none_or(|named| money.to_string().ends_with(&named));
            assert!(says, "{money}: {cause:?}");
        }
    }
}

#[test]
fn what_was_reported_before_a_cut_is_confirmed() {
    let ((run, _), pricing) = (seen("steps >= 9 or cost >= $1.00"), pricing());
    run.begin_step(&call(&pricing, 1_000, 100));
    let open = run.begin_call(&call(&pricing, 1_000, 100)).expect("it begins");
    let usage = TokenUsage { input: 900, ..TokenUsage::default() };
    let received = Received { usage: Some(usage), output_bytes: 30, ..Received::default() };
    let came = open.cost(&TokenUsage { output: 10, ..usage });
    let error = ModelError::new(ModelErrorKind::Truncated, "it broke");
    let charge = open.failed(&error, &received).expect("a charge");
    assert_eq!(charge.usage, TokenUsage { output: 100, ..usage }, "it is made to its end");
    let (Cost::Known(cost), Cost::Known(came)) = (charge.cost, came) else { panic!("priced") };
    assert_eq!(charge.unconfirmed, cost.saturating_sub(came));
}

#[test]
fn a_pause_of_the_dead_process_ends_and_what_was_refused_is_not_charged() {
    let policy =
        "[stop]\nlimit = \"cost >= $1.00 or attempts >= 1\"\n[pause]\nask = \"steps >= 1\"\n";
    let policy = Policy::from_toml(policy).expect("a policy");
    let program = Arc::new(Program::new(&policy, &Probes::new()).expect("a program"));
    let recording = Arc::new(Recording::new());
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&recording) as _];
    let around = RunEnvironment { observers, ..RunEnvironment::default() };
    let run = RunHandle::root(info(), Arc::clone(&program), around);
    run.begin();
    let pricing = pricing();
    assert!(step(&run, &pricing, 10, 10));
    assert!(!step(&run, &pricing, 10, 10));
    run.record(&EventKind::Paused, Detail::None);
    let mut replay = Replay::new(program);
    for line in recording.lines(&run.info().id) {
        let line: Line<'_> = serde_json::from_str(&line).expect("a line");
        replay.take(&line);
    }
    let replayed = replay.finish();
    assert_eq!(replayed.spent(), run.budget().settled());
    assert_eq!(replayed.added().last().map(|event| event.kind.clone()), Some(EventKind::Resumed));
    let again = RunHandle::replayed(info(), replayed, RunEnvironment::default());
    assert_eq!(again.status(), run.status());
}

#[test]
fn calls_of_unrelated_runs_take_no_share_of_a_limit_that_they_do_not_have() {
    let limits =
        Limits { cost: Some(Money::from_picos(100_000_000_000_000)), ..Limits::unlimited() };
    let shared = Budget::root(limits);
    let run_of = |condition: &str| {
        let environment =
            RunEnvironment { budget: Some(shared.clone()), ..RunEnvironment::default() };
        let run = RunHandle::root(info(), program(condition), environment);
        run.begin();
        run
    };
    let pricing = pricing();
    let begin = |run: &RunHandle| {
        let call = CallPlan { takes_share: true, ..call(&pricing, 1_000, 64_000) };
        assert!(run.begin_step(&call).admits());
        run.begin_call(&call).expect("a call that fits")
    };
    let alone = run_of("cost >= $0.50");
    let cap = begin(&alone).output_cap();
    assert!(cap.is_some_and(|cap| (30_000..34_000).contains(&cap)), "{cap:?}");
    let _other = begin(&run_of("cost >= $50"));
    let second = run_of("cost >= $0.50");
    let open = begin(&second);
    assert_eq!(open.output_cap(), cap);
    assert_eq!(open.lowered_by(), Some(StopReason::CostLimitReached));
}

#[test]
fn a_call_that_a_shared_budget_refuses_is_no_step() {
    let pricing = pricing();
    // Money that is spent, attempts that are spent, and money that is unknown.
    let limits = [
        Limits { cost: Some(Money::from_picos(1_000_000_000)), ..Limits::unlimited() },
        Limits { attempts: Some(1), ..Limits::unlimited() },
    ];
    for limits in limits {
        let shared = Budget::root(limits);
        let another = || {
            let around =
                RunEnvironment { budget: Some(shared.clone()), ..RunEnvironment::default() };
            let run = RunHandle::root(info(), program("steps >= 9"), around);
            run.begin();
            run
        };
        let first = another();
        assert!(step(&first, &pricing, 10, 60), "{limits:?}");
        let second = another();
        assert!(!step(&second, &pricing, 10, 60), "{limits:?}");
        let readings = second.look(|run| (run.gauge("steps"), run.gauge("attempts"), run.status()));
        assert_eq!(readings, (Some(0), Some(0), Status::Stopped), "{limits:?}");
        assert_eq!((shared.settled().steps, second.budget().settled().steps), (1, 0));
        let message = second.look(|run| run.last_stop_signal().map(|it| it.source.clone()));
        assert_eq!(message, Some(Some("budget".to_owned())));
        // One that has begun is not undone by it.
        assert!(!step(&first, &pricing, 10, 60));
        assert_eq!(first.look(|run| run.gauge("steps")), Some(1));
    }
    let around =
        RunEnvironment { budget: Some(Budget::root(limits[0])), ..RunEnvironment::default() };
    let run = RunHandle::root(info(), program("steps >= 9"), around);
    run.begin();
    let nameless = Pricing::new("nobody", "no-such-model", PriceTable::embedded());
    assert!(!step(&run, &nameless, 10, 10));
    assert_eq!((run.look(|run| run.gauge("steps")), run.status()), (Some(0), Status::Stopped));
}

/// Calls back into the run at its end, and waits there until the test lets it continue.
struct Curious {
    run: OnceLock<RunHandle>,
    is_asked: Sender<()>,
    goes_on: Mutex<Receiver<()>>,
    told: Arc<Mutex<Vec<(u64, Status, Status)>>>,
}

impl Observer for Curious {
    fn observe(&self, _: &Observation<'_>) {}

    fn run_ended(&self, _: &RunInfo, seen: &Run, _: &Budget) {
        let run = self.run.get().expect("the run");
        let told = (seen.gauge("steps").unwrap_or(0), seen.status(), run.status());
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        self.is_asked.send(()).expect("the test waits");
        let going = self.goes_on.lock().unwrap_or_else(PoisonError::into_inner);
        going.recv_timeout(Duration::from_secs(60)).expect("it may continue");
    }
}

#[test]
fn whoever_is_told_of_the_end_may_look_at_the_run_and_holds_nothing_up() {
    let ((is_asked, asked), (go, goes_on)) = (channel(), channel());
    let told = Arc::new(Mutex::new(Vec::new()));
    let goes_on = Mutex::new(goes_on);
    let curious =
        Arc::new(Curious { run: OnceLock::new(), is_asked, goes_on, told: Arc::clone(&told) });
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&curious) as _];
    let around = RunEnvironment { observers, ..RunEnvironment::default() };
    let run = RunHandle::root(info(), program("steps >= 3"), around);
    run.begin();
    curious.run.set(run.clone()).expect("set once");
    let pricing = pricing();
    assert!(step(&run, &pricing, 10, 10));
    let telling = std::thread::spawn({
        let run = run.clone();
        move || run.ended()
    });
    let patience = Duration::from_secs(60);
    asked.recv_timeout(patience).expect("the observer is asked");
    // The run continues in the meantime, and its next end comes after this one.
    assert!(step(&run, &pricing, 10, 10) && step(&run, &pricing, 10, 10));
    assert!(!step(&run, &pricing, 10, 10));
    run.ended();
    assert_eq!(told.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    go.send(()).expect("it listens");
    asked.recv_timeout(patience).expect("the observer is called again");
    go.send(()).expect("it listens");
    telling.join().expect("it was notified");
    let told = told.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(
        *told,
        [(1, Status::Completed, Status::Completed), (3, Status::Stopped, Status::Stopped),]
    );
}

#[test]
fn a_call_is_foretold_with_those_before_it_in_its_batch() {
    let parent = root("tool_calls >= 3");
    parent.record(&EventKind::ChildBegin { depth: 1 }, Detail::None);
    let child = parent.child(RunId::new(), "child", without_rules());
    child.begin();
    for run in [&parent, &child] {
        assert_eq!(run.would_call(&[], "a"), Directive::Proceed);
        assert_eq!(run.would_call(&["a", "b"], "a"), Directive::Proceed);
        assert_eq!(run.would_call(&["a", "b", "a"], "b"), Directive::Stop);
    }
    // Nothing was counted.
    assert_eq!(parent.look(|run| run.gauge("tool_calls")), Some(0));
    assert!(!parent.is_over() && parent.would_admit(&EventKind::ToolBegin { tool: "a" }));
}

#[tokio::test(start_paused = true)]
async fn the_active_time_of_a_child_stands_still_while_its_call_in_flight_ends() {
    let parent = root("steps >= 9");
    let child = parent.child(RunId::new(), "child", program("active >= 4s"));
    child.begin();
    let call = async {
        let mut answer = Box::pin(tokio::time::sleep(Duration::from_secs(10)));
        child.wait(&mut answer, CancelOn::Abort).await
    };
    let person = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(parent.pause("ann", "lunch"));
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(parent.resume("ann", ""));
    };
    let (waited, ()) = tokio::join!(call, person);
    assert_eq!(waited, Waited::Done(()), "3 of the 10 seconds were active");
    child.tick();
    let of = |gauge: &str| child.look(|run| run.gauge(gauge));
    assert_eq!((of("active"), of("elapsed")), (Some(3_000), Some(10_000)));
}

#[tokio::test(start_paused = true)]
async fn what_begins_in_an_aborted_run_has_one_grace_together() {
    let run = root("steps >= 9");
    run.token().cancel(StopSignal::new(StopReason::UserRequested), Urgency::Now);
    let (begun, grace) = (tokio::time::Instant::now(), Some(Duration::from_secs(5)));
    let mut short = Box::pin(tokio::time::sleep(Duration::from_secs(2)));
    assert_eq!(run.wait_in_grace(&mut short, grace).await, Waited::Done(()));
    for _ in 0..2 {
        let mut never = std::future::pending::<()>();
        assert_eq!(run.wait_in_grace(&mut never, grace).await, Waited::Aborted);
        assert_eq!(begun.elapsed().as_secs(), 5);
    }
    assert_eq!(run.wait_in_grace(&mut std::future::ready(7), None).await, Waited::Done(7));
    assert_eq!(run.wait_in_grace(&mut std::future::pending::<()>(), None).await, Waited::Aborted);
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_grace_of_a_run_that_is_out_of_time() {
    for notices_the_abort in [false, true] {
        let run = root("elapsed >= 1s");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(run.tick().stops() && !run.token().is_cancelled());
        let begun = tokio::time::Instant::now();
        let late = async {
            let mut work = Box::pin(async {
                if notices_the_abort {
                    run.token().aborted().await;
                } else {
                    std::future::pending::<()>().await;
                }
            });
            run.wait_in_grace(&mut work, Some(Duration::from_secs(5))).await
        };
        let person = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            run.token().cancel(StopSignal::new(StopReason::UserRequested), Urgency::Now);
        };
        let (waited, ()) = tokio::join!(late, person);
        // Work that ends with the abort has ended.
        let expected = if notices_the_abort { Waited::Done(()) } else { Waited::Aborted };
        assert_eq!((waited, begun.elapsed().as_secs()), (expected, 2));
    }
}

#[test]
fn a_response_is_charged_by_all_of_its_report() {
    let table = PriceTable::embedded();
    let usage = |input: u64, output: u64| {
        ReportedUsage::from(TokenUsage { input, output, ..TokenUsage::default() })
    };
    let cost_of = |provider: &str, model: &str, report: Option<ReportedUsage>, is_complete| {
        let of_openai = if provider == "openrouter" { "openai/" } else { "" };
        let pricing = Pricing::new(provider, &format!("{of_openai}gpt-4o-mini"), table);
        let run = root("cost >= $10.00");
        assert!(run.begin_step(&call(&pricing, 1_000, 100)).admits());
        let open = run.begin_call(&call(&pricing, 1_000, 100)).expect("it begins");
        let received = Received { output_bytes: 300, ..Received::default() };
        let report = ResponseReport { usage: report.as_ref(), model: Some(model), is_complete };
        let charge = open.charge(&received, &report);
        let Cost::Known(cost) = charge.cost else { panic!("a price") };
        (cost, charge.is_estimate)
    };
    let price = |model: &str, input: u64, output: u64| {
        let tokens = TokenUsage { input, output, ..TokenUsage::default() };
        match Pricing::new("openai", model, table).cost(&tokens, WallTime(0)) {
            Cost::Known(cost) => cost,
            Cost::Unpriced => panic!("a price"),
        }
    };
    let billed = "$0.50".parse::<Money>().expect("money");
    let with = |billed: Money, report: ReportedUsage| {
        Some(ReportedUsage { billed: Some(billed), ..report })
    };
    let dear = "gpt-4";
    // The more expensive model counts, whether its usage is reported, reported in part, or not at all.
    assert_eq!(
        cost_of("openai", dear, Some(usage(1_000, 100)), true),
        (price(dear, 1_000, 100), false)
    );
    for report in [Some(usage(1_000, 0)), None] {
        for is_complete in [true, false] {
            let charged = cost_of("openai", dear, report.clone(), is_complete);
            assert_eq!(charged, (price(dear, 1_000, 100), true), "{report:?}");
        }
    }
    // A report of the cost counts if it is higher.
    let higher = cost_of("openai", "gpt-4o-mini", with(billed, usage(1_000, 100)), true);
    assert_eq!(higher, (billed, false));
    let cent = "$0.000001".parse::<Money>().expect("money");
    let lower = cost_of("openai", "gpt-4o-mini", with(cent, usage(1_000, 100)), true);
    assert_eq!(lower, (price("gpt-4o-mini", 1_000, 100), false));
    // That of OpenRouter always does, also if it reports nothing else; but not before the end of the response.
    for report in [usage(1_000, 100), usage(1_000, 0), ReportedUsage::default()] {
        assert_eq!(cost_of("openrouter", dear, with(cent, report), true).0, cent);
    }
    assert!(cost_of("openrouter", dear, with(cent, usage(1_000, 0)), false).0 > cent);
}
