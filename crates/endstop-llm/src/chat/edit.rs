//! Changes of a request.

use crate::json::{Changes, Object, Raw};
use crate::parts::{
    add_note, changes_of, keep_items, lower, note_of, text_of_body, turn_tools_off,
};
use crate::{Edits, ReadError};

/// The two fields that cap a response.
const CAPS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The members that changes are about, as a rule.
pub(crate) const KEYS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
];

/// Tools, and the choice of them, today and in the past.
const OFFERS: &[(&str, &str)] = &[("tools", "tool_choice"), ("functions", "function_call")];

pub(crate) fn edit(body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError> {
    if edits.is_empty() {
        return Ok(body.to_vec());
    }
    let (mut changes, found);
    let root = match edits.request.and_then(|request| request.root.as_ref()) {
        Some(root) => {
            changes = Changes::of_text(text_of_body(body)?);
            root
        }
        None => {
            (changes, found) = changes_of(body)?;
            &found
        }
    };
    if let Some(cap) = edits.output_cap {
        set_cap(&mut changes, root, cap, edits.other_cap_field);
    }
    if edits.force_usage {
        changes.set_inner(root, "stream_options", "include_usage", "true");
    }
    turn_tools_off(&mut changes, root, edits, OFFERS, "\"none\"");
    if let Some(note) = note_of(edits) {
        add_note(&mut changes, root, &note);
    }
    Ok(changes.apply())
}

fn set_cap(changes: &mut Changes<'_>, root: &Object<'_>, cap: u64, is_other: bool) {
    let is_set = |key: &&&str| root.all(key).any(|place| changes.value(&place).is_some());
    let set: Vec<&str> = CAPS.iter().filter(is_set).copied().collect();
    for key in &set {
        lower(changes, root, key, cap);
    }
    if set.is_empty() {
        let model = root.get("model").map(|place| changes.value(&place)).unwrap_or_default();
        let usual = cap_field(&model.text().unwrap_or_default());
        let field = CAPS.iter().find(|field| is_other != (**field == usual)).unwrap_or(&usual);
        changes.set(root, field, &cap.to_string());
    }
}

/// The field that caps a response if the request has none.
///
/// Every server that copies this API reads `max_tokens`, and some pass over `max_completion_tokens`, so that
/// a response would have no cap at all. But OpenAI's own newer models refuse the old field, and both at once.
fn cap_field(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let is_numbered = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_openai = is_numbered("gpt-") || is_numbered("o") || name.starts_with("chatgpt-");
    if is_openai { "max_completion_tokens" } else { "max_tokens" }
}

/// A response with the first calls of its first choice.
pub(crate) fn keep_calls(body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError> {
    let mut at = 0usize;
    let is_kept = |_: Raw<'_>| {
        at = at.saturating_add(1);
        at <= keep
    };
    without_calls(body, "message", is_kept)
}

/// A response, or a chunk of one, with those calls of its first choice for which `stays` holds. `of` is the key of
/// what the choice says.
pub(crate) fn without_calls(
    body: &[u8],
    of: &str,
    mut stays: impl FnMut(Raw<'_>) -> bool,
) -> Result<Vec<u8>, ReadError> {
    let (mut changes, root) = changes_of(body)?;
    let choices = root.get("choices").map(|list| changes.value(&list).items()).unwrap_or_default();
    for choice in choices {
        let choice = changes.place(choice).and_then(|place| changes.object(place));
        let Some(choice) = choice else { continue };
        let index = choice.get("index").and_then(|place| changes.value(&place).count());
        let message = choice.get(of).and_then(|place| changes.object(place));
        if let (0, Some(message)) = (index.unwrap_or(0), message) {
            if let Some(list) = message.get("tool_calls") {
                keep_items(&mut changes, list, &mut stays);
            }
            if of == "delta" {
                // It continues, or has its end from elsewhere.
                changes.set(&choice, "finish_reason", "null");
                if let Some(call) = message.get("function_call")
                    && !stays(changes.value(&call))
                {
                    changes.replace(call, "null");
                }
            }
        }
    }
    Ok(changes.apply())
}
