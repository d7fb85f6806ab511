//! The spend of a dropped or panicking request is known to every run concerned.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::{AgentLoop, Trigger};
use endstop::core::run::Status;
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::ToolCall;
use endstop::model::{Model, ModelRequest, ModelStream, ScriptedResponse};
use endstop::tool::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// Never answers, or panics before or in the stream.
#[derive(Debug)]
enum Bad {
    Stalls,
    Panics,
    StreamPanics,
}

impl Model for Bad {
    fn name(&self) -> &str {
        "gpt-4o"
    }

    fn provider(&self) -> &str {
        "openai"
    }

    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> ModelStream<'a> {
        match self {
            Self::Stalls => futures_util::stream::pending().boxed(),
            Self::Panics => panic!("no stream"),
            Self::StreamPanics => {
                futures_util::stream::once(async { panic!("in the stream") }).boxed()
            }
        }
    }
}

/// A sub-agent with a separate time limit.
struct Limited(Arc<dyn Tool>);

impl Tool for Limited {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn call(
        self: Arc<Self>,
        call: ToolCall,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let work = Arc::clone(&self.0).call(call, context);
        async move {
            let limit = Duration::from_secs(5);
            let given_up = || Ok(ToolOutput::text("gave up"));
            tokio::time::timeout(limit, work).await.unwrap_or_else(|_| given_up())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_counts_its_worst_case_for_all_above() {
    let stalls = "unbounded = true\non_unpriced = \"ignore\"\n";
    let child = AgentLoop::builder("helper").model(Bad::Stalls).policy(policy(stalls));
    let child = child.max_output_tokens(500).build().unwrap();
    let tool: Arc<dyn Tool> = Arc::new(Limited(child.as_tool("Helps.")));
    let model = priced(|request, _| match replies_so_far(request) {
        0 | 1 => ScriptedResponse::call("helper", json!({ "task": "more" })).usage(10, 1),
        _ => ScriptedResponse::text("Done.").usage(10, 1),
    });
    let budget = Budget::root(Limits::unlimited());
    let rules = "[stop]\nlimit = \"steps >= 50\"\n";
    let root = under(&model, rules).tools([tool]).budget(budget.clone()).build().unwrap();
    let state = root.run("Go.").await.unwrap();
    assert_eq!(state.status(), Status::Completed, "{}", state.explain());
    let settled = budget.settled();
    assert!(settled.tokens > 1_000, "{settled:?}");
    assert_eq!(state.usage().total(), settled.tokens);
    assert_eq!(state.cost(), Some(settled.cost));
    assert_eq!(budget.held(), Amounts::default());
    assert!(state.execution.is_estimate);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_panics_has_failed_to_answer_and_the_run_ends_in_order() {
    for bad in [Bad::Panics, Bad::StreamPanics] {
        let ended = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ended);
        let agent = AgentLoop::builder("tested")
            .model(bad)
            .stop_when(condition("steps >= 3"))
            .hook(Trigger::AfterExecution, 0, move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .build()
            .unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!(state.status(), Status::Failed, "{}", state.explain());
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        let errors = &state.steps()[0].errors;
        assert!(errors[0].contains("cannot be read") && errors[0].contains("stream"), "{errors:?}");
    }
}
