//! Changes of a request.

use serde_json::json;

use super::request::{Content, Part, Tool, listed};
use crate::json::{Changes, Object, Raw};
use crate::parts::{changes_of, keep_items, last_of, lower, note_of, text_of_body};
use crate::{CountRequest, Edits, ReadError, ToolsOff};

const CONFIG: [&str; 2] = ["generationConfig", "generation_config"];
const CAP: [&str; 2] = ["maxOutputTokens", "max_output_tokens"];
const TOOL_CONFIG: [&str; 2] = ["toolConfig", "tool_config"];
const CALLING: [&str; 2] = ["functionCallingConfig", "function_calling_config"];

/// The request that counts the tokens of a call: `countTokens` takes it as a whole, with the model inside.
pub(crate) fn to_count(path: &str, body: &[u8]) -> Option<CountRequest> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let method = path.rfind(':').or_else(|| path.to_ascii_lowercase().rfind("%3a"))?;
    let before = path.get(..method)?;
    let name = before.get(before.rfind("models/")?..)?;
    let kept: Vec<&str> = query.split('&').filter(|pair| *pair != "alt=sse").collect();
    let query = kept.join("&");
    let separator = if query.is_empty() { "" } else { "?" };
    let (mut changes, root) = changes_of(body).ok()?;
    // The path decides which model responds, so it also decides which one counts.
    changes.set(&root, "model", &json!(name).to_string());
    let whole = [br#"{"generateContentRequest":"#.as_slice(), &changes.apply(), b"}"].concat();
    Some(CountRequest { path: format!("{before}:countTokens{separator}{query}"), body: whole })
}

pub(crate) fn edit(body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, ReadError> {
    if edits.is_empty() {
        return Ok(body.to_vec());
    }
    let (mut changes, root) = changes_of(body)?;
    if let Some(cap) = edits.output_cap {
        set_cap(&mut changes, &root, cap);
    }
    if edits.finish.is_some() && has_functions(&changes, &root) {
        match edits.tools_off {
            ToolsOff::Forbid => forbid_calls(&mut changes, &root),
            ToolsOff::Remove => {
                changes.remove(changes.whole(), &["tools", "toolConfig", "tool_config"]);
            }
            ToolsOff::Ask => {}
        }
    }
    if let Some(note) = note_of(edits) {
        add_note(&mut changes, &root, &note);
    }
    Ok(changes.apply())
}

/// The objects under any of two keys; without one, `whole` is added.
fn objects<'j>(
    changes: &mut Changes<'j>,
    root: &Object<'_>,
    keys: [&str; 2],
    whole: &str,
) -> Vec<Object<'j>> {
    let places: Vec<_> = keys.iter().flat_map(|key| root.all(key)).collect();
    if let (true, [key, _]) = (places.is_empty(), keys) {
        changes.add(root, key, whole);
    }
    let mut found = Vec::new();
    for place in places {
        match changes.object(place.clone()) {
            Some(object) => found.push(object),
            None => changes.replace(place, whole),
        }
    }
    found
}

fn set_cap(changes: &mut Changes<'_>, root: &Object<'_>, cap: u64) {
    let whole = json!({ "maxOutputTokens": cap }).to_string();
    for config in objects(changes, root, CONFIG, &whole) {
        let [camel, snake] = CAP.map(|key| lower(changes, &config, key, cap));
        if let (false, false, [key, _]) = (camel, snake, CAP) {
            changes.add(&config, key, &cap.to_string());
        }
    }
}

/// A mode of calls is refused if no function is declared.
fn has_functions(changes: &Changes<'_>, root: &Object<'_>) -> bool {
    let tools = root.get("tools").map(|place| listed(changes.value(&place))).unwrap_or_default();
    tools.iter().any(|tool| !listed(tool.read::<Tool<'_>>().functions).is_empty())
}

fn forbid_calls(changes: &mut Changes<'_>, root: &Object<'_>) {
    let none = r#"{"mode":"NONE"}"#;
    let whole = format!(r#"{{"functionCallingConfig":{none}}}"#);
    for config in objects(changes, root, TOOL_CONFIG, &whole) {
        let places: Vec<_> = CALLING.iter().flat_map(|key| config.all(key)).collect();
        if let (true, [key, _]) = (places.is_empty(), CALLING) {
            changes.add(&config, key, none);
        }
        places.into_iter().for_each(|place| changes.replace(place, none));
    }
}

/// Adds a part to the user's last content. Not to one with results of calls: those must be as many as the calls, and
/// stay alone.
fn add_note(changes: &mut Changes<'_>, root: &Object<'_>, note: &str) {
    let Some(list) = root.get("contents") else { return };
    let part = json!({ "text": note }).to_string();
    let last = last_of(changes, &list);
    let content: Content<'_> = last.map(|last| last.read()).unwrap_or_default();
    let parts = content.parts.items();
    let has_responses = parts.iter().any(|it| it.read::<Part<'_>>().response.name.is_some());
    let is_open = content.role.json() != "\"model\"" && !has_responses;
    let place = changes.place(content.parts).filter(|_| is_open && content.parts.is_list());
    if place.is_some_and(|place| changes.push(&place, &part)) {
        return;
    }
    let whole = format!(r#"{{"role":"user","parts":[{part}]}}"#);
    if !changes.push(&list, &whole) && changes.value(&list).is_object() {
        let one = changes.value(&list).json().to_owned();
        changes.replace(list, &format!("[{one},{whole}]"));
    }
}

/// A response, or the list of its pieces, with its first calls.
pub(crate) fn keep_calls(body: &[u8], keep: usize) -> Result<Vec<u8>, ReadError> {
    let mut left = keep;
    if !body.trim_ascii_start().starts_with(b"[") {
        return without_calls(body, &mut left, false);
    }
    let pieces = Raw::of(text_of_body(body)?.trim_ascii()).items();
    let pieces =
        pieces.iter().map(|piece| without_calls(piece.json().as_bytes(), &mut left, false));
    let pieces: Vec<Vec<u8>> = pieces.collect::<Result<_, _>>()?;
    Ok([&b"["[..], &pieces.join(&b","[..]), b"]"].concat())
}

/// A response, or a piece of one, with the first `left` of its first candidate's calls, and `left` what remains of
/// that; where `goes_on`, without its end.
pub(crate) fn without_calls(
    body: &[u8],
    left: &mut usize,
    goes_on: bool,
) -> Result<Vec<u8>, ReadError> {
    let (mut changes, root) = changes_of(body)?;
    let all = root.get("candidates").map(|list| changes.value(&list).items()).unwrap_or_default();
    let mut is_refused = false;
    for whole in all {
        let candidate = changes.place(whole).and_then(|place| changes.object(place));
        let Some(candidate) = candidate else { continue };
        if candidate.get("index").and_then(|place| changes.value(&place).count()).unwrap_or(0) > 0 {
            continue;
        }
        if goes_on && let Some(place) = changes.place(whole) {
            changes.remove(place, &["finishReason", "finish_reason"]);
        }
        let content = candidate.get("content").and_then(|place| changes.object(place));
        let Some(parts) = content.and_then(|content| content.get("parts")) else { continue };
        keep_items(&mut changes, parts, |part| {
            let call = part.read::<Part<'_>>().call;
            if call.name.is_some() {
                is_refused = *left == 0;
                *left = left.saturating_sub(1);
            }
            // The continuation of a call is treated like its beginning.
            !is_refused || !(call.name.is_some() || call.partial.is_some())
        });
    }
    Ok(changes.apply())
}
