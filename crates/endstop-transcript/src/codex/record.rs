//! Lines of a Codex rollout. Unknown types are skipped.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::text::{Text, whole_text};

/// A line.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexRecord<'a> {
    pub(super) timestamp: Option<Text<'a>>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) payload: Option<&'a RawValue>,
}

/// The payload of `session_meta`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct SessionMeta<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
    pub(super) model_provider: Option<Text<'a>>,
    pub(super) forked_from_id: Option<Text<'a>>,
    pub(super) parent_thread_id: Option<Text<'a>>,
    source: Option<Value>,
}

impl SessionMeta<'_> {
    /// Whether the file may begin with a copy of another session.
    pub(super) fn copies_another(&self) -> bool {
        let spawned = self.source.as_ref().and_then(|source| source.get("subagent"));
        self.forked_from_id.is_some()
            || self.parent_thread_id.is_some()
            || spawned.is_some_and(|spawned| spawned.get("thread_spawn").is_some())
    }
}

/// The payload of `turn_context`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct TurnContext<'a> {
    pub(super) model: Option<Text<'a>>,
}

/// The payload of `event_msg`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct EventMsg<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) info: Option<&'a RawValue>,
}

/// The payload of `response_item`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexItem<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) role: Option<Text<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) name: Option<Text<'a>>,
    pub(super) call_id: Option<Text<'a>>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) action: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
}

/// The output of a tool, as an object.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Output<'a> {
    output: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    success: Option<bool>,
    metadata: Option<OutputMetadata>,
}

#[derive(Deserialize)]
struct OutputMetadata {
    exit_code: Option<i64>,
}

/// The output of a tool, and whether it failed. Some tools wrap their output and its exit code in an object, which
/// may itself be written as a text.
pub(super) fn output_of(raw: Option<&RawValue>) -> (String, bool) {
    let text = whole_text(raw);
    let Ok(wrapped) = serde_json::from_str::<Output<'_>>(&text) else { return (text, false) };
    let code = wrapped.metadata.as_ref().and_then(|metadata| metadata.exit_code);
    let inner = wrapped.output.or(wrapped.content);
    let (Some(inner), true) = (inner, code.is_some() || wrapped.success.is_some()) else {
        return (text, false);
    };
    let failed = wrapped.success == Some(false) || code.is_some_and(|code| code != 0);
    (whole_text(Some(inner)), failed)
}
