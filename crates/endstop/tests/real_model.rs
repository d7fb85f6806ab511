//! The agent loop on a small real model behind a separate server: `cargo xtask real-model` starts it and runs
//! this with its address in `ENDSTOP_REAL_MODEL`. Without one the test reports that it is skipped.
#![cfg(feature = "models")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what was seen is printed; helpers of a test fail as the test does"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use endstop::agent::AgentLoop;
use endstop::cancel::{CancelToken, Urgency};
use endstop::core::event::EventKind;
use endstop::core::expr::parse;
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::model::ProviderModel;
use endstop::observe::{Observation, Observer};
use endstop::tool::{FunctionTool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Pieces of the long answer after which it is cancelled.
const PIECES: u64 = 10;
/// The most tokens of the long answer; the server could not be that fast.
const LONG_ANSWER: u64 = 2_000;
/// How long the server may take to see that the connection is closed.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The number that comes next.
    step: i64,
}

fn address() -> Option<String> {
    let address = std::env::var("ENDSTOP_REAL_MODEL").ok().filter(|address| !address.is_empty());
    if address.is_none() {
        println!("skipped: no server of a real model; `cargo xtask real-model` starts one");
    }
    address
}

fn model(address: &str) -> ProviderModel {
    let model = ProviderModel::builder("smollm2").provider("openai-chat");
    model.base_url(format!("http://{address}/v1")).key("none").build().unwrap()
}

/// The counts of the server.
async fn counts(address: &str) -> Value {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /counts HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn count(counts: &Value, name: &str) -> u64 {
    counts.get(name).and_then(Value::as_u64).unwrap()
}

#[tokio::test]
async fn the_books_agree_with_a_real_model_and_its_server() {
    let Some(address) = address() else { return };
    let before = counts(&address).await;
    limited(&address, &before).await;
    cancelled(&address).await;
}

/// A model that calls its tool forever makes three calls, and the tokens are the server's.
async fn limited(address: &str, before: &Value) {
    let counter = |count: Count, _: ToolContext| async move {
        Ok::<_, ToolError>(format!("The count is {}. Call the counter again.", count.step))
    };
    let agent = AgentLoop::builder("counting")
        .model(model(address))
        .instructions("You count with the tool `counter`.")
        .tool(FunctionTool::new("counter", "Counts up by one.", counter))
        .stop_when(parse("steps >= 3 or tokens >= 20k").unwrap())
        .max_output_tokens(200);
    let begun = Instant::now();
    let state = agent.build().unwrap().run("Count up, beginning with 1.").await.unwrap();
    let took = begun.elapsed();
    let after = counts(address).await;
    let calls = count(&after, "calls") - count(before, "calls");
    let asked = count(&after, "prompt_tokens") - count(before, "prompt_tokens");
    let answered = count(&after, "completion_tokens") - count(before, "completion_tokens");
    println!(
        "limited: {calls} calls, {asked} + {answered} tokens as the server counts, {took:.1?}"
    );
    println!("  the run: {} steps, {:?}", state.step_count(), state.usage());
    println!("  {}", state.explain().replace('\n', "\n  "));
    assert_eq!(calls, 3, "the server counts");
    assert_eq!((state.status(), state.step_count()), (Status::Stopped, 3));
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    assert_eq!((state.usage().total_input(), state.usage().output), (asked, answered));
    assert!(!state.execution.is_estimate, "all usage was reported");
    let executed = state.execution.steps.iter().flat_map(|step| &step.tool_executions);
    assert_eq!(executed.filter(|call| call.tool == "counter").count(), 3);
}

/// Cancels immediately after this many pieces.
struct CancelAfter {
    token: CancelToken,
    pieces: AtomicU64,
}

impl Observer for CancelAfter {
    fn observe(&self, observation: &Observation<'_>) {
        if matches!(observation.event.kind, EventKind::Piece { .. })
            && self.pieces.fetch_add(1, Ordering::SeqCst) + 1 == PIECES
        {
            let signal = StopSignal::new(StopReason::UserRequested);
            self.token.cancel(signal.with_message("enough"), Urgency::Now);
        }
    }
}

/// A hard cancellation in the middle of a long answer closes the connection, and the model stops.
async fn cancelled(address: &str) {
    let before = counts(address).await;
    let token = CancelToken::new();
    let agent = AgentLoop::builder("telling")
        .model(model(address))
        .stop_when(parse("steps >= 3").unwrap())
        .cancel_token(token.clone())
        .observer(CancelAfter { token, pieces: AtomicU64::new(0) })
        .max_output_tokens(LONG_ANSWER);
    let prompt = "Write a very long story about a machine that never stops.";
    let state = agent.build().unwrap().run(prompt).await.unwrap();
    let ended = Instant::now();
    let after = loop {
        let now = counts(address).await;
        if count(&now, "closed") > count(&before, "closed") || ended.elapsed() > SEEN_WITHIN {
            break now;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let seen = ended.elapsed();
    // A second is dozens of tokens, if the model continued.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let later = counts(address).await;
    let generated = count(&after, "generated") - count(&before, "generated");
    let more = count(&later, "generated") - count(&after, "generated");
    println!(
        "cancelled after {PIECES} pieces: the server saw the close {seen:.1?} after the run's end"
    );
    println!("  {generated} tokens of {LONG_ANSWER} made, {more} of them after the close");
    println!("  the run: {:?}, charged {:?}", state.status(), state.usage());
    assert_eq!(count(&after, "calls") - count(&before, "calls"), 1);
    assert_eq!(count(&after, "closed") - count(&before, "closed"), 1, "the server sees the close");
    assert_eq!(
        count(&later, "finished"),
        count(&before, "finished"),
        "the answer was not finished"
    );
    assert_eq!(state.status(), Status::Stopped);
    assert_eq!(state.stop_reason(), Some(StopReason::UserRequested));
    assert!(state.usage().output > 0, "what was made is charged");
    assert!(more <= 2, "the model continues");
}
