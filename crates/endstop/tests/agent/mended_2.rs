//! Runs that go on: what they bring with them, what they must not lose, what they are refused for.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentState, ExecuteError};
use endstop::core::run::Status;
use endstop::ledger::{Budget, Limits};
use endstop::message::Message;
use endstop::model::Reply;
use endstop::store::{MemoryStore, Store as _};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_counts_once_in_a_budget_that_it_shares() {
    let model = answerer("Yes.");
    let budget = Budget::root(Limits { steps: Some(6), ..Limits::unlimited() });
    let agent = agent(&model, "steps >= 4").budget(budget.clone()).build().unwrap();
    let mut state = AgentState::new();
    for turn in 1..=4 {
        let next = carried(&state).with_message(Message::user("And now?"));
        state = agent.execute(next).await.unwrap();
        let settled = budget.settled();
        assert_eq!((settled.steps, settled.tokens), (turn, 110 * turn), "{}", state.explain());
    }
    // Its own limit counts all turns.
    let state = agent.execute(state.with_message(Message::user("More?"))).await.unwrap();
    assert_eq!((state.step_count(), model.calls(), budget.settled().steps), (4, 4, 4));
    assert_eq!(agent.run("Another.").await.unwrap().status(), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_older_than_the_stored_run_is_refused() {
    let store = MemoryStore::new();
    let slow = Reply::call("look", json!({})).usage(100, 10).delay(Duration::from_millis(10));
    let model = replies([slow]);
    let agent = agent(&model, "steps >= 5").tool(ok_tool("look")).store(Arc::new(store.clone()));
    let agent = agent.build().unwrap();
    let state = AgentState::with_prompt("Go.");
    let (id, fresh) = (state.id.clone(), state.clone());
    tokio::time::timeout(Duration::from_millis(25), agent.execute(state)).await.unwrap_err();
    let stored = store.load(&id).await.unwrap().unwrap();
    let saved = AgentState::from_json(&stored.text).unwrap();
    assert_eq!((saved.step_count(), model.calls()), (2, 3));
    for old in [saved, fresh] {
        let error = agent.execute(old).await.unwrap_err();
        assert!(matches!(&error, ExecuteError::Outdated { run, .. } if *run == id), "{error}");
        assert!(error.to_string().contains("resume"), "{error}");
    }
    let state = agent.resume(&id).await.unwrap();
    assert_eq!((state.step_count(), model.calls()), (5, 5));
    // What is not older goes on.
    let state = agent.execute(state.with_message(Message::user("More?"))).await.unwrap();
    assert_eq!((state.step_count(), state.status()), (5, Status::Stopped));
}
