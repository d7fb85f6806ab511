//! The meter to and from its saved form.
//!
//! A gauge that the saved policy did not use has no number in the state. Under a policy that uses it, `no_progress`
//! then starts at 0 and `stale` is unknown until the user speaks.
//!
//! Operators over time are stored under their text without the limit. A raised limit finds its count again, and an
//! operator that is new to the run is unknown instead of 0.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use super::counters::{Counters, NAMES};
use super::stale::Stale;
use super::{Meter, OpenStep, StepState, Truth};
use crate::condition::Fact;
use crate::near_duplicate::{LastReplies, ReplyHash};
use crate::policy::program::{Class, OpKind, Program};
use crate::text::TextState;
use crate::units::{Millis, WallTime};
use crate::wire::v1::state as wire;

pub(crate) fn save_meter(program: &Program, meter: &Meter, state: &mut wire::RunState) {
    state.clocks = wire::ClockState {
        at_ms: meter.clocks.at.0,
        wall_ms: meter.clocks.wall.0,
        paused_since_ms: meter.clocks.paused_since.map(|since| since.0),
        paused_ms: meter.clocks.paused.0,
        last_activity_ms: meter.clocks.last_activity.0,
    };
    state.totals = named(&meter.totals);
    state.own = named(&meter.own);
    state.tools = program.tools.iter().cloned().zip(meter.tools.iter().copied()).collect();
    let reported = program.numbers.iter().zip(&meter.numbers);
    state.reported = reported.filter_map(|(name, value)| Some((name.clone(), (*value)?))).collect();
    state.depth = meter.depth;
    state.context_tokens = meter.context_tokens;
    state.context_unknown = meter.context_unknown;
    state.tokens_unknown = meter.tokens_unknown;
    state.own_tokens_unknown = meter.own_tokens_unknown;
    state.unpriced = meter.unpriced;
    state.own_unpriced = meter.own_unpriced;
    state.overflowed = meter.overflowed;
    state.agent = meter.agent;
    state.step = save_step(&meter.step);
    state.progress = wire::ProgressState {
        no_progress: meter.no_progress,
        last: meter.recent.last,
        known: meter.recent.known,
        repeats: meter.recent.repeats,
        matched: meter.recent.matched,
        seen: meter.seen.as_ref().map(|seen| seen.oldest_first().collect()),
        stale: meter.stale.as_ref().map(save_stale),
    };
    state.text = wire::TextState {
        fingerprint: program.fingerprint,
        phrases: meter.text.phrases,
        patterns: meter.text.patterns.to_vec(),
    };
    state.replies = program.needs.replies.then(|| save_replies(meter));
    let facts = program.facts.iter().zip(&meter.facts);
    state.facts = facts.map(|(fact, truth)| (fact.to_string(), *truth)).collect();
    let lost = program.facts.iter().zip(&meter.lost).filter(|(_, lost)| **lost);
    state.lost = lost.map(|(fact, _)| fact.to_string()).collect();
    state.compared = compared(program, meter);
    for (op, s) in program.ops.iter().zip(&meter.ops) {
        let ring = s.ring.iter().copied().collect();
        let saved = wire::OperatorState { set: s.set, value: s.value, ring, unknown: s.unknown };
        // Operators that differ only in their limit share an entry: the longest ring has them all.
        match state.operators.get_mut(&op.key) {
            Some(known) if known.ring.len() >= saved.ring.len() => {}
            Some(known) => *known = saved,
            None => drop(state.operators.insert(op.key.clone(), saved)),
        }
    }
}

fn save_stale(stale: &Stale) -> wire::StaleState {
    wire::StaleState {
        seen: stale.seen.oldest_first().collect(),
        judged: stale.judged,
        stale: stale.stale,
        got_result: stale.got_result,
        got_news: stale.got_news,
        unknown: stale.unknown,
    }
}

fn load_stale(saved: Option<&wire::StaleState>, begun: bool) -> Stale {
    let Some(saved) = saved else { return Stale { unknown: begun, ..Stale::default() } };
    Stale {
        seen: Box::new(saved.seen.iter().copied().collect()),
        judged: saved.judged,
        stale: saved.stale,
        got_result: saved.got_result,
        got_news: saved.got_news,
        unknown: saved.unknown,
    }
}

fn named(counters: &Counters) -> BTreeMap<String, u64> {
    NAMES.iter().map(|name| (*name).to_string()).zip(counters.0).collect()
}

const fn save_step(step: &StepState) -> wire::StepState {
    wire::StepState {
        open: step.own.open,
        attempts: step.own.attempts,
        descendant_open: step.descendant.open,
        descendant_attempts: step.descendant.attempts,
        begun: step.begun,
        closed: step.closed,
        called_tool: step.called_tool,
        asked_for_tools: step.asked_for_tools,
        has_reply: step.has_reply,
        brought_news: step.brought_news,
    }
}

fn save_replies(meter: &Meter) -> wire::ReplyState {
    let reply = meter.reply.parts();
    wire::ReplyState {
        word: reply.0.to_vec(),
        words: reply.1,
        last_two: reply.2,
        balance: reply.3.to_vec(),
        hashes: meter.last_replies.hashes,
        count: meter.last_replies.count,
    }
}

/// Counts stand still inside a step, so what they were last compared with is part of the state.
fn compared(program: &Program, meter: &Meter) -> BTreeMap<String, u64> {
    let slots = program.gauges.iter().zip(&meter.view).filter(|(slot, _)| is_count(slot.class));
    slots.filter_map(|(slot, value)| Some((slot.gauge.as_ref()?.to_string(), *value))).collect()
}

const fn is_count(class: Class) -> bool {
    !matches!(
        class,
        Class::Time
            | Class::Settled
            | Class::Live
            | Class::StepEnd
            | Class::Depth
            | Class::NextCost
    )
}

pub(crate) fn load_meter(program: &Program, meter: &mut Meter, state: &wire::RunState) {
    let clocks = &state.clocks;
    meter.clocks.at = Millis(clocks.at_ms);
    meter.clocks.wall = WallTime(clocks.wall_ms);
    meter.clocks.paused_since = clocks.paused_since_ms.map(Millis);
    meter.clocks.paused = Millis(clocks.paused_ms);
    meter.clocks.last_activity = Millis(clocks.last_activity_ms);
    meter.totals = counters(&state.totals);
    meter.own = counters(&state.own);
    let begun = state.step.begun > 0;
    for (index, name) in program.tools.iter().enumerate() {
        let saved = state.tools.get(name);
        if let (Some(slot), Some(unknown)) =
            (meter.tools.get_mut(index), meter.tools_unknown.get_mut(index))
        {
            *slot = saved.copied().unwrap_or_default();
            *unknown = saved.is_none() && begun;
        }
    }
    for (name, slot) in program.numbers.iter().zip(&mut meter.numbers) {
        *slot = state.reported.get(name).copied();
    }
    meter.depth = state.depth;
    meter.context_tokens = state.context_tokens;
    meter.context_unknown = state.context_unknown;
    meter.tokens_unknown = state.tokens_unknown;
    meter.own_tokens_unknown = state.own_tokens_unknown;
    meter.unpriced = state.unpriced;
    meter.own_unpriced = state.own_unpriced;
    meter.overflowed = state.overflowed;
    meter.agent = state.agent;
    meter.step = load_step(&state.step);
    load_progress(program, meter, state);
    load_texts(program, meter, state);
    load_ops(program, meter, state, begun);
    meter.refresh(program);
    let slots = program.gauges.iter().zip(&mut meter.view).filter(|(slot, _)| is_count(slot.class));
    for (slot, view) in slots {
        let saved = slot.gauge.as_ref().and_then(|gauge| state.compared.get(&gauge.to_string()));
        *view = saved.copied().unwrap_or(*view);
    }
    meter.is_behind = true;
    meter.evaluate(program);
}

fn counters(saved: &BTreeMap<String, u64>) -> Counters {
    Counters(NAMES.map(|name| saved.get(name).copied().unwrap_or(0)))
}

const fn load_step(step: &wire::StepState) -> StepState {
    StepState {
        own: OpenStep { open: step.open, attempts: step.attempts },
        descendant: OpenStep { open: step.descendant_open, attempts: step.descendant_attempts },
        begun: step.begun,
        closed: step.closed,
        called_tool: step.called_tool,
        asked_for_tools: step.asked_for_tools,
        has_reply: step.has_reply,
        brought_news: step.brought_news,
    }
}

fn load_progress(program: &Program, meter: &mut Meter, state: &wire::RunState) {
    let progress = &state.progress;
    meter.no_progress = if progress.seen.is_some() { progress.no_progress } else { 0 };
    meter.recent.last = progress.last;
    meter.recent.known = progress.known.min(4);
    meter.recent.repeats = progress.repeats;
    meter.recent.matched = progress.matched;
    if program.needs.seen {
        let seen = progress.seen.iter().flatten().copied().collect();
        meter.seen = Some(Box::new(seen));
    }
    if program.needs.stale {
        meter.stale = Some(load_stale(progress.stale.as_ref(), state.step.begun > 0));
    }
}

/// Facts by text; a matcher that cannot be continued leaves its fact unknown until the next step.
fn load_texts(program: &Program, meter: &mut Meter, state: &wire::RunState) {
    let saved = TextState {
        phrases: state.text.phrases,
        patterns: state.text.patterns.clone().into_boxed_slice(),
    };
    let usable = state.text.fingerprint == program.fingerprint && program.texts.accepts(&saved);
    if usable {
        meter.text = saved;
    }
    let places = meter.facts.iter_mut().zip(&mut meter.lost);
    for (fact, (truth, lost)) in program.facts.iter().zip(places) {
        let text = fact.to_string();
        let of_step = fact.is_of_step() && state.step.begun > 0;
        let known = state.facts.get(&text).copied();
        *truth = known.unwrap_or(if of_step { Truth::Unknown } else { Truth::False });
        let is_read = match fact {
            Fact::Said { .. } | Fact::Matches(_) => usable,
            _ => true,
        };
        let looked_for = known.is_some() && is_read && !state.lost.contains(&text);
        *lost = of_step && *truth == Truth::Unknown && !looked_for;
    }
    if let Some(replies) = state.replies.as_ref().filter(|_| program.needs.replies) {
        *meter.reply =
            ReplyHash::from_parts(&replies.word, replies.words, replies.last_two, &replies.balance);
        meter.last_replies = LastReplies { hashes: replies.hashes, count: replies.count };
    }
}

fn load_ops(program: &Program, meter: &mut Meter, state: &wire::RunState, begun: bool) {
    for (op, slot) in program.ops.iter().zip(&mut meter.ops) {
        let Some(saved) = state.operators.get(&op.key) else {
            slot.unknown = begun;
            continue;
        };
        slot.set = saved.set;
        slot.value = saved.value;
        slot.unknown = saved.unknown;
        if let OpKind::Ring { capacity, .. } = op.kind {
            let skipped = saved.ring.len().saturating_sub(capacity);
            slot.ring.extend(saved.ring.iter().skip(skipped));
        }
    }
}
