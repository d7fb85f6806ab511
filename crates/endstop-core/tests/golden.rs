//! Stored forms of the core, byte for byte: a change of form fails here. `tests/support/golden.rs` says how to update
//! the files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that is wrong should panic")]

#[path = "../../../tests/support/golden.rs"]
mod file;

use std::sync::Arc;

use endstop_core::event::{NewLimit, Source};
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::run::Status;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::Line;
use endstop_core::{Condition, Directive, Event, EventKind, Policy, Program, Run, TripRecord};

use file::golden;

/// A rule of every action, and every kind of state that a run keeps.
const POLICY: &str = r#"
name = "golden"

[stop]
budget = "steps >= 9 or cost >= $3.00 or own.tokens >= 200k"
stuck = "no_progress(3) or repeats >= 4 or cycles >= 3 or streak(near_duplicate) >= 2"
answered = 'said("FINAL ANSWER") or matches(/done$/) or (called("submit") then finished("stop"))'
window = "count(errored, 5m) >= 3 or count(no_tool_calls, 4 steps) >= 3 or (errored within 2 steps and steps >= 8)"
reported = 'fact("score") >= 90 or tool_calls("search") >= 7 or ever(handed_off("human"))'

[finish]
wrap_up = "steps >= 8"

[pause]
approve = "cost >= $1.00"

[warn]
near = "steps >= 1"

[rule.stuck]
hard = false
"#;

fn program() -> Arc<Program> {
    let policy = Policy::from_toml(POLICY).unwrap();
    Arc::new(Program::new(&policy, &Probes::new()).unwrap())
}

fn reply(tool_calls: u32) -> EventKind<'static> {
    let usage = TokenUsage { input: 1_000, cache_read: 200, output: 50, ..TokenUsage::default() };
    let cost = Cost::Known(Money::from_picos(600_000_000_000));
    let (usage, cost, finish) = (Some(usage), Some(cost), Some("tool_use"));
    EventKind::Reply { model: Some("model"), usage, cost, finish, tool_calls }
}

/// A run in the middle of its third step, with something of everything.
fn running() -> Run {
    let mut run = Run::new(program());
    let begin = EventKind::AttemptBegin { next_cost: Some(Cost::Known(Money::from_picos(7))) };
    let say =
        "I will run the tests once more to see whether the last change has mended the import.";
    let search =
        EventKind::ToolEnd { tool: "search", arguments: "{}", result: "nothing", failed: true };
    let hook = StopSignal::new(StopReason::StopRequested).with_message("a hook");
    let own = [
        EventKind::RunBegin { agent: Some("planner"), depth: 1 },
        EventKind::UserMessage,
        EventKind::StepBegin,
        begin.clone(),
        EventKind::Piece { text: say },
        reply(1),
        EventKind::ToolBegin { tool: "search" },
        search.clone(),
        EventKind::StepEnd,
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::Fact { name: "score", value: 40 },
        EventKind::StopRaised { signal: &hook },
        EventKind::ContinuationRequested { by: "critic" },
        EventKind::StepBegin,
        begin.clone(),
        EventKind::AttemptFailed { usage: None, cost: None },
        begin.clone(),
        reply(1),
        EventKind::ToolBegin { tool: "search" },
        search,
        EventKind::StepEnd,
        EventKind::Approved {
            rule: "approve",
            limit: Some(NewLimit { gauge: "cost", limit: 2_500_000_000_000 }),
            by: "",
            why: "",
        },
        EventKind::StepBegin,
        begin,
        EventKind::Piece { text: "the FINAL ANS" },
    ];
    for (second, kind) in (0u64..).zip(own) {
        see(&mut run, second, Source::Own, kind);
    }
    for (second, kind) in (30u64..).zip([EventKind::StepBegin, reply(0), EventKind::StepEnd]) {
        see(&mut run, second, Source::Descendant, kind);
    }
    run
}

fn see(run: &mut Run, second: u64, source: Source, kind: EventKind<'_>) -> Directive {
    let wall = WallTime(1_796_040_000_000 + second * 1_000);
    run.observe(&Event { at: Millis(second * 1_000), wall, source, kind })
}

/// The same run, stopped by a rule, with a raised signal as well.
fn stopped() -> Run {
    let mut run = running();
    let signal = StopSignal::new(StopReason::StopRequested)
        .with_message("counted to 3")
        .with_context("final_count", 3)
        .with_source("counter");
    assert!(see(&mut run, 40, Source::Own, EventKind::Piece { text: "WER is 42" }).stops());
    see(&mut run, 41, Source::Own, EventKind::StopRaised { signal: &signal });
    run
}

/// The same run, paused by a rule whose approved limit it has reached.
fn paused() -> Run {
    let mut run = running();
    let cost = Some(Cost::Known(Money::from_picos(700_000_000_000)));
    let usage = Some(TokenUsage { input: 10, output: 1, ..TokenUsage::default() });
    let reply = EventKind::Reply { model: None, usage, cost, finish: None, tool_calls: 1 };
    see(&mut run, 40, Source::Own, reply);
    see(&mut run, 41, Source::Own, EventKind::StepEnd);
    assert_eq!(see(&mut run, 42, Source::Own, EventKind::StepBegin), Directive::Pause);
    see(&mut run, 42, Source::Own, EventKind::Paused);
    assert_eq!(run.status(), Status::Paused);
    run
}

/// The same run, paused from outside.
fn paused_from_outside() -> Run {
    let mut run = running();
    see(&mut run, 40, Source::Own, reply(1));
    see(&mut run, 41, Source::Own, EventKind::StepEnd);
    see(&mut run, 42, Source::Own, EventKind::PauseRequested { by: "ann", why: "lunch" });
    assert_eq!(see(&mut run, 43, Source::Own, EventKind::StepBegin), Directive::Pause);
    see(&mut run, 43, Source::Own, EventKind::Paused);
    assert_eq!(run.status(), Status::Paused);
    run
}

/// One of every shape.
fn condition() -> Condition {
    let text = r#"max_steps(25) or (cost >= $2.00 and not said("x", from="critic"))
        or streak(no_tool_calls) >= 3 or count(errored, 5m) >= 3 or count(errored) >= 3
        or called("read") within 10 steps or (called("a") then errored) or ever(matches(/a\/b/))
        or now >= "2026-11-30T12:00:00Z" or own.tool_calls("search") != 5 or fact("score") < 9"#;
    parse(text).unwrap()
}

#[test]
fn saved_state_of_version_1() {
    for (name, run) in [("state-v1.json", running()), ("state-v1-stopped.json", stopped())] {
        let stored = golden(name, &run.save().unwrap(), &[]);
        let read = Run::restore(program(), &stored).unwrap();
        assert_eq!(read.save().unwrap(), stored);
        assert_eq!(read.trip_record().to_json(), run.trip_record().to_json());
    }
    let stored = golden("state-v1.json", &running().save().unwrap(), &[]);
    let mut read = Run::restore(program(), &stored).unwrap();
    let last = see(&mut read, 40, Source::Own, EventKind::Piece { text: "WER is 42" });
    assert_eq!(last, Directive::Stop, "the phrase began before it was saved");
}

#[test]
fn saved_state_of_version_1_that_is_paused_from_outside() {
    let run = paused_from_outside();
    let stored = golden("state-v1-paused.json", &run.save().unwrap(), &[]);
    let mut read = Run::restore(program(), &stored).unwrap();
    assert_eq!(read.save().unwrap(), stored);
    assert_eq!(see(&mut read, 44, Source::Own, EventKind::StepBegin), Directive::Pause);
    see(&mut read, 45, Source::Own, EventKind::ResumeRequested { by: "bob", why: "" });
    assert!(see(&mut read, 46, Source::Own, EventKind::StepBegin).admits());
}

/// The kinds of events that `trace-v1.jsonl` lacks: acts on the run from outside.
#[test]
fn trace_of_version_1_with_acts_from_outside() {
    let kinds = [
        EventKind::PauseRequested { by: "ann", why: "lunch" },
        EventKind::ResumeRequested { by: "bob", why: "" },
        EventKind::ContinuationRequested { by: "critic" },
        EventKind::Kill { message: "maintenance" },
        EventKind::Reopened { by: "ann", why: "" },
        EventKind::Reopened { by: "bob", why: "more agents" },
    ];
    let events: Vec<Event<'_>> =
        (0u64..).zip(kinds).map(|(at, kind)| Event::new(Millis(at), kind)).collect();
    let lines = events.iter().map(|event| serde_json::to_string(&Line::from_event(event)).unwrap());
    let stored = golden("trace-v1-control.jsonl", &lines.collect::<Vec<_>>().join("\n"), &[]);
    let read: Vec<Line<'_>> =
        stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.iter().map(Line::as_event).collect::<Vec<_>>(), events);
}

/// A policy that asks for `stale` keeps what it is counted from; one that does not keeps nothing of it.
#[test]
fn saved_state_of_version_1_with_stale() {
    let policy = Policy::stop(parse("stale >= 70").unwrap());
    let program = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    let mut run = Run::new(Arc::clone(&program));
    let end = |arguments, result, failed| {
        let tool = "list";
        let call = EventKind::ToolEnd { tool, arguments, result, failed };
        [EventKind::StepBegin, EventKind::ToolBegin { tool }, call]
    };
    let (empty, failed) = (end("a", "empty", false), end("b", "no such directory", true));
    let steps = [failed, empty.clone(), empty.clone(), empty.clone(), empty];
    let kinds = steps.into_iter().flat_map(|call| call.into_iter().chain([EventKind::StepEnd]));
    let open = end("c", "no such directory", true);
    for (second, kind) in (0u64..).zip(kinds.chain(open)) {
        see(&mut run, second, Source::Own, kind);
    }
    let stored = golden("state-v1-stale.json", &run.save().unwrap(), &[]);
    let mut read = Run::restore(Arc::clone(&program), &stored).unwrap();
    assert_eq!(read.save().unwrap(), stored);
    see(&mut read, 30, Source::Own, EventKind::StepEnd);
    let observed = read.trip_record().rules[0].tree.observed.clone();
    assert_eq!(observed.as_deref(), Some("58"), "7 halves of 6 steps");
    // Of an earlier build, which did not know what one call repeats: it may be one call.
    let mut earlier: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let stale = earlier["state"]["meter"]["progress"]["stale"].as_object_mut().unwrap();
    for newer in
        ["streak_moved", "first_text", "is_varied", "last", "got_other_text", "got_other_call"]
    {
        assert!(stale.remove(newer).is_some(), "{newer}");
    }
    let mut read = Run::restore(program, &earlier.to_string()).unwrap();
    see(&mut read, 30, Source::Own, EventKind::StepEnd);
    assert_eq!(read.trip_record().rules[0].tree.observed.as_deref(), Some("0"));
    assert!(!running().save().unwrap().contains("\"stale\""));
}

#[test]
fn trip_record_of_version_1() {
    for (name, run) in [("trip-record-v1.json", stopped()), ("trip-record-v1-pause.json", paused())]
    {
        let record = run.trip_record();
        let stored = golden(name, &record.to_json(), &[]);
        assert_eq!(serde_json::from_str::<TripRecord>(&stored).unwrap(), record);
    }
}

#[test]
fn condition_of_version_1() {
    let condition = condition();
    let stored = golden("condition-v1.json", &serde_json::to_string(&condition).unwrap(), &[]);
    assert_eq!(serde_json::from_str::<Condition>(&stored).unwrap(), condition);
}

/// Keys that a later minor release adds are ignored. A state without its parts is refused.
#[test]
fn a_state_with_other_keys_is_read() {
    let stored = running().save().unwrap();
    let with_more = stored.replacen('{', "{\"later\":{\"a\":[1]},", 1);
    assert_eq!(Run::restore(program(), &with_more).unwrap().save().unwrap(), stored);
    for without in ["names", "state"] {
        let part = stored.replacen(without, "lost", 1);
        assert!(Run::restore(program(), &part).is_err(), "{part}");
    }
    for counter in ["\"cost_picos\"", "\"tool_errors\"", "\"tallies\"", "\"total\""] {
        let part = stored.replacen(counter, "\"lost\"", 1);
        assert!(part != stored && Run::restore(program(), &part).is_err(), "{counter}");
    }
    assert!(Run::restore(program(), "{\"version\":2}").is_err());
}
