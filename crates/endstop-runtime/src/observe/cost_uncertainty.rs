//! Calls whose cost is not exactly known, and why.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use endstop_core::event::EventKind;
use endstop_core::human::{counted, money};
use endstop_core::units::{Cost, Money};
use serde::{Deserialize, Serialize};

use super::Detail;
use crate::model_error::{ModelError, ModelErrorKind};

/// Calls of a run whose cost is not exactly known, descendants' included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CostUncertainty {
    /// Without a price.
    pub unpriced: u64,
    /// Tokens that no provider reported.
    pub estimated: u64,
    /// Calls of models and tools with an amount that was not confirmed, by cause. Calls of models are among the
    /// estimated.
    pub causes: BTreeMap<UnconfirmedCause, u64>,
    /// The sum of these amounts, in pico-dollars.
    #[serde(with = "crate::ledger::amounts::picos")]
    pub unconfirmed: Money,
}

/// Why the provider or the tool did not confirm the cost of a call.
///
/// The text form is stable: it is the key in reports and the word in traces.
///
/// ```
/// use endstop_runtime::observe::UnconfirmedCause;
///
/// let cause: UnconfirmedCause = "504".parse()?;
/// assert_eq!(cause, UnconfirmedCause::Status(504));
/// assert_eq!(cause.of_calls(2), "2 calls answered 504");
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
#[non_exhaustive]
pub enum UnconfirmedCause {
    /// The response had this HTTP status, 100 to 599.
    Status(u16),
    /// No response arrived in time.
    TimedOut,
    /// The connection broke, or the stream ended early.
    Truncated,
    /// The client left before the response was complete.
    ClientLeft,
    /// The response could not be read.
    Malformed,
    /// The response reported no usage, or the run closed it before its report.
    NoUsage,
    /// A tool failed without reporting its cost.
    Tool,
}

impl UnconfirmedCause {
    /// Returns the cause for the charge of a failed attempt.
    #[must_use]
    pub fn of_error(error: &ModelError) -> Self {
        match (error.status, error.kind) {
            (Some(status @ 100..=599), _) => Self::Status(status),
            (_, ModelErrorKind::TimedOut) => Self::TimedOut,
            (_, ModelErrorKind::Truncated) => Self::Truncated,
            (_, ModelErrorKind::ClientLeft) => Self::ClientLeft,
            (_, ModelErrorKind::Malformed) => Self::Malformed,
            _ => Self::NoUsage,
        }
    }

    pub(super) fn of_detail(detail: &Detail<'_>) -> Self {
        match detail {
            Detail::Failure { error, .. } => Self::of_error(error),
            Detail::ToolCost { .. } => Self::Tool,
            _ => Self::NoUsage,
        }
    }

    /// Returns the reasons in words: `2 calls answered 504`.
    #[must_use]
    pub fn of_calls(self, number: u64) -> String {
        let calls = counted(number, "call");
        match self {
            Self::Status(status) => format!("{calls} answered {status}"),
            Self::TimedOut => format!("{calls} timed out"),
            Self::Truncated => format!("{calls} cut off"),
            Self::ClientLeft => format!("{calls} abandoned by the client"),
            Self::Malformed => format!("{calls} with an unreadable response"),
            Self::NoUsage => format!("{calls} without reported usage"),
            Self::Tool => {
                format!("{} without a reported cost", counted(number, "failed tool call"))
            }
        }
    }
}

impl fmt::Display for UnconfirmedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::TimedOut => f.write_str("timed_out"),
            Self::Truncated => f.write_str("truncated"),
            Self::ClientLeft => f.write_str("client_left"),
            Self::Malformed => f.write_str("malformed"),
            Self::NoUsage => f.write_str("no_usage"),
            Self::Tool => f.write_str("tool"),
        }
    }
}

impl FromStr for UnconfirmedCause {
    type Err = Infallible;

    /// Reads the text form. An unknown one, of a later version, is [`UnconfirmedCause::NoUsage`].
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "timed_out" => Self::TimedOut,
            "truncated" => Self::Truncated,
            "client_left" => Self::ClientLeft,
            "malformed" => Self::Malformed,
            "tool" => Self::Tool,
            _ => match text.parse() {
                Ok(status @ 100..=599) => Self::Status(status),
                _ => Self::NoUsage,
            },
        })
    }
}

impl From<UnconfirmedCause> for String {
    fn from(cause: UnconfirmedCause) -> Self {
        cause.to_string()
    }
}

impl From<String> for UnconfirmedCause {
    fn from(text: String) -> Self {
        let Ok(cause) = text.parse();
        cause
    }
}

/// An amount that was not confirmed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unconfirmed {
    pub(crate) amount: Money,
    pub(crate) cause: UnconfirmedCause,
}

impl Unconfirmed {
    /// The causes for an event with this detail; `None` if it is confirmed.
    pub(crate) fn of(detail: &Detail<'_>) -> Option<Self> {
        let (amount, cause) = (detail.unconfirmed(), UnconfirmedCause::of_detail(detail));
        (amount > Money::ZERO).then_some(Self { amount, cause })
    }
}

impl CostUncertainty {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.estimated = self.estimated.saturating_add(other.estimated);
        for (cause, calls) in &other.causes {
            self.count(*cause, *calls);
        }
        self.unconfirmed = self.unconfirmed.saturating_add(other.unconfirmed);
        self
    }

    fn count(&mut self, cause: UnconfirmedCause, calls: u64) {
        let known = self.causes.entry(cause).or_default();
        *known = known.saturating_add(calls);
    }

    /// Returns how many calls have an amount that was not confirmed.
    #[must_use]
    pub fn unconfirmed_calls(&self) -> u64 {
        self.causes.values().fold(0, |sum, calls| sum.saturating_add(*calls))
    }

    /// Returns `$1.60 unconfirmed: 2 calls answered 504`; `None` if all of it is confirmed.
    #[must_use]
    pub fn unconfirmed_text(&self) -> Option<String> {
        let causes: Vec<String> =
            self.causes.iter().map(|(cause, calls)| cause.of_calls(*calls)).collect();
        (!causes.is_empty())
            .then(|| format!("{} unconfirmed: {}", money(self.unconfirmed), causes.join(", ")))
    }

    /// Records an event; `is_estimate` and `unconfirmed` are those of its [`Detail`].
    pub(crate) fn take(
        &mut self,
        kind: &EventKind<'_>,
        is_estimate: bool,
        unconfirmed: Option<Unconfirmed>,
    ) {
        let is_unpriced = match kind {
            EventKind::Reply { cost, .. } => !matches!(cost, Some(Cost::Known(_))),
            EventKind::AttemptFailed { cost, .. } => *cost == Some(Cost::Unpriced),
            EventKind::ToolCost { .. } => false,
            _ => return,
        };
        self.unpriced = self.unpriced.saturating_add(u64::from(is_unpriced));
        self.estimated = self.estimated.saturating_add(u64::from(is_estimate));
        if let Some(Unconfirmed { amount, cause }) = unconfirmed {
            self.count(cause, 1);
            self.unconfirmed = self.unconfirmed.saturating_add(amount);
        }
    }
}
