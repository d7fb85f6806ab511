//! A hook or a source that does not return does not outlive a time limit or a kill.

use std::time::Duration;

use endstop::agent::{AgentState, CancellationSource, Hook, HookContext, HookResult, Trigger};
use endstop::cancel::{CancelToken, Urgency};
use endstop::core::signal::{StopReason, StopSignal};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::support::*;

struct Hangs;

impl Hook for Hangs {
    fn call<'a>(&'a self, _: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult> {
        tokio::time::sleep(Duration::from_secs(3_600)).map(|()| Ok(())).boxed()
    }
}

impl CancellationSource for Hangs {
    fn cancellation_signals<'a>(&'a self, _: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>> {
        tokio::time::sleep(Duration::from_secs(3_600)).map(|()| Vec::new()).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_is_cut() {
    let triggers = [
        Trigger::BeforeExecution,
        Trigger::BeforeStep,
        Trigger::BeforeModelRequest,
        Trigger::AfterModelResponse,
        Trigger::BeforeToolUse,
        Trigger::AfterToolUse,
        Trigger::AfterStep,
    ];
    for trigger in triggers {
        for is_killed in [false, true] {
            let token = CancelToken::new();
            let limit = if is_killed { "steps >= 5" } else { "elapsed >= 10s" };
            let model = caller("look");
            let agent = agent(&model, limit).tool(ok_tool("look")).cancel_token(token.clone());
            let agent =
                agent.hook_named(trigger, 0, "hangs", std::sync::Arc::new(Hangs)).build().unwrap();
            let kill = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                if is_killed {
                    token.cancel(StopSignal::new(StopReason::UserRequested), Urgency::Now);
                }
            };
            let begun = tokio::time::Instant::now();
            let (state, ()) = tokio::join!(agent.run("Go."), kill);
            let (state, took) = (state.unwrap(), begun.elapsed());
            let expected = if is_killed { 2 } else { 10 };
            assert_eq!(took.as_secs(), expected, "{trigger:?}: {}", state.explain());
            let reason =
                if is_killed { StopReason::UserRequested } else { StopReason::TimeLimitReached };
            assert_eq!(state.stop_reason(), Some(reason), "{trigger:?}");
            assert_all_answered(&state);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_cut() {
    let agent = agent(&answerer("Hi."), "elapsed >= 10s").cancellation(Hangs).build().unwrap();
    let begun = tokio::time::Instant::now();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 10, "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::TimeLimitReached));
}
