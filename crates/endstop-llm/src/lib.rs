//! The model APIs on the wire: requests, responses, streams, usage, errors and stop responses.
//!
//! OpenAI chat completions and responses, Anthropic messages and Gemini `generateContent` differ in every field, but
//! a program that meters or limits model calls asks all four the same questions. Which model, which output cap, how
//! many tokens at most? What did the model say, which tools does it call, what did it use? [`Dialect`] answers them,
//! one implementation per API ([`Api::dialect`]).
//!
//! - A [`CallRequest`] is what a request asks for, with an upper bound of its tokens. [`Dialect::edit`] changes it
//!   without touching another byte.
//! - A [`CallResponse`] is what a response said, read at once or event by event by a [`StreamReader`].
//!   [`sse`] and [`StreamSplitter`] cut the bytes of a stream into events.
//! - [`Dialect::stop`] and [`Dialect::error`] write what a client gets instead of a response of the model.
//!
//! # Example
//!
//! ```
//! use endstop_llm::{Api, Edits};
//!
//! let chat = Api::Chat.dialect();
//! let body = br#"{ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": "hi" }] }"#;
//! let request = chat.read("/v1/chat/completions", body)?;
//! assert_eq!((request.model.as_str(), request.output_cap), ("gpt-4o-mini", None));
//!
//! let edits = Edits { output_cap: Some(500), ..Edits::default() };
//! let changed = String::from_utf8(chat.edit(body, &edits)?)?;
//! assert!(changed.ends_with(r#""content": "hi" }] ,"max_completion_tokens":500}"#), "{changed}");
//!
//! let body = br#"{ "model": "gpt-4o-mini-2024-07-18", "choices": [{ "message": { "content": "Hello" },
//!     "finish_reason": "stop" }], "usage": { "prompt_tokens": 8, "completion_tokens": 2 } }"#;
//! let response = chat.answer(body)?;
//! assert_eq!((response.text.as_str(), response.finish.as_deref()), ("Hello", Some("stop")));
//! assert_eq!(response.usage.map(|usage| usage.tokens.total()), Some(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The price data of `endstop-price` knows how to read a usage object, whatever fields its provider adds. So this
//! crate depends on it instead of reading usage a second time.
//!
//! # Where next
//!
//! Start with [`Api`], [`CallRequest`] and [`CallResponse`]. `endstop-gateway` is built on this crate, and `endstop-sim`
//! plays the same APIs with separate code. The minimum Rust version is 1.95.

mod ambiguous_keys;
mod api;
mod chat;
mod content_kinds;
mod delta_template;
mod dialect;
mod dialects;
mod gemini;
mod json;
mod known_fields;
mod limits;
mod messages;
mod output_contract;
mod output_kinds;
mod parts;
mod plan_window;
mod price_fields;
mod provider_tools;
mod read_error;
mod request;
mod response;
mod response_builder;
mod response_outline;
mod responses;
pub mod sse;
mod stream_splitter;
mod token_bound;
mod usage;

#[cfg(test)]
mod garbage;
#[cfg(test)]
mod tests;

pub use api::Api;
pub use content_kinds::{
    CONTENT_KINDS, ContentHold, ContentKind, ContentMark, DEAR_IMAGES, FILE_TOKENS, IMAGE_TOKENS,
    ImageData, UNKNOWN_FILE,
};
pub use dialect::{Dialect, ErrorKind, StopText, StreamReader, WrittenResponse, is_done};
pub use json::JsonError;
pub use known_fields::KNOWN_FIELDS;
pub use output_kinds::{OUTPUT_KINDS, OutputClass, OutputKind, OutputKinds, SPEECH};
pub use plan_window::{PlanReset, PlanWindow};
pub use price_fields::{
    Attempts, BACKGROUND, FieldRule, HEADERS, PRICE_FIELDS, PriceField, PriceHeader,
    STORED_CONVERSATION,
};
pub use provider_tools::{
    CallSize, ProviderTools, RunCap, TOOL_KINDS, ToolKind, ToolLimit, ToolPlace, ToolReads,
};
pub use read_error::ReadError;
pub use request::{
    CallRequest, CountRequest, Edits, MessageMark, OutputContract, Thread, ToolResult, ToolsOff,
};
pub use response::{CallResponse, EventContent, ToolCall};
pub use stream_splitter::StreamSplitter;
