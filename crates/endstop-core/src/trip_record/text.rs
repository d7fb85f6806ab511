//! The trip record for people.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};

use crate::condition::gauge::Unit;
use crate::condition::{Condition, Temporal};
use crate::directive::Status;
use crate::expr::{parse, parse_amount};
use crate::human;
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
        let cost = self.cost_usd.as_deref().map_or("unknown cost".into(), |usd| {
            usd.parse().map_or_else(|_| usd.into(), human::money)
        });
        let (steps, tokens) = (human::counted(self.steps, "step"), human::tokens(self.tokens));
        write!(f, "\nafter {steps}, {tokens}, {cost}")?;
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
    let unit = unit_of(node);
    // Rounding must not make a number its limit, except a time that has passed it.
    let value = |text: &str| unit.and_then(|unit| parse_amount(text, unit).ok());
    let shown = |text: &str| {
        let (short, limit) = (rounded(text, unit), node.limit.as_deref().unwrap_or(""));
        let is_late = unit == Some(Unit::Duration) && value(text) > value(limit);
        if short == rounded(limit, unit) && text != limit && !is_late {
            text.to_owned()
        } else {
            short
        }
    };
    if let Some(observed) = &node.observed {
        write!(f, "  is {}", shown(observed))?;
    }
    if let Some(projected) = &node.projected {
        write!(f, ", could reach {}", shown(projected))?;
    }
    if let Some(margin) = &node.margin {
        write!(f, ", {} left", rounded(margin, unit))?;
    }
    node.parts.iter().try_for_each(|part| node_text(f, part, indent + 1))
}

/// The unit of the numbers of a leaf, if it compares one. A record may come from JSON, so that its text says.
fn unit_of(node: &NodeRecord) -> Option<Unit> {
    node.observed.as_ref()?;
    match parse(&node.text).ok()? {
        Condition::Compare(comparison) => Some(comparison.gauge.row().unit),
        Condition::Temporal(Temporal::Streak { .. } | Temporal::Count { .. }) => Some(Unit::Count),
        _ => None,
    }
}

/// An exact amount of a record as people read it. Text that is no amount stays.
fn rounded(text: &str, unit: Option<Unit>) -> String {
    /// The mark of a number of which only a lower bound is known.
    const LEAST: &str = "at least ";
    let (mark, number) = text.strip_prefix(LEAST).map_or(("", text), |number| (LEAST, number));
    let value = unit.and_then(|unit| Some((parse_amount(number, unit).ok()?, unit)));
    value.map_or_else(
        || text.to_owned(),
        |(value, unit)| format!("{mark}{}", human::amount(value, unit)),
    )
}
