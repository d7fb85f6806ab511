//! Runs that continue after a stop.

use std::sync::Arc;

use endstop_core::probe::Probes;
use endstop_core::signal::{LIMIT_SOURCE, StopReason, StopSignal};
use endstop_core::{Directive, EventKind, Policy, Program, Run, Status};

use super::Driver;

const REOPEN: EventKind<'static> = EventKind::Reopened { by: "ann", why: "" };

/// The run under another policy, in another process.
fn under(driver: &mut Driver, policy: &str) {
    let policy = Policy::from_toml(policy).unwrap();
    let program = Program::new(&policy, &Probes::new()).unwrap();
    driver.run = Run::restore(Arc::new(program), &driver.run.save().unwrap()).unwrap();
}

#[test]
fn a_cancellation_is_taken_back_and_the_run_continues_where_it_was() {
    let mut driver = Driver::stop("steps >= 9 or cancellation()");
    driver.step();
    driver.see(EventKind::Cancel { message: "no" });
    driver.see(EventKind::Kill { message: "no" });
    assert_eq!(
        (driver.begin(), driver.reason()),
        (Directive::Stop, Some(StopReason::UserRequested))
    );
    assert_eq!(driver.see(REOPEN), Directive::Proceed);
    assert_eq!((driver.run.status(), driver.reason()), (Status::InProgress, None));
    assert_eq!((driver.step(), driver.run.step_count()), (Directive::Proceed, 2));
    assert!(driver.run.explain().contains("signals reopened by ann"), "{}", driver.run.explain());
}

#[test]
fn a_run_that_a_rule_an_error_or_a_tool_stopped_is_not_reopened() {
    for reason in [None, Some(StopReason::ErrorForbade), Some(StopReason::StopRequested)] {
        let mut driver = Driver::stop("steps >= 1");
        driver.step();
        match reason.map(StopSignal::new) {
            Some(signal) => driver.see(EventKind::StopRaised { signal: &signal }),
            None => driver.begin(),
        };
        let before = driver.reason();
        assert_eq!((driver.see(REOPEN), driver.reason()), (Directive::Stop, before), "{reason:?}");
    }
    let mut driver = Driver::stop("steps >= 9");
    driver.natural_step();
    driver.see(REOPEN);
    assert_eq!(driver.run.status(), Status::Completed, "it has ended on its own");
}

#[test]
fn only_another_limit_reopens_what_a_limit_stopped() {
    let mut driver = Driver::toml("[stop]\na = \"steps >= 1\"\nb = \"cost >= $9\"");
    driver.step();
    assert_eq!(driver.begin(), Directive::Stop);
    for (policy, is_other) in [
        ("[stop]\na = \"steps >= 1\"", false),
        ("[stop]\na = \"steps >= 1\"\nc = \"tokens >= 900\"", false),
        // Other rules, and one of them stops it.
        ("[stop]\na = \"steps >= 3\"\nc = \"tokens >= 1\"", false),
        ("[stop]\nc = \"tokens >= 900\"", true),
        ("[stop]\na = \"steps >= 3\"", true),
    ] {
        under(&mut driver, policy);
        assert_eq!(driver.run.was_stopped_by_other_rules(), is_other, "{policy}");
    }
    assert_eq!(driver.see(REOPEN), Directive::Proceed);
    assert_eq!((driver.step(), driver.begin()), (Directive::Proceed, Directive::Proceed));
}

#[test]
fn a_response_that_a_limit_or_a_stop_cut_off_is_no_natural_end() {
    let limit = StopSignal::new(StopReason::CostLimitReached).with_source(LIMIT_SOURCE);
    for (stop, is_late, after) in [
        (EventKind::StopRaised { signal: &limit }, false, Status::InProgress),
        (EventKind::Cancel { message: "" }, true, Status::InProgress),
        (EventKind::Cancel { message: "" }, false, Status::Completed),
    ] {
        let mut driver = Driver::toml("[stop]\na = \"steps >= 9\"");
        driver.begin();
        if is_late {
            driver.see(stop);
            driver.reply(0, "0.10", 100);
        } else {
            driver.reply(0, "0.10", 100);
            driver.see(stop);
        }
        driver.see(EventKind::StepEnd);
        under(&mut driver, "[stop]\na = \"steps >= 10\"");
        driver.see(REOPEN);
        assert_eq!(driver.run.status(), after, "late {is_late}");
    }
}

#[test]
fn a_rule_with_the_reason_completed_is_no_natural_end() {
    let mut driver = Driver::toml("[stop]\na = \"steps >= 1\"\n[rule.a]\nreason = \"completed\"");
    driver.step();
    driver.begin();
    assert_eq!((driver.run.status(), driver.run.ended_by_itself()), (Status::Completed, false));
    let mut driver = Driver::stop("steps >= 9");
    driver.natural_step();
    assert_eq!((driver.run.status(), driver.run.ended_by_itself()), (Status::Completed, true));
}
