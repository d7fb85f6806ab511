//! Continuations: one-shot, finite, recorded; they override nothing that is hard, and no run lives forever by
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, HookContext, Trigger};
use endstop::cancel::{CancelToken, MemoryKillSwitch, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::ledger::{Budget, Limits};
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::tool::{FunctionTool, Handoff, ToolError};
use serde_json::json;

use crate::support::*;

/// A hook that asks for a continuation at each of its first `times` calls.
fn continues(
    builder: AgentBuilder,
    trigger: Trigger,
    times: u64,
) -> (AgentBuilder, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let builder = builder.hook_named(trigger, 0, "critic", Arc::new(Continue { counted, times }));
    (builder, calls)
}

struct Continue {
    counted: Arc<AtomicU64>,
    times: u64,
}

impl endstop::agent::Hook for Continue {
    fn call<'a>(
        &'a self,
        context: &'a mut HookContext<'_>,
    ) -> futures_util::future::BoxFuture<'a, endstop::agent::HookResult> {
        if self.counted.fetch_add(1, Ordering::SeqCst) < self.times {
            context.request_continuation("critic");
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A model that calls `look` forever, and an agent with it.
fn looker(stop: &str) -> (Arc<ScriptedModel>, AgentBuilder) {
    let model = caller("look");
    let builder = agent(&model, stop).tool(ok_tool("look"));
    (model, builder)
}

#[tokio::test(start_paused = true)]
async fn one_override_lets_one_more_step_pass_and_no_other() {
    let (model, builder) = looker("steps >= 2");
    let (builder, asked) = continues(builder, Trigger::OnStop, 1);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.step_count()), (3, 3));
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let history = &state.execution.trip_record.as_ref().unwrap().overrides;
    assert_eq!(history.len(), 1, "{history:?}");
    assert_eq!((history[0].by.as_str(), history[0].step), ("critic", 2));
    assert_eq!(
        (history[0].rule.as_deref(), history[0].what.as_str()),
        (Some("stop"), "overridden")
    );
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn an_override_lasts_through_the_whole_next_step() {
    // The step that the override lets pass runs its tools as any other.
    let (model, builder) = looker("steps >= 1");
    let (builder, _) = continues(builder, Trigger::AfterStep, 1);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.steps().len()), (2, 2));
    assert_eq!(outcomes(&state), [endstop::message::ToolOutcome::Succeeded; 2]);
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
}

#[tokio::test(start_paused = true)]
async fn the_allowance_is_finite_and_its_end_is_an_error() {
    for trigger in [Trigger::OnStop, Trigger::AfterStep, Trigger::BeforeStep] {
        let (model, builder) = looker("steps >= 2");
        let (builder, asked) = continues(builder, trigger, u64::MAX);
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        let what = format!("{}: {}", trigger.name(), state.explain());
        if trigger == Trigger::BeforeStep {
            // The run stops before the hook could ask again.
            assert_eq!(model.calls(), 2, "{what}");
            continue;
        }
        assert_eq!((model.calls(), state.step_count()), (5, 5), "{what}");
        assert_eq!(state.status(), Status::Failed, "{what}");
        let signal = state.last_stop_signal().unwrap();
        assert_eq!(signal.reason, StopReason::ErrorForbade, "{what}");
        assert_eq!(
            signal.message, "override limit: steps_limit overridden 3 times and still standing",
            "{what}"
        );
        assert!(asked.load(Ordering::SeqCst) <= 7, "{what}");
        let history = &state.execution.trip_record.as_ref().unwrap().overrides;
        assert_eq!(history.iter().filter(|o| o.rule.is_some()).count(), 3, "{history:?}");
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_says_how_often_it_may_be_overridden() {
    for allowed in [0, 1, 5] {
        let model = caller("look");
        let rules =
            format!("[stop]\nlimit = \"steps >= 2\"\n[rule.limit]\noverrides = {allowed}\n");
        let builder = agent(&model, "steps >= 9").policy(policy(&rules)).tool(ok_tool("look"));
        let (builder, _) = continues(builder, Trigger::OnStop, u64::MAX);
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(model.calls(), 2 + allowed, "{}", state.explain());
        assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade));
        let message = &state.last_stop_signal().unwrap().message;
        assert!(message.contains(&format!("overridden {allowed} times")), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_critic_may_ask_for_one_more_go_after_a_natural_end() {
    let model = replies([ScriptedResponse::text("A draft."), ScriptedResponse::text("Better.")]);
    let (builder, _) = continues(agent(&model, "steps >= 9"), Trigger::AfterStep, 1);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(model.calls(), 2);
    assert_eq!(state.final_response(), Some("Better."));
    assert_eq!(
        (state.status(), state.stop_reason()),
        (Status::Completed, Some(StopReason::Completed))
    );
}

#[tokio::test(start_paused = true)]
async fn a_critic_that_is_never_content_ends_at_the_limit() {
    let model = answerer("A draft.");
    let (builder, _) = continues(agent(&model, "steps >= 4"), Trigger::AfterStep, u64::MAX);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    // Four steps, and the three that the limit may be overridden by.
    assert_eq!(model.calls(), 7, "{}", state.explain());
    assert_eq!(state.status(), Status::Failed, "{}", state.explain());
}

#[tokio::test(start_paused = true)]
async fn requested_before_a_step_it_does_not_reach_that_steps_natural_end() {
    for trigger in [Trigger::BeforeExecution, Trigger::BeforeStep, Trigger::BeforeModelRequest] {
        let model = answerer("Done.");
        let (builder, asked) = continues(agent(&model, "steps >= 9"), trigger, u64::MAX);
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(model.calls(), 1, "{}", trigger.name());
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(state.stop_reason(), Some(StopReason::Completed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_continuation_clears_a_tools_signal_once() {
    let model = caller("counter");
    let (tool, count) = counter_tool(2);
    let builder = agent(&model, "steps >= 4").tool(tool);
    let (builder, _) = continues(builder, Trigger::OnStop, 1);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    // Stopped at 2, continued, and met the limit at 4.
    assert_eq!(count.load(Ordering::SeqCst), 4);
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    let history = &state.execution.trip_record.as_ref().unwrap().overrides;
    assert!(history.iter().any(|o| o.what == "raised signals cleared"), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn hard_rules_are_not_overridden() {
    let cases = [
        (
            "[stop]\nlimit = \"steps >= 2\"\n[rule.limit]\nhard = true\n",
            StopReason::StepsLimitReached,
            2,
        ),
        ("[stop]\nlimit = \"tokens >= 1_300\"\n", StopReason::TokenLimitReached, 1),
        ("[stop]\nlimit = \"cost >= $0.0003\"\n", StopReason::CostLimitReached, 1),
        ("[stop]\nlimit = \"steps >= 9 or cost >= $0.0003\"\n", StopReason::CostLimitReached, 1),
    ];
    for (rules, reason, at_least) in cases {
        let reply = ScriptedResponse::call("look", json!({})).usage(300, 10);
        let model = ScriptedModel::new("gpt-4o-mini").provider_name("openai");
        let model = Arc::new(model.reply(reply).repeat_last());
        let builder = AgentLoop::builder("tested")
            .model(model.clone())
            .policy(policy(rules))
            .tool(ok_tool("look"));
        let mut builder = builder;
        for trigger in Trigger::ALL.iter().copied() {
            (builder, _) = continues(builder, trigger, u64::MAX);
        }
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        let what = format!("{rules}: {}", state.explain());
        assert_eq!(state.stop_reason(), Some(reason), "{what}");
        assert!(model.calls() >= at_least && model.calls() < 9, "{} calls, {what}", model.calls());
        assert_eq!(state.status(), Status::Stopped, "{what}");
        // Nothing was overridden, and the record says that it was requested and why it could not be.
        let record = state.execution.trip_record.as_ref().unwrap();
        let requests: Vec<&str> = record.overrides.iter().map(|it| &*it.what).collect();
        assert_eq!(requests, ["not overridden: the rule is hard"], "{what}");
        assert_all_answered(&state);
    }
}

/// A tool that does something and reports it.
fn deed(name: &str, deed: impl Fn() + Send + Sync + 'static) -> FunctionTool {
    FunctionTool::without_arguments(name, "Does something.", move |_| {
        deed();
        async { Ok::<_, ToolError>("done") }
    })
}

#[tokio::test(start_paused = true)]
async fn kill_cancellation_and_error_are_not_overridden() {
    let kill = MemoryKillSwitch::new();
    let token = CancelToken::new();
    for (what, reason) in [
        ("kill", StopReason::UserRequested),
        ("cancel", StopReason::UserRequested),
        ("error", StopReason::ErrorForbade),
        ("tool's cancellation", StopReason::UserRequested),
    ] {
        let (kill, token) = (kill.clone(), token.clone());
        let (thrown, cancelled) = (kill.clone(), token.child());
        let to_cancel = cancelled.clone();
        let model = caller("look");
        let tool = FunctionTool::without_arguments("look", "Looks.", move |_| {
            match what {
                "kill" => thrown.turn_on("out"),
                "cancel" => {
                    let signal = StopSignal::new(StopReason::UserRequested).with_message("no");
                    to_cancel.cancel(signal, Urgency::Graceful);
                }
                _ => {}
            }
            async move {
                match what {
                    "error" => Err(AgentStop::from(StopSignal::new(StopReason::ErrorForbade)))?,
                    "tool's cancellation" => {
                        Err(AgentStop::from(StopSignal::new(StopReason::UserRequested)))?;
                    }
                    _ => {}
                }
                Ok::<_, ToolError>("ok")
            }
        });
        let builder = agent(&model, "steps >= 9").tool(tool);
        let mut builder = builder.kill_switch(kill.clone()).cancel_token(cancelled);
        for trigger in Trigger::ALL.iter().copied() {
            (builder, _) = continues(builder, trigger, u64::MAX);
        }
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        kill.reset();
        assert_eq!(model.calls(), 1, "{what}: {}", state.explain());
        assert_eq!(state.stop_reason(), Some(reason), "{what}");
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_childs_continuations_do_not_beat_its_parents_limit() {
    for hard in ["", "\n[rule.limit]\nhard = true"] {
        let model =
            replies([ScriptedResponse::call("work", json!({ "task": "more" })).usage(100, 10)]);
        let child = AgentLoop::builder("work")
            .model(model.clone())
            .tool(ok_tool("work"))
            .policy(policy("unbounded = true\n"));
        let (child, asked) = continues(child, Trigger::OnStop, u64::MAX);
        let child = child.build().unwrap();
        let rules = format!("[stop]\nlimit = \"steps >= 3\"{hard}\n");
        let parent = agent(&model, "steps >= 9").policy(policy(&rules));
        let parent = parent.tools([child.as_tool("Works.")]).build().unwrap();
        let state = parent.run("Go.").await.unwrap();
        assert_eq!(model.calls(), 3, "{}", state.explain());
        assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_pauses_holds_up_a_child_that_would_always_go_on() {
    let model = replies([ScriptedResponse::call("work", json!({ "task": "more" })).usage(100, 10)]);
    let child = AgentLoop::builder("work")
        .model(model.clone())
        .tool(ok_tool("work"))
        .policy(policy("unbounded = true\n"));
    let (child, asked) = continues(child, Trigger::OnStop, 1_000);
    let child = child.build().unwrap();
    let rules = policy("[stop]\nlimit = \"steps >= 20\"\n[pause]\nask = \"steps >= 3\"\n");
    let parent = agent(&model, "steps >= 9").policy(rules).tools([child.as_tool("Works.")]);
    let state = parent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(model.calls(), 3, "{}", state.explain());
    assert_eq!(state.status(), Status::Paused, "{}", state.explain());
    assert!(asked.load(Ordering::SeqCst) < 10, "{} times", asked.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_that_cuts_a_tool_can_be_overridden_as_any_other() {
    let model = caller("sleep");
    let builder = agent(&model, "active >= 1s").stop_when(condition("steps >= 9"));
    let builder = builder.tool(slow_tool("sleep", Duration::from_millis(700)));
    let (builder, _) = continues(builder, Trigger::OnStop, 1);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    use endstop::message::ToolOutcome::{Aborted, Succeeded};
    assert_eq!(outcomes(&state), [Succeeded, Aborted, Succeeded], "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::TimeLimitReached));
    assert_eq!((model.calls(), state.execution.at_ms), (3, 1_700));
}

#[tokio::test(start_paused = true)]
async fn a_parent_may_override_its_own_limit_that_was_reached_below_it() {
    let model = replies([ScriptedResponse::call("work", json!({ "task": "more" })).usage(100, 10)]);
    let child = AgentLoop::builder("work").model(model.clone()).tool(ok_tool("work"));
    let child = child.policy(policy("unbounded = true\n")).build().unwrap();
    let parent = agent(&model, "steps >= 3").tools([child.as_tool("Works.")]);
    let (parent, asked) = continues(parent, Trigger::OnStop, 1);
    let state = parent.build().unwrap().run("Go.").await.unwrap();
    // One request, whose three overrides let a step each pass; then the limit stands.
    assert_eq!(model.calls(), 6, "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade), "{}", state.explain());
    assert_eq!((state.steps().len(), asked.load(Ordering::SeqCst)), (2, 2));
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn an_empty_shared_budget_is_not_overridden() {
    let budget = Budget::root(Limits { steps: Some(2), ..Limits::unlimited() });
    let (model, builder) = looker("steps >= 9");
    let mut builder = builder.budget(budget.clone());
    for trigger in Trigger::ALL.iter().copied() {
        (builder, _) = continues(builder, trigger, u64::MAX);
    }
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), budget.settled().steps), (2, 2));
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    assert_eq!(state.last_stop_signal().unwrap().source.as_deref(), Some("budget"));
}

/// Hook calls after which a run counts as endless.
const MOST_HOOK_CALLS: u64 = 2_000;
/// Like [`MOST_HOOK_CALLS`], for model calls.
const MOST_MODEL_CALLS: u64 = 60;

/// Runs with a hook at every trigger that requests a continuation forever, and checks how long it lasts.
async fn assert_ends(
    what: &str,
    model: &Arc<ScriptedModel>,
    mut builder: AgentBuilder,
) -> AgentState {
    let calls = Arc::new(AtomicU64::new(0));
    for trigger in Trigger::ALL.iter().copied() {
        let counted = Arc::clone(&calls);
        builder = builder.hook(trigger, 0, move |context| {
            // An endless run has to be dropped, so that the test fails.
            if counted.fetch_add(1, Ordering::SeqCst) < MOST_HOOK_CALLS {
                context.request_continuation("for ever");
            }
            Ok(())
        });
    }
    let agent = builder.retry(endstop::agent::RetryPolicy::never()).build().unwrap();
    let running = agent.run("Go.");
    let state = tokio::time::timeout(Duration::from_secs(3_600), running).await;
    let state = state.unwrap_or_else(|_| panic!("{what} waits for ever")).unwrap();
    let (hooks, models) = (calls.load(Ordering::SeqCst), model.calls());
    assert!(hooks < MOST_HOOK_CALLS, "{what}: {hooks} hook calls");
    assert!(models < MOST_MODEL_CALLS, "{what}: {models} model calls");
    assert_ne!(state.status(), Status::InProgress, "{what}");
    assert!(state.stop_reason().is_some() || state.status() == Status::Paused, "{what}");
    assert_all_answered(&state);
    state
}

#[tokio::test(start_paused = true)]
async fn no_policy_is_overridden_for_ever() {
    for stop in [
        "steps >= 2",
        "steps >= 0",
        "tool_calls >= 2",
        "tool_calls >= 0",
        "messages >= 4",
        "errors >= 1",
        "attempts >= 2",
        "tokens >= 2000",
        "active >= 3s",
        "idle >= 500ms",
        "repeats >= 1",
        "no_progress >= 2",
        "said(\"look\")",
        "called(\"look\")",
        "ever(called(\"look\"))",
        "finished(\"tool_calls\")",
        "not said(\"never\")",
    ] {
        let reply = ScriptedResponse::text("I look.").tool_call("look", json!({})).usage(100, 10);
        let model = replies([reply]);
        let tool = slow_tool("look", Duration::from_secs(1));
        let builder = agent(&model, stop).stop_when(condition("steps >= 20")).tool(tool);
        assert_ends(stop, &model, builder).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_raised_is_overridden_for_ever() {
    for trigger in Trigger::ALL.iter().copied() {
        for reason in [StopReason::StopRequested, StopReason::ConditionMet, StopReason::Completed] {
            let model = caller("fail");
            let builder = agent(&model, "steps >= 5").tool(failing_tool("fail")).hook(
                trigger,
                -1,
                move |context| {
                    context.raise(StopSignal::new(reason));
                    Ok(())
                },
            );
            assert_ends(&format!("{reason} at {}", trigger.name()), &model, builder).await;
        }
    }
    let model = caller("look");
    let tool = FunctionTool::without_arguments("look", "Stops.", |_| async {
        Err::<&str, _>(AgentStop::from(StopSignal::new(StopReason::StopRequested)).into())
    });
    let state = assert_ends("a tool", &model, agent(&model, "steps >= 5").tool(tool)).await;
    assert!(state.step_count() >= 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_raised_before_every_step_is_answered_three_times() {
    let model = caller("look");
    let builder = agent(&model, "steps >= 5").tool(ok_tool("look"));
    let builder = builder.hook(Trigger::BeforeStep, 0, |context| {
        context.raise(StopSignal::new(StopReason::StopRequested));
        Ok(())
    });
    let (builder, stops) = continues(builder, Trigger::OnStop, MOST_HOOK_CALLS);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), stops.load(Ordering::SeqCst)), (0, 4));
    assert_eq!(
        state.last_stop_signal().unwrap().message,
        "override limit: stop_requested overridden 3 times and still standing"
    );
    assert_eq!(state.status(), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn no_end_of_another_kind_is_overridden_for_ever() {
    let model = answerer("Done.");
    assert_ends("a natural end", &model, agent(&model, "steps >= 5")).await;

    let model = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let state = assert_ends("failures", &model, agent(&model, "steps >= 5")).await;
    assert_eq!(state.status(), Status::Failed, "{}", state.explain());

    let model = replies([ScriptedResponse::error(ModelErrorKind::Rejected)]);
    assert_ends("an error", &model, agent(&model, "steps >= 5")).await;
    assert_eq!(model.calls(), 1);

    let model = caller("look");
    let rules = policy("[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 2\"\n");
    let builder = agent(&model, "steps >= 9").policy(rules).tool(ok_tool("look"));
    let state = assert_ends("a pause", &model, builder).await;
    assert_eq!((state.status(), model.calls()), (Status::Paused, 2), "{}", state.explain());

    let model = caller("look");
    let rules = policy("[stop]\nlimit = \"steps >= 9\"\n[finish]\nwrap_up = \"steps >= 2\"\n");
    let builder = agent(&model, "steps >= 9").policy(rules).tool(ok_tool("look"));
    assert_ends("a wrap-up", &model, builder).await;
    assert_eq!(model.calls(), 3);

    let model = caller("look");
    let source = endstop::cancel::InMemoryCancellationSource::new();
    let asked = source.clone();
    let builder = agent(&model, "steps >= 9").tool(deed("look", move || asked.cancel("enough")));
    let state = assert_ends("a cancellation", &model, builder.cancellation(source)).await;
    assert_eq!((state.stop_reason(), model.calls()), (Some(StopReason::UserRequested), 1));

    let model = caller("pass");
    let other = caller("pass");
    let pass = || {
        FunctionTool::without_arguments("pass", "Hands off.", |_| async {
            let (to, message) = ("other".to_owned(), "Yours.".to_owned());
            Ok::<_, ToolError>(Handoff { to, message })
        })
    };
    let next = AgentLoop::builder("other").model(other.clone()).tool(pass());
    let builder = agent(&model, "handed_off(\"other\")")
        .stop_when(condition("steps >= 5"))
        .tool(pass())
        .handoff(next.build().unwrap());
    assert_ends("a hand-off", &model, builder).await;
    assert!(other.calls() < MOST_MODEL_CALLS);
}
