//! A finish rule that is reached in a sub-agent leaves the parent its wrap-up.

use endstop::agent::AgentLoop;
use endstop::model::ScriptedResponse;
use serde_json::json;

use crate::kit::under;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_sub_agent_ends_in_time_for_its_parent_to_wrap_up() {
    for (rules, steps) in [
        ("[finish]\nwrap_up = \"steps >= 4\"\n", 5),
        ("[stop]\nlimit = \"steps >= 5\"\n[finish]\nwrap_up = \"steps >= 4\"\n", 5),
        ("[stop]\nlimit = \"steps >= 5\"\n[finish]\nwrap_up = \"steps >= 5\"\n", 5),
        ("[stop]\nlimit = \"tokens >= 100k\"\n[finish]\nwrap_up = \"tokens >= 50k\"\n", 11),
    ] {
        let more = ScriptedResponse::text("A door.").tool_call("work", json!({})).usage(4_990, 10);
        let child = AgentLoop::builder("helper").model(replies([more])).tool(ok_tool("work"));
        let child = child.policy(policy("unbounded = true\n")).build().unwrap();
        let model = replies([
            ScriptedResponse::call("helper", json!({ "task": "Find the way." })).usage(4_990, 10),
            ScriptedResponse::text("There is a door.").usage(100, 10),
        ]);
        let parent = under(&model, rules).tools([child.as_tool("Helps.")]).build().unwrap();
        let state = parent.run("Go.").await.unwrap();
        let record = format!("{rules}{}", state.explain());
        assert_eq!(state.current_response(), Some("There is a door."), "{record}");
        assert_eq!(state.steps().len(), 2, "{record}");
        assert!(state.steps()[1].is_wrap_up, "{record}");
        assert_eq!(state.step_count(), steps, "{record}");
        let told =
            state.messages.iter().find(|m| matches!(m, endstop::message::Message::Tool { .. }));
        let told = told.unwrap().text();
        assert!(told.contains("A door.") && told.contains("answer with what it has"), "{told}");
        assert_all_answered(&state);
    }
}
