//! Runs that continue after a stop: a raised limit, a cancellation that is taken back.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentLoop, AgentState};
use endstop::cancel::{CancelToken, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::store::{MemoryStore, Store};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

fn looper(model: &Arc<ScriptedModel>, limits: &str) -> AgentLoop {
    under(model, &format!("[stop]\n{limits}\n")).tool(ok_tool("look")).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_lets_a_stopped_run_continue_with_its_counters() {
    let model = caller("look");
    let state = looper(&model, "a = \"steps >= 2\"").run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    // The same limit, with another rule added, changes nothing.
    for limits in ["a = \"steps >= 2\"", "a = \"steps >= 2\"\nb = \"cost >= $9\""] {
        let agent = looper(&model, limits);
        assert!(!agent.has_raised_limits_of(&state).unwrap());
        let same = agent.execute(carried(&state)).await.unwrap();
        assert_eq!((same.step_count(), same.status()), (2, Status::Stopped));
    }
    // Raised, but not beyond what has happened.
    let lower = looper(&model, "a = \"steps >= 1\"");
    assert_eq!(lower.execute(carried(&state)).await.unwrap().step_count(), 2);
    let agent = looper(&model, "a = \"steps >= 5\"");
    assert!(agent.has_raised_limits_of(&state).unwrap());
    let message = Message::user("More.");
    let state = agent.execute(carried(&state).with_message(message)).await.unwrap();
    assert_eq!((state.step_count(), state.warnings().len()), (5, 0), "{}", state.explain());
    assert!(state.explain().contains("reopened by execute"), "{}", state.explain());
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_raised_budget_continues_a_run_whose_call_did_not_fit_or_was_cut_off() {
    // $0.0035 per call; the second is cut off at the remaining budget, or not sent.
    for (limit, cut) in [("0.0080", false), ("0.0068", true)] {
        let model = priced(move |request, _| {
            let reply = match request.max_output_tokens {
                Some(0..90) => ScriptedResponse::text("I was").finish("length"),
                _ if replies_so_far(request) < 4 => ScriptedResponse::call("look", json!({})),
                _ => ScriptedResponse::text("Done."),
            };
            reply.usage(1_000, request.max_output_tokens.unwrap_or(100).min(100))
        });
        let state = looper(&model, &format!("a = \"cost >= ${limit}\"")).run("Go.").await.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached), "{}", state.explain());
        let before = state.step_count();
        let state = looper(&model, "a = \"cost >= $5\"").execute(carried(&state)).await.unwrap();
        assert_eq!(state.status(), Status::Completed, "{limit} {cut}: {}", state.explain());
        assert!(state.step_count() > before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reopened_run_forgets_its_cancellation_and_nothing_else() {
    for urgency in [Urgency::Graceful, Urgency::Now] {
        let model = priced(|request, _| {
            let reply = match replies_so_far(request) {
                n if n < 3 => ScriptedResponse::call("look", json!({})),
                _ => ScriptedResponse::text("Done."),
            };
            reply.usage(100, 10).delay(Duration::from_secs(10))
        });
        let limits = "a = \"steps >= 9\"\nc = \"cancellation()\"";
        let token = CancelToken::new();
        let text = format!("[stop]\n{limits}\n");
        let agent = under(&model, &text).tool(ok_tool("look")).cancel_token(token.clone());
        let cancelling = async {
            tokio::time::sleep(Duration::from_secs(15)).await;
            token.cancel(StopSignal::user_requested("enough"), urgency);
        };
        let agent = agent.build().unwrap();
        let (state, ()) = tokio::join!(agent.run("Go."), cancelling);
        let state = state.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::UserRequested));
        let steps = state.step_count();
        let agent = looper(&model, limits);
        let same = agent.execute(carried(&state)).await.unwrap();
        assert_eq!((same.step_count(), same.stop_reason()), (steps, state.stop_reason()));
        let state = agent.execute(carried(&state).reopened()).await.unwrap();
        assert_eq!(state.final_response(), Some("Done."), "{urgency:?} {}", state.explain());
        assert!(state.step_count() > steps && !state.execution.is_reopened);
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_with_the_last_answer_is_completed_when_it_is_reopened() {
    let model = answerer("Done.");
    let token = CancelToken::new();
    token.cancel(StopSignal::user_requested("enough"), Urgency::Graceful);
    let agent = looper(&model, "a = \"steps >= 9\"");
    let tool = under(&model, "[stop]\na = \"steps >= 9\"\n").cancel_token(token);
    let cancelled = tool.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(cancelled.stop_reason(), Some(StopReason::UserRequested));
    // Stops of other kinds stay.
    let (counter, _) = counter_tool(1);
    let stopper = under(&caller("counter"), "[stop]\na = \"steps >= 9\"\n").tool(counter);
    let stopped = stopper.build().unwrap().run("Go.").await.unwrap();
    let state = agent.execute(stopped.reopened()).await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::StopRequested));
    let state = agent.execute(cancelled.reopened()).await.unwrap();
    assert_eq!((state.final_response(), state.step_count()), (Some("Done."), 1));
}

#[tokio::test(start_paused = true)]
async fn a_reopened_run_whose_process_dies_goes_on() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let model = caller("look");
    let agent = |limit: u64| {
        let text = format!("[stop]\na = \"steps >= {limit}\"\n");
        let builder = under(&model, &text).tool(slow_tool("look", Duration::from_secs(1)));
        builder.store(Arc::clone(&store)).build().unwrap()
    };
    let state = agent(2).run("Go.").await.unwrap();
    let id = state.id.clone();
    let raised = agent(6);
    let dies = tokio::time::timeout(Duration::from_millis(1_500), raised.execute(state));
    assert!(dies.await.is_err());
    let state = agent(6).resume(&id).await.unwrap();
    assert_eq!((state.step_count(), state.stop_reason()), (6, Some(StopReason::StepsLimitReached)));
    assert_eq!(state.usage().total(), 660);
}

#[tokio::test(start_paused = true)]
async fn a_rule_with_the_reason_completed_is_a_stop_and_no_natural_end() {
    let text = "[stop]\na = \"steps >= 2\"\n[rule.a]\nreason = \"completed\"\n";
    let model = caller("look");
    let agent = under(&model, text).tool(ok_tool("look")).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((state.status(), state.step_count()), (Status::Completed, 2));
    let id = state.id.clone();
    let state = agent.execute(state.with_message(Message::user("More."))).await.unwrap();
    assert_eq!((&state.id, state.step_count(), state.warnings().len()), (&id, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_next_execution_of_a_paused_run_leaves_no_call_open() {
    let text = "[stop]\na = \"steps >= 9\"\n[pause]\nask = \"tool_calls >= 0\"\n";
    let model =
        replies([ScriptedResponse::call("look", json!({})), ScriptedResponse::text("Done.")]);
    let agent = under(&model, text).tool(ok_tool("look")).build().unwrap();
    let paused = agent.run("Go.").await.unwrap();
    assert_eq!(paused.status(), Status::Paused);
    let next: AgentState = paused.next_execution().with_message(Message::user("Something else."));
    assert_all_answered(&next);
    let outcomes = outcomes(&next);
    assert!(outcomes.iter().all(|outcome| *outcome == ToolOutcome::NotExecuted), "{outcomes:?}");
}
