//! Operators over a run's own steps do not bound the steps of its descendants.

use endstop::agent::AgentLoop;
use endstop::core::signal::StopReason;
use endstop::model::{ScriptedModel, ScriptedResponse};
use serde_json::json;

use crate::kit::{replies_so_far, under};
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_sub_agent_are_not_those_that_a_streak_counts() {
    for (rules, own) in [
        ("[stop]\nlimit = \"streak(steps >= 2) >= 3\"\n", 3),
        ("[stop]\nlimit = \"count(steps >= 2) >= 2\"\n", 2),
    ] {
        let child = AgentLoop::builder("helper").model(caller("look")).tool(ok_tool("look"));
        let child = child.stop_when(condition("steps >= 10")).build().unwrap();
        let model =
            ScriptedModel::from_fn("scripted", |request, _| match replies_so_far(request) {
                0 => ScriptedResponse::call("helper", json!({ "task": "more" })).usage(10, 1),
                _ => ScriptedResponse::call("look", json!({})).usage(10, 1),
            });
        let model = std::sync::Arc::new(model);
        let root = under(&model, rules).tool(ok_tool("look")).tools([child.as_tool("Helps.")]);
        let state = root.build().unwrap().run("Go.").await.unwrap();
        let record = state.explain();
        assert_eq!((state.steps().len(), state.step_count()), (own, 10 + own as u64), "{record}");
        assert_eq!(
            state.execution.trip_record.as_ref().unwrap().rule.as_deref(),
            Some("limit"),
            "{record}"
        );
        assert_ne!(state.stop_reason(), Some(StopReason::Unknown));
    }
}
