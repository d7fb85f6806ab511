//! Changes of a request.

use serde_json::json;

use super::super::parts::{
    add_to_content, changes_of, is_nothing, keep_items, last_of, lower, note_of, turn_tools_off,
};
use super::super::{Edits, Unreadable};
use super::{Block, Message};
use crate::json::{Changes, Object};

/// The least budget of thinking that the interface takes.
const LEAST_THINKING: u64 = 1_024;

pub(super) fn edit(body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, Unreadable> {
    if is_nothing(edits) {
        return Ok(body.to_vec());
    }
    let (mut changes, root) = changes_of(body)?;
    if let Some(cap) = edits.output_cap {
        if !lower(&mut changes, &root, "max_tokens", cap) {
            changes.add(&root, "max_tokens", &cap.to_string());
        }
        lower_thinking(&mut changes, &root, cap);
    }
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
        if cap > LEAST_THINKING {
            changes.set(&thinking, "budget_tokens", &cap.saturating_sub(1).to_string());
        } else {
            changes.replace(place, r#"{"type":"disabled"}"#);
        }
    }
}

/// Adds behind what the user's last message has: behind the results of tools, where it has them, which must come
/// first.
fn add_note(changes: &mut Changes<'_>, root: &Object<'_>, note: &str) {
    let Some(list) = root.get("messages") else { return };
    let last = last_of(changes, &list);
    let is_user = last.is_some_and(|it| it.read::<Message<'_>>().role.json() == "\"user\"");
    let message = last.filter(|_| is_user).and_then(|last| changes.object(changes.place(last)?));
    let part = json!({ "type": "text", "text": note });
    if message.is_some_and(|message| add_to_content(changes, &message, note, &part)) {
        return;
    }
    changes.push(&list, &json!({ "role": "user", "content": note }).to_string());
}

/// An answer with its first calls.
pub(super) fn keep_calls(body: &[u8], keep: usize) -> Result<Vec<u8>, Unreadable> {
    let (mut changes, root) = changes_of(body)?;
    let mut at = 0usize;
    if let Some(content) = root.get("content") {
        keep_items(&mut changes, content, |block| {
            let is_call = block.read::<Block<'_>>().kind.json() == "\"tool_use\"";
            at = at.saturating_add(usize::from(is_call));
            !is_call || at <= keep
        });
    }
    Ok(changes.apply())
}
