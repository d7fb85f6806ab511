//! What a model call costs: at most before it is made, and exactly once its usage is known.

use std::sync::Arc;

use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};

use crate::model::Model;
use crate::price::{CallContext, ModelPrice, PriceTable, UsageCounts};

/// Prices calls of one model.
#[derive(Clone, Debug)]
pub struct Pricing {
    provider: Arc<str>,
    model: Arc<str>,
    /// Looking up a name is slow; it is done once.
    price: Option<ModelPrice<'static>>,
    /// What a request asks for that may make it dearer.
    asked: CallContext,
    may_write_1h: bool,
}

impl Pricing {
    pub(super) fn of(model: &dyn Model, table: &'static PriceTable) -> Self {
        Self::new(model.provider(), model.name(), table)
    }

    /// For the calls of a model; `provider` may be empty. Looks the model up, which is slow where no table has
    /// it: keep what this gives.
    #[must_use]
    pub fn new(provider: &str, model: &str, table: &'static PriceTable) -> Self {
        let named = Some(provider).filter(|name| !name.is_empty());
        let price = table.find_or_vendor(named, model);
        Self {
            provider: provider.into(),
            model: model.into(),
            price,
            asked: CallContext::default(),
            may_write_1h: false,
        }
    }

    /// For a request that asks for a tier or speed, or may write to a cache for an hour: what is not known
    /// exactly costs what the dearer of both costs, with and without.
    #[must_use]
    pub fn for_request(self, asked: &CallContext, may_write_1h: bool) -> Self {
        Self { asked: asked.clone(), may_write_1h, ..self }
    }

    /// The model as it was named.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The provider; empty where none was named.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Whether the table has the model.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.price.is_some()
    }

    /// The exact cost of one call, of all that a provider counted.
    #[must_use]
    pub fn exact(&self, usage: &UsageCounts, at: WallTime, context: &CallContext) -> Cost {
        let total = self.price.as_ref().and_then(|price| price.total(usage, at, context).ok());
        total.map_or(Cost::Unpriced, Cost::Known)
    }

    /// The cost of one call; the tier that was asked for counts where it is dearer.
    #[must_use]
    pub fn cost(&self, usage: &TokenUsage, at: WallTime) -> Cost {
        let Ok(counts) = UsageCounts::from_token_usage(usage) else { return Cost::Unpriced };
        let plain = CallContext::default();
        let cost = self.exact(&counts, at, &plain);
        if self.asked == plain {
            return cost;
        }
        dearer(cost, self.exact(&counts, at, &self.asked))
    }

    /// The most that a call with so many tokens can cost: all input uncached, or all of it written to a
    /// cache where that costs more.
    pub(super) fn worst(&self, input: u64, output: u64, at: WallTime) -> Cost {
        let plain = self.cost(&TokenUsage { input, output, ..TokenUsage::default() }, at);
        let written =
            self.cost(&TokenUsage { cache_write: input, output, ..TokenUsage::default() }, at);
        let worst = dearer(plain, written);
        if !self.may_write_1h {
            return worst;
        }
        let usage = TokenUsage { cache_write_1h: input, output, ..TokenUsage::default() };
        dearer(worst, self.cost(&usage, at))
    }
}

/// The greater cost; the first where the other is not known.
fn dearer(one: Cost, other: Cost) -> Cost {
    match (one, other) {
        (Cost::Known(one), Cost::Known(other)) => Cost::Known(one.max(other)),
        (one, _) => one,
    }
}

/// What the ledger holds or settles for a cost: a price that is not known counts as the policy says.
pub(super) fn amount(cost: Option<Cost>, usage: &TokenUsage, unpriced: OnUnpriced) -> Money {
    match (cost, unpriced) {
        (Some(Cost::Known(money)), _) => money,
        (Some(Cost::Unpriced), OnUnpriced::Rates(rates)) => {
            rates.cost(usage).unwrap_or(Money::from_picos(u64::MAX))
        }
        _ => Money::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_of_a_request_has_what_it_asks_for() {
        let table = PriceTable::embedded();
        // Tiers have prices since 2026-10-12.
        let at = WallTime(1_795_000_000_000);
        let claude = Pricing::new("anthropic", "claude-sonnet-4-5", table);
        let worst = |pricing: &Pricing| match pricing.worst(100_000, 0, at) {
            Cost::Known(money) => money.picos(),
            Cost::Unpriced => panic!("a model with a price"),
        };
        let hourly = claude.clone().for_request(&CallContext::default(), true);
        assert_eq!(worst(&hourly), worst(&claude) / 5 * 8, "2 times the input, not 1.25 times");
        let tier = |tier: &str| {
            let asked =
                CallContext { service_tier: Some(tier.to_owned()), ..CallContext::default() };
            worst(&Pricing::new("openai", "gpt-5", table).for_request(&asked, false))
        };
        assert!(tier("priority") > tier("default"));
        assert_eq!(tier("flex"), tier("default"), "it may be served at the usual price");
    }
}
