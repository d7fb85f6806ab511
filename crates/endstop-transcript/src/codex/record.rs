//! Lines of a Codex rollout. Unknown types are skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::text::whole_text;

/// A line.
#[derive(Debug, Deserialize)]
pub(super) struct CodexRecord<'a> {
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
}

/// The payload of `session_meta`.
#[derive(Debug, Deserialize)]
pub(super) struct SessionMeta<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model_provider: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) forked_from_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) parent_thread_id: Option<Cow<'a, str>>,
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
pub(super) struct TurnContext<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
}

/// The payload of `event_msg`.
#[derive(Debug, Deserialize)]
pub(super) struct EventMsg<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) info: Option<&'a RawValue>,
}

/// The payload of `response_item`.
#[derive(Debug, Deserialize)]
pub(super) struct CodexItem<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
}

/// The output of a tool, as an object.
#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
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
