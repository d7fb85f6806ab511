//! 01-semantics, rule by rule: each test is named after the rule it shows.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;

use endstop_core::event::{Cap, Source};
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Millis, Money, TokenUsage};
use endstop_core::{Directive, Event, EventKind, Policy, Program, Run, Status};

struct Driver {
    run: Run,
    at: u64,
    source: Source,
}

impl Driver {
    fn of(policy: &Policy) -> Self {
        let program = Program::new(policy, &Probes::new()).unwrap();
        Self { run: Run::new(Arc::new(program)), at: 0, source: Source::Own }
    }

    fn stop(expression: &str) -> Self {
        Self::of(&Policy::stop(parse(expression).unwrap()))
    }

    fn toml(text: &str) -> Self {
        Self::of(
            &Policy::from_toml(text)
                .unwrap_or_else(|e| panic!("{}", e.render(text, "test", false))),
        )
    }

    fn see(&mut self, kind: EventKind<'_>) -> Directive {
        self.run.observe(&Event { source: self.source, ..Event::new(Millis(self.at), kind) })
    }

    fn reply(&mut self, tool_calls: u32, cost: &str, tokens: u64) -> Directive {
        let usage = TokenUsage { input: tokens, ..TokenUsage::default() };
        let cost = Cost::Known(cost.parse().unwrap());
        self.see(EventKind::Reply {
            model: None,
            usage: Some(usage),
            cost: Some(cost),
            finish: None,
            tool_calls,
        })
    }

    fn begin(&mut self) -> Directive {
        match self.see(EventKind::StepBegin) {
            directive if directive.admits() => {
                self.see(EventKind::AttemptBegin { next_cost: None });
                directive
            }
            refused => refused,
        }
    }

    fn call(&mut self, tool: &str, result: &str, failed: bool) -> Directive {
        match self.see(EventKind::ToolBegin { tool }) {
            directive if directive.admits() => {
                self.see(EventKind::ToolEnd { tool, arguments: "{}", result, failed })
            }
            refused => refused,
        }
    }

    /// A step with one call of a tool; the directive after it, or the one that refused it.
    fn step(&mut self) -> Directive {
        let result = format!("result {}", self.run.step_count());
        self.step_with("work", &result, "0.10")
    }

    fn step_with(&mut self, tool: &str, result: &str, cost: &str) -> Directive {
        let begun = self.begin();
        if !begun.admits() {
            return begun;
        }
        self.reply(1, cost, 100);
        self.call(tool, result, false);
        self.see(EventKind::StepEnd)
    }

    fn natural_step(&mut self) -> Directive {
        let begun = self.begin();
        if !begun.admits() {
            return begun;
        }
        self.reply(0, "0.10", 100);
        self.see(EventKind::StepEnd)
    }

    fn reason(&self) -> Option<StopReason> {
        self.run.stop_reason()
    }

    fn ask_to_go_on(&mut self) -> Directive {
        self.see(EventKind::ContinuationRequested { by: "critic" })
    }
}

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
    assert_eq!(driver.run.verdict().refused.as_deref(), Some("the run"));
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
    assert_eq!(driver.run.verdict().refused.as_deref(), Some("a call of `a` in step 1"));
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
        "the limit stands against going on"
    );
    assert_eq!(driver.reason(), Some(StopReason::StepsLimitReached));
}

#[test]
fn a_natural_end_does_not_beat_other_conditions() {
    let mut driver = Driver::stop("steps >= 1 or signal(\"halt\")");
    driver.see(EventKind::Signal { name: "other" });
    driver.begin();
    driver.reply(0, "0.10", 1);
    driver.see(EventKind::Signal { name: "halt" });
    assert_eq!(driver.reason(), Some(StopReason::UserRequested));
}

#[test]
fn cost_is_checked_inside_a_step() {
    let mut driver = Driver::stop("cost >= $0.30");
    driver.step();
    driver.begin();
    assert_eq!(driver.reply(1, "0.20", 1), Directive::Stop);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "submit" }), Directive::Stop);
    assert_eq!(driver.reason(), Some(StopReason::CostLimitReached));
    assert_eq!(driver.run.cost(), Some("0.30".parse().unwrap()));
}

#[test]
fn an_unknown_price_stops_a_money_rule_unless_the_policy_says_otherwise() {
    let unpriced = |driver: &mut Driver| {
        driver.begin();
        let usage = TokenUsage { input: 1_000_000, ..TokenUsage::default() };
        let (usage, cost) = (Some(usage), Some(Cost::Unpriced));
        driver.see(EventKind::Reply { model: None, usage, cost, finish: None, tool_calls: 1 })
    };
    let mut strict = Driver::stop("cost >= $5");
    assert_eq!(unpriced(&mut strict), Directive::Stop);
    assert_eq!(strict.run.cost(), None);
    let told = strict.run.verdict().primary.unwrap().message;
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
    assert_eq!(driver.see(EventKind::Signal { name: "cancel" }), Directive::Proceed);
    assert_eq!(driver.step(), Directive::Stop);
}

#[test]
fn a_user_message_starts_repeats_cycles_and_no_progress_afresh() {
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
fn polling_that_changes_is_progress() {
    let mut driver = Driver::stop("repeats >= 1 or cycles >= 1 or no_progress(2)");
    for minute in 0..20 {
        assert_eq!(driver.step_with("poll", &format!("{minute} %"), "0"), Directive::Proceed);
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
    assert_eq!(driver.run.verdict().overrides.len(), 3);
}

#[test]
fn hard_rules_money_and_tokens_cannot_be_overridden() {
    for rule in ["cost >= $0.05", "tokens >= 10"] {
        let mut driver = Driver::stop(rule);
        driver.begin();
        assert_eq!(driver.reply(1, "0.10", 100), Directive::Stop);
        assert_eq!(driver.ask_to_go_on(), Directive::Stop, "{rule}");
    }
    let mut driver = Driver::toml("[stop]\na = \"steps >= 1\"\n[rule.a]\nhard = true");
    driver.step();
    assert_eq!(driver.ask_to_go_on(), Directive::Stop);
    let soft_without_grant = "[stop]\na = \"cost >= $0.05\"\n[rule.a]\nhard = false";
    let mut driver = Driver::toml(soft_without_grant);
    driver.step();
    assert_eq!(driver.ask_to_go_on(), Directive::Stop);
    let mut driver = Driver::toml(&format!("{soft_without_grant}\ngrant = {{ cost = \"$1\" }}"));
    driver.step();
    assert_eq!(driver.ask_to_go_on(), Directive::Proceed);
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
    assert_eq!(driver.see(EventKind::Cancel { message: "enough" }), Directive::CancelNow);
    assert_eq!(driver.see(EventKind::ToolBegin { tool: "a" }), Directive::Stop);
    assert_eq!(driver.see(EventKind::StepEnd), Directive::Stop);
    let signal = driver.run.last_stop_signal().unwrap();
    assert_eq!((signal.reason, signal.message.as_str()), (StopReason::UserRequested, "enough"));
}

#[test]
fn cancellation_is_heard_while_any_signal_stands_and_in_the_last_step() {
    let mut driver = Driver::stop("steps >= 1");
    driver.begin();
    driver.reply(0, "0", 1);
    assert_eq!(driver.see(EventKind::Cancel { message: "" }), Directive::CancelNow);
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
    driver.see(EventKind::Approved { rule: "p", cap: None });
    assert_eq!(driver.see(EventKind::StepBegin), Directive::Finish);
    driver.reply(0, "0", 1);
    driver.see(EventKind::StepEnd);
    assert!(driver.run.take_notices().is_empty(), "once a rule");
}

#[test]
fn an_approval_may_raise_the_cap() {
    let mut driver = Driver::toml("[stop]\ns = \"steps >= 99\"\n[pause]\np = \"cost >= $0.10\"");
    assert_eq!(driver.step(), Directive::Pause);
    let cap = Some(Cap::cost("0.30".parse().unwrap()));
    assert_eq!(driver.see(EventKind::Approved { rule: "p", cap }), Directive::Proceed);
    assert_eq!(driver.step(), Directive::Proceed);
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
    driver.see(EventKind::Approved { rule: "p", cap: None });
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
    let verdict = driver.run.verdict();
    assert_eq!(verdict.terminated_by.as_deref(), Some("max_usd(0.20)"));
    let parts = &verdict.rules[0].tree.parts;
    let steps = &parts[0].parts[0];
    assert_eq!(steps.margin.as_deref(), Some("24"), "compared before step 2 began: {steps:?}");
    let cost = &parts[1].parts[0];
    assert_eq!((cost.observed.as_deref(), cost.limit.as_deref()), (Some("$0.25"), Some("$0.20")));
    assert!(verdict.to_json().contains("\"cost_limit\""));
    assert!(verdict.to_string().starts_with("stopped: cost_limit: cost is $0.25 (limit $0.20)"));
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
    let stop = [Directive::Stop, Directive::CancelNow];
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
    let state = driver.run.to_state().unwrap();
    assert_eq!(state.raised.len(), 1);
}

#[test]
fn an_approvals_cap_is_for_the_gauge_it_names() {
    let mut driver = Driver::toml(
        "[stop]\ns = \"steps >= 99\"\n[pause]\np = \"cost >= $0.10 or tokens >= 500\"",
    );
    assert_eq!(driver.step(), Directive::Pause);
    assert_eq!(driver.run.status(), Status::Paused);
    let cap = Some(Cap::cost("100".parse().unwrap()));
    assert_eq!(driver.see(EventKind::Approved { rule: "p", cap }), Directive::Proceed);
    assert_eq!(driver.run.status(), Status::InProgress);
    for _ in 0..3 {
        assert_eq!(driver.step(), Directive::Proceed);
    }
    assert_eq!(driver.step(), Directive::Pause, "the limit of tokens stands as it was");
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
