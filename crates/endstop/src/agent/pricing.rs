//! What a model call costs: at most before it is made, and exactly once its usage is known.

use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};

use crate::model::Model;
use crate::price::{CallContext, ModelPrice, PriceTable, UsageCounts};

/// Prices calls of one model.
#[derive(Clone, Debug)]
pub struct Pricing {
    provider: String,
    model: String,
    /// Looking up a name is slow; it is done once.
    price: Option<ModelPrice<'static>>,
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
        Self { provider: provider.to_owned(), model: model.to_owned(), price }
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
        let priced = self.price.as_ref().and_then(|price| price.price(usage, at, context).ok());
        priced.map_or(Cost::Unpriced, |priced| Cost::Known(priced.total))
    }

    /// The cost of one call.
    #[must_use]
    pub fn cost(&self, usage: &TokenUsage, at: WallTime) -> Cost {
        UsageCounts::from_token_usage(usage)
            .map_or(Cost::Unpriced, |counts| self.exact(&counts, at, &CallContext::default()))
    }

    /// The most that a call with so many tokens can cost: all input uncached, or all of it written to a
    /// cache where that costs more.
    pub(super) fn worst(&self, input: u64, output: u64, at: WallTime) -> Cost {
        let plain = self.cost(&TokenUsage { input, output, ..TokenUsage::default() }, at);
        let written =
            self.cost(&TokenUsage { cache_write: input, output, ..TokenUsage::default() }, at);
        match (plain, written) {
            (Cost::Known(plain), Cost::Known(written)) => Cost::Known(plain.max(written)),
            (plain, _) => plain,
        }
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
