//! Texts and names in records, in the forms that tools and providers write them.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A text of a record, borrowed from its file if it has no escapes. A `Cow` within an `Option` is never borrowed.
///
/// Records that borrow say so for all of their fields at once, by `bound(deserialize = "'de: 'a")`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        text.into_owned()
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ContentPart<'a> {
    text: Option<Text<'a>>,
}

/// A value that is there and not null.
pub(crate) fn present(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|text| *text != "null")
}

/// A text; `None` if the value is anything else.
pub(crate) fn word(raw: Option<&RawValue>) -> Option<Text<'_>> {
    serde_json::from_str(raw?.get()).ok()
}

/// A text, the texts of a list of parts, or else the JSON as it is. Null and absent are none.
pub(crate) fn text_of(raw: Option<&RawValue>) -> Option<String> {
    let raw = present(raw)?;
    let text = serde_json::from_str::<Text<'_>>(raw).map(Text::into_owned);
    let parts = |_| {
        let parts: Vec<ContentPart<'_>> = serde_json::from_str(raw)?;
        let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
        Ok::<_, serde_json::Error>(texts.join("\n"))
    };
    Some(text.or_else(parts).unwrap_or_else(|_| raw.to_owned()))
}

/// A text, the texts of a list of parts that are all text, or else the JSON as it is, so that only equal results
/// compare equal. Null and absent are empty.
pub(crate) fn whole_text(raw: Option<&RawValue>) -> String {
    let parts = present(raw).map(serde_json::from_str::<Vec<ContentPart<'_>>>);
    match parts {
        Some(Ok(parts)) if parts.iter().any(|part| part.text.is_none()) => {
            raw.map(|raw| raw.get().to_owned()).unwrap_or_default()
        }
        _ => text_of(raw).unwrap_or_default(),
    }
}

/// A text, or the JSON as it is. Null and absent are empty.
pub(crate) fn text_or_json(raw: Option<&RawValue>) -> String {
    let json = || present(raw).unwrap_or_default().to_owned();
    word(raw).map_or_else(json, Text::into_owned)
}

/// JSON in one line with sorted keys: documents are indented, and equal arguments must compare equal.
pub(crate) fn compact(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw.map(RawValue::get) else { return String::new() };
    serde_json::from_str::<Value>(raw).map_or_else(|_| raw.to_owned(), |value| value.to_string())
}

/// A name that may be a text or a number; nothing else is one.
pub(crate) fn name_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A value that is not null; a number beyond all bounds stays as its text, which does not count.
pub(crate) fn value_of(raw: Option<&RawValue>) -> Option<Value> {
    let raw = raw?.get();
    let value = serde_json::from_str(raw).unwrap_or_else(|_| Value::String(raw.to_owned()));
    (!value.is_null()).then_some(value)
}

/// The reward that counts as success: 1, except for the rounding of a benchmark's own arithmetic.
pub(crate) fn is_full_reward(reward: f64) -> bool {
    const LEAST: f64 = 1.0 - 1e-6;
    reward >= LEAST
}

#[cfg(test)]
mod tests;
