//! Tokens and money of a model call as Inspect reports them.

use endstop_core::units::{Cost, Money, TokenUsage};
use endstop_price::{UsageShape, billed_cost};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::call_charge::ModelCall;
use crate::reading::Reading;
use crate::step::{CostSource, ModelResponse};
use crate::time::Time;

/// Services that offer a provider's models at separate prices: `anthropic/bedrock/..`.
const SERVICES: [&str; 3] = ["azure", "bedrock", "vertex"];

/// Sets the usage and cost of a response of the model that Inspect calls `name`, `provider/model`.
pub(super) fn fill(
    reading: Reading<'_>,
    reply: &mut ModelResponse,
    name: &str,
    usage: Option<&RawValue>,
    time: Time,
) {
    reply.cost = Some(Cost::Unpriced);
    let label = format_args!("usage of a call of `{name}`");
    let Some(report) = reading.usage::<Map<String, Value>>(usage, label) else { return };
    let (provider, requested) = names_of(name);
    let answered = reply.model.clone();
    let answered = answered.as_deref().unwrap_or(requested);
    let is_priced = |model: &&str| reading.prices.find(Some(provider), model).is_some();
    let model = [answered, requested].into_iter().find(is_priced).unwrap_or(answered);
    let (shape, usage) = shape_of(&report);
    let call = ModelCall {
        // A model that runs here has the name of one that is sold, and costs nothing like it.
        providers: &[Some(provider)],
        model: Some(model),
        time,
        ..ModelCall::new(shape, &usage)
    };
    let charge = reading.price(reply, &call, label);
    if reply.source == CostSource::Unknown && charge.problem.is_none() {
        // The cost that Inspect computed from its user's prices.
        let own = report.get("total_cost").and_then(|cost| billed_cost(&json!({ "cost": cost })));
        if let Some(cost) = own {
            (reply.cost, reply.source) = (Some(Cost::Known(cost)), CostSource::Computed);
        }
    }
}

/// A response that Inspect had kept from an earlier call: no model was asked.
pub(super) fn fill_kept(reply: &mut ModelResponse) {
    reply.usage = Some(TokenUsage::default());
    reply.cost = Some(Cost::Known(Money::ZERO));
    reply.source = CostSource::Computed;
}

fn names_of(name: &str) -> (&str, &str) {
    let (provider, model) = name.split_once('/').unwrap_or(("", name));
    match model.split_once('/') {
        Some((service, model)) if SERVICES.contains(&service) => (service, model),
        _ => (provider, model),
    }
}

/// The report in a shape of a provider. The input is without the cached tokens; older versions gave that of
/// OpenAI with them, which the total shows.
fn shape_of(report: &Map<String, Value>) -> (UsageShape, Value) {
    let count = |key: &str| report.get(key).and_then(Value::as_u64);
    let cached = count("input_tokens_cache_read")
        .unwrap_or(0)
        .saturating_add(count("input_tokens_cache_write").unwrap_or(0));
    let whole = count("input_tokens")
        .unwrap_or(0)
        .saturating_add(count("output_tokens").unwrap_or(0))
        .saturating_add(cached);
    let is_inclusive = count("total_tokens").is_some_and(|total| total < whole);
    let (shape, read, written) = match is_inclusive {
        true => (UsageShape::OpenAiResponses, "cached_input_tokens", "cache_write_input_tokens"),
        false => (UsageShape::Anthropic, "cache_read_input_tokens", "cache_creation_input_tokens"),
    };
    let mut usage = Map::new();
    for (key, own) in [
        ("input_tokens", "input_tokens"),
        (read, "input_tokens_cache_read"),
        (written, "input_tokens_cache_write"),
        ("output_tokens", "output_tokens"),
    ] {
        if let Some(value) = report.get(own).filter(|value| !value.is_null()) {
            usage.insert(key.to_owned(), value.clone());
        }
    }
    (shape, Value::Object(usage))
}

#[cfg(test)]
mod tests;
