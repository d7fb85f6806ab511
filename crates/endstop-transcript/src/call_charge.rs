//! Tokens and money of one model call: the billed amounts, or those that the price table computes.

use endstop_core::units::{Cost, TokenUsage, WallTime};
use serde_json::{Value, json};

use super::step::CostSource;
use super::time::Time;
use endstop_price::{
    CallContext, PriceTable, UsageCounts, UsageShape, billed_cost, context_of, read_usage,
};

/// The time at which a call without time is priced: 2100-01-01, by when every known price is in force.
const LATEST: WallTime = WallTime(4_102_444_800_000);

/// A model call.
#[derive(Clone, Copy)]
pub(super) struct ModelCall<'c> {
    /// The price lists to search, in this order; `None` is any provider that claims the model's name.
    pub(super) providers: &'c [Option<&'c str>],
    /// The model on the price list, if it is not the one that the response names.
    pub(super) model: Option<&'c str>,
    pub(super) shape: UsageShape,
    pub(super) usage: &'c Value,
    /// The tier that the response names outside its usage.
    pub(super) service_tier: Option<&'c str>,
    pub(super) time: Time,
}

impl<'c> ModelCall<'c> {
    /// A call without a time, whose model is on any provider's price list.
    pub(super) const fn new(shape: UsageShape, usage: &'c Value) -> Self {
        Self { providers: &[None], model: None, shape, usage, service_tier: None, time: None }
    }

    /// The same call at this time.
    pub(super) const fn at(self, time: Time) -> Self {
        Self { time, ..self }
    }

    /// The same call, whose model is on the price list of one of these, in this order.
    pub(super) const fn of(self, providers: &'c [Option<&'c str>]) -> Self {
        Self { providers, ..self }
    }
}

/// Counts in the form of Anthropic's API, whose input excludes cache reads and writes: for formats that name their
/// counts differently.
pub(super) fn as_anthropic([input, output, read, written]: [Value; 4]) -> Value {
    json!({
        "input_tokens": input,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    })
}

/// Like [`as_anthropic`], with an input that includes cache reads and writes. A smaller input excludes them.
pub(super) fn as_anthropic_without_cached([mut input, output, read, written]: [Value; 4]) -> Value {
    if let (Some(all), Some(cached), Some(more)) = (input.as_u64(), read.as_u64(), written.as_u64())
        && let Some(rest) = all.checked_sub(cached.saturating_add(more))
    {
        input = json!(rest);
    }
    as_anthropic([input, output, read, written])
}

/// Usage with what the call cost. Zero is what tools write that know no price.
pub(super) fn with_cost(mut usage: Value, cost: Option<Value>) -> Value {
    let cost = cost.filter(|cost| cost.as_f64() != Some(0.0));
    if let (Some(usage), Some(cost)) = (usage.as_object_mut(), cost) {
        usage.insert("cost".to_owned(), cost);
    }
    usage
}

/// Its usage and cost.
pub(super) struct CallCharge {
    /// `None` if the report cannot be read.
    pub(super) usage: Option<TokenUsage>,
    pub(super) cost: Cost,
    pub(super) source: CostSource,
    /// The problem in the report.
    pub(super) problem: Option<String>,
    /// The cached tokens are more than the input that should hold them: it was taken as without them.
    pub(super) was_exclusive: bool,
}

/// Reads the usage report of a call. The amount that the provider billed wins over a computed one.
pub(super) fn charge_of(call: &ModelCall<'_>, prices: &PriceTable) -> CallCharge {
    let mut charge = CallCharge {
        usage: None,
        cost: Cost::Unpriced,
        source: CostSource::Unknown,
        problem: None,
        was_exclusive: false,
    };
    let counts = match read_usage(call.shape, call.usage) {
        Ok(counts) => Some(counts),
        Err(error) => {
            charge.problem = Some(error.to_string());
            None
        }
    };
    charge.was_exclusive = counts.as_ref().is_some_and(UsageCounts::was_exclusive);
    charge.usage = counts.as_ref().map(UsageCounts::token_usage);
    if let Some(billed) = billed_cost(call.usage) {
        (charge.cost, charge.source) = (Cost::Known(billed), CostSource::Billed);
        return charge;
    }
    if let Some(cost) = call.usage.get("cost").filter(|cost| !cost.is_null()) {
        charge
            .problem
            .get_or_insert_with(|| format!("`cost` is not an amount of dollars: `{cost}`"));
    }
    let (Some(counts), Some(model)) = (counts, call.model) else { return charge };
    let mut context = context_of(call.usage);
    fill_tier(&mut context, call.service_tier);
    let at = call.time.map_or(LATEST, WallTime);
    let found = call.providers.iter().find_map(|provider| prices.find(*provider, model));
    match found.map(|price| price.price(&counts, at, &context)) {
        Some(Ok(priced)) => {
            (charge.cost, charge.source) = (Cost::Known(priced.total), CostSource::Computed);
        }
        Some(Err(error)) => charge.problem = Some(error.to_string()),
        None => {}
    }
    charge
}

fn fill_tier(context: &mut CallContext, tier: Option<&str>) {
    if let (None, Some(tier)) = (&context.service_tier, tier) {
        context.service_tier = Some(tier.to_owned());
    }
}

#[cfg(test)]
mod tests;
