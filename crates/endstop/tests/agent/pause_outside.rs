//! A run that someone outside pauses by its handle: nothing begins, and it continues where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::{AgentLoop, AgentState, Iteration, RunHandle};
use endstop::cancel::Urgency;
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::store::{MemoryStore, Store};
use endstop::tool::{FunctionTool, ToolError};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// Calls `look` twice, three times in a reply, and answers.
fn looker() -> Arc<ScriptedModel> {
    priced(|request, _| {
        let call = || ScriptedResponse::call("look", json!({ "n": 1 }));
        let reply = match replies_so_far(request) {
            n if n < 2 => call().tool_call("look", json!({ "n": 2 })).tool_call("look", json!({})),
            _ => ScriptedResponse::text("Done."),
        };
        reply.usage(100, 10).delay(Duration::from_secs(60))
    })
}

/// A tool that takes a minute and counts its calls.
fn looking() -> (FunctionTool, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let tool = FunctionTool::without_arguments("look", "Looks.", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, ToolError>("seen")
        }
    });
    (tool, count)
}

async fn drive(mut run: Iteration) -> AgentState {
    while run.advance().await {}
    run.into_state()
}

/// Pauses a run after this time, and resumes it an hour later; returns what had begun at both ends of that hour.
async fn hold<T>(run: RunHandle, after: Duration, begun: impl Fn() -> T) -> (T, T) {
    tokio::time::sleep(after).await;
    assert!(run.pause("ann", "lunch") && !run.pause("bob", ""), "paused once");
    // Calls in flight end.
    tokio::time::sleep(Duration::from_secs(90)).await;
    let before = begun();
    tokio::time::sleep(HOUR).await;
    let after = begun();
    assert!(run.look(|run| run.explain().starts_with("paused by ann: lunch\n")));
    assert_eq!(run.status(), Status::Paused);
    assert!(run.resume("bob", "") && !run.resume("bob", ""), "resumed once");
    (before, after)
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_wherever_the_run_is_paused_and_it_goes_on_where_it_was() {
    // In a model call, in the first or the second tool call, before the next step, in the last answer.
    for seconds in [10, 70, 130, 300, 450] {
        let (model, (tool, looks)) = (looker(), looking());
        let agent = under(&model, "[stop]\nt = \"active >= 15m\"\ne = \"elapsed >= 5h\"")
            .tool(tool)
            .parallel_tools(1);
        let run = agent.build().unwrap().iterate(AgentState::with_prompt("Go.")).await.unwrap();
        let begun = || (model.calls(), looks.load(Ordering::SeqCst));
        let held = hold(run.handle(), Duration::from_secs(seconds), begun);
        let (state, (before, after)) = tokio::join!(drive(run), async {
            if seconds == 450 { ((3, 6), (3, 6)) } else { held.await }
        });
        assert_eq!(before, after, "at {seconds} s");
        assert_eq!(state.status(), Status::Completed, "{}", state.explain());
        assert_eq!((model.calls(), looks.load(Ordering::SeqCst), state.step_count()), (3, 6, 3));
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_sub_agents_and_their_clocks_and_stops_none_of_them() {
    let limits = "[stop]\nt = \"active >= 15m\"";
    let (inner, (tool, looks)) = (looker(), looking());
    let inner_calls = Arc::clone(&inner);
    let helper = AgentLoop::builder("helper").model(inner).policy(policy(limits)).tool(tool);
    let outer = priced(|request, _| match replies_so_far(request) {
        0 => ScriptedResponse::call("helper", json!({ "task": "Help." })),
        _ => ScriptedResponse::text("All done."),
    });
    let agent = under(&outer, limits).tools([helper.build().unwrap().as_tool("Helps.")]);
    let run = agent.build().unwrap().iterate(AgentState::with_prompt("Go.")).await.unwrap();
    let begun = || (inner_calls.calls(), looks.load(Ordering::SeqCst));
    let held = hold(run.handle(), Duration::from_secs(70), begun);
    let (state, (before, after)) = tokio::join!(drive(run), held);
    assert_eq!(before, after);
    assert_eq!(state.final_response(), Some("All done."), "{}", state.explain());
    assert_eq!((inner_calls.calls(), looks.load(Ordering::SeqCst)), (3, 6));
    assert_eq!(outcomes(&state), [endstop::message::ToolOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_and_a_time_limit_end_a_paused_run() {
    for is_cancelled in [true, false] {
        let (model, (tool, _)) = (looker(), looking());
        let agent = under(&model, "[stop]\ne = \"elapsed >= 2h\"").tool(tool).build().unwrap();
        let run = agent.iterate(AgentState::with_prompt("Go.")).await.unwrap();
        let handle = run.handle();
        let outside = async {
            tokio::time::sleep(Duration::from_secs(70)).await;
            handle.pause("ann", "");
            tokio::time::sleep(HOUR).await;
            if is_cancelled {
                let signal = StopSignal::new(StopReason::UserRequested).with_message("enough");
                handle.token().cancel(signal, Urgency::Graceful);
            }
        };
        let (state, ()) = tokio::join!(drive(run), outside);
        let reason = match is_cancelled {
            true => StopReason::UserRequested,
            false => StopReason::TimeLimitReached,
        };
        assert_eq!((state.stop_reason(), model.calls()), (Some(reason), 1), "{}", state.explain());
        assert_all_answered(&state);
        assert!(!handle.pause("ann", ""), "it has stopped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_run_whose_process_ends_in_a_pause_goes_on_with_its_counters() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let agent = |model: &Arc<ScriptedModel>, tool| {
        let text = "[stop]\nt = \"active >= 15m\"";
        under(model, text).tool(tool).store(Arc::clone(&store)).build().unwrap()
    };
    let (first, (tool, _)) = (looker(), looking());
    let run = agent(&first, tool).iterate(AgentState::with_prompt("Go.")).await.unwrap();
    let (handle, id) = (run.handle(), run.handle().info().id.clone());
    let paused = async {
        tokio::time::sleep(Duration::from_secs(200)).await;
        handle.pause("ann", "the process is replaced");
        tokio::time::sleep(HOUR).await;
        handle.status()
    };
    let status = tokio::select! {
        _ = drive(run) => panic!("it waits"),
        status = paused => status,
    };
    assert_eq!((status, first.calls()), (Status::Paused, 2));
    let (second, (tool, _)) = (looker(), looking());
    let state = agent(&second, tool).resume(&id).await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
    assert_eq!((state.step_count(), first.calls() + second.calls()), (3, 3));
    assert_all_answered(&state);
}
