//! The common parts of the APIs: bodies, the text of content, changes of a request.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Value, json};

use crate::ambiguous_keys::TOOLS;
use crate::json::{
    Changes, Entry, FromJson, Key, Object, Raw, ReadEntry, fields, parse, parse_noting,
};
use crate::known_fields::unknown_fields;
use crate::provider_tools::{has_max_uses, is_of_client};
use crate::token_bound::TokenBound;
use crate::{Api, CallRequest, CountRequest, Edits, MessageMark, ReadError, ToolLimit, ToolsOff};

fields! {
    Part<'j> {
        text: Raw<'j> = "text" | "refusal",
    }
}

fields! {
    /// The kind of an object.
    Kind<'j> {
        kind: Raw<'j> = "type",
    }
}

fields! {
    /// A choice of tools: what kind of choice, and the tool if it is one.
    ToolChoice<'j> {
        kind: Raw<'j> = "type",
        name: Raw<'j> = "name",
        mode: Raw<'j> = "mode",
    }
}

fields! {
    /// An object that holds a format of the output.
    Formatted<'j> {
        format: Kind<'j> = "format",
    }
}

/// Reads a body that has to be an object.
pub(crate) fn read_object<'j, T: FromJson<'j>>(body: &'j [u8]) -> Result<T, ReadError> {
    let text = text_of_body(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(ReadError::NotAnObject);
    }
    Ok(parse(text)?)
}

/// Like [`read_object`], including the members of the object.
pub(crate) fn read_noting<'j, T: FromJson<'j>>(body: &'j [u8]) -> Result<Noted<'j, T>, ReadError> {
    let text = text_of_body(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(ReadError::NotAnObject);
    }
    let (value, members) = parse_noting(text)?;
    Ok(Noted { text, value, members })
}

/// The contents of a body.
pub(crate) struct Noted<'j, T> {
    pub(crate) text: &'j str,
    pub(crate) value: T,
    /// In order, with all duplicates.
    pub(crate) members: Vec<(Key<'j>, Raw<'j>)>,
}

/// A body as text.
pub(crate) fn text_of_body(body: &[u8]) -> Result<&str, ReadError> {
    if let Ok(text) = simdutf8::basic::from_utf8(body) {
        return Ok(text);
    }
    Ok(std::str::from_utf8(body)?)
}

/// The text of content: a string, or the texts of its parts, a line each.
pub(crate) fn text_of(content: Raw<'_>) -> Cow<'_, str> {
    if !content.is_list() {
        return content.text().unwrap_or_default();
    }
    let mut joined = String::new();
    for part in content.items() {
        let text = part.text().or_else(|| part.read::<Part<'_>>().text.text());
        if let Some(text) = text {
            if !joined.is_empty() {
                joined.push('\n');
            }
            joined.push_str(&text);
        }
    }
    Cow::Owned(joined)
}

/// Arguments: a string as its characters, anything else as JSON.
pub(crate) fn arguments_of(arguments: Raw<'_>) -> Cow<'_, str> {
    arguments.text().unwrap_or(if arguments.is_some() {
        Cow::Borrowed(arguments.json())
    } else {
        Cow::Borrowed("")
    })
}

/// The parts of a request outside its messages, which have this key: the elements of lists one by one, so that a tool
/// that is added or removed leaves the others known.
///
/// # Errors
/// Returns an error if two readers could read it in two ways.
pub(crate) fn fixed_marks(
    members: &[(Key<'_>, Raw<'_>)],
    messages: &str,
    bound: &mut TokenBound,
) -> Result<Vec<MessageMark>, ReadError> {
    fixed_marks_with::<()>(members, messages, None, bound)
}

/// Like [`fixed_marks`], for a request whose `tools` are known: all elements, if that is a list.
///
/// # Errors
/// Returns an error if two readers could read it in two ways.
pub(crate) fn fixed_marks_with<T>(
    members: &[(Key<'_>, Raw<'_>)],
    messages: &str,
    tools: Option<&[ReadEntry<'_, T>]>,
    bound: &mut TokenBound,
) -> Result<Vec<MessageMark>, ReadError> {
    let mut marks = Vec::with_capacity(members.len());
    for (key, value) in members.iter().filter(|(key, _)| key.as_str() != messages) {
        if let Some(tools) = tools.filter(|_| key.as_str() == TOOLS && value.is_list()) {
            for tool in tools {
                marks.push(bound.mark_fixed_entry(TOOLS, &tool.entry)?);
            }
        } else if value.is_list() {
            for item in value.items() {
                marks.push(bound.mark_fixed(key.as_str(), item)?);
            }
        } else {
            marks.push(bound.mark_fixed(key.as_str(), *value)?);
        }
    }
    Ok(marks)
}

/// A request with the facts known once all of it has been read: the members that no table has, and the kinds of
/// content.
pub(crate) fn complete(
    mut request: CallRequest,
    api: Api,
    members: &[(Key<'_>, Raw<'_>)],
    bound: TokenBound,
) -> CallRequest {
    // A summary, and each attempt, is as long as the cap allows.
    request.choices = request.choices.saturating_mul(request.more_reads.saturating_add(1));
    request.unknown_fields = unknown_fields(api, members);
    for kind in bound.into_unknown_kinds() {
        request.note_unbounded(kind);
    }
    request
}

/// The beginning of a change of a body.
pub(crate) fn changes_of(body: &[u8]) -> Result<(Changes<'_>, Object<'_>), ReadError> {
    Ok(Changes::of(body)?)
}

/// The request that counts the tokens of a call: below its path, without the fields that say nothing about the input.
pub(crate) fn count_below(
    path: &str,
    segment: &str,
    body: &[u8],
    without: &[&str],
) -> Option<CountRequest> {
    let end = path.find('?').unwrap_or(path.len());
    let (before, query) = path.split_at(end);
    let path = format!("{}/{segment}{query}", before.trim_end_matches('/'));
    let (mut changes, _) = changes_of(body).ok()?;
    changes.remove(changes.whole(), without);
    Some(CountRequest { path, body: changes.apply() })
}

fields! {
    Counted<'j> {
        input: Raw<'j> = "input_tokens" | "totalTokens",
    }
}

/// The number of input tokens that an upstream counted.
pub(crate) fn counted_tokens(body: &[u8]) -> Option<u64> {
    read_object::<Counted<'_>>(body).ok()?.input.count()
}

/// Lowers a number to `cap` wherever the object has it. Returns `false` if it does not: `null` counts as not set.
pub(crate) fn lower(changes: &mut Changes<'_>, object: &Object<'_>, key: &str, cap: u64) -> bool {
    let mut is_there = false;
    for place in object.all(key) {
        is_there = true;
        if changes.value(&place).count().is_none_or(|own| own > cap) {
            changes.replace(place, &cap.to_string());
        }
    }
    is_there
}

/// Limits the tools of a request that run at the provider, where each has its own limit, or removes them. `members` of the
/// request stand for such tools.
pub(crate) fn limit_provider_tools(
    changes: &mut Changes<'_>,
    root: &Object<'_>,
    api: Api,
    edits: &Edits<'_>,
    members: &[&str],
) {
    let Some(list) = root.get("tools") else { return };
    if edits.finish.is_some() && edits.tools_off == ToolsOff::Remove {
        // Every tool goes.
        return;
    }
    let kind = |tool: Raw<'_>| tool.read::<Kind<'_>>().kind.text().unwrap_or_default().into_owned();
    match edits.provider_tools {
        ToolLimit::AsSent => {}
        ToolLimit::Runs(runs) => {
            for tool in changes.value(&list).items() {
                let place = changes.place(tool).filter(|_| has_max_uses(api, &kind(tool)));
                let Some(tool) = place.and_then(|place| changes.object(place)) else { continue };
                if !lower(changes, &tool, "max_uses", runs) {
                    changes.add(&tool, "max_uses", &runs.to_string());
                }
            }
        }
        ToolLimit::Remove => {
            keep_items(changes, list, |tool| {
                let kind = kind(tool);
                kind.is_empty() || is_of_client(api, &kind)
            });
            changes.remove(changes.whole(), members);
        }
    }
}

/// Turns the tools of a wrap-up off. `offers` are the keys of tools, each with that of its choice, of which `none`
/// is the one of none. Without tools a choice of them is refused, and so is leave to call several at once.
pub(crate) fn turn_tools_off(
    changes: &mut Changes<'_>,
    root: &Object<'_>,
    edits: &Edits<'_>,
    offers: &[(&str, &str)],
    none: &str,
) {
    if edits.finish.is_none() {
        return;
    }
    let has_any =
        |key: &str| root.get(key).is_some_and(|place| !changes.value(&place).items().is_empty());
    let offered: Vec<_> = offers.iter().filter(|(tools, _)| has_any(tools)).collect();
    match edits.tools_off {
        _ if offered.is_empty() => {}
        ToolsOff::Forbid => offered.iter().for_each(|(_, choice)| changes.set(root, choice, none)),
        ToolsOff::Remove => {
            let keys = offers.iter().flat_map(|(tools, choice)| [*tools, *choice]);
            let keys: Vec<_> = keys.chain(["parallel_tool_calls"]).collect();
            changes.remove(changes.whole(), &keys);
        }
        ToolsOff::Ask => {}
    }
}

/// The notes to the model, as one text.
pub(crate) fn note_of(edits: &Edits<'_>) -> Option<String> {
    let notes: Vec<&str> = [edits.finish, edits.note].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("\n\n"))
}

/// Adds to the user's last message, or a message of the user: behind what it has, as results of tools must come
/// first. Not one of the system: many servers take that only as the first. Not a second one of the user: some
/// templates want the roles to alternate.
pub(crate) fn add_note(changes: &mut Changes<'_>, root: &Object<'_>, note: &str) {
    let Some(list) = root.get("messages") else { return };
    let last = last_of(changes, &list).filter(|it| Entry::of(*it).get("role").json() == "\"user\"");
    let message = last.and_then(|last| changes.object(changes.place(last)?));
    let part = json!({ "type": "text", "text": note });
    if message.is_some_and(|message| add_to_content(changes, &message, note, &part)) {
        return;
    }
    changes.push(&list, &json!({ "role": "user", "content": note }).to_string());
}

/// Adds a note to the content of a message: to its text, or as a further part. Returns `false` if it has no content.
pub(crate) fn add_to_content(
    changes: &mut Changes<'_>,
    message: &Object<'_>,
    note: &str,
    part: &Value,
) -> bool {
    let Some(content) = message.get("content") else { return false };
    changes.extend_text(&content, &format!("\n\n{note}"))
        || changes.push(&content, &part.to_string())
}

/// Leaves of the list at a place only the elements for which `stays` holds. They are parsed about in order.
pub(crate) fn keep_items(
    changes: &mut Changes<'_>,
    list: Range<usize>,
    mut stays: impl FnMut(Raw<'_>) -> bool,
) {
    let items = changes.value(&list).items();
    let kept: Vec<&str> = items.iter().filter(|it| stays(**it)).map(|it| it.json()).collect();
    if kept.len() < items.len() {
        changes.replace(list, &format!("[{}]", kept.join(",")));
    }
}

/// A response without all but the first `keep` calls in the list under a key.
pub(crate) fn keep_calls(
    body: &[u8],
    key: &str,
    keep: usize,
    is_call: impl Fn(Raw<'_>) -> bool,
) -> Result<Vec<u8>, ReadError> {
    let (mut changes, root) = changes_of(body)?;
    let mut at = 0usize;
    if let Some(list) = root.get(key) {
        keep_items(&mut changes, list, |item| {
            let is_call = is_call(item);
            at = at.saturating_add(usize::from(is_call));
            !is_call || at <= keep
        });
    }
    Ok(changes.apply())
}

/// The last element of a list in an object.
pub(crate) fn last_of<'j>(changes: &Changes<'j>, list: &Range<usize>) -> Option<Raw<'j>> {
    changes.value(list).items().pop()
}

#[cfg(test)]
mod tests;
