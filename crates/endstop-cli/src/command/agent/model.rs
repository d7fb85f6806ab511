//! Models by name: those of the library, and scripts for trying limits.

use std::sync::Arc;

use endstop::model::{
    Model, ModelErrorKind, ModelRequest, OpenModelError, OpenOptions, ReplayModel, ScriptedModel,
    ScriptedResponse, open as open_model,
};
use serde_json::json;

use crate::error::{CliError, causes};
use crate::limits::SLOW_PIECE_WAIT;

/// The text of a script.
const SENTENCE: &str = "I am a script without a model behind it, and say this sentence to everything. \
    Name a real model to get an answer.";
/// How `scripted:slow` says it.
const SLOW_PIECE_BYTES: usize = 6;

const MODELS: &str = "\
The models are
  provider/model   such as anthropic/claude-sonnet-4-5, openai/gpt-5.2, ollama/qwen3 (docs/models.md)
  scripted         one sentence, offline; also scripted:slow, scripted:loop, scripted:fail
  replay:FILE      the answers of a recorded run, offline";

/// The error for a run without a model.
pub(super) fn none_named() -> CliError {
    CliError::new("missing model")
        .with_details(MODELS)
        .with_hint("try it offline: `endstop agent --model scripted \"hello\"`")
}

/// Whether a model makes no calls.
pub(super) fn is_offline(name: &str) -> bool {
    name.starts_with("scripted") || name.starts_with("replay:")
}

/// Opens a model. A replayed one continues after the responses that the run has had.
pub(super) fn open(name: &str, done: usize) -> Result<Arc<dyn Model>, CliError> {
    if let Some(script) = name.strip_prefix("scripted") {
        return scripted(script)
            .ok_or_else(|| CliError::new(format!("no model `{name}`")).with_details(MODELS));
    }
    if let Some(file) = name.strip_prefix("replay:") {
        let opened = ReplayModel::open(file.as_ref(), None);
        let model = opened.map_err(|error| CliError::new(causes(&error)))?;
        return Ok(Arc::new(model.starting_at(u64::try_from(done).unwrap_or(u64::MAX))));
    }
    open_model(name, OpenOptions::default()).map_err(|error| {
        let failed = CliError::new(causes(&error));
        match error {
            OpenModelError::WithoutDrivers { .. } => {
                failed.with_hint("cargo install endstop-cli --features models")
            }
            OpenModelError::NoModel { .. } => failed.with_details(MODELS),
            _ => failed,
        }
    })
}

/// `scripted`, then `:KIND`, then `@MODEL`, each of the two if it is wanted.
fn scripted(script: &str) -> Option<Arc<dyn Model>> {
    let (kind, priced_as) = match script.split_once('@') {
        Some((_, "")) => return None,
        Some((kind, model)) => (kind, Some(model)),
        None => (script, None),
    };
    let answer: fn(&ModelRequest<'_>) -> ScriptedResponse = match kind {
        "" => sentence,
        ":slow" => {
            |request| sentence(request).pieces_of(SLOW_PIECE_BYTES).piece_delay(SLOW_PIECE_WAIT)
        }
        ":loop" => one_more_call,
        ":fail" => |_| ScriptedResponse::error(ModelErrorKind::Rejected),
        _ => return None,
    };
    let (provider, name) = match priced_as.map(|model| (model, model.split_once('/'))) {
        Some((_, Some((provider, name)))) => (provider, name),
        Some((name, None)) => ("", name),
        None => ("", "scripted"),
    };
    let model = ScriptedModel::from_fn(name, move |request, _| answer(request));
    Some(Arc::new(model.provider_name(provider)))
}

/// The sentence, as much of it as fits the request's cap.
fn sentence(request: &ModelRequest<'_>) -> ScriptedResponse {
    let fits = request
        .max_output_tokens
        .map_or(u64::MAX, |cap| cap.saturating_mul(ScriptedModel::BYTES_PER_TOKEN));
    let end = usize::try_from(fits).unwrap_or(usize::MAX).min(SENTENCE.len());
    let text = SENTENCE.get(..SENTENCE.floor_char_boundary(end)).unwrap_or(SENTENCE);
    let reply = ScriptedResponse::text(text);
    if text.len() < SENTENCE.len() { reply.finish("length") } else { reply }
}

/// A call of an offered tool, whatever its answer, or of an unknown one if the request offers none.
fn one_more_call(request: &ModelRequest<'_>) -> ScriptedResponse {
    let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    if has("delegate") {
        return ScriptedResponse::call("delegate", json!({ "task": "Go on." }));
    }
    let tool = if has("list_directory") { "list_directory" } else { "again" };
    ScriptedResponse::call(tool, json!({}))
}
