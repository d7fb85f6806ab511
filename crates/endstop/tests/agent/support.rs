//! Helpers of the tests of the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState};
use endstop::core::condition::Condition;
use endstop::core::expr;
use endstop::core::policy::Policy;
use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::tool::{FunctionTool, ToolError};
use serde_json::json;

/// A condition from its text.
pub(crate) fn condition(text: &str) -> Condition {
    expr::parse(text).unwrap()
}

/// A policy from TOML.
pub(crate) fn policy(text: &str) -> Policy {
    Policy::from_toml(text).unwrap()
}

/// An agent that stops at a condition.
pub(crate) fn agent(model: &Arc<ScriptedModel>, stop: &str) -> AgentBuilder {
    AgentLoop::builder("tested").model(model.clone()).stop_when(condition(stop))
}

/// A model that gives these replies and then repeats the last one.
pub(crate) fn replies(replies: impl IntoIterator<Item = ScriptedResponse>) -> Arc<ScriptedModel> {
    let model = ScriptedModel::new("scripted");
    Arc::new(replies.into_iter().fold(model, ScriptedModel::reply).repeat_last())
}

/// A model that calls `tool` forever.
pub(crate) fn caller(tool: &str) -> Arc<ScriptedModel> {
    let reply = ScriptedResponse::call(tool, json!({})).usage(100, 10);
    Arc::new(ScriptedModel::new("scripted").reply(reply).repeat_last())
}

/// A model that answers immediately.
pub(crate) fn answerer(text: &str) -> Arc<ScriptedModel> {
    let reply = ScriptedResponse::text(text).usage(100, 10);
    Arc::new(ScriptedModel::new("scripted").reply(reply).repeat_last())
}

/// A tool that answers `ok`.
pub(crate) fn ok_tool(name: &str) -> FunctionTool {
    FunctionTool::without_arguments(name, "Does nothing.", |_| async { Ok::<_, ToolError>("ok") })
}

/// A tool that takes some time.
pub(crate) fn slow_tool(name: &str, takes: Duration) -> FunctionTool {
    FunctionTool::without_arguments(name, "Takes its time.", move |_| async move {
        tokio::time::sleep(takes).await;
        Ok::<_, ToolError>("slept")
    })
}

/// A tool that fails.
pub(crate) fn failing_tool(name: &str) -> FunctionTool {
    FunctionTool::without_arguments(name, "Fails.", |_| async {
        Err::<&str, _>(ToolError::failed("no luck"))
    })
}

/// A tool that counts its calls and stops the loop at one of them.
pub(crate) fn counter_tool(stop_at: u64) -> (FunctionTool, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let tool = FunctionTool::without_arguments("counter", "Counts up by one.", move |_| {
        let counted = Arc::clone(&counted);
        async move {
            let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
            if now == stop_at {
                let signal = StopSignal::new(StopReason::StopRequested)
                    .with_message(format!("Counter reached {now}"))
                    .with_context("final_count", now);
                Err(AgentStop::from(signal))?;
            }
            Ok::<_, ToolError>(format!("The count is {now}."))
        }
    });
    (tool, count)
}

/// The outcomes of all answers to tool calls, in order of the conversation.
pub(crate) fn outcomes(state: &AgentState) -> Vec<ToolOutcome> {
    let of = |message: &Message| match message {
        Message::Tool { outcome, .. } => Some(*outcome),
        _ => None,
    };
    state.messages.iter().filter_map(of).collect()
}

/// Every tool call of every reply has exactly one answer, after the reply and before the next one.
pub(crate) fn assert_all_answered(state: &AgentState) {
    let mut open: Vec<String> = Vec::new();
    for message in &state.messages {
        match message {
            Message::Assistant { tool_calls, .. } => {
                assert!(open.is_empty(), "unanswered calls {open:?}");
                open = tool_calls.iter().map(|call| call.id.clone()).collect();
            }
            Message::Tool { id, .. } => {
                let place = open.iter().position(|call| call == id).expect("an answer to a call");
                open.remove(place);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "unanswered calls {open:?}");
}
