//! Reports of runs that were played by hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop_core::expr::parse;
use endstop_core::policy::{Action, FallbackRates, Policy, Rule};
use endstop_core::units::{Cost, TokenUsage};

use super::super::Detail;
use super::super::play::{Play, policy};
use super::*;
use crate::golden_file::golden;
use crate::ledger::Limits;

const BEGIN: EventKind<'static> = EventKind::RunBegin { agent: None, depth: 0 };

fn reporter() -> (Reporter, Arc<Mutex<Vec<Report>>>) {
    let reports = Arc::<Mutex<Vec<Report>>>::default();
    let kept = Arc::clone(&reports);
    (Reporter::new(move |report| kept.lock().unwrap().push(report.clone())), reports)
}

const fn estimate(is_estimate: bool) -> Detail<'static> {
    Detail::Reply {
        text: "",
        tool_calls: &[],
        unconfirmed: Money::ZERO,
        is_estimate,
        reasoning_tokens: None,
        first_piece_after: None,
        took: Duration::ZERO,
    }
}

fn step(play: &mut Play<'_>, is_estimate: bool) {
    play.tell(1, EventKind::StepBegin, Detail::None);
    play.tell(0, EventKind::AttemptBegin { next_cost: None }, Detail::None);
    play.reply((100, 20), 1, estimate(is_estimate));
    play.tell(1, EventKind::StepEnd, Detail::None);
}

#[test]
fn a_report_says_why_a_run_stopped_and_what_it_used() {
    let (reporter, reports) = reporter();
    let mut play = Play::new(&reporter, "r1", policy("steps >= 2"));
    play.tell(0, BEGIN, Detail::None);
    step(&mut play, false);
    step(&mut play, false);
    play.end();
    let report = reports.lock().unwrap().pop().unwrap();
    assert_eq!(report.reason, Some(StopReason::StepsLimitReached));
    assert_eq!(report.totals.tokens, 240);
    let text = report.to_string();
    for expected in [
        "run r1 of main on gpt-5.2\nstopped: steps_limit: ",
        "[x] steps >= 2  is 2",
        "used: 2 steps, 2 model requests, 0 tool calls, 0 errors, 240 tokens (200 in, 40 out), 24ms",
        "\ncost: $0.002",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("sub-agents") && !text.contains("held") && !text.contains("overshoot"));
    let json = report.to_json();
    assert!(
        json.starts_with("{\"endstop_report\":1,\"run\":\"r1\",\"parent\":null,\"agent\":\"main\"")
    );
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn money_is_as_sure_as_its_least_sure_call() {
    let (reporter, reports) = reporter();
    let mut play = Play::new(&reporter, "r1", policy("steps >= 9"));
    play.tell(0, BEGIN, Detail::None);
    step(&mut play, true);
    play.end();
    let spent = reports.lock().unwrap().pop().unwrap().spend;
    assert_eq!(
        (spent.is, spent.to_string().as_str()),
        (SpendCertainty::Estimate, "about $0.001 (1 call estimated)")
    );
    let mut play = Play::new(&reporter, "r2", policy("steps >= 9"));
    play.tell(0, BEGIN, Detail::None);
    step(&mut play, false);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.tell(0, unpriced(0), estimate(false));
    play.end();
    let spent = reports.lock().unwrap().pop().unwrap().spend;
    assert_eq!(spent.is, SpendCertainty::LowerBound);
    assert_eq!(spent.to_string(), "at least $0.001 (1 call without a price)");
}

/// A reply to so many tokens, of a model without a price.
fn unpriced(input: u64) -> EventKind<'static> {
    EventKind::Reply {
        model: None,
        usage: Some(TokenUsage { input, ..TokenUsage::default() }),
        cost: Some(Cost::Unpriced),
        finish: None,
        tool_calls: 0,
    }
}

#[test]
fn calls_without_a_price_are_known_by_the_rates_of_the_policy() {
    let (reporter, reports) = reporter();
    let rate = |text: &str| text.parse().unwrap();
    let rates = FallbackRates { input: rate("3"), output: rate("15") };
    let limits = Policy { on_unpriced: Some(OnUnpriced::Rates(rates)), ..policy("steps >= 9") };
    let mut play = Play::new(&reporter, "r1", limits);
    play.tell(0, BEGIN, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.tell(0, unpriced(1_000), estimate(false));
    play.end();
    let spent = reports.lock().unwrap().pop().unwrap().spend;
    assert_eq!(spent.is, SpendCertainty::Estimate);
    assert_eq!(spent.to_string(), "about $0.003 (1 call by the rates for those without a price)");
}

#[test]
fn sub_agents_stand_in_the_report_of_the_run_that_began_them() {
    let (reporter, reports) = reporter();
    let mut parent = Play::new(&reporter, "parent", policy("steps >= 9"));
    parent.tell(0, BEGIN, Detail::None);
    parent.tell(0, EventKind::ChildBegin { depth: 1 }, Detail::Child { agent: "worker" });
    let mut pausing = policy("steps >= 2");
    pausing.rules.push(Rule::new("ask", Action::Pause, parse("steps >= 1").unwrap()));
    let mut child = parent.child("kid", "worker\u{1b}", pausing);
    child.tell(0, EventKind::RunBegin { agent: None, depth: 1 }, Detail::None);
    step(&mut child, true);
    child.end();
    child.tell(0, EventKind::Approved { rule: "ask", limit: None, by: "", why: "" }, Detail::None);
    step(&mut child, false);
    child.end();
    parent.end();
    let reports = reports.lock().unwrap();
    let ids: Vec<&str> = reports.iter().map(|report| report.run.as_str()).collect();
    assert_eq!(ids, ["kid", "kid", "parent"]);
    let report = &reports[2];
    assert_eq!((report.totals.sub_agents, report.sub_agents.len()), (1, 1));
    assert_eq!(report.spend.estimated_calls, 1, "once, though the run ended twice");
    let line = "\nsub-agents: 1\n  worker\\u{1b} kid: stopped (steps_limit), 2 steps, 240 tokens, \
                about $0.002 (1 call estimated)";
    assert!(report.to_string().contains(line), "{report}");
    assert!(reporter.lock().is_empty());
}

#[test]
fn what_is_held_and_what_was_overshot_is_told() {
    let (reporter, _) = reporter();
    let mut play = Play::new(&reporter, "r", policy("steps >= 9"));
    let limits = Limits { tokens: Some(100), ..Limits::unlimited() };
    play.budget = Budget::root(limits);
    let hold = play.budget.reserve(Amounts { tokens: 60, ..Amounts::ZERO }).unwrap();
    play.budget.charge(Amounts { tokens: 130, cost: "0.5".parse().unwrap(), ..Amounts::ZERO });
    let text = Report::of(&play.info, &play.run, &play.budget).to_string();
    assert!(text.ends_with("\nheld: 60 tokens\novershoot: 30 tokens"), "{text}");
    hold.release();
    let report = Report::of(&play.info, &play.run, &play.budget);
    assert!(report.held.is_zero());
    assert!(!report.to_json().contains("held"));
}

/// A run with a sub-agent, an override, a call whose usage was not reported, a hold and an overshoot; stopped.
fn stopped() -> Report {
    let (reporter, reports) = reporter();
    let mut limits = policy("steps >= 2");
    limits.rules.push(Rule::new("near", Action::Warn, parse("steps >= 1").unwrap()));
    let mut parent = Play::new(&reporter, "nightly-17", limits);
    let tokens = Limits { tokens: Some(380), ..Limits::unlimited() };
    parent.budget = Budget::root(tokens);
    parent.tell(0, BEGIN, Detail::None);
    parent.tell(0, EventKind::UserMessage, Detail::None);
    let unconfirmed = Detail::Reply {
        text: "",
        tool_calls: &[],
        unconfirmed: "0.0004".parse().unwrap(),
        is_estimate: true,
        reasoning_tokens: None,
        first_piece_after: None,
        took: Duration::ZERO,
    };
    parent.tell(1, EventKind::StepBegin, Detail::None);
    parent.tell(0, EventKind::AttemptBegin { next_cost: None }, Detail::None);
    parent.reply((100, 20), 1, unconfirmed);
    parent.tell(0, EventKind::ChildBegin { depth: 1 }, Detail::Child { agent: "worker" });
    let mut child = parent.child("nightly-17-worker", "worker", policy("steps >= 1"));
    child.tell(0, EventKind::RunBegin { agent: None, depth: 1 }, Detail::None);
    step(&mut child, false);
    child.end();
    for kind in [EventKind::StepBegin, unpriced(50), EventKind::StepEnd] {
        parent.tell_of(1, kind, Detail::None, Source::Descendant);
    }
    parent.tell(1, EventKind::StepEnd, Detail::None);
    parent.tell(1, EventKind::ContinuationRequested { by: "critic" }, Detail::None);
    step(&mut parent, false);
    let hold = parent.budget.reserve(Amounts { tokens: 5, ..Amounts::ZERO }).unwrap();
    parent.budget.charge(Amounts { tokens: 90, cost: "0.5".parse().unwrap(), ..Amounts::ZERO });
    parent.end();
    hold.release();
    reports.lock().unwrap().pop().unwrap()
}

fn completed() -> Report {
    let (reporter, reports) = reporter();
    let mut play = Play::new(&reporter, "short", policy("steps >= 3"));
    play.tell(0, BEGIN, Detail::None);
    play.tell(1, EventKind::StepBegin, Detail::None);
    play.tell(0, EventKind::AttemptBegin { next_cost: None }, Detail::None);
    play.reply((100, 20), 0, estimate(false));
    play.tell(1, EventKind::StepEnd, Detail::None);
    play.end();
    reports.lock().unwrap().pop().unwrap()
}

#[test]
fn reports_of_version_1() {
    for (name, report) in [("stopped", stopped()), ("completed", completed())] {
        let stored = golden(&format!("report-v1-{name}.json"), &report.to_json(), &[]);
        assert_eq!(serde_json::from_str::<Report>(&stored).unwrap(), report);
        golden(&format!("report-v1-{name}.txt"), &report.to_string(), &[]);
    }
    assert_eq!(completed().status, Status::Completed);
}
