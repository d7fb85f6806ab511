//! What the demo plays: a planner with a cap on its iterations, whose every iteration asks a sub-agent that
//! nothing bounds. Loop, tools, prices and ledger are the real ones; the model is scripted, and time is
//! tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentLoop, AgentState};
use endstop::core::expr::parse;
use endstop::core::policy::Policy;
use endstop::core::units::WallTime;
use endstop::message::Message;
use endstop::model::{ModelRequest, Reply, ScriptedModel};
use endstop::observe::Observer;
use endstop::tool::{FunctionTool, ToolError};
use serde_json::json;

use crate::error::CliError;

/// The model whose prices are paid.
pub(super) const MODEL: &str = "claude-sonnet-4-5";
/// The cap of the planner.
pub(super) const ITERATIONS: u64 = 50;
/// Searches after which a sub-agent gives up by itself.
const SEARCHES: usize = 22;
/// What a model call takes, in simulated time.
const CALL_TIME: Duration = Duration::from_secs(3);
/// What the simulated model counts as one token.
const BYTES_PER_TOKEN: usize = 4;
/// Instructions and a search result, in bytes: 6,000 and 4,000 tokens.
const INSTRUCTIONS_BYTES: usize = 24_000;
const RESULT_BYTES: usize = 16_000;
/// What the researcher says at a step, reasoning included, and the planner.
const RESEARCHER_TOKENS: u64 = 1_550;
const PLANNER_TOKENS: u64 = 150;
/// A reply with a lower cap has no room for a tool call.
const CALL_TOKENS: u64 = 64;
/// 2026-01-01T00:00Z: prices are those of a day, so that every run counts the same.
const NOW: WallTime = WallTime(1_767_225_600_000);

const PLANNER: &str = "You plan. Ask for research until the question is answered.";
const RESEARCHER: &str = "You research. Search until you have found it.";

/// One run of the planner.
pub(super) struct Act {
    /// The stop condition.
    pub(super) stop: String,
    /// The state at the end.
    pub(super) state: AgentState,
    /// Requests that the model was sent, by its own count.
    pub(super) calls: u64,
    /// Calls of the sub-agent.
    pub(super) sub_agents: u64,
}

/// Plays the run under a stop condition.
///
/// # Errors
///
/// If the condition is none, or the run cannot begin.
pub(super) fn play(stop: &str, observers: Vec<Arc<dyn Observer>>) -> Result<Act, CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::new(error.to_string());
    let condition = parse(stop).map_err(|error| failed(&error.message))?;
    let model = Arc::new(ScriptedModel::from_fn(MODEL, |request, _| answer(request)));
    let researcher = AgentLoop::builder("research")
        .shared_model(Arc::<ScriptedModel>::clone(&model))
        .instructions(filled(RESEARCHER, INSTRUCTIONS_BYTES))
        .tool(search())
        .policy(Policy::default())
        .unbounded()
        .wall_clock(Arc::new(|| NOW))
        .build()
        .map_err(|error| failed(&error))?;
    // A cap on the run's own steps bounds nothing below it, and the library says so.
    let mut planner = AgentLoop::builder("planner")
        .shared_model(Arc::<ScriptedModel>::clone(&model))
        .instructions(PLANNER)
        .tools([researcher.as_tool("Researches a question.")])
        .policy(Policy::stop(condition))
        .unbounded()
        .wall_clock(Arc::new(|| NOW));
    for observer in observers {
        planner = planner.shared_observer(observer);
    }
    let planner = planner.build().map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| failed(&error))?;
    let state = runtime
        .block_on(planner.run("Why do our nightly builds fail?"))
        .map_err(|error| failed(&error))?;
    let asked = state.steps().iter().map(|step| step.tool_executions.len()).sum::<usize>();
    let sub_agents = u64::try_from(asked).unwrap_or(u64::MAX);
    Ok(Act { stop: stop.to_owned(), state, calls: model.calls(), sub_agents })
}

/// A tool that never finds what was looked for, at length.
fn search() -> FunctionTool {
    FunctionTool::without_arguments("search", "Searches the logs.", |_| async {
        Ok::<_, ToolError>(filled("Nothing certain in this log.", RESULT_BYTES))
    })
}

fn filled(text: &str, bytes: usize) -> String {
    format!("{text:.<bytes$}")
}

/// What the model answers: another search or another research, as long as the cap leaves room for the call.
fn answer(request: &ModelRequest<'_>) -> Reply {
    let is_planner = request.system.starts_with(PLANNER);
    let wanted = if is_planner { PLANNER_TOKENS } else { RESEARCHER_TOKENS };
    let output = request.max_output_tokens.map_or(wanted, |cap| cap.min(wanted));
    let results = request.messages.iter().filter(|message| matches!(message, Message::Tool { .. }));
    let reply = match (is_planner, results.count()) {
        _ if output < CALL_TOKENS => Reply::text("I").finish("length"),
        (true, _) => Reply::call("research", json!({ "task": "Look at the next log." })),
        (false, SEARCHES..) => Reply::text("I give up: nothing in these logs says why."),
        (false, done) => Reply::call("search", json!({ "page": done })),
    };
    reply.usage(input_tokens(request), output).delay(CALL_TIME)
}

/// The tokens of a request, counted as models do, if with a coarser measure.
fn input_tokens(request: &ModelRequest<'_>) -> u64 {
    let bytes_of = |message: &Message| {
        let calls = message.tool_calls().iter().map(|call| call.tool.len() + call.arguments.len());
        message.text().len().saturating_add(calls.sum())
    };
    let messages = request.messages.iter().map(bytes_of);
    let bytes = messages.fold(request.system.len(), usize::saturating_add);
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}
