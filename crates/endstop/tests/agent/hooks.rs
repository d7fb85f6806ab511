//! Hooks: at every trigger, whatever a hook does, the signal counts, nothing escapes, started work is
//! recorded, and `after_execution` runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use endstop::agent::{AgentBuilder, AgentState, Hook, HookContext, HookResult, Trigger};
use endstop::core::run::Status;
use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{Model as _, ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::tool::ToolError;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::support::*;

/// The act of a hook at its trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Raise,
    Fail,
    Panic,
    Stop,
}

const DEEDS: [Deed; 4] = [Deed::Raise, Deed::Fail, Deed::Panic, Deed::Stop];

/// Does its deed at the first call.
struct Culprit {
    deed: Deed,
    calls: AtomicU64,
    /// Whether it waits before.
    waits: bool,
}

fn culprit(deed: Deed, waits: bool) -> Arc<Culprit> {
    Arc::new(Culprit { deed, calls: AtomicU64::new(0), waits })
}

impl Culprit {
    fn act(&self, context: &mut HookContext<'_>) -> HookResult {
        if self.calls.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        let signal = StopSignal::new(StopReason::StopRequested)
            .with_message("enough")
            .with_context("at", context.trigger.name());
        match self.deed {
            Deed::Raise => context.raise(signal),
            Deed::Fail => Err(std::io::Error::other("a broken disk"))?,
            Deed::Panic => panic!("a broken promise"),
            Deed::Stop => Err(AgentStop::from(signal))?,
        }
        Ok(())
    }
}

impl Hook for Culprit {
    fn call<'a>(&'a self, context: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult> {
        if !self.waits {
            // Outside the future: also its making may fail.
            let result = self.act(context);
            return Box::pin(std::future::ready(result));
        }
        Box::pin(async move {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            self.act(context)
        })
    }
}

/// A run that comes by every trigger: a call that fails, then an answer.
fn eventful(model: &Arc<ScriptedModel>) -> AgentBuilder {
    agent(model, "steps >= 5").tool(failing_tool("fail"))
}

fn eventful_model() -> Arc<ScriptedModel> {
    replies([
        ScriptedResponse::text("One moment.").tool_call("fail", json!({})).usage(100, 10),
        ScriptedResponse::text("Done.").usage(100, 10),
    ])
}

/// How many models calls and recorded steps there are when the first hook of the trigger stops the run.
const fn calls_and_steps(trigger: Trigger) -> (u64, usize) {
    match trigger {
        Trigger::BeforeExecution | Trigger::BeforeStep => (0, 0),
        Trigger::BeforeModelRequest => (0, 1),
        Trigger::OnStop | Trigger::AfterExecution => (2, 2),
        _ => (1, 1),
    }
}

/// A hook that counts how often it runs.
pub(crate) fn counting(builder: AgentBuilder, trigger: Trigger) -> (AgentBuilder, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let builder = builder.hook(trigger, -100, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (builder, count)
}

/// Invariants after every stop by a hook.
fn check(deed: Deed, trigger: Trigger, state: &AgentState) {
    let what = format!("{deed:?} at {}: {}", trigger.name(), state.explain());
    let signal = state.last_stop_signal().expect(&what);
    match deed {
        Deed::Raise | Deed::Stop => {
            assert_eq!(signal.reason, StopReason::StopRequested, "{what}");
            assert_eq!(signal.message, "enough", "{what}");
            assert_eq!(signal.context["at"], json!(trigger.name()), "{what}");
            assert_eq!(state.status(), Status::Stopped, "{what}");
        }
        Deed::Fail | Deed::Panic => {
            assert_eq!(signal.reason, StopReason::ErrorForbade, "{what}");
            let words = if deed == Deed::Fail { "a broken disk" } else { "a broken promise" };
            for part in [trigger.name(), "culprit", words] {
                assert!(signal.message.contains(part), "`{part}` is not in {what}");
            }
            assert_eq!(state.status(), Status::Failed, "{what}");
            assert!(state.execution.error.as_deref().unwrap().contains(words), "{what}");
        }
    }
    assert_eq!(signal.source.as_deref(), Some("culprit"), "{what}");
    assert_all_answered(state);
}

#[tokio::test(start_paused = true)]
async fn at_every_trigger_whatever_a_hook_does_counts_and_escapes_nowhere() {
    for trigger in Trigger::ALL.iter().copied() {
        for deed in DEEDS {
            for waits in [false, true] {
                let (model, budget) = (eventful_model(), Budget::root(Limits::unlimited()));
                let (builder, after) = counting(eventful(&model), Trigger::AfterExecution);
                let hook = culprit(deed, waits);
                let builder = builder.hook_named(trigger, 0, "culprit", hook.clone());
                let agent = builder.budget(budget.clone()).build().unwrap();
                let state = agent.run("Go.").await.unwrap();
                check(deed, trigger, &state);
                let what = format!("{deed:?} at {}: {state:?}", trigger.name());
                let (calls, steps) = calls_and_steps(trigger);
                assert_eq!((model.calls(), state.steps().len()), (calls, steps), "{what}");
                // The step in flight is recorded whole.
                assert_eq!(state.usage().total(), 110 * calls, "{what}");
                assert_eq!(budget.settled().tokens, 110 * calls, "{what}");
                assert_eq!(budget.held(), Amounts::default(), "{what}");
                assert_eq!(after.load(Ordering::SeqCst), 1, "{what}");
                assert!(hook.calls.load(Ordering::SeqCst) >= 1, "{what}");
                assert_eq!(AgentState::from_json(&state.to_json()).unwrap(), state);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_hook_once_the_run_has_stopped_is_late_and_changes_no_reason() {
    for trigger in [Trigger::OnStop, Trigger::AfterExecution] {
        for deed in [Deed::Fail, Deed::Panic] {
            let model = caller("look");
            let builder = agent(&model, "steps >= 2").tool(ok_tool("look"));
            let (builder, after) = counting(builder, Trigger::AfterExecution);
            let builder = builder.hook_named(trigger, 0, "culprit", culprit(deed, false));
            let state = builder.build().unwrap().run("Go.").await.unwrap();
            let record = state.execution.trip_record.as_ref().unwrap();
            assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached), "{record}");
            assert_eq!(state.status(), Status::Stopped);
            let late: Vec<_> = record.late_signals.iter().collect();
            assert_eq!((late.len(), late[0].reason), (1, StopReason::ErrorForbade), "{record}");
            assert!(record.to_string().contains("\nlate: error: the hook `culprit`"), "{record}");
            assert_eq!((model.calls(), after.load(Ordering::SeqCst)), (2, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_hook_calls_on_error_once_and_a_failing_on_error_hook_not_again() {
    for trigger in Trigger::ALL.iter().copied() {
        let model = answerer("Done.");
        let errors = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&errors);
        let builder = eventful(&model)
            .hook_named(trigger, 0, "culprit", culprit(Deed::Fail, false))
            .hook(Trigger::OnError, 0, move |context| {
                seen.lock().unwrap().push(context.error.unwrap_or("").to_owned());
                Err(ToolError::failed("it cannot even say so"))
            });
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        let errors = errors.lock().unwrap();
        let is_reached =
            !matches!(trigger, Trigger::OnError | Trigger::BeforeToolUse | Trigger::AfterToolUse);
        assert_eq!(errors.len(), usize::from(is_reached), "{trigger:?}: {errors:?}");
        if is_reached {
            assert!(errors[0].contains("a broken disk"), "{errors:?}");
            assert_eq!(state.status(), Status::Failed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn on_error_sees_errors_of_model_and_tools_and_its_signal_counts() {
    let model = replies([
        ScriptedResponse::error(ModelErrorKind::Unavailable),
        ScriptedResponse::call("fail", json!({})).usage(100, 10),
        ScriptedResponse::text("Done."),
    ]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let agent = eventful(&model).hook(Trigger::OnError, 0, move |context| {
        told.lock().unwrap().push((context.call.is_some(), context.error.unwrap().to_owned()));
        if context.call.is_some() {
            context.raise(StopSignal::new(StopReason::StopRequested).with_message("a tool failed"));
        }
        Ok(())
    });
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(!seen[0].0 && seen[0].1.contains("not available"), "{seen:?}");
    assert!(seen[1].0 && seen[1].1.contains("no luck"), "{seen:?}");
    assert_eq!(state.last_stop_signal().unwrap().message, "a tool failed");
    assert_eq!(outcomes(&state), [ToolOutcome::Failed]);
    assert_eq!((model.calls(), state.step_count()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_on_error_hook_that_stops_ends_the_attempts() {
    let model = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let agent = agent(&model, "steps >= 5").hook(Trigger::OnError, 0, |context| {
        context.raise(StopSignal::new(StopReason::StopRequested));
        Ok(())
    });
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(model.calls(), 1);
    assert_eq!(state.stop_reason(), Some(StopReason::StopRequested));
}

#[tokio::test(start_paused = true)]
async fn higher_priority_first_and_registration_order_among_equals() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut builder = agent(&answerer("Done."), "steps >= 5");
    let hooks = [(0, "a"), (5, "b"), (-5, "c"), (5, "d"), (i32::MIN, "e"), (i32::MAX, "f")];
    for (priority, name) in hooks {
        let order = Arc::clone(&order);
        builder = builder.hook(Trigger::BeforeStep, priority, move |_| {
            order.lock().unwrap().push(name);
            Ok(())
        });
    }
    builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["f", "b", "d", "a", "c", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_hook_keeps_no_other_hook_from_running() {
    let model = answerer("Done.");
    let builder = agent(&model, "steps >= 5").hook_named(
        Trigger::BeforeStep,
        9,
        "culprit",
        culprit(Deed::Panic, false),
    );
    let (builder, later) = counting(builder, Trigger::BeforeStep);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((later.load(Ordering::SeqCst), model.calls()), (1, 0));
    assert_eq!(state.status(), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_call_is_answered_and_the_run_goes_on() {
    let model = replies([
        ScriptedResponse::call("look", json!({})).tool_call("counter", json!({})),
        ScriptedResponse::text("Then not."),
    ]);
    let (tool, count) = counter_tool(99);
    let after = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&after);
    let guard = |context: &mut HookContext<'_>| {
        if context.call.unwrap().tool == "counter" {
            context.block("counting is not allowed here");
        }
        Ok(())
    };
    let never = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&never);
    let agent = agent(&model, "steps >= 5")
        .tool(tool)
        .tool(ok_tool("look"))
        .hook_named(Trigger::BeforeToolUse, 5, "doorman", Arc::new(FnHook(guard)))
        .hook(Trigger::BeforeToolUse, 0, move |context| {
            let is_blocked = context.call.unwrap().tool == "counter";
            counted.fetch_add(u64::from(is_blocked), Ordering::SeqCst);
            Ok(())
        })
        .hook(Trigger::AfterToolUse, 0, move |context| {
            seen.lock().unwrap().push(context.answer.unwrap().0);
            Ok(())
        });
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Then not."));
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded, ToolOutcome::Blocked]);
    let mut told = after.lock().unwrap().clone();
    told.sort_by_key(|outcome| *outcome != ToolOutcome::Succeeded);
    assert_eq!(told, [ToolOutcome::Succeeded, ToolOutcome::Blocked]);
    // It was neither run nor shown to a later hook.
    assert_eq!((count.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (0, 0));
    let text = state.messages.iter().rev().find(|m| matches!(m, Message::Tool { .. })).unwrap();
    for part in ["doorman", "counting is not allowed here"] {
        assert!(text.text().contains(part), "`{part}` is not in {}", text.text());
    }
    assert_all_answered(&state);
}

/// A hook from a closure, with a separate name.
struct FnHook<F>(F);

impl<F: Fn(&mut HookContext<'_>) -> HookResult + Send + Sync> Hook for FnHook<F> {
    fn call<'a>(&'a self, context: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult> {
        Box::pin(async move { (self.0)(context) })
    }
}

#[tokio::test(start_paused = true)]
async fn block_and_send_instead_have_no_effect_at_other_triggers() {
    let model = Arc::new(
        ScriptedModel::new("scripted")
            .reply(ScriptedResponse::call("look", json!({})))
            .reply(ScriptedResponse::text("Done."))
            .remember(10),
    );
    let mut builder = agent(&model, "steps >= 5").tool(ok_tool("look"));
    let mut counts = Vec::new();
    for trigger in Trigger::ALL.iter().copied() {
        builder = builder.hook(trigger, 0, move |context| {
            if trigger != Trigger::BeforeToolUse {
                context.block("in vain");
            }
            if trigger != Trigger::BeforeModelRequest {
                context.send_instead(vec![Message::user("Something else.")]);
            }
            Ok(())
        });
        let (with_count, count) = counting(builder, trigger);
        builder = with_count;
        counts.push((trigger, count));
    }
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Done."));
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded]);
    assert_eq!(model.requests()[0].messages, [Message::user("Go.")]);
    for (trigger, count) in counts.iter().filter(|(trigger, _)| *trigger != Trigger::OnError) {
        assert!(count.load(Ordering::SeqCst) >= 1, "no later hook at {}", trigger.name());
    }
}

#[tokio::test(start_paused = true)]
async fn send_instead_changes_the_request_and_not_the_conversation() {
    let model = Arc::new(
        ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done.")).remember(10),
    );
    let agent = agent(&model, "steps >= 5")
        .hook(Trigger::BeforeModelRequest, 5, |context| {
            context.send_instead(vec![Message::user("Summary.")]);
            Ok(())
        })
        .hook(Trigger::BeforeModelRequest, 0, |context| {
            let mut messages = context.messages_to_send().to_vec();
            messages.push(Message::system("Be brief."));
            context.send_instead(messages);
            Ok(())
        });
    let state = agent.build().unwrap().run("A long story.").await.unwrap();
    let sent = &model.requests()[0].messages;
    assert_eq!(*sent, [Message::user("Summary."), Message::system("Be brief.")]);
    assert_eq!(state.messages, [Message::user("A long story."), Message::assistant("Done.")]);
    assert_eq!(model.name(), "scripted");
}

#[tokio::test(start_paused = true)]
async fn the_larger_messages_that_a_hook_sends_are_reserved() {
    // 4,000 bytes of input do not fit 1,000 tokens, whatever the conversation is.
    let model = answerer("Done.");
    let agent = agent(&model, "tokens >= 1000").hook(Trigger::BeforeModelRequest, 0, |context| {
        context.send_instead(vec![Message::user("x".repeat(4_000))]);
        Ok(())
    });
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(model.calls(), 0);
    assert_eq!(state.stop_reason(), Some(StopReason::TokenLimitReached));
}

#[tokio::test(start_paused = true)]
async fn a_continuation_at_any_trigger_changes_no_natural_end_but_where_it_may() {
    for trigger in Trigger::ALL.iter().copied() {
        let model = eventful_model();
        let asked = Arc::new(AtomicU64::new(0));
        let once = Arc::clone(&asked);
        let agent = eventful(&model).hook(trigger, 0, move |context| {
            // The last of two calls where a trigger comes twice.
            let is_late = context.state.steps().len() == 2 || trigger == Trigger::OnError;
            let is_early = matches!(trigger, Trigger::BeforeExecution | Trigger::BeforeStep);
            if (is_late || is_early) && once.fetch_add(1, Ordering::SeqCst) == 0 {
                context.request_continuation("critic");
            }
            Ok(())
        });
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        // After the step that ended the run on its own, or when it is about to stop: one more go.
        let goes_on = matches!(trigger, Trigger::AfterStep | Trigger::OnStop);
        let what = format!("{}: {}", trigger.name(), state.explain());
        assert_eq!(model.calls(), 2 + u64::from(goes_on), "{what}");
        assert_eq!(state.status(), Status::Completed, "{what}");
        assert_eq!(state.final_response(), Some("Done."), "{what}");
        assert_eq!(state.stop_reason(), Some(StopReason::Completed), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn signals_of_tool_hooks_count_and_the_step_is_recorded() {
    for (trigger, outcome) in [
        (Trigger::BeforeToolUse, ToolOutcome::NotExecuted),
        (Trigger::AfterToolUse, ToolOutcome::Succeeded),
    ] {
        let model = replies([ScriptedResponse::text("Looking.")
            .tool_call("look", json!({}))
            .tool_call("look", json!({}))
            .usage(100, 10)]);
        let agent = agent(&model, "steps >= 5").tool(ok_tool("look")).parallel_tools(1).hook(
            trigger,
            0,
            |context| {
                let reason = StopReason::ConditionMet;
                context.raise(StopSignal::new(reason).with_context("tool", "look"));
                Ok(())
            },
        );
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::ConditionMet), "{}", trigger.name());
        assert_eq!(state.last_stop_signal().unwrap().context["tool"], json!("look"));
        assert_eq!(outcomes(&state), [outcome, ToolOutcome::NotExecuted]);
        assert_eq!(state.status(), Status::Completed);
        assert_eq!((model.calls(), state.steps().len(), state.usage().total()), (1, 1, 110));
        assert_eq!(state.final_response(), None);
        assert_all_answered(&state);
    }
}
