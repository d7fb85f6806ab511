//! Rules over a complete log: which rules trip at each checkpoint, and which events are refused.

use endstop_core::event::Source;
use endstop_core::{Condition, Event, EventKind};

use super::log::{Entry, Moment, View};
use super::logic::{decided, rests_on_numbers};

/// The action of a rule when it trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Stop,
    Pause,
    Finish,
    Retry,
    Warn,
}

impl Action {
    /// The amounts that a rule of this action sees: only a stop rule sees the worst case.
    pub(super) fn view<'l, 'a>(self, log: &'l [Entry<'a>], moment: Moment) -> View<'l, 'a> {
        let view = View::new(log, moment);
        if self == Self::Stop { view.showing_reserve() } else { view }
    }
}

/// A rule of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    pub(crate) condition: Condition,
}

/// The effect of a rule that trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Stands,
    /// It trips only because of `depth`: the child is refused, the run continues.
    RefusesTheChild,
    /// It rests on numeric limits alone, and the run ended on its own.
    YieldsToTheEnd,
}

/// A rule that trips at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) rule: &'static str,
    pub(crate) action: Action,
    pub(crate) standing: Standing,
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// In the order of the rules.
    pub(crate) held: Vec<Held>,
    /// Whether a cancellation, the kill switch, a raised signal or an error of the driver stands.
    pub(crate) raised: bool,
    /// Whether what the event announced was refused.
    pub(crate) refused: bool,
    /// Whether the run ended on its own with this event.
    pub(crate) natural_end: bool,
    /// Whether a pause from outside holds back what the event announced.
    pub(crate) held_back: bool,
}

/// Judges every event in turn. Returns the decisions, and the log with the refused events marked.
///
/// Raised signals latch, and nothing answers them.
pub(crate) fn decide<'a>(rules: &[Rule], log: &[Event<'a>]) -> (Vec<Decision>, Vec<Entry<'a>>) {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut decisions = Vec::new();
    for event in log {
        entries.push(Entry { event: event.clone(), refused: false });
        let view = View::new(&entries, Moment(entries.len() - 1));
        let decision = judge(rules, view);
        if let Some(last) = entries.last_mut() {
            last.refused = decision.refused;
        }
        decisions.push(decision);
    }
    (decisions, entries)
}

fn judge(rules: &[Rule], view: View<'_, '_>) -> Decision {
    let event = view.judged();
    let natural_end = ends_by_itself(view);
    let mut held = Vec::new();
    for rule in rules {
        if let Some(standing) = standing(rule, view) {
            held.push(Held { rule: rule.name, action: rule.action, standing });
        }
    }
    let raised = view.counted().any(|(_, event)| {
        matches!(
            event.kind,
            EventKind::Cancel { .. } | EventKind::Kill { .. } | EventKind::StopRaised { .. }
        )
    }) || has_reply_outside_step(view);
    let announces = event.kind.is_intention() || matches!(event.kind, EventKind::HandOff { .. });
    let stopped = held
        .iter()
        .any(|held| held.action == Action::Stop && held.standing != Standing::YieldsToTheEnd);
    let finishes = held.iter().any(|held| held.action == Action::Finish);
    let below = event.kind == EventKind::StepBegin && event.source == Source::Descendant;
    let refused = announces && (stopped || raised) || below && finishes;
    let held_back = is_held_back(view);
    Decision { held, raised, refused, natural_end, held_back }
}

/// Whether the last of all requests from outside was to pause, and something other than the run would begin.
fn is_held_back(view: View<'_, '_>) -> bool {
    let kind = &view.judged().kind;
    let requests = view.own().filter_map(|(_, event)| match event.kind {
        EventKind::PauseRequested { .. } => Some(true),
        EventKind::ResumeRequested { .. } => Some(false),
        _ => None,
    });
    let begins = matches!(kind, EventKind::StepBegin | EventKind::AttemptBegin { .. });
    begins && requests.last() == Some(true)
}

/// Whether the run itself has replied while no step was reported, admitted or not: its driver does not report all steps.
fn has_reply_outside_step(view: View<'_, '_>) -> bool {
    let mut is_in_step = false;
    view.heard().filter(|(_, event)| event.source == Source::Own).any(|(_, event)| {
        match event.kind {
            EventKind::StepBegin => is_in_step = true,
            EventKind::StepEnd => is_in_step = false,
            EventKind::Reply { .. } => return !is_in_step,
            _ => {}
        }
        false
    })
}

fn standing(rule: &Rule, view: View<'_, '_>) -> Option<Standing> {
    let stops = rule.action == Action::Stop;
    let view = if stops { view.showing_reserve() } else { view };
    if !decided(&rule.condition, view, true) {
        let begins_child = matches!(view.judged().kind, EventKind::ChildBegin { .. });
        let too_deep =
            stops && begins_child && decided(&rule.condition, view.showing_depth(), true);
        return too_deep.then_some(Standing::RefusesTheChild);
    }
    let yields = stops && is_ending(view) && rests_on_numbers(&rule.condition, view, true);
    Some(if yields { Standing::YieldsToTheEnd } else { Standing::Stands })
}

/// Whether the model has answered without asking for a tool, and nothing more would begin in the step.
fn is_ending(view: View<'_, '_>) -> bool {
    let kind = &view.judged().kind;
    let begins = kind.is_intention() || matches!(kind, EventKind::HandOff { .. });
    if begins || !(view.is_in_step() || ends_step(view)) {
        return false;
    }
    let step = view.of_step();
    let asks = |kind: &EventKind<'_>| match kind {
        EventKind::AttemptBegin { .. } => Some(None),
        EventKind::Reply { tool_calls, .. } => Some(Some(*tool_calls)),
        _ => None,
    };
    step.iter().filter_map(|(_, event)| asks(&event.kind)).next_back() == Some(Some(0))
}

/// Whether an own step ends here. An end without a beginning ends nothing.
fn ends_step(view: View<'_, '_>) -> bool {
    let event = view.judged();
    event.source == Source::Own
        && event.kind == EventKind::StepEnd
        && matches!(view.step(), Some((_, Some(end))) if end == view.last())
}

fn ends_by_itself(view: View<'_, '_>) -> bool {
    ends_step(view) && is_ending(view)
}
