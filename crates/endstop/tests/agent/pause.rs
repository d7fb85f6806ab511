//! Pause rules: a person decides, in this process or in a later one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::state::OpenStep;
use endstop::agent::{Approval, ApprovalRequest, Approver};
use endstop::cancel::{CancelToken, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::message::ToolOutcome;
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::tool::{FunctionTool, ToolError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

const AFTER_TWO: &str = "[stop]\nlimit = \"steps >= 5\"\n[pause]\nask = \"steps >= 2\"\n";

/// 1,000 tokens in and 100 out: $0.0035 a call.
fn spender() -> Arc<ScriptedModel> {
    priced(|_, _| ScriptedResponse::call("look", json!({})).usage(1_000, 100))
}

/// A tool that counts its calls.
fn counting(name: &str) -> (FunctionTool, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let tool = FunctionTool::without_arguments(name, "Counts.", move |_| {
        let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok::<_, ToolError>(format!("call {now}")) }
    });
    (tool, count)
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_goes_on_in_another_process_once_it_is_approved() {
    let model = caller("look");
    let agent = || under(&model, AFTER_TWO).tool(ok_tool("look")).build().unwrap();
    let state = agent().run("Go.").await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Paused, 2, 2));
    assert_eq!(state.stop_reason(), None);
    assert!(state.explain().contains("steps"), "{}", state.explain());

    let state = agent().execute(carried(&state).approved(None)).await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Stopped, 5, 5));
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    assert_eq!((state.usage().total(), state.steps().len()), (550, 5));
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 5]);
    assert_all_answered(&state);
    let trip_record = state.execution.trip_record.as_ref().unwrap();
    assert_eq!(trip_record.overrides.len(), 1, "{:?}", trip_record.overrides);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_approved_stays_paused_and_spends_nothing() {
    let model = caller("look");
    let agent = || under(&model, AFTER_TWO).tool(ok_tool("look")).build().unwrap();
    let mut state = agent().run("Go.").await.unwrap();
    for _ in 0..3 {
        state = agent().execute(carried(&state)).await.unwrap();
        assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Paused, 2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_raised_cap_in_the_policy_goes_on_without_an_approval() {
    let model = caller("look");
    let first = under(&model, AFTER_TWO).tool(ok_tool("look")).build().unwrap();
    let state = first.run("Go.").await.unwrap();
    let raised = AFTER_TWO.replace("steps >= 2", "steps >= 4");
    let second = under(&model, &raised).tool(ok_tool("look")).build().unwrap();
    let state = second.execute(carried(&state)).await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Paused, 4, 4));
    let third = AFTER_TWO.replace("steps >= 2", "steps >= 9");
    let third = under(&model, &third).tool(ok_tool("look")).build().unwrap();
    let state = third.execute(carried(&state)).await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Stopped, 5, 5));
    assert_eq!(state.usage().total(), 550);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_says_yes_disarms_the_rule() {
    let (model, person) = (spender(), Person::who_says([Approval::Yes]));
    let rules = "[stop]\nlimit = \"steps >= 6\"\n[pause]\nask = \"cost >= $0.007\"\n";
    let agent = under(&model, rules).tool(ok_tool("look")).approver(person.clone());
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(person.asked(), [["ask"]]);
    assert_eq!((state.step_count(), state.cost()), (6, Some(usd("0.021"))));
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
}

#[tokio::test(start_paused = true)]
async fn an_approval_up_to_a_cap_asks_again_at_the_cap() {
    let model = spender();
    let up_to = [Approval::UpTo(usd("0.014")), Approval::No("enough".to_owned())];
    let person = Person::who_says(up_to);
    let rules = "[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"cost >= $0.007\"\n";
    let agent = under(&model, rules).tool(ok_tool("look")).approver(person.clone());
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(person.asked().len(), 2);
    assert_eq!((state.step_count(), state.cost()), (4, Some(usd("0.014"))));
    assert_eq!(state.status(), Status::Stopped);
    let signal = state.last_stop_signal().unwrap();
    assert_eq!((signal.reason, signal.message.as_str()), (StopReason::StopRequested, "enough"));
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_cap_that_is_given_with_a_saved_state_holds_in_the_next_process() {
    let model = spender();
    let rules = "[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"cost >= $0.007\"\n";
    let agent = || under(&model, rules).tool(ok_tool("look")).build().unwrap();
    let state = agent().run("Go.").await.unwrap();
    assert_eq!((state.status(), state.step_count()), (Status::Paused, 2));
    let state = agent().execute(carried(&state).approved(Some(usd("0.014")))).await.unwrap();
    assert_eq!((state.status(), state.step_count()), (Status::Paused, 4));
    // The cap is kept; the rule asks by it in a third process too.
    let state = agent().execute(carried(&state)).await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Paused, 4, 4));
}

#[tokio::test(start_paused = true)]
async fn later_is_asked_once_and_leaves_a_state_that_can_be_approved() {
    for rule in ["steps >= 2", "cost >= $0.007", "next_cost >= $0.01"] {
        let (model, person) = (spender(), Person::who_says([Approval::Later]));
        let rules = format!("[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"{rule}\"\n");
        let agent = || under(&model, &rules).tool(ok_tool("look"));
        let state = agent().approver(person.clone()).build().unwrap().run("Go.").await.unwrap();
        assert_eq!(
            (state.status(), person.asked()),
            (Status::Paused, vec![vec!["ask".to_owned()]])
        );
        let state = agent().build().unwrap().execute(carried(&state).approved(None)).await.unwrap();
        assert_eq!((state.step_count(), model.calls()), (4, 4), "{rule}: {}", state.explain());
        assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dear_call_pauses_inside_the_step_before_the_model_is_asked() {
    let model = spender();
    let rules = "[stop]\nlimit = \"steps >= 2\"\n[pause]\nask = \"next_cost >= $0.01\"\n";
    let agent =
        || under(&model, rules).tool(ok_tool("look")).max_output_tokens(2_000).build().unwrap();
    let state = agent().run("Go.").await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Paused, 1, 0));
    assert_eq!(state.execution.open_step, Some(OpenStep::Model));
    let state = agent().execute(carried(&state).approved(None)).await.unwrap();
    assert_eq!((state.step_count(), model.calls()), (2, 2));
    let attempts: Vec<u32> = state.steps().iter().map(|step| step.attempts).collect();
    assert_eq!(attempts, [1, 1]);
    assert_eq!(state.execution.open_step, None);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_raised_next_cost_in_the_policy_lets_the_open_step_go_on() {
    let model = spender();
    let rules = "[stop]\nlimit = \"steps >= 2\"\n[pause]\nask = \"next_cost >= $0.01\"\n";
    let agent = |rules: &str| {
        under(&model, rules).tool(ok_tool("look")).max_output_tokens(2_000).build().unwrap()
    };
    let state = agent(rules).run("Go.").await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Paused, 1, 0));
    let state = agent(&rules.replace("0.01", "1.00")).execute(carried(&state)).await.unwrap();
    assert_eq!((state.status(), state.step_count(), model.calls()), (Status::Stopped, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_cap_covers_next_cost_where_the_rule_names_it_and_never_asks_for_ever() {
    let rules =
        "[stop]\nlimit = \"steps >= 3\"\n[pause]\nask = \"next_cost >= $0.01 or cost >= $1.00\"\n";
    for (cap, calls, status) in [("0.50", 3, Status::Stopped), ("0.005", 0, Status::Paused)] {
        let (model, person) = (spender(), Person::who_says([Approval::UpTo(usd(cap))]));
        let agent = under(&model, rules).tool(ok_tool("look")).approver(person.clone());
        let agent = agent.max_output_tokens(2_000).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!((model.calls(), state.status()), (calls, status), "{cap}");
        assert!(person.asked().len() <= 2, "{cap}: {:?}", person.asked());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_a_tool_call_repeats_and_loses_none_of_the_batch() {
    for parallel in [1, 2, 8] {
        let three = || ScriptedResponse::call("look", json!({})).tool_call("look", json!({}));
        let model =
            replies([three().tool_call("look", json!({})), ScriptedResponse::text("Done.")]);
        let rules = "[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"tool_calls >= 1\"\n";
        let (_, count) = counting("look");
        let agent = || {
            let counted = Arc::clone(&count);
            let tool = FunctionTool::without_arguments("look", "Counts.", move |_| {
                let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
                async move { Ok::<_, ToolError>(format!("call {now}")) }
            });
            under(&model, rules).tool(tool).parallel_tools(parallel).build().unwrap()
        };
        let state = agent().run("Go.").await.unwrap();
        assert_eq!((state.status(), model.calls()), (Status::Paused, 1));
        assert_eq!(state.execution.open_step, Some(OpenStep::Tools));
        assert_eq!((count.load(Ordering::SeqCst), outcomes(&state).len()), (1, 1));
        let state = agent().execute(carried(&state).approved(None)).await.unwrap();
        assert_eq!((count.load(Ordering::SeqCst), model.calls()), (3, 2), "{parallel} at once");
        assert_eq!(state.final_response(), Some("Done."));
        assert_eq!(state.steps()[0].tool_executions.len(), 3);
        assert_eq!((state.step_count(), outcomes(&state).len()), (2, 3));
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_from_a_tool_that_still_runs_answers_the_calls_that_a_pause_held() {
    let (stopper, _) = counter_tool(1);
    let slow = FunctionTool::without_arguments("slow", "Stops late.", |_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let signal = StopSignal::new(StopReason::StopRequested).with_message("found it");
        Err::<&str, _>(ToolError::Stop(Box::new(signal.into())))
    });
    let reply = ScriptedResponse::call("slow", json!({})).tool_call("counter", json!({}));
    let model = replies([reply.tool_call("counter", json!({}))]);
    let rules = "[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"tool_calls >= 1\"\n";
    let state =
        under(&model, rules).tool(slow).tool(stopper).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.status(), Status::Stopped);
    assert_eq!(state.last_stop_signal().unwrap().message, "found it");
    let expected = [ToolOutcome::Succeeded, ToolOutcome::NotExecuted, ToolOutcome::NotExecuted];
    assert_eq!(outcomes(&state), expected);
    assert_eq!(state.execution.open_step, None);
    assert_all_answered(&state);
}

/// Approves after an hour.
struct Slow;

impl Approver for Slow {
    fn approve<'a>(&'a self, _: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        tokio::time::sleep(Duration::from_secs(3_600)).map(|()| Approval::Yes).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_pause_counts_as_elapsed_in_the_process_and_never_as_active() {
    let delayed = || {
        let reply = ScriptedResponse::call("look", json!({})).usage(10, 1);
        let reply = reply.delay(Duration::from_secs(10));
        Arc::new(ScriptedModel::new("scripted").reply(reply).repeat_last())
    };
    let stop = |gauge: &str| format!("[stop]\nlimit = \"steps >= 4 or {gauge} >= 10m\"\n");
    let pause = "[pause]\nask = \"steps >= 2\"\n";
    for (gauge, steps) in [("active", 4), ("elapsed", 2)] {
        let agent = under(&delayed(), &(stop(gauge) + pause)).tool(ok_tool("look"));
        let state = agent.approver(Slow).build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.step_count(), steps, "{gauge}: {}", state.explain());
    }
    // Not loaded: neither clock continues.
    for gauge in ["active", "elapsed"] {
        let model = delayed();
        let rules = stop(gauge) + pause;
        let agent = || under(&model, &rules).tool(ok_tool("look")).build().unwrap();
        let state = agent().run("Go.").await.unwrap();
        assert_eq!(state.execution.at_ms, 20_000);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let state = agent().execute(carried(&state).approved(None)).await.unwrap();
        assert_eq!((state.step_count(), state.execution.at_ms), (4, 40_000), "{gauge}");
        assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_ends_the_wait_for_a_person() {
    let token = CancelToken::new();
    let canceller = token.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let signal = StopSignal::new(StopReason::UserRequested).with_message("forget it");
        canceller.cancel(signal, Urgency::Graceful);
    });
    let model = caller("look");
    let agent = under(&model, AFTER_TWO).tool(ok_tool("look")).approver(Slow).cancel_token(token);
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::UserRequested));
    assert_eq!((state.status(), state.step_count()), (Status::Stopped, 2));
    assert_eq!(state.execution.at_ms, 60_000);
}
