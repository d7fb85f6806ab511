//! The document as it is written.

use endstop_core::units::{Cost, Money, TokenUsage};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::atif::record::{
    AtifAgent, AtifObservation, AtifReference, AtifResult, AtifToolCall, CallExtra, KeptOfRun,
    ResultExtra, RunExtra, StepExtra,
};

/// A run, or a sub-agent.
#[derive(Serialize)]
pub(super) struct WrittenTrajectory {
    pub(super) schema_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trajectory_id: Option<String>,
    pub(super) agent: AtifAgent,
    pub(super) steps: Vec<WrittenStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) final_metrics: Option<FinalMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra: Option<RunExtra>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subagent_trajectories: Vec<WrittenTrajectory>,
}

/// The `extra` of a trajectory; `None` if it is empty.
pub(super) fn run_extra(kept: KeptOfRun) -> Option<RunExtra> {
    (kept != KeptOfRun::default()).then_some(RunExtra { endstop: kept })
}

/// A call as it is written.
pub(super) type WrittenCall = AtifToolCall<'static, Box<RawValue>>;

/// A result as it is written.
pub(super) type WrittenResult = AtifResult<'static, String>;

#[derive(Serialize)]
pub(super) struct WrittenStep {
    step_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WrittenCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<AtifObservation<'static, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<WrittenMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<StepExtra>,
}

impl WrittenStep {
    fn new(wall: u64, source: &'static str) -> Self {
        Self {
            step_id: 0,
            timestamp: time(wall),
            source,
            model_name: None,
            message: String::new(),
            tool_calls: Vec::new(),
            observation: None,
            metrics: None,
            extra: None,
        }
    }

    /// A person's message; events do not carry the text.
    pub(super) fn user(wall: u64) -> Self {
        Self::new(wall, "user")
    }

    /// A sub-agent that begins between two steps.
    pub(super) fn refers(wall: u64, child: &str) -> Self {
        let observation = AtifObservation { results: vec![refers_to(vec![reference(child)])] };
        let observation = Some(observation);
        Self { observation, ..Self::new(wall, "system") }
    }

    /// A model call with its tools.
    pub(super) fn agent(
        wall: u64,
        model_name: Option<String>,
        message: String,
        tool_calls: Vec<WrittenCall>,
        results: Vec<WrittenResult>,
        metrics: Option<WrittenMetrics>,
        extra: Option<StepExtra>,
    ) -> Self {
        let observation = (!results.is_empty()).then_some(AtifObservation { results });
        let step = Self::new(wall, "agent");
        Self { model_name, message, tool_calls, observation, metrics, extra, ..step }
    }
}

/// Milliseconds since 1970 as RFC 3339; 0 is no time.
fn time(wall: u64) -> Option<String> {
    let millis = i64::try_from(wall).ok().filter(|millis| *millis > 0)?;
    jiff::Timestamp::from_millisecond(millis).ok().map(|time| time.to_string())
}

/// The steps with their numbers, from 1.
pub(super) fn numbered(mut steps: Vec<WrittenStep>) -> Vec<WrittenStep> {
    for (number, step) in (1..).zip(&mut steps) {
        step.step_id = number;
    }
    steps
}

/// A call. The format takes only objects as arguments; any other text is kept next to an empty one.
pub(super) fn call(id: String, tool: &str, arguments: Option<&str>) -> WrittenCall {
    let is_object = |text: &&str| text.starts_with('{') && text.ends_with('}');
    let object = arguments.filter(is_object).and_then(raw);
    let text = arguments.filter(|_| object.is_none());
    AtifToolCall {
        tool_call_id: Some(id.into()),
        function_name: Some(tool.to_owned().into()),
        arguments: object.or_else(|| raw("{}")),
        extra: text.map(|text| CallExtra { arguments_text: Some(text.to_owned()) }),
    }
}

fn raw(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

/// The result of a call, with the sub-agents that it was about.
pub(super) fn answer(
    call: String,
    content: &str,
    failed: bool,
    children: Vec<AtifReference<'static>>,
) -> WrittenResult {
    AtifResult {
        source_call_id: Some(call.into()),
        content: Some(content.to_owned()),
        extra: failed.then_some(ResultExtra { is_error: Some(true) }),
        subagent_trajectory_ref: (!children.is_empty()).then_some(children),
    }
}

/// A mere reference to sub-agents.
pub(super) fn refers_to(children: Vec<AtifReference<'static>>) -> WrittenResult {
    let subagent_trajectory_ref = Some(children);
    AtifResult { source_call_id: None, content: None, subagent_trajectory_ref, extra: None }
}

/// A reference to a sub-agent.
pub(super) fn reference(child: &str) -> AtifReference<'static> {
    AtifReference { trajectory_id: Some(child.to_owned().into()), session_id: None }
}

#[derive(Serialize)]
pub(super) struct WrittenMetrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    /// The exact decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<MetricsExtra>,
    #[serde(skip)]
    money: Option<Money>,
}

#[derive(Serialize)]
struct MetricsExtra {
    cache_creation_input_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheCreation>,
}

#[derive(Serialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: u64,
    ephemeral_1h_input_tokens: u64,
}

/// The metrics of a call; `None` if none are known.
pub(super) fn metrics(usage: Option<TokenUsage>, cost: Option<Cost>) -> Option<WrittenMetrics> {
    let money = match cost {
        Some(Cost::Known(money)) => Some(money),
        Some(Cost::Unpriced) | None => None,
    };
    if usage.is_none() && money.is_none() {
        return None;
    }
    Some(WrittenMetrics {
        prompt_tokens: usage.map(|usage| usage.total_input()),
        completion_tokens: usage.map(|usage| usage.output),
        cached_tokens: usage.map(|usage| usage.cache_read),
        cost_usd: money.and_then(|money| raw(&money.to_decimal())),
        extra: usage.and_then(written),
        money,
    })
}

fn written(usage: TokenUsage) -> Option<MetricsExtra> {
    let all = usage.cache_write.saturating_add(usage.cache_write_1h);
    (all > 0).then_some(MetricsExtra {
        cache_creation_input_tokens: all,
        cache_creation: (usage.cache_write_1h > 0).then_some(CacheCreation {
            ephemeral_5m_input_tokens: usage.cache_write,
            ephemeral_1h_input_tokens: usage.cache_write_1h,
        }),
    })
}

#[derive(Serialize)]
pub(super) struct FinalMetrics {
    total_prompt_tokens: u64,
    total_completion_tokens: u64,
    total_cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost_usd: Option<Box<RawValue>>,
    total_steps: usize,
}

/// The sums over the steps; no sum where a part of it is unknown.
pub(super) fn total(steps: &[WrittenStep]) -> Option<FinalMetrics> {
    let calls: Vec<&WrittenStep> = steps.iter().filter(|step| step.source == "agent").collect();
    let metrics: Option<Vec<&WrittenMetrics>> =
        calls.iter().map(|step| step.metrics.as_ref()).collect();
    let metrics = metrics.filter(|metrics| !metrics.is_empty())?;
    let sum = |count: fn(&WrittenMetrics) -> Option<u64>| -> Option<u64> {
        metrics.iter().try_fold(0u64, |sum, metrics| sum.checked_add(count(metrics)?))
    };
    let cost = metrics.iter().try_fold(Money::ZERO, |sum, m| sum.checked_add(m.money?));
    Some(FinalMetrics {
        total_prompt_tokens: sum(|metrics| metrics.prompt_tokens)?,
        total_completion_tokens: sum(|metrics| metrics.completion_tokens)?,
        total_cached_tokens: sum(|metrics| metrics.cached_tokens)?,
        total_cost_usd: cost.and_then(|cost| raw(&cost.to_decimal())),
        total_steps: steps.len(),
    })
}
