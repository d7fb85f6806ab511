//! The trip record for people.

use core::fmt::{self, Display, Formatter};

use crate::directive::Status;
use crate::meter::Truth;
use crate::policy::Action;

use super::{NodeRecord, RuleRecord, TripRecord};

impl Display for TripRecord {
    /// The cause first, then every rule as a tree: `[x]` is met, `[ ]` is not, `[?]` is not known.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.primary {
            Some(signal) => write!(f, "{}: {signal}", self.status.name())?,
            None => self.status_text(f)?,
        }
        let cost =
            self.cost_usd.as_deref().map_or("unknown cost".into(), |usd| alloc::format!("${usd}"));
        let s = |number: u64| if number == 1 { "" } else { "s" };
        let (steps, tokens) = (self.steps, self.tokens);
        write!(f, "\nafter {steps} step{}, {tokens} token{}, {cost}", s(steps), s(tokens))?;
        if let Some(cause) = &self.terminated_by {
            write!(f, "\nterminated by {cause}")?;
        }
        if let Some(refused) = self.refused.as_deref().filter(|text| !text.is_empty()) {
            write!(f, "\nrefused: {refused}")?;
        }
        let others = self.signals.iter().filter(|signal| Some(*signal) != self.primary.as_ref());
        for signal in others {
            write!(f, "\nalso: {signal}")?;
        }
        if self.signals_dropped > 0 {
            write!(f, "\nalso: {} more", self.signals_dropped)?;
        }
        for signal in &self.late_signals {
            write!(f, "\nlate: {signal}")?;
        }
        for record in &self.overrides {
            let rule = record.rule.as_deref().unwrap_or("signals");
            write!(
                f,
                "\noverride at step {}: {rule} {} by {}",
                record.step, record.what, record.by
            )?;
        }
        for rule in &self.rules {
            rule_text(f, rule)?;
        }
        Ok(())
    }
}

impl TripRecord {
    /// The status of a run that no signal ends, with the cause of a pause.
    fn status_text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.status == Status::Paused {
            if let Some(pause) = &self.pause {
                return write!(f, "{pause}");
            }
            let mut rules = self.rules.iter();
            if let Some(rule) = rules.find(|rule| rule.action == Action::Pause && rule.trips) {
                return write!(f, "paused by {}", rule.id);
            }
        }
        write!(f, "{}: no stop signal stands", self.status.name())
    }
}

fn rule_text(f: &mut Formatter<'_>, rule: &RuleRecord) -> fmt::Result {
    let trips = if rule.trips { "trips" } else { "does not trip" };
    let hard = if rule.hard { ", hard" } else { "" };
    write!(f, "\n\n{} ({}{hard}) {trips}", rule.id, rule.action.name())?;
    if let Some(origin) = &rule.origin {
        write!(f, ", from {origin}")?;
    }
    node_text(f, &rule.tree, 1)
}

fn node_text(f: &mut Formatter<'_>, node: &NodeRecord, indent: usize) -> fmt::Result {
    let mark = match node.state {
        Truth::True => "[x]",
        Truth::False => "[ ]",
        Truth::Unknown => "[?]",
    };
    write!(f, "\n{:indent$}{mark} {}", "", node.text, indent = indent * 2)?;
    if let Some(observed) = &node.observed {
        write!(f, "  is {observed}")?;
    }
    if let Some(projected) = &node.projected {
        write!(f, ", would be {projected}")?;
    }
    if let Some(margin) = &node.margin {
        write!(f, ", {margin} left")?;
    }
    node.parts.iter().try_for_each(|part| node_text(f, part, indent + 1))
}
