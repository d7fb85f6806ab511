//! Hooks see the run as it is at that moment, and their additions are kept.

use std::sync::{Arc, Mutex};

use endstop::agent::{AgentBuilder, HookContext, Trigger};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::message::Message;
use endstop::model::{ModelErrorKind, ScriptedResponse};
use endstop::tool::ToolError;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// One line for each call of a hook: its view of the run.
type Seen = Arc<Mutex<Vec<String>>>;

fn line(context: &HookContext<'_>) -> String {
    let (state, name) = (context.state, context.trigger.name());
    let reason = state.stop_reason().map_or("-", |reason| reason.value());
    format!("{name}: {} {reason}, {}", state.status().name(), context.continuation.explain())
}

fn watched(mut builder: AgentBuilder, seen: &Seen) -> AgentBuilder {
    for trigger in Trigger::ALL.iter().copied() {
        let seen = Arc::clone(seen);
        builder = builder.hook(trigger, -9, move |context| {
            seen.lock().unwrap().push(line(context));
            Ok(())
        });
    }
    builder
}

fn lines(seen: &Seen, trigger: Trigger) -> Vec<String> {
    let (seen, start) = (seen.lock().unwrap(), format!("{}: ", trigger.name()));
    seen.iter().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

const NONE: &str = "No Stop Signals; Continuation Requested: No";

#[tokio::test(start_paused = true)]
async fn hooks_see_the_status_before_the_decision_and_the_signals_that_stand() {
    let seen = Seen::default();
    let builder = agent(&caller("look"), "steps >= 2").tool(ok_tool("look"));
    watched(builder, &seen).build().unwrap().run("Go.").await.unwrap();
    let [first, second] = &lines(&seen, Trigger::AfterStep)[..] else { panic!("{seen:?}") };
    assert_eq!(*first, format!("in_progress -, {NONE}"));
    assert!(second.starts_with("in_progress -, Stop Signals: steps_limit"), "{second}");
    let [on_stop] = &lines(&seen, Trigger::OnStop)[..] else { panic!("{seen:?}") };
    assert!(on_stop.starts_with("in_progress steps_limit, Stop Signals: steps_limit"), "{on_stop}");
    let [after] = &lines(&seen, Trigger::AfterExecution)[..] else { panic!("{seen:?}") };
    assert!(after.starts_with("stopped steps_limit, Stop Signals: steps_limit"), "{after}");

    let seen = Seen::default();
    watched(agent(&answerer("Done."), "steps >= 5"), &seen)
        .build()
        .unwrap()
        .run("Go.")
        .await
        .unwrap();
    assert_eq!(lines(&seen, Trigger::AfterStep), [format!("in_progress -, {NONE}")]);
    let after = lines(&seen, Trigger::AfterExecution);
    assert!(after[0].starts_with("completed completed, "), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_signal_of_a_tool_hook_and_a_continuation_are_seen_by_the_next_hooks() {
    let seen = Seen::default();
    let builder = agent(&caller("look"), "steps >= 2").tool(ok_tool("look"));
    let builder = builder.hook(Trigger::AfterToolUse, 0, |context| {
        if context.state.steps().len() == 1 {
            context.raise(StopSignal::new(StopReason::StopRequested).with_message("enough"));
        }
        Ok(())
    });
    let builder = builder.hook(Trigger::OnStop, 0, |context| {
        if context.state.steps().len() == 1 {
            context.request_continuation("critic");
        }
        Ok(())
    });
    watched(builder, &seen).build().unwrap().run("Go.").await.unwrap();
    let after_step = lines(&seen, Trigger::AfterStep);
    assert!(
        after_step[0].contains("in_progress -, Stop Signals: stop_requested: enough"),
        "{seen:?}"
    );
    let before_step = lines(&seen, Trigger::BeforeStep);
    assert_eq!(before_step[1], "in_progress -, No Stop Signals; Continuation Requested: Yes");
}

#[tokio::test(start_paused = true)]
async fn after_a_resume_a_hook_reads_nothing_of_the_pause_before() {
    let rules = "[stop]\nlimit = \"steps >= 5\"\n[pause]\nask = \"steps >= 2\"\n";
    let model = caller("look");
    let paused = under(&model, rules).tool(ok_tool("look")).build().unwrap().run("Go.").await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let builder = under(&model, rules).tool(ok_tool("look"));
    let builder = builder.hook(Trigger::BeforeExecution, 0, move |context| {
        told.lock().unwrap().push(context.state.explain());
        Ok(())
    });
    let state = carried(&paused.unwrap()).approved(None);
    builder.build().unwrap().execute(state).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["status: in_progress"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_appends_to_the_conversation_and_sets_metadata_at_every_trigger() {
    for trigger in Trigger::ALL.iter().copied() {
        let model = replies([
            ScriptedResponse::call("fail", json!({})).tool_call("fail", json!({})).usage(100, 10),
            ScriptedResponse::text("Done.").usage(100, 10),
        ]);
        let once = Arc::new(Mutex::new(false));
        let builder = agent(&model, "steps >= 5").tool(failing_tool("fail"));
        let agent = builder.hook(trigger, 0, move |context| {
            if !std::mem::replace(&mut *once.lock().unwrap(), true) {
                context.append(Message::user("And be quick."))?;
                context.set_metadata("seen", trigger.name());
            }
            Ok(())
        });
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        let what = format!("{}: {:?}", trigger.name(), state.messages);
        let added = state.messages.iter().filter(|m| m.text() == "And be quick.").count();
        let is_reached = trigger != Trigger::OnStop || state.metadata.contains_key("seen");
        assert_eq!(added, usize::from(is_reached), "{what}");
        assert_eq!(state.metadata.contains_key("seen"), is_reached, "{what}");
        assert_eq!(state.final_response(), Some("Done."), "{what}");
        assert_eq!((model.calls(), state.status()), (2, Status::Completed), "{what}");
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn an_appended_user_message_counts_once_also_over_a_pause() {
    let rules = "[stop]\nlimit = \"messages >= 8\"\n[pause]\nask = \"tool_calls >= 1\"\n";
    let reply = ScriptedResponse::call("look", json!({})).tool_call("look", json!({}));
    let model = replies([reply.usage(100, 10), ScriptedResponse::text("Done.").usage(100, 10)]);
    let agent = || {
        let builder = under(&model, rules).tool(ok_tool("look")).parallel_tools(1);
        let builder = builder.hook(Trigger::AfterModelResponse, 0, |context| {
            if context.state.steps().len() == 1 {
                context.append(Message::user("Quick."))?;
            }
            Ok(())
        });
        builder.build().unwrap()
    };
    let paused = agent().run("Go.").await.unwrap();
    assert_eq!(paused.status(), Status::Paused);
    let state = agent().execute(carried(&paused).approved(None)).await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
    let record = state.execution.trip_record.as_ref().unwrap().to_json().to_string();
    // The prompt, two replies, two results and the message of the hook.
    assert_eq!(state.messages.len(), 6);
    assert!(record.contains("\"observed\":6") || record.contains("\"observed\":\"6\""), "{record}");
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_hook_appends_after_the_end_begins_no_new_run() {
    let model = replies([ScriptedResponse::text("Done."), ScriptedResponse::text("Once more.")]);
    let agent = agent(&model, "steps >= 5")
        .hook(Trigger::AfterExecution, 0, |context| context.append(Message::user("Log this.")))
        .build()
        .unwrap();
    let first = agent.run("Go.").await.unwrap();
    let id = first.id.clone();
    let again = agent.execute(first).await.unwrap();
    assert_eq!((model.calls(), &again.id, again.step_count()), (1, &id, 1));
    let next = agent.execute(again.with_message(Message::user("And now?"))).await.unwrap();
    assert_eq!((model.calls(), next.previous), (2, Some(id)));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_appends_an_answer_fails() {
    let agent = agent(&answerer("Done."), "steps >= 5")
        .hook(Trigger::BeforeStep, 0, |context| context.append(Message::assistant("I said so.")));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((state.status(), state.messages.len()), (Status::Failed, 1));
}

#[tokio::test(start_paused = true)]
async fn an_on_error_hook_hides_no_failure_of_the_model() {
    for kind in [ModelErrorKind::Unavailable, ModelErrorKind::Rejected] {
        for fails in [false, true] {
            let builder = agent(&replies([ScriptedResponse::error(kind)]), "steps >= 5");
            let agent = builder.hook(Trigger::OnError, 0, move |context| {
                let is_told = context.state.execution.error.is_some();
                assert!(is_told, "the failure is in the state");
                context.raise(StopSignal::new(StopReason::StopRequested).with_message("enough"));
                if fails { Err(ToolError::failed("and it failed")) } else { Ok(()) }
            });
            let state = agent.build().unwrap().run("Go.").await.unwrap();
            let error = state.execution.error.as_deref().unwrap_or_default();
            assert!(!error.is_empty() && !error.contains("hook"), "{kind:?} {fails}: {error}");
            // A failure that no further attempt follows is the reason.
            let is_last = !kind.is_retryable();
            let reason = state.stop_reason().unwrap();
            let expected =
                if is_last || fails { StopReason::ErrorForbade } else { StopReason::StopRequested };
            assert_eq!(reason, expected, "{kind:?} {fails}: {}", state.explain());
        }
    }
}
