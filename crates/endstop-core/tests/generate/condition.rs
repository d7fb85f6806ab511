//! Random conditions over everything that both evaluators read, with limits so small that they trip.

use endstop_core::Condition;
use endstop_core::condition::gauge::{Argument, GAUGES, GaugeRow, Unit};
use endstop_core::condition::named;
use endstop_core::condition::{CompareOp, Comparison, Fact, Gauge, GaugeId, Temporal, Window};
use endstop_core::units::{Millis, WallTime};
use proptest::prelude::*;
use proptest::sample::select;

use super::vocabulary::{
    AGENTS, COSTS_PICOS, GAPS_MS, PATTERNS, PHRASES, REPORTED, SIGNALS, TOOLS, WALL_START_MS,
    WANTED_FINISHES,
};

/// Deepest nesting of a generated condition.
const DEPTH: u32 = 5;

/// A condition of up to [`DEPTH`] levels, in the form that the reader gives.
pub(crate) fn condition() -> impl Strategy<Value = Condition> {
    leaf().prop_recursive(DEPTH - 1, 24, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 2..=3);
        prop_oneof![
            3 => parts().prop_map(|parts| join(parts, |a, b| a | b)),
            3 => parts().prop_map(|parts| join(parts, |a, b| a & b)),
            2 => inner.clone().prop_map(|c| !c),
            1 => inner.clone().prop_map(Condition::ever),
            1 => (inner.clone(), inner.clone()).prop_map(|(first, next)| first.then(next)),
            1 => (inner.clone(), window()).prop_map(|(of, window)| of.within(window)),
            1 => (inner.clone(), operator(), 0u64..4).prop_map(|(of, op, n)| {
                Condition::Temporal(Temporal::Streak { of: Box::new(of), op, n })
            }),
            1 => (inner.clone(), prop::option::of(window()), operator(), 0u64..4).prop_map(
                |(of, window, op, n)| {
                    Condition::Temporal(Temporal::Count { of: Box::new(of), window, op, n })
                }
            ),
        ]
    })
}

/// Joins with the operators of Rust, which flatten as the reader does.
fn join(parts: Vec<Condition>, with: fn(Condition, Condition) -> Condition) -> Condition {
    parts.into_iter().reduce(with).unwrap_or(Condition::Fact(Fact::Cancelled))
}

fn leaf() -> impl Strategy<Value = Condition> {
    prop_oneof![
        6 => comparison().prop_map(Condition::Compare),
        5 => fact().prop_map(Condition::Fact),
        1 => named(),
    ]
}

/// One limit: the gauge has reached so much.
pub(crate) fn limit() -> impl Strategy<Value = Condition> {
    comparison()
        .prop_map(|comparison| Condition::Compare(Comparison { op: CompareOp::Ge, ..comparison }))
}

/// Every gauge but probes, which need registering.
fn comparison() -> impl Strategy<Value = Comparison> {
    let rows: Vec<&'static GaugeRow> = GAUGES.iter().filter(|r| r.id != GaugeId::Probe).collect();
    (select(rows), operator(), any::<bool>(), any::<prop::sample::Index>(), 0u64..6).prop_map(
        |(row, op, own, which, small)| {
            let argument = match (row.argument, row.id) {
                (Argument::Required, _) => Some(*which.get(&REPORTED)),
                (Argument::Optional, _) if which.index(2) == 0 => Some(*which.get(&TOOLS)),
                _ => None,
            };
            let gauge = Gauge {
                id: row.id,
                own: own && row.has_own,
                argument: argument.map(str::to_string),
            };
            let value = match row.id {
                GaugeId::Stale => small * 20,
                _ => amount(row.unit, small, which),
            };
            Comparison { gauge, op, value }
        },
    )
}

fn amount(unit: Unit, small: u64, which: prop::sample::Index) -> u64 {
    match unit {
        Unit::Count | Unit::Percent => small,
        Unit::Tokens => small * 100,
        Unit::Money => COSTS_PICOS[which.index(COSTS_PICOS.len())] * small,
        Unit::Duration => GAPS_MS[which.index(GAPS_MS.len())] * small,
        Unit::WallTime => WALL_START_MS + GAPS_MS[which.index(GAPS_MS.len())] * small,
    }
}

/// Mostly limits, as people write them.
fn operator() -> impl Strategy<Value = CompareOp> {
    let any: Vec<CompareOp> = CompareOp::ALL.iter().map(|(op, _)| *op).collect();
    prop_oneof![2 => Just(CompareOp::Ge), 1 => select(any)]
}

fn window() -> impl Strategy<Value = Window> {
    prop_oneof![
        (select(&GAPS_MS[..]), 0u64..4).prop_map(|(gap, n)| Window::Time(Millis(gap * n))),
        (0u64..4).prop_map(Window::Steps),
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    let text = |words: &'static [&'static str]| select(words).prop_map(str::to_string);
    prop_oneof![
        2 => text(&TOOLS).prop_map(Fact::Called),
        1 => text(&TOOLS).prop_map(Fact::ToolFailed),
        3 => (text(&PHRASES), prop::option::weighted(0.3, text(&AGENTS)))
            .prop_map(|(text, from)| Fact::Said { text, from }),
        2 => text(&PATTERNS).prop_map(Fact::Matches),
        2 => prop::collection::vec(text(&WANTED_FINISHES), 1..3).prop_map(Fact::Finished),
        1 => text(&AGENTS).prop_map(Fact::HandedOff),
        1 => text(&SIGNALS).prop_map(Fact::Signal),
        1 => Just(Fact::Cancelled),
        2 => Just(Fact::NoToolCalls),
        1 => Just(Fact::Errored),
    ]
}

fn named() -> impl Strategy<Value = Condition> {
    prop_oneof![
        (0u64..6).prop_map(named::max_steps),
        (0u64..6).prop_map(named::max_messages),
        (0u64..6).prop_map(named::max_tool_calls),
        (0u64..600).prop_map(named::max_tokens),
        (0u64..4).prop_map(named::no_progress),
        (0u64..4).prop_map(named::max_errors),
        (0u64..4).prop_map(named::max_retries),
        (0u64..3).prop_map(named::max_depth),
        (0u64..20_000).prop_map(|ms| named::timeout(Millis(ms))),
        (0u64..20_000).prop_map(|ms| named::idle(Millis(ms))),
        (0u64..20_000).prop_map(|ms| named::deadline(WallTime(WALL_START_MS + ms))),
        select(&PHRASES[..]).prop_map(named::text_mention),
        select(&TOOLS[..]).prop_map(named::function_call),
        select(&AGENTS[..]).prop_map(named::handoff),
        select(&WANTED_FINISHES[..]).prop_map(named::finish_reason),
        select(&SIGNALS[..]).prop_map(named::external_signal),
        Just(()).prop_map(|()| named::cancellation()),
    ]
}
