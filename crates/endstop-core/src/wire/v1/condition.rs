//! A condition as JSON: a tree of small objects, amounts as the expression language writes them.
//!
//! `{"gauge":"cost","op":">=","value":"$2.00"}`, `{"fact":"called(\"submit\")"}`, `{"not":..}`,
//! `{"and":[..]}`, `{"or":[..]}`, `{"ever":..}`, `{"streak":..,"op":">=","n":3}`,
//! `{"count":..,"window":"5m","op":">=","n":3}`, `{"within":..,"window":"10 steps"}`,
//! `{"first":..,"then":..}`, `{"named":"max_steps(25)"}`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::condition::{Condition, Temporal};
use crate::expr::{Amount, parse};

/// The wire form.
///
/// ```
/// use endstop_core::condition::named::max_usd;
/// use endstop_core::wire::v1::condition::ConditionJson;
///
/// let condition = max_usd("2.00")?;
/// let json = serde_json::to_string(&ConditionJson::from(condition.expanded()))?;
/// assert_eq!(json, r#"{"gauge":"cost","op":">=","value":"$2.00"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConditionJson {
    /// A gauge compared with an amount.
    Compare {
        /// The gauge as written.
        gauge: String,
        /// The operator.
        op: String,
        /// The amount as written.
        value: String,
    },
    /// A fact as written.
    Fact {
        /// The fact.
        fact: String,
    },
    /// A named condition as written.
    Named {
        /// The condition.
        named: String,
    },
    /// The negation.
    Not {
        /// The part.
        not: Box<ConditionJson>,
    },
    /// All of.
    And {
        /// The parts.
        and: Vec<ConditionJson>,
    },
    /// Any of.
    Or {
        /// The parts.
        or: Vec<ConditionJson>,
    },
    /// Has held.
    Ever {
        /// The part.
        ever: Box<ConditionJson>,
    },
    /// Steps in a row.
    Streak {
        /// The part.
        streak: Box<ConditionJson>,
        /// The operator.
        op: String,
        /// The number of steps.
        n: u64,
    },
    /// Steps in all, or in a window.
    Count {
        /// The part.
        count: Box<ConditionJson>,
        /// The window as written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<String>,
        /// The operator.
        op: String,
        /// The number of steps.
        n: u64,
    },
    /// Held in a window.
    Within {
        /// The part.
        within: Box<ConditionJson>,
        /// The window as written.
        window: String,
    },
    /// One after the other.
    Then {
        /// The condition that is met first.
        first: Box<ConditionJson>,
        /// The condition that is met now.
        then: Box<ConditionJson>,
    },
}

impl From<&Condition> for ConditionJson {
    /// Recursion is bounded by the depth that a policy may have.
    fn from(condition: &Condition) -> Self {
        let boxed = |part: &Condition| Box::new(Self::from(part));
        match condition {
            Condition::Compare(comparison) => {
                let amount = Amount { unit: comparison.gauge.row().unit, value: comparison.value };
                Self::Compare {
                    gauge: comparison.gauge.to_string(),
                    op: comparison.op.to_string(),
                    value: amount.to_string(),
                }
            }
            Condition::Fact(fact) => Self::Fact { fact: fact.to_string() },
            Condition::Named(_) => Self::Named { named: condition.to_string() },
            Condition::Not(inner) => Self::Not { not: boxed(inner) },
            Condition::And(parts) => Self::And { and: parts.iter().map(Self::from).collect() },
            Condition::Or(parts) => Self::Or { or: parts.iter().map(Self::from).collect() },
            Condition::Temporal(temporal) => match temporal {
                Temporal::Ever(of) => Self::Ever { ever: boxed(of) },
                Temporal::Streak { of, op, n } => {
                    Self::Streak { streak: boxed(of), op: op.to_string(), n: *n }
                }
                Temporal::Count { of, window, op, n } => Self::Count {
                    count: boxed(of),
                    window: window.map(|window| window.to_string()),
                    op: op.to_string(),
                    n: *n,
                },
                Temporal::Within { of, window } => {
                    Self::Within { within: boxed(of), window: window.to_string() }
                }
                Temporal::Then { first, next } => {
                    Self::Then { first: boxed(first), then: boxed(next) }
                }
            },
        }
    }
}

impl ConditionJson {
    /// The expression that means the same: the one grammar reads and checks both forms.
    fn text(&self) -> String {
        let joined = |parts: &[Self], word: &str| {
            let texts: Vec<String> =
                parts.iter().map(|part| format!("({})", part.text())).collect();
            texts.join(word)
        };
        match self {
            Self::Compare { gauge, op, value } => format!("{gauge} {op} {value}"),
            Self::Fact { fact: text } | Self::Named { named: text } => text.clone(),
            Self::Not { not } => format!("not ({})", not.text()),
            Self::And { and } => joined(and, " and "),
            Self::Or { or } => joined(or, " or "),
            Self::Ever { ever } => format!("ever({})", ever.text()),
            Self::Streak { streak, op, n } => format!("streak({}) {op} {n}", streak.text()),
            Self::Count { count, window: None, op, n } => {
                format!("count({}) {op} {n}", count.text())
            }
            Self::Count { count, window: Some(window), op, n } => {
                format!("count({}, {window}) {op} {n}", count.text())
            }
            Self::Within { within, window } => format!("({}) within {window}", within.text()),
            Self::Then { first, then } => format!("({}) then ({})", first.text(), then.text()),
        }
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ConditionJson::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Condition {
    /// Reads the tree, or an expression in a string.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Tree(ConditionJson),
        }
        let text = match Either::deserialize(deserializer)? {
            Either::Text(text) => text,
            Either::Tree(tree) => tree.text(),
        };
        parse(&text).map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
    }
}

#[cfg(test)]
mod tests;
