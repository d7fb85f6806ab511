//! What a model call costs: at most before it is made, and exactly once its usage is known.

use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};

use crate::model::Model;
use crate::price::{CallContext, PriceTable, UsageCounts};

/// Prices calls of one model.
#[derive(Clone, Debug)]
pub(super) struct Pricing {
    table: &'static PriceTable,
    provider: Option<String>,
    model: String,
    /// Looking up a name that no table has is slow; it is done once.
    is_known: bool,
}

impl Pricing {
    pub(super) fn of(model: &dyn Model, table: &'static PriceTable) -> Self {
        let provider = Some(model.provider().to_owned()).filter(|name| !name.is_empty());
        let name = model.name().to_owned();
        let is_known = table.find_or_vendor(provider.as_deref(), &name).is_some();
        Self { table, provider, model: name, is_known }
    }

    /// The cost of one call.
    pub(super) fn cost(&self, usage: &TokenUsage, at: WallTime) -> Cost {
        if !self.is_known {
            return Cost::Unpriced;
        }
        let found = self.table.find_or_vendor(self.provider.as_deref(), &self.model);
        let counts = UsageCounts::from_token_usage(usage);
        let (Some(price), Ok(counts)) = (found, counts) else { return Cost::Unpriced };
        match price.price(&counts, at, &CallContext::default()) {
            Ok(priced) => Cost::Known(priced.total),
            Err(_) => Cost::Unpriced,
        }
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
