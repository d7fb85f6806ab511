//! Sub-agents side by side under one small limit: they take shares, wait for each other, and never pass the limit.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentLoop, AgentState};
use endstop::cancel::InMemoryCancellationSource;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::ToolOutcome;
use endstop::model::{ModelRequest, ScriptedResponse};
use endstop::tool::{FunctionTool, ToolContext, ToolError};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::{priced, replies_so_far, usd};
use crate::support::*;

const AGENTS: usize = 8;
const CALLS: usize = 6;
const CAP: u64 = 64_000;

/// An answer of N tokens, as far as its cap lets it, that takes a second.
fn answer(request: &ModelRequest<'_>, tokens: u64, calls: usize) -> ScriptedResponse {
    let cap = request.max_output_tokens.unwrap_or(CAP);
    let is_last = replies_so_far(request) + 1 >= calls;
    let reply = if is_last {
        ScriptedResponse::text("done")
    } else {
        ScriptedResponse::call("work", json!({}))
    };
    let reply = reply.delay(Duration::from_secs(1)).usage(100, tokens.min(cap));
    if tokens > cap { reply.finish("length") } else { reply }
}

/// Eight sub-agents that begin at the same time, whose calls all ask for 64,000 tokens of output, and how long they take.
async fn eight(limit: &str, are_shared: bool, tokens: u64, calls: usize) -> (AgentState, Duration) {
    let budget = Budget::root(Limits::unlimited());
    let child_model = priced(move |request, _| answer(request, tokens, calls));
    let child = AgentLoop::builder("work")
        .model(child_model)
        .max_output_tokens(CAP)
        .fair_shares(are_shared)
        .tool(ok_tool("work"))
        .policy(policy("unbounded = true\n"))
        .build()
        .unwrap();
    let mut all = ScriptedResponse::text("eight at once").usage(100, 10);
    for _ in 0..AGENTS {
        all = all.tool_call("work", json!({ "task": "Work." }));
    }
    let end = ScriptedResponse::text("all done").usage(100, 10);
    let model = priced(
        move |request, _| {
            if replies_so_far(request) == 0 { all.clone() } else { end.clone() }
        },
    );
    let root = AgentLoop::builder("tested")
        .model(model)
        .stop_when(condition(limit))
        .max_output_tokens(1_000)
        .tools([child.as_tool("Works.")])
        .budget(budget.clone())
        .build()
        .unwrap();
    let begun = Instant::now();
    let state = root.run("Go.").await.unwrap();
    assert_eq!(budget.held(), Amounts::default(), "{}", state.explain());
    (state, begun.elapsed())
}

/// The steps of all agents, that of the parent before them, and its last one.
fn steps(calls: usize) -> u64 {
    u64::try_from(AGENTS * calls + 2).unwrap()
}

#[tokio::test(start_paused = true)]
async fn eight_sub_agents_of_a_loop_take_shares_of_a_small_limit() {
    let (free, whole) = eight("steps >= 1000", true, 800, CALLS).await;
    let (shared, with_shares) = eight("cost >= $2", true, 800, CALLS).await;
    let (waited, without) = eight("cost >= $2", false, 800, CALLS).await;
    for state in [&free, &shared, &waited] {
        assert_eq!(state.status(), Status::Completed, "{}", state.explain());
        assert_eq!(state.step_count(), steps(CALLS), "{}", state.explain());
        assert!(state.cost().unwrap() <= usd("2"), "{}", state.explain());
    }
    assert!(with_shares.as_secs_f64() <= 1.3 * whole.as_secs_f64(), "{with_shares:?}, {whole:?}");
    assert!(without.as_secs_f64() > 1.3 * whole.as_secs_f64(), "{without:?}, {whole:?}");
}

#[tokio::test(start_paused = true)]
async fn a_response_that_a_share_cut_off_is_asked_for_once_more() {
    // The first call takes everything that it wants, and the last ones begin with shares below 10,000 tokens.
    let (state, _) = eight("cost >= $2", true, 10_000, 1).await;
    assert_eq!(state.status(), Status::Completed, "{}", state.explain());
    assert_eq!(state.step_count(), steps(1), "{}", state.explain());
    let cost = state.cost().unwrap();
    assert!(cost <= usd("2"), "{cost}");
    // The cost of the cut responses counts as well: ten cents for each whole one, and less for a cut one.
    assert!(cost > usd("0.85"), "no response was cut off: {cost}");
    let (whole, _) = eight("steps >= 1000", true, 10_000, 1).await;
    assert!(whole.cost().unwrap() < usd("0.85"), "{}", whole.explain());
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_those_in_flight_instead_of_ending_its_run() {
    // Two calls of 64,000 tokens do not fit into $1 together, and a share of it is less than the answer.
    let (state, _) = eight("cost >= $1", false, 800, CALLS).await;
    assert_eq!(state.status(), Status::Completed, "{}", state.explain());
    assert!(state.cost().unwrap() <= usd("1"));
}

/// A tool that holds amounts, and releases them when its helper is done. The helper makes one call, with what it gets.
async fn holding(held: Amounts) -> (AgentState, Duration) {
    let budget = Budget::root(Limits { cost: Some(usd("1")), ..Limits::unlimited() });
    let child_model = priced(|request, _| {
        let cap = request.max_output_tokens.unwrap();
        ScriptedResponse::text("a part").usage(100, cap).finish("length")
    });
    let child = AgentLoop::builder("child")
        .model(child_model)
        .max_output_tokens(CAP)
        .stop_when(condition("steps >= 5"))
        .budget(budget.clone())
        .build()
        .unwrap();
    let tool = {
        let budget = budget.clone();
        FunctionTool::new("work", "Works.", move |_: serde_json::Value, _: ToolContext| {
            let (child, budget) = (child.clone(), budget.clone());
            async move {
                let held = budget.reserve(held).unwrap();
                let state = child.run("Help.").await.unwrap();
                assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
                held.release();
                Ok::<_, ToolError>("done")
            }
        })
    };
    let model = priced(|request, _| match replies_so_far(request) {
        0 => ScriptedResponse::call("work", json!({})),
        _ => ScriptedResponse::text("all done"),
    });
    let root = AgentLoop::builder("tested")
        .model(model)
        .stop_when(condition("steps >= 9"))
        .tool(tool)
        .budget(budget)
        .build()
        .unwrap();
    let begun = Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(3_600), root.run("Go.")).await;
    let state = ended.expect("the tool waits for its own reservation").unwrap();
    assert_eq!(state.status(), Status::Completed, "{}", state.explain());
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded], "{}", state.explain());
    (state, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_a_reservation_that_waits_for_it() {
    // A tool that pays for something itself.
    let (_, took) = holding(Amounts { cost: usd("0.99"), ..Amounts::ZERO }).await;
    assert!(took < Duration::from_secs(60), "{took:?}");
    // A model that runs an agent to answer: its call is in flight until the call of that agent is settled.
    let (_, took) = holding(Amounts { cost: usd("0.99"), attempts: 1, ..Amounts::ZERO }).await;
    let minutes = took.as_secs() / 60;
    assert!((10..30).contains(&minutes), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_source_cancels_a_run_that_waits_for_calls_in_flight() {
    let budget = Budget::root(Limits { cost: Some(usd("1")), ..Limits::unlimited() });
    let held = Amounts { cost: usd("0.99"), attempts: 1, ..Amounts::ZERO };
    let held = budget.reserve(held).unwrap();
    let source = InMemoryCancellationSource::new();
    let model = priced(|_, _| ScriptedResponse::text("too late"));
    let waiting = AgentLoop::builder("tested")
        .model(Arc::clone(&model))
        .max_output_tokens(CAP)
        .stop_when(condition("steps >= 9"))
        .cancellation(source.clone())
        .budget(budget)
        .build()
        .unwrap();
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        source.cancel("enough");
    };
    let begun = Instant::now();
    let (state, ()) = tokio::join!(waiting.run("Go."), cancel);
    assert_eq!(state.unwrap().stop_reason(), Some(StopReason::UserRequested));
    assert!(begun.elapsed() < Duration::from_secs(33), "{:?}", begun.elapsed());
    assert_eq!(model.calls(), 0);
    held.release();
}

#[tokio::test(start_paused = true)]
async fn a_response_that_others_cut_off_stays_where_no_longer_one_fits() {
    // Another call holds $0.02 of $0.10, so the share of $0.08 is 4,096 tokens; little more is left for a repetition.
    let budget = Budget::root(Limits { cost: Some(usd("0.10")), ..Limits::unlimited() });
    let held = Amounts { cost: usd("0.02"), attempts: 1, ..Amounts::ZERO };
    let held = budget.reserve(held).unwrap();
    let model = priced(|request, _| {
        let cap = request.max_output_tokens.unwrap();
        ScriptedResponse::text("a long answer").usage(100, cap.min(20_000)).finish("length")
    });
    let agent = AgentLoop::builder("tested")
        .model(Arc::clone(&model))
        .max_output_tokens(CAP)
        .stop_when(condition("steps >= 9"))
        .budget(budget)
        .build()
        .unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(model.calls(), 1, "{}", state.explain());
    assert_eq!(state.current_response(), Some("a long answer"), "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::Completed), "{}", state.explain());
    assert!(state.explain().contains("warning: a response was cut off by its fair share"));
    held.release();
}
