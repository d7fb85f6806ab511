//! Golden files of stored agent states: the files are read back, and the runs in them continue.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::state::OpenStep;
use endstop::agent::{AgentBuilder, AgentLoop, AgentState, Trigger};
use endstop::cancel::{CancelToken, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::core::units::WallTime;
use endstop::message::Message;
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::store::RunId;
use endstop::tool::{FunctionTool, Handoff, ToolError, ToolOutput};
use serde_json::json;

use crate::file::golden;
use crate::kit::*;
use crate::support::*;

/// 2026-11-29T20:00:00Z.
const WALL: WallTime = WallTime(1_796_040_000_000);

const RULES: &str = "[stop]\nlimit = \"steps >= 20\"\n[pause]\nask = \"cost >= $0.015\"\n\
                     [finish]\nwrap_up = \"steps >= 10\"\n[warn]\nnear = \"steps >= 2\"\n";

/// A run that something of everything happens to.
fn begun(id: &str) -> AgentState {
    let mut state = AgentState::of_run(RunId::parse(id).unwrap());
    state.label = "the nightly check".to_owned();
    state.metadata.insert("ticket".to_owned(), json!({ "number": 17, "urgent": true }));
    state.with_message(Message::system("Be brief.")).with_message(Message::user("Go."))
}

/// Tool calls that fail, a sub-agent, a hand-off, an attempt that fails and one whose usage is not reported.
fn worker() -> Arc<ScriptedModel> {
    priced(|request, attempt| {
        let reply = match replies_so_far(request) {
            0 if attempt == 0 => return ScriptedResponse::error(ModelErrorKind::Unavailable),
            0 => ScriptedResponse::text("I look.")
                .tool_call("look", json!({}))
                .tool_call("fail", json!({})),
            1 => ScriptedResponse::call("helper", json!({ "task": "Help." }))
                .opaque(json!({ "sealed": "x" })),
            2 => ScriptedResponse::call("nosuch", json!({ "a": 1 })),
            3 => ScriptedResponse::call("transfer", json!({})),
            _ => ScriptedResponse::call("look", json!({})),
        };
        reply.usage(1_000, 100).delay(Duration::from_millis(250))
    })
}

/// Continues after the hand-off: a reply without usage, then as many calls as it may.
fn expert() -> AgentLoop {
    let model = priced(|request, _| {
        let reply = match replies_so_far(request) {
            ..=5 => ScriptedResponse::call("look", json!({})).without_usage(),
            n if request.tools.is_empty() => {
                ScriptedResponse::text(format!("After {n} replies.")).usage(90, 9)
            }
            _ => ScriptedResponse::call("look", json!({})).usage(900, 90),
        };
        reply.delay(Duration::from_millis(200))
    });
    AgentLoop::builder("expert").model(model).tool(ok_tool("look")).build().unwrap()
}

/// A sub-agent: a step, then an answer.
fn helper() -> AgentLoop {
    let model = priced(|request, _| match replies_so_far(request) {
        0 => ScriptedResponse::call("look", json!({}))
            .usage(500, 50)
            .delay(Duration::from_millis(50)),
        _ => ScriptedResponse::text("Helped.").usage(500, 50).delay(Duration::from_millis(50)),
    });
    let agent = AgentLoop::builder("helper").model(model).tool(ok_tool("look"));
    agent.stop_when(condition("steps >= 9")).build().unwrap()
}

fn transfer() -> FunctionTool {
    FunctionTool::without_arguments("transfer", "Hands off.", |_| async {
        let handoff = Handoff { to: "expert".to_owned(), message: "Please continue.".to_owned() };
        Ok::<_, ToolError>(ToolOutput::from(handoff))
    })
}

fn fresh() -> AgentBuilder {
    let slow = slow_tool("look", Duration::from_millis(20));
    let builder = under(&worker(), RULES).tools([helper().as_tool("Helps.")]).tool(slow);
    let builder = builder.tool(failing_tool("fail")).tool(transfer()).handoff(expert());
    builder.wall_clock(Arc::new(|| WALL))
}

/// The state as the file has it.
fn stored(name: &str, state: &AgentState) -> AgentState {
    let read = AgentState::from_json(&golden(name, &state.to_json(), &[])).unwrap();
    assert!(&read == state, "{name}: a state changes by storing");
    read
}

#[tokio::test(start_paused = true)]
async fn agent_states_of_version_1_are_read_and_continue() {
    let state = fresh().build().unwrap().execute(begun("nightly-17")).await.unwrap();
    assert_eq!((state.status(), state.step_count()), (Status::Paused, 6));
    let read = stored("agent-state-v1-paused.json", &state.approved(Some(usd("5.00"))));
    assert_eq!((read.step_count(), read.steps().len()), (6, 4));
    assert_eq!((read.usage().total(), read.cost()), (5_500, Some(usd("0.0175"))));
    assert_eq!(read.execution.at_ms, 1_620);
    assert!(read.execution.core.is_some());

    let ended = fresh().build().unwrap().execute(read).await.unwrap();
    let read = stored("agent-state-v1-finished.json", &ended);
    assert_eq!(
        (read.status(), read.stop_reason()),
        (Status::Stopped, Some(StopReason::StepsLimitReached))
    );
    assert!(read.steps().last().unwrap().is_wrap_up && read.execution.is_estimate);
    assert_all_answered(&read);
}

/// Paused between two tool calls, the first of which hands off.
#[tokio::test(start_paused = true)]
async fn an_agent_state_of_version_1_of_an_interrupted_step() {
    let reply = ScriptedResponse::call("transfer", json!({})).tool_call("look", json!({}));
    let model = replies([reply.usage(100, 10)]);
    let rules = "[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"tool_calls >= 1\"\n";
    let agent = || {
        let expert = AgentLoop::builder("expert").model(answerer("Done.")).build().unwrap();
        let builder = under(&model, rules).tool(transfer()).tool(ok_tool("look")).handoff(expert);
        builder.parallel_tools(1).wall_clock(Arc::new(|| WALL)).build().unwrap()
    };
    let state = agent().execute(begun("interrupted")).await.unwrap();
    let read = stored("agent-state-v1-interrupted.json", &state);
    assert_eq!(read.execution.open_step, Some(OpenStep::Tools));
    assert_eq!(read.execution.handoff.as_ref().map(|to| to.to.as_str()), Some("expert"));

    let ended = agent().execute(read.approved(None)).await.unwrap();
    assert_eq!((ended.final_response(), ended.step_count()), (Some("Done."), 2));
    assert_eq!((ended.agent.as_str(), model.calls()), ("expert", 1));
    assert_all_answered(&ended);
}

/// Stopped from outside while a tool runs that cannot be aborted.
#[tokio::test(start_paused = true)]
async fn an_agent_state_of_version_1_of_an_aborted_run() {
    let token = CancelToken::new();
    let tool = slow_tool("look", Duration::from_secs(10)).not_abortable();
    let builder = under(&caller("look"), "[stop]\nlimit = \"steps >= 5\"\n").tool(tool);
    let agent = builder.cancel_token(token.clone()).wall_clock(Arc::new(|| WALL)).build().unwrap();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        token.cancel(
            StopSignal::new(StopReason::UserRequested).with_message("enough"),
            Urgency::Now,
        );
    };
    let (state, ()) = tokio::join!(agent.execute(begun("aborted")), cancelling);
    let read = stored("agent-state-v1-aborted.json", &state.unwrap());
    assert_eq!(read.execution.still_running, ["look"]);
    assert_eq!((read.stop_reason(), read.step_count()), (Some(StopReason::UserRequested), 1));
}

/// A stop that a hook overrode, and a model that then cannot answer.
#[tokio::test(start_paused = true)]
async fn an_agent_state_of_version_1_of_a_failed_run() {
    let model = replies([
        ScriptedResponse::call("look", json!({})).usage(100, 10),
        ScriptedResponse::error(ModelErrorKind::Rejected),
    ]);
    let builder = under(&model, "[stop]\nlimit = \"steps >= 1\"\n").tool(ok_tool("look"));
    let builder = builder.hook(Trigger::OnStop, 0, |context| {
        context.request_continuation("critic");
        Ok(())
    });
    let agent = builder.wall_clock(Arc::new(|| WALL)).build().unwrap();
    let state = agent.execute(begun("failed")).await.unwrap();
    let read = stored("agent-state-v1-failed.json", &state);
    assert_eq!(read.status(), Status::Failed);
    assert!(read.execution.error.is_some());
    let overrides = &read.execution.trip_record.as_ref().unwrap().overrides;
    let what: Vec<&str> = overrides.iter().map(|it| &*it.what).collect();
    assert_eq!(what, ["overridden", "not overridden: an error or a cancellation stands"]);
}
