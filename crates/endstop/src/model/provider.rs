//! Models of providers, called over HTTP.
//!
//! The library `genai` makes the requests and reads the text and tool calls of the streams. Every frame of a stream
//! is also read here (`facts`), for everything that `genai` drops or changes: usage as the provider wrote it, the
//! model that answered, the finish reason, the cost, errors, and whether the response was complete. `endstop-llm`
//! reads them, so a call counts in the loop as it does in the gateway.
//!
//! # Why `genai` stays
//!
//! `endstop-llm` reads the streams of four APIs. What is left of `genai` is what no other part of Endstop does:
//!
//! - **Writing requests.** `endstop-llm` only edits requests. `genai` writes conversations, tools, schemas and choices
//!   for these APIs and for Ollama's own, and knows the differences of OpenRouter, Groq, xAI, DeepSeek, Mistral,
//!   Together and Moonshot.
//! - **Data that goes back.** Signed thinking, thought signatures and encrypted reasoning have to go back to the
//!   provider that sent them. The gateway passes them on unread, so the readers of `endstop-llm` do not return them.
//! - **An HTTP client for public hosts**, with proxies, TLS and compression. The gateway's connection code serves
//!   transparent forwarding, and is not a library.
//!
//! To replace it means to write requests for five APIs with the differences of eight providers, and to keep them
//! current. To keep it costs a build with `reqwest`, which only users of the feature `models` pay.

mod answer;
mod facts;
mod failure;
mod http_client;
mod request;

use std::fmt;

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use http_client::http_client;

use super::names::{KnownProvider, environment, known_provider};
use super::{Model, ModelRequest, ModelStream, OpenModelError, ProviderApi, Secret, Timeouts};

/// A model of a provider: OpenAI (chat and responses), Anthropic, Gemini, Ollama, OpenRouter and others, or
/// any server that speaks one of their protocols.
///
/// ```no_run
/// use endstop::model::ProviderModel;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hosted = ProviderModel::builder("claude-sonnet-4-5").build()?;
/// let local = ProviderModel::builder("qwen3")
///     .provider("openai")
///     .base_url("http://localhost:8000/v1")
///     .build()?;
/// # Ok(())
/// # }
/// ```
///
/// # What is sent
///
/// - The system text and system messages ahead of the conversation become the provider's system text. Later
///   ones, notes in the middle of it, go as system messages to OpenAI itself, and in brackets as words of
///   the user elsewhere: other providers would move them to the beginning, and templates of open models
///   refuse them.
/// - Opaque data (`opaque`) goes back to the same kind of provider only: signed and redacted thinking of Anthropic
///   and details of OpenRouter unchanged; thought signatures of Gemini; of OpenAI's reasoning the encrypted content,
///   without its id and summary, which `genai` does not send.
/// - Arguments that are not a JSON object go back as `{"arguments": ..}` if the protocol demands an object.
/// - A model name that ends in `-low`, `-high` and alike sets the effort of reasoning: so does `genai`.
///
/// # What comes
///
/// - Usage that the provider sends after the end of the answer (after `[DONE]`) is not seen: it is unknown.
/// - The arguments of a tool call are the model's text, but of Gemini and Ollama, who send an object, its
///   JSON.
/// - The connection is closed when the stream is dropped, at its end too: `genai` does not read the HTTP body to its
///   last byte, so a connection is seldom used twice.
/// - One frame of a stream has no separate bound below that of the response, since `genai` gathers it before this
///   code sees it; a timeout ends it.
pub struct ProviderModel {
    name: String,
    provider: &'static str,
    kind: AdapterKind,
    /// Whether the provider itself is asked and no other server.
    is_own_server: bool,
    /// The provider's own API that is asked, if it is one.
    api: Option<&'static ProviderApi>,
    target: ServiceTarget,
    client: Client,
    key: Option<Secret>,
    timeouts: Timeouts,
    max_output_tokens: Option<u64>,
}

/// Settings of a [`ProviderModel`].
///
/// See the example of [`ProviderModel`].
pub struct ProviderModelBuilder {
    model: String,
    provider: Option<String>,
    base_url: Option<String>,
    key: Option<Secret>,
    timeouts: Timeouts,
    max_output_tokens: Option<u64>,
    variable: fn(&str) -> Option<String>,
}

impl ProviderModel {
    /// Returns a model by the name that its provider gives it.
    pub fn builder(model: impl Into<String>) -> ProviderModelBuilder {
        ProviderModelBuilder {
            model: model.into(),
            provider: None,
            base_url: None,
            key: None,
            timeouts: Timeouts::default(),
            max_output_tokens: None,
            variable: environment,
        }
    }
}

impl ProviderModelBuilder {
    /// Sets the provider, by a name in [`PROVIDERS`](super::PROVIDERS). Without it the model's name decides.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = Some(name.into());
        self
    }

    /// Sets the server, up to where the provider's own paths begin: `http://localhost:8000/v1` for the protocols
    /// of OpenAI and Anthropic, `http://localhost:11434` for Ollama. It gets the key.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the key, instead of the one in the environment.
    #[must_use]
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets how long the provider may be silent.
    #[must_use]
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets the default output cap of a response. It is sent if the request has none.
    #[must_use]
    pub const fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Reads environment variables from elsewhere.
    #[must_use]
    pub const fn environment(mut self, variable: fn(&str) -> Option<String>) -> Self {
        self.variable = variable;
        self
    }

    /// Finds provider, server and key. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Returns [`OpenModelError`] if the provider is unknown, its key missing, or the base URL unusable.
    pub fn build(self) -> Result<ProviderModel, OpenModelError> {
        let known = self.known()?;
        let base_url = self.find_base_url(known)?;
        let kind = kind_of(known, &self.model, base_url.is_some());
        let key = self.find_key(known, base_url.is_some())?;
        let auth = match &key {
            Some(key) => AuthData::from_single(key.expose()),
            // Servers on one's own machine take anything, but `genai` wants something.
            None => AuthData::from_single("none"),
        };
        let is_own_server = base_url.is_none();
        let api = match &base_url {
            Some(url) => ProviderApi::at(host_of(url)),
            None => ProviderApi::of(known.provider),
        };
        let endpoint = match base_url {
            Some(url) => Endpoint::from_owned(url),
            None => Endpoint::from_static(known.server()),
        };
        let model = ModelIden::new(kind, self.model.as_str());
        let client = Client::builder().with_reqwest(http_client()?).build();
        let client = client.map_err(|error| OpenModelError::Client(error.to_string()))?;
        Ok(ProviderModel {
            name: self.model,
            provider: known.provider,
            kind,
            is_own_server,
            api,
            target: ServiceTarget { endpoint, auth, model },
            client,
            key,
            timeouts: self.timeouts,
            max_output_tokens: self.max_output_tokens,
        })
    }

    fn known(&self) -> Result<&'static KnownProvider, OpenModelError> {
        let name = match &self.provider {
            Some(name) => name.clone(),
            None => {
                let kind = AdapterKind::from_model(&self.model);
                let kind = kind.map_err(|error| OpenModelError::Client(error.to_string()))?;
                provider_of(kind).to_owned()
            }
        };
        known_provider(&name).ok_or_else(|| OpenModelError::UnknownProvider {
            hint: super::names::hint(&name),
            provider: name,
        })
    }

    fn find_base_url(&self, known: &KnownProvider) -> Result<Option<String>, OpenModelError> {
        let bad = |problem| {
            let provider = known.name.to_owned();
            OpenModelError::BadUrl { provider, problem }
        };
        let from_environment = || known.base_url.and_then(|variable| (self.variable)(variable));
        let url = match &self.base_url {
            Some(url) => url.clone(),
            None => match from_environment() {
                // The variables leave out the path that the tools that made them customary add.
                Some(url) => match known.name {
                    "anthropic" => format!("{}/v1", url.trim_end_matches('/')),
                    "google" => format!("{}/v1beta", url.trim_end_matches('/')),
                    "ollama" if !url.contains("://") => format!("http://{url}"),
                    _ => url,
                },
                None => return Ok(None),
            },
        };
        let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))
        else {
            return Err(bad("has to begin with `http://` or `https://`"));
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.is_empty() {
            return Err(bad("names no host"));
        }
        if host.contains('@') {
            return Err(bad("holds a password; give a key instead"));
        }
        if rest.contains(['?', '#']) {
            return Err(bad("has a query or a fragment"));
        }
        Ok(Some(if url.ends_with('/') { url } else { format!("{url}/") }))
    }

    fn find_key(
        &self,
        known: &KnownProvider,
        is_elsewhere: bool,
    ) -> Result<Option<Secret>, OpenModelError> {
        if let Some(key) = &self.key {
            return Ok(Some(key.clone()));
        }
        let found = known.keys.iter().find_map(|variable| (self.variable)(variable));
        if found.is_none() && !known.keys.is_empty() && !is_elsewhere {
            let variables: Vec<String> =
                known.keys.iter().map(|name| format!("`{name}`")).collect();
            let (provider, variables) = (known.name.to_owned(), variables.join(" or "));
            return Err(OpenModelError::MissingKey { provider, variables });
        }
        Ok(found.map(Secret::from))
    }
}

impl Model for ProviderModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn provider(&self) -> &str {
        self.provider
    }

    fn max_output_tokens(&self) -> Option<u64> {
        self.max_output_tokens
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> ModelStream<'a> {
        answer::stream(self, request)
    }
}

impl fmt::Debug for ProviderModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, provider) = (&self.name, &self.provider);
        f.debug_struct("ProviderModel")
            .field("name", name)
            .field("provider", provider)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProviderModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderModelBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}

/// The host of a base URL, without its port.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}

/// Which protocol is spoken.
fn kind_of(known: &KnownProvider, model: &str, is_elsewhere: bool) -> AdapterKind {
    match known.name {
        "openai" if is_elsewhere => AdapterKind::OpenAI,
        "openai" => match AdapterKind::from_model(model) {
            Ok(AdapterKind::OpenAIResp) => AdapterKind::OpenAIResp,
            _ => AdapterKind::OpenAI,
        },
        "openai-responses" => AdapterKind::OpenAIResp,
        "anthropic" => AdapterKind::Anthropic,
        "google" => AdapterKind::Gemini,
        "ollama" => AdapterKind::Ollama,
        "openrouter" => AdapterKind::OpenRouter,
        "groq" => AdapterKind::Groq,
        "x-ai" => AdapterKind::Xai,
        "deepseek" => AdapterKind::DeepSeek,
        "mistral" => AdapterKind::Mistral,
        "together" => AdapterKind::Together,
        "moonshotai" => AdapterKind::Moonshot,
        _ => AdapterKind::OpenAI,
    }
}

/// The provider that a model's name implies, by a name in [`PROVIDERS`](super::PROVIDERS) or in the form of `genai`
/// for one that is not listed.
fn provider_of(kind: AdapterKind) -> &'static str {
    match kind {
        AdapterKind::OpenAI | AdapterKind::OpenAIResp => "openai",
        AdapterKind::Gemini | AdapterKind::GeminiIx => "google",
        AdapterKind::Xai => "x-ai",
        AdapterKind::OpenRouter => "openrouter",
        AdapterKind::Moonshot => "moonshotai",
        other => other.as_lower_str(),
    }
}
