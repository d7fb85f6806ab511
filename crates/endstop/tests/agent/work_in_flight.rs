//! Work in flight continues while a person or a hook decides about the next call.

use std::time::Duration;

use endstop::agent::{Approval, ApprovalRequest, Approver, Trigger};
use endstop::core::run::Status;
use endstop::message::ToolOutcome;
use endstop::model::ScriptedResponse;
use endstop::tool::{FunctionTool, ToolError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// Approves after a minute.
struct Slow;

impl Approver for Slow {
    fn approve<'a>(&'a self, _: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        tokio::time::sleep(Duration::from_secs(60)).map(|()| Approval::Yes).boxed()
    }
}

fn ten_seconds(name: &str) -> FunctionTool {
    slow_tool(name, Duration::from_secs(10)).timeout(Duration::from_secs(20))
}

fn model() -> std::sync::Arc<endstop::model::ScriptedModel> {
    let both =
        ScriptedResponse::text("Both.").tool_call("long", json!({})).tool_call("asked", json!({}));
    replies([both.usage(10, 1), ScriptedResponse::text("Done.").usage(10, 1)])
}

#[tokio::test(start_paused = true)]
async fn a_tool_runs_while_a_person_decides() {
    let rules = "[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"tool_calls >= 1\"\n";
    let agent = under(&model(), rules).tool(ten_seconds("long")).tool(ok_tool("asked"));
    let begun = tokio::time::Instant::now();
    let state = agent.parallel_tools(2).approver(Slow).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 2], "{}", state.explain());
    assert_eq!(state.steps()[0].tool_executions[0].took_ms, 10_000);
}

struct Waits;

impl endstop::agent::Hook for Waits {
    fn call<'a>(
        &'a self,
        context: &'a mut endstop::agent::HookContext<'_>,
    ) -> BoxFuture<'a, endstop::agent::HookResult> {
        let is_other = context.call.is_some_and(|call| call.tool == "asked");
        async move {
            if is_other {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            Ok::<_, ToolError>(())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_runs_while_hooks_run() {
    for trigger in [Trigger::BeforeToolUse, Trigger::AfterToolUse] {
        let agent = agent(&model(), "steps >= 9").tool(ten_seconds("long")).tool(ok_tool("asked"));
        let hooked =
            agent.parallel_tools(2).hook_named(trigger, 0, "waits", std::sync::Arc::new(Waits));
        let begun = tokio::time::Instant::now();
        let state = hooked.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 60, "{trigger:?}");
        assert_eq!(state.status(), Status::Completed, "{}", state.explain());
        assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 2], "{trigger:?}");
        assert_eq!(state.steps()[0].tool_executions[0].took_ms, 10_000, "{trigger:?}");
    }
}
