//! The ledger: a tree of budgets that cannot be overshot.
//!
//! Spending is reserved in advance ([`Budget::reserve`]) and settled afterwards ([`Hold::settle`]), in five
//! dimensions at the same time: steps, attempts, tool calls, tokens and money.
//!
//! 1. *Committed* is settled + held. At every node and in every dimension no reservation takes committed
//!    past the limit, under any interleaving of threads.
//! 2. A reservation holds at the node and at all its ancestors, in all dimensions, or nowhere. A child can
//!    only narrow.
//! 3. Only `reserve` refuses. Settling and charging never refuse and never forget: an actual amount above
//!    its hold is settled in full, shows as overshoot, and a node whose committed is above a limit admits
//!    nothing more, not even calls that ask nothing of that dimension.
//! 4. So settled passes a limit by no more than the sum over calls of what each spent above its hold; by
//!    nothing, while each hold is a true upper bound.
//! 5. A hold ends exactly once: settled, released, or dropped. A dropped one is charged in full unless it
//!    was told otherwise ([`OnDrop`]).
//! 6. The order of settlements changes no total. Amounts are integers. One that cannot be kept exactly is
//!    kept as `u64::MAX`, and from then on the whole tree refuses ([`Budget::is_overflowed`]).
//! 7. A limit of 0 admits nothing; no limit is `None`, written out. Limits and committed amounts beyond `i64::MAX`
//!    (pico-dollars: $9.2 M) are indistinguishable: anything that would exceed it is refused.
//! 8. A budget without handles is freed; its ancestors keep what it settled. Only the earlier spend of a resumed run
//!    stays in its own node: a shared budget counts spend while it is shared.
//! 9. A reading ([`Budget::snapshot`]) is of one moment.
//!
//! One lock serves a tree, and is held for a walk from the node to the root; nothing is awaited under it and
//! no code of a caller runs under it. Time is passed in. A hold lives in its guard, so it ends with the task
//! that owns it; a guard that is leaked (`mem::forget`) stays held, which errs on the safe side. Holds
//! that have to outlive the process go into a [`LeaseTable`].
//!
//! ```
//! use endstop_core::units::Money;
//! use endstop_runtime::ledger::{Amounts, Budget, Limits};
//!
//! let dollar = Limits { cost: Some(Money::from_picos(1_000_000_000_000)), ..Limits::unlimited() };
//! let run = Budget::root(dollar);
//! let child = run.child(Limits::unlimited());
//! let cents = |n: u64| Amounts { cost: Money::from_picos(n * 10_000_000_000), ..Amounts::default() };
//!
//! let hold = child.reserve(cents(60)).unwrap();
//! assert!(run.reserve(cents(60)).is_err());
//! hold.settle(cents(35));
//! assert_eq!(run.settled(), cents(35));
//! ```
#![deny(clippy::arithmetic_side_effects)]

pub(crate) mod amounts;
mod hold;
mod lease;
mod refused;
mod tree;

use std::fmt;
use std::sync::Arc;

use endstop_core::units::Money;
use serde::{Deserialize, Serialize};

pub use crate::limits::MAX_LEASES;
pub use amounts::{Amounts, Dimension, Limits};
pub use hold::{Hold, OnDrop};
pub use lease::{Expired, LeaseError, LeaseTable};
pub use refused::Refused;

use tree::Node;

/// A handle of one node of a tree of budgets. Clones refer to the same node.
///
/// Several runs share a budget if each gets a child of it:
///
/// ```
/// use endstop_runtime::ledger::{Amounts, Budget, Limits};
///
/// let steps = |steps| Amounts { steps, ..Amounts::ZERO };
/// let shared = Budget::root(Limits { steps: Some(10), ..Limits::unlimited() });
/// let (one, other) = (shared.child(Limits::unlimited()), shared.child(Limits::unlimited()));
/// one.reserve(steps(7))?.settle(steps(7));
/// assert!(other.reserve(steps(4)).is_err());
/// assert_eq!(other.room().steps, Some(3));
///
/// // A person approves more.
/// shared.set_limits(Limits { steps: Some(20), ..Limits::unlimited() });
/// assert!(other.reserve(steps(4)).is_ok());
/// # Ok::<(), endstop_runtime::ledger::Refused>(())
/// ```
#[derive(Clone)]
pub struct Budget(Arc<Node>);

/// One consistent reading of a node.
///
/// ```
/// use endstop_runtime::ledger::{Amounts, Budget, Limits};
///
/// let budget = Budget::root(Limits { tokens: Some(1_000), ..Limits::unlimited() });
/// let hold = budget.reserve(Amounts { tokens: 900, ..Amounts::ZERO })?;
/// assert_eq!(budget.snapshot().committed().tokens, 900);
/// hold.settle(Amounts { tokens: 1_100, ..Amounts::ZERO });
/// assert_eq!(budget.snapshot().overshoot().tokens, 100);
/// # Ok::<(), endstop_runtime::ledger::Refused>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSnapshot {
    /// The number of its node in the tree; the root is 0.
    pub budget: u32,
    /// Its own limits; those of its ancestors bind as well.
    pub limits: Limits,
    /// Amounts settled by this node and its descendants.
    pub settled: Amounts,
    /// Amounts reserved by this node and its descendants, and not yet settled.
    pub held: Amounts,
}

impl BudgetSnapshot {
    /// Returns the settled and held amounts together. Saturates.
    #[must_use]
    pub fn committed(&self) -> Amounts {
        self.settled.saturating_add(&self.held)
    }

    /// Returns the settled amounts beyond the limits.
    #[must_use]
    pub fn overshoot(&self) -> Amounts {
        self.limits.overshoot(&self.settled)
    }
}

impl Budget {
    /// Creates a new tree.
    #[must_use]
    pub fn root(limits: Limits) -> Self {
        Self(Arc::new(Node::root(limits)))
    }

    /// Returns a budget within this one. Its spend counts here as well, and all limits up to the root bind it in addition to
    /// its own.
    #[must_use]
    pub fn child(&self, limits: Limits) -> Self {
        Self(Arc::new(Node::child(self, limits)))
    }

    /// Reserves the worst case of what is about to happen, here and at all ancestors, or nowhere.
    ///
    /// # Errors
    /// Returns [`Refused`] by the outermost node that has too little room, or whose committed amounts are above a
    /// limit already.
    pub fn reserve(&self, amounts: Amounts) -> Result<Hold, Refused> {
        self.0.locked().reserve::<true>(self.0.slot(), &amounts.words())?;
        Ok(Hold::new(self.clone(), amounts))
    }

    /// Reserves like [`Budget::reserve`], but compares only the dimensions of which something is asked. A tool call draws on
    /// no tokens, so tokens that are overdrawn do not hold it back: it belongs to a response that was paid for.
    ///
    /// # Errors
    /// Returns the errors of [`Budget::reserve`].
    pub(crate) fn reserve_asked(&self, amounts: Amounts) -> Result<Hold, Refused> {
        self.0.locked().reserve::<false>(self.0.slot(), &amounts.words())?;
        Ok(Hold::new(self.clone(), amounts))
    }

    /// Whether so much could be reserved now; nothing is.
    ///
    /// # Errors
    /// Returns the errors of [`Budget::reserve`].
    pub(crate) fn check(&self, amounts: &Amounts) -> Result<(), Refused> {
        self.0.locked().check::<true>(self.0.slot(), &amounts.words())
    }

    /// Settles amounts that were not reserved: restored spend, free-standing costs. Never refuses.
    pub fn charge(&self, amounts: Amounts) {
        self.settle(&Amounts::ZERO, &amounts);
    }

    /// Settles, in this node only, spend from before the node existed. Every run that shares the ancestors has
    /// counted it already, or did not share it.
    pub(crate) fn bring_in(&self, before: Amounts) {
        self.0.locked().bring_in(self.0.slot(), &before.words());
    }

    /// Replaces the limits of this node: an approval raises them, a policy lowers them. Committed amounts stay, and
    /// may then exceed them.
    pub fn set_limits(&self, limits: Limits) {
        self.0.locked().set_limits(self.0.slot(), limits);
    }

    /// Returns the limits of this node.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.snapshot().limits
    }

    /// Amounts settled by this node and its descendants.
    #[must_use]
    pub fn settled(&self) -> Amounts {
        self.snapshot().settled
    }

    /// Amounts reserved by this node and its descendants, and not yet settled.
    #[must_use]
    pub fn held(&self) -> Amounts {
        self.snapshot().held
    }

    /// Whether tokens or money are limited here or above.
    pub(crate) fn limits_usage(&self) -> bool {
        self.0.locked().limits_usage(self.0.slot())
    }

    /// Whether any budget of the tree holds tokens or money.
    pub(crate) fn is_anything_held(&self) -> bool {
        let held = self.0.locked().held_at_root(self.0.slot());
        held.tokens > 0 || held.cost > Money::ZERO
    }

    /// Attempts that all who share the outermost budget hold, and have settled.
    pub(crate) fn attempts_at_root(&self) -> (u64, u64) {
        self.0.locked().attempts_at_root(self.0.slot())
    }

    /// Returns the settled and held amounts together.
    #[must_use]
    pub fn committed(&self) -> Amounts {
        self.snapshot().committed()
    }

    /// Returns the room left here, over this node and all its ancestors: 0 if one of them is at or above its limit,
    /// `None` if none of them has one.
    #[must_use]
    pub fn room(&self) -> Limits {
        self.0.locked().room(self.0.slot())
    }

    /// Returns the amounts settled beyond the limits of this node.
    #[must_use]
    pub fn overshoot(&self) -> Amounts {
        self.snapshot().overshoot()
    }

    /// Returns one consistent reading.
    #[must_use]
    pub fn snapshot(&self) -> BudgetSnapshot {
        self.0.locked().snapshot(self.0.slot(), self.id())
    }

    /// Returns whether an amount anywhere in the tree could not be kept exactly; everything is refused since.
    #[must_use]
    pub fn is_overflowed(&self) -> bool {
        self.0.locked().is_overflowed()
    }

    /// Returns the number of this node in its tree. The root is 0, and no number is given twice (up to `u32::MAX`, which
    /// later nodes share).
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the node above, or `None` at the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().cloned()
    }

    /// Returns whether all that is spent here is spent in `other` as well.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let mut next = Some(self);
        while let Some(budget) = next {
            if Arc::ptr_eq(&budget.0, &other.0) {
                return true;
            }
            next = budget.0.parent();
        }
        false
    }

    fn settle(&self, held: &Amounts, actual: &Amounts) {
        self.0.locked().settle(self.0.slot(), &held.words(), &actual.words());
    }

    fn give_back(&self, part: &Amounts) {
        self.0.locked().give_back(self.0.slot(), &part.words());
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BudgetSnapshot { budget, limits, settled, held } = self.snapshot();
        f.debug_struct("Budget")
            .field("id", &budget)
            .field("limits", &limits)
            .field("settled", &settled)
            .field("held", &held)
            .finish()
    }
}
