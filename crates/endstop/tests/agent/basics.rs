//! Steps, tools, ends.

use std::sync::Arc;

use endstop::agent::{AgentState, Trigger};
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::message::ToolOutcome;
use endstop::model::ModelErrorKind;
use endstop::model::{ScriptedModel, ScriptedResponse};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_counter_stops_at_three_with_all_three_steps_recorded() {
    let model = caller("counter");
    let (tool, count) = counter_tool(3);
    let state =
        agent(&model, "steps >= 10").tool(tool).build().unwrap().run("Count.").await.unwrap();
    assert_eq!(state.final_response(), None);
    assert!(!state.has_final_response());
    let signal = state.last_stop_signal().unwrap();
    assert_eq!(signal.reason, StopReason::StopRequested);
    assert_eq!(signal.context["final_count"], json!(3));
    assert_eq!(signal.source.as_deref(), Some("counter"));
    assert_eq!((state.step_count(), state.steps().len()), (3, 3));
    assert_eq!(state.usage().total(), 330);
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 3);
    assert_eq!(state.status(), Status::Stopped);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn the_states_after_each_step_are_a_stream() {
    let (tool, _) = counter_tool(9);
    let agent = agent(&caller("counter"), "steps >= 3").tool(tool).build().unwrap();
    let states = agent.iterate(AgentState::with_prompt("Count.")).await.unwrap().into_stream();
    let states: Vec<AgentState> = states.collect().await;
    let steps: Vec<u64> = states.iter().map(AgentState::step_count).collect();
    assert_eq!(steps, [1, 2, 3]);
    assert_eq!(states.last().map(AgentState::status), Some(Status::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_natural_end_has_a_reason_and_a_final_response() {
    let state = agent(&answerer("Done."), "steps >= 5").build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Done."));
    assert_eq!(state.current_response(), Some("Done."));
    assert_eq!(state.stop_reason(), Some(StopReason::Completed));
    assert_eq!(state.status(), Status::Completed);
    assert_eq!(state.step_count(), 1);
}

#[test]
fn the_future_of_a_run_has_no_room_for_what_it_seldom_waits_for() {
    let agent = agent(&answerer("Done."), "steps >= 5").build().unwrap();
    // 3.9 KB on 64 bits. It had 6.1 KB with that room.
    let size = size_of_val(&agent.run("Go."));
    assert!(size < 4_500, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_n_steps_admits_exactly_n_and_the_nth_runs_its_tools() {
    for n in [0u64, 1, 2, 25] {
        let model = caller("look");
        let agent = agent(&model, &format!("steps >= {n}")).tool(ok_tool("look")).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!((model.calls(), state.step_count()), (n, n));
        assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
        assert_eq!(outcomes(&state), vec![ToolOutcome::Succeeded; n as usize]);
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_call_limit_answers_what_it_refuses() {
    let model = replies([ScriptedResponse::call("look", json!({}))
        .tool_call("look", json!({}))
        .tool_call("look", json!({}))]);
    let agent =
        agent(&model, "tool_calls >= 2 or steps >= 9").tool(ok_tool("look")).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::ToolCallsLimitReached));
    assert_eq!(
        outcomes(&state),
        [ToolOutcome::Succeeded, ToolOutcome::Succeeded, ToolOutcome::Refused]
    );
    assert!(
        state.messages.last().unwrap().text().contains("tool_calls >= 2 or steps >= 9"),
        "{state:?}"
    );
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn unknown_tools_wrong_arguments_and_failures_are_typed_results_that_a_run_survives() {
    let model = replies([
        ScriptedResponse::call("lok", json!({}))
            .raw_tool_call("look", "{not json")
            .tool_call("fail", json!({}))
            .tool_call("look", json!({})),
        ScriptedResponse::text("Fine."),
    ]);
    let agent = agent(&model, "steps >= 5").tool(ok_tool("look")).tool(failing_tool("fail"));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(
        outcomes(&state),
        [ToolOutcome::Unknown, ToolOutcome::Invalid, ToolOutcome::Failed, ToolOutcome::Succeeded]
    );
    // One recovered tool error does not make the run fail.
    assert_eq!(state.status(), Status::Completed);
    assert_eq!(state.final_response(), Some("Fine."));
    assert_all_answered(&state);
    let json = state.to_json();
    assert_eq!(AgentState::from_json(&json).unwrap(), state);
    assert_eq!(AgentState::from_json(&json).unwrap().to_json(), json);
}

#[tokio::test(start_paused = true)]
async fn remaining_calls_are_not_begun_once_a_stop_is_raised() {
    let model = replies([ScriptedResponse::call("look", json!({}))
        .tool_call("counter", json!({}))
        .tool_call("look", json!({}))]);
    let (tool, _) = counter_tool(1);
    let agent = agent(&model, "steps >= 5").tool(tool).tool(ok_tool("look")).parallel_tools(1);
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::StopRequested));
    assert_eq!(outcomes(&state)[2], ToolOutcome::NotExecuted);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_driver_error_leaves_its_trace_in_the_state() {
    let model = replies([ScriptedResponse::error(ModelErrorKind::Rejected)]);
    let state = agent(&model, "steps >= 5").build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.status(), Status::Failed);
    assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade));
    assert_eq!(state.steps().len(), 1);
    assert!(!state.steps()[0].errors.is_empty());
    assert!(state.execution.error.is_some());
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_apart_from_steps_and_waited_between() {
    let model = replies([
        ScriptedResponse::error(ModelErrorKind::Unavailable),
        ScriptedResponse::text("")
            .fail(ModelErrorKind::RateLimited, Some(std::time::Duration::from_secs(7))),
        ScriptedResponse::text("At last."),
    ]);
    let begun = tokio::time::Instant::now();
    let state = agent(&model, "steps >= 5").build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("At last."));
    assert_eq!((state.step_count(), state.steps()[0].attempts), (1, 3));
    assert_eq!(begun.elapsed().as_millis(), 7_500);
}

#[tokio::test(start_paused = true)]
async fn used_up_attempts_fail_the_run() {
    let model = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let state = agent(&model, "steps >= 5").build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade));
    assert_eq!(model.calls(), 3);
    assert_eq!(state.status(), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_its_end_is_not_an_answer() {
    let model = replies([
        ScriptedResponse::text("Half an ans").cut(),
        ScriptedResponse::text("A whole answer."),
    ]);
    let state = agent(&model, "steps >= 5").build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("A whole answer."));
    assert_eq!(state.steps()[0].attempts, 2);
    // The output of the first one is charged, as an estimate.
    assert!(state.execution.is_estimate);
}

#[tokio::test(start_paused = true)]
async fn the_wrap_up_has_no_tools_and_answers_with_what_it_has() {
    let model = Arc::new(ScriptedModel::from_fn("scripted", |request, _| {
        if request.tools.is_empty() {
            ScriptedResponse::text("All I have.").usage(100, 10)
        } else {
            ScriptedResponse::call("look", json!({})).usage(100, 10)
        }
    }));
    let rules = policy("[stop]\nlimit = \"steps >= 5\"\n[finish]\nwrap_up = \"steps >= 4\"\n");
    let agent = agent(&model, "steps >= 9").policy(rules).tool(ok_tool("look")).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(state.current_response(), Some("All I have."));
    assert_eq!((state.step_count(), model.calls()), (5, 5));
    assert!(state.steps()[4].is_wrap_up);
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
}

#[tokio::test(start_paused = true)]
async fn step_durations_contain_the_model_and_the_tools() {
    use std::time::Duration;
    let model = replies([
        ScriptedResponse::call("sleep", json!({})).delay(Duration::from_millis(300)),
        ScriptedResponse::text("Done.").delay(Duration::from_millis(50)),
    ]);
    let agent = agent(&model, "steps >= 5").tool(slow_tool("sleep", Duration::from_millis(200)));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    let took: Vec<u64> = state.steps().iter().map(|step| step.took_ms).collect();
    assert_eq!(took, [500, 50]);
}

#[tokio::test(start_paused = true)]
async fn hooks_run_at_all_ten_triggers_in_order() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model =
        replies([ScriptedResponse::call("fail", json!({})), ScriptedResponse::text("Done.")]);
    let mut builder = agent(&model, "steps >= 5").tool(failing_tool("fail"));
    for trigger in Trigger::ALL {
        let seen = Arc::clone(&seen);
        builder = builder.hook(*trigger, 0, move |context| {
            seen.lock().unwrap().push(context.trigger.name());
            Ok(())
        });
    }
    builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "before_execution",
            "before_step",
            "before_model_request",
            "after_model_response",
            "before_tool_use",
            "after_tool_use",
            "on_error",
            "after_step",
            "before_step",
            "before_model_request",
            "after_model_response",
            "after_step",
            "on_stop",
            "after_execution",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn calls_of_unknown_tools_count_as_calls_that_failed() {
    let model = caller("lok");
    for (stop, reason) in [
        ("tool_errors >= 3", StopReason::RetryLimitReached),
        ("tool_calls >= 3", StopReason::ToolCallsLimitReached),
    ] {
        let agent = agent(&model, &format!("{stop} or steps >= 9")).tool(ok_tool("look"));
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!((state.stop_reason(), state.step_count()), (Some(reason), 3));
        assert_eq!(outcomes(&state), [ToolOutcome::Unknown; 3]);
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_blank_answer_is_no_final_response() {
    for blank in ["", " \n\t"] {
        let state =
            agent(&answerer(blank), "steps >= 5").build().unwrap().run("Go.").await.unwrap();
        assert_eq!((state.status(), state.final_response()), (Status::Completed, None));
        assert_eq!((state.has_final_response(), state.current_response()), (false, None));
    }
}
