//! Tool calls as drivers, observers and models name them.

use serde::{Deserialize, Serialize};

/// A call that the model asks for.
///
/// `endstop-llm` has a type of the same fields for calls as they are read from the wire. Neither crate depends on the
/// other: a reader of responses needs no ledger, and a custom driver needs no readers. This one is stored.
///
/// ```
/// use endstop_runtime::ToolCall;
///
/// let (id, tool) = ("call_1".to_owned(), "shell".to_owned());
/// let call = ToolCall { id, tool, arguments: r#"{"command":"ls"}"#.to_owned() };
/// let stored = serde_json::to_string(&call)?;
/// assert_eq!(serde_json::from_str::<ToolCall>(&stored)?, call);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call; unique within a response.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments as the model gave them: JSON text, or whatever it wrote instead.
    pub arguments: String,
}

/// The outcome of a tool call.
///
/// ```
/// use endstop_runtime::ToolOutcome;
///
/// assert!(ToolOutcome::TimedOut.was_executed() && ToolOutcome::TimedOut.is_error());
/// assert!(!ToolOutcome::Refused.was_executed());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It ran and has a result.
    #[default]
    Succeeded,
    /// It ran and failed.
    Failed,
    /// It ran longer than it may.
    TimedOut,
    /// It was aborted.
    Aborted,
    /// Not run: its arguments do not fit the tool's schema.
    Invalid,
    /// Not run: there is no such tool.
    Unknown,
    /// Not run: a hook blocked it.
    Blocked,
    /// Not run: a limit refused it.
    Refused,
    /// Not run: the run was stopped before its turn came.
    NotExecuted,
}

impl ToolOutcome {
    /// Returns whether the call was dispatched.
    #[must_use]
    pub const fn was_executed(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::TimedOut | Self::Aborted)
    }

    /// Returns whether the model sees it as failed.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Succeeded)
    }
}
