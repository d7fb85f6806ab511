//! Hand-offs: by a rule the run ends, without one the named agent continues on the same ledger.

use std::sync::Arc;

use endstop::agent::{AgentBuilder, AgentLoop};
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Budget, Limits};
use endstop::message::ToolOutcome;
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::tool::{FunctionTool, Handoff, ToolError, ToolOutput};
use serde_json::json;

use crate::kit::carried;
use crate::support::*;

fn hands_to(to: &'static str) -> FunctionTool {
    FunctionTool::without_arguments("transfer", "Hands off.", move |_| async move {
        let handoff = Handoff { to: to.to_owned(), message: "Please continue.".to_owned() };
        Ok::<_, ToolError>(ToolOutput::from(handoff))
    })
}

fn named(name: &str, model: &Arc<ScriptedModel>, stop: &str) -> AgentBuilder {
    AgentLoop::builder(name).model(model.clone()).stop_when(condition(stop))
}

#[tokio::test(start_paused = true)]
async fn a_rule_on_the_hand_off_ends_the_run() {
    let model = caller("transfer");
    let human = named("human", &answerer("Never."), "steps >= 5").build().unwrap();
    let agent = named("triage", &model, "handoff(\"human\") or steps >= 9");
    let agent = agent.tool(hands_to("human")).handoff(human).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::HandedOff));
    assert_eq!((state.status(), state.step_count()), (Status::Completed, 1));
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded]);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn without_a_rule_the_named_agent_continues_on_the_same_ledger_and_policy() {
    let (model, expert) = (caller("transfer"), caller("look"));
    let budget = Budget::root(Limits::unlimited());
    // The policy of the first agent applies; the other's would stop immediately.
    let other = named("expert", &expert, "steps >= 1").instructions("You know.");
    let other = other.tool(ok_tool("look")).build().unwrap();
    let agent = named("triage", &model, "steps >= 4").tool(hands_to("expert")).handoff(other);
    let agent = agent.budget(budget.clone()).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((model.calls(), expert.calls(), state.step_count()), (1, 3, 4));
    assert_eq!(state.agent, "expert");
    let agents: Vec<&str> = state.steps().iter().map(|step| step.agent.as_str()).collect();
    assert_eq!(agents, ["triage", "expert", "expert", "expert"]);
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    assert_eq!(
        (state.usage().total(), budget.settled().tokens, budget.settled().steps),
        (440, 440, 4)
    );
    assert!(state.messages.iter().any(|m| m.text().contains("Please continue.")));
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_is_told_and_the_run_goes_on_with_the_one_it_has() {
    let model = replies([
        ScriptedResponse::call("transfer", json!({})),
        ScriptedResponse::text("Then I do it."),
    ]);
    let other = named("expert", &answerer("Never."), "steps >= 5").build().unwrap();
    let agent = named("triage", &model, "steps >= 9").tool(hands_to("nobody")).handoff(other);
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Then I do it."));
    assert_eq!(outcomes(&state), [ToolOutcome::Failed]);
    let told = state.messages[2].text();
    assert!(told.contains("`nobody`") && told.contains("expert"), "{told}");
}

/// triage hands to expert, expert to triage.
fn pair(stop: &str) -> (Arc<ScriptedModel>, Arc<ScriptedModel>, AgentLoop) {
    let (first, second) = (caller("transfer"), caller("transfer"));
    let expert = named("expert", &second, "steps >= 50").tool(hands_to("triage")).build().unwrap();
    let triage = named("triage", &first, stop).tool(hands_to("expert")).handoff(expert);
    (first, second, triage.build().unwrap())
}

#[tokio::test(start_paused = true)]
async fn back_and_forth_goes_on_until_a_limit() {
    let (first, second, agent) = pair("steps >= 7");
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((first.calls(), second.calls()), (4, 3), "{}", state.explain());
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 7]);
    for limit in [1u64, 2, 5] {
        let (first, second, agent) = pair(&format!("handoffs >= {limit} or steps >= 50"));
        let state = agent.run("Go.").await.unwrap();
        assert_eq!(first.calls() + second.calls(), limit, "{}", state.explain());
        assert_eq!(state.stop_reason(), Some(StopReason::HandedOff));
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_handed_on_twice_is_resumed_with_the_last_agent() {
    let (a, b, c) = (caller("transfer"), caller("transfer"), caller("look"));
    let agent = || {
        let last = named("last", &c, "steps >= 50").tool(ok_tool("look")).build().unwrap();
        let middle = named("middle", &b, "steps >= 50").tool(hands_to("last")).handoff(last);
        let middle = middle.build().unwrap();
        named("first", &a, "steps >= 6").tool(hands_to("middle")).handoff(middle).build().unwrap()
    };
    let mut iteration =
        agent().iterate(endstop::agent::AgentState::with_prompt("Go.")).await.unwrap();
    for _ in 0..3 {
        assert!(iteration.advance().await);
    }
    let state = agent().execute(carried(&iteration.into_state())).await.unwrap();
    assert_eq!((a.calls(), b.calls(), c.calls()), (1, 1, 4));
    assert_eq!((state.agent.as_str(), state.step_count()), ("last", 6));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_handed_off_is_still_kept_and_still_asks_the_same_person() {
    use endstop::agent::Approval;
    use endstop::store::{MemoryStore, Store as _};
    let (model, expert) = (caller("transfer"), caller("look"));
    let (store, person) = (MemoryStore::new(), crate::kit::Person::who_says([Approval::Yes]));
    let other = named("expert", &expert, "steps >= 50").tool(ok_tool("look")).build().unwrap();
    let rules = "[stop]\nlimit = \"steps >= 5\"\n[pause]\nask = \"steps >= 3\"\n";
    let agent = crate::kit::under(&model, rules).tool(hands_to("expert")).handoff(other);
    let agent = agent.store(Arc::new(store.clone())).approver(person.clone()).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((state.step_count(), person.asked().len()), (5, 1), "{}", state.explain());
    let stored = store.load(&state.id).await.unwrap().unwrap();
    assert_eq!(endstop::agent::AgentState::from_json(&stored.text).unwrap(), state);
}
