//! Defects of an earlier loop that must not come back, one test each.
//!
//! | defect | test |
//! |---|---|
//! | the step in flight lost on a stop | `the_step_in_flight_is_not_lost` |
//! | the thrown signal's reason, context, source dropped | `a_thrown_signal_is_kept_whole` |
//! | signals from tool hooks discarded | `hooks::signals_of_tool_hooks_count_and_the_step_is_recorded` |
//! | an override flag that leaks to the next iteration | `overrides::one_override_lets_one_more_step_pass_and_no_other` |
//! | an override that lets a run live forever | `overrides::the_allowance_is_finite_and_its_end_is_an_error` |
//! | cancellation deaf while any signal stands | `cancellation_is_not_deaf_while_signals_stand` |
//! | one recovered tool error making the run `failed` | `a_recovered_tool_error_does_not_fail_the_run` |
//! | a state with a tool error that cannot be loaded | `a_state_with_every_kind_of_tool_error_can_be_loaded` |
//! | results encoded again on each round trip | `results_are_not_encoded_again_on_a_round_trip` |
//! | a driver error leaving no trace in the state | `basics::a_driver_error_leaves_its_trace_in_the_state` |
//! | step durations without the model and the tools | `basics::step_durations_contain_the_model_and_the_tools` |
//! | hook errors escaping | `hooks::at_every_trigger_whatever_a_hook_does_counts_and_escapes_nowhere` |
//! | children sharing nothing | `tree::a_parent_limit_of_three_model_calls_makes_exactly_three_at_any_depth_and_width` |
//! | the time guard on the wall clock | `the_time_limit_does_not_follow_the_wall_clock` |
//! | the time guard restarting on resume | `the_time_limit_goes_on_after_a_resume` |
//! | a suspended session that still runs | `a_paused_run_does_nothing` |
//! | a "stopped" event saying `completed` for a failed run | `observers_are_told_the_status_of_the_state` |
//! | cancellation during the last step unseen | `cancel::in_the_last_step_it_is_seen_whenever_it_comes` |
//! | a step begun without an end, for one that was refused | `every_step_that_begins_ends_and_a_refused_one_does_not_begin` |

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop::agent::{AgentState, Trigger};
use endstop::cancel::InMemoryCancellationSource;
use endstop::clock::WallClock;
use endstop::core::Run;
use endstop::core::event::{EventKind, Source};
use endstop::core::run::{Directive, Status};
use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::ledger::Budget;
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ModelErrorKind, ScriptedResponse};
use endstop::observe::{Observation, Observer, RunInfo};
use endstop::tool::{FunctionTool, ToolError};
use serde_json::json;

use crate::support::*;

/// A tool that stops the loop with this.
fn stopping(stop: AgentStop) -> FunctionTool {
    FunctionTool::without_arguments("stop", "Stops.", move |_| {
        let stop = stop.clone();
        async move { Err::<&str, _>(stop.into()) }
    })
}

#[tokio::test(start_paused = true)]
async fn the_step_in_flight_is_not_lost() {
    let reply = ScriptedResponse::text("I look, then I stop.")
        .tool_call("look", json!({}))
        .tool_call("stop", json!({}))
        .tool_call("look", json!({}));
    let model = replies([reply.usage(100, 10)]);
    let stop = stopping(StopSignal::new(StopReason::StopRequested).into());
    let builder = agent(&model, "steps >= 9").tool(ok_tool("look")).tool(stop).parallel_tools(1);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((state.steps().len(), state.step_count(), state.usage().total()), (1, 1, 110));
    let step = &state.steps()[0];
    assert_eq!(step.usage.total(), 110);
    let recorded: Vec<ToolOutcome> = step.tool_executions.iter().map(|e| e.outcome).collect();
    let expected = [ToolOutcome::Succeeded, ToolOutcome::Succeeded, ToolOutcome::NotExecuted];
    assert_eq!((recorded.as_slice(), outcomes(&state).as_slice()), (&expected[..], &expected[..]));
    assert_eq!(state.messages[step.reply.unwrap()].text(), "I look, then I stop.");
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_thrown_signal_is_kept_whole() {
    for reason in StopReason::ALL.iter().copied() {
        let signal = StopSignal::new(reason)
            .with_message("this far")
            .with_context("final_count", 3)
            .with_source("the counter");
        let model = replies([ScriptedResponse::call("stop", json!({}))]);
        let builder = agent(&model, "steps >= 9").tool(stopping(signal.clone().into()));
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.last_stop_signal(), Some(&signal));
        assert_eq!(state.status(), Status::after(reason));
        assert_eq!((model.calls(), state.steps().len()), (1, 1));
    }
    // Without a source it is the tool.
    let model = replies([ScriptedResponse::call("stop", json!({}))]);
    let stop = stopping(StopSignal::new(StopReason::ErrorForbade).into());
    let state = agent(&model, "steps >= 9").tool(stop).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.last_stop_signal().unwrap().source.as_deref(), Some("stop"));
    assert_eq!(state.status(), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_signal_alone_stops_the_loop_with_a_question_mark() {
    let signal = StopSignal::new(StopReason::NoProgress).with_message("nothing new");
    let thrown = signal.clone();
    let tool = endstop::tool::FunctionTool::without_arguments("stop", "Stops.", move |_| {
        let thrown = thrown.clone();
        async move {
            Err::<(), StopSignal>(thrown)?;
            Ok::<_, endstop::tool::ToolError>("not reached")
        }
    });
    let model = replies([ScriptedResponse::call("stop", json!({}))]);
    let state = agent(&model, "steps >= 9").tool(tool).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.last_stop_signal(), Some(&signal.with_source("stop")));
}

#[tokio::test(start_paused = true)]
async fn cancellation_is_not_deaf_while_signals_stand() {
    // The limit stands and is overridden at every stop; the cancellation arrives in the meantime.
    let source = InMemoryCancellationSource::new();
    let model = caller("look");
    let (asked, stops) = (source.clone(), AtomicU64::new(0));
    let builder = agent(&model, "steps >= 1").tool(ok_tool("look")).cancellation(source);
    let agent = builder.hook(Trigger::OnStop, 0, move |context| {
        context.request_continuation("always");
        if stops.fetch_add(1, Ordering::SeqCst) == 1 {
            asked.cancel("enough");
        }
        Ok(())
    });
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::UserRequested), "{}", state.explain());
    assert_eq!(model.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_recovered_tool_error_does_not_fail_the_run() {
    let model = replies([
        ScriptedResponse::call("fail", json!({})),
        ScriptedResponse::error(ModelErrorKind::Unavailable),
        ScriptedResponse::text("Done anyway."),
    ]);
    let builder = agent(&model, "steps >= 9").tool(failing_tool("fail"));
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((state.status(), state.execution.error.as_deref()), (Status::Completed, None));
    assert_eq!(state.final_response(), Some("Done anyway."));
}

/// A state with an answer of every kind that is an error, and odd words in its results.
async fn state_with_errors() -> AgentState {
    let model = replies([
        ScriptedResponse::call("fail", json!({}))
            .tool_call("slow", json!({}))
            .tool_call("nobody", json!({}))
            .raw_tool_call("odd", "{\"a\": ")
            .tool_call("odd", json!({}))
            .tool_call("panic", json!({})),
        ScriptedResponse::text("Done."),
    ]);
    let odd = FunctionTool::without_arguments("odd", "Returns odd text.", |_| async {
        Ok::<_, ToolError>(json!({ "text": "a \"quote\", a \\ and \u{0} and \u{1f980}" }))
    });
    let panics = FunctionTool::without_arguments("panic", "Panics.", |_| async {
        if true {
            panic!("no way");
        }
        Ok::<_, ToolError>("never")
    });
    let slow = slow_tool("slow", Duration::from_secs(5)).timeout(Duration::from_secs(1));
    let builder = agent(&model, "steps >= 9").tool(failing_tool("fail")).tool(slow);
    let builder = builder.tool(odd).tool(panics);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    let expected = [
        ToolOutcome::Failed,
        ToolOutcome::TimedOut,
        ToolOutcome::Unknown,
        ToolOutcome::Invalid,
        ToolOutcome::Succeeded,
        ToolOutcome::Failed,
    ];
    assert_eq!(outcomes(&state), expected);
    state
}

#[tokio::test(start_paused = true)]
async fn a_state_with_every_kind_of_tool_error_can_be_loaded() {
    let state = state_with_errors().await;
    assert_eq!(AgentState::from_json(&state.to_json()).unwrap(), state);
    // Also in the middle of a run, to continue from there.
    let model =
        replies([ScriptedResponse::call("fail", json!({})), ScriptedResponse::text("Done.")]);
    let agent = agent(&model, "steps >= 9").tool(failing_tool("fail")).build().unwrap();
    let mut iteration = agent.iterate(AgentState::with_prompt("Go.")).await.unwrap();
    let saved = iteration.next().await.unwrap().to_json();
    drop(iteration);
    let state = agent.execute(AgentState::from_json(&saved).unwrap()).await.unwrap();
    assert_eq!((state.final_response(), state.step_count()), (Some("Done."), 2));
}

#[tokio::test(start_paused = true)]
async fn results_are_not_encoded_again_on_a_round_trip() {
    let state = state_with_errors().await;
    let first = state.to_json();
    let mut json = first.clone();
    for _ in 0..3 {
        json = AgentState::from_json(&json).unwrap().to_json();
        assert_eq!(json, first);
    }
    let loaded = AgentState::from_json(&json).unwrap();
    let is_odd = |m: &&Message| m.text().contains("quote");
    let text = loaded.messages.iter().find(is_odd).unwrap().text().to_owned();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["text"], json!("a \"quote\", a \\ and \u{0} and \u{1f980}"));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_does_not_follow_the_wall_clock() {
    // The wall clock leaps by a day at every look; three steps take 30 ms.
    let looks = Arc::new(AtomicU64::new(1));
    let leaping = Arc::clone(&looks);
    let wall: WallClock = Arc::new(move || {
        let days = leaping.fetch_add(1, Ordering::SeqCst);
        endstop::core::units::WallTime(days * 86_400_000)
    });
    let look = || ScriptedResponse::call("sleep", json!({}));
    let model = replies([look(), look(), look(), ScriptedResponse::text("Done.")]);
    let builder = agent(&model, "active >= 1s or steps >= 9").wall_clock(wall);
    let builder = builder.tool(slow_tool("sleep", Duration::from_millis(10)));
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
    assert!(looks.load(Ordering::SeqCst) > 3);
    assert_eq!(state.execution.at_ms, 30);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_goes_on_after_a_resume() {
    let model = caller("sleep");
    let tool = || slow_tool("sleep", Duration::from_millis(400));
    let agent = agent(&model, "active >= 1s").stop_when(condition("steps >= 99")).tool(tool());
    let agent = agent.build().unwrap();
    let mut json = AgentState::with_prompt("Go.").to_json();
    let mut ended = None;
    for _ in 0..9 {
        let mut iteration = agent.iterate(AgentState::from_json(&json).unwrap()).await.unwrap();
        let state = iteration.next().await.unwrap().clone();
        drop(iteration);
        // Time in which the run is not loaded counts nothing.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        json = state.to_json();
        if state.stop_reason().is_some() {
            ended = Some(state);
            break;
        }
    }
    let state = ended.expect("the time limit");
    assert_eq!(state.stop_reason(), Some(StopReason::TimeLimitReached), "{}", state.explain());
    assert_eq!((state.execution.at_ms, model.calls()), (1_000, 3));
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_does_nothing() {
    let model = caller("look");
    let looked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&looked);
    let tool = FunctionTool::without_arguments("look", "Looks.", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, ToolError>("ok") }
    });
    let rules = policy("[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 2\"\n");
    let agent = agent(&model, "steps >= 9").policy(rules).tool(tool).build().unwrap();
    let mut iteration = agent.iterate(AgentState::with_prompt("Go.")).await.unwrap();
    while iteration.advance().await {}
    // Asked for more, and given time, it does no more.
    assert!(!iteration.advance().await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let state = iteration.into_state();
    assert_eq!((state.status(), model.calls()), (Status::Paused, 2));
    // Nor if it is executed again without an approval.
    let state = agent.execute(state).await.unwrap();
    assert_eq!((state.status(), state.stop_reason()), (Status::Paused, None));
    assert_eq!((model.calls(), looked.load(Ordering::SeqCst)), (2, 2));
}

/// The notifications of an observer.
#[derive(Default)]
struct Told {
    begun: AtomicU64,
    refused: AtomicU64,
    ended: AtomicU64,
    ends: Mutex<Vec<(Status, Option<StopReason>)>>,
}

impl Observer for Told {
    fn observe(&self, seen: &Observation<'_>) {
        let is_own = seen.event.source == Source::Own;
        let counter = match (&seen.event.kind, seen.directive) {
            (EventKind::StepBegin, Directive::Proceed | Directive::Finish) => &self.begun,
            (EventKind::StepBegin, _) => &self.refused,
            (EventKind::StepEnd, _) => &self.ended,
            _ => return,
        };
        counter.fetch_add(u64::from(is_own), Ordering::SeqCst);
    }

    fn run_ended(&self, _: &RunInfo, run: &Run, _: &Budget) {
        self.ends.lock().unwrap().push((run.status(), run.stop_reason()));
    }
}

#[tokio::test(start_paused = true)]
async fn observers_are_told_the_status_of_the_state() {
    for (model, status, reason) in [
        (answerer("Done."), Status::Completed, StopReason::Completed),
        (caller("look"), Status::Stopped, StopReason::StepsLimitReached),
        (
            replies([ScriptedResponse::error(ModelErrorKind::Rejected)]),
            Status::Failed,
            StopReason::ErrorForbade,
        ),
    ] {
        let told = Arc::new(Told::default());
        let builder = agent(&model, "steps >= 2").tool(ok_tool("look"));
        let agent = builder.shared_observer(told.clone()).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!(*told.ends.lock().unwrap(), [(status, Some(reason))]);
        assert_eq!((state.status(), state.stop_reason()), (status, Some(reason)));
    }
    // Also if it fails at the very end.
    let told = Arc::new(Told::default());
    let builder = agent(&answerer("Done."), "steps >= 2").shared_observer(told.clone());
    let agent = builder.hook(Trigger::AfterExecution, 0, |_| Err(ToolError::failed("late")));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(*told.ends.lock().unwrap(), [(Status::Failed, Some(StopReason::ErrorForbade))]);
    assert_eq!(state.status(), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn every_step_that_begins_ends_and_a_refused_one_does_not_begin() {
    for (stop, steps) in [("steps >= 0", 0), ("steps >= 3", 3), ("tokens >= 500", 3)] {
        let told = Arc::new(Told::default());
        let model = caller("look");
        let builder = agent(&model, stop).stop_when(condition("steps >= 9")).tool(ok_tool("look"));
        let agent = builder.shared_observer(told.clone()).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        assert_eq!(count(&told.begun), count(&told.ended), "{stop}");
        assert_eq!(count(&told.begun), state.steps().len() as u64, "{stop}");
        assert!(state.steps().len() >= steps, "{stop}: {}", state.explain());
    }
    // A step that is cut short, by a failure or a stop, ends too.
    for reply in [
        ScriptedResponse::error(ModelErrorKind::Rejected),
        ScriptedResponse::call("stop", json!({})),
    ] {
        let told = Arc::new(Told::default());
        let model = replies([reply]);
        let stop = stopping(StopSignal::new(StopReason::StopRequested).into());
        let builder = agent(&model, "steps >= 9").tool(stop).shared_observer(told.clone());
        builder.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(told.begun.load(Ordering::SeqCst), 1);
        assert_eq!(told.ended.load(Ordering::SeqCst), 1);
    }
}
