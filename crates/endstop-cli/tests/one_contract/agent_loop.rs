//! The agent loop over a scripted model.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentLoop, RetryPolicy};
use endstop::core::units::TokenUsage;
use endstop::message::ToolCall;
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::observe::{DryRunObserver, TraceRecorder};
use endstop::tool::{FunctionTool, ToolContext, ToolError};
use serde_json::{Map, Value};

use crate::case::{Case, Turn, result_of};
use crate::outcome::{Live, Outcome, Shared};
use crate::provider::{MODEL, TOOLS};

/// Runs a case, and with it a dry run of another policy.
pub(crate) async fn run(case: &Case, dry: Option<&Case>) -> Live {
    let trace = Shared::default();
    let replies = case.answers().into_iter().enumerate().map(|(request, turn)| match turn {
        None => ScriptedResponse::error(ModelErrorKind::RateLimited),
        Some(turn) => reply(&turn, request),
    });
    let model = ScriptedModel::new(MODEL).provider_name("anthropic");
    let mut agent = AgentLoop::builder("main")
        .model(replies.fold(model, ScriptedModel::reply))
        .policy(case.policy())
        .retry(RetryPolicy { first_wait: Duration::ZERO, ..RetryPolicy::default() })
        .max_output_tokens(1_000)
        .observer(TraceRecorder::one_file(trace.clone()));
    for name in TOOLS {
        agent = agent.tool(FunctionTool::new(name, "Does what the script says.", answer));
    }
    let dry_run = dry.map(|case| Arc::new(DryRunObserver::new(case.program())));
    if let Some(dry_run) = &dry_run {
        agent = agent.shared_observer(Arc::<DryRunObserver>::clone(dry_run));
    }
    let state = agent.build().unwrap().run("Look into it.").await.unwrap();
    let outcome = Outcome::of(state.execution.trip_record.as_ref().unwrap());
    let dry_run = dry_run.map(|dry_run| Outcome::of_dry_run(&dry_run, &outcome));
    Live { outcome, dry_run, trace: trace.bytes() }
}

fn reply(turn: &Turn, request: usize) -> ScriptedResponse {
    let usage = TokenUsage {
        input: turn.input - turn.cached,
        output: turn.output,
        cache_read: turn.cached,
        ..TokenUsage::default()
    };
    let reply = ScriptedResponse::text(turn.text).tokens(usage).finish(turn.finish);
    turn.calls.iter().enumerate().fold(reply, |reply, (place, call)| {
        let (tool, arguments) = (call.tool.to_owned(), call.arguments().to_string());
        reply.identified_call(ToolCall { id: format!("call_{request}_{place}"), tool, arguments })
    })
}

async fn answer(arguments: Map<String, Value>, _: ToolContext) -> Result<&'static str, ToolError> {
    match result_of(&arguments) {
        (result, false) => Ok(result),
        (result, true) => Err(ToolError::failed(result)),
    }
}
