//! What the interfaces have in common: bodies, the text of content, changes of a request.

use std::borrow::Cow;
use std::sync::LazyLock;

use endstop::price::CallContext;
use memchr::memmem::Finder;
use serde_json::Value;

use super::reply::word;
use super::{Edits, Unreadable};
use crate::json::{Changes, FromJson, Key, Object, Raw, fields, parse, parse_noting};

fields! {
    Part<'j> {
        text: Raw<'j> = "text" | "refusal",
    }
}

/// Reads a body that has to be an object.
pub(super) fn read_object<'j, T: FromJson<'j>>(body: &'j [u8]) -> Result<T, Unreadable> {
    let text = text_of_body(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Unreadable("not a JSON object".to_owned()));
    }
    parse(text).map_err(|error| Unreadable(error.to_string()))
}

/// As [`read_object`], with the members of the object.
pub(super) fn read_noting<'j, T: FromJson<'j>>(body: &'j [u8]) -> Result<Noted<'j, T>, Unreadable> {
    let text = text_of_body(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Unreadable("not a JSON object".to_owned()));
    }
    let (value, members) = parse_noting(text).map_err(|error| Unreadable(error.to_string()))?;
    Ok(Noted { text, value, members })
}

/// What a body says.
pub(super) struct Noted<'j, T> {
    pub(super) text: &'j str,
    pub(super) value: T,
    /// In order, with all duplicates.
    pub(super) members: Vec<(Key<'j>, Raw<'j>)>,
}

/// A body as text.
pub(super) fn text_of_body(body: &[u8]) -> Result<&str, Unreadable> {
    if let Ok(text) = simdutf8::basic::from_utf8(body) {
        return Ok(text);
    }
    std::str::from_utf8(body).map_err(|error| Unreadable(error.to_string()))
}

/// The text of content: a string, or the texts of its parts, a line each.
pub(super) fn text_of(content: Raw<'_>) -> Cow<'_, str> {
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
pub(super) fn arguments_of(arguments: Raw<'_>) -> Cow<'_, str> {
    arguments.text().unwrap_or(if arguments.is_some() {
        Cow::Borrowed(arguments.json())
    } else {
        Cow::Borrowed("")
    })
}

/// Bytes of a request before its messages and after them. What stands between them is no text, and would make
/// a request that adds messages look like one with other instructions.
pub(super) fn beside<'j>(
    body: &[u8],
    mut messages: impl DoubleEndedIterator<Item = Raw<'j>>,
) -> u64 {
    let first = messages.next();
    let last = messages.next_back().or(first);
    let begin = first.map_or(0, |first| first.json().as_ptr().addr());
    let end = last.map_or(0, |last| {
        let last = last.json();
        last.as_ptr().addr().saturating_add(last.len())
    });
    u64::try_from(body.len().saturating_sub(end.saturating_sub(begin))).unwrap_or(u64::MAX)
}

/// An hour, also where a letter of it is an escape.
static FIND_1H: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| [r#""1h""#, r"\u0031", r"\u0068"].map(Finder::new));

/// Whether a request may say that something is to be cached for an hour.
pub(super) fn may_write_1h(body: &[u8]) -> bool {
    FIND_1H.iter().any(|it| it.find(body).is_some())
}

/// The tier and speed that a request asks for.
pub(super) fn context(tier: Raw<'_>, speed: Raw<'_>) -> CallContext {
    let [service_tier, speed] = [tier, speed].map(word);
    CallContext { service_tier, speed, ..CallContext::default() }
}

/// Whether nothing is to be changed.
pub(super) fn is_nothing(edits: &Edits<'_>) -> bool {
    edits.output_cap.is_none()
        && !edits.force_usage
        && edits.finish.is_none()
        && edits.note.is_none()
}

/// The beginning of a change of a body.
pub(super) fn changes_of(body: &[u8]) -> Result<(Changes<'_>, Object<'_>), Unreadable> {
    Changes::of(body).map_err(Unreadable)
}

/// Lowers a number to `cap` wherever the object has it. `false` where it has none: `null` is one that is not set.
pub(super) fn lower(changes: &mut Changes<'_>, object: &Object<'_>, key: &str, cap: u64) -> bool {
    let mut is_there = false;
    for place in object.all(key) {
        is_there = true;
        if changes.value(&place).count().is_none_or(|own| own > cap) {
            changes.replace(place, &cap.to_string());
        }
    }
    is_there
}

/// The notes to the model, as one text.
pub(super) fn note_of(edits: &Edits<'_>) -> Option<String> {
    let notes: Vec<&str> = [edits.finish, edits.note].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("\n\n"))
}

/// Adds a note to the content of a message: to its text, or as one more part. `false` where it has no content.
pub(super) fn add_to_content(
    changes: &mut Changes<'_>,
    message: &Object<'_>,
    note: &str,
    part: &Value,
) -> bool {
    let Some(content) = message.get("content") else { return false };
    changes.extend_text(&content, &format!("\n\n{note}"))
        || changes.push(&content, &part.to_string())
}

/// The last element of a list in an object.
pub(super) fn last_of<'j>(changes: &Changes<'j>, list: &std::ops::Range<usize>) -> Option<Raw<'j>> {
    changes.value(list).items().pop()
}

#[cfg(test)]
mod tests {
    use super::super::Dialect as _;
    use super::super::messages::Messages;

    #[test]
    fn more_messages_do_not_change_what_stands_beside_them() {
        let fixed = |messages: &str| {
            let body =
                format!(r#"{{"model":"m","max_tokens":9,"system":"s","messages":[{messages}]}}"#);
            Messages.read("/v1/messages", body.as_bytes()).unwrap().fixed_bound
        };
        let (user, model) =
            (r#"{"role":"user","content":"a"}"#, r#"{"role":"assistant","content":"b"}"#);
        assert_eq!(fixed(user), fixed(&format!("{user} ,\n {model}, {user}")));
    }
}
