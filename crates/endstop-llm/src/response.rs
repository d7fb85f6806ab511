//! Model responses, as they are read.

use endstop_price::ReportedUsage;

use crate::PlanWindow;
use crate::limits::{MAX_CALLS, MAX_TEXT};

/// A parsed model response.
///
/// ```
/// use endstop_llm::Api;
///
/// let body = br#"{ "candidates": [{ "content": { "parts": [{ "functionCall": {
///     "name": "read_file", "args": { "path": "a.txt" } } }] }, "finishReason": "STOP" }],
///     "usageMetadata": { "promptTokenCount": 30, "candidatesTokenCount": 8 } }"#;
/// let response = Api::Gemini.dialect().answer(body)?;
/// assert_eq!(response.tool_calls[0].tool, "read_file");
/// assert_eq!(response.usage.map(|usage| usage.tokens.total()), Some(38));
/// # Ok::<(), endstop_llm::ReadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallResponse {
    /// The response's id.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Token usage, if the provider reported it.
    pub usage: Option<ReportedUsage>,
    /// The finish reason, raw.
    pub finish: Option<String>,
    /// The first choice's text, up to a bound.
    pub text: String,
    /// The calls that it asks for.
    pub tool_calls: Vec<ToolCall>,
    /// Bytes of text, reasoning and arguments of all choices: for an estimate.
    pub output_bytes: u64,
    /// Whether the response is complete.
    pub is_whole: bool,
    /// An error that came inside the stream.
    pub error: Option<String>,
}

impl CallResponse {
    /// Returns whether as much is kept as ever is, so that the end of a text or a call may be missing.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let of_calls = self
            .tool_calls
            .iter()
            .map(|call| call.id.len() + call.tool.len() + call.arguments.len());
        let kept = self.text.len() + of_calls.sum::<usize>();
        // A text is cut between two characters, so some bytes may be left.
        self.tool_calls.len() >= MAX_CALLS || kept + char::MAX_LEN_UTF8 > MAX_TEXT
    }
}

/// The contents of one event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventContent {
    /// New text of the response.
    pub text: String,
    /// It has nothing but usage: a client that did not ask for it does not get it.
    pub is_only_usage: bool,
    /// A tool call begins with it.
    pub begins_call: Option<String>,
    /// Windows of the subscription whose use it reports.
    pub windows: Vec<PlanWindow>,
}

/// A tool call that the model asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id of the call, unique within a response. Empty if the API has none.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments as the model wrote them: usually JSON.
    pub arguments: String,
}
