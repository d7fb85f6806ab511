//! A pause before a sub-agent holds its call up; what is too deep is not dispatched.

use std::sync::Arc;

use endstop::agent::{AgentLoop, Approval};
use endstop::core::run::Status;
use endstop::ledger::{Budget, Limits};
use endstop::message::ToolOutcome;
use endstop::model::ScriptedResponse;
use endstop::tool::Tool;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

fn helper() -> Arc<dyn Tool> {
    let agent =
        AgentLoop::builder("helper").model(answerer("Found.")).stop_when(condition("steps >= 5"));
    agent.build().unwrap().as_tool("Helps.")
}

fn calls_twice() -> Arc<endstop::model::ScriptedModel> {
    let call = |reply: ScriptedResponse| reply.tool_call("helper", json!({ "task": "Look." }));
    replies([
        call(call(ScriptedResponse::text("Both."))).usage(10, 1),
        ScriptedResponse::text("Done.").usage(10, 1),
    ])
}

const ASKS: &str = "[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"subagents >= 1\"\n";

#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_waits_for_an_approval_is_begun_after_it() {
    let agent = || under(&calls_twice(), ASKS).tools([helper()]).parallel_tools(1);
    let person = Person::who_says([Approval::Yes]);
    let state = agent().approver(person.clone()).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 2], "{}", state.explain());
    assert_eq!((state.status(), person.asked().len()), (Status::Completed, 1));

    let state = agent().build().unwrap().run("Go.").await.unwrap();
    assert_eq!((state.status(), outcomes(&state)), (Status::Paused, vec![ToolOutcome::Succeeded]));
    let later =
        under(&replies([ScriptedResponse::text("Done.").usage(10, 1)]), ASKS).tools([helper()]);
    let state = later.build().unwrap().execute(carried(&state).approved(None)).await.unwrap();
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 2], "{}", state.explain());
    assert_eq!(state.status(), Status::Completed);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_is_too_deep_is_no_tool_call() {
    let budget = Budget::root(Limits::unlimited());
    let rules = "[stop]\nlimit = \"steps >= 9 or depth >= 0\"\n";
    let agent = under(&calls_twice(), rules).tools([helper()]).budget(budget.clone());
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(outcomes(&state), [ToolOutcome::Refused; 2], "{}", state.explain());
    assert_eq!(budget.settled().tool_calls, 0);
    assert_all_answered(&state);
}
