//! Changes of a request.

use serde_json::json;

use super::super::parts::{
    add_to_content, changes_of, is_nothing, last_of, lower, note_of, text_of_body,
};
use super::super::{Edits, Unreadable};
use crate::json::{Changes, Entry, Object, Raw};

/// The two fields that cap an answer.
const CAPS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The members that changes are about.
pub(super) const KEYS: &[&str] = &[
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

pub(super) fn edit(body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, Unreadable> {
    if is_nothing(edits) {
        return Ok(body.to_vec());
    }
    let (mut changes, found);
    let root = match edits.root {
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
        set_cap(&mut changes, root, cap);
    }
    if edits.force_usage {
        changes.set_inner(root, "stream_options", "include_usage", "true");
    }
    if edits.finish.is_some() {
        for (offers, choice) in [("tools", "tool_choice"), ("functions", "function_call")] {
            // Without tools a choice of them is refused.
            let has_any =
                root.get(offers).is_some_and(|place| !changes.value(&place).items().is_empty());
            if has_any {
                changes.set(root, choice, "\"none\"");
            }
        }
    }
    if let Some(note) = note_of(edits) {
        add_note(&mut changes, root, &note);
    }
    Ok(changes.apply())
}

fn set_cap(changes: &mut Changes<'_>, root: &Object<'_>, cap: u64) {
    let is_set = |key: &&&str| root.all(key).any(|place| changes.value(&place).is_some());
    let set: Vec<&str> = CAPS.iter().filter(is_set).copied().collect();
    for key in &set {
        lower(changes, root, key, cap);
    }
    if set.is_empty() {
        let model = root.get("model").map(|place| changes.value(&place)).unwrap_or_default();
        changes.set(root, cap_field(&model.text().unwrap_or_default()), &cap.to_string());
    }
}

/// The field that caps an answer where the request has none.
///
/// Every server that copies this interface reads `max_tokens`, and some pass over `max_completion_tokens`, so that
/// an answer would have no cap at all. But OpenAI's own newer models refuse the old field, and both at once.
fn cap_field(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_numbered = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_openai = is_numbered("gpt-") || is_numbered("o") || name.starts_with("chatgpt-");
    if is_openai { "max_completion_tokens" } else { "max_tokens" }
}

/// Adds to the user's last message, or a message of the user. Not one of the system: many servers take that only
/// as the first. Not a second one of the user: some templates want the roles to alternate.
fn add_note(changes: &mut Changes<'_>, root: &Object<'_>, note: &str) {
    let Some(list) = root.get("messages") else { return };
    let last: Option<Raw<'_>> = last_of(changes, &list);
    let is_user = last.is_some_and(|it| Entry::of(it).get("role").json() == "\"user\"");
    let message = last.filter(|_| is_user).and_then(|last| changes.object(changes.place(last)?));
    let part = json!({ "type": "text", "text": note });
    if message.is_some_and(|message| add_to_content(changes, &message, note, &part)) {
        return;
    }
    changes.push(&list, &json!({ "role": "user", "content": note }).to_string());
}
