//! The interfaces that are read: what a request asks for, what an answer says, how a stop looks in it.
//!
//! Each interface is one file and one [`Dialect`]. To add one: a file, an [`Api`] variant, a row in `route`.

use endstop::core::units::{Money, TokenUsage};
use endstop::message::ToolCall;
use endstop::price::{CallContext, Unit, UsageCounts};
use http::StatusCode;
use thiserror::Error;

use crate::json::Object;
use crate::sse::SseEvent;
use crate::stop::StopText;

mod again;
#[cfg(test)]
mod again_tests;
mod chat;
mod demand;
#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
pub(crate) mod garbage;
mod gemini;
mod messages;
#[cfg(test)]
mod money_tests;
mod parts;
mod progress;
mod reply;
mod responses;
mod strict;
mod usage;
mod weigh;

/// The interface that a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini,
    /// Counts tokens and costs nothing: Anthropic `count_tokens`, Gemini `countTokens`.
    CountTokens,
    /// Lists models and costs nothing.
    Models,
    /// Anything else under the upstream: passes untouched, counted as a request.
    Other,
}

impl Api {
    /// How the interface is read; none for those whose answers have no usage.
    #[must_use]
    pub fn dialect(self) -> Option<&'static dyn Dialect> {
        match self {
            Self::Chat => Some(&chat::Chat),
            Self::Responses => Some(&responses::Responses),
            Self::Messages => Some(&messages::Messages),
            Self::Gemini => Some(&gemini::Gemini),
            Self::CountTokens | Self::Models | Self::Other => None,
        }
    }
}

/// How errors of OpenAI look, where no request was read.
pub(crate) const CHAT: &dyn Dialect = &chat::Chat;
/// How errors of Anthropic look.
pub(crate) const MESSAGES: &dyn Dialect = &messages::Messages;
/// How errors of Gemini look.
pub(crate) const GEMINI: &dyn Dialect = &gemini::Gemini;

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The model; empty where none is named.
    pub model: String,
    /// Other models that may answer in its stead.
    pub fallbacks: Vec<String>,
    /// Whether the answer is to be a stream of events.
    pub is_stream: bool,
    /// Whether the answer is to be a JSON list of what would be events: Gemini's stream without `alt=sse`. Not
    /// with [`is_stream`](Self::is_stream).
    pub is_list: bool,
    /// Whether the client asked for usage in the stream, or gets it anyway.
    pub wants_usage: bool,
    /// The client's output cap.
    pub output_cap: Option<u64>,
    /// How many answers are asked for at once (`n`, `candidateCount`); at least 1.
    pub choices: u64,
    /// What shape of answer the client insists on.
    pub demands: Demands,
    /// The answer is to be made after the request is answered (`background` of responses): what it uses is told
    /// by another request.
    pub is_background: bool,
    /// Tools that run at the provider are offered: what they read is input too, and is in no request.
    pub has_server_tools: bool,
    /// Most searches by them, each of which has its fee. Where a request sets no limit, this is a guess.
    pub searches: u64,
    /// Something in it may be written to a cache for an hour, which costs more.
    pub may_write_1h: bool,
    /// The tier and speed that are asked for, as they change the price.
    pub context: CallContext,
    /// Names of the tools that are offered.
    pub tools: Vec<String>,
    /// The request continues a thread that the upstream keeps (Anthropic message threads, `previous_response_id`).
    pub thread: Thread,
    /// The id of the answer that the request continues, where it names one (`previous_response_id`).
    pub continues: Option<String>,
    /// The conversation, message by message.
    pub messages: Vec<MessageMark>,
    /// Most tokens that instructions, tools and all else beside the messages can be.
    pub fixed_bound: u64,
    /// Results of tools after the last message of the model, in order.
    pub results: Vec<ToolResult>,
    /// Whether the user said something after the last message of the model.
    pub has_user_message: bool,
    /// Where in the request its members are that may have to be changed; none where nobody has looked.
    pub(crate) root: Option<Object<'static>>,
}

impl Asked {
    /// A bound of the input, twice where tools run at the provider. What those read cannot be known before: this
    /// is room for it, and no strict bound.
    #[must_use]
    pub const fn with_server_tools(&self, bound: u64) -> u64 {
        if self.has_server_tools { bound.saturating_mul(2) } else { bound }
    }
}

/// What is kept of one message: enough to know it again, and how long it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageMark {
    /// Digest of role and content, without marks for caches, which move.
    pub digest: u64,
    /// Most tokens that it can be: its bytes, but for images, which cost what they cost.
    pub bound: u64,
    /// Whether the user wrote it.
    pub is_user: bool,
    /// It refers to a file or a recording whose size is not known here: the bound is a guess.
    pub is_open: bool,
}

/// What shape of answer the client insists on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Demands {
    /// Text will do.
    #[default]
    Text,
    /// A tool call, and a tool named `final_answer` is offered: a call of it ends the loop. With the name of its
    /// argument that takes the text.
    FinalAnswer {
        /// The argument.
        argument: String,
    },
    /// A tool call or JSON of some schema: text would break the contract.
    Structure,
}

/// Whether a request depends on a conversation that the upstream keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thread {
    /// The whole history is in the request.
    #[default]
    Whole,
    /// It has only what is new. The size of the rest is not known.
    Continues,
    /// As `Continues`, and the client resends everything if it is told to (Anthropic message threads).
    CanResend,
}

/// The result of one tool call, as the model will see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id; empty where the interface has none.
    pub id: String,
    /// The tool, where the request names it: in the model's message before, or beside the result.
    pub tool: String,
    /// The arguments as the model gave them, where the request has them.
    pub arguments: String,
    /// The text of the result.
    pub content: String,
    /// Whether the client marked it as failed.
    pub failed: bool,
}

/// What is changed in a request before it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edits<'e> {
    /// The output cap, of each choice.
    pub output_cap: Option<u64>,
    /// A cap that the request has none of stands in the other field than the model's name suggests, where the
    /// interface has two.
    pub other_cap_field: bool,
    /// Ask for usage in the stream.
    pub force_usage: bool,
    /// The wrap-up: no tools, and this note.
    pub finish: Option<&'e str>,
    /// How the wrap-up is kept from tools.
    pub tools_off: ToolsOff,
    /// A note to the model, of a warning.
    pub note: Option<&'e str>,
    /// [`Asked::root`] of the same request, so that it is not read a second time.
    pub(crate) root: Option<&'e Object<'static>>,
}

/// How a wrap-up keeps the model from calling tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolsOff {
    /// By the choice of none of them.
    #[default]
    Forbid,
    /// They are not in the request: for servers that take no such choice.
    Remove,
    /// By the note alone: for servers that take no such choice where the conversation needs its tools.
    Ask,
}

/// What an answer said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The answer's id.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// What it used, if it told.
    pub usage: Option<UsageSeen>,
    /// The finish reason, raw.
    pub finish: Option<String>,
    /// The first choice's text, up to a bound.
    pub text: String,
    /// The calls that it asks for.
    pub tool_calls: Vec<ToolCall>,
    /// Bytes of text, reasoning and arguments of all choices: for an estimate.
    pub output_bytes: u64,
    /// Whether the answer came to its own end.
    pub is_whole: bool,
    /// An error that came inside the stream.
    pub error: Option<String>,
}

/// Usage as a provider counted it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageSeen {
    /// All that was counted, for exact prices.
    pub counts: UsageCounts,
    /// In the core's classes.
    pub tokens: TokenUsage,
    /// Service tier, speed, batch.
    pub context: CallContext,
    /// Output tokens that were reasoning.
    pub reasoning: Option<u64>,
    /// What the provider says that it billed, where it does: it wins over a computed price.
    pub billed: Option<Money>,
    /// It was told before the output was made.
    pub is_preliminary: bool,
}

impl UsageSeen {
    /// Whether it tells all of an answer with this many bytes of output: neither input nor output is left out.
    #[must_use]
    pub const fn is_whole(&self, output_bytes: u64) -> bool {
        let (input, output) = (self.tokens.total_input(), self.tokens.output);
        let has_output = output > 0 && !self.is_preliminary || output_bytes == 0;
        has_output && (input > 0 || output == 0)
    }

    /// The report with these tokens, where it leaves some out; what it counts beside them stands.
    #[must_use]
    pub fn with_tokens(&self, tokens: &TokenUsage) -> Self {
        let mut told = self.clone();
        let all = [("input_tokens", tokens.total_input()), ("output_tokens", tokens.output)];
        for (unit, count) in all {
            // Beyond what can be counted it stays as it was reported.
            let _ = Unit::named(unit).map(|unit| told.counts.set(unit, count));
        }
        told.tokens = *tokens;
        told
    }
}

/// What one event of a stream brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSeen {
    /// New words of the model.
    pub text: String,
    /// It has nothing but usage: a client that did not ask for it does not get it.
    pub is_only_usage: bool,
    /// A tool call begins with it.
    pub begins_call: Option<String>,
}

/// Why a request or an answer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// The answer of the gateway itself to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAnswer {
    /// The status.
    pub status: StatusCode,
    /// `application/json` or `text/event-stream`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// How one interface is read and written.
pub trait Dialect: Send + Sync {
    /// Reads a request. `path` is that of the upstream, with its query.
    ///
    /// # Errors
    /// Where it is not such a request.
    fn read(&self, path: &str, body: &[u8]) -> Result<Asked, Unreadable>;

    /// The request with changes; every other byte stays.
    ///
    /// # Errors
    /// Where it is not such a request.
    fn edit(&self, body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, Unreadable>;

    /// Whether a request is taken without its tools: not by interfaces that want them beside calls in the
    /// conversation.
    fn may_remove_tools(&self, body: &[u8]) -> bool {
        let _ = body;
        true
    }

    /// An answer that is not a stream with the first `keep` of its tool calls, at least one, and without the others.
    ///
    /// # Errors
    /// Where it is not such an answer.
    fn keep_calls(&self, body: &[u8], keep: usize) -> Result<Vec<u8>, Unreadable>;

    /// Reads an answer that is not a stream.
    ///
    /// # Errors
    /// Where it is not such an answer.
    fn answer(&self, body: &[u8]) -> Result<Seen, Unreadable>;

    /// Reads an answer that is a stream. `asked` says what the request was.
    fn stream(&self, asked: &Asked) -> Box<dyn StreamReader>;

    /// The answer that ends the loop of a client by itself: 200, as a stream where that was asked for. Follows
    /// [`Asked::demands`], but gives text where it demands structure.
    fn stop(&self, asked: &Asked, stop: &StopText) -> OwnAnswer;

    /// An error of the interface, with the stop in its message.
    fn error(&self, status: StatusCode, kind: ErrorKind, message: &str) -> OwnAnswer;
}

/// What kind of error, for interfaces that name kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A limit stopped the run: `billing_error`, `insufficient_quota`.
    Stopped,
    /// The request is wrong.
    Invalid,
    /// Anthropic's `thread_unsupported_request`: the client resends the whole history.
    Thread,
    /// The upstream cannot be reached, or something else failed.
    Upstream,
    /// Too much at once.
    Overloaded,
}

/// Whether an event is the mark of the end. What ends otherwise is not looked at from its beginning.
pub(crate) fn is_done(data: &str) -> bool {
    data.trim_end().ends_with("[DONE]") && data.trim() == "[DONE]"
}

/// Reads one stream.
pub trait StreamReader: Send {
    /// Takes in an event.
    fn event(&mut self, event: &SseEvent<'_>) -> EventSeen;

    /// Takes in an event that brings nothing but words, and gives those that count as the answer's text. `None`
    /// where it may be another one: then it was not taken in.
    fn words<'e>(&mut self, event: &SseEvent<'e>) -> Option<&'e str> {
        let _ = event;
        None
    }

    /// Whether the stream could be ended here: no tool call has begun and is not whole.
    fn is_between_blocks(&self) -> bool;

    /// Takes back all tool calls but the first `keep`: they are not passed on, and the stream is ended here. The
    /// first of them began with this event, the last one that was taken in. Gives what is passed on of the event.
    fn refuse(&mut self, event: &SseEvent<'_>, keep: usize) -> Vec<u8>;

    /// What was seen so far.
    fn seen(&self) -> &Seen;

    /// What ends the stream here for a client: text that says why, finish, usage, terminator.
    fn end(&mut self, stop: &StopText) -> Vec<u8>;
}
