//! Models: what answers a request, streaming first.
//!
//! A model is asked with a borrowed [`ModelRequest`] and answers with a stream of [`ModelEvent`]s that ends
//! with [`ModelEvent::End`]. A stream that ends without it is an error: a cut answer must not look like a
//! finished one. Dropping the stream cancels the request; the connection closes.

mod names;
mod open;
mod open_error;
#[cfg(feature = "models")]
mod provider;
#[cfg(feature = "transcripts")]
mod replay;
mod scripted;
mod scripted_response;
mod secret;
mod timeouts;

use std::fmt;

use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::message::{Message, ToolCall};
use crate::tool::ToolSpec;

pub use crate::limits::MAX_REMEMBERED;
#[cfg(feature = "transcripts")]
pub use crate::limits::MAX_REPLIES;
pub use endstop_price::ReportedUsage;
pub use endstop_runtime::{ErrorBilling, ModelError, ModelErrorKind, ProviderApi};
pub use names::{KnownProvider, PROVIDERS, known_provider};
pub use open::{OpenOptions, open};
pub use open_error::OpenModelError;
#[cfg(feature = "models")]
pub use provider::{ProviderModel, ProviderModelBuilder};
#[cfg(feature = "transcripts")]
pub use replay::{ReplayModel, ReplayModelError, UNRECORDED_TOOL};
pub use scripted::{RecordedRequest, ScriptedModel};
pub use scripted_response::ScriptedResponse;
pub use secret::Secret;
pub use timeouts::Timeouts;

/// The input of a model call.
///
/// ```
/// use endstop::message::Message;
/// use endstop::model::{Model, ModelEvent, ModelRequest, ScriptedModel, ScriptedResponse, ToolChoice};
/// use futures_util::StreamExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let messages = [Message::user("What is the answer?")];
/// let request = ModelRequest {
///     system: "Be brief.",
///     messages: &messages,
///     tools: &[],
///     tool_choice: ToolChoice::None,
///     max_output_tokens: Some(100),
/// };
/// let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two."));
/// let first = model.stream(request).next().await.unwrap()?;
/// assert_eq!(first, ModelEvent::Text("Forty-two.".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// The instructions of the agent's author, before the conversation; empty for none.
    pub system: &'a str,
    /// The conversation, oldest first.
    pub messages: &'a [Message],
    /// The tools that may be called; none during a wrap-up.
    pub tools: &'a [ToolSpec],
    /// Whether tools may or must be called.
    pub tool_choice: ToolChoice,
    /// The most output tokens that the response may have, reasoning included; the budget depends on it.
    pub max_output_tokens: Option<u64>,
}

/// Whether tools may or must be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool may be called.
    None,
    /// A tool must be called.
    Required,
}

/// A piece of an answer.
///
/// See the example of [`Model`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// A piece of the response's text, in order; any split.
    Text(String),
    /// Its reasoning, in order; any split. Never matched by conditions, never kept.
    Reasoning(String),
    /// A whole tool call.
    ToolCall(ToolCall),
    /// Usage that the provider has reported so far, such as the input at the start of a stream. The last report
    /// counts, and only if the response is incomplete. Boxed, like the end: most of a stream's many events are small.
    Usage(Box<ReportedUsage>),
    /// The answer is complete. Nothing follows.
    End(Box<ModelEnd>),
}

/// The end of a model response.
///
/// See the example of [`Model`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelEnd {
    /// The model that answered, as the provider names it (`gen_ai.response.model`).
    pub model: Option<String>,
    /// Usage as the provider reported it, with the cost if it reports one. `None` or a report that leaves tokens out: the
    /// call is charged as `docs/semantics.md` says ("Charging when usage is missing").
    pub usage: Option<ReportedUsage>,
    /// The provider's finish reason, raw.
    pub finish: Option<String>,
    /// Data that the provider needs back unchanged with the response.
    pub opaque: Vec<Value>,
}

/// The stream of one answer. Nothing is sent before it is first polled. Dropping it cancels the request.
pub type ModelStream<'a> = BoxStream<'a, Result<ModelEvent, ModelError>>;

/// Something that answers requests.
///
/// ```
/// use endstop::agent::AgentLoop;
/// use endstop::core::condition::named::max_steps;
/// use endstop::model::{Model, ModelEvent, ModelRequest, ModelStream};
/// use futures_util::{StreamExt, stream};
///
/// /// Says what it was told.
/// #[derive(Debug)]
/// struct Echo;
///
/// impl Model for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///     fn stream<'a>(&'a self, request: ModelRequest<'a>) -> ModelStream<'a> {
///         let text = request.messages.last().map_or("", |message| message.text()).to_owned();
///         let events = [ModelEvent::Text(text), ModelEvent::End(Box::default())];
///         stream::iter(events.map(Ok)).boxed()
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = AgentLoop::builder("parrot").model(Echo).stop_when(max_steps(5)).build()?;
/// assert_eq!(agent.run("Hello").await?.final_response(), Some("Hello"));
/// # Ok(())
/// # }
/// ```
pub trait Model: Send + Sync + fmt::Debug {
    /// The model as requests name it (`gen_ai.request.model`); prices are looked up by it.
    fn name(&self) -> &str;

    /// The provider (`gen_ai.provider.name`), such as `openai`; empty where prices need none.
    fn provider(&self) -> &str {
        ""
    }

    /// The most output tokens of a response to a request without a cap, if the model has such a bound.
    fn max_output_tokens(&self) -> Option<u64> {
        None
    }

    /// Begins an answer. It is called once the run is known not to be aborted. A panic counts as a failed answer.
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> ModelStream<'a>;
}

impl<M: Model + ?Sized> Model for std::sync::Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn provider(&self) -> &str {
        (**self).provider()
    }

    fn max_output_tokens(&self) -> Option<u64> {
        (**self).max_output_tokens()
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> ModelStream<'a> {
        (**self).stream(request)
    }
}
