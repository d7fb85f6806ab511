//! Changes of a request.
//!
//! A separate file because each API has the same files.

use crate::json::{Changes, Object};
use crate::limits::LEAST_THINKING_TOKENS;
use crate::parts::{self, Kind};
use crate::parts::{add_note, changes_of, limit_provider_tools, lower, note_of, turn_tools_off};
use crate::{Api, CountRequest, Edits, ReadError};

/// Fields that say nothing about the input. `count_tokens` refuses them (Anthropic's API reference, "Count tokens").
const NOT_COUNTED: [&str; 9] = [
    "max_tokens",
    "metadata",
    "service_tier",
    "stop_sequences",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "user_profile_id",
];

/// The request that counts the tokens of a call.
pub(crate) fn to_count(path: &str, body: &[u8]) -> Option<CountRequest> {
    parts::count_below(path, "count_tokens", body, &NOT_COUNTED)
}

pub(crate) fn edit(body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError> {
    if edits.is_empty() {
        return Ok(body.to_vec());
    }
    let (mut changes, root) = changes_of(body)?;
    if let Some(cap) = edits.output_cap {
        if !lower(&mut changes, &root, "max_tokens", cap) {
            changes.add(&root, "max_tokens", &cap.to_string());
        }
        lower_thinking(&mut changes, &root, cap);
    }
    let members = ["mcp_servers"];
    limit_provider_tools(&mut changes, &root, Api::Messages, edits, &members);
    turn_tools_off(&mut changes, &root, edits, &[("tools", "tool_choice")], r#"{"type":"none"}"#);
    if let Some(note) = note_of(edits) {
        add_note(&mut changes, &root, &note);
    }
    Ok(changes.apply())
}

/// A budget of thinking that is not below the cap is refused.
fn lower_thinking(changes: &mut Changes<'_>, root: &Object<'_>, cap: u64) {
    for place in root.all("thinking") {
        let Some(thinking) = changes.object(place.clone()) else { continue };
        let budget = thinking.get("budget_tokens").and_then(|at| changes.value(&at).count());
        if budget.is_none_or(|budget| budget < cap) {
            continue;
        }
        if cap > LEAST_THINKING_TOKENS {
            changes.set(&thinking, "budget_tokens", &cap.saturating_sub(1).to_string());
        } else {
            changes.replace(place, r#"{"type":"disabled"}"#);
        }
    }
}

/// A response with the first calls of the client's tools.
pub(crate) fn keep_calls(body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError> {
    parts::keep_calls(body, "content", keep, |block| {
        block.read::<Kind<'_>>().kind.json() == "\"tool_use\""
    })
}
