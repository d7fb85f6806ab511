//! Saved states of agents: reading never panics, writing a state that was read gives the same text, and a run that
//! continues from any readable state ends within its policy.

use endstop::agent::{AgentLoop, AgentState};
use endstop::core::condition::named::max_steps;
use endstop::model::{ScriptedModel, ScriptedResponse};

/// Panics if the reader breaks its promise.
pub(crate) fn check(text: &str) {
    let Ok(state) = AgentState::from_json(text) else { return };
    let written = state.to_json();
    let again = AgentState::from_json(&written).expect("a written state can be read");
    assert_eq!(again.to_json(), written);
    let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done.")).repeat_last();
    let agent = AgentLoop::builder("fuzzed").model(model).stop_when(max_steps(3)).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let before = state.steps().len();
    // A state that does not fit the policy is an error, not a panic.
    if let Ok(state) = runtime.expect("a runtime").block_on(agent.expect("an agent").execute(state))
    {
        assert!(state.steps().len() <= before.saturating_add(4));
    }
}
