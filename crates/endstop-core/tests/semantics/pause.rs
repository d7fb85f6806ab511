//! Pausing a run from outside.

use std::sync::Arc;

use endstop_core::probe::Probes;
use endstop_core::signal::StopReason;
use endstop_core::{Directive, EventKind, Policy, Program, Run, Status};

use super::Driver;

const PAUSE: EventKind<'static> = EventKind::PauseRequested { by: "ann", why: "lunch" };
const RESUME: EventKind<'static> = EventKind::ResumeRequested { by: "bob", why: "" };

#[test]
fn a_pause_from_outside_lets_nothing_begin_and_what_is_in_flight_ends() {
    let mut driver = Driver::stop("steps >= 9");
    driver.see(EventKind::RunBegin { agent: None, depth: 0 });
    driver.begin();
    assert_eq!(driver.see(PAUSE), Directive::Proceed);
    assert_eq!(driver.see(EventKind::Piece { text: "I will" }), Directive::Proceed);
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Proceed);
    assert_eq!(driver.run.status(), Status::InProgress, "nothing was held back yet");
    for kind in [EventKind::AttemptBegin { next_cost: None }, EventKind::StepBegin] {
        assert_eq!(driver.see(kind.clone()), Directive::Pause, "{kind:?}");
    }
    assert_eq!(driver.run.status(), Status::Paused);
    assert!(driver.run.explain().starts_with("paused by ann: lunch\n"), "{}", driver.run.explain());
    assert_eq!(driver.see(RESUME), Directive::Proceed);
    assert_eq!(driver.run.status(), Status::InProgress);
    assert_eq!(driver.call("work", "done", false), Directive::Proceed);
    assert_eq!(
        (driver.see(EventKind::StepEnd), driver.begin()),
        (Directive::Proceed, Directive::Proceed)
    );
    assert_eq!((driver.run.step_count(), driver.run.pause_request()), (2, None));
}

#[test]
fn tool_calls_are_held_back_by_the_driver_which_says_that_it_waits() {
    let mut driver = Driver::stop("steps >= 9");
    driver.begin();
    driver.reply(1, "0.10", 100);
    driver.see(PAUSE);
    driver.see(EventKind::Paused);
    assert_eq!(driver.run.status(), Status::Paused);
    driver.see(RESUME);
    driver.see(EventKind::Resumed);
    assert_eq!(driver.run.status(), Status::InProgress);
    driver.see(PAUSE);
    assert_eq!(driver.call("work", "done", false), Directive::Proceed, "it runs at a client");
}

#[test]
fn active_stands_still_from_the_request_to_the_resumption_whatever_else_waits() {
    let mut driver = Driver::stop("active >= 10s or elapsed >= 1h");
    driver.see(EventKind::RunBegin { agent: None, depth: 0 });
    for (at, kind) in [
        (4_000, PAUSE),
        (5_000, EventKind::Paused),
        (60_000, EventKind::Resumed),
        (70_000, PAUSE),
        (80_000, RESUME),
    ] {
        driver.at = at;
        driver.see(kind);
    }
    driver.at = 85_999;
    assert_eq!(driver.see(EventKind::Tick), Directive::Proceed);
    driver.at = 86_000;
    assert_eq!(driver.see(EventKind::Tick), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::TimeLimitReached));
}

#[test]
fn elapsed_goes_on_and_a_cancellation_ends_a_paused_run() {
    let mut driver = Driver::stop("elapsed >= 10s");
    driver.see(PAUSE);
    assert_eq!(driver.begin(), Directive::Pause);
    driver.at = 10_000;
    assert_eq!(driver.see(EventKind::Tick), Directive::Stop);

    let mut driver = Driver::stop("steps >= 9");
    driver.see(PAUSE);
    driver.begin();
    assert_eq!(driver.see(EventKind::Cancel { message: "no" }), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::UserRequested));
}

#[test]
fn a_pause_from_outside_and_a_rule_that_pauses_are_independent() {
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"steps >= 1\"");
    driver.step();
    assert_eq!(driver.step(), Directive::Pause);
    driver.see(PAUSE);
    assert_eq!(driver.see(RESUME), Directive::Pause, "the rule still pauses the run");
    driver.see(PAUSE);
    driver.see(EventKind::Approved { rule: "p", limit: None, by: "", why: "" });
    assert_eq!(driver.begin(), Directive::Pause, "an approval ends no pause from outside");
    driver.see(RESUME);
    assert_eq!(driver.step(), Directive::Proceed);
}

#[test]
fn a_run_that_ends_by_itself_is_not_held_back() {
    let mut driver = Driver::stop("steps >= 9");
    driver.begin();
    driver.see(PAUSE);
    driver.reply(0, "0.10", 100);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(driver.run.status(), Status::Completed);
    driver.see(EventKind::UserMessage);
    assert_eq!(driver.begin(), Directive::Pause, "its next turn is");
}

#[test]
fn a_pause_from_outside_is_saved_with_the_run() {
    let policy = Policy::from_toml("[stop]\ns = \"active >= 10s or steps >= 9\"").unwrap();
    let mut driver = Driver::of(&policy);
    driver.at = 4_000;
    driver.see(PAUSE);
    driver.begin();
    let text = driver.run.save().unwrap();
    let program = Program::new(&policy, &Probes::new()).unwrap();
    driver.run = Run::restore(Arc::new(program), &text).unwrap();
    driver.at = 60_000;
    let request = driver.run.pause_request().map(ToString::to_string);
    assert_eq!(request.as_deref(), Some("paused by ann: lunch"));
    assert_eq!(driver.begin(), Directive::Pause);
    driver.see(RESUME);
    assert_eq!((driver.begin(), driver.run.gauge("active")), (Directive::Proceed, Some(4_000)));
}
