//! Records of ATIF that are the same read and written.
//!
//! A step, its metrics and a trajectory have two forms: a file of others may give any number, a message in parts, and
//! a step that cannot be read, so the reader takes these unchanged, and the writer as it counted them. The unchanged
//! parts of the records here are a `V`.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Who acts in a trajectory.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct AtifAgent {
    #[serde(skip_deserializing)]
    pub(crate) name: &'static str,
    #[serde(skip_deserializing)]
    pub(crate) version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_name: Option<String>,
}

/// The `extra` of a trajectory.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct RunExtra {
    pub(crate) endstop: KeptOfRun,
}

/// Data of a run that the format has no place for.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct KeptOfRun {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_is: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) depth: Option<u32>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct AtifToolCall<'a, V> {
    #[serde(borrow)]
    pub(crate) tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) function_name: Option<Cow<'a, str>>,
    pub(crate) arguments: Option<V>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Option<CallExtra>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct CallExtra {
    /// The arguments as the model gave them, if they are not an object.
    pub(crate) arguments_text: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct AtifObservation<'a, V> {
    #[serde(borrow, default = "Vec::new")]
    pub(crate) results: Vec<AtifResult<'a, V>>,
}

/// The result of a call, or a reference to a sub-agent.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct AtifResult<'a, V> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) source_call_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<V>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) subagent_trajectory_ref: Option<Vec<AtifReference<'a>>>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Option<ResultExtra>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct AtifReference<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) trajectory_id: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct ResultExtra {
    pub(crate) is_error: Option<bool>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct StepExtra {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finish_reason: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) endstop: KeptOfStep,
}

/// Data of a step that the format has no place for.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct KeptOfStep {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) failed_attempts: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) has_no_reply: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The known part of an `extra`, which may contain anything.
pub(super) fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}
