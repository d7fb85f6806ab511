//! A state that has ended and gets another message: a new run, or the stop again.

use std::sync::Arc;

use endstop::agent::AgentState;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Budget, Limits};
use endstop::message::Message;
use endstop::store::{MemoryStore, Store as _};

use crate::kit::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_message_to_a_run_that_ended_by_itself_begins_a_new_run() {
    let model = answerer("Yes.");
    let budget = Budget::root(Limits { steps: Some(3), ..Limits::unlimited() });
    let store = MemoryStore::new();
    let builder = agent(&model, "steps >= 1").budget(budget.clone());
    let agent = builder.store(Arc::new(store.clone())).build().unwrap();
    let mut state = agent.run("First?").await.unwrap();
    let first = state.id.clone();
    for turn in 2..=3 {
        let before = state.id.clone();
        let asked = carried(&state).with_message(Message::user("And now?"));
        state = agent.execute(asked).await.unwrap();
        // Its counters and its limits are its own, the budget and the conversation continue.
        assert_eq!((state.status(), state.step_count()), (Status::Completed, 1));
        assert_ne!(state.id, before);
        assert_eq!(state.previous, Some(before));
        assert_eq!(state.messages.len(), 2 * turn);
        assert_eq!(budget.settled().steps, turn as u64);
        assert!(state.warnings().is_empty());
    }
    assert_eq!(store.list().await.unwrap().len(), 3);
    // The old run is as it was.
    let stored = store.load(&first).await.unwrap().unwrap();
    let old = AgentState::from_json(&stored.text).unwrap();
    assert_eq!((old.messages.len(), old.status(), old.previous), (2, Status::Completed, None));
    // The budget is used up.
    let asked = state.with_message(Message::user("Again?"));
    let state = agent.execute(asked).await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    assert_eq!(model.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_by_itself_stays_as_it_is_without_a_new_user_message() {
    let model = answerer("Yes.");
    let agent = agent(&model, "steps >= 5").build().unwrap();
    let ended = agent.run("First?").await.unwrap();
    let note = ended.clone().with_message(Message::system("Be brief."));
    for state in [ended.clone(), note] {
        let state = agent.execute(carried(&state)).await.unwrap();
        assert_eq!((&state.id, state.step_count(), model.calls()), (&ended.id, 1, 1));
        assert_eq!((state.previous.clone(), state.status()), (None, Status::Completed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_run_that_a_rule_stopped_returns_the_stop_and_says_so() {
    for (model, stop) in [(caller("look"), "steps >= 2"), (answerer("DONE"), "said(\"DONE\")")] {
        let agent = agent(&model, &format!("{stop} or steps >= 9")).tool(ok_tool("look"));
        let agent = agent.build().unwrap();
        let stopped = agent.run("Go.").await.unwrap();
        let (calls, reason) = (model.calls(), stopped.stop_reason());
        let asked = carried(&stopped).with_message(Message::user("Go on."));
        let state = agent.execute(asked).await.unwrap();
        assert_eq!((&state.id, state.stop_reason(), model.calls()), (&stopped.id, reason, calls));
        let [warning] = state.warnings() else { panic!("{}", state.explain()) };
        assert!(warning.contains(reason.unwrap().value()), "{warning}");
        assert!(state.explain().ends_with(&format!("\nwarning: {warning}")));
        // The warning is of that execution alone.
        let again = agent.execute(carried(&state)).await.unwrap();
        assert!(again.warnings().is_empty(), "{}", again.explain());
        let next = agent.execute(again.next_execution()).await.unwrap();
        assert_eq!((next.stop_reason(), next.previous), (reason, Some(stopped.id)));
        assert!(model.calls() > calls);
    }
}
