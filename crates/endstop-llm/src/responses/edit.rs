//! Changes of a request.
//!
//! A separate file because each API has the same files.

use serde_json::json;

use super::reply::Output;
use super::request::{Item, ItemSource};
use crate::json::{Changes, Object};
use crate::parts;
use crate::parts::{
    add_to_content, changes_of, last_of, limit_provider_tools, lower, note_of, turn_tools_off,
};
use crate::{Api, CountRequest, Edits, ReadError, ToolLimit};

/// Fields that say nothing about the input, and that `responses/input_tokens` does not have (OpenAI's API reference,
/// "Get input token counts").
const NOT_COUNTED: [&str; 16] = [
    "background",
    "include",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
];

/// The request that counts the tokens of a call.
pub(crate) fn to_count(path: &str, body: &[u8]) -> Option<CountRequest> {
    parts::count_below(path, "input_tokens", body, &NOT_COUNTED)
}

pub(crate) fn edit(body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError> {
    if edits.is_empty() {
        return Ok(body.to_vec());
    }
    let (mut changes, root) = changes_of(body)?;
    if let Some(cap) = edits.output_cap
        && !lower(&mut changes, &root, "max_output_tokens", cap)
    {
        changes.add(&root, "max_output_tokens", &cap.to_string());
    }
    if let ToolLimit::Runs(runs) = edits.provider_tools
        && !lower(&mut changes, &root, "max_tool_calls", runs)
    {
        changes.add(&root, "max_tool_calls", &runs.to_string());
    }
    limit_provider_tools(&mut changes, &root, Api::Responses, edits, &[]);
    turn_tools_off(&mut changes, &root, edits, &[("tools", "tool_choice")], "\"none\"");
    if let Some(note) = note_of(edits) {
        add_note(&mut changes, &root, &note);
    }
    Ok(changes.apply())
}

/// Adds to the user's last words, or an item of the user.
fn add_note(changes: &mut Changes<'_>, root: &Object<'_>, note: &str) {
    let Some(input) = root.get("input") else {
        changes.add(root, "input", &json!(note).to_string());
        return;
    };
    if changes.extend_text(&input, &format!("\n\n{note}")) {
        return;
    }
    let last = last_of(changes, &input);
    let is_user = last.is_some_and(|it| it.read::<Item<'_>>().from() == ItemSource::User);
    let message = last.filter(|_| is_user).and_then(|last| changes.object(changes.place(last)?));
    let part = json!({ "type": "input_text", "text": note });
    if message.is_some_and(|message| add_to_content(changes, &message, note, &part)) {
        return;
    }
    let item = json!({ "type": "message", "role": "user", "content": [part] });
    changes.push(&input, &item.to_string());
}

/// A response with the first calls of the client's tools.
pub(crate) fn keep_calls(body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError> {
    parts::keep_calls(body, "output", keep, |item| item.read::<Output<'_>>().is_call())
}
