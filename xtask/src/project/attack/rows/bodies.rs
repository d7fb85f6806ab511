//! Requests that the attacks are made of.

use serde_json::{Value, json};

use crate::project::attack::bill::Work;
use crate::project::attack::reply;
use crate::project::attack::upstream::{Sent, Serving};

pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const MESSAGES: &str = "/v1/messages";
pub(super) const RESPONSES: &str = "/v1/responses";
pub(super) const GEMINI: &str = "/v1beta/models/gemini-2.5-pro:generateContent";

/// A chat with these members instead of the usual ones.
pub(super) fn chat(more: Value) -> Value {
    let base = json!({ "model": "gpt-5", "max_completion_tokens": 8_000,
        "messages": [{ "role": "user", "content": "Think hard." }] });
    with(base, more)
}

/// A request of Anthropic's with these members instead of the usual ones.
pub(super) fn messages(more: Value) -> Value {
    let base = json!({ "model": "claude-sonnet-4-5", "max_tokens": 1_000,
        "messages": [{ "role": "user", "content": "Think hard." }] });
    with(base, more)
}

/// A request of OpenAI's responses with these members instead of the usual ones.
pub(super) fn responses(more: Value) -> Value {
    let base = json!({ "model": "gpt-5", "max_output_tokens": 1_000, "store": false, "input": "Think hard." });
    with(base, more)
}

/// A request of Gemini's with these members instead of the usual ones.
pub(super) fn gemini(more: Value) -> Value {
    let base = json!({ "generationConfig": { "maxOutputTokens": 1_000 },
        "contents": [{ "role": "user", "parts": [{ "text": "Think hard." }] }] });
    with(base, more)
}

fn with(mut base: Value, more: Value) -> Value {
    if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
        base.extend(more);
    }
    base
}

/// Content of these parts, of one message of the user.
pub(super) fn of_user(parts: &[Value]) -> Value {
    json!([{ "role": "user", "content": parts }])
}

/// A complete answer that reports what it bills.
pub(super) fn honest(make: fn(u64, u64) -> Value, input: u64, output: u64) -> Serving {
    let work = Work { input, output, ..Work::default() };
    Serving { work, sent: Sent::Whole(reply::ok(&make(input, output))) }
}
