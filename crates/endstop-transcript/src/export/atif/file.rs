//! The document as it is written.

use endstop_core::units::{Cost, Money, TokenUsage};
use serde::Serialize;
use serde_json::value::RawValue;

/// A run, or a sub-agent.
#[derive(Serialize)]
pub(super) struct Trajectory {
    pub(super) schema_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trajectory_id: Option<String>,
    pub(super) agent: Agent,
    pub(super) steps: Vec<WrittenStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) final_metrics: Option<FinalMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra: Option<Extra>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subagent_trajectories: Vec<Trajectory>,
}

#[derive(Serialize)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model_name: Option<String>,
}

/// What the format has no place for.
#[derive(Serialize)]
pub(super) struct Extra {
    endstop: Kept,
}

#[derive(Default, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost_is: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) depth: Option<u32>,
}

impl Extra {
    /// `None` where there is nothing to keep.
    pub(super) fn of(kept: Kept) -> Option<Self> {
        (kept != Kept::default()).then_some(Self { endstop: kept })
    }
}

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
    tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics>,
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

    /// What a person said; events do not carry the words.
    pub(super) fn user(wall: u64) -> Self {
        Self::new(wall, "user")
    }

    /// A sub-agent that begins between two steps.
    pub(super) fn refers(wall: u64, child: &str) -> Self {
        let reference = vec![Reference { trajectory_id: child.to_owned() }];
        let observation = Some(Observation { results: vec![Result::reference(reference)] });
        Self { observation, ..Self::new(wall, "system") }
    }

    /// A model call with its tools.
    pub(super) fn agent(
        wall: u64,
        model_name: Option<String>,
        message: String,
        tool_calls: Vec<ToolCall>,
        results: Vec<Result>,
        metrics: Option<Metrics>,
        extra: Option<StepExtra>,
    ) -> Self {
        let observation = (!results.is_empty()).then_some(Observation { results });
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

#[derive(Serialize)]
pub(super) struct ToolCall {
    tool_call_id: String,
    function_name: String,
    arguments: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<CallExtra>,
}

#[derive(Serialize)]
struct CallExtra {
    arguments_text: String,
}

impl ToolCall {
    /// The format takes only objects as arguments; any other text is kept beside an empty one.
    pub(super) fn new(tool_call_id: String, tool: &str, arguments: Option<&str>) -> Self {
        let is_object = |text: &&str| text.starts_with('{') && text.ends_with('}');
        let object = arguments.filter(is_object).and_then(raw);
        let text = arguments.filter(|_| object.is_none());
        Self {
            tool_call_id,
            function_name: tool.to_owned(),
            arguments: object.unwrap_or_else(|| raw("{}").unwrap_or_default()),
            extra: text.map(|text| CallExtra { arguments_text: text.to_owned() }),
        }
    }
}

fn raw(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

#[derive(Serialize)]
struct Observation {
    results: Vec<Result>,
}

/// The result of a call, or a reference to a sub-agent.
#[derive(Serialize)]
pub(super) struct Result {
    #[serde(skip_serializing_if = "Option::is_none")]
    source_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagent_trajectory_ref: Vec<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<ResultExtra>,
}

#[derive(Serialize)]
struct ResultExtra {
    is_error: bool,
}

#[derive(Serialize)]
pub(super) struct Reference {
    pub(super) trajectory_id: String,
}

impl Result {
    pub(super) fn answer(
        call: String,
        content: &str,
        failed: bool,
        subagent_trajectory_ref: Vec<Reference>,
    ) -> Self {
        Self {
            source_call_id: Some(call),
            content: Some(content.to_owned()),
            subagent_trajectory_ref,
            extra: failed.then_some(ResultExtra { is_error: true }),
        }
    }

    pub(super) fn reference(subagent_trajectory_ref: Vec<Reference>) -> Self {
        Self { source_call_id: None, content: None, subagent_trajectory_ref, extra: None }
    }
}

#[derive(Serialize)]
pub(super) struct StepExtra {
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endstop: Option<StepKept>,
}

#[derive(Default, PartialEq, Eq, Serialize)]
struct StepKept {
    #[serde(skip_serializing_if = "is_zero")]
    failed_attempts: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    has_no_reply: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl StepExtra {
    /// `None` where there is nothing to keep.
    pub(super) fn of(
        finish_reason: Option<String>,
        failed_attempts: u64,
        refused: Vec<String>,
        has_no_reply: bool,
    ) -> Option<Self> {
        let kept = StepKept { failed_attempts, refused, has_no_reply };
        let endstop = (kept != StepKept::default()).then_some(kept);
        let has_any = finish_reason.is_some() || endstop.is_some();
        has_any.then_some(Self { finish_reason, endstop })
    }
}

#[derive(Serialize)]
pub(super) struct Metrics {
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

/// The metrics of a call; `None` where nothing is known of it.
pub(super) fn metrics(usage: Option<TokenUsage>, cost: Option<Cost>) -> Option<Metrics> {
    let money = match cost {
        Some(Cost::Known(money)) => Some(money),
        Some(Cost::Unpriced) | None => None,
    };
    if usage.is_none() && money.is_none() {
        return None;
    }
    Some(Metrics {
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
    let metrics: Option<Vec<&Metrics>> = calls.iter().map(|step| step.metrics.as_ref()).collect();
    let metrics = metrics.filter(|metrics| !metrics.is_empty())?;
    let sum = |count: fn(&Metrics) -> Option<u64>| -> Option<u64> {
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
