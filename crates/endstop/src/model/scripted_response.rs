//! The responses that a script gives.

use std::time::Duration;

use endstop_core::units::{Money, TokenUsage};
use serde_json::Value;

use super::{ModelEnd, ModelError, ModelErrorKind, ReportedUsage};
use crate::message::ToolCall;

/// One response of a [`ScriptedModel`](super::ScriptedModel): what it says, asks for and reports, how fast,
/// and how it ends.
///
/// It plays its reasoning, then its text, then its tool calls, then its ending. By default it is undivided, instant
/// and complete, finishes with `stop` or `tool_calls`, and reports one token for every four bytes of the request and
/// of itself.
///
/// ```
/// use endstop::agent::AgentLoop;
/// use endstop::core::condition::named::max_steps;
/// use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new("scripted")
///     .reply(ScriptedResponse::error(ModelErrorKind::RateLimited))
///     .reply(ScriptedResponse::text("Forty-two.").usage(120, 3));
/// let agent = AgentLoop::builder("answerer").model(model).stop_when(max_steps(5)).build()?;
/// let state = agent.run("What is the answer?").await?;
/// assert_eq!(state.steps()[0].attempts, 2);
/// assert_eq!(state.usage().total(), 123);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedResponse {
    pub(super) reasoning: String,
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) reported: Option<Box<ReportedUsage>>,
    pub(super) tokens: Option<TokenUsage>,
    pub(super) reasoning_tokens: Option<u64>,
    pub(super) billed: Option<Money>,
    pub(super) ending: Ending,
    /// 0 for whole texts.
    pub(super) piece_bytes: usize,
    pub(super) delay: Duration,
    pub(super) piece_delay: Duration,
    pub(super) hides_usage: bool,
    pub(super) hides_finish: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    End(Box<ModelEnd>),
    Fail(ModelError),
    Stall,
    Cut,
}

impl Default for ScriptedResponse {
    fn default() -> Self {
        Self {
            reasoning: String::new(),
            text: String::new(),
            calls: Vec::new(),
            reported: None,
            tokens: None,
            reasoning_tokens: None,
            billed: None,
            ending: Ending::End(Box::default()),
            piece_bytes: 0,
            delay: Duration::ZERO,
            piece_delay: Duration::ZERO,
            hides_usage: false,
            hides_finish: false,
        }
    }
}

impl ScriptedResponse {
    /// Creates a text response.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a response that asks for one tool call; more can be added with [`tool_call`](Self::tool_call).
    pub fn call(tool: impl Into<String>, arguments: Value) -> Self {
        Self::default().tool_call(tool, arguments)
    }

    /// Creates an answer that fails.
    #[must_use]
    pub fn error(kind: ModelErrorKind) -> Self {
        Self::default().fail(kind, None)
    }

    /// Asks for a tool call. Its id is `call_1` and so on, by its place in the response, so that the same
    /// script gives the same ids in every run.
    #[must_use]
    pub fn tool_call(self, tool: impl Into<String>, arguments: Value) -> Self {
        self.raw_tool_call(tool, arguments.to_string())
    }

    /// Asks for a tool call with arguments that need not be JSON.
    #[must_use]
    pub fn raw_tool_call(self, tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let id = format!("call_{}", self.calls.len().saturating_add(1));
        self.identified_call(ToolCall { id, tool: tool.into(), arguments: arguments.into() })
    }

    /// Asks for this tool call, with the id that it has.
    #[must_use]
    pub fn identified_call(mut self, call: ToolCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Adds reasoning before the text.
    #[must_use]
    pub fn reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = reasoning.into();
        self
    }

    /// Reports these tokens before it says anything, as providers do that count the input first.
    #[must_use]
    pub fn reports_early(mut self, reported: impl Into<ReportedUsage>) -> Self {
        self.reported = Some(Box::new(reported.into()));
        self
    }

    /// Reports tokens, none of them cached.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.tokens(TokenUsage { input, output, ..TokenUsage::default() })
    }

    /// Reports tokens by class.
    #[must_use]
    pub const fn tokens(mut self, usage: TokenUsage) -> Self {
        self.tokens = Some(usage);
        self
    }

    /// Reports how many of the output tokens were reasoning.
    #[must_use]
    pub const fn reasoning_tokens(mut self, tokens: u64) -> Self {
        self.reasoning_tokens = Some(tokens);
        self
    }

    /// Reports no tokens, as some providers do.
    #[must_use]
    pub const fn without_usage(mut self) -> Self {
        self.hides_usage = true;
        self.tokens = None;
        self
    }

    /// Reports what the call cost.
    #[must_use]
    pub const fn cost(mut self, cost: Money) -> Self {
        self.billed = Some(cost);
        self
    }

    /// Reports no cost.
    #[cfg(feature = "transcripts")]
    pub(super) const fn without_cost(mut self) -> Self {
        self.billed = None;
        self
    }

    /// Reports this finish reason.
    #[must_use]
    pub fn finish(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.with_end(|end| end.finish = Some(reason))
    }

    /// Reports no finish reason.
    #[must_use]
    pub fn without_finish(mut self) -> Self {
        self.hides_finish = true;
        self.with_end(|end| end.finish = None)
    }

    /// Reports the model that answered.
    #[must_use]
    pub fn answered_by(self, model: impl Into<String>) -> Self {
        let model = model.into();
        self.with_end(|end| end.model = Some(model))
    }

    /// Adds an opaque item that the next request must return unchanged.
    #[must_use]
    pub fn opaque(self, value: Value) -> Self {
        self.with_end(|end| end.opaque.push(value))
    }

    /// Waits before the first piece.
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before every further piece, and before the ending.
    #[must_use]
    pub const fn piece_delay(mut self, delay: Duration) -> Self {
        self.piece_delay = delay;
        self
    }

    /// Splits text and reasoning into pieces of at most `bytes` bytes, never inside a character. 0 splits nothing.
    #[must_use]
    pub const fn pieces_of(mut self, bytes: usize) -> Self {
        self.piece_bytes = bytes;
        self
    }

    /// Fails after what it said.
    #[must_use]
    pub fn fail(self, kind: ModelErrorKind, retry_after: Option<Duration>) -> Self {
        let error = ModelError { retry_after, ..ModelError::new(kind, "as the script says") };
        self.fail_with(error)
    }

    /// Fails with this error after what it said.
    #[must_use]
    pub fn fail_with(mut self, error: ModelError) -> Self {
        self.ending = Ending::Fail(error);
        self
    }

    /// Makes the response never end after its text.
    #[must_use]
    pub fn stall(mut self) -> Self {
        self.ending = Ending::Stall;
        self
    }

    /// Ends the stream after its content, without [`ModelEvent::End`](super::ModelEvent::End).
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// The contents of an ending do not matter to a response that has none.
    fn with_end(mut self, change: impl FnOnce(&mut ModelEnd)) -> Self {
        if let Ending::End(end) = &mut self.ending {
            change(end);
        }
        self
    }
}
