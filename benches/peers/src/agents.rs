//! Agents with an instant model and an instant tool: one that takes so many steps, the same at a depth below
//! others, and the same loop written by hand.

use std::sync::Arc;

use endstop::agent::{AgentLoop, AgentState};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{
    Model, ModelEvent, ModelRequest, ScriptedModel, ScriptedResponse, ToolChoice,
};
use endstop::tool::{FunctionTool, Tool, ToolContext, ToolError};
use endstop_core::Policy;
use endstop_core::expr::parse;
use endstop_core::policy::OnUnpriced;
use endstop_core::run::Status;
use futures_util::StreamExt as _;

/// The first message of a run.
pub const PROMPT: &str = "Count as far as you can.";

/// Four limits, none of which is reached in so many steps.
///
/// # Panics
/// If the text is no condition.
#[must_use]
pub fn policy(steps: u64) -> Policy {
    let limit = steps + 1;
    let text = format!("steps >= {limit} or cost >= $1000 or tokens >= 1000M or active >= 1h");
    Policy {
        on_unpriced: Some(OnUnpriced::Ignore),
        ..Policy::stop(parse(&text).expect("a condition"))
    }
}

/// Calls `work` at every step but each one that `steps` divides, and then answers: runs of that many steps,
/// one after the other.
#[must_use]
pub fn model(steps: u64) -> ScriptedModel {
    ScriptedModel::from_fn("instant", move |_, call| {
        if (call + 1) % steps == 0 {
            ScriptedResponse::text("done").usage(900, 100)
        } else {
            ScriptedResponse::default().raw_tool_call("work", "{}").usage(900, 100)
        }
    })
}

/// A tool that returns immediately.
#[must_use]
pub fn tool() -> FunctionTool {
    FunctionTool::without_arguments("work", "Works.", |_| async { Ok::<_, ToolError>("worked") })
}

/// An agent that takes `steps` steps.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn agent(steps: u64) -> AgentLoop {
    agent_of(model(steps), steps)
}

/// An agent with this model, whose limits let it take `steps` steps.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn agent_of(model: ScriptedModel, steps: u64) -> AgentLoop {
    let agent = AgentLoop::builder("worker").model(model).tool(tool());
    agent.policy(policy(steps)).build().expect("an agent")
}

/// The same agent below so many others, each of which hands its task down in one step and answers in
/// another.
///
/// # Panics
/// If one cannot be built.
#[must_use]
pub fn agent_at(depth: u32, steps: u64) -> AgentLoop {
    let mut below = agent(steps);
    for level in (0..depth).rev() {
        let name = below.name().to_owned();
        let manager = ScriptedModel::from_fn("instant", move |_, call| {
            if call % 2 == 0 {
                ScriptedResponse::default()
                    .raw_tool_call(name.clone(), r#"{"task":"go on"}"#)
                    .usage(900, 100)
            } else {
                ScriptedResponse::text("done").usage(900, 100)
            }
        });
        // Its own limits are of the whole tree, so that nothing trips.
        below = AgentLoop::builder(format!("manager_{level}"))
            .model(manager)
            .tools([below.as_tool("Does it.")])
            .policy(policy(steps + 2 * u64::from(depth)))
            .build()
            .expect("an agent");
    }
    below
}

/// Runs an agent to its end.
///
/// # Panics
/// If the run does not end on its own.
pub async fn run(agent: &AgentLoop) -> AgentState {
    let state = agent.run(PROMPT).await.expect("a run");
    assert_eq!(state.status(), Status::Completed, "{:?}", state.last_stop_signal());
    state
}

/// The floor: the same model and tool, a list of messages, and one comparison.
///
/// # Panics
/// If the model or the tool fails.
pub async fn by_hand(model: &ScriptedModel, tool: &Arc<FunctionTool>, limit: u64) -> Vec<Message> {
    let mut messages = vec![Message::user(PROMPT)];
    let context = ToolContext::detached();
    let mut steps = 0;
    while steps < limit {
        steps += 1;
        let (text, tool_calls) = answer(model, &messages, tool).await;
        messages.push(Message::Assistant {
            text,
            tool_calls: tool_calls.clone(),
            opaque: Vec::new(),
        });
        if tool_calls.is_empty() {
            break;
        }
        for call in tool_calls {
            let (id, name) = (call.id.clone(), call.tool.clone());
            let output = Arc::clone(tool).call(call, context.clone()).await.expect("an answer");
            let outcome = ToolOutcome::Succeeded;
            messages.push(Message::Tool { id, tool: name, outcome, text: output.text });
        }
    }
    messages
}

async fn answer(
    model: &ScriptedModel,
    messages: &[Message],
    tool: &FunctionTool,
) -> (String, Vec<endstop::message::ToolCall>) {
    let request = ModelRequest {
        system: "",
        messages,
        tools: std::slice::from_ref(tool.spec()),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
    };
    let mut stream = model.stream(request);
    let (mut text, mut calls) = (String::new(), Vec::new());
    while let Some(event) = stream.next().await {
        match event.expect("an answer") {
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::ToolCall(call) => calls.push(call),
            _ => {}
        }
    }
    (text, calls)
}

/// Blocks on a future, on a runtime of one thread.
///
/// # Panics
/// If there is no runtime to be had.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future)
}
