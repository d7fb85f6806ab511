//! Limits, units, facts, descendants, clocks.

use std::sync::Arc;

use endstop_core::event::Source;
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, TokenUsage};
use endstop_core::{Directive, EventKind, Run, Status};

use crate::Driver;

#[test]
fn a_limit_admits_exactly_n() {
    for limit in 0..4u64 {
        let mut driver = Driver::stop(&format!("steps >= {limit}"));
        let begun = (0..10)
            .take_while(|_| driver.step().admits() || driver.run.step_count() < limit)
            .count();
        assert_eq!(driver.run.step_count(), limit, "{begun}");
        assert_eq!(driver.see(EventKind::StepBegin), Directive::Stop);
        assert_eq!(driver.run.step_count(), limit);
    }
}

#[test]
fn zero_admits_nothing_not_even_the_run() {
    let mut driver = Driver::stop("cost >= $0");
    assert_eq!(driver.see(EventKind::RunBegin { agent: None, depth: 0 }), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::CostLimitReached));
    assert_eq!(driver.run.trip_record().refused.as_deref(), Some("the run"));
}

#[test]
fn the_nth_step_runs_its_tools() {
    let mut driver = Driver::stop("steps >= 2");
    driver.step();
    driver.begin();
    assert_eq!(driver.reply(2, "0.1", 1), Directive::Proceed);
    assert_eq!(driver.call("a", "x", false), Directive::Proceed);
    assert_eq!(driver.see(EventKind::Tick), Directive::Proceed);
    assert_eq!(driver.call("b", "y", false), Directive::Proceed);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::StepsLimitReached));
}

#[test]
fn a_count_inside_a_step_is_compared_only_when_one_more_would_begin() {
    let mut driver = Driver::stop("tool_calls >= 2");
    driver.begin();
    driver.reply(3, "0.1", 1);
    assert_eq!(driver.call("a", "1", false), Directive::Proceed);
    assert_eq!(driver.call("a", "2", false), Directive::Proceed);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "a" }), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::ToolCallsLimitReached));
    assert_eq!(driver.run.trip_record().refused.as_deref(), Some("a call of `a` in step 1"));
}

#[test]
fn one_tools_calls_are_counted_apart() {
    let mut driver = Driver::stop("tool_calls(\"search\") >= 1");
    driver.begin();
    driver.reply(3, "0.1", 1);
    assert_eq!(driver.call("search", "1", false), Directive::Proceed);
    assert_eq!(driver.call("read", "1", false), Directive::Proceed);
    assert_eq!(driver.call("search", "2", false), Directive::Stop);
}

#[test]
fn a_natural_end_beats_numeric_limits() {
    let mut driver = Driver::stop("steps >= 1 or cost >= $0.05");
    driver.begin();
    assert_eq!(driver.reply(0, "0.10", 1), Directive::Proceed);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::Completed));
    assert_eq!(driver.run.status(), Status::Completed);
    assert_eq!(
        driver.see(EventKind::UserMessage),
        Directive::Stop,
        "the limit prevents a further step"
    );
    assert_eq!(driver.reason(), Some(StopReason::StepsLimitReached));
}

#[test]
fn a_natural_end_does_not_beat_other_conditions() {
    let mut driver = Driver::stop("steps >= 1 or signal(\"halt\")");
    driver.see(EventKind::Signal { name: "other", by: "", why: "" });
    driver.begin();
    driver.reply(0, "0.10", 1);
    driver.see(EventKind::Signal { name: "halt", by: "", why: "" });
    assert_eq!(driver.reason(), Some(StopReason::UserRequested));
}

#[test]
fn tokens_and_money_are_compared_where_a_request_would_begin() {
    for (limit, reason) in [
        ("cost >= $0.30", StopReason::CostLimitReached),
        ("tokens >= 101", StopReason::TokenLimitReached),
    ] {
        let mut driver = Driver::stop(limit);
        driver.step();
        driver.begin();
        assert_eq!(driver.reply(1, "0.20", 1), Directive::Proceed, "it has been paid for");
        assert_eq!(driver.call("submit", "x", false), Directive::Proceed, "so its tools run");
        let attempt = EventKind::AttemptBegin { next_cost: None };
        let mut again = Driver { run: driver.run.frozen(), at: 0, source: Source::Own };
        assert_eq!(again.see(attempt), Directive::Stop, "no second request in the step");
        assert_eq!(driver.see(EventKind::StepEnd), Directive::Proceed);
        let mut below = Driver { run: driver.run.frozen(), at: 0, source: Source::Descendant };
        assert_eq!(below.see(EventKind::StepBegin), Directive::Stop, "nor one of a sub-agent");
        assert_eq!(driver.begin(), Directive::Stop);
        assert_eq!(driver.reason(), Some(reason));
        assert_eq!(driver.run.cost(), Some("0.30".parse().unwrap()));
    }
}

#[test]
fn a_run_that_ended_by_itself_reports_its_overshoot() {
    let mut driver = Driver::stop("cost >= $0.05");
    assert_eq!(driver.natural_step(), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::Completed));
    let told = driver.run.trip_record();
    assert_eq!(told.rules[0].tree.observed.as_deref(), Some("$0.10"));
    assert_eq!(driver.begin(), Directive::Stop, "another step is another request");
    assert_eq!(driver.reason(), Some(StopReason::CostLimitReached));
}

#[test]
fn an_unknown_price_stops_a_money_rule_unless_the_policy_says_otherwise() {
    // The directive for the next request after one without a price.
    let unpriced = |driver: &mut Driver| {
        driver.begin();
        let usage = TokenUsage { input: 1_000_000, ..TokenUsage::default() };
        let (usage, cost) = (Some(usage), Some(Cost::Unpriced));
        driver.see(EventKind::Reply { model: None, usage, cost, finish: None, tool_calls: 1 });
        driver.see(EventKind::StepEnd);
        driver.begin()
    };
    let mut strict = Driver::stop("cost >= $5");
    assert_eq!(unpriced(&mut strict), Directive::Stop);
    assert_eq!(strict.run.cost(), None);
    let told = strict.run.trip_record().primary.unwrap().message;
    assert_eq!(told, "cost >= $5.00 needs a price, and a call has none");
    let mut lenient = Driver::toml("on_unpriced = \"ignore\"\n[stop]\na = \"cost >= $5\"");
    assert_eq!(unpriced(&mut lenient), Directive::Proceed);
    let rates = "on_unpriced = { input = \"$6/M\", output = \"$1/M\" }\n[stop]\na = \"cost >= $5\"";
    let mut at_rates = Driver::toml(rates);
    assert_eq!(unpriced(&mut at_rates), Directive::Stop);
    assert_eq!(at_rates.run.cost(), Some("6".parse().unwrap()));
}

#[test]
fn facts_are_true_or_unknown_until_the_step_ends() {
    let mut driver = Driver::stop("not called(\"read\") and steps < 100");
    assert_eq!(
        driver.see(EventKind::RunBegin { agent: None, depth: 0 }),
        Directive::Stop,
        "no step: false"
    );
    let mut driver = Driver::stop("not ever(called(\"read\")) and steps >= 1");
    driver.begin();
    driver.reply(1, "0.1", 1);
    assert_eq!(
        driver.see(EventKind::ToolBegin { tool: "write" }),
        Directive::Proceed,
        "still unknown"
    );
    driver.see(EventKind::ToolEnd { tool: "write", arguments: "", result: "", failed: false });
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop, "now false");
    let mut driver = Driver::stop("not ever(called(\"read\")) and steps >= 1");
    assert_eq!(driver.step_with("read", "x", "0"), Directive::Proceed);
    assert_eq!(driver.step_with("write", "x", "0"), Directive::Proceed, "it has been called");
}

#[test]
fn called_holds_once_the_call_has_its_result() {
    let mut driver = Driver::stop("called(\"submit\")");
    driver.begin();
    driver.reply(1, "0.1", 1);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "submit" }), Directive::Proceed);
    let end = EventKind::ToolEnd { tool: "submit", arguments: "", result: "ok", failed: false };
    assert_eq!(driver.see(end), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::ConditionMet));
    assert_eq!(driver.run.status(), Status::Completed);
}

#[test]
fn said_sees_the_models_words_across_pieces_and_only_in_their_step() {
    let mut driver = Driver::stop("said(\"FINAL ANSWER\") then said(\"bye\")");
    driver.begin();
    driver.see(EventKind::Piece { text: "my FINAL AN" });
    driver.see(EventKind::Piece { text: "SWER bye" });
    driver.reply(1, "0", 1);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Proceed, "the same step is not later");
    driver.begin();
    assert_eq!(driver.see(EventKind::Piece { text: "bye" }), Directive::Stop);
}

#[test]
fn said_may_ask_for_one_agent() {
    let mut driver = Driver::stop("said(\"done\", from=\"critic\")");
    driver.see(EventKind::RunBegin { agent: Some("writer"), depth: 0 });
    driver.begin();
    assert_eq!(driver.see(EventKind::Piece { text: "done" }), Directive::Proceed);
    driver.reply(1, "0", 1);
    driver.see(EventKind::HandOff { to: "critic" });
    driver.see(EventKind::StepEnd);
    driver.begin();
    assert_eq!(driver.see(EventKind::Piece { text: "done" }), Directive::Stop);
}

#[test]
fn words_of_a_failed_attempt_are_dropped() {
    let mut driver = Driver::stop("said(\"done\")");
    driver.begin();
    driver.see(EventKind::Piece { text: "do" });
    driver.see(EventKind::AttemptFailed { usage: None, cost: None });
    driver.see(EventKind::AttemptBegin { next_cost: None });
    driver.see(EventKind::Piece { text: "ne" });
    driver.reply(1, "0", 1);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Proceed);
}

#[test]
fn signals_stay_set() {
    let mut driver = Driver::stop("signal(\"cancel\") and steps >= 1");
    assert_eq!(
        driver.see(EventKind::Signal { name: "cancel", by: "", why: "" }),
        Directive::Proceed
    );
    assert_eq!(driver.step(), Directive::Stop);
}

#[test]
fn a_user_message_starts_repeats_and_no_progress_afresh() {
    for rule in ["repeats >= 2", "no_progress(2)"] {
        let mut driver = Driver::stop(rule);
        driver.see(EventKind::UserMessage);
        for turn in 0..3 {
            assert_eq!(driver.step_with("poll", "same", "0"), Directive::Proceed, "{rule} {turn}");
            assert_eq!(driver.step_with("poll", "same", "0"), Directive::Proceed, "{rule} {turn}");
            driver.see(EventKind::UserMessage);
        }
        driver.step_with("poll", "same", "0");
        driver.step_with("poll", "same", "0");
        assert!(driver.step_with("poll", "same", "0").stops(), "{rule}");
        assert_eq!(driver.reason(), Some(StopReason::NoProgress), "{rule}");
    }
}

#[test]
fn counts_tokens_and_money_include_descendants_and_facts_do_not() {
    let mut driver = Driver::stop("steps >= 3 or called(\"submit\") or own.steps >= 2");
    driver.begin();
    driver.reply(1, "0.1", 10);
    driver.see(EventKind::ToolBegin { tool: "agent" });
    driver.see(EventKind::ChildBegin { depth: 1 });
    driver.source = Source::Descendant;
    assert_eq!(driver.step_with("submit", "done", "0.2"), Directive::Proceed, "a child's submit");
    assert_eq!(driver.step_with("submit", "done", "0.2"), Directive::Proceed);
    assert_eq!(
        driver.see(EventKind::StepBegin),
        Directive::Stop,
        "its fourth step would be the run's"
    );
    assert_eq!(driver.run.step_count(), 3);
    assert_eq!(driver.run.cost(), Some("0.5".parse().unwrap()));
    assert_eq!(driver.reason(), Some(StopReason::StepsLimitReached));
}

#[test]
fn depth_refuses_a_deeper_child_and_stops_no_run() {
    let mut driver = Driver::stop("max_depth(1) or steps >= 9");
    driver.begin();
    driver.reply(1, "0", 1);
    assert_eq!(driver.see(EventKind::ChildBegin { depth: 1 }), Directive::Proceed);
    assert_eq!(driver.see(EventKind::ChildBegin { depth: 2 }), Directive::Refuse);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Proceed);
}

/// A few milliseconds more than the limit are no news.
#[test]
fn a_time_limit_is_told_as_people_read_times() {
    let mut driver = Driver::stop("active >= 5s");
    driver.begin();
    driver.at = 5_003;
    driver.see(EventKind::Tick);
    let told = driver.run.trip_record();
    assert_eq!(told.primary.as_ref().unwrap().message, "active time is 5s (limit 5s)");
    let text = told.to_string();
    assert!(text.contains("[x] active >= 5s  is 5s"), "{text}");
    assert!(!text.contains("5s3ms"), "{text}");
}

#[test]
fn active_time_stands_still_while_paused_and_elapsed_does_not() {
    let mut driver = Driver::stop("active >= 10s");
    driver.see(EventKind::RunBegin { agent: None, depth: 0 });
    driver.at = 4_000;
    driver.see(EventKind::Paused);
    driver.at = 60_000;
    assert_eq!(driver.see(EventKind::Tick), Directive::Proceed);
    driver.see(EventKind::Resumed);
    driver.at = 65_999;
    assert_eq!(driver.see(EventKind::Tick), Directive::Proceed);
    driver.at = 66_000;
    assert_eq!(driver.see(EventKind::Tick), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::TimeLimitReached));
}

#[test]
fn attempts_of_children_side_by_side_are_no_retries() {
    let mut driver = Driver::stop("steps >= 99");
    driver.begin();
    driver.source = Source::Descendant;
    for _ in 0..3 {
        driver.see(EventKind::StepBegin);
    }
    for _ in 0..3 {
        driver.see(EventKind::AttemptBegin { next_cost: None });
    }
    assert_eq!(driver.run.gauge("retries"), Some(0));
    // One more than the steps that they have begun is one.
    driver.see(EventKind::AttemptBegin { next_cost: None });
    assert_eq!(driver.run.gauge("retries"), Some(1));
}

#[test]
fn a_driver_that_reports_replies_without_steps_is_told() {
    let mut driver = Driver::stop("max_steps(2)");
    driver.see(EventKind::AttemptBegin { next_cost: None });
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::ErrorForbade));
    let message = driver.run.last_stop_signal().unwrap().message.clone();
    assert!(message.contains("EventKind::StepBegin"), "{message}");
    assert_eq!(driver.ask_to_go_on(), Directive::Stop, "nothing overrides it");
    driver.reply(1, "0.10", 100);
    assert_eq!(driver.raised(), 1, "it is reported once");
}

#[test]
fn replies_without_steps_are_told_of_the_run_itself_only() {
    let mut driver = Driver::stop("max_steps(2)");
    driver.source = Source::Descendant;
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Proceed);
    driver.source = Source::Own;
    driver.begin();
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Proceed, "a step began");
    let saved = driver.run.save().unwrap();
    driver.run = Run::restore(Arc::clone(driver.run.program()), &saved).unwrap();
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Proceed, "and is known after a restore");
}

#[test]
fn a_driver_that_no_longer_reports_steps_is_told() {
    let mut driver = Driver::stop("max_steps(9)");
    driver.step();
    driver.see(EventKind::AttemptBegin { next_cost: None });
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::ErrorForbade));
    let message = driver.run.last_stop_signal().unwrap().message.clone();
    assert!(message.contains("outside a step"), "{message}");
    // A natural end does not excuse it.
    let mut driver = Driver::stop("max_steps(9)");
    driver.natural_step();
    driver.see(EventKind::UserMessage);
    assert_eq!(driver.reply(0, "0.10", 100), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::ErrorForbade));
}

#[test]
fn a_step_that_was_refused_and_is_taken_anyway_is_not_missing() {
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 9\"\n[pause]\np = \"steps >= 1\"");
    assert_eq!(driver.step(), Directive::Pause);
    assert_eq!(driver.begin(), Directive::Pause);
    let saved = driver.run.save().unwrap();
    driver.run = Run::restore(Arc::clone(driver.run.program()), &saved).unwrap();
    driver.reply(1, "0.10", 100);
    assert_eq!((driver.reason(), driver.raised()), (None, 0));
    driver.see(EventKind::StepEnd);
    assert_eq!(driver.reply(1, "0.10", 100), Directive::Stop, "its end was reported");
    assert_eq!(driver.reason(), Some(StopReason::ErrorForbade));
}

#[test]
fn a_quota_is_unknown_until_a_provider_reports_it() {
    let mut driver = Driver::stop("quota(\"5h\") >= 87.5% or steps >= 9");
    let report =
        |driver: &mut Driver, name: &str, value| driver.see(EventKind::Fact { name, value });
    assert_eq!(driver.step(), Directive::Proceed);
    assert_eq!(report(&mut driver, "quota(7d)", 9_900), Directive::Proceed);
    assert_eq!(report(&mut driver, "quota(5h)", 8_749), Directive::Proceed);
    assert_eq!(report(&mut driver, "quota(5h)", 8_750), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::CostLimitReached));
    let text = driver.run.explain();
    assert!(text.contains("quota(\"5h\") is 87.5% (limit 87.5%)"), "{text}");
}
