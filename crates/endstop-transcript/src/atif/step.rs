//! One step of a trajectory.

use std::borrow::Cow;

use endstop_core::units::Cost;
use endstop_price::{UsageShape, billed_cost};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::record::{AtifObservation, AtifToolCall, StepExtra, lenient};
use crate::call_charge::ModelCall;
use crate::reading::Reading;
use crate::step::{CostSource, Full, ModelResponse, Step};
use crate::text::{text_of, value_of};
use crate::time::{Time, parse_utc};

/// The properties that all steps of a trajectory share.
#[derive(Clone, Copy)]
pub(super) struct StepContext<'c> {
    pub(super) reading: Reading<'c>,
    /// The model of steps that name none.
    pub(super) model: Option<&'c str>,
    /// Where `cost_usd` comes from.
    pub(super) source: CostSource,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    User,
    /// A model call.
    Agent,
    /// Tool calls without a model call.
    Dispatch,
    Other,
}

#[derive(Deserialize)]
pub(super) struct AtifStep<'a> {
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<AtifToolCall<'a, &'a RawValue>>>,
    #[serde(borrow)]
    observation: Option<AtifObservation<'a, &'a RawValue>>,
    #[serde(borrow)]
    metrics: Option<StatedMetrics<'a>>,
    llm_call_count: Option<Value>,
    pub(super) is_copied_context: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    extra: Option<StepExtra>,
}

#[derive(Deserialize)]
struct StatedMetrics<'a> {
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cost_usd: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient")]
    extra: Option<Map<String, Value>>,
}

impl AtifStep<'_> {
    pub(super) fn kind(&self) -> StepKind {
        let has_model = self.llm_call_count.as_ref().is_none_or(|count| *count != json!(0));
        match &*self.source {
            "user" => StepKind::User,
            "agent" if has_model => StepKind::Agent,
            "agent" => StepKind::Dispatch,
            _ => StepKind::Other,
        }
    }

    pub(super) fn time(&self) -> Time {
        self.timestamp.as_deref().and_then(parse_utc)
    }

    /// The sub-agents that the observation refers to.
    pub(super) fn refers(&self) -> Vec<String> {
        let results = self.observation.iter().flat_map(|observation| &observation.results);
        let references = results.flat_map(|result| result.subagent_trajectory_ref.iter().flatten());
        let ids = references.filter_map(|reference| {
            reference.trajectory_id.as_ref().or(reference.session_id.as_ref())
        });
        ids.map(|id| id.clone().into_owned()).collect()
    }
}

/// Adds a model call with its tools to a step that began with it.
pub(super) fn read(
    record: AtifStep<'_>,
    context: &StepContext<'_>,
    step: &mut Step,
) -> Result<(), Full> {
    let time = record.time();
    let extra = record.extra.unwrap_or_default();
    for _ in 0..extra.endstop.failed_attempts {
        step.fail(time)?;
    }
    if !extra.endstop.has_no_reply {
        let model = record.model_name.as_deref().or(context.model);
        let mut reply = reply_of(model, record.metrics, time, context);
        reply.finish = extra.finish_reason;
        step.answer(time, reply);
    }
    step.say(time, text_of(record.message).unwrap_or_default())?;
    for tool in extra.endstop.refused {
        step.refuse(time, tool)?;
    }
    add_tools(step, record.tool_calls, record.observation, time)
}

/// Adds tool calls that were made without a model call.
pub(super) fn dispatch(step: &mut Step, record: AtifStep<'_>) -> Result<(), Full> {
    let time = record.time();
    add_tools(step, record.tool_calls, record.observation, time)
}

fn add_tools(
    step: &mut Step,
    calls: Option<Vec<AtifToolCall<'_, &RawValue>>>,
    observation: Option<AtifObservation<'_, &RawValue>>,
    time: Time,
) -> Result<(), Full> {
    for call in calls.into_iter().flatten() {
        let raw = call.extra.and_then(|extra| extra.arguments_text);
        let arguments = raw.or_else(|| text_of(call.arguments)).unwrap_or_default();
        step.call(time, call.tool_call_id, call.function_name.unwrap_or_default(), arguments)?;
    }
    for result in observation.into_iter().flat_map(|observation| observation.results) {
        let failed = result.extra.is_some_and(|extra| extra.is_error == Some(true));
        let text = text_of(result.content);
        // A mere reference to a sub-agent is the result of nothing.
        if result.source_call_id.is_some() || text.is_some() {
            let id = result.source_call_id.as_deref();
            step.result(id, time, text.unwrap_or_default(), failed)?;
        }
    }
    Ok(())
}

fn reply_of(
    model: Option<&str>,
    metrics: Option<StatedMetrics<'_>>,
    time: Time,
    context: &StepContext<'_>,
) -> ModelResponse {
    let mut reply = ModelResponse::unpriced(model);
    let Some(metrics) = metrics else { return reply };
    let cost = value_of(metrics.cost_usd);
    if value_of(metrics.prompt_tokens).is_none() && value_of(metrics.completion_tokens).is_none() {
        let billed = cost.and_then(|cost| billed_cost(&json!({ "cost": cost })));
        if let Some(money) = billed {
            (reply.cost, reply.source) = (Some(Cost::Known(money)), context.source);
        }
        return reply;
    }
    let (shape, usage) = usage_of(metrics, cost);
    let call = ModelCall { time, ..ModelCall::new(shape, &usage) };
    context.reading.price(&mut reply, &call, "metrics");
    if reply.source == CostSource::Billed {
        reply.source = context.source;
    }
    reply
}

/// The metrics as a usage report: Anthropic's if they have tokens that a cache keeps for an hour.
fn usage_of(metrics: StatedMetrics<'_>, cost: Option<Value>) -> (UsageShape, Value) {
    let extra = metrics.extra.unwrap_or_default();
    let prompt = value_of(metrics.prompt_tokens);
    let output = value_of(metrics.completion_tokens);
    let cached = value_of(metrics.cached_tokens);
    let written = extra.get("cache_creation_input_tokens").cloned();
    let count = |value: &Option<Value>| value.as_ref().map_or(Some(0), Value::as_u64);
    if let Some(by_life) = extra.get("cache_creation")
        && let (Some(all), Some(read), Some(new)) =
            (count(&prompt), count(&cached), count(&written))
        && let Some(input) = all.checked_sub(read.saturating_add(new))
    {
        let usage = json!({
            "input_tokens": input, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": new, "cache_creation": by_life,
            "output_tokens": output, "cost": cost,
        });
        return (UsageShape::Anthropic, usage);
    }
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": output, "cost": cost,
        "prompt_tokens_details": {"cached_tokens": cached},
        "cache_creation_input_tokens": written,
    });
    (UsageShape::OpenAiChat, without_nulls(usage))
}

/// Null is absent; a reader of counts would not take it.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        value => value,
    }
}
