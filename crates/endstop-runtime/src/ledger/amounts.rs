//! Amounts and limits in the five dimensions.

use std::fmt;

use endstop_core::human;
use endstop_core::signal::StopReason;
use endstop_core::units::Money;
use serde::{Deserialize, Serialize};

/// How many dimensions there are.
pub(super) const DIMENSIONS: usize = 5;

/// One number for each dimension, in the order of [`Dimension::ALL`]; money in pico-dollars.
pub(super) type Words = [u64; DIMENSIONS];

/// A dimension that a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Model calls begun.
    Steps,
    /// Model requests dispatched, retries included.
    Attempts,
    /// Tool calls dispatched.
    ToolCalls,
    /// Tokens of all classes.
    Tokens,
    /// Money, in pico-dollars.
    Cost,
}

impl Dimension {
    /// All of them, in the order in which a refusal names them.
    pub const ALL: [Self; DIMENSIONS] =
        [Self::Steps, Self::Attempts, Self::ToolCalls, Self::Tokens, Self::Cost];

    /// Returns the reason of a stop by a limit of it.
    #[must_use]
    pub const fn reason(self) -> StopReason {
        match self {
            Self::Steps => StopReason::StepsLimitReached,
            Self::Attempts => StopReason::RetryLimitReached,
            Self::ToolCalls => StopReason::ToolCallsLimitReached,
            Self::Tokens => StopReason::TokenLimitReached,
            Self::Cost => StopReason::CostLimitReached,
        }
    }

    /// Returns the name of the gauge that counts the same in a policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Attempts => "attempts",
            Self::ToolCalls => "tool_calls",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        }
    }

    /// The number as people read it: `$0.60` for money.
    pub(super) fn show(self, number: u64) -> String {
        match self {
            Self::Cost => human::money(Money::from_picos(number)),
            Self::Tokens => human::short(number),
            _ => human::count(number),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An amount of each dimension. In JSON money is an integer of pico-dollars, `cost_picos`.
///
/// ```
/// use endstop_runtime::ledger::Amounts;
///
/// let worst = Amounts { attempts: 1, tokens: 900, ..Amounts::ZERO };
/// let actual = Amounts { attempts: 1, tokens: 400, ..Amounts::ZERO };
/// assert_eq!(worst.checked_sub(&actual), Some(Amounts { tokens: 500, ..Amounts::ZERO }));
/// assert_eq!(actual.checked_sub(&worst), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Amounts {
    /// Model calls.
    pub steps: u64,
    /// Model requests.
    pub attempts: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Tokens.
    pub tokens: u64,
    /// Money.
    #[serde(rename = "cost_picos", with = "picos")]
    pub cost: Money,
}

impl Amounts {
    /// Nothing of anything.
    pub const ZERO: Self =
        Self { steps: 0, attempts: 0, tool_calls: 0, tokens: 0, cost: Money::ZERO };

    /// Returns the amount in one dimension; money in pico-dollars.
    #[must_use]
    pub const fn get(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Steps => self.steps,
            Dimension::Attempts => self.attempts,
            Dimension::ToolCalls => self.tool_calls,
            Dimension::Tokens => self.tokens,
            Dimension::Cost => self.cost.picos(),
        }
    }

    /// Returns whether it is nothing of anything.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Returns the sum in each dimension, or `None` if one overflows.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        self.try_with(other, u64::checked_add)
    }

    /// Returns the difference in each dimension, or `None` where `other` is larger in one.
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.try_with(other, u64::checked_sub)
    }

    /// Returns the sum in each dimension, or `u64::MAX` if it overflows.
    #[must_use]
    pub fn saturating_add(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Returns the difference in each dimension, or 0 where `other` is larger.
    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// Returns the smaller amount of each dimension.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        self.with(other, u64::min)
    }

    pub(super) const fn words(&self) -> Words {
        [self.steps, self.attempts, self.tool_calls, self.tokens, self.cost.picos()]
    }

    pub(super) const fn from_words(words: Words) -> Self {
        let [steps, attempts, tool_calls, tokens, picos] = words;
        Self { steps, attempts, tool_calls, tokens, cost: Money::from_picos(picos) }
    }

    fn with(&self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.words();
        for (word, other) in words.iter_mut().zip(other.words()) {
            *word = operation(*word, other);
        }
        Self::from_words(words)
    }

    fn try_with(&self, other: &Self, operation: impl Fn(u64, u64) -> Option<u64>) -> Option<Self> {
        let mut words = self.words();
        for (word, other) in words.iter_mut().zip(other.words()) {
            *word = operation(*word, other)?;
        }
        Some(Self::from_words(words))
    }
}

/// A limit for each dimension: `None` is unlimited, 0 admits nothing.
///
/// In JSON every key has to be there: unlimited is written out, as `null`.
///
/// See the example of [`Budget`](super::Budget).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model calls.
    #[serde(deserialize_with = "Option::deserialize")]
    pub steps: Option<u64>,
    /// Model requests.
    #[serde(deserialize_with = "Option::deserialize")]
    pub attempts: Option<u64>,
    /// Tool calls.
    #[serde(deserialize_with = "Option::deserialize")]
    pub tool_calls: Option<u64>,
    /// Tokens.
    #[serde(deserialize_with = "Option::deserialize")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(rename = "cost_picos", with = "optional_picos")]
    pub cost: Option<Money>,
}

impl Limits {
    /// Returns limits without a limit in any dimension.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { steps: None, attempts: None, tool_calls: None, tokens: None, cost: None }
    }

    /// Returns the limit of one dimension; money in pico-dollars.
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Steps => self.steps,
            Dimension::Attempts => self.attempts,
            Dimension::ToolCalls => self.tool_calls,
            Dimension::Tokens => self.tokens,
            Dimension::Cost => self.cost.map(Money::picos),
        }
    }

    pub(super) fn words(&self) -> [Option<u64>; DIMENSIONS] {
        Dimension::ALL.map(|dimension| self.get(dimension))
    }

    pub(super) fn from_words(words: [Option<u64>; DIMENSIONS]) -> Self {
        let [steps, attempts, tool_calls, tokens, picos] = words;
        Self { steps, attempts, tool_calls, tokens, cost: picos.map(Money::from_picos) }
    }

    /// The part of `amounts` beyond the limits.
    pub(super) fn overshoot(&self, amounts: &Amounts) -> Amounts {
        let capped = self.words().map(|limit| limit.unwrap_or(u64::MAX));
        amounts.saturating_sub(&Amounts::from_words(capped))
    }
}

/// Money as an integer of pico-dollars.
pub(crate) mod picos {
    use endstop_core::units::Money;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(money: &Money, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(money.picos())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Money, D::Error> {
        u64::deserialize(from).map(Money::from_picos)
    }
}

mod optional_picos {
    use endstop_core::units::Money;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(
        money: &Option<Money>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        money.map(Money::picos).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Money>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Money::from_picos))
    }
}
