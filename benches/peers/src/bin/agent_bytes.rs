//! The bytes that a run keeps of each step beyond its messages: every allocation is counted.

use endstop::agent::{AgentState, Iteration};
use endstop::message::{Message, ToolCall};
use endstop_bench::agents::{self, PROMPT, block_on};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The steps between which the kept bytes are compared.
const WINDOWS: [(u64, u64); 2] = [(10, 200), (200, 10_000)];
/// The goal, in bytes per step.
const GOAL: f64 = 1_024.0;

/// Bytes that the conversation holds, spare room of its lists included.
fn bytes_of(messages: &Vec<Message>) -> usize {
    let of_call =
        |call: &ToolCall| call.id.capacity() + call.tool.capacity() + call.arguments.capacity();
    let heap = |message: &Message| match message {
        Message::System { text } | Message::User { text } => text.capacity(),
        Message::Assistant { text, tool_calls, opaque } => {
            let calls: usize = tool_calls.iter().map(of_call).sum();
            let lists = tool_calls.capacity() * size_of::<ToolCall>()
                + opaque.capacity() * size_of::<serde_json::Value>();
            text.capacity() + calls + lists
        }
        Message::Tool { id, tool, text, .. } => id.capacity() + tool.capacity() + text.capacity(),
    };
    messages.iter().map(heap).sum::<usize>() + messages.capacity() * size_of::<Message>()
}

/// Allocated bytes without the messages.
fn beyond(iteration: &mut Iteration) -> i64 {
    let messages = bytes_of(&iteration.state().messages);
    i64::try_from(MEMORY.current_usage()).expect("bytes") - i64::try_from(messages).expect("bytes")
}

async fn kept(from: u64, to: u64) -> f64 {
    let agent = agents::agent(to + 1);
    let state = AgentState::with_prompt(PROMPT);
    let mut iteration = agent.iterate(state).await.expect("a run");
    let mut before = 0;
    for step in 1..=to {
        assert!(iteration.advance().await, "the run ended early");
        if step == from {
            before = beyond(&mut iteration);
        }
    }
    (beyond(&mut iteration) - before) as f64 / (to - from) as f64
}

fn main() {
    println!("bytes kept a step beyond the messages; goal {GOAL}");
    for (from, to) in WINDOWS {
        println!("  from step {from} to {to:<28} {:9.0} bytes", block_on(kept(from, to)));
    }
}
