//! A sub-agent that pauses says so to its parent's model.

use endstop::agent::AgentLoop;
use endstop::core::run::Status;
use endstop::message::Message;
use endstop::model::ScriptedResponse;
use serde_json::json;

use crate::kit::under;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_parents_model_reads_that_an_approval_is_waited_for() {
    let rules =
        "[stop]\nlimit = \"steps >= 5\"\n[pause]\nask = \"steps >= 2 and tool_calls >= 1\"\n";
    let child = AgentLoop::builder("helper").model(caller("look")).tool(ok_tool("look"));
    let child = child.policy(policy(rules)).build().unwrap();
    let model = replies([
        ScriptedResponse::call("helper", json!({ "task": "Find the way." })),
        ScriptedResponse::text("It waits."),
    ]);
    let rules = "[stop]\nlimit = \"steps >= 10\"\n";
    let parent = under(&model, rules).tools([child.as_tool("Helps.")]).build().unwrap();
    let state = parent.run("Go.").await.unwrap();
    assert_eq!(state.status(), Status::Completed, "{}", state.explain());
    let answer = state.messages.iter().find(|m| matches!(m, Message::Tool { .. })).unwrap().text();
    for part in ["paused", "approval", "`ask`", "steps >= 2 and tool_calls >= 1", "2 steps"] {
        assert!(answer.contains(part), "`{part}` is not in {answer}");
    }
    assert!(!answer.contains(": unknown"), "{answer}");
}
