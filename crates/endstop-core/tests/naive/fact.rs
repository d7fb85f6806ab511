//! Facts, read off the events of the step.

use endstop_core::condition::Fact;
use endstop_core::condition::fact::normalized_finish;
use endstop_core::signal::StopReason;
use endstop_core::{Event, EventKind};

use super::Truth;
use super::log::View;

pub(crate) fn fact(fact: &Fact, view: View<'_, '_>) -> Truth {
    match fact {
        Fact::Signal(wanted) => Truth::of(view.counted().any(
            |(_, event)| matches!(event.kind, EventKind::Signal { name, .. } if name == wanted.as_str()),
        )),
        Fact::Cancelled => Truth::of(
            view.counted().any(|(_, event)| match event.kind {
                EventKind::Cancel { .. } | EventKind::Kill { .. } => true,
                EventKind::StopRaised { signal } => signal.reason == StopReason::UserRequested,
                _ => false,
            }),
        ),
        of_step => match (is_shown(of_step, view), view.step()) {
            (true, _) => Truth::True,
            (false, Some((_, None))) => Truth::Unknown,
            (false, _) => Truth::False,
        },
    }
}

/// Whether the events of the step so far show that it holds.
fn is_shown(fact: &Fact, view: View<'_, '_>) -> bool {
    let step = view.of_step();
    // A result or a hand-off that comes after its step is still learned.
    let since = view.since_step();
    let some = |shows: &dyn Fn(&EventKind<'_>) -> bool| since.iter().any(|(_, e)| shows(&e.kind));
    match fact {
        Fact::Called(wanted) => {
            some(&|kind| matches!(kind, EventKind::ToolEnd { tool, .. } if tool == wanted))
        }
        Fact::ToolFailed(wanted) => some(
            &|kind| matches!(kind, EventKind::ToolEnd { tool, failed: true, .. } if tool == wanted),
        ),
        Fact::HandedOff(wanted) => {
            some(&|kind| matches!(kind, EventKind::HandOff { to } if to == wanted))
        }
        Fact::Errored => some(&|kind| {
            matches!(
                kind,
                EventKind::AttemptFailed { .. } | EventKind::ToolEnd { failed: true, .. }
            )
        }),
        Fact::NoToolCalls => {
            let is_over = matches!(view.step(), Some((_, Some(_))));
            let called =
                |(_, e): &(usize, &Event<'_>)| matches!(e.kind, EventKind::ToolBegin { .. });
            is_over && !step.iter().any(called)
        }
        Fact::Finished(wanted) => of_attempt(&step).iter().any(|(_, event)| match event.kind {
            EventKind::Reply { finish: Some(raw), .. } => wanted.iter().any(|wanted| {
                raw.eq_ignore_ascii_case(wanted)
                    || normalized_finish(raw) == wanted.to_ascii_lowercase()
            }),
            _ => false,
        }),
        Fact::Said { text, from } => is_said(text, from.as_deref(), view),
        Fact::Matches(pattern) => match pattern.strip_suffix('$') {
            None => words(view, view.last()).contains(pattern),
            // A pattern that reads the end of the text is decided when the text is complete.
            Some(end) => of_attempt(&step).iter().any(|(index, event)| {
                matches!(event.kind, EventKind::Reply { .. }) && words(view, *index).ends_with(end)
            }),
        },
        // Left out of the generated conditions.
        Fact::NearDuplicate => panic!("the naive evaluator knows no near duplicates"),
        Fact::Signal(_) | Fact::Cancelled => false,
    }
}

/// The step's events since its last attempt began or failed: what came before was dropped.
fn of_attempt<'s, 'l, 'a>(step: &'s [(usize, &'l Event<'a>)]) -> &'s [(usize, &'l Event<'a>)] {
    let dropped = step.iter().rposition(|(_, event)| {
        matches!(event.kind, EventKind::AttemptBegin { .. } | EventKind::AttemptFailed { .. })
    });
    dropped.map_or(step, |index| &step[index..])
}

/// The words of the attempt up to the event at `until`, joined.
fn words(view: View<'_, '_>, until: usize) -> String {
    let step = view.of_step();
    let pieces = of_attempt(&step).iter().filter(|(index, _)| *index <= until);
    pieces.filter_map(|(_, event)| piece(event)).collect()
}

fn piece<'a>(event: &Event<'a>) -> Option<&'a str> {
    match event.kind {
        EventKind::Piece { text } => Some(text),
        _ => None,
    }
}

/// Whether the words contain the text; where an agent is named, whether that one said the end of it.
fn is_said(text: &str, from: Option<&str>, view: View<'_, '_>) -> bool {
    let step = view.of_step();
    of_attempt(&step).iter().any(|(index, event)| {
        let Some(last) = piece(event) else { return false };
        let so_far = words(view, *index);
        let ends =
            (so_far.len() - last.len() + 1..=so_far.len()).map(|end| &so_far.as_bytes()[..end]);
        let spoken = from.is_none() || agent_at(view, *index) == from;
        spoken && ends.into_iter().any(|said| said.ends_with(text.as_bytes()))
    })
}

/// The agent that runs when the event at `index` happens.
fn agent_at<'a>(view: View<'_, 'a>, index: usize) -> Option<&'a str> {
    let changes =
        view.own().filter(|(i, _)| *i < index).filter_map(|(_, event)| match event.kind {
            EventKind::RunBegin { agent, .. } => Some(agent),
            EventKind::HandOff { to } => Some(Some(to)),
            _ => None,
        });
    changes.last().flatten()
}
