//! The counts, in all and of the run itself.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::counter::{COUNTERS, Counter};
use crate::policy::OnUnpriced;
use crate::table::{Table, ToolIx};
use crate::units::{Cost, Money, TokenUsage};

/// One set of counters. Saved by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counters([u64; COUNTERS]);

#[expect(clippy::indexing_slicing, reason = "one row for each counter")]
impl Counters {
    #[inline]
    const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Adds; a counter that would overflow stays at its largest value. Whether it fitted.
    const fn add(&mut self, counter: Counter, amount: u64) -> bool {
        let slot = &mut self.0[counter as usize];
        match slot.checked_add(amount) {
            Some(sum) => {
                *slot = sum;
                true
            }
            None => {
                *slot = u64::MAX;
                false
            }
        }
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Counter::ALL.iter().map(|counter| counter.name()).zip(self.0))
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut counters = Self::default();
        for (counter, number) in Counter::ALL.into_iter().zip(&mut counters.0) {
            let name = counter.name();
            *number = *named.get(name).ok_or_else(|| D::Error::missing_field(name))?;
        }
        Ok(counters)
    }
}

/// The counts, and the known gaps in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    counts: Counters,
    /// A response did not report its tokens.
    tokens_unknown: bool,
    /// A call had no price.
    unpriced: bool,
}

impl Tally {
    #[inline]
    pub(crate) const fn get(&self, counter: Counter) -> u64 {
        self.counts.get(counter)
    }

    pub(crate) const fn lacks_tokens(&self) -> bool {
        self.tokens_unknown
    }

    pub(crate) const fn lacks_prices(&self) -> bool {
        self.unpriced
    }

    fn settle(&mut self, usage: Option<TokenUsage>, charge: Charge) -> bool {
        let mut fits = true;
        if let Some(usage) = usage {
            fits &= usage.total() != u64::MAX;
            fits &= self.counts.add(Counter::Tokens, usage.total());
            fits &= self.counts.add(Counter::InputTokens, usage.total_input());
            fits &= self.counts.add(Counter::OutputTokens, usage.output);
            fits &= self.counts.add(Counter::CachedTokens, usage.cache_read);
        }
        match charge {
            Charge::Nothing => fits,
            Charge::Known(money) => self.counts.add(Counter::Cost, money.picos()) && fits,
            Charge::Unpriced => {
                self.unpriced = true;
                fits
            }
        }
    }
}

/// The cost of a call, under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// It was free.
    Nothing,
    Known(Money),
    Unpriced,
}

impl Charge {
    /// The charge of a call that its provider prices like this.
    pub(crate) fn of(
        cost: Option<Cost>,
        usage: Option<TokenUsage>,
        on_unpriced: OnUnpriced,
    ) -> Self {
        match (cost, on_unpriced) {
            (None, _) => Self::Nothing,
            (Some(Cost::Known(money)), _) => Self::Known(money),
            (Some(Cost::Unpriced), OnUnpriced::Rates(rates)) => {
                let money = usage.and_then(|usage| rates.cost(&usage));
                money.map_or(Self::Unpriced, Self::Known)
            }
            (Some(Cost::Unpriced), _) => Self::Unpriced,
        }
    }
}

/// The tally of the run with its descendants, and of the run alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tallies {
    total: Tally,
    own: Tally,
    /// An amount did not fit 64 bits: the counters can no longer be trusted.
    overflowed: bool,
}

impl Tallies {
    #[inline]
    pub(crate) const fn of(&self, own: bool) -> &Tally {
        if own { &self.own } else { &self.total }
    }

    #[inline]
    pub(crate) const fn total(&self, counter: Counter) -> u64 {
        self.total.get(counter)
    }

    pub(crate) const fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    pub(crate) const fn count(&mut self, own: bool, counter: Counter) {
        let fits = self.total.counts.add(counter, 1);
        let share_fits = !own || self.own.counts.add(counter, 1);
        self.overflowed |= !(fits && share_fits);
    }

    /// Settles what a call spent. Never refuses, never forgets.
    pub(crate) fn settle(&mut self, own: bool, usage: Option<TokenUsage>, charge: Charge) {
        let fits = self.total.settle(usage, charge);
        let share_fits = !own || self.own.settle(usage, charge);
        self.overflowed |= !(fits && share_fits);
    }

    /// Settles what a tool cost.
    pub(crate) fn spend(&mut self, own: bool, money: Money) {
        self.settle(own, None, Charge::Known(money));
    }

    /// A response came without its tokens: unknown, not zero.
    pub(crate) const fn miss_tokens(&mut self, own: bool) {
        self.total.tokens_unknown = true;
        self.own.tokens_unknown |= own;
    }

    /// The counts of the descendants.
    pub(crate) const fn of_descendants(&self, counter: Counter) -> u64 {
        self.total.get(counter).saturating_sub(self.own.get(counter))
    }
}

/// Calls of one tool that the policy names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolTally {
    total: u64,
    own: u64,
    /// Lower bounds: a run that had begun was restored under a policy that names the tool for the first time.
    is_partial: bool,
}

impl ToolTally {
    /// For a tool without a count in a run that may have `begun`.
    pub(crate) fn uncounted(begun: bool) -> Self {
        Self { is_partial: begun, ..Self::default() }
    }

    pub(crate) const fn calls(&self, own: bool) -> u64 {
        if own { self.own } else { self.total }
    }

    pub(crate) const fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(crate) const fn count(&mut self, own: bool) {
        self.total = self.total.saturating_add(1);
        self.own = self.own.saturating_add(own as u64);
    }
}

/// The tally of each tool that the policy names.
pub(crate) type ToolTallies = Table<ToolIx, ToolTally>;
