//! Model calls as the scripted model saw them.

use crate::Api;
use crate::limits::MODEL_CHARS;
use crate::request::{SimRequest, ToolChoice};

/// A model call that reached the scripted model.
///
/// See the example of [`Sim`](crate::Sim).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimCall {
    /// The API.
    pub api: Api,
    /// The model.
    pub model: String,
    /// Whether the request asks for a stream.
    pub is_stream: bool,
    /// Whether the request asks for usage in the stream; always `true` if the API sends it anyway.
    pub wants_usage: bool,
    /// Messages or items in the request.
    pub messages: usize,
    /// Results of tools in the request.
    pub results: usize,
    /// Tools that may be called: none where `tool_choice` forbids it.
    pub tools: usize,
    /// The output cap, in tokens.
    pub output_cap: Option<u64>,
    /// Bytes of the body.
    pub bytes: usize,
}

impl SimCall {
    pub(crate) fn of(request: &SimRequest, bytes: usize) -> Self {
        let may_call = request.choice != ToolChoice::None;
        Self {
            api: request.api,
            model: request.model.chars().take(MODEL_CHARS).collect(),
            is_stream: request.is_stream,
            wants_usage: request.wants_usage,
            messages: request.messages,
            results: request.results,
            tools: if may_call { request.tools.len() } else { 0 },
            output_cap: request.cap,
            bytes,
        }
    }
}
