//! Conditions: values that can be printed, read, compared and saved. They hold no state; the meter does.
//!
//! Three notations give equal values: Rust (`max_steps(25) | max_usd("2.00")?`), the expression language
//! ([`crate::expr`]) and the policy file ([`crate::policy`]).

pub mod contract;
pub mod fact;
pub mod gauge;
pub(crate) mod literal;
pub mod named;
pub mod temporal;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::ops::{BitAnd, BitOr, Not};

pub use fact::Fact;
pub use gauge::{Gauge, GaugeId};
pub use named::Named;
pub use temporal::{Temporal, Window};

/// A condition on a run.
///
/// Equality and hashing look through [`Named`] conditions: `max_steps(25) == (steps >= 25)`.
///
/// ```
/// use endstop_core::condition::named::{max_steps, max_usd};
/// use endstop_core::expr::parse;
///
/// let built = max_steps(25) | max_usd("2.00")?;
/// assert_eq!(built, parse("steps >= 25 or cost >= $2.00")?);
/// assert_eq!(built.to_string(), "max_steps(25) or max_usd($2.00)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum Condition {
    /// A gauge compared with an amount.
    Compare(Comparison),
    /// A fact about the step, or about the outside.
    Fact(Fact),
    /// The negation.
    Not(Box<Condition>),
    /// All hold now.
    And(Vec<Condition>),
    /// At least one holds now.
    Or(Vec<Condition>),
    /// An operator over time.
    Temporal(Temporal),
    /// A named condition: printed as written, equal to its expansion.
    Named(Named),
}

/// A gauge compared with an amount in the gauge's unit.
///
/// ```
/// use endstop_core::condition::{CompareOp, Comparison, Condition, Gauge, GaugeId};
/// use endstop_core::expr::parse;
///
/// let gauge = Gauge { own: true, ..Gauge::of(GaugeId::Steps) };
/// let comparison = Comparison { gauge, op: CompareOp::Ge, value: 25 };
/// assert_eq!(Condition::from(comparison), parse("own.steps >= 25")?);
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Comparison {
    /// The gauge that it compares.
    pub gauge: Gauge,
    /// The comparison operator.
    pub op: CompareOp,
    /// The amount: a count, pico-dollars, milliseconds, or epoch milliseconds for `now`.
    pub value: u64,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `>=`
    Ge,
    /// `>`
    Gt,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `==`
    Eq,
    /// `!=`
    Ne,
}

impl CompareOp {
    /// Every operator with its spelling.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::Ge, Self::Ge.symbol()),
        (Self::Gt, Self::Gt.symbol()),
        (Self::Lt, Self::Lt.symbol()),
        (Self::Le, Self::Le.symbol()),
        (Self::Eq, Self::Eq.symbol()),
        (Self::Ne, Self::Ne.symbol()),
    ];

    /// Returns the operator as written.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Ge => ">=",
            Self::Gt => ">",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Eq => "==",
            Self::Ne => "!=",
        }
    }

    /// Returns the operator that is true if this one is not.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::Ge => Self::Lt,
            Self::Gt => Self::Le,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
        }
    }

    /// Returns whether `left op right`.
    #[must_use]
    pub const fn is_met(self, left: u64, right: u64) -> bool {
        match self {
            Self::Ge => left >= right,
            Self::Gt => left > right,
            Self::Lt => left < right,
            Self::Le => left <= right,
            Self::Eq => left == right,
            Self::Ne => left != right,
        }
    }
}

impl Condition {
    /// Returns the condition with the name taken off, at the top only.
    #[must_use]
    pub fn expanded(&self) -> &Self {
        let mut condition = self;
        while let Self::Named(named) = condition {
            condition = named.expansion();
        }
        condition
    }

    /// Returns the direct parts, in order; a named condition's part is its expansion.
    #[must_use]
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Compare(_) | Self::Fact(_) => Vec::new(),
            Self::Not(inner) => vec![inner],
            Self::And(parts) | Self::Or(parts) => parts.iter().collect(),
            Self::Temporal(temporal) => temporal.parts(),
            Self::Named(named) => vec![named.expansion()],
        }
    }

    /// Returns the nesting depth, counting this node as 1. Names cost nothing.
    #[must_use]
    pub fn depth(&self) -> usize {
        let below = self.parts().into_iter().map(Self::depth).max().unwrap_or(0);
        if matches!(self, Self::Named(_)) { below } else { below + 1 }
    }

    /// Returns the number of nodes. Names cost nothing.
    #[must_use]
    pub fn node_count(&self) -> usize {
        let below: usize = self.parts().into_iter().map(Self::node_count).sum();
        if matches!(self, Self::Named(_)) { below } else { below + 1 }
    }

    /// Returns `ever(self)`: the condition was met at some time since the run began.
    #[must_use]
    pub fn ever(self) -> Self {
        Self::Temporal(Temporal::Ever(Box::new(self)))
    }

    /// Returns `self then next`: `next` is met now, and `self` was met in an earlier step.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self::Temporal(Temporal::Then { first: Box::new(self), next: Box::new(next) })
    }

    /// Returns `self within window`: the condition was met at least once in the window.
    #[must_use]
    pub fn within(self, window: Window) -> Self {
        Self::Temporal(Temporal::Within { of: Box::new(self), window })
    }

    /// Returns `streak(self) >= n`: the condition was met in each of the last `n` steps.
    #[must_use]
    pub fn streak_at_least(self, n: u64) -> Self {
        Self::Temporal(Temporal::Streak { of: Box::new(self), op: CompareOp::Ge, n })
    }

    /// Returns `count(self) >= n`, over the run or over `window`.
    #[must_use]
    pub fn count_at_least(self, n: u64, window: Option<Window>) -> Self {
        Self::Temporal(Temporal::Count { of: Box::new(self), window, op: CompareOp::Ge, n })
    }
}

impl From<Comparison> for Condition {
    fn from(comparison: Comparison) -> Self {
        Self::Compare(comparison)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        match (self.expanded(), other.expanded()) {
            (Self::Compare(a), Self::Compare(b)) => a == b,
            (Self::Fact(a), Self::Fact(b)) => a == b,
            (Self::Not(a), Self::Not(b)) => a == b,
            (Self::And(a), Self::And(b)) | (Self::Or(a), Self::Or(b)) => a == b,
            (Self::Temporal(a), Self::Temporal(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Condition {}

impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let expanded = self.expanded();
        core::mem::discriminant(expanded).hash(state);
        match expanded {
            Self::Compare(comparison) => comparison.hash(state),
            Self::Fact(fact) => fact.hash(state),
            Self::Not(inner) => inner.hash(state),
            Self::And(parts) | Self::Or(parts) => parts.hash(state),
            Self::Temporal(temporal) => temporal.hash(state),
            Self::Named(_) => {}
        }
    }
}

impl BitOr for Condition {
    type Output = Self;

    /// Either holds. Nested alternatives are flattened, as when read.
    fn bitor(self, other: Self) -> Self {
        Self::Or(flattened(self, other, |c| match c {
            Self::Or(parts) => Ok(parts),
            other => Err(other),
        }))
    }
}

impl BitAnd for Condition {
    type Output = Self;

    /// Both hold now. Nested conjunctions are flattened, as when read.
    fn bitand(self, other: Self) -> Self {
        Self::And(flattened(self, other, |c| match c {
            Self::And(parts) => Ok(parts),
            other => Err(other),
        }))
    }
}

fn flattened(
    left: Condition,
    right: Condition,
    split: impl Fn(Condition) -> Result<Vec<Condition>, Condition>,
) -> Vec<Condition> {
    let mut parts = Vec::new();
    for side in [left, right] {
        match split(side) {
            Ok(inner) => parts.extend(inner),
            Err(single) => parts.push(single),
        }
    }
    parts
}

impl Not for Condition {
    type Output = Self;

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

/// Builds the conjunction (`all`) or alternative of `parts` as the reader does: nested ones of the same
/// kind are flattened, a single one stays itself.
pub(crate) fn combine(parts: Vec<Condition>, all: bool) -> Condition {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match (part, all) {
            (Condition::And(inner), true) | (Condition::Or(inner), false) => flat.extend(inner),
            (other, _) => flat.push(other),
        }
    }
    match (flat.len(), all) {
        (1, _) => flat.swap_remove(0),
        (_, true) => Condition::And(flat),
        (_, false) => Condition::Or(flat),
    }
}
