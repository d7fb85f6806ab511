//! Signals, continuations and cancellation (docs/semantics.md, sections 4, 5 and 9).

use endstop_core::expr::parse;
use endstop_core::policy::Bound;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::{Directive, EventKind, Policy, Status};

use crate::Driver;

#[test]
fn a_continuation_lasts_through_the_next_step_and_is_finite() {
    let mut driver = Driver::stop("steps >= 1");
    assert_eq!(driver.step(), Directive::Stop);
    for _ in 0..3 {
        assert_eq!(driver.ask_to_go_on(), Directive::Proceed);
        assert_eq!(driver.run.status(), Status::InProgress);
        assert_eq!(
            driver.step(),
            Directive::Stop,
            "it does not leak into the checkpoint after the step"
        );
    }
    assert_eq!(driver.ask_to_go_on(), Directive::Stop);
    let signal = driver.run.last_stop_signal().unwrap();
    assert_eq!(signal.reason, StopReason::ErrorForbade);
    assert_eq!(signal.message, "override limit: steps_limit overridden 3 times and still standing");
    assert_eq!((driver.run.step_count(), driver.run.status()), (4, Status::Failed));
    assert_eq!(driver.run.trip_record().overrides.len(), 3);
}

#[test]
fn hard_rules_money_and_tokens_cannot_be_overridden() {
    for rule in ["cost >= $0.05", "tokens >= 10"] {
        let mut driver = Driver::stop(rule);
        driver.step();
        assert_eq!(driver.begin(), Directive::Stop);
        assert_eq!(driver.ask_to_go_on(), Directive::Stop, "{rule}");
        driver.ask_to_go_on();
        let record = driver.run.trip_record();
        let what: Vec<_> = record.overrides.iter().map(|it| (&*it.by, &*it.what)).collect();
        assert_eq!(what, [("critic", "not overridden: the rule is hard")], "{rule}");
    }
    let mut driver = Driver::toml("[stop]\na = \"steps >= 1\"\n[rule.a]\nhard = true");
    driver.step();
    assert_eq!(driver.ask_to_go_on(), Directive::Stop);
    for (rule, grant) in [("cost >= $0.05", "cost = \"$1\""), ("tokens >= 10", "tokens = \"10\"")] {
        let without_grant = format!("[stop]\na = \"{rule}\"\n[rule.a]\nhard = false");
        for (text, answer) in [
            (without_grant.clone(), Directive::Stop),
            (format!("{without_grant}\ngrant = {{ {grant} }}"), Directive::Proceed),
        ] {
            let mut driver = Driver::toml(&text);
            driver.step();
            assert_eq!(driver.begin(), Directive::Stop);
            assert_eq!(driver.ask_to_go_on(), answer, "{text}");
        }
    }
}

#[test]
fn a_rule_is_hard_while_a_hard_part_of_it_is_met() {
    let text = "steps >= 2 or cost >= $5";
    let mut cheap = Driver::stop(text);
    assert_eq!([cheap.step(), cheap.step()], [Directive::Proceed, Directive::Stop]);
    assert_eq!(cheap.ask_to_go_on(), Directive::Proceed, "only the steps are met");
    let mut dear = Driver::stop(text);
    dear.step();
    assert_eq!(dear.step_with("work", "x", "5"), Directive::Stop);
    assert_eq!(dear.begin(), Directive::Stop);
    assert!(!cheap.run.trip_record().rules[0].hard);
    let bounds = Policy::stop(parse(text).unwrap()).bounds();
    let both = |bound: Option<Bound>| bound.map(|b| (b.limit, b.with_overrides));
    assert_eq!(both(bounds.steps), Some((2, 5)));
    let dollars = |n: u64| n * 1_000_000_000_000;
    assert_eq!(both(bounds.cost), Some((dollars(5), dollars(5))));
    let mut named = Driver::stop("max_steps(1) or max_usd(5)");
    named.step();
    assert_eq!(named.ask_to_go_on(), Directive::Proceed, "named conditions are expanded");
    let mut all = Driver::stop("steps >= 1 and cost >= $0.01");
    all.step();
    all.begin();
    assert_eq!(all.ask_to_go_on(), Directive::Stop, "an `and` is one part");
}

#[test]
fn a_person_the_kill_switch_and_errors_cannot_be_overridden() {
    let error = StopSignal::new(StopReason::ErrorForbade);
    for kind in [
        EventKind::Cancel { message: "enough" },
        EventKind::Kill { message: "" },
        EventKind::StopRaised { signal: &error },
    ] {
        let mut driver = Driver::stop("steps >= 9");
        driver.step();
        assert_eq!(driver.see(kind.clone()), Directive::Stop);
        assert_eq!(driver.ask_to_go_on(), Directive::Stop, "{kind:?}");
    }
}

#[test]
fn a_cancellation_inside_a_step_cuts_what_is_in_flight() {
    let mut driver = Driver::stop("steps >= 9");
    driver.begin();
    assert_eq!(driver.see(EventKind::Cancel { message: "enough" }), Directive::Abort);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "a" }), Directive::Stop);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    let signal = driver.run.last_stop_signal().unwrap();
    assert_eq!((signal.reason, signal.message.as_str()), (StopReason::UserRequested, "enough"));
}

/// Whichever way it comes, the record of the stop shows the condition as met.
#[test]
fn a_cancelled_run_shows_its_cancellation_as_met() {
    let person = StopSignal::new(StopReason::UserRequested).with_message("enough");
    let ways = [
        EventKind::Cancel { message: "enough" },
        EventKind::Kill { message: "enough" },
        EventKind::StopRaised { signal: &person },
    ];
    for way in ways {
        let mut driver = Driver::stop("cancellation() or steps >= 9");
        driver.begin();
        driver.see(way.clone());
        let record = driver.run.trip_record();
        assert_eq!(record.primary.as_ref().unwrap().reason, StopReason::UserRequested);
        assert!(record.rules[0].trips, "{way:?}: {record}");
        assert!(record.to_string().contains("[x] cancellation()"), "{way:?}: {record}");
    }
}

#[test]
fn cancellation_is_heard_while_any_signal_stands_and_in_the_last_step() {
    let mut driver = Driver::stop("steps >= 1");
    driver.begin();
    driver.reply(0, "0", 1);
    assert_eq!(driver.see(EventKind::Cancel { message: "" }), Directive::Abort);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::UserRequested));
}

#[test]
fn a_raised_signal_is_kept_whole_and_the_step_in_flight_is_counted() {
    let signal = StopSignal::new(StopReason::StopRequested)
        .with_message("counted to 3")
        .with_context("final_count", 3)
        .with_source("counter");
    let mut driver = Driver::stop("steps >= 9");
    driver.step();
    driver.step();
    driver.begin();
    driver.reply(1, "0.1", 100);
    driver.see(EventKind::ToolBegin { tool: "counter" });
    assert_eq!(driver.see(EventKind::StopRaised { signal: &signal }), Directive::Stop);
    assert_eq!(
        driver.see(EventKind::ToolBegin { tool: "other" }),
        Directive::Stop,
        "the rest of the batch"
    );
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    assert_eq!(driver.run.last_stop_signal(), Some(&signal));
    assert_eq!((driver.run.step_count(), driver.run.tokens()), (3, 300));
    assert_eq!(driver.run.status(), Status::Stopped);
}

#[test]
fn a_continuation_clears_the_raised_signals_it_answers() {
    let signal = StopSignal::new(StopReason::StopRequested);
    let mut driver = Driver::stop("steps >= 9");
    driver.step();
    driver.see(EventKind::StopRaised { signal: &signal });
    assert_eq!(driver.ask_to_go_on(), Directive::Proceed);
    assert_eq!(driver.step(), Directive::Proceed);
}

#[test]
fn a_critic_may_ask_for_one_more_go_after_a_natural_end() {
    let mut driver = Driver::stop("steps >= 9");
    assert_eq!(driver.natural_step(), Directive::Stop);
    assert_eq!(driver.ask_to_go_on(), Directive::Proceed);
    assert_eq!(
        driver.natural_step(),
        Directive::Stop,
        "a request before a step does not reach its end"
    );
    assert_eq!(driver.reason(), Some(StopReason::Completed));
}

#[test]
fn raised_signals_are_bounded_and_the_most_authoritative_stay() {
    let of = |reason: StopReason| StopSignal::new(reason).with_message(reason.value());
    let mut driver = Driver::stop("steps >= 9");
    driver.begin();
    for _ in 0..100 {
        driver.see(EventKind::StopRaised { signal: &of(StopReason::NoProgress) });
    }
    for reason in [StopReason::StopRequested, StopReason::ErrorForbade] {
        driver.see(EventKind::StopRaised { signal: &of(reason) });
    }
    driver.see(EventKind::Cancel { message: "enough" });
    assert_eq!(driver.raised(), 64);
    let record = driver.run.trip_record();
    let reasons: Vec<StopReason> = record.signals.iter().map(|signal| signal.reason).collect();
    assert!(reasons.contains(&StopReason::ErrorForbade), "{reasons:?}");
    assert!(reasons.contains(&StopReason::UserRequested), "{reasons:?}");
    assert_eq!(driver.reason(), Some(StopReason::ErrorForbade));
    assert!(record.signals_dropped > 0 && record.to_string().contains("more"), "{record}");
}

#[test]
fn every_signal_of_a_step_is_recorded_and_a_person_wins_over_a_tool() {
    let mut driver = Driver::stop("steps >= 1");
    driver.begin();
    let tool = StopSignal::new(StopReason::StopRequested).with_message("done").with_source("look");
    assert_eq!(driver.see(EventKind::StopRaised { signal: &tool }), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::StopRequested));
    let other = StopSignal::new(StopReason::NoProgress).with_message("stuck");
    driver.see(EventKind::StopRaised { signal: &other });
    driver.see(EventKind::Cancel { message: "enough" });
    assert_eq!(driver.reason(), Some(StopReason::UserRequested), "the step is still open");
    driver.see(EventKind::Cancel { message: "enough" });
    driver.see(EventKind::StepEnd);
    let record = driver.run.trip_record();
    let messages: Vec<&str> = record.signals.iter().map(|s| s.message.as_str()).collect();
    assert_eq!(messages, ["done", "stuck", "enough"], "in order of arrival, each once");
    assert!(!record.late_signals.has_any());
}

#[test]
fn a_signal_after_the_end_is_late_and_changes_neither_reason_nor_status() {
    let mut driver = Driver::stop("steps >= 1");
    assert_eq!(driver.step(), Directive::Stop);
    let error = StopSignal::new(StopReason::ErrorForbade).with_message("the disk is full");
    driver.see(EventKind::StopRaised { signal: &error });
    driver.see(EventKind::Kill { message: "" });
    assert_eq!(driver.reason(), Some(StopReason::StepsLimitReached));
    assert_eq!(driver.run.status(), Status::Stopped);
    let record = driver.run.trip_record();
    assert_eq!(record.late_signals.iter().count(), 2);
    assert!(record.to_string().contains("\nlate: error: the disk is full"), "{record}");
    // Whatever comes after the end does not make the record grow without bound.
    for number in 0..1_000 {
        let again = StopSignal::new(StopReason::ErrorForbade).with_message(number.to_string());
        driver.see(EventKind::StopRaised { signal: &again });
        driver.see(EventKind::StopRaised { signal: &error });
    }
    let record = driver.run.trip_record();
    assert_eq!((record.late_signals.iter().count(), record.signals_dropped), (64, 938));
}

#[test]
fn while_a_step_of_a_descendant_is_open_the_run_has_not_ended() {
    let mut driver = Driver::stop("steps >= 1");
    driver.source = endstop_core::event::Source::Descendant;
    driver.begin();
    let tool = StopSignal::new(StopReason::StopRequested);
    driver.source = endstop_core::event::Source::Own;
    driver.see(EventKind::StopRaised { signal: &tool });
    driver.see(EventKind::Kill { message: "out" });
    assert_eq!(driver.reason(), Some(StopReason::UserRequested));
}
