//! How a model call is charged whose report is incomplete, or which another model answered.

use endstop::agent::{AgentState, RetryPolicy};
use endstop::core::units::{Money, TokenUsage};
use endstop::model::{ModelError, ModelErrorKind, ScriptedResponse};

use crate::kit::*;

/// Two attempts answered with 504, a third one that timed out, and a response without usage.
async fn with_unconfirmed_calls() -> AgentState {
    let model = priced(|_, call| match call {
        0 | 1 => ScriptedResponse::default().fail_with(ModelError {
            status: Some(504),
            ..ModelError::new(ModelErrorKind::TimedOut, "the gateway gave up")
        }),
        2 => ScriptedResponse::default()
            .fail_with(ModelError::new(ModelErrorKind::TimedOut, "no byte")),
        _ => ScriptedResponse::text("Done.").without_usage(),
    });
    let retry = RetryPolicy { max_attempts: 9, ..RetryPolicy::default() };
    let agent = under(&model, "[stop]\nlimit = \"cost >= $1\"\n").max_output_tokens(1_000);
    agent.retry(retry).build().unwrap().run("Go.").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_amount_that_no_provider_confirmed_is_explained_by_its_causes() {
    let state = with_unconfirmed_calls().await;
    let text = state.explain();
    let causes =
        "unconfirmed: 2 calls answered 504, 1 call timed out, 1 call without reported usage";
    assert!(text.contains(causes), "{text}");
    let uncertainty = &state.execution.uncertainty;
    assert!(uncertainty.unconfirmed > Money::ZERO, "{text}");
    let unconfirmed = endstop::core::human::money(uncertainty.unconfirmed);
    assert!(text.contains(&format!("of the cost, {unconfirmed}")), "{text}");
    assert_eq!(uncertainty.unconfirmed_calls(), 4);
    assert_eq!(carried(&state).explain(), text, "another process says the same");
}

#[tokio::test(start_paused = true)]
async fn the_dearer_of_the_requested_and_the_responding_model_is_charged() {
    let usage = TokenUsage { input: 1_000, output: 100, ..TokenUsage::default() };
    // Per million tokens: gpt-4o $2.50 and $10, gpt-4o-mini $0.15 and $0.60, gpt-4 $30 and $60.
    for (responds, cost) in
        [("gpt-4o", "0.0035"), ("gpt-4o-mini", "0.0035"), ("gpt-4", "0.036"), ("unknown", "0.0035")]
    {
        let model =
            priced(move |_, _| ScriptedResponse::text("Done.").tokens(usage).answered_by(responds));
        let agent = under(&model, "[stop]\nlimit = \"steps >= 3\"\n").build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!(state.cost(), Some(usd(cost)), "{responds}");
    }
}
