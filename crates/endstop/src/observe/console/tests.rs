//! The lines of whole runs, as they are printed.

use std::time::Duration;

use endstop_core::event::{EventKind, NewLimit};
use endstop_core::expr::parse;
use endstop_core::policy::{Action, Rule};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Money, TokenUsage};

use super::super::Detail;
use super::super::text::width;
use super::*;
use crate::message::{ToolCall, ToolOutcome};
use crate::model::{ModelError, ModelErrorKind};
use endstop_runtime::account::{
    Account, BudgetStore, BudgetStoreError, HoldTerms, MemoryBudgetStore,
};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::observe::play::{Play, Shared, dollars, policy};

const ID: &str = "019a8c1e-7b2f-7000-8000-000000a1b2c3";

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "c1".to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() }
}

const fn reply_detail(text: &str, ms: u64) -> Detail<'_> {
    Detail::Reply {
        unconfirmed: Money::ZERO,
        text,
        tool_calls: &[],
        is_estimate: false,
        reasoning_tokens: None,
        first_piece_after: None,
        took: Duration::from_millis(ms),
    }
}

/// A console that nothing of the environment changes.
fn console() -> (ConsoleObserver, Shared) {
    let shared = Shared::default();
    (ConsoleObserver::writer(shared.clone()), shared)
}

/// A program that counts, up to the first step and its end.
fn counter(play: &mut Play<'_>) {
    play.tell(
        123,
        EventKind::RunBegin { agent: None, depth: 0 },
        Detail::Begin { messages: 1, tools: 1 },
    );
    play.tell(0, EventKind::UserMessage, Detail::None);
    play.tell(1, EventKind::StepBegin, Detail::None);
    let request =
        Detail::Request { model: "gpt-5.2", provider: "", max_output_tokens: None, input_bound: 9 };
    play.tell(0, EventKind::AttemptBegin { next_cost: None }, request);
    let usage = TokenUsage { input: 120, output: 15, ..TokenUsage::default() };
    let reply = EventKind::Reply {
        model: Some("gpt-5.2"),
        usage: Some(usage),
        cost: Some(dollars("0.0003")),
        finish: Some("tool_calls"),
        tool_calls: 1,
    };
    play.tell(877, reply, reply_detail("", 877));
    let call = call("counter", "{\"by\":1}");
    let begin = Detail::Tool { call: &call, outcome: None, took: Duration::ZERO };
    play.tell(1, EventKind::ToolBegin { tool: "counter" }, begin);
    let took = Duration::from_millis(1);
    let end = Detail::Tool { call: &call, outcome: Some(ToolOutcome::Succeeded), took };
    let kind = EventKind::ToolEnd { tool: "counter", arguments: "{}", result: "1", failed: false };
    play.tell(1, kind, end);
    let signal = StopSignal::new(StopReason::StopRequested)
        .with_message("Counter reached 3")
        .with_source("counter");
    play.tell(0, EventKind::StopRaised { signal: &signal }, Detail::None);
    play.tell(1, EventKind::StepEnd, Detail::Step { took: Duration::from_millis(880) });
    play.end();
}

#[test]
fn the_counter_program_prints_the_lines_of_the_seed() {
    let (observer, shared) = console();
    counter(&mut Play::new(&observer, ID, policy("steps >= 9")));
    let expected = "\
14:05:10.123 [a1b2c3] [EXEC] Execution started [messages=1, tools=1]
14:05:10.124 [a1b2c3] [STEP] Step 1 started
14:05:11.001 [a1b2c3] [LLM ] 'gpt-5.2' answered [tokens=120+15, cost=$0.0003, finish=tool_calls, 877ms]
14:05:11.002 [a1b2c3] [TOOL] Calling counter {\"by\":1}
14:05:11.003 [a1b2c3] [TOOL] counter -> ok in 1ms
14:05:11.003 [a1b2c3] [STOP] stop_requested: Counter reached 3 (source: counter)
14:05:11.004 [a1b2c3] [STEP] Step 1 completed [tool calls=1, errors=0, tokens=135, 880ms]
14:05:11.004 [a1b2c3] [DONE] Execution completed [status=stopped, steps=1, tokens=135, cost=$0.0003, 1s]
";
    assert_eq!(shared.text(), expected);
    assert_eq!(shared.writes().len(), 8, "one write a line");
}

#[test]
fn acts_from_outside_have_who_and_why_and_a_wait_for_a_budget_its_name() {
    let (observer, shared) = console();
    let observer = observer.show_timestamps(false).show_run_ids(false);
    let mut play = Play::new(&observer, ID, policy("steps >= 9"));
    for kind in [
        EventKind::Signal { name: "review", by: "ann", why: "read it" },
        EventKind::Signal { name: "other", by: "", why: "" },
        EventKind::PauseRequested { by: "ann", why: "" },
        EventKind::ResumeRequested { by: "bob", why: "back" },
    ] {
        play.tell(1, kind, Detail::None);
    }
    let (store, me) = (MemoryBudgetStore::new(), Account::new("me", &["1 steps"]).unwrap());
    let terms = HoldTerms { id: "1", owner: "test", ttl: Duration::from_secs(60) };
    let two = Amounts { steps: 2, ..Amounts::ZERO };
    let Err(BudgetStoreError::Refused(refused)) = store.reserve(&[&me], two, &terms) else {
        panic!("it has room for one")
    };
    observer.account_awaited(&play.info, Some(&refused));
    observer.account_awaited(&play.info, None);
    let expected = "\
[SIG ] Signal 'review' is set by ann: read it
[SIG ] Signal 'other' is set
[PAUSE] Paused by ann
[EXEC] Resumed by bob: back
[PAUSE] Waits for budget me
[EXEC] Waits for no budget any longer
";
    assert_eq!(shared.text(), expected);
}

#[test]
fn options_leave_out_what_is_not_wanted() {
    let shared = Shared::default();
    let observer = ConsoleObserver::writer(shared.clone())
        .show_timestamps(false)
        .show_run_ids(false)
        .show_tool_args(false)
        .use_colors(true)
        .max_width(10);
    counter(&mut Play::new(&observer, ID, policy("steps >= 9")));
    let text = shared.text();
    assert!(text.starts_with("\u{1b}[1m[EXEC]\u{1b}[0m Execution started"), "{text}");
    assert!(text.contains(" Calling counter\n"), "{text}");
    for line in text.lines() {
        let plain = line.split_once('m').and_then(|(_, rest)| rest.split_once("\u{1b}[0m"));
        let (tag, message) = plain.unwrap();
        assert!(width(tag) + width(message) <= 40, "{line}");
    }
}

#[test]
fn a_policy_that_stops_says_so_once_at_the_end() {
    let (observer, shared) = console();
    let observer = observer.show_continuation(true).minutes_east(-5);
    let mut play = Play::new(&observer, ID, policy("steps >= 1"));
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.reply((10, 2), 1, reply_detail("", 10));
    play.tell(0, EventKind::StepEnd, Detail::None);
    play.end();
    let text = shared.text();
    let lines: Vec<&str> = text.lines().map(|line| line.split_at(22).1).collect();
    assert_eq!(lines[0], "[EXEC] Execution started [model=gpt-5.2]");
    assert_eq!(lines[3], "[STEP] Step 1 completed [tool calls=0, errors=0, tokens=12, 10ms]");
    assert!(lines[4].starts_with("[CONT] stop: Stop Signals: steps_limit"), "{text}");
    assert!(lines[5].starts_with("[STOP] steps_limit: "), "{text}");
    assert_eq!(text.matches("[STOP]").count(), 1, "{text}");
    assert!(text.starts_with("14:00:10.000"), "{text}");
}

/// Lines of the console on failures and refusals.
const FAILURES: [&str; 13] = [
    "[ERR ] 'm' failed: rate limited: slow\\u{1b}[2J down\\n [status=429, retry after=2s, 5ms]",
    "[WARN] soon: errors is 1 (limit 1)",
    "[RETRY] Attempt 2 of step 1",
    "[LLM ] 'm' answered [tokens=unknown, cost=unpriced, 1ms]",
    "[TEXT] two\\nlines",
    "[WARN] rm -> not run: blocked",
    "[HAND] Handed over to writer",
    "[FACT] score = 7",
    "[PAUSE] A person decides: ask (steps >= 2 is 2)",
    "[EXEC] ask approved up to $2.00",
    "[KILL] The kill switch is on",
    "[STOP] user_requested: the kill switch is on (source: kill switch)",
    "cost=unknown",
];

#[test]
fn failures_and_refusals_have_kinds_of_their_own() {
    let (observer, shared) = console();
    let observer = observer.show_text(true);
    let mut with_pause = policy("steps >= 9");
    let rule = |id: &str, action, text: &str| Rule::new(id, action, parse(text).unwrap());
    with_pause.rules.push(rule("ask", Action::Pause, "steps >= 2"));
    with_pause.rules.push(rule("soon", Action::Warn, "errors >= 1"));
    let mut play = Play::new(&observer, "r1", with_pause);
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    let request =
        Detail::Request { model: "m", provider: "", max_output_tokens: None, input_bound: 9 };
    play.tell(0, EventKind::AttemptBegin { next_cost: None }, request);
    let mut error = ModelError::new(ModelErrorKind::RateLimited, "slow\u{1b}[2J down\n");
    (error.status, error.retry_after) = (Some(429), Some(Duration::from_secs(2)));
    let failure = Detail::Failure {
        error: &error,
        is_estimate: false,
        unconfirmed: Money::ZERO,
        took: Duration::from_millis(5),
    };
    play.tell(5, EventKind::AttemptFailed { usage: None, cost: None }, failure);
    play.tell(0, EventKind::AttemptBegin { next_cost: None }, request);
    let reply = EventKind::Reply {
        model: None,
        usage: None,
        cost: Some(Cost::Unpriced),
        finish: None,
        tool_calls: 1,
    };
    play.tell(1, reply, reply_detail("two\nlines", 1));
    let call = call("rm", "{}");
    let refused =
        Detail::Tool { call: &call, outcome: Some(ToolOutcome::Blocked), took: Duration::ZERO };
    play.tell(0, EventKind::ToolRefused { tool: "rm" }, refused);
    play.tell(0, EventKind::HandOff { to: "writer" }, Detail::None);
    play.tell(0, EventKind::Fact { name: "score", value: 7 }, Detail::None);
    play.tell(0, EventKind::StepEnd, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.tell(0, EventKind::StepEnd, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    let limit = Some(NewLimit::cost("2".parse().unwrap()));
    play.tell(0, EventKind::Approved { rule: "ask", limit, by: "", why: "" }, Detail::None);
    play.tell(0, EventKind::Kill { message: "" }, Detail::None);
    play.end();
    let text = shared.text();
    for expected in FAILURES {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn sub_agents_are_indented_and_printed_once() {
    let (observer, shared) = console();
    let mut parent = Play::new(&observer, "parent", policy("steps >= 9"));
    parent.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    parent.tell(0, EventKind::StepBegin, Detail::None);
    let mut child = parent.child("kid", "worker", policy("steps >= 9"));
    child.tell(0, EventKind::RunBegin { agent: None, depth: 1 }, Detail::None);
    for play in [&mut child, &mut parent] {
        let source = if play.info.depth == 0 { Source::Descendant } else { Source::Own };
        play.tell_of(0, EventKind::StepBegin, Detail::None, source);
    }
    child.end();
    parent.end();
    let text = shared.text();
    assert_eq!(text.matches("Step 1 started").count(), 2, "{text}");
    assert!(
        text.contains("[kid]   [EXEC] Execution started [agent=worker, model=gpt-5.2]"),
        "{text}"
    );
    assert!(observer.lock().is_empty());
}

#[test]
fn a_failing_writer_ends_nothing() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space left"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let observer = ConsoleObserver::writer(Full);
    counter(&mut Play::new(&observer, ID, policy("steps >= 9")));
    assert_eq!(observer.failed_writes(), 8);
}

#[test]
fn runs_that_never_end_do_not_pile_up() {
    let (observer, _) = console();
    for number in 0..MAX_OBSERVED_RUNS + 10 {
        let mut play = Play::new(&observer, &format!("r{number:06}"), policy("steps >= 9"));
        play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    }
    assert_eq!(observer.lock().len(), MAX_OBSERVED_RUNS);
}

#[test]
fn a_tools_own_cost_has_a_line() {
    let (observer, shared) = console();
    let mut play = Play::new(&observer, ID, policy("steps >= 10"));
    let cost = "0.05".parse().unwrap();
    for unconfirmed in [Money::ZERO, cost] {
        let detail = Detail::ToolCost { unconfirmed };
        play.tell(1, EventKind::ToolCost { tool: "search", cost }, detail);
    }
    let text = shared.text();
    assert!(text.contains("search costs $0.05\n"), "{text}");
    assert!(text.contains("search costs $0.05, unconfirmed\n"), "{text}");
}
