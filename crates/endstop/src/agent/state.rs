//! The state of an agent's run: plain values that can be saved after any step and resumed elsewhere.

use std::collections::BTreeMap;

use endstop_core::policy::Action;
use endstop_core::run::{Run, RunState, Status};
use endstop_core::signal::{ExecutionContinuation, StopReason, StopSignal};
use endstop_core::trip_record::TripRecord;
use endstop_core::units::{Money, TokenUsage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::message::{Message, ToolCall, ToolOutcome};
use crate::tool::Handoff;
use endstop_runtime::Carried;
use endstop_runtime::observe::CostUncertainty;
use endstop_runtime::store::{MAX_STATE_BYTES, RunId};

/// The version that is written.
pub const VERSION: u32 = 1;

/// Characters of a user's message that become the label: a line of a list.
const LABEL_CHARS: usize = 80;

/// Everything that a run needs to continue in another process.
///
/// ```
/// use endstop::agent::AgentState;
/// use endstop::core::Status;
/// use endstop::message::Message;
///
/// let state = AgentState::with_prompt("Fix the tests.")
///     .with_message(Message::system("Do not touch the CI."));
/// assert_eq!(state.status(), Status::Pending);
/// let restored = AgentState::from_json(&state.to_json())?;
/// assert_eq!(restored, state);
/// // The same conversation in a run of its own.
/// assert_ne!(restored.next_execution().id, state.id);
/// # Ok::<(), endstop::agent::state::StateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentState {
    /// [`VERSION`].
    pub version: u32,
    /// The run.
    pub id: RunId,
    /// The run whose conversation this one continues. They share no counters and no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<RunId>,
    /// The label in lists of runs: the beginning of the first user's message, unless it is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The agent that continues; empty for the one that is asked to.
    #[serde(default)]
    pub agent: String,
    /// The conversation, oldest first. Every tool call of a closed step is answered.
    pub messages: Vec<Message>,
    /// Data of the user's program, which Endstop does not read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// The acts of the run so far.
    #[serde(default)]
    pub execution: ExecutionState,
}

/// The acts of a run.
///
/// [`AgentState`] gives the usual readings of it, such as [`AgentState::status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionState {
    /// The status.
    pub status: Status,
    /// The run's own steps, oldest first, those that were cut short included.
    pub steps: Vec<Step>,
    /// The step that a pause interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_step: Option<OpenStep>,
    /// The agent that continues after the open step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// Tokens settled by class, descendants included.
    #[serde(with = "usage")]
    pub usage: TokenUsage,
    /// Money settled in pico-dollars, descendants included; `None` after a call without a price.
    pub cost_picos: Option<u64>,
    /// Whether some usage was counted here because a provider reported none.
    pub is_estimate: bool,
    /// Calls whose cost is not exactly known, descendants' included.
    #[serde(default, skip_serializing_if = "is_certain")]
    pub uncertainty: CostUncertainty,
    /// Steps begun, descendants included.
    pub step_count: u64,
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Events that the decision core has processed: lines of the run's trace.
    pub events: u64,
    /// The size of the conversation as a provider reported it: the number of messages, and their tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<(usize, u64)>,
    /// Messages whose users the decision core knows of.
    pub messages_told: usize,
    /// Approvals that the run applies when it resumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<GivenApproval>,
    /// The run continues although a person had cancelled it ([`AgentState::reopened`]).
    #[serde(skip_serializing_if = "is_false")]
    pub is_reopened: bool,
    /// The trip record: of the end, or of the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "verdict")]
    pub trip_record: Option<Box<TripRecord>>,
    /// Warnings of the last execution, for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the run failed, or the failed model request after which an `on_error` hook stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tools that could not be aborted and may still be running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub still_running: Vec<String>,
    /// The decision core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<Box<RunState>>,
}

impl ExecutionState {
    /// Copies the counts of the decision core and of the run's handle, except the core itself.
    pub(crate) fn follow(&mut self, run: &Run, carried: &Carried) {
        let Carried { usage, is_estimate, uncertainty, events, still_running } = carried;
        self.status = run.status();
        self.usage = *usage;
        self.is_estimate = *is_estimate;
        if self.uncertainty != *uncertainty {
            self.uncertainty.clone_from(uncertainty);
        }
        self.cost_picos = run.cost().map(Money::picos);
        self.step_count = run.step_count();
        self.at_ms = run.at().0;
        self.events = *events;
        if self.still_running.len() != still_running.len() {
            self.still_running.clone_from(still_running);
        }
    }

    /// The counts that the decision core does not keep.
    pub(crate) fn carried(&self) -> Carried {
        Carried {
            usage: self.usage,
            is_estimate: self.is_estimate,
            uncertainty: self.uncertainty.clone(),
            events: self.events,
            still_running: self.still_running.clone(),
        }
    }
}

/// One model call and the tool calls that it requested.
///
/// ```
/// # use endstop::agent::AgentLoop;
/// # use endstop::core::condition::named::max_steps;
/// # use endstop::model::{ScriptedModel, ScriptedResponse};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two.").usage(90, 10));
/// # let agent = AgentLoop::builder("answerer").model(model).stop_when(max_steps(5)).build()?;
/// let state = agent.run("What is the answer?").await?;
/// let [step] = state.steps() else { panic!("one step") };
/// assert_eq!((step.number, step.usage.total()), (1, 100));
/// assert!(step.is_natural_end && step.tool_executions.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: u64,
    /// The agent.
    pub agent: String,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its start, in milliseconds since the run began.
    pub at_ms: u64,
    /// Its duration in milliseconds, model and tools included.
    pub took_ms: u64,
    /// Requests sent.
    pub attempts: u32,
    /// Tokens of the step itself, failed attempts included.
    #[serde(with = "usage")]
    pub usage: TokenUsage,
    /// Its cost in pico-dollars; `None` if a call had no price.
    pub cost_picos: Option<u64>,
    /// Whether its usage was counted here because the provider reported none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
    /// The provider's finish reason, raw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// The position of the response in [`AgentState::messages`]; `None` if the step has no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<usize>,
    /// Whether it was the last one that a finish rule leaves: tools off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_wrap_up: bool,
    /// Whether the model ended naturally: it requested no tools.
    pub is_natural_end: bool,
    /// Its tool calls, in the order in which the model requested them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_executions: Vec<ToolExecution>,
    /// Errors of the model, of hooks and of the loop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// The outcome of one tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolExecution {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The outcome.
    pub outcome: ToolOutcome,
    /// Its duration in milliseconds.
    pub took_ms: u64,
    /// The place of the answer in [`AgentState::messages`].
    pub answer: usize,
}

/// A person's approval of a pause rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GivenApproval {
    /// The rule.
    pub rule: String,
    /// The amount of `cost` in pico-dollars up to which it is approved; `None`: the rule no longer pauses this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_picos: Option<u64>,
}

/// A step that a pause interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenStep {
    /// Before the model was asked.
    Model,
    /// Before all its tool calls were answered.
    Tools,
}

/// Why a saved state cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// The text is not a saved state.
    #[error("not a saved agent state: {0}")]
    Json(#[from] serde_json::Error),
    /// It was written by a newer version.
    #[error("the agent state has version {0}; this program reads up to {VERSION}")]
    Version(u32),
    /// It is too long.
    #[error("the agent state has {0} bytes; at most {MAX_STATE_BYTES} are read")]
    TooLarge(usize),
}

impl Default for AgentState {
    fn default() -> Self {
        Self::new()
    }
}

impl AgentState {
    /// Creates a run that has not begun, without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::of_run(RunId::new())
    }

    /// Like [`AgentState::new`], for a run with a name.
    #[must_use]
    pub fn of_run(id: RunId) -> Self {
        Self {
            version: VERSION,
            id,
            previous: None,
            label: String::new(),
            agent: String::new(),
            messages: Vec::new(),
            metadata: BTreeMap::new(),
            execution: ExecutionState::default(),
        }
    }

    /// Creates a run that begins with a user's message.
    #[must_use]
    pub fn with_prompt(prompt: impl Into<String>) -> Self {
        Self::new().with_message(Message::user(prompt))
    }

    /// Adds a message. If the run ended on its own, executing it with a user's message begins a new run that continues
    /// the conversation ([`AgentState::next_execution`]). A run that was stopped stays stopped, and
    /// [`AgentState::warnings`] says so.
    #[must_use]
    pub fn with_message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Approves the rules that paused the run: permanently, or until `cost` reaches `limit`. They count when the run
    /// continues. A limit approves no rule without a cost limit.
    #[must_use]
    pub fn approved(mut self, limit: Option<Money>) -> Self {
        let record = self.execution.trip_record.as_deref();
        let rules = record.map_or(&[][..], |record| &record.rules);
        let held = rules.iter().filter(|rule| rule.action == Action::Pause && rule.trips);
        let given = held.map(|rule| GivenApproval {
            rule: rule.id.clone(),
            limit_picos: limit.map(Money::picos),
        });
        self.execution.approvals.extend(given);
        self
    }

    /// Lets a run continue that a person or the kill switch had stopped, with its counters. It counts when the run is
    /// executed. Other stops stand: a rule's until its limit is raised, an error, the stop of a tool.
    ///
    /// ```
    /// # use endstop::agent::{AgentLoop, AgentState};
    /// # use endstop::cancel::{CancelToken, Urgency};
    /// # use endstop::core::condition::named::max_steps;
    /// # use endstop::core::signal::StopSignal;
    /// # use endstop::model::{ScriptedModel, ScriptedResponse};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let builder = || {
    /// #     let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done."));
    /// #     AgentLoop::builder("worker").model(model).stop_when(max_steps(5))
    /// # };
    /// let token = CancelToken::new();
    /// token.cancel(StopSignal::user_requested("Ctrl-C"), Urgency::Graceful);
    /// let cancelled = builder().cancel_token(token).build()?.run("Work.").await?;
    /// assert_eq!(cancelled.final_response(), None);
    /// let state = builder().build()?.execute(cancelled.reopened()).await?;
    /// assert_eq!(state.final_response(), Some("Done."));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn reopened(mut self) -> Self {
        self.execution.is_reopened = true;
        self
    }

    /// Returns a separate run with the same conversation: all counters begin again, under all limits of the policy. It names
    /// this one as `previous`, unless this one has not begun. A shared budget continues.
    ///
    /// ```
    /// # use endstop::agent::AgentLoop;
    /// # use endstop::core::condition::named::max_steps;
    /// # use endstop::message::Message;
    /// # use endstop::model::{ScriptedModel, ScriptedResponse};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let call = ScriptedResponse::call("x", json!({}));
    /// # let model = ScriptedModel::new("scripted").reply(call).reply(ScriptedResponse::text("Done."));
    /// # let agent = AgentLoop::builder("worker").model(model).stop_when(max_steps(1)).build()?;
    /// let stopped = agent.run("Work.").await?;
    /// let (id, next) = (stopped.id.clone(), stopped.next_execution());
    /// let state = agent.execute(next.with_message(Message::user("Go on."))).await?;
    /// assert_eq!(state.final_response(), Some("Done."));
    /// assert_eq!((state.step_count(), state.previous), (1, Some(id)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn next_execution(self) -> Self {
        let has_begun = self.status() != Status::Pending;
        let mut next = self;
        // A run that was paused before it could make them.
        next.close_open_calls(|tool| format!("Not run: the run was left before `{tool}` began."));
        let previous = if has_begun { Some(next.id) } else { next.previous };
        Self { id: RunId::new(), previous, execution: ExecutionState::default(), ..next }
    }

    /// Answers the calls of the last response that have no answer, as not executed.
    fn close_open_calls(&mut self, text: impl Fn(&str) -> String) {
        for ToolCall { id, tool, .. } in self.unanswered() {
            let (outcome, place) = (ToolOutcome::NotExecuted, self.place_of_answer());
            let text = text(&tool);
            self.insert_answer(place, Message::Tool { id, tool, outcome, text });
        }
    }

    /// Returns warnings of the last execution: that the run had been stopped before, so that no new message
    /// was answered. Empty in most states.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.execution.warnings
    }

    /// The state as it is executed: a run that ended on its own and has a new user's message is followed by a new one.
    pub(crate) fn into_execution(mut self) -> Self {
        self.execution.warnings.clear();
        if self.ended_by_itself() && self.has_new_user_message() {
            return self.next_execution();
        }
        self
    }

    fn ended_by_itself(&self) -> bool {
        let is_completed = || self.stop_reason() == Some(StopReason::Completed);
        self.execution.core.as_ref().map_or_else(is_completed, |core| core.ended_by_itself())
    }

    /// Warns that the run had been stopped, so that no new message was answered.
    pub(crate) fn warn_of_unanswered(&mut self) {
        let signal = self.last_stop_signal().map(ToString::to_string).unwrap_or_default();
        self.execution.warnings.push(format!(
            "the run `{}` had been stopped ({signal}), so the new message was not answered: \
             `AgentState::next_execution` begins a new run with its conversation",
            self.id
        ));
    }

    /// Warns that a response is cut off because other calls in flight left no room for a longer one.
    pub(crate) fn warn_of_cut_by_others(&mut self) {
        let warning = "a response was cut off by its fair share of the remaining budget, because other calls in flight \
                       left no room for a longer one: raise the limit, or turn fair shares off";
        if !self.execution.warnings.iter().any(|it| it == warning) {
            self.execution.warnings.push(warning.to_owned());
        }
    }

    pub(crate) fn has_new_user_message(&self) -> bool {
        let mut new = self.messages.iter().skip(self.execution.messages_told);
        new.any(|message| matches!(message, Message::User { .. }))
    }

    /// Reads a state from JSON text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a saved state, too long, or of a newer version.
    pub fn from_json(text: &str) -> Result<Self, StateError> {
        if text.len() > MAX_STATE_BYTES {
            return Err(StateError::TooLarge(text.len()));
        }
        let state: Self = serde_json::from_str(text)?;
        if state.version == 0 || state.version > VERSION {
            return Err(StateError::Version(state.version));
        }
        Ok(state)
    }

    /// Returns the state as JSON text. O(messages).
    #[must_use]
    pub fn to_json(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a state of texts and numbers can be written: {error}"),
        }
    }

    /// Returns the status.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.execution.status
    }

    /// Returns the number of steps begun, descendants included.
    #[must_use]
    pub const fn step_count(&self) -> u64 {
        self.execution.step_count
    }

    /// Returns the run's own steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.execution.steps
    }

    /// Returns the settled tokens by class, descendants included.
    #[must_use]
    pub const fn usage(&self) -> TokenUsage {
        self.execution.usage
    }

    /// Returns the settled cost, descendants included; `None` after a call without a price.
    #[must_use]
    pub fn cost(&self) -> Option<Money> {
        self.execution.cost_picos.map(Money::from_picos)
    }

    /// Returns the model's answer, if it ended on its own with no tool calls pending. A blank text is none. The answer
    /// of a wrap-up is not one either: see [`AgentState::current_response`].
    #[must_use]
    pub fn final_response(&self) -> Option<&str> {
        let last = self.execution.steps.last()?;
        let is_final = last.is_natural_end && !last.is_wrap_up;
        let text = self.messages.get(last.reply?)?.text();
        (is_final && !text.trim().is_empty()).then_some(text)
    }

    /// Returns whether there is a final response.
    #[must_use]
    pub fn has_final_response(&self) -> bool {
        self.final_response().is_some()
    }

    /// Returns the final response, or the text of the last step that has one.
    #[must_use]
    pub fn current_response(&self) -> Option<&str> {
        self.final_response().or_else(|| {
            let replies = self.execution.steps.iter().rev().filter_map(|step| step.reply);
            let mut texts = replies.filter_map(|at| self.messages.get(at)).map(Message::text);
            texts.find(|text| !text.trim().is_empty())
        })
    }

    /// Returns the signal that the run ended by.
    #[must_use]
    pub fn last_stop_signal(&self) -> Option<&StopSignal> {
        self.execution.trip_record.as_ref().and_then(|record| record.primary.as_ref())
    }

    /// Returns why the run ended: `completed` if it ended naturally, `None` while it runs.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.last_stop_signal().map(|signal| signal.reason)
    }

    /// Returns whether a limit, an error, a person or a tool ended the run; not if it ended on its own or by a
    /// condition on its output.
    #[must_use]
    pub fn was_force_stopped(&self) -> bool {
        self.stop_reason().is_some_and(StopReason::is_forced)
    }

    /// Returns the signals that stand.
    #[must_use]
    pub fn continuation(&self) -> ExecutionContinuation {
        let stop_signals = self.execution.trip_record.as_ref().map(|record| record.signals.clone());
        ExecutionContinuation {
            stop_signals: stop_signals.unwrap_or_default(),
            is_continuation_requested: false,
        }
    }

    /// Returns the trip record as text; a line with the status before there is one. The part of the cost that no
    /// provider confirmed and the warnings follow.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = match &self.execution.trip_record {
            Some(record) => record.to_string(),
            None => format!("status: {}", self.status().name()),
        };
        if let Some(unconfirmed) = self.execution.uncertainty.unconfirmed_text() {
            text.push_str(&format!("\nof the cost, {unconfirmed}"));
        }
        for warning in self.warnings() {
            text.push_str(&format!("\nwarning: {warning}"));
        }
        text
    }

    /// Takes the beginning of the first user's message, unless there is a label.
    pub(crate) fn set_label(&mut self) {
        let first = self.messages.iter().find(|message| matches!(message, Message::User { .. }));
        if let (true, Some(first)) = (self.label.is_empty(), first) {
            self.label = first.text().chars().take(LABEL_CHARS).collect();
        }
    }

    /// Where the next answer to the last response goes: behind its other answers, and before any message that a user
    /// sent in the meantime.
    pub(crate) fn place_of_answer(&self) -> usize {
        let reply = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }));
        let after = reply.map_or(self.messages.len(), |at| at.saturating_add(1));
        let behind = self.messages.iter().skip(after);
        after.saturating_add(behind.take_while(|m| matches!(m, Message::Tool { .. })).count())
    }

    /// Puts an answer into the conversation. A later message that the core knows stays known.
    pub(crate) fn insert_answer(&mut self, place: usize, answer: Message) {
        self.messages.insert(place, answer);
        if place < self.execution.messages_told {
            self.execution.messages_told = self.execution.messages_told.saturating_add(1);
        }
    }

    /// The calls of the last response that have no answer yet: only of a run that was interrupted.
    pub(crate) fn unanswered(&self) -> Vec<ToolCall> {
        let Some(at) = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }))
        else {
            return Vec::new();
        };
        let (reply, after) = self.messages.split_at(at.saturating_add(1));
        let is_answered =
            |call: &str| after.iter().any(|m| matches!(m, Message::Tool { id, .. } if id == call));
        let calls = reply.last().map_or(&[][..], Message::tool_calls);
        calls.iter().filter(|call| !is_answered(&call.id)).cloned().collect()
    }
}

fn is_certain(uncertainty: &CostUncertainty) -> bool {
    *uncertainty == CostUncertainty::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Token usage as it is written elsewhere too.
mod usage {
    use endstop_core::units::TokenUsage;
    use endstop_core::wire::v1::trace::Usage;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(usage: &TokenUsage, to: S) -> Result<S::Ok, S::Error> {
        Usage::from(*usage).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TokenUsage, D::Error> {
        Usage::deserialize(from).map(TokenUsage::from)
    }
}
