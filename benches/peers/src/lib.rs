//! Code that both binaries share: one policy of eight conditions, and the events of a step.

pub mod agents;
pub mod hundred;
pub mod recorded;

use std::sync::Arc;

use endstop_core::event::{EventKind, Source};
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::{Directive, Event, Policy, Program, Run};

/// Eight conditions that never trip here: counts, money, tokens, time, and progress.
pub const EIGHT: &str = "steps >= 1_000_000_000 or cost >= $8000000 or tokens >= 1_000_000_000_000 \
    or active >= 300d or idle >= 300d or tool_calls >= 1_000_000_000 or no_progress >= 1_000_000_000 \
    or repeats >= 1_000_000_000";

/// The same with two operators over time.
pub const WITH_TIME: &str = "steps >= 1_000_000_000 or cost >= $8000000 or tokens >= 1_000_000_000_000 \
    or active >= 300d or streak(no_tool_calls) >= 1_000_000 or count(errored) >= 1_000_000 \
    or tool_calls >= 1_000_000_000 or repeats >= 1_000_000_000";

/// A run under one stop condition.
///
/// # Panics
/// If the condition is none.
#[must_use]
pub fn run_under(condition: &str) -> Run {
    let condition = parse(condition).expect("a condition");
    let program = Program::new(&Policy::stop(condition), &Probes::new()).expect("a policy");
    Run::new(Arc::new(program))
}

/// An event at a time, of the run itself.
#[must_use]
pub const fn event(at: u64, kind: EventKind<'_>) -> Event<'_> {
    Event { at: Millis(at), wall: WallTime(0), source: Source::Own, kind }
}

/// One whole step with one tool call whose result is new; nothing trips.
pub fn step(run: &mut Run, number: u64, result: &mut String) -> Directive {
    use std::fmt::Write as _;
    result.clear();
    // Nine digits throughout, so that every step hashes as many bytes.
    let _ = write!(result, "result {number:09}");
    let usage = TokenUsage { input: 900, output: 100, ..TokenUsage::default() };
    let reply = EventKind::Reply {
        model: None,
        usage: Some(usage),
        cost: Some(Cost::Known(Money::from_picos(1_000_000))),
        finish: None,
        tool_calls: 1,
    };
    let end = EventKind::ToolEnd { tool: "work", arguments: "{}", result, failed: false };
    run.observe(&event(number, EventKind::StepBegin));
    run.observe(&event(number, EventKind::AttemptBegin { next_cost: None }));
    run.observe(&event(number, EventKind::Piece { text: "working on it" }));
    run.observe(&event(number, reply));
    run.observe(&event(number, EventKind::ToolBegin { tool: "work" }));
    run.observe(&event(number, end));
    run.observe(&event(number, EventKind::StepEnd))
}
