//! Hooks: code of the user that runs at ten moments of a run, and may stop it, let it continue, block a tool call,
//! add to the conversation, or change the request to the model.

use std::fmt;
use std::sync::Arc;

use endstop_core::signal::{AgentStop, ExecutionContinuation, StopSignal};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::state::AgentState;
use crate::message::{Message, ToolCall, ToolOutcome};
use crate::tool::ToolError;

/// The moment at which a hook runs.
///
/// See the example of [`HookContext`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trigger {
    /// Before anything else, once in each process.
    BeforeExecution,
    /// Before a step begins.
    BeforeStep,
    /// Before each request to the model. The messages to send may be changed.
    BeforeModelRequest,
    /// After the model's response was recorded.
    AfterModelResponse,
    /// Before a tool call begins. The call may be blocked.
    BeforeToolUse,
    /// After a tool call was answered.
    AfterToolUse,
    /// After a step has ended.
    AfterStep,
    /// Before the run stops; a continuation may be requested.
    OnStop,
    /// After everything, whatever happened.
    AfterExecution,
    /// After an error of the model, a tool or a hook.
    OnError,
}

impl Trigger {
    /// Every trigger, in the order of a run.
    pub const ALL: &'static [Self] = &[
        Self::BeforeExecution,
        Self::BeforeStep,
        Self::BeforeModelRequest,
        Self::AfterModelResponse,
        Self::BeforeToolUse,
        Self::AfterToolUse,
        Self::AfterStep,
        Self::OnStop,
        Self::AfterExecution,
        Self::OnError,
    ];

    /// Returns the stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeExecution => "before_execution",
            Self::BeforeStep => "before_step",
            Self::BeforeModelRequest => "before_model_request",
            Self::AfterModelResponse => "after_model_response",
            Self::BeforeToolUse => "before_tool_use",
            Self::AfterToolUse => "after_tool_use",
            Self::AfterStep => "after_step",
            Self::OnStop => "on_stop",
            Self::AfterExecution => "after_execution",
            Self::OnError => "on_error",
        }
    }
}

/// The context of a hook, and its requests.
///
/// ```
/// use endstop::agent::{AgentLoop, HookContext, Trigger};
/// use endstop::core::condition::named::max_steps;
/// use endstop::core::signal::{StopReason, StopSignal};
/// use endstop::model::{ScriptedModel, ScriptedResponse};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = AgentLoop::builder("worker")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done.")))
///     .stop_when(max_steps(5))
///     .hook(Trigger::BeforeStep, 0, |hook: &mut HookContext<'_>| {
///         hook.raise(StopSignal::new(StopReason::StopRequested).with_message("not on Sundays"));
///         Ok(())
///     })
///     .build()?;
/// let state = agent.run("Work.").await?;
/// assert_eq!(state.stop_reason(), Some(StopReason::StopRequested));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HookContext<'a> {
    /// When.
    pub trigger: Trigger,
    /// The run as it is. Until `AfterExecution` its status is the one before the decision to end: a continuation may
    /// still be requested. At `OnStop` and `AfterExecution` it has the trip record of the end.
    pub state: &'a AgentState,
    /// The signals that stand before the first hook of this trigger, and whether a continuation is requested.
    pub continuation: &'a ExecutionContinuation,
    /// The call, for the tool triggers.
    pub call: Option<&'a ToolCall>,
    /// The outcome of the call, and the answer that the model will read: after a tool call.
    pub answer: Option<(ToolOutcome, &'a str)>,
    /// The failure, on error.
    pub error: Option<&'a str>,
    pub(super) asked: HookRequests,
}

/// The requests of hooks.
#[derive(Debug, Default)]
pub(super) struct HookRequests {
    pub(super) signals: Vec<StopSignal>,
    pub(super) continue_by: Option<String>,
    /// By which hook, and why.
    pub(super) blocked: Option<(String, String)>,
    pub(super) messages: Option<Vec<Message>>,
    pub(super) appended: Vec<Message>,
    pub(super) metadata: Vec<(String, Value)>,
}

impl HookContext<'_> {
    /// Asks to stop.
    pub fn raise(&mut self, signal: StopSignal) {
        self.asked.signals.push(signal);
    }

    /// Asks to continue despite the current signals; `by` is kept in the override history. Hard rules, cancellation,
    /// the kill switch, errors and limits of a parent stay.
    pub fn request_continuation(&mut self, by: impl Into<String>) {
        self.asked.continue_by = Some(by.into());
    }

    /// Blocks the tool call; the model reads why. Without effect at other triggers.
    pub fn block(&mut self, why: impl Into<String>) {
        if self.trigger == Trigger::BeforeToolUse {
            self.asked.blocked.get_or_insert((String::new(), why.into()));
        }
    }

    /// Sends other messages with this request. The conversation itself stays as it is. Without effect at
    /// other triggers.
    pub fn send_instead(&mut self, messages: Vec<Message>) {
        self.asked.messages = Some(messages);
    }

    /// Adds a message of a user or the system to the end of the conversation, once the hooks of this trigger have run. A
    /// user's message counts as one. It does not let a run continue that is about to end: request a continuation for that.
    ///
    /// # Errors
    ///
    /// Returns an error if it is a message of another kind: the answers of the model and of tools belong to steps.
    pub fn append(&mut self, message: Message) -> HookResult {
        if !matches!(message, Message::User { .. } | Message::System { .. }) {
            return Err(ToolError::failed("a hook appends messages of users and the system only"));
        }
        self.asked.appended.push(message);
        Ok(())
    }

    /// Sets [`AgentState::metadata`] under a key, once the hooks of this trigger have run.
    pub fn set_metadata(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.asked.metadata.push((key.into(), value.into()));
    }

    /// Returns the messages that the request will send, for a hook that changes them further.
    #[must_use]
    pub fn messages_to_send(&self) -> &[Message] {
        self.asked.messages.as_deref().unwrap_or(&self.state.messages)
    }
}

/// The return type of a hook: `?` takes every error, and an [`AgentStop`] raises its signal.
pub type HookResult = Result<(), ToolError>;

/// A hook.
///
/// A function that does not wait is given to [`AgentBuilder::hook`](super::AgentBuilder::hook), see [`HookContext`]. This
/// one waits, and is given to [`AgentBuilder::hook_named`](super::AgentBuilder::hook_named):
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use endstop::agent::{AgentLoop, Hook, HookContext, HookResult, Trigger};
/// use endstop::core::condition::named::max_steps;
/// use endstop::model::{ScriptedModel, ScriptedResponse};
/// use futures_util::future::BoxFuture;
///
/// /// Waits before every step.
/// struct Pace(Duration);
///
/// impl Hook for Pace {
///     fn call<'a>(&'a self, _: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult> {
///         Box::pin(async {
///             tokio::time::sleep(self.0).await;
///             Ok(())
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = AgentLoop::builder("worker")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done.")))
///     .stop_when(max_steps(5))
///     .hook_named(Trigger::BeforeStep, 0, "pace", Arc::new(Pace(Duration::from_secs(2))))
///     .build()?;
/// let state = agent.run("Work.").await?;
/// assert!(state.has_final_response() && state.execution.at_ms >= 2_000);
/// # Ok(())
/// # }
/// ```
pub trait Hook: Send + Sync {
    /// Runs it. An error or panic becomes an `error` signal.
    ///
    /// # Cancel safety
    ///
    /// An abort of the run (kill switch, cancellation, a time limit) drops a future that still waits. Hooks that
    /// begin after that have ten seconds together; hooks after the execution may finish.
    fn call<'a>(&'a self, context: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult>;
}

/// A hook from a function that does not wait.
pub(super) struct FunctionHook<F>(pub(super) F);

impl<F> Hook for FunctionHook<F>
where
    F: Fn(&mut HookContext<'_>) -> HookResult + Send + Sync,
{
    fn call<'a>(&'a self, context: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult> {
        let result = (self.0)(context);
        Box::pin(std::future::ready(result))
    }
}

struct Entry {
    trigger: Trigger,
    priority: i32,
    name: String,
    hook: Arc<dyn Hook>,
}

/// The hooks of an agent, in the order in which they run.
#[derive(Default)]
pub(super) struct Hooks(Vec<Entry>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|entry| (entry.trigger.name(), entry.priority, &entry.name));
        f.debug_list().entries(names).finish()
    }
}

impl Hooks {
    /// Higher priority first, registration order among equals.
    pub(super) fn add(
        &mut self,
        trigger: Trigger,
        priority: i32,
        name: String,
        hook: Arc<dyn Hook>,
    ) {
        let after = |entry: &Entry| (entry.trigger, -i64::from(entry.priority));
        let key = (trigger, -i64::from(priority));
        let place = self.0.partition_point(|entry| after(entry) <= key);
        self.0.insert(place, Entry { trigger, priority, name, hook });
    }

    pub(super) fn has(&self, trigger: Trigger) -> bool {
        self.0.iter().any(|entry| entry.trigger == trigger)
    }

    /// Runs the hooks of the context's trigger. Every one runs, whatever the others did, with one exception: once a
    /// call is blocked, no further hook runs. Returns the failures, by hook.
    pub(super) async fn run(&self, context: &mut HookContext<'_>) -> Vec<(String, String)> {
        let trigger = context.trigger;
        let mut failures = Vec::new();
        for entry in self.0.iter().filter(|entry| entry.trigger == trigger) {
            let before = context.asked.signals.len();
            // The making of the future may panic as well as the future.
            let run = async { entry.hook.call(context).await };
            let result = std::panic::AssertUnwindSafe(run).catch_unwind().await;
            for signal in context.asked.signals.iter_mut().skip(before) {
                signal.source.get_or_insert_with(|| entry.name.clone());
            }
            match result {
                Ok(Ok(())) => {}
                Ok(Err(ToolError::Stop(stop))) => context.asked.signals.push(of(*stop, entry)),
                Ok(Err(ToolError::Failed(why))) => failures.push((entry.name.clone(), why)),
                Err(panic) => {
                    failures.push((entry.name.clone(), format!("panicked: {}", words_of(&*panic))));
                }
            }
            if let Some((by, _)) = &mut context.asked.blocked {
                by.clone_from(&entry.name);
                break;
            }
        }
        failures
    }
}

fn of(stop: AgentStop, entry: &Entry) -> StopSignal {
    stop.into_signal(&entry.name)
}

/// The message of a panic.
pub(super) fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without words".to_owned())
}
