//! Edge cases: unknown readings, calls that begin after a final answer, the steps that one override allows.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that is wrong should panic"
)]

use std::sync::Arc;
use std::time::Duration;

use endstop_core::condition::named::{idle, timeout};
use endstop_core::event::Source;
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Millis, Money, TokenUsage};
use endstop_core::{Directive, Event, EventKind, Policy, Program, Run, Truth};

use Directive::{Finish, Pause, Proceed, Refuse, Retry, Stop};

const STEP: EventKind<'static> = EventKind::StepBegin;
const ATTEMPT: EventKind<'static> = EventKind::AttemptBegin { next_cost: None };
const END: EventKind<'static> = EventKind::StepEnd;

struct Driver(Run);

impl Driver {
    fn of(policy: &Policy) -> Self {
        Self(Run::new(Arc::new(Program::new(policy, &Probes::new()).unwrap())))
    }

    fn stop(text: &str) -> Self {
        Self::of(&Policy::stop(parse(text).unwrap()))
    }

    fn toml(text: &str) -> Self {
        Self::of(&Policy::from_toml(text).unwrap())
    }

    fn see(&mut self, kind: EventKind<'_>) -> Directive {
        self.0.observe(&Event::new(Millis(0), kind))
    }

    fn child(&mut self, kind: EventKind<'_>) -> Directive {
        let event = Event { source: Source::Descendant, ..Event::new(Millis(0), kind) };
        self.0.observe(&event)
    }

    fn leaf(&self) -> Truth {
        self.0.trip_record().rules[0].tree.state
    }
}

fn reply(cost: Option<u64>, tokens: Option<u64>, tool_calls: u32) -> EventKind<'static> {
    let usage = tokens.map(|input| TokenUsage { input, ..TokenUsage::default() });
    let dollars = |n: u64| Cost::Known(Money::from_picos(n * 1_000_000_000_000));
    EventKind::Reply { model: None, usage, cost: cost.map(dollars), finish: None, tool_calls }
}

#[test]
fn a_call_after_a_dropped_reply_is_refused_at_a_money_limit() {
    let mut run =
        Driver::toml("[stop]\ncost = \"cost >= $5\"\n[retry]\nempty = \"output_tokens < 1\"");
    run.see(STEP);
    run.see(ATTEMPT);
    assert_eq!(run.see(reply(Some(6), Some(1), 0)), Retry, "the reply alone would end the run");
    assert_eq!(run.see(ATTEMPT), Stop, "one more call would pass the limit further");
    assert_eq!(run.0.stop_reason(), Some(StopReason::CostLimitReached));
}

#[test]
fn what_is_unknown_trips_nothing_but_a_money_rule() {
    for text in [
        "fact(\"x\") >= 0",
        "fact(\"x\") < 9",
        "not fact(\"x\") >= 9",
        "context_tokens >= 0",
        "tokens < 9k",
        "tokens == 0",
        "not next_cost >= $1.00 and fact(\"x\") != 9",
        "streak(fact(\"x\") >= 9) < 1",
        "count(fact(\"x\") >= 9) == 0",
        "not streak(not fact(\"x\") >= 9) >= 1",
        "not ever(fact(\"x\") >= 9)",
        "not depth >= 3",
    ] {
        let mut run = Driver::toml(&format!("unbounded = true\n[warn]\na = '{text}'"));
        for _ in 0..4 {
            for kind in [STEP, ATTEMPT, reply(Some(1), None, 1), ATTEMPT, END, EventKind::Tick] {
                run.see(kind);
            }
            assert!(!run.0.trip_record().rules[0].trips, "{text}");
        }
    }
    let mut run = Driver::stop("cost >= $9 or cost < $0");
    run.see(STEP);
    run.see(reply(None, Some(1), 1));
    assert_eq!(run.see(ATTEMPT), Stop, "a price is missing");
}

#[test]
fn a_descendants_missing_numbers_leave_the_own_share_known() {
    let mut run = Driver::stop("own.cost >= $9 or own.tokens >= 9k");
    run.see(STEP);
    run.see(reply(Some(1), Some(100), 1));
    run.child(STEP);
    assert_eq!(run.child(reply(None, None, 1)), Proceed);
    assert_eq!(run.child(ATTEMPT), Proceed);
    assert_eq!(run.leaf(), Truth::False);
    run.see(reply(None, Some(1), 1));
    assert_eq!(run.see(ATTEMPT), Stop);
}

#[test]
fn a_lower_bound_decides_what_no_addition_can_change() {
    for (text, expected) in [
        ("tokens >= 100", Truth::True),
        ("tokens > 100", Truth::Unknown),
        ("tokens <= 99", Truth::False),
        ("tokens == 99", Truth::False),
        ("tokens != 99", Truth::True),
        ("tokens == 100", Truth::Unknown),
        ("context_tokens >= 0", Truth::Unknown),
    ] {
        let mut run = Driver::of(
            &Policy::from_toml(&format!("unbounded = true\n[warn]\na = '{text}'")).unwrap(),
        );
        run.see(STEP);
        run.see(reply(Some(1), Some(100), 1));
        run.see(reply(Some(1), None, 1));
        run.see(ATTEMPT);
        assert_eq!(run.leaf(), expected, "{text}");
    }
}

#[test]
fn an_end_without_a_beginning_ends_nothing() {
    let mut run = Driver::stop("streak(no_tool_calls) >= 1 or no_progress(1)");
    assert_eq!([run.see(END), run.see(END), run.see(EventKind::Tick)], [Proceed; 3]);
    assert_eq!(run.see(STEP), Proceed);
    assert_eq!(run.see(END), Stop);
}

#[test]
fn an_override_lets_its_grant_of_steps_pass_and_a_childs_steps_count() {
    let mut run = Driver::stop("steps >= 1");
    run.see(STEP);
    assert_eq!(run.see(END), Stop);
    assert_eq!(run.see(EventKind::ContinuationRequested { by: "critic" }), Proceed);
    assert_eq!(run.see(STEP), Proceed);
    run.see(EventKind::ChildBegin { depth: 1 });
    assert_eq!([run.child(STEP), run.child(STEP)], [Proceed; 2], "the second and third override");
    assert_eq!(run.child(STEP), Stop);
    assert_eq!(run.0.step_count(), 4, "the limit and three overrides of one step each");
    assert_eq!(run.0.stop_reason(), Some(StopReason::ErrorForbade));
}

#[test]
fn a_wrap_up_is_the_last_step() {
    let mut run = Driver::toml("[finish]\na = \"steps >= 1\"");
    run.see(STEP);
    run.see(END);
    assert_eq!(run.see(STEP), Finish);
    assert_eq!(run.see(EventKind::ChildBegin { depth: 1 }), Refuse);
    assert_eq!(run.child(STEP), Refuse);
    assert_eq!(run.see(STEP), Stop, "its end was not reported");
    assert_eq!(run.0.step_count(), 2);
}

#[test]
fn a_call_that_waits_for_a_person_shows_its_worst_case() {
    let mut run = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"next_cost >= $1\"");
    run.see(STEP);
    let cost = Cost::Known(Money::from_picos(2_000_000_000_000));
    assert_eq!(run.see(EventKind::AttemptBegin { next_cost: Some(cost) }), Pause);
    let trip_record = run.0.trip_record();
    let rule = trip_record.rules.iter().find(|rule| rule.id == "p").unwrap();
    assert_eq!((rule.trips, rule.tree.observed.as_deref()), (true, Some("$2.00")));
    let restored = Run::restore(
        Arc::new(
            Program::new(
                &Policy::from_toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"next_cost >= $1\"")
                    .unwrap(),
                &Probes::new(),
            )
            .unwrap(),
        ),
        &run.0.save().unwrap(),
    );
    assert_eq!(restored.unwrap().trip_record(), trip_record);
}

#[test]
fn an_approval_only_lets_more_pass() {
    use endstop_core::event::NewLimit;
    let mut run = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"tokens >= 500\"");
    let limit = Some(NewLimit { gauge: "tokens", limit: 5 });
    assert_eq!(run.see(EventKind::Approved { rule: "p", limit, by: "", why: "" }), Proceed);
    run.see(STEP);
    run.see(reply(Some(0), Some(100), 1));
    assert_eq!(run.see(END), Proceed);
}

#[test]
fn a_pause_on_numbers_does_not_hold_up_a_run_that_ended_by_itself() {
    let mut run = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"cost >= $1\"");
    run.see(STEP);
    run.see(reply(Some(2), Some(1), 0));
    assert_eq!(run.see(END), Stop);
    assert_eq!(run.0.stop_reason(), Some(StopReason::Completed));
    assert_eq!(run.see(STEP), Pause, "it pauses the next step");
}

#[test]
fn the_trip_record_of_a_run_that_ended_by_itself_is_of_that_moment() {
    let ended = || {
        let mut run = Driver::toml("[stop]\ns = \"steps >= 9\"\nt = \"elapsed >= 1h\"");
        run.see(STEP);
        run.see(reply(Some(1), Some(1), 0));
        assert_eq!(run.see(END), Stop);
        run.0
    };
    let at_once = ended().trip_record();
    assert_eq!((at_once.at_ms, at_once.steps), (0, 1));
    let later = Event::new(Millis(60_000), EventKind::Tick);
    let mut run = ended();
    run.observe(&later);
    assert_eq!(run.trip_record(), at_once, "no record was requested before");
    let mut run = ended();
    run.would_admit(&Event { kind: STEP, ..later });
    assert_eq!(run.trip_record(), at_once, "to ask what would be changes nothing");
    let state = ended().save().unwrap();
    let restored = Run::restore(Arc::clone(run.program()), &state).unwrap();
    assert_eq!(restored.trip_record(), at_once);
}

#[test]
fn a_limit_that_a_question_has_passed_trips_at_the_next_tick() {
    let text = "[warn]\nslow = \"elapsed >= 5s\"\n[stop]\ntime = \"elapsed >= 9s\"";
    let mut run = Driver::toml(text).0;
    let at = |at, kind| Event::new(Millis(at), kind);
    assert_eq!(run.observe(&at(0, STEP)), Proceed);
    assert_eq!(run.observe(&at(4_999, EventKind::Tick)), Proceed);
    assert_eq!(run.would_admit(&at(5_000, EventKind::ToolBegin { tool: "a" })), Proceed);
    assert!(run.take_notices().is_empty(), "to ask reports nothing");
    assert_eq!(run.observe(&at(5_000, EventKind::Tick)), Proceed);
    assert_eq!(run.take_notices().len(), 1);
    assert_eq!(run.would_admit(&at(9_000, EventKind::ToolBegin { tool: "a" })), Stop);
    assert_eq!(run.observe(&at(9_000, EventKind::Tick)), Stop);
}

#[test]
fn a_call_that_was_cut_is_in_the_trip_record_once_it_is_settled() {
    let mut driver = Driver::toml("[stop]\nsteps = \"steps >= 9\"");
    driver.see(EventKind::StepBegin);
    driver.see(EventKind::AttemptBegin { next_cost: None });
    driver.see(EventKind::Cancel { message: "enough" });
    driver.see(EventKind::Reply {
        model: None,
        usage: Some(TokenUsage { input: 40, output: 2, ..TokenUsage::default() }),
        cost: Some(Cost::Known("0.25".parse().unwrap())),
        finish: None,
        tool_calls: 0,
    });
    let trip_record = driver.0.trip_record();
    assert_eq!((trip_record.tokens, trip_record.cost_usd.as_deref()), (42, Some("0.25")));
    // A count inside a step is shown as it is.
    assert_eq!(trip_record.rules[0].tree.observed.as_deref(), Some("1"));
}

#[test]
fn a_frozen_copy_keeps_what_a_probe_has_told() {
    let probes = Probes::new().with_local("seen", || {
        let mut seen = 0;
        move |_: &Event<'_>| {
            seen += 1;
            Some(seen)
        }
    });
    let policy = Policy::stop(parse("probe(\"seen\") >= 9").unwrap());
    let mut run = Run::new(Arc::new(Program::new(&policy, &probes).unwrap()));
    run.observe(&Event::new(Millis(0), STEP));
    let mut frozen = run.frozen();
    let told = run.trip_record().to_json();
    run.observe(&Event::new(Millis(0), END));
    assert_eq!(frozen.trip_record().to_json(), told);
    assert_ne!(run.trip_record().to_json(), told);
    frozen.observe(&Event::new(Millis(0), END));
    let told = frozen.trip_record().to_json();
    assert!(told.contains("\"1\"") || told.contains(":1"), "{told}");
}

/// A `Duration` counts in whole milliseconds, rounded up, and the longest one is as long as a time can be.
#[test]
fn times_of_conditions_are_durations_too() {
    for (time, millis) in [
        (Duration::from_secs(60), 60_000),
        (Duration::from_micros(2_500), 3),
        (Duration::MAX, u64::MAX),
    ] {
        assert_eq!(timeout(time), timeout(Millis(millis)));
        assert_eq!(idle(time), idle(Millis(millis)));
    }
}
