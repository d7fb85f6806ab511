//! How an API is read and written: one trait for all of them.

use http::StatusCode;

use crate::json::{Raw, fields};
use crate::parts::read_object;
use crate::read_error::ReadError;
use crate::request::{CallRequest, CountRequest, Edits};
use crate::response::{CallResponse, EventContent};
use crate::sse::SseEvent;

/// The response of the gateway itself to a call.
///
/// See the example of [`StopText`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenResponse {
    /// The status.
    pub status: StatusCode,
    /// `application/json` or `text/event-stream`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// The reader and writer of one API.
///
/// See the example of [the crate](crate), and of [`CallRequest`], [`Edits`], [`CallResponse`] and [`StopText`].
pub trait Dialect: Send + Sync {
    /// Reads a request. `path` is that of the upstream, with its query.
    ///
    /// # Errors
    /// Returns an error if it is not such a request.
    fn read(&self, path: &str, body: &[u8]) -> Result<CallRequest, ReadError>;

    /// The request with changes; every other byte stays.
    ///
    /// # Errors
    /// Returns an error if it is not such a request.
    fn edit(&self, body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError>;

    /// The request that asks for the number of input tokens of a call, if the API can count. `path` is that of the
    /// call, with its query. Only fields that say nothing about the input are removed: an upstream refuses
    /// unknown fields, while leaving one out would make the count too low.
    fn count_request(&self, path: &str, body: &[u8]) -> Option<CountRequest> {
        let _ = (path, body);
        None
    }

    /// The number of input tokens that the response to it reports.
    fn counted_tokens(&self, body: &[u8]) -> Option<u64> {
        let _ = body;
        None
    }

    /// The JSON of the messages, for APIs without an endpoint that counts: a tokenizer can bound it. Everything else of a
    /// request is [`CallRequest::fixed_bound`]. `None` if the API counts, or the body has no messages.
    fn countable_messages<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        let _ = body;
        None
    }

    /// Whether a request is accepted without its tools: not by APIs that want them if the conversation has calls.
    fn may_remove_tools(&self, body: &[u8]) -> bool {
        let _ = body;
        true
    }

    /// A response that is not a stream with the first `keep` of its tool calls, at least one, and without the others.
    ///
    /// # Errors
    /// Returns an error if it is not such a response.
    fn keep_calls(&self, body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError>;

    /// Reads a response that is not a stream.
    ///
    /// # Errors
    /// Returns an error if it is not such a response.
    fn answer(&self, body: &[u8]) -> Result<CallResponse, ReadError>;

    /// Whether a body is an error in the shape of the API.
    fn is_error(&self, body: &[u8]) -> bool {
        has_error(body)
    }

    /// Reads a response that is a stream. `parsed` says what the request was.
    fn stream(&self, parsed: &CallRequest) -> Box<dyn StreamReader>;

    /// The response that ends the loop of a client naturally: 200, as a stream if the request asks for one. Follows
    /// [`CallRequest::contract`], but returns text if it demands structure.
    fn stop(&self, parsed: &CallRequest, stop: &StopText) -> WrittenResponse;

    /// An error of the API, with the stop in its message.
    fn error(&self, status: StatusCode, kind: ErrorKind, message: &str) -> WrittenResponse;
}

fields! {
    ErrorBody<'j> {
        error: ErrorDetail<'j> = "error",
    }
}

fields! {
    ErrorDetail<'j> {
        message: Raw<'j> = "message",
    }
}

/// An object with an `error` that has a message: the shape of all the APIs. Where Gemini streams a list, its error is the
/// only object of one.
fn has_error(body: &[u8]) -> bool {
    let body = body.trim_ascii();
    let inner = body.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let read = read_object::<ErrorBody<'_>>(inner.unwrap_or(body));
    read.is_ok_and(|body| body.error.message.text().is_some())
}

/// The kind of an error, for APIs that name kinds.
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

/// Returns whether an event is the mark of the end. Only the beginning is compared.
#[must_use]
pub fn is_done(data: &str) -> bool {
    data.trim_end().ends_with("[DONE]") && data.trim() == "[DONE]"
}

/// Reads one stream.
///
/// ```
/// use endstop_llm::{Api, CallRequest, StreamSplitter};
///
/// let stream = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n\
///     data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n\
///     data: [DONE]\n\n";
/// let mut reader = Api::Chat.dialect().stream(&CallRequest::default());
/// let mut splitter = StreamSplitter::new(false, 1 << 20);
/// for mut chunk in stream.chunks(10) {
///     while let Some(frame) = splitter.next_frame(&mut chunk)? {
///         frame.event().map(|event| reader.event(&event));
///     }
/// }
/// assert_eq!(reader.response().text, "Hello");
/// assert_eq!(reader.response().finish.as_deref(), Some("stop"));
/// # Ok::<(), endstop_llm::sse::TooLong>(())
/// ```
pub trait StreamReader: Send {
    /// Records an event.
    fn event(&mut self, event: &SseEvent<'_>) -> EventContent;

    /// Records an event that has only text, and returns the part that counts as the response's text. `None` if it may
    /// be another one: then it was not recorded.
    fn words<'e>(&mut self, event: &SseEvent<'e>) -> Option<&'e str> {
        let _ = event;
        None
    }

    /// Whether the stream could be ended here: no tool call is incomplete.
    fn is_between_blocks(&self) -> bool;

    /// Takes back all tool calls but the first `keep`: they are not passed on, and the stream is ended here. The
    /// first of them began with this event, the last one that was recorded. Returns the part of the event to pass on.
    fn refuse(&mut self, event: &SseEvent<'_>, keep: usize) -> Vec<u8>;

    /// The response so far.
    fn response(&self) -> &CallResponse;

    /// The end of the stream for a client: text that says why, finish, usage, terminator.
    fn end(&mut self, stop: &StopText) -> Vec<u8>;
}

/// Why a run stopped, in words for a client and its model.
///
/// ```
/// use endstop_llm::{Api, StopText};
///
/// let chat = Api::Chat.dialect();
/// let body = br#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}"#;
/// let request = chat.read("/v1/chat/completions", body)?;
/// let text = "The run stopped at its limit of $2.00.".to_owned();
/// let written = chat.stop(&request, &StopText { reason: "cost_limit".to_owned(), text });
/// assert_eq!((written.status.as_u16(), written.content_type), (200, "application/json"));
/// assert!(chat.answer(&written.body)?.text.contains("$2.00"));
/// # Ok::<(), endstop_llm::ReadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopText {
    /// The stop reason, such as `cost_limit`.
    pub reason: String,
    /// One sentence with the numbers; never empty.
    pub text: String,
}
