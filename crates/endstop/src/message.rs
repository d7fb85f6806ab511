//! The conversation: plain values that can be saved, sent and compared.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use endstop_runtime::{ToolCall, ToolOutcome};

/// One message of a conversation.
///
/// The JSON form has `role` (`system`, `user`, `assistant`, `tool`) and the fields of the variant.
///
/// ```
/// use endstop::message::Message;
///
/// let message = Message::user("What is the answer?");
/// let json = serde_json::to_string(&message)?;
/// assert_eq!(json, r#"{"role":"user","text":"What is the answer?"}"#);
/// assert_eq!(serde_json::from_str::<Message>(&json)?.text(), message.text());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions: of the agent's author, or a note of the loop in the middle of the conversation. Not
    /// counted by `messages`.
    System {
        /// The words.
        text: String,
    },
    /// A person's or program's words.
    User {
        /// The words.
        text: String,
    },
    /// The model's response.
    Assistant {
        /// The text of the response; may be empty next to tool calls.
        #[serde(default)]
        text: String,
        /// The calls that it asks for, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Data that the provider needs back unchanged, such as signed reasoning. Never shown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        opaque: Vec<Value>,
    },
    /// The answer to one tool call. Every call gets exactly one.
    Tool {
        /// [`ToolCall::id`].
        id: String,
        /// The tool's name.
        tool: String,
        /// The outcome of the call.
        #[serde(default)]
        outcome: ToolOutcome,
        /// The result as the model sees it.
        text: String,
    },
}

/// The weight of a message without its text, in tokens: role, separators, ids. Above the use of any provider's
/// template seen so far.
pub const TOKENS_PER_MESSAGE: u64 = 16;

impl Message {
    /// Creates a system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { text: text.into() }
    }

    /// Creates a user's message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// Creates a response without tool calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new(), opaque: Vec::new() }
    }

    /// Returns the words.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::System { text }
            | Self::User { text }
            | Self::Assistant { text, .. }
            | Self::Tool { text, .. } => text,
        }
    }

    /// Returns the tool calls that the message requests; empty unless it is a model response.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant { tool_calls, .. } => tool_calls,
            _ => &[],
        }
    }

    /// Returns a bound of the tokens that the message is as input: its bytes, since no byte-level tokenizer makes
    /// more tokens than there are bytes, and [`TOKENS_PER_MESSAGE`]. O(tool calls).
    #[must_use]
    pub fn token_bound(&self) -> u64 {
        let bytes = match self {
            Self::System { text } | Self::User { text } => text.len(),
            Self::Assistant { text, tool_calls, opaque } => {
                let calls = tool_calls.iter().map(|call| {
                    call.id.len() + call.tool.len() + call.arguments.len() + TOKENS_PER_CALL
                });
                let kept = opaque.iter().map(|value| value.to_string().len());
                text.len() + calls.sum::<usize>() + kept.sum::<usize>()
            }
            Self::Tool { id, tool, text, .. } => id.len() + tool.len() + text.len(),
        };
        u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(TOKENS_PER_MESSAGE)
    }
}

/// Like [`TOKENS_PER_MESSAGE`], for one tool call of a response.
pub(crate) const TOKENS_PER_CALL: usize = 16;
