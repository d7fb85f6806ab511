//! Conditions to text. Reading the text back gives an equal condition.

use core::fmt::{self, Display, Formatter, Write};

use super::Amount;
use crate::condition::literal::{pattern_text, quoted};
use crate::condition::{CompareOp, Comparison, Condition, Fact, Gauge, Named, Temporal};

/// How tightly a condition binds; a part that binds less than its place demands gets parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tightness {
    Join,
    Then,
    Not,
    Within,
    Atom,
}

const fn tightness(condition: &Condition) -> Tightness {
    match condition {
        Condition::And(_) | Condition::Or(_) => Tightness::Join,
        Condition::Temporal(Temporal::Then { .. }) => Tightness::Then,
        Condition::Not(_) => Tightness::Not,
        Condition::Temporal(Temporal::Within { .. }) => Tightness::Within,
        _ => Tightness::Atom,
    }
}

impl Display for Condition {
    /// The condition in the expression language.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(comparison) => write!(f, "{comparison}"),
            Self::Fact(fact) => write!(f, "{fact}"),
            Self::Not(inner) => {
                f.write_str("not ")?;
                at_least(f, inner, Tightness::Not)
            }
            Self::And(parts) => joined(f, parts, " and "),
            Self::Or(parts) => joined(f, parts, " or "),
            Self::Temporal(temporal) => temporal_text(f, temporal),
            Self::Named(named) => named_text(f, named),
        }
    }
}

fn at_least(f: &mut Formatter<'_>, part: &Condition, needed: Tightness) -> fmt::Result {
    if tightness(part) < needed { write!(f, "({part})") } else { write!(f, "{part}") }
}

fn joined(f: &mut Formatter<'_>, parts: &[Condition], word: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        // `then` next to `and`/`or` needs parentheses too.
        at_least(f, part, Tightness::Not)?;
    }
    Ok(())
}

fn temporal_text(f: &mut Formatter<'_>, temporal: &Temporal) -> fmt::Result {
    match temporal {
        Temporal::Ever(of) => write!(f, "ever({of})"),
        Temporal::Streak { of, op, n } => write!(f, "streak({of}) {} {n}", op.symbol()),
        Temporal::Count { of, window: None, op, n } => write!(f, "count({of}) {} {n}", op.symbol()),
        Temporal::Count { of, window: Some(window), op, n } => {
            write!(f, "count({of}, {window}) {} {n}", op.symbol())
        }
        Temporal::Within { of, window } => {
            at_least(f, of, Tightness::Within)?;
            write!(f, " within {window}")
        }
        Temporal::Then { first, next } => {
            at_least(f, first, Tightness::Then)?;
            f.write_str(" then ")?;
            at_least(f, next, Tightness::Not)
        }
    }
}

fn named_text(f: &mut Formatter<'_>, named: &Named) -> fmt::Result {
    write!(f, "{}(", named.name())?;
    for (index, (name, literal)) in named.arguments().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        if let Some(name) = name {
            write!(f, "{name}=")?;
        }
        f.write_str(literal)?;
    }
    f.write_char(')')
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.gauge,
            self.op,
            Amount { unit: self.gauge.row().unit, value: self.value }
        )
    }
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl Display for Gauge {
    /// `own.steps`, `tool_calls("search")`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.own {
            f.write_str("own.")?;
        }
        f.write_str(self.row().name)?;
        match &self.argument {
            Some(argument) => write!(f, "({})", quoted(argument)),
            None => Ok(()),
        }
    }
}

impl Display for Fact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Called(text)
            | Self::ToolFailed(text)
            | Self::HandedOff(text)
            | Self::Signal(text)
            | Self::Said { text, from: None } => write!(f, "({})", quoted(text)),
            Self::Said { text, from: Some(from) } => {
                write!(f, "({}, from={})", quoted(text), quoted(from))
            }
            Self::Matches(pattern) => write!(f, "({})", pattern_text(pattern)),
            Self::Finished(reasons) => {
                for (index, reason) in reasons.iter().enumerate() {
                    f.write_str(if index == 0 { "(" } else { ", " })?;
                    f.write_str(&quoted(reason))?;
                }
                f.write_char(')')
            }
            Self::Cancelled | Self::NoToolCalls | Self::Errored | Self::NearDuplicate => Ok(()),
        }
    }
}
