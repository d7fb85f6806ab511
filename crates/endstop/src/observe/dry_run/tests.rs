//! Tests of `dry_run`.

use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::signal::StopReason;

use super::*;

fn dry_run(policy: &str) -> DryRunState {
    let program = Program::new(&Policy::from_toml(policy).unwrap(), &Probes::new()).unwrap();
    let observer = DryRunObserver::new(Arc::new(program));
    observer.state.into_inner().unwrap()
}

fn step(state: &mut DryRunState, at: u64, tool: &str) {
    let reply =
        EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 1 };
    let end = EventKind::ToolEnd { tool, arguments: "{}", result: "", failed: false };
    for kind in
        [EventKind::StepBegin, reply, EventKind::ToolBegin { tool }, end, EventKind::StepEnd]
    {
        state.take(&Event::new(Millis(at), kind));
    }
}

#[test]
fn the_first_stop_is_remembered_and_nothing_after_it_counts() {
    let mut state = dry_run("[stop]\nlimit = 'steps >= 2'\n");
    (0..5).for_each(|n| step(&mut state, n * 1_000, "search"));
    let stop = state.first.unwrap();
    assert_eq!((stop.steps, stop.signal.reason), (2, StopReason::StepsLimitReached));
    assert!(stop.at <= Millis(2_000), "{:?}", stop.at);
}

#[test]
fn a_tick_is_enough_for_a_limit_in_time() {
    let mut state = dry_run("[stop]\nlimit = 'elapsed >= 2s'\n");
    step(&mut state, 0, "search");
    state.take(&Event::new(Millis(1_999), EventKind::Tick));
    assert_eq!(state.first, None);
    state.take(&Event::new(Millis(2_000), EventKind::Tick));
    let stop = state.first.unwrap();
    assert_eq!((stop.at, stop.signal.reason), (Millis(2_000), StopReason::TimeLimitReached));
}

#[test]
fn what_a_person_ends_was_not_stopped_by_the_policy() {
    let mut state = dry_run("[stop]\nlimit = 'steps >= 1'\n");
    state.take(&Event::new(Millis(0), EventKind::Kill { message: "no more" }));
    step(&mut state, 1, "search");
    assert_eq!(state.first, None);
}

#[test]
fn a_pause_is_noted_and_taken_to_be_approved() {
    let mut state = dry_run("[stop]\nlimit = 'steps >= 4'\n[pause]\nask = 'steps >= 2'\n");
    (0..3).for_each(|n| step(&mut state, n, "search"));
    assert_eq!(
        (state.unstopped.paused_by(), state.first.is_none()),
        (&["ask".to_owned()][..], true)
    );
    (3..6).for_each(|n| step(&mut state, n, "search"));
    assert_eq!(state.first.unwrap().steps, 4);
}

#[test]
fn the_refusal_of_a_tool_call_in_the_wrap_up_is_a_message() {
    let mut state = dry_run("[finish]\nlimit = 'messages >= 2 or steps >= 0'\n");
    step(&mut state, 0, "search");
    let stop = state.first.unwrap();
    assert_eq!((stop.steps, stop.signal.reason), (1, StopReason::StepsLimitReached));
    let limit = stop.trip_record.rules[0].tree.parts[0].clone();
    assert_eq!(limit.observed.as_deref(), Some("2"), "a model response and a refusal");
}

#[test]
fn a_run_that_ends_by_itself_is_not_stopped() {
    let mut state = dry_run("[stop]\nlimit = 'steps >= 1'\n");
    let reply =
        EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 0 };
    for kind in [EventKind::StepBegin, reply, EventKind::StepEnd] {
        state.take(&Event::new(Millis(0), kind));
    }
    assert_eq!(state.first, None);
}
