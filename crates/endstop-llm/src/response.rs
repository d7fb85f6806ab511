//! Model responses, as they are read.

use crate::usage::ReportedUsage;

/// What a response said.
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
    /// Whether the response came to its own end.
    pub is_whole: bool,
    /// An error that came inside the stream.
    pub error: Option<String>,
}

/// What one event of a stream brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventContent {
    /// New words of the model.
    pub text: String,
    /// It has nothing but usage: a client that did not ask for it does not get it.
    pub is_only_usage: bool,
    /// A tool call begins with it.
    pub begins_call: Option<String>,
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
