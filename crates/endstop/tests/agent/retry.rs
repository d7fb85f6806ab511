//! Replies that are dropped and requests that fail: repeated, counted, and not forever.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentLoop, CircuitBreaker, RetryPolicy, Trigger};
use endstop::core::run::Status;
use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use serde_json::json;
use tokio::time::Instant;

use crate::support::*;

const SORRY: &str = "[stop]\nlimit = \"steps >= 9\"\n[retry]\nbad = \"said('I cannot')\"\n";

fn ruled(model: &Arc<ScriptedModel>, rules: &str) -> endstop::agent::AgentBuilder {
    AgentLoop::builder("tested").model(model.clone()).policy(policy(rules))
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_a_retry_rule_dislikes_is_charged_dropped_and_asked_of_the_other_model() {
    let first = replies([ScriptedResponse::text("I cannot do that.").usage(100, 10)]);
    let other = replies([ScriptedResponse::text("Here it is.").usage(200, 20)]);
    let agent = ruled(&first, SORRY).retry_model(other.clone()).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Here it is."));
    assert_eq!((first.calls(), other.calls()), (1, 1));
    assert_eq!((state.step_count(), state.steps()[0].attempts), (1, 2));
    assert_eq!((state.usage().total(), state.steps()[0].usage.total()), (330, 330));
    assert_eq!(state.messages.len(), 2, "the dropped reply is not in the conversation");
}

#[tokio::test(start_paused = true)]
async fn asking_again_is_finite_and_then_the_rule_stops_the_run() {
    let model = replies([ScriptedResponse::text("I cannot do that.").usage(100, 10)]);
    let state = ruled(&model, SORRY).build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.step_count()), (3, 1));
    assert_eq!(state.usage().total(), 330);
    assert_eq!(state.stop_reason(), Some(StopReason::ConditionMet), "{}", state.explain());
    assert!(state.last_stop_signal().unwrap().message.contains("asked again 2 times"));
}

#[tokio::test(start_paused = true)]
async fn a_near_duplicate_is_asked_again_and_the_first_model_comes_back_in_the_next_step() {
    let long =
        "The file that you asked about holds the list of ports, and every port in it is open.";
    let first = replies([ScriptedResponse::text(long).tool_call("look", json!({})).usage(10, 5)]);
    let new = ScriptedResponse::text(
        "Nothing like that: the second file was empty when I opened it just now.",
    );
    let other = replies([new.tool_call("look", json!({})).usage(10, 5)]);
    let rules = "[stop]\nlimit = \"steps >= 2\"\n[retry]\nsame = \"near_duplicate\"\n";
    let agent = ruled(&first, rules).retry_model(other.clone()).tool(ok_tool("look"));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((first.calls(), other.calls(), state.step_count()), (2, 1, 2));
    assert_eq!(state.steps().iter().map(|s| s.attempts).collect::<Vec<_>>(), [1, 2]);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_retry_may_not_pass_a_limit() {
    let model = replies([ScriptedResponse::text("I cannot do that.").usage(100, 10)]);
    let rules = SORRY.replace("steps >= 9", "attempts >= 2");
    let state = ruled(&model, &rules).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(model.calls(), 2);
    assert_eq!(state.stop_reason(), Some(StopReason::RetryLimitReached));
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_the_longest_and_retry_after_is_obeyed() {
    let failing = || ScriptedResponse::error(ModelErrorKind::Unavailable);
    let after = |seconds| {
        ScriptedResponse::text("")
            .fail(ModelErrorKind::RateLimited, Some(Duration::from_secs(seconds)))
    };
    let retry = RetryPolicy {
        max_attempts: 9,
        first_wait: Duration::from_secs(1),
        longest_wait: Duration::from_secs(3),
        longest_retry_after: Duration::from_secs(60),
    };
    let cases = [
        (
            vec![failing(), failing(), failing(), failing(), ScriptedResponse::text("Done.")],
            1 + 2 + 3 + 3,
            5,
        ),
        (vec![after(60), failing(), ScriptedResponse::text("Done.")], 62, 3),
        (vec![after(0), ScriptedResponse::text("Done.")], 0, 2),
    ];
    for (script, seconds, attempts) in cases {
        let (model, begun) = (replies(script), Instant::now());
        let agent = agent(&model, "steps >= 5").retry(retry).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!(state.final_response(), Some("Done."));
        assert_eq!(begun.elapsed(), Duration::from_secs(seconds));
        assert_eq!((state.step_count(), state.steps()[0].attempts), (1, attempts));
    }
    // One that asks for more than the longest is not asked again.
    let (model, begun) = (replies([after(61)]), Instant::now());
    let state = agent(&model, "steps >= 5").retry(retry).build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), begun.elapsed()), (1, Duration::ZERO));
    assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade));
    assert_eq!(state.status(), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn max_retries_and_the_error_budget_end_the_run() {
    let patient = RetryPolicy { max_attempts: 50, ..RetryPolicy::default() };
    for (rule, calls) in [
        ("max_retries(1)", 2),
        ("max_retries(3)", 4),
        ("attempts >= 3", 3),
        ("max_errors(1)", 1),
        ("max_errors(3)", 3),
    ] {
        let model = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
        let agent = agent(&model, &format!("{rule} or steps >= 9")).retry(patient);
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(model.calls(), calls, "{rule}: {}", state.explain());
        assert_eq!(state.stop_reason(), Some(StopReason::RetryLimitReached), "{rule}");
        assert_eq!(state.step_count(), 1);
    }
    // Failed tools are errors too.
    let model = caller("fail");
    let agent = agent(&model, "max_errors(3) or steps >= 9").tool(failing_tool("fail"));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.stop_reason()), (3, Some(StopReason::RetryLimitReached)));
}

#[tokio::test(start_paused = true)]
async fn one_breaker_keeps_two_agents_from_a_model_that_fails() {
    let breaker = CircuitBreaker::new(3, Duration::from_secs(60));
    let failing = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let patient = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
    let first = agent(&failing, "steps >= 5").retry(patient).circuit_breaker(breaker.clone());
    let state = first.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((failing.calls(), breaker.is_open()), (3, true));
    assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade));
    // Another agent waits until the breaker lets one through.
    let (well, begun) = (answerer("Back."), Instant::now());
    let second = agent(&well, "steps >= 5").circuit_breaker(breaker.clone()).build().unwrap();
    let state = second.run("Go.").await.unwrap();
    assert_eq!((state.final_response(), well.calls()), (Some("Back."), 1));
    assert_eq!(begun.elapsed(), Duration::from_secs(60));
    assert!(!breaker.is_open());
    // While it is open a time limit still ends a run, without a request.
    for _ in 0..3 {
        breaker.record(false);
    }
    let waiting = agent(&well, "active >= 10s").circuit_breaker(breaker.clone()).build().unwrap();
    let state = waiting.run("Go.").await.unwrap();
    assert_eq!((state.stop_reason(), well.calls()), (Some(StopReason::TimeLimitReached), 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_before_its_trial_request_leaves_the_breaker_to_others() {
    let breaker = CircuitBreaker::new(1, Duration::from_secs(60));
    breaker.record(false);
    let model = answerer("Back.");
    let stopper = agent(&model, "steps >= 5").circuit_breaker(breaker.clone());
    let stopper = stopper.hook(Trigger::BeforeModelRequest, 0, |_| {
        Err(AgentStop::from(StopSignal::new(StopReason::StopRequested)))?
    });
    let state = stopper.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((state.stop_reason(), model.calls()), (Some(StopReason::StopRequested), 0));
    let next = agent(&model, "steps >= 5").circuit_breaker(breaker.clone()).build().unwrap();
    let ran = tokio::time::timeout(Duration::from_secs(600), next.run("Go.")).await;
    assert_eq!(ran.unwrap().unwrap().final_response(), Some("Back."));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_fails_fast_ends_runs_at_once_instead_of_letting_them_wait() {
    let breaker = CircuitBreaker::new(2, Duration::from_secs(60)).fail_fast();
    let failing = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let patient = RetryPolicy { max_attempts: 9, ..RetryPolicy::default() };
    let first = agent(&failing, "steps >= 5").retry(patient).circuit_breaker(breaker.clone());
    let begun = Instant::now();
    let state = first.build().unwrap().run("Go.").await.unwrap();
    // The second failure opens it: no third request, and no wait for one.
    assert_eq!((failing.calls(), begun.elapsed()), (2, Duration::from_millis(500)));
    assert_eq!((state.status(), breaker.is_open()), (Status::Failed, true));
    let (well, begun) = (answerer("Back."), Instant::now());
    let second = agent(&well, "steps >= 5").circuit_breaker(breaker).build().unwrap();
    let state = second.run("Go.").await.unwrap();
    assert_eq!((well.calls(), begun.elapsed()), (0, Duration::ZERO));
    assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade));
    let error = state.execution.error.as_deref().unwrap();
    assert!(error.contains("the circuit breaker of `scripted` is open for 1m"), "{error}");
    // Once it lets a request through, the conversation continues.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let state = second.execute(state.next_execution()).await.unwrap();
    assert_eq!(state.final_response(), Some("Back."));
}
