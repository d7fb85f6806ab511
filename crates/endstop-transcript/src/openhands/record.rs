//! Lines of an evaluation, and events.

use endstop_core::units::Money;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use endstop_price::billed_cost;

use crate::openai_chat::ChatToolCall;
use crate::text::{Text, present, text_of, word};

/// Keys of an old action that are not its arguments, and keys in a new one's arguments that are not.
const NO_ARGUMENTS: [&str; 14] = [
    "action",
    "action_risk",
    "blocking",
    "confirmation_state",
    "id",
    "is_confirmed",
    "keep_prompt",
    "message",
    "security_risk",
    "source",
    "thought",
    "timeout",
    "timestamp",
    "kernel_init_code",
];

/// One run of an evaluation.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct EvaluationLine<'a> {
    instance_id: Option<&'a RawValue>,
    issue: Option<&'a RawValue>,
    pub(super) history: Option<Vec<&'a RawValue>>,
    metrics: Option<&'a RawValue>,
    pub(super) test_result: Option<&'a RawValue>,
    pub(super) report: Option<&'a RawValue>,
}

/// The issue that a run of the resolver is about.
#[derive(Deserialize)]
struct Issue {
    owner: String,
    repo: String,
    number: u64,
}

#[derive(Deserialize)]
struct Metrics {
    costs: Option<Vec<Value>>,
}

impl<'a> EvaluationLine<'a> {
    /// The fields next to the events.
    pub(super) const FIELDS: [&'static str; 5] =
        ["instance_id", "issue", "metrics", "test_result", "report"];

    /// A line whose fields were met one by one.
    pub(super) fn of(beside: &'a [(String, Box<RawValue>)]) -> Self {
        let field = |name: &str| {
            let found = beside.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| &**value)
        };
        Self {
            instance_id: field("instance_id"),
            issue: field("issue"),
            history: None,
            metrics: field("metrics"),
            test_result: field("test_result"),
            report: field("report"),
        }
    }

    /// The instance, or `owner/repo#number` of the issue.
    pub(super) fn name(&self) -> Option<String> {
        let instance =
            self.instance_id.map(|raw| word(Some(raw)).map_or(raw.get().into(), Text::into_owned));
        instance.or_else(|| {
            let issue: Issue = serde_json::from_str(self.issue?.get()).ok()?;
            Some(format!("{}/{}#{}", issue.owner, issue.repo, issue.number))
        })
    }

    /// The costs that OpenHands computed for each call; empty if one of them is missing.
    pub(super) fn costs(&self) -> Vec<Money> {
        let metrics = self.metrics.and_then(|raw| serde_json::from_str::<Metrics>(raw.get()).ok());
        let costs = metrics.and_then(|metrics| metrics.costs).unwrap_or_default();
        let cost_of = |cost: &Value| {
            let amount = cost.get("cost").unwrap_or(cost);
            // Zero is what a model without a price is given.
            billed_cost(&json!({ "cost": amount })).filter(|cost| *cost > Money::ZERO)
        };
        costs.iter().map(cost_of).collect::<Option<Vec<Money>>>().unwrap_or_default()
    }
}

/// An action or an observation.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OpenHandsEvent<'a> {
    pub(super) id: Option<&'a RawValue>,
    pub(super) timestamp: Option<Text<'a>>,
    pub(super) source: Option<Text<'a>>,
    pub(super) action: Option<Text<'a>>,
    pub(super) observation: Option<Text<'a>>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) thought: Option<&'a RawValue>,
    pub(super) cause: Option<&'a RawValue>,
    pub(super) extras: Option<&'a RawValue>,
    exit_code: Option<&'a RawValue>,
    success: Option<&'a RawValue>,
    pub(super) tool_call_metadata: Option<CallMetadata<'a>>,
}

/// The call that an event is of.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CallMetadata<'a> {
    pub(super) function_name: Option<Text<'a>>,
    pub(super) tool_call_id: Option<Text<'a>>,
    pub(super) model_response: Option<&'a RawValue>,
}

/// The response of a model as LiteLLM gives it.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct LlmResponse<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) model: Option<Text<'a>>,
    pub(super) service_tier: Option<Text<'a>>,
    pub(super) choices: Option<Vec<LlmChoice<'a>>>,
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct LlmChoice<'a> {
    pub(super) finish_reason: Option<Text<'a>>,
    pub(super) message: Option<LlmMessage<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct LlmMessage<'a> {
    pub(super) content: Option<&'a RawValue>,
    pub(super) tool_calls: Option<Vec<ChatToolCall<'a>>>,
}

impl OpenHandsEvent<'_> {
    /// Whether the observation is of a failure.
    pub(super) fn has_failed(&self) -> bool {
        if self.observation.as_deref() == Some("error") {
            return true;
        }
        let extras = self.extras.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let within = |place: &str| extras.as_ref()?.pointer(place)?.as_i64();
        let flat = self.exit_code.and_then(|raw| raw.get().parse().ok());
        let code = within("/metadata/exit_code").or_else(|| within("/exit_code")).or(flat);
        // -1 is of a command that still runs.
        code.map_or_else(
            || self.success.is_some_and(|success| success.get() == "false"),
            |code| code > 0,
        )
    }
}

/// A text, the texts of a list of parts, or else the JSON as it is. Null and absent are empty.
pub(super) fn words(raw: Option<&RawValue>) -> String {
    if present(raw).is_none() {
        return String::new();
    }
    let Some(raw) = raw else { return String::new() };
    if let Some(text) = word(Some(raw)) {
        return text.into_owned();
    }
    match serde_json::from_str::<Vec<Value>>(raw.get()) {
        Ok(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Err(_) => raw.get().to_owned(),
    }
}

/// The arguments of an action, in one line: its task, without the notes of OpenHands about it.
pub(super) fn arguments_of(raw: &RawValue) -> String {
    match serde_json::from_str::<serde_json::Map<String, Value>>(raw.get()) {
        Ok(mut arguments) => {
            arguments.retain(|key, value| !value.is_null() && !NO_ARGUMENTS.contains(&&**key));
            Value::Object(arguments).to_string()
        }
        Err(_) => raw.get().to_owned(),
    }
}

/// The name by which a call's observation finds it, and the tool.
pub(super) fn names_of(
    event: &OpenHandsEvent<'_>,
    metadata: Option<&CallMetadata<'_>>,
    action: &str,
) -> (String, String) {
    let named = metadata.and_then(|metadata| metadata.tool_call_id.as_deref()).map(str::to_owned);
    let id = || event.id.map(|id| word(Some(id)).map_or(id.get().to_owned(), Into::into));
    let tool = metadata.and_then(|metadata| metadata.function_name.as_deref()).unwrap_or(action);
    (named.or_else(id).unwrap_or_default(), tool.to_owned())
}

pub(super) fn asked_for(response: Option<&LlmResponse<'_>>, id: &str) -> Option<String> {
    let message = response?.choices.as_ref()?.first()?.message.as_ref()?;
    let call = message.tool_calls.iter().flatten().find(|call| call.id.as_deref() == Some(id))?;
    text_of(call.function.as_ref()?.arguments)
}

/// The text of the reply: that of the response, or the thought or the message.
pub(super) fn said(event: &OpenHandsEvent<'_>, response: Option<&LlmResponse<'_>>) -> String {
    let choice = response.and_then(|response| response.choices.as_ref()?.first());
    if let Some(message) = choice.and_then(|choice| choice.message.as_ref()) {
        return words(message.content);
    }
    let args = event.args.and_then(|args| serde_json::from_str::<Value>(args.get()).ok());
    let within = |key: &str| Some(args.as_ref()?.get(key)?.as_str()?.to_owned());
    let flat = || words(event.thought.or(event.content));
    let key = if event.action.as_deref() == Some("message") { "content" } else { "thought" };
    within(key).unwrap_or_else(flat)
}
