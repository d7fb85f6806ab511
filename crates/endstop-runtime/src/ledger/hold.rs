//! The guard of a reservation.

use std::time::Duration;

use super::Budget;
use super::amounts::Amounts;

/// The end of a hold that is dropped without having been settled or released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// It is settled in full: what may have been spent is spent.
    #[default]
    Charge,
    /// It is given back: for what certainly was not begun.
    Release,
}

/// A reservation at a node and all its ancestors. It ends once: by [`settle`](Self::settle), by
/// [`release`](Self::release), or by being dropped. The types say so:
///
/// ```compile_fail,E0382
/// use endstop_runtime::ledger::{Amounts, Budget, Limits};
///
/// let hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
/// hold.settle(Amounts::ZERO);
/// hold.settle(Amounts::ZERO); // a hold is consumed by its end
/// ```
///
/// ```compile_fail,E0382
/// # use endstop_runtime::ledger::{Amounts, Budget, Limits};
/// let hold = Budget::root(Limits::unlimited()).reserve(Amounts::ZERO).unwrap();
/// hold.settle(Amounts::ZERO);
/// hold.release(); // what was settled cannot be given back
/// ```
///
/// ```compile_fail,E0277
/// # use endstop_runtime::ledger::Hold;
/// fn copied<T: Clone>(of: &T) -> T {
///     of.clone()
/// }
/// let copy = |hold: &Hold| copied(hold); // nor copied, to be ended twice
/// ```
#[derive(Debug)]
#[must_use = "a hold that is dropped is charged in full"]
pub struct Hold {
    budget: Budget,
    amounts: Amounts,
    on_drop: OnDrop,
    lease: Option<Duration>,
    open: bool,
}

impl Hold {
    pub(super) const fn new(budget: Budget, amounts: Amounts) -> Self {
        Self { budget, amounts, on_drop: OnDrop::Charge, lease: None, open: true }
    }

    /// Returns the amounts reserved.
    #[must_use]
    pub const fn amounts(&self) -> Amounts {
        self.amounts
    }

    /// Returns the node at which it is reserved.
    #[must_use]
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Ends the hold with what was really spent, which may be more than was held: it is settled in full.
    pub fn settle(mut self, actual: Amounts) {
        self.open = false;
        self.budget.settle(&self.amounts, &actual);
    }

    /// Ends the hold with nothing spent.
    pub fn release(mut self) {
        self.open = false;
        self.budget.give_back(&self.amounts);
    }

    /// Sets the end of the hold if it is dropped.
    pub const fn on_drop(mut self, what: OnDrop) -> Self {
        self.on_drop = what;
        self
    }

    /// Sets the time by which the hold should have ended, as an offset on the clock of the run. The guard does not
    /// watch it: a caller with a clock checks [`is_late`](Self::is_late), and copies it into a
    /// [`LeaseTable`](super::LeaseTable) before the process may end.
    pub const fn with_lease(mut self, until: Duration) -> Self {
        self.lease = Some(until);
        self
    }

    /// Returns the time until which the hold should have ended.
    #[must_use]
    pub const fn lease(&self) -> Option<Duration> {
        self.lease
    }

    /// Returns whether its lease has passed.
    #[must_use]
    pub fn is_late(&self, now: Duration) -> bool {
        self.lease.is_some_and(|until| until <= now)
    }

    /// Releases the part of the hold above `to`, in each dimension; never holds more than before.
    pub fn shrink(&mut self, to: Amounts) {
        let kept = self.amounts.min(&to);
        self.budget.give_back(&self.amounts.saturating_sub(&kept));
        self.amounts = kept;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        match self.on_drop {
            OnDrop::Charge => self.budget.settle(&self.amounts, &self.amounts),
            OnDrop::Release => self.budget.give_back(&self.amounts),
        }
    }
}
