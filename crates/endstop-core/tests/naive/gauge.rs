//! Gauges, each counted from the beginning of the log, and their comparison.

use std::collections::BTreeSet;

use endstop_core::condition::gauge::{Compared, quota_fact};
use endstop_core::condition::{CompareOp, Comparison, Gauge, GaugeId};
use endstop_core::event::Source;
use endstop_core::units::{Cost, TokenUsage};
use endstop_core::{Event, EventKind};

use super::Truth;
use super::log::View;

/// The value of a gauge, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Known(u64),
    /// A total of which a part was not reported.
    AtLeast(u64),
    Unknown,
    /// Not compared here: the value is undefined.
    NotCompared,
}

impl Reading {
    pub(crate) const fn known(self) -> Option<u64> {
        match self {
            Self::Known(value) => Some(value),
            _ => None,
        }
    }
}

/// `helping` says whether its truth helps the rule to trip.
pub(crate) fn compare(
    comparison: &Comparison,
    view: View<'_, '_>,
    helping: bool,
) -> (Truth, Reading) {
    let (truth, reading) = compare_settled(comparison, view);
    let reached = if helping { Truth::True } else { Truth::False };
    let op = if helping { comparison.op } else { comparison.op.negated() };
    // The least number at which it is reached, if it is a limit.
    let limit = match op {
        CompareOp::Ge => Some(comparison.value),
        CompareOp::Gt => comparison.value.checked_add(1),
        _ => None,
    };
    let (Some(limit), Some(amount)) = (limit, reserved(&comparison.gauge, view)) else {
        return (truth, reading);
    };
    let settled = match reading {
        Reading::Known(settled) | Reading::AtLeast(settled) => settled,
        _ => return (truth, reading),
    };
    match amount {
        _ if truth == reached => (truth, reading),
        // The limit itself is admitted.
        Some(amount) if settled + amount > limit => (reached, reading),
        Some(_) => (truth, reading),
        None => (Truth::Unknown, Reading::AtLeast(settled)),
    }
}

/// The amount that the judged request may add to a gauge: `None` inside if that is not known.
fn reserved(gauge: &Gauge, view: View<'_, '_>) -> Option<Option<u64>> {
    let event = view.reserve()?;
    if gauge.own && event.source == Source::Descendant {
        return None;
    }
    if let EventKind::ToolReserve { cost, held, .. } = event.kind {
        // A tool has no tokens.
        return (gauge.id == GaugeId::Cost).then_some(Some(cost.picos() + held.picos()));
    }
    let EventKind::Reserve { input_tokens, output_tokens, cost } = event.kind else { return None };
    match gauge.id {
        GaugeId::Tokens => Some(Some(input_tokens + output_tokens)),
        GaugeId::InputTokens => Some(Some(input_tokens)),
        GaugeId::OutputTokens => Some(Some(output_tokens)),
        GaugeId::Cost => Some(match cost {
            Some(Cost::Known(money)) => Some(money.picos()),
            Some(Cost::Unpriced) | None => None,
        }),
        _ => None,
    }
}

fn compare_settled(comparison: &Comparison, view: View<'_, '_>) -> (Truth, Reading) {
    let reading = reading(&comparison.gauge, view);
    let limit = comparison.value;
    let truth = match reading {
        Reading::Known(value) => Truth::of(comparison.op.is_met(value, limit)),
        Reading::NotCompared | Reading::Unknown => Truth::Unknown,
        // The missing part can only add: what no addition can change is known.
        Reading::AtLeast(part) => match comparison.op {
            CompareOp::Ge | CompareOp::Gt if comparison.op.is_met(part, limit) => Truth::True,
            CompareOp::Gt if limit == u64::MAX => Truth::False,
            CompareOp::Lt | CompareOp::Le if !comparison.op.is_met(part, limit) => Truth::False,
            CompareOp::Le if limit == u64::MAX => Truth::True,
            CompareOp::Eq if part > limit => Truth::False,
            CompareOp::Ne if part > limit => Truth::True,
            _ => Truth::Unknown,
        },
    };
    (truth, reading)
}

fn reading(gauge: &Gauge, view: View<'_, '_>) -> Reading {
    match gauge.row().compared {
        Compared::Always => as_it_stands(gauge, view),
        Compared::WhenARequestBegins => {
            let is_money = gauge.id == GaugeId::Cost;
            let last = (0..=view.last()).rev().find(|&i| spends(view.back_at(i), is_money));
            // Nothing has been spent before the first request.
            last.map_or(Reading::Known(0), |i| as_it_stands(gauge, view.back_at(i)))
        }
        Compared::WhenOneMoreBegins => {
            let last = (0..=view.last()).rev().find(|&i| is_compared(gauge, view.back_at(i)));
            // Nothing has been counted before the first comparison.
            last.map_or(Reading::Known(0), |i| Reading::Known(count(gauge, view.back_at(i))))
        }
        Compared::WhenAChildBegins => match view.judged().kind {
            // The compared value is the depth of the run that begins the child.
            EventKind::ChildBegin { depth } if view.shows_depth() => {
                Reading::Known(u64::from(depth).saturating_sub(1))
            }
            _ => Reading::NotCompared,
        },
        Compared::WhenACallBegins => match (view.judged().source, &view.judged().kind) {
            (Source::Own, EventKind::ToolReserve { cost, .. }) => Reading::Known(cost.picos()),
            (Source::Own, EventKind::AttemptBegin { next_cost }) => match next_cost {
                Some(Cost::Known(money)) => Reading::Known(money.picos()),
                Some(Cost::Unpriced) | None => Reading::AtLeast(0),
            },
            _ => Reading::NotCompared,
        },
    }
}

/// Whether a model request would begin, of the run or of a descendant. Money may be a tool's too.
fn spends(view: View<'_, '_>, is_money: bool) -> bool {
    match view.judged().kind {
        EventKind::StepBegin | EventKind::AttemptBegin { .. } | EventKind::Reserve { .. } => true,
        EventKind::ToolReserve { .. } => is_money,
        _ => false,
    }
}

/// Whether a count is compared at the event that is judged: between own steps and at the end of every
/// descendant's, inside one only if one more of it would begin.
fn is_compared(gauge: &Gauge, view: View<'_, '_>) -> bool {
    let event = view.judged();
    let is_between = event.source == Source::Own || matches!(event.kind, EventKind::StepEnd);
    if !view.is_in_step() && is_between {
        return true;
    }
    if gauge.own && event.source != Source::Own {
        return false;
    }
    match (gauge.id, &event.kind) {
        (GaugeId::Steps, EventKind::StepBegin)
        | (GaugeId::Attempts | GaugeId::Errors, EventKind::AttemptBegin { .. })
        | (GaugeId::ToolErrors | GaugeId::Errors, EventKind::ToolBegin { .. })
        | (GaugeId::Subagents, EventKind::ChildBegin { .. })
        | (GaugeId::Handoffs, EventKind::HandOff { .. }) => true,
        (GaugeId::Retries, EventKind::AttemptBegin { .. }) => {
            is_retry(view, view.last(), event.source)
        }
        (GaugeId::ToolCalls, EventKind::ToolBegin { tool }) => {
            gauge.argument.as_deref().is_none_or(|wanted| wanted == *tool)
        }
        _ => false,
    }
}

/// Whether the attempt at `index` is not the first of its step: of descendants, beyond their steps.
fn is_retry(view: View<'_, '_>, index: usize, source: Source) -> bool {
    let (mut steps, mut attempts) = (0, 0);
    for (_, event) in view.counted().filter(|(i, e)| *i < index && e.source == source) {
        match event.kind {
            EventKind::StepBegin if source == Source::Own => (steps, attempts) = (1, 0),
            EventKind::StepBegin => steps += 1,
            EventKind::AttemptBegin { .. } => attempts += 1,
            _ => {}
        }
    }
    if source == Source::Own { attempts > 0 } else { attempts >= steps }
}

fn count(gauge: &Gauge, view: View<'_, '_>) -> u64 {
    let counts = |index: usize, event: &Event<'_>| match (gauge.id, &event.kind) {
        (GaugeId::Steps, EventKind::StepBegin)
        | (GaugeId::Attempts, EventKind::AttemptBegin { .. })
        | (GaugeId::ToolErrors | GaugeId::Errors, EventKind::ToolEnd { failed: true, .. })
        | (GaugeId::Errors, EventKind::AttemptFailed { .. })
        | (GaugeId::Subagents, EventKind::ChildBegin { .. })
        | (
            GaugeId::Messages,
            EventKind::UserMessage
            | EventKind::Reply { .. }
            | EventKind::ToolEnd { .. }
            | EventKind::ToolRefused { .. },
        ) => true,
        (GaugeId::Retries, EventKind::AttemptBegin { .. }) => is_retry(view, index, event.source),
        (GaugeId::ToolCalls, EventKind::ToolBegin { tool }) => {
            gauge.argument.as_deref().is_none_or(|wanted| wanted == *tool)
        }
        // The hand-off that is judged is the one that is coming.
        (GaugeId::Handoffs, EventKind::HandOff { .. }) => {
            index < view.last() && !view.was_refused(index)
        }
        _ => false,
    };
    let of_source = |event: &Event<'_>| !gauge.own || event.source == Source::Own;
    view.counted().filter(|(index, event)| of_source(event) && counts(*index, event)).count() as u64
}

fn as_it_stands(gauge: &Gauge, view: View<'_, '_>) -> Reading {
    match gauge.id {
        GaugeId::Tokens => tokens(gauge, view, TokenUsage::total),
        GaugeId::InputTokens => tokens(gauge, view, TokenUsage::total_input),
        GaugeId::OutputTokens => tokens(gauge, view, |usage| usage.output),
        GaugeId::CachedTokens => tokens(gauge, view, |usage| usage.cache_read),
        GaugeId::ContextTokens => context_tokens(view),
        GaugeId::Cost => cost(gauge, view),
        GaugeId::Elapsed => Reading::Known(view.elapsed()),
        GaugeId::Active => Reading::Known(active(view)),
        GaugeId::Idle => Reading::Known(view.elapsed() - last_sign_of_life(view)),
        GaugeId::Now => {
            Reading::Known(view.heard().map(|(_, event)| event.wall.0).max().unwrap_or(0))
        }
        GaugeId::Repeats => Reading::Known(repeats(&triples_since_user(view))),
        GaugeId::Cycles => Reading::Known(cycles(&triples_since_user(view))),
        GaugeId::NoProgress => Reading::Known(no_progress(view)),
        GaugeId::Stale => Reading::Known(stale(view)),
        GaugeId::Fact | GaugeId::Quota => {
            let name = gauge.argument.clone().unwrap();
            let name = if gauge.id == GaugeId::Quota { quota_fact(&name) } else { name };
            let wanted = Some(name.as_str());
            let reported = view.counted().filter_map(|(_, event)| match event.kind {
                EventKind::Fact { name, value } if Some(name) == wanted => Some(value),
                _ => None,
            });
            reported.last().map_or(Reading::Unknown, Reading::Known)
        }
        _ => panic!("`{gauge}` is left out of the generated conditions"),
    }
}

/// The tokens that each settled request reported.
fn usages(gauge_own: bool, view: View<'_, '_>) -> Vec<Option<TokenUsage>> {
    view.counted()
        .filter(|(_, event)| !gauge_own || event.source == Source::Own)
        .filter_map(|(_, event)| match &event.kind {
            EventKind::Reply { usage, .. } => Some(*usage),
            // A failure costs nothing if no cost is reported.
            EventKind::AttemptFailed { usage, .. } => usage.map(Some),
            _ => None,
        })
        .collect()
}

fn tokens(gauge: &Gauge, view: View<'_, '_>, of: impl Fn(&TokenUsage) -> u64) -> Reading {
    let usages = usages(gauge.own, view);
    let sum = usages.iter().flatten().map(of).sum();
    if usages.iter().all(Option::is_some) { Reading::Known(sum) } else { Reading::AtLeast(sum) }
}

fn context_tokens(view: View<'_, '_>) -> Reading {
    let replies = view.own().filter_map(|(_, event)| match &event.kind {
        EventKind::Reply { usage, .. } => Some(*usage),
        _ => None,
    });
    match replies.last() {
        None => Reading::Known(0),
        Some(Some(usage)) => Reading::Known(usage.total_input()),
        Some(None) => Reading::Unknown,
    }
}

fn cost(gauge: &Gauge, view: View<'_, '_>) -> Reading {
    let (mut sum, mut unpriced) = (0, false);
    for (_, event) in view.counted().filter(|(_, e)| !gauge.own || e.source == Source::Own) {
        match &event.kind {
            EventKind::Reply { cost: Some(Cost::Known(money)), .. }
            | EventKind::AttemptFailed { cost: Some(Cost::Known(money)), .. }
            | EventKind::ToolCost { cost: money, .. } => {
                sum += money.picos();
            }
            EventKind::Reply { .. }
            | EventKind::AttemptFailed { cost: Some(Cost::Unpriced), .. } => unpriced = true,
            _ => {}
        }
    }
    if unpriced { Reading::AtLeast(sum) } else { Reading::Known(sum) }
}

fn active(view: View<'_, '_>) -> u64 {
    let mut since = None;
    let mut paused = 0;
    let (mut waits, mut is_held) = (false, false);
    for (index, event) in view.own() {
        match &event.kind {
            EventKind::Paused => waits = true,
            EventKind::Resumed => waits = false,
            EventKind::PauseRequested { .. } => is_held = true,
            EventKind::ResumeRequested { .. } => is_held = false,
            _ => {}
        }
        let at = view.elapsed_at(index);
        match since {
            None if waits || is_held => since = Some(at),
            Some(begun) if !waits && !is_held => {
                paused += at - begun;
                since = None;
            }
            _ => {}
        }
    }
    since.unwrap_or(view.elapsed()) - paused
}

fn last_sign_of_life(view: View<'_, '_>) -> u64 {
    let signs = view.heard().filter(|(_, event)| {
        event.source == Source::Descendant
            || matches!(
                event.kind,
                EventKind::Piece { .. }
                    | EventKind::Reply { .. }
                    | EventKind::ToolEnd { .. }
                    | EventKind::UserMessage
                    | EventKind::ChildBegin { .. }
                    | EventKind::ChildEnd
            )
    });
    signs.last().map_or(0, |(index, _)| view.elapsed_at(index))
}

type Triple<'a> = (&'a str, &'a str, &'a str);

/// A result of a call that did not wait.
#[derive(Clone, Copy)]
struct Judged<'a> {
    triple: Triple<'a>,
    failed: bool,
}

/// `None` for events that are not results, and for results of calls that have waited ten seconds without a failure.
fn judged<'a>(view: View<'_, 'a>, index: usize, event: &Event<'a>) -> Option<Judged<'a>> {
    let EventKind::ToolEnd { tool, arguments, result, failed } = event.kind else { return None };
    let (mut begun, mut in_step) = (None, false);
    for (at, event) in view.own().take_while(|(at, _)| *at < index) {
        match event.kind {
            EventKind::StepBegin => in_step = true,
            EventKind::StepEnd if in_step => (begun, in_step) = (None, false),
            EventKind::ToolBegin { .. } => begun = Some(view.elapsed_at(at)),
            _ => {}
        }
    }
    let waited = begun.is_some_and(|begun| view.elapsed_at(index) - begun >= 10_000);
    (failed || !waited).then_some(Judged { triple: (tool, arguments, result), failed })
}

fn triples_since_user<'a>(view: View<'_, 'a>) -> Vec<Triple<'a>> {
    let mut triples = Vec::new();
    for (index, event) in view.own() {
        if event.kind == EventKind::UserMessage {
            triples.clear();
        }
        triples.extend(judged(view, index, event).map(|it| it.triple));
    }
    triples
}

fn repeats(triples: &[Triple<'_>]) -> u64 {
    let equal = triples.iter().rev().take_while(|triple| Some(*triple) == triples.last()).count();
    (equal as u64).saturating_sub(1)
}

fn cycles(triples: &[Triple<'_>]) -> u64 {
    let repetitions = |period: usize| {
        let mut length = 0;
        for i in period..triples.len() {
            let constant = triples[i - period..=i].iter().all(|triple| *triple == triples[i]);
            let again = triples[i] == triples[i - period] && !constant;
            length = if again { length + 1 } else { 0 };
        }
        (length / period) as u64
    };
    (2..=4).map(repetitions).max().unwrap_or(0)
}

fn no_progress(view: View<'_, '_>) -> u64 {
    let mut seen: BTreeSet<Triple<'_>> = BTreeSet::new();
    let (mut steps, mut brought, mut waited, mut in_step) = (0, false, false, false);
    for (index, event) in view.own() {
        match event.kind {
            EventKind::StepBegin => in_step = true,
            EventKind::UserMessage => (steps, brought) = (0, true),
            EventKind::ToolEnd { .. } => match judged(view, index, event) {
                Some(it) => brought |= seen.insert(it.triple),
                None => waited = true,
            },
            EventKind::StepEnd if in_step => {
                if brought || !waited {
                    steps = if brought { 0 } else { steps + 1 };
                }
                (brought, waited, in_step) = (false, false, false);
            }
            _ => {}
        }
    }
    assert!(seen.len() <= 4_096, "generated runs stay below what the run itself remembers");
    steps
}

/// Of a hundred steps with results since the user last spoke, those whose every result is one of an earlier such step; those
/// that only failed count half. None where the last three are not such steps, or if those at the end only repeat the
/// call before them and all texts are equal.
fn stale(view: View<'_, '_>) -> u64 {
    let mut steps: Vec<Vec<Judged<'_>>> = Vec::new();
    let (mut results, mut in_step) = (Vec::new(), false);
    for (index, event) in view.own() {
        match event.kind {
            EventKind::UserMessage => {
                steps.clear();
                results.clear();
            }
            EventKind::StepBegin => in_step = true,
            EventKind::StepEnd if in_step => {
                in_step = false;
                if !results.is_empty() {
                    steps.push(std::mem::take(&mut results));
                }
            }
            _ => results.extend(judged(view, index, event)),
        }
    }
    let known = |i: usize, one: &Judged<'_>| {
        steps[..i].iter().flatten().any(|earlier| is_same(earlier, one))
    };
    let is_stale = |i: usize| steps[i].iter().all(|one| known(i, one));
    let all: Vec<bool> = (0..steps.len()).map(is_stale).collect();
    let halves = |i: usize| if steps[i].iter().all(|one| one.failed) { 1 } else { 2 };
    let halves: usize = (0..steps.len()).filter(|i| all[*i]).map(halves).sum();
    let streak = all.iter().rev().take_while(|is_stale| **is_stale).count();
    let results: Vec<Triple<'_>> = steps.iter().flatten().map(|one| one.triple).collect();
    let in_streak: usize = steps.iter().rev().take(streak).map(Vec::len).sum();
    let mut at_end = results.iter().rev().take(in_streak + 1);
    let is_one_call = at_end.all(|triple| Some(triple) == results.last());
    let is_one_text = results.iter().all(|triple| Some(triple.2) == results.first().map(|it| it.2));
    let is_repeat = is_one_call && is_one_text;
    if halves < 6 || streak < 3 || is_repeat { 0 } else { (halves * 50 / steps.len()) as u64 }
}

/// A failure is recognized whatever was asked.
fn is_same(one: &Judged<'_>, other: &Judged<'_>) -> bool {
    let ((tool, arguments, result), (as_tool, as_arguments, as_result)) =
        (one.triple, other.triple);
    let is_call =
        if one.failed { other.failed } else { !other.failed && arguments == as_arguments };
    tool == as_tool && result == as_result && is_call
}
