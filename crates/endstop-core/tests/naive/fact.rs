//! Facts, read off the events of the step.

use endstop_core::condition::Fact;
use endstop_core::condition::fact::normalised_finish;
use endstop_core::{Event, EventKind};

use super::Truth;
use super::log::View;

pub(crate) fn fact(fact: &Fact, view: View<'_, '_>) -> Truth {
    match fact {
        Fact::Signal(wanted) => Truth::of(view.counted().any(
            |(_, event)| matches!(event.kind, EventKind::Signal { name } if name == wanted.as_str()),
        )),
        Fact::Cancelled => Truth::of(
            view.counted().any(|(_, event)| matches!(event.kind, EventKind::Cancel { .. })),
        ),
        of_step => match view.step() {
            None => Truth::False,
            Some((_, None)) if matches!(of_step, Fact::NoToolCalls) => Truth::Unknown,
            Some((_, end)) => match (is_shown(of_step, view), end) {
                (true, _) => Truth::True,
                (false, None) => Truth::Unknown,
                (false, Some(_)) => Truth::False,
            },
        },
    }
}

/// Whether the events of the step so far show that it holds.
fn is_shown(fact: &Fact, view: View<'_, '_>) -> bool {
    let step = view.of_step();
    let some = |shows: &dyn Fn(&EventKind<'_>) -> bool| step.iter().any(|(_, e)| shows(&e.kind));
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
        Fact::NoToolCalls => !some(&|kind| matches!(kind, EventKind::ToolBegin { .. })),
        Fact::Finished(wanted) => of_attempt(&step).iter().any(|(_, event)| match event.kind {
            EventKind::Reply { finish: Some(raw), .. } => wanted.iter().any(|wanted| {
                raw.eq_ignore_ascii_case(wanted)
                    || normalised_finish(raw) == wanted.to_ascii_lowercase()
            }),
            _ => false,
        }),
        Fact::Said { text, from } => words(view, from.as_deref(), view.last()).contains(text),
        Fact::Matches(pattern) => match pattern.strip_suffix('$') {
            None => words(view, None, view.last()).contains(pattern),
            // What looks at the end of the text is decided when the text is whole.
            Some(end) => of_attempt(&step).iter().any(|(index, event)| {
                matches!(event.kind, EventKind::Reply { .. })
                    && words(view, None, *index).ends_with(end)
            }),
        },
        Fact::NearDuplicate => unimplemented!("left out of the generated conditions"),
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

/// The words of the attempt up to the event at `until`, joined; only those of one agent where named.
fn words(view: View<'_, '_>, from: Option<&str>, until: usize) -> String {
    let step = view.of_step();
    let mut text = String::new();
    for (index, event) in of_attempt(&step) {
        let EventKind::Piece { text: piece } = event.kind else { continue };
        let spoken = from.is_none() || agent_at(view, *index) == from;
        if spoken && *index <= until {
            text.push_str(piece);
        }
    }
    text
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
