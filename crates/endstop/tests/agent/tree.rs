//! Sub-agents: one ledger, one tree of tokens, limits that bind every descendant.

use std::sync::Arc;

use endstop::agent::AgentLoop;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Budget, Limits};
use endstop::message::ToolOutcome;
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::tool::Tool;
use serde_json::json;

use crate::support::*;

/// A chain of agents that each call the next one forever; the innermost calls a tool forever.
fn runaway(model: &Arc<ScriptedModel>, depth: usize) -> Arc<dyn Tool> {
    let mut tool: Arc<dyn Tool> = Arc::new(ok_tool("work"));
    for _ in 0..depth {
        let agent = AgentLoop::builder("work").model(model.clone()).tools([tool]).unbounded();
        let agent = agent.policy(policy("unbounded = true\n"));
        tool = agent.build().unwrap().as_tool("Works.");
    }
    tool
}

/// Calls `work` so many times in every reply.
fn worker(calls: usize) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_fn("scripted", move |_, _| {
        let mut reply = ScriptedResponse::text("working").usage(100, 10);
        for _ in 0..calls {
            reply = reply.tool_call("work", json!({ "task": "more" }));
        }
        reply
    }))
}

#[tokio::test(start_paused = true)]
async fn a_parent_limit_of_three_model_calls_makes_exactly_three_at_any_depth_and_width() {
    for depth in 1..=4 {
        for calls in [1, 8] {
            let model = worker(calls);
            let tool = runaway(&model, depth);
            let budget = Budget::root(Limits::unlimited());
            let root = AgentLoop::builder("root")
                .model(model.clone())
                .tools([tool])
                .stop_when(condition("steps >= 3"))
                .budget(budget.clone())
                .build()
                .unwrap();
            let state = root.run("Go.").await.unwrap();
            let what = format!("depth {depth}, {calls} calls: {}", state.explain());
            assert_eq!(model.calls(), 3, "{what}");
            assert_eq!(state.step_count(), 3, "{what}");
            assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached), "{what}");
            assert_eq!(state.status(), Status::Stopped);
            assert_eq!(state.usage().total(), 330, "{what}");
            let settled = budget.settled();
            assert_eq!((settled.steps, settled.attempts, settled.tokens), (3, 3, 330), "{what}");
            assert_eq!(budget.held(), endstop::ledger::Amounts::default(), "{what}");
            assert_all_answered(&state);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_child_tells_its_parents_model_why_with_its_partial_answer() {
    let reply =
        ScriptedResponse::text("I found the door.").tool_call("work", json!({})).usage(100, 10);
    let child_model = replies([reply]);
    let child = AgentLoop::builder("helper")
        .model(child_model)
        .tool(ok_tool("work"))
        .stop_when(condition("steps >= 2"))
        .build()
        .unwrap();
    let model = replies([
        ScriptedResponse::call("helper", json!({ "task": "Find the way." })),
        ScriptedResponse::text("The helper found a door."),
    ]);
    let parent = agent(&model, "steps >= 10").tools([child.as_tool("Helps.")]).build().unwrap();
    let state = parent.run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("The helper found a door."));
    assert_eq!(state.step_count(), 4);
    let answer =
        state.messages.iter().find(|m| matches!(m, endstop::message::Message::Tool { .. }));
    let answer = answer.unwrap().text();
    for part in ["helper", "steps_limit", "2 steps", "I found the door."] {
        assert!(answer.contains(part), "`{part}` is not in {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parent_money_limit_that_a_child_reaches_stops_the_parent_by_its_rule() {
    // The child's requests are too large for the remaining budget long before the parent's own are.
    let model = Arc::new(ScriptedModel::from_fn("claude-sonnet-4-5", |request, _| {
        let is_child = request.system.len() > 10_000;
        let usage = if is_child { (10_000, 1_000) } else { (100, 10) };
        ScriptedResponse::call("work", json!({ "task": "more" })).usage(usage.0, usage.1)
    }));
    let child = AgentLoop::builder("work")
        .model(model.clone())
        .instructions("Work. ".repeat(2_000))
        .tool(ok_tool("work"))
        .policy(policy("unbounded = true\n"))
        .build()
        .unwrap();
    let root = AgentLoop::builder("root")
        .model(model.clone())
        .tools([child.as_tool("Works.")])
        .stop_when(condition("cost >= $0.20 or own.steps >= 50"))
        .build()
        .unwrap();
    let state = root.run("Go.").await.unwrap();
    let record = state.explain();
    assert_eq!(state.steps().len(), 1, "{record}");
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached), "{record}");
    let trip_record = state.execution.trip_record.as_ref().unwrap();
    assert_eq!(trip_record.rule.as_deref(), Some("stop"), "{record}");
    assert!(trip_record.rules[0].trips, "{record}");
    let cost = state.cost().unwrap();
    assert!(cost <= "0.20".parse().unwrap() && cost > "0.10".parse().unwrap(), "{record}");
}

#[tokio::test(start_paused = true)]
async fn a_parents_hard_limit_of_steps_that_a_child_reaches_stops_the_parent_by_its_rule() {
    let model = worker(1);
    let rules = "[stop]\nsteps = \"steps >= 3\"\n[rule.steps]\nhard = true\n";
    let root = AgentLoop::builder("root")
        .model(model.clone())
        .tools([runaway(&model, 1)])
        .policy(policy(rules))
        .build()
        .unwrap();
    let state = root.run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.steps().len()), (3, 1));
    let trip_record = state.execution.trip_record.as_ref().unwrap();
    assert_eq!(trip_record.rule.as_deref(), Some("steps"), "{}", state.explain());
}

/// The end of a run whose model asks a sub-agent once.
async fn parent_of(child: &Arc<ScriptedModel>, stop: &str) -> endstop::agent::AgentState {
    let child = agent(child, "steps >= 5").build().unwrap();
    let call = ScriptedResponse::call("tested", json!({ "task": "Help." })).usage(100, 10);
    let model = replies([call, ScriptedResponse::text("Done.").usage(100, 10)]);
    let parent = agent(&model, stop).tools([child.as_tool("Helps.")]);
    parent.build().unwrap().run("Go.").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_ends_without_words_tells_its_parent_so() {
    for blank in ["", " \n"] {
        let state = parent_of(&answerer(blank), "steps >= 9").await;
        assert_eq!(outcomes(&state), [ToolOutcome::Succeeded]);
        let answer = state.messages[2].text();
        assert!(answer.contains("The agent `tested` ended without an answer"), "{answer}");
        assert!(answer.contains("It used 1 step, 110 tokens"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_fails_is_a_failed_tool_call() {
    let failing = replies([ScriptedResponse::error(ModelErrorKind::Rejected)]);
    let state = parent_of(&failing, "steps >= 9").await;
    assert_eq!(outcomes(&state), [ToolOutcome::Failed]);
    assert!(state.messages[2].text().contains("was stopped before it finished: error"));
    assert_eq!(state.final_response(), Some("Done."));
    // One that a limit stopped has not failed.
    let state = parent_of(&caller("nosuch"), "steps >= 9").await;
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded]);
    let state = parent_of(&failing, "tool_errors >= 1 or steps >= 9").await;
    assert_eq!(state.stop_reason(), Some(StopReason::RetryLimitReached), "{}", state.explain());
}
