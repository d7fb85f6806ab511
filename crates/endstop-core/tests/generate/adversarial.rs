//! Runs that no well-behaved driver reports: events in any order, missing, doubled, and time that falls.

use std::sync::LazyLock;

use endstop_core::event::Source;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::{Event, EventKind};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::stream::{cost, money, reserve, stream, usage};
use super::vocabulary::{
    AGENTS, ARGUMENTS, FINISHES, GAPS_MS, REPORTED, RESULTS, SIGNALS, TEXTS, TOOLS, WALL_START_MS,
};

/// Most events that are wholly made up.
const MAX_EVENTS: usize = 40;

static RAISED: LazyLock<StopSignal> = LazyLock::new(|| StopSignal::new(StopReason::StopRequested));

/// A run of the well-behaved kind with events taken out, doubled and swapped.
pub(crate) fn damaged() -> impl Strategy<Value = Vec<Event<'static>>> {
    let change = (0u8..4, any::<Index>(), any::<Index>());
    (stream(), prop::collection::vec(change, 1..6)).prop_map(|(mut events, changes)| {
        for (change, first, second) in changes {
            if events.is_empty() {
                break;
            }
            let (first, second) = (first.index(events.len()), second.index(events.len()));
            match change {
                0 => drop(events.remove(first)),
                1 => events.insert(second, events[first].clone()),
                2 => events.swap(first, second),
                _ if is_of_the_run(&events[first].kind) => {}
                _ => events[first].source = Source::Descendant,
            }
        }
        events
    })
}

/// Events in any order, with time that may fall. In most, replies outside a step are a descendant's: one of the run itself
/// ends it.
pub(crate) fn chaos() -> impl Strategy<Value = Vec<Event<'static>>> {
    let timed = (kind(), prop::bool::weighted(0.3), select(&GAPS_MS[..]), 0u64..8);
    let events = prop::collection::vec(timed, 0..MAX_EVENTS);
    (prop::bool::weighted(0.8), events).prop_map(|(has_steps, events)| {
        let begin = has_steps.then_some((EventKind::StepBegin, false, 0, 0));
        let mut is_in_step = false;
        begin
            .into_iter()
            .chain(events)
            .map(|(kind, by_descendant, gap, times)| {
                let at = gap * times;
                let is_outside =
                    has_steps && !is_in_step && matches!(kind, EventKind::Reply { .. });
                let source = if (by_descendant || is_outside) && !is_of_the_run(&kind) {
                    Source::Descendant
                } else {
                    Source::Own
                };
                match (source, &kind) {
                    (Source::Own, EventKind::StepBegin) => is_in_step = true,
                    (Source::Own, EventKind::StepEnd) => is_in_step = false,
                    _ => {}
                }
                Event { at: Millis(at), wall: WallTime(WALL_START_MS + at), source, kind }
            })
            .collect()
    })
}

/// Whether only the run itself has such an event.
fn is_of_the_run(kind: &EventKind<'_>) -> bool {
    matches!(
        kind,
        EventKind::RunBegin { .. }
            | EventKind::Fact { .. }
            | EventKind::Signal { .. }
            | EventKind::Cancel { .. }
            | EventKind::Kill { .. }
            | EventKind::StopRaised { .. }
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::PauseRequested { .. }
            | EventKind::ResumeRequested { .. }
            | EventKind::Tick
            | EventKind::RunEnd { .. }
    )
}

/// A run that loops for this many steps, with a millisecond per event.
pub(crate) fn long(steps: u64) -> Vec<Event<'static>> {
    let usage = Some(TokenUsage { input: 1, output: 1, ..TokenUsage::default() });
    let cost = Some(Cost::Known(Money::from_picos(1)));
    let mut events = vec![EventKind::RunBegin { agent: None, depth: 0 }];
    for _ in 0..steps {
        events.extend([
            EventKind::StepBegin,
            EventKind::AttemptBegin { next_cost: cost },
            EventKind::Reply {
                model: None,
                usage,
                cost,
                finish: Some("tool_calls"),
                tool_calls: 1,
            },
            EventKind::ToolBegin { tool: TOOLS[0] },
            EventKind::ToolEnd { tool: TOOLS[0], arguments: "{}", result: "ok", failed: false },
            EventKind::StepEnd,
        ]);
    }
    let timed = (0..).zip(events).map(|(at, kind)| Event::new(Millis(at), kind));
    timed.collect()
}

fn kind() -> impl Strategy<Value = EventKind<'static>> {
    prop_oneof![
        30 => flow(),
        30 => aside(),
        1 => raised(),
    ]
}

/// The events of steps.
fn flow() -> impl Strategy<Value = EventKind<'static>> {
    let tool = || select(&TOOLS[..]);
    prop_oneof![
        3 => Just(EventKind::StepBegin),
        3 => Just(EventKind::StepEnd),
        2 => prop::option::of(cost()).prop_map(|next_cost| EventKind::AttemptBegin { next_cost }),
        2 => reserve().prop_map(|(input_tokens, output_tokens, cost)| {
            EventKind::Reserve { input_tokens, output_tokens, cost }
        }),
        4 => select(&TEXTS[..]).prop_map(|text| EventKind::Piece { text }),
        1 => (prop::option::weighted(0.9, usage()), prop::option::weighted(0.9, cost()))
            .prop_map(|(usage, cost)| EventKind::AttemptFailed { usage, cost }),
        2 => (prop::option::weighted(0.9, usage()), prop::option::weighted(0.9, cost()),
              prop::option::of(select(&FINISHES[..])), 0u32..3)
            .prop_map(|(usage, cost, finish, tool_calls)| EventKind::Reply {
                model: None, usage, cost, finish, tool_calls,
            }),
        1 => (tool(), money(), money())
            .prop_map(|(tool, cost, held)| EventKind::ToolReserve { tool, cost, held }),
        2 => tool().prop_map(|tool| EventKind::ToolBegin { tool }),
        1 => (tool(), money()).prop_map(|(tool, cost)| EventKind::ToolCost { tool, cost }),
        2 => (tool(), select(&ARGUMENTS[..]), select(&RESULTS[..]), any::<bool>()).prop_map(
            |(tool, arguments, result, failed)| EventKind::ToolEnd {
                tool, arguments, result, failed,
            }
        ),
        1 => tool().prop_map(|tool| EventKind::ToolRefused { tool }),
    ]
}

/// Events that latch: from then on every intention is refused.
fn raised() -> impl Strategy<Value = EventKind<'static>> {
    prop_oneof![
        Just(EventKind::Cancel { message: "" }),
        Just(EventKind::Kill { message: "" }),
        Just(()).prop_map(|()| EventKind::StopRaised { signal: &RAISED }),
    ]
}

/// Events between them.
fn aside() -> impl Strategy<Value = EventKind<'static>> {
    prop_oneof![
        (prop::option::of(select(&AGENTS[..])), 0u32..3)
            .prop_map(|(agent, depth)| EventKind::RunBegin { agent, depth }),
        Just(EventKind::UserMessage),
        (0u32..4).prop_map(|depth| EventKind::ChildBegin { depth }),
        Just(EventKind::ChildEnd),
        select(&AGENTS[..]).prop_map(|to| EventKind::HandOff { to }),
        (select(&REPORTED[..]), 0u64..6).prop_map(|(name, value)| EventKind::Fact { name, value }),
        select(&SIGNALS[..]).prop_map(|name| EventKind::Signal { name, by: "", why: "" }),
        Just(EventKind::Paused),
        Just(EventKind::Resumed),
        Just(EventKind::PauseRequested { by: "ann", why: "" }),
        Just(EventKind::ResumeRequested { by: "bob", why: "" }),
        Just(EventKind::ResumeRequested { by: "bob", why: "" }),
        Just(EventKind::Tick),
        Just(EventKind::RunEnd { succeeded: None }),
    ]
}
