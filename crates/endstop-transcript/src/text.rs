//! The text of a message, in the forms that chat providers know.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// A text, the texts of a list of parts, or else the JSON as it is. Null and absent are none.
pub(super) fn text_of(raw: Option<&RawValue>) -> Option<String> {
    let raw = raw.map(RawValue::get).filter(|text| *text != "null")?;
    let text = serde_json::from_str::<Text<'_>>(raw).map(|text| text.0.into_owned());
    let parts = |_| {
        let parts: Vec<ContentPart<'_>> = serde_json::from_str(raw)?;
        let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
        Ok::<_, serde_json::Error>(texts.join("\n"))
    };
    Some(text.or_else(parts).unwrap_or_else(|_| raw.to_owned()))
}

/// A name that may be a text or a number; nothing else is one.
pub(super) fn name_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
