//! A model by its name, as the command takes it.

use std::sync::Arc;

use super::names::{environment, hint};
use super::open_error::OpenModelError;
use super::timeouts::Timeouts;
use super::{KnownProvider, Model, ScriptedModel, ScriptedResponse, Secret, known_provider};

/// Options that the name of a model does not contain. The default takes key and base URL from the environment.
///
/// ```
/// use endstop::model::{OpenOptions, open};
///
/// // A program that must not read the environment.
/// let options = || OpenOptions { variable: |_| None, ..OpenOptions::default() };
/// assert_eq!(open("scripted", options())?.name(), "scripted");
/// assert!(open("openai/gpt-5.2", options()).is_err(), "it has no key");
/// # Ok::<(), endstop::model::OpenModelError>(())
/// ```
pub struct OpenOptions {
    /// The key, instead of the one in the environment.
    pub key: Option<Secret>,
    /// The base URL, instead of the provider's own or the one in the environment.
    pub base_url: Option<String>,
    /// The timeouts of requests.
    pub timeouts: Timeouts,
    /// The most output tokens of a response if the request sets no cap.
    pub max_output_tokens: Option<u64>,
    /// The run of a transcript that answers; the first by default.
    pub run: Option<String>,
    /// Reads an environment variable.
    pub variable: fn(&str) -> Option<String>,
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may have been pasted with a key in it.
        f.debug_struct("OpenOptions").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            key: None,
            base_url: None,
            timeouts: Timeouts::default(),
            max_output_tokens: None,
            run: None,
            variable: environment,
        }
    }
}

/// The only response of the model named `scripted`.
const SCRIPTED_REPLY: &str = "This is the scripted model; it says this to everything.";

/// Opens a model by its name:
///
/// | name | model |
/// |---|---|
/// | `provider/model` | a model of a provider in [`PROVIDERS`](super::PROVIDERS), such as `anthropic/claude-sonnet-4-5` or `openrouter/openai/gpt-5.2` |
/// | `model` | of the provider that its name implies: `gpt-*`, `o3*` and alike OpenAI, `claude-*` Anthropic, `gemini-*` Google, `grok-*` xAI, `deepseek-*` DeepSeek; any other a local Ollama |
/// | `scripted` | one fixed sentence, without any network |
/// | `replay:FILE` | the responses of a recorded run (with the feature `transcripts`) |
///
/// # Errors
///
/// Returns [`OpenModelError`]: what is unknown or missing, and what to do about it.
pub fn open(name: &str, options: OpenOptions) -> Result<Arc<dyn Model>, OpenModelError> {
    if name == "scripted" {
        let reply = ScriptedResponse::text(SCRIPTED_REPLY);
        return Ok(Arc::new(ScriptedModel::new(name).reply(reply).repeat_last()));
    }
    if let Some(file) = name.strip_prefix("replay:") {
        return open_replay(file, options.run.as_deref());
    }
    let (provider, model) = match name.split_once('/') {
        Some((provider, model)) => (Some(find_provider(provider)?), model),
        None => (None, name),
    };
    if model.trim().is_empty() {
        return Err(OpenModelError::NoModel { name: name.to_owned() });
    }
    open_provider(name, provider, model, options)
}

#[cfg(feature = "transcripts")]
fn open_replay(file: &str, run: Option<&str>) -> Result<Arc<dyn Model>, OpenModelError> {
    Ok(Arc::new(super::ReplayModel::open(std::path::Path::new(file), run)?))
}

#[cfg(not(feature = "transcripts"))]
fn open_replay(file: &str, _run: Option<&str>) -> Result<Arc<dyn Model>, OpenModelError> {
    Err(OpenModelError::WithoutReaders { file: file.to_owned() })
}

fn find_provider(name: &str) -> Result<&'static KnownProvider, OpenModelError> {
    known_provider(name).ok_or_else(|| OpenModelError::UnknownProvider {
        provider: name.to_owned(),
        hint: hint(name),
    })
}

#[cfg(not(feature = "models"))]
fn open_provider(
    name: &str,
    _provider: Option<&'static KnownProvider>,
    _model: &str,
    _options: OpenOptions,
) -> Result<Arc<dyn Model>, OpenModelError> {
    Err(OpenModelError::WithoutDrivers { name: name.to_owned() })
}

#[cfg(feature = "models")]
fn open_provider(
    _name: &str,
    provider: Option<&'static KnownProvider>,
    model: &str,
    options: OpenOptions,
) -> Result<Arc<dyn Model>, OpenModelError> {
    let mut builder = super::ProviderModel::builder(model)
        .timeouts(options.timeouts)
        .environment(options.variable);
    if let Some(provider) = provider {
        builder = builder.provider(provider.name);
    }
    if let Some(key) = options.key {
        builder = builder.key(key);
    }
    if let Some(url) = options.base_url {
        builder = builder.base_url(url);
    }
    if let Some(tokens) = options.max_output_tokens {
        builder = builder.max_output_tokens(tokens);
    }
    Ok(Arc::new(builder.build()?))
}
