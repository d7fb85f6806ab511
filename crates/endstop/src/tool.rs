//! Tools that a model may call.
//!
//! A tool is a name, a description, a JSON Schema of its arguments, and something to run. Most are made from
//! a function whose argument type derives the schema (`function.rs`). Whatever a tool returns, fails with or
//! panics with becomes a result that the model reads; only an [`AgentStop`] stops the loop.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::signal::{AgentStop, StopSignal};
use endstop_core::units::Money;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::MAX_CAUSES;
use crate::message::ToolCall;
use endstop_runtime::CostReport;
use endstop_runtime::cancel::CancelToken;
use endstop_runtime::store::RunId;

pub mod answers;
pub mod builtin;
mod function;
mod nearest;
mod schema;
mod set;

pub use function::FunctionTool;
pub use schema::{ArgumentSchema, ArgumentsError, SchemaError};
pub use set::{ToolEntry, ToolSet, ToolSetError, is_tool_name};

pub use crate::limits::{
    MAX_ARGUMENTS_BYTES, MAX_ARGUMENTS_DEPTH, MAX_PROBLEM_BYTES, MAX_PROBLEMS, MAX_SCHEMA_BYTES,
    MAX_TOOL_DESCRIPTION_BYTES, MAX_TOOL_NAME_BYTES, MAX_TOOLS,
};

/// The description of a tool that the model sees.
///
/// See the example of [`Tool`].
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name; 1 to 64 of `[A-Za-z0-9_-]`, which all providers accept.
    pub name: String,
    /// A description of its work, for the model.
    pub description: String,
    /// The JSON Schema of the arguments object.
    pub parameters: Value,
}

/// The surroundings of a tool call.
///
/// ```
/// use endstop::tool::ToolContext;
///
/// let context = ToolContext::detached();
/// assert_eq!(context.depth, 0);
/// assert!(!context.cancel.is_cancelled(), "a long call looks at this between its parts");
/// ```
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The run that asks.
    pub run: RunId,
    /// The agent that asks.
    pub agent: String,
    /// Nesting depth of that run; the root is 0.
    pub depth: u32,
    /// Cancelled with [`Urgency::Now`](endstop_runtime::cancel::Urgency::Now) when calls in flight must be aborted.
    pub cancel: CancelToken,
    /// The loop's own record of the calling run; a sub-agent's run begins below it.
    pub(crate) caller: Option<Arc<dyn Any + Send + Sync>>,
    /// The cost of the call so far, if the tool has reported it.
    pub(crate) cost: CostReport,
}

impl ToolContext {
    /// Creates a context outside every run, to call a tool from a test or from your own program.
    #[must_use]
    pub fn detached() -> Self {
        Self {
            run: RunId::new(),
            agent: String::new(),
            depth: 0,
            cancel: CancelToken::default(),
            caller: None,
            cost: CostReport::default(),
        }
    }

    /// Reports the cost of the whole call so far, in place of an earlier report. It is charged if the call fails, panics
    /// or is aborted, and if its output reports no cost ([`ToolOutput::with_cost`]).
    pub fn report_cost(&self, cost: Money) {
        self.cost.set(cost);
    }
}

/// Something that a model may call.
///
/// [`FunctionTool`] is enough for most. A tool whose schema is known only at run time has its own type:
///
/// ```
/// use std::sync::Arc;
/// use endstop::message::ToolCall;
/// use endstop::tool::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
/// use futures_util::future::BoxFuture;
/// use serde_json::json;
///
/// struct Clock(ToolSpec);
///
/// impl Tool for Clock {
///     fn spec(&self) -> &ToolSpec {
///         &self.0
///     }
///     fn call(
///         self: Arc<Self>,
///         _: ToolCall,
///         _: ToolContext,
///     ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
///         Box::pin(async { Ok(ToolOutput::text("noon")) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (name, description) = ("clock".to_owned(), "Tells the time.".to_owned());
/// let clock = Clock(ToolSpec { name, description, parameters: json!({ "type": "object" }) });
/// let output = Arc::new(clock).call(ToolCall::default(), ToolContext::detached()).await;
/// assert_eq!(output.unwrap().text, "noon");
/// # }
/// ```
pub trait Tool: Send + Sync {
    /// The description that the model sees.
    fn spec(&self) -> &ToolSpec;

    /// Runs one call, whose arguments fit the schema.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::Failed`] becomes the result that the model reads; [`ToolError::Stop`] stops the loop. A
    /// panic counts as a failure.
    ///
    /// # Cancel safety
    ///
    /// When the run is aborted, or the tool's time is over, the future is dropped, unless [`Tool::can_abort`] is
    /// `false`.
    fn call(
        self: Arc<Self>,
        call: ToolCall,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;

    /// How long a call may take; `None`: as long as the run.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether dropping the future ends the work of the call. A tool for which this is `false` runs as a separate
    /// task and is reported as still running when the run does not wait for it.
    fn can_abort(&self) -> bool {
        true
    }

    /// The most that one call can cost, in addition to the tokens of the model: the charge of a search service, an
    /// image model or a paid API. Before the call begins, this amount is reserved in the budgets of the run and its
    /// ancestors. If it does not fit, the call is refused and the run stops with `cost_limit`. The call is charged
    /// the cost it reports ([`ToolOutput::with_cost`]), and this amount if it reports nothing. `None`: it costs
    /// nothing, or only the cost it reports.
    fn cost_at_most(&self) -> Option<Money> {
        None
    }

    /// Whether the call begins a child run, which draws on this run's ledger.
    fn is_agent(&self) -> bool {
        false
    }
}

/// The result of a tool call.
///
/// ```
/// use endstop::tool::ToolOutput;
///
/// let output = ToolOutput::text("3 of 20 tests fail").with_fact("failing", 3);
/// assert_eq!(output.facts, [("failing".to_owned(), 3)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The result as the model sees it.
    pub text: String,
    /// Numbers for the condition `fact("name")`.
    pub facts: Vec<(String, u64)>,
    /// The agent that is to continue.
    pub handoff: Option<Handoff>,
    /// The call counts as failed, and the model reads the text as it is. An error of the tool is shortened.
    pub is_failed: bool,
    /// The cost of the call, without the tokens of the model; `None`: the cost that the tool declares
    /// ([`Tool::cost_at_most`]).
    pub cost: Option<Money>,
}

/// The agent that is to continue, on the same ledger.
///
/// ```
/// use endstop::tool::{Handoff, ToolOutput};
///
/// let handoff = Handoff { to: "reviewer".to_owned(), message: "Look at main.rs.".to_owned() };
/// let output = ToolOutput::from(handoff);
/// assert_eq!(output.text, "handed off to reviewer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Its name.
    pub to: String,
    /// The first message to the next agent.
    pub message: String,
}

impl ToolOutput {
    /// Creates a result.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Reports a number for the condition `fact("name")`.
    #[must_use]
    pub fn with_fact(mut self, name: impl Into<String>, value: u64) -> Self {
        self.facts.push((name.into(), value));
        self
    }

    /// Reports the cost of the call, without the tokens of the model. A cost above the declared one is charged in
    /// full.
    #[must_use]
    pub const fn with_cost(mut self, cost: Money) -> Self {
        self.cost = Some(cost);
        self
    }
}

impl From<Handoff> for ToolOutput {
    fn from(handoff: Handoff) -> Self {
        let text = format!("handed off to {}", handoff.to);
        Self { text, handoff: Some(handoff), ..Self::default() }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::text(value.to_string())
    }
}

impl From<()> for ToolOutput {
    fn from((): ()) -> Self {
        Self::text("done")
    }
}

/// Why a call has no result.
///
/// Every error converts into it with `?`. An [`AgentStop`] or a [`StopSignal`] among them stops the loop. The model reads any
/// other error, and may recover.
///
/// ```
/// use endstop::core::signal::{StopReason, StopSignal};
/// use endstop::tool::ToolError;
///
/// fn read(text: &str) -> Result<u64, ToolError> {
///     if text.is_empty() {
///         Err(StopSignal::new(StopReason::StopRequested))?;
///     }
///     Ok(text.parse::<u64>()?)
/// }
///
/// assert!(matches!(read("many"), Err(ToolError::Failed(_))), "the model reads why");
/// assert!(matches!(read(""), Err(ToolError::Stop(_))), "the loop stops");
/// ```
pub enum ToolError {
    /// Stop the loop.
    Stop(Box<AgentStop>),
    /// The call failed; the model reads why.
    Failed(String),
}

impl ToolError {
    /// Creates a failure in words.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(stop) => f.debug_tuple("Stop").field(stop).finish(),
            Self::Failed(message) => f.debug_tuple("Failed").field(message).finish(),
        }
    }
}

// Not an error itself: else `?` could not take every error.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        // An error type of the tool's own may carry the stop.
        let stop = causes(&error).find_map(|cause| {
            let signal = || cause.downcast_ref::<StopSignal>().cloned().map(AgentStop::from);
            cause.downcast_ref::<AgentStop>().cloned().or_else(signal)
        });
        match stop {
            Some(stop) => Self::Stop(Box::new(stop)),
            None => Self::Failed(with_causes(&error)),
        }
    }
}

/// An error with its causes, joined by colons.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let more = cause.to_string();
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source()).take(MAX_CAUSES)
}
