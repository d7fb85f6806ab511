//! Requests and responses: a chat completion with tools, of the size that agents send.

use serde_json::{Value, json};

/// Events of a streamed answer, the usage and the terminator among them.
pub const EVENTS: usize = 53;
/// The model, one that has a price.
const MODEL: &str = "gpt-5.4";
/// Bytes of an answer in JSON.
const JSON_BYTES: usize = 363;

/// The kind of response that a call requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One JSON document.
    Json,
    /// Server-sent events.
    Stream,
}

impl Kind {
    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "stream" => Some(Self::Stream),
            _ => None,
        }
    }
}

/// The body of a request: three messages, two tools, 1.2 kB.
pub fn request(kind: Kind) -> Vec<u8> {
    let mut body = json!({
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "You are a careful engineer. Read the issue, find the smallest change \
              that mends it, and explain in two sentences why it is right. Call a tool where you need a file. \
              Say nothing about matters that were not asked for, and keep to the style of the project. A \
              change that makes a test pass by changing the test is no change; one that needs a new dependency \
              has to say what the dependency does that a page of code could not."},
            {"role": "user", "content": "The parser drops the last line of a file that does not end in a line \
              feed. Which function is it, and what is the change?"},
            {"role": "user", "content": "The file is src/reader/lines.rs, and the test that shows it is \
              lines_without_a_line_feed_at_the_end."}
        ],
        "tools": [
            tool("read_file", "Reads a file of the project.", "path"),
            tool("run_tests", "Runs the tests whose names contain a word.", "word")
        ]
    });
    if kind == Kind::Stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    body.to_string().into_bytes()
}

fn tool(name: &str, description: &str, argument: &str) -> Value {
    json!({"type": "function", "function": {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    }})
}

fn usage() -> Value {
    json!({"prompt_tokens": 290, "completion_tokens": 50, "total_tokens": 340})
}

/// An answer in JSON, of always the same size.
pub fn answer() -> Vec<u8> {
    let with = |text: &str| {
        json!({
            "id": "chatcmpl-0123456789abcdef", "object": "chat.completion", "created": 1_760_000_000,
            "model": MODEL,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                         "finish_reason": "stop"}],
            "usage": usage()
        })
        .to_string()
    };
    let missing = JSON_BYTES.saturating_sub(with("").len());
    let words = "It is the last line of the loop. ".repeat(missing / 33 + 1);
    with(words.get(..missing).unwrap_or_default()).into_bytes()
}

/// The events of a streamed answer, each with its empty line.
pub fn events() -> Vec<Vec<u8>> {
    let chunk = |choices: Value, usage: Value| {
        let body = json!({
            "id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1_760_000_000,
            "model": MODEL, "choices": choices, "usage": usage
        });
        format!("data: {body}\n\n").into_bytes()
    };
    let delta = |delta: Value, finish: Value| {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        chunk(choice, Value::Null)
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), Value::Null)];
    for word in 0..EVENTS - 4 {
        events.push(delta(json!({"content": format!(" word{word:02}")}), Value::Null));
    }
    events.push(delta(json!({}), json!("stop")));
    events.push(chunk(json!([]), usage()));
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

#[cfg(test)]
mod tests;
