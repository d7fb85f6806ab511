//! Finish, pause, warn, retry, status and the trip record.

use endstop_core::event::{NewLimit, Source};
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Money, TokenUsage};
use endstop_core::{Directive, EventKind, Run, Status};

use crate::Driver;

#[test]
fn finish_is_one_more_step_without_tools() {
    let mut driver = Driver::toml("[stop]\nb = \"steps >= 9\"\n[finish]\na = \"steps >= 2\"");
    driver.step();
    driver.step();
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Finish);
    driver.reply(1, "0", 1);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "a" }), Directive::Refuse);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(
        (driver.run.step_count(), driver.reason()),
        (3, Some(StopReason::StepsLimitReached))
    );
}

#[test]
fn finish_begins_early_enough_to_fit_a_stop_limit() {
    let mut driver = Driver::toml("[stop]\nb = \"steps >= 3\"\n[finish]\na = \"steps >= 3\"");
    driver.step();
    driver.step();
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Finish);
    driver.reply(0, "0", 1);
    driver.see(EventKind::StepEnd);
    assert_eq!(driver.run.step_count(), 3);
}

#[test]
fn stop_comes_before_pause_before_finish_and_warn_only_tells() {
    let mut driver = Driver::toml(
        "[stop]\ns = \"steps >= 2\"\n[pause]\np = \"steps >= 1\"\n[finish]\nf = \"steps >= 1\"\n[warn]\nw = \"steps >= 1\"",
    );
    driver.step();
    let notices = driver.run.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].message, "steps is 1 (limit 1)");
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Pause);
    assert_eq!(driver.run.status(), Status::Paused);
    driver.see(EventKind::Approved { rule: "p", limit: None, by: "", why: "" });
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Finish);
    driver.reply(0, "0", 1);
    driver.see(EventKind::StepEnd);
    assert!(driver.run.take_notices().is_empty(), "once a rule");
}

#[test]
fn an_approval_may_raise_the_cap() {
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 99\"\n[pause]\np = \"cost >= $0.10\"");
    driver.step();
    assert_eq!(driver.step(), Directive::Pause);
    let limit = Some(NewLimit::cost("0.30".parse().unwrap()));
    assert_eq!(
        driver.see(EventKind::Approved { rule: "p", limit, by: "", why: "" }),
        Directive::Proceed
    );
    assert_eq!([driver.step(), driver.step()], [Directive::Proceed; 2]);
    assert_eq!(driver.step(), Directive::Pause);
    assert_eq!(driver.run.cost(), Some("0.30".parse().unwrap()));
}

#[test]
fn a_degenerate_reply_is_asked_for_again_a_few_times() {
    let mut driver =
        Driver::toml("[stop]\ns = \"steps >= 9\"\n[retry]\nr = 'finished(\"length\")'");
    driver.begin();
    let cut = |driver: &mut Driver| {
        let (usage, cost) = (Some(TokenUsage::default()), Some(Cost::Known(Money::ZERO)));
        let finish = Some("max_tokens");
        driver.see(EventKind::Reply { model: None, usage, cost, finish, tool_calls: 0 })
    };
    assert_eq!(cut(&mut driver), Directive::Retry);
    driver.see(EventKind::AttemptBegin { next_cost: None });
    assert_eq!(cut(&mut driver), Directive::Retry);
    driver.see(EventKind::AttemptBegin { next_cost: None });
    assert_eq!(cut(&mut driver), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::FinishReasonReceived));
}

#[test]
fn next_cost_gates_a_call_before_it_is_made() {
    let mut driver =
        Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"next_cost >= $0.50\"");
    driver.see(EventKind::StepBegin);
    let next =
        |usd: &str| EventKind::AttemptBegin { next_cost: Some(Cost::Known(usd.parse().unwrap())) };
    assert_eq!(driver.see(next("0.50")), Directive::Pause);
    driver.see(EventKind::Approved { rule: "p", limit: None, by: "", why: "" });
    assert_eq!(driver.see(next("0.50")), Directive::Proceed);
}

#[test]
fn a_tool_error_that_the_model_recovers_from_does_not_fail_the_run() {
    let mut driver = Driver::stop("steps >= 9 or max_errors(5)");
    driver.begin();
    driver.reply(1, "0", 1);
    driver.call("a", "boom", true);
    driver.see(EventKind::StepEnd);
    driver.natural_step();
    assert_eq!(driver.run.status(), Status::Completed);
}

#[test]
fn an_overflow_ends_the_run_with_an_error() {
    let mut driver = Driver::stop("steps >= 9");
    driver.begin();
    driver.reply(1, "0", u64::MAX - 1);
    assert_eq!(driver.reply(1, "0", u64::MAX - 1), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::ErrorForbade));
}

#[test]
fn the_trip_record_shows_every_leaf_with_value_limit_and_margin() {
    let mut driver = Driver::stop("max_steps(25) or max_usd(0.20) or called(\"x\")");
    driver.step();
    driver.begin();
    driver.reply(1, "0.15", 100);
    driver.see(EventKind::StepEnd);
    driver.begin();
    let trip_record = driver.run.trip_record();
    assert_eq!(trip_record.terminated_by.as_deref(), Some("max_usd(0.20)"));
    let parts = &trip_record.rules[0].tree.parts;
    let steps = &parts[0].parts[0];
    assert_eq!(steps.margin.as_deref(), Some("23"), "two have begun: {steps:?}");
    let cost = &parts[1].parts[0];
    assert_eq!((cost.observed.as_deref(), cost.limit.as_deref()), (Some("$0.25"), Some("$0.20")));
    assert!(trip_record.to_json().contains("\"cost_limit\""));
    assert!(
        trip_record.to_string().starts_with("stopped: cost_limit: cost is $0.25 (limit $0.20)")
    );
    assert_eq!(driver.run.into_trip_record(), trip_record);
    let mut going = Driver::stop("max_steps(25)");
    going.step();
    let trip_record = going.run.trip_record();
    assert_eq!(
        (trip_record.primary.as_ref(), going.run.into_trip_record() == trip_record),
        (None, true)
    );
}

#[test]
fn natural_completion_has_a_reason() {
    let mut driver = Driver::stop("steps >= 9");
    assert_eq!(driver.reason(), None);
    driver.natural_step();
    assert_eq!(driver.reason(), Some(StopReason::Completed));
}

#[test]
fn directives_say_what_they_admit_and_stop() {
    let admit = [Directive::Proceed, Directive::Finish, Directive::Retry];
    let stop = [Directive::Stop, Directive::Abort];
    for directive in [admit.as_slice(), &stop, &[Directive::Refuse, Directive::Pause]].concat() {
        assert_eq!(directive.admits(), admit.contains(&directive), "{directive:?}");
        assert_eq!(directive.stops(), stop.contains(&directive), "{directive:?}");
    }
}

#[test]
fn a_childs_user_message_does_not_revive_a_run_that_completed() {
    let mut driver = Driver::stop("steps >= 9");
    driver.natural_step();
    driver.source = Source::Descendant;
    driver.see(EventKind::UserMessage);
    assert_eq!(
        (driver.run.status(), driver.reason()),
        (Status::Completed, Some(StopReason::Completed))
    );
    driver.source = Source::Own;
    driver.see(EventKind::UserMessage);
    assert_eq!((driver.run.status(), driver.reason()), (Status::InProgress, None));
}

#[test]
fn an_overflow_is_told_once() {
    let mut driver = Driver::stop("steps >= 9");
    driver.begin();
    for _ in 0..4 {
        driver.reply(1, "0", u64::MAX - 1);
    }
    let standing = driver.run.continuation().stop_signals;
    assert_eq!(standing.iter().filter(|s| s.reason == StopReason::ErrorForbade).count(), 1);
    driver.see(EventKind::Tick);
    assert_eq!(driver.raised(), 1);
}

#[test]
fn the_new_limit_of_an_approval_is_for_the_gauge_it_names() {
    let mut driver = Driver::toml(
        "[stop]\ns = \"steps >= 99\"\n[pause]\np = \"cost >= $0.10 or tokens >= 500\"",
    );
    driver.step();
    assert_eq!(driver.step(), Directive::Pause);
    assert_eq!(driver.run.status(), Status::Paused);
    let limit = Some(NewLimit::cost("100".parse().unwrap()));
    assert_eq!(
        driver.see(EventKind::Approved { rule: "p", limit, by: "", why: "" }),
        Directive::Proceed
    );
    assert_eq!(driver.run.status(), Status::InProgress);
    for _ in 0..4 {
        assert_eq!(driver.step(), Directive::Proceed);
    }
    assert_eq!(driver.step(), Directive::Pause, "the token limit is unchanged");
}

#[test]
fn the_continuation_tells_signals_and_request() {
    let mut driver = Driver::stop("steps >= 1");
    assert_eq!(driver.run.continuation().explain(), "No Stop Signals; Continuation Requested: No");
    driver.step();
    let told = driver.run.continuation().explain();
    assert_eq!(told, "Stop Signals: steps_limit: steps is 1 (limit 1); Continuation Requested: No");
    driver.ask_to_go_on();
    let told = driver.run.continuation();
    assert!(told.is_continuation_requested, "{}", told.explain());
    assert!(driver.run.explain().contains("override at step 1: stop overridden by critic"));
}

#[test]
fn a_raised_limit_holds_however_far_it_is_passed() {
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 99\"\n[pause]\np = \"cost >= $0.10\"");
    driver.step();
    let limit = Some(NewLimit::cost("0.30".parse().unwrap()));
    driver.see(EventKind::Approved { rule: "p", limit, by: "", why: "" });
    driver.step_with("work", "x", "5000");
    assert_eq!(driver.step(), Directive::Pause);
}

#[test]
fn an_approval_of_a_pause_at_a_natural_end_ends_the_run() {
    let held_up = || {
        let mut driver = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = 'said(\"DONE\")'");
        driver.begin();
        driver.see(EventKind::Piece { text: "DONE" });
        driver.reply(0, "0.10", 100);
        assert_eq!(driver.see(EventKind::StepEnd), Directive::Pause);
        driver
    };
    let yes = || EventKind::Approved { rule: "p", limit: None, by: "", why: "" };
    let mut driver = held_up();
    let saved = driver.run.save().unwrap();
    assert_eq!(driver.see(yes()), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::Completed));
    driver.run = Run::restore(driver.run.program().clone(), &saved).unwrap();
    assert_eq!(driver.see(yes()), Directive::Stop);
    assert_eq!(driver.run.status(), Status::Completed);

    // Where a user has spoken since, or another step would begin, there is more to do.
    let mut driver = held_up();
    driver.see(EventKind::UserMessage);
    assert_eq!(driver.see(yes()), Directive::Proceed);
    let mut driver = held_up();
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Pause);
    assert_eq!(driver.see(yes()), Directive::Proceed);
    assert_eq!(driver.begin(), Directive::Proceed);
}
