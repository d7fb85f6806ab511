//! A counter tool that stops the loop at 3: no final response, and a signal that says how far it came.
//!
//! Run it with `cargo run -p endstop --example counter`. It needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use endstop::agent::{AgentLoop, AgentState};
use endstop::core::condition::named::max_steps;
use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::observe::ConsoleObserver;
use endstop::tool::{FunctionTool, ToolError};
use serde_json::json;

/// Counts up by one at each call; at 3 it stops the loop with `?`.
fn counter() -> FunctionTool {
    let count = Arc::new(AtomicU64::new(0));
    FunctionTool::without_arguments("counter", "Counts up by one.", move |_| {
        let count = Arc::clone(&count);
        async move {
            let now = count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            if now == 3 {
                Err(AgentStop::from(
                    StopSignal::new(StopReason::StopRequested)
                        .with_message("Counter reached 3")
                        .with_context("final_count", now),
                ))?;
            }
            Ok::<_, ToolError>(format!("The count is {now}."))
        }
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A model that would call the tool forever.
    let model = ScriptedModel::new("scripted")
        .reply(ScriptedResponse::call("counter", json!({})).usage(120, 15))
        .repeat_last();
    let agent = AgentLoop::builder("counter")
        .model(model)
        .instructions("Call the counter again and again.")
        .tool(counter())
        .stop_when(max_steps(10))
        .observer(ConsoleObserver::stderr())
        .build()?;
    let state: AgentState = agent.run("Count.").await?;

    let signal = state.last_stop_signal();
    println!("stopped by:     {}", signal.map_or_else(String::new, ToString::to_string));
    println!(
        "final count:    {}",
        signal.and_then(|s| s.context.get("final_count")?.as_u64()).unwrap_or(0)
    );
    println!("final response: {}", state.final_response().unwrap_or("none"));
    println!("steps:          {}", state.step_count());
    println!("tokens:         {}", state.usage().total());
    Ok(())
}
