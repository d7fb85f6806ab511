//! The rates of a model: by size of the call, by time, by kind of request.

use endstop_core::units::WallTime;

use super::CallContext;
use super::unit::Unit;

/// Milliseconds in a day.
pub(crate) const DAY_MILLIS: u64 = 86_400_000;

/// The price of one unit, in 10⁻¹⁸ USD per [`Unit::per`] counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) base: u128,
    /// In ascending order of `above`.
    pub(crate) tiers: Vec<Tier>,
}

/// A price for large calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    /// Total input tokens that the call must exceed.
    pub(crate) above: u64,
    pub(crate) attos: u128,
}

impl Rate {
    /// The price for a call with this total of input tokens. The whole call is at one tier, and a tier
    /// begins strictly above its start.
    pub(crate) fn at(&self, total_input: u64) -> u128 {
        let tier = self.tiers.iter().rev().find(|tier| total_input > tier.above);
        tier.map_or(self.base, |tier| tier.attos)
    }
}

/// Rates by unit, in order of the unit, each unit once.
pub(crate) type RateSet = Vec<(Unit, Rate)>;

/// When a rate set is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    Always,
    /// From this moment on: the start of a UTC day, inclusive.
    Since(WallTime),
    /// Every day between these milliseconds of the UTC day, the end exclusive; over midnight where the
    /// end is before the start.
    Daily {
        from: u64,
        until: u64,
    },
}

impl Period {
    fn is_active(self, at: WallTime) -> bool {
        match self {
            Self::Always => true,
            Self::Since(start) => at >= start,
            Self::Daily { from, until } => {
                let now = at.0 % DAY_MILLIS;
                if until < from { now >= from || now < until } else { from <= now && now < until }
            }
        }
    }
}

/// Rates that replace some of the standard ones for some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// All of these have to be so, compared exactly.
    pub(crate) when: Vec<(String, String)>,
    pub(crate) period: Period,
    pub(crate) rates: RateSet,
}

/// All rates of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The last active one applies; if none is active, the first.
    pub(crate) standard: Vec<(Period, RateSet)>,
    pub(crate) variants: Vec<Variant>,
}

impl Schedule {
    /// The rates in force, in order of the unit.
    pub(crate) fn in_force(&self, at: WallTime, context: &CallContext) -> Vec<(Unit, &Rate)> {
        let active = self.standard.iter().rev().find(|(period, _)| period.is_active(at));
        let standard = active.or_else(|| self.standard.first());
        let rates = standard.map_or(&[][..], |(_, rates)| rates.as_slice());
        let mut rates: Vec<(Unit, &Rate)> =
            rates.iter().map(|(unit, rate)| (*unit, rate)).collect();
        if context.is_empty() {
            return rates;
        }
        let applies = |variant: &&Variant| {
            let holds = |(key, value): &(String, String)| context.get(key) == Some(value);
            variant.period.is_active(at) && variant.when.iter().all(holds)
        };
        // The first variant that names a unit wins, so later ones are laid down before it.
        for variant in self.variants.iter().filter(applies).rev() {
            lay_over(&mut rates, &variant.rates);
        }
        rates
    }
}

/// Replaces the rates that `over` names and adds those that were absent.
pub(crate) fn lay_over<'a>(rates: &mut Vec<(Unit, &'a Rate)>, over: &'a RateSet) {
    for (unit, rate) in over {
        match rates.binary_search_by_key(unit, |(unit, _)| *unit) {
            Ok(place) => {
                if let Some(slot) = rates.get_mut(place) {
                    slot.1 = rate;
                }
            }
            Err(place) => rates.insert(place, (*unit, rate)),
        }
    }
}
