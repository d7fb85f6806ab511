//! What is read of a log: samples, their events, their messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// How a text begins that is kept among the attachments.
const ATTACHMENT: &str = "attachment://";

/// One run of a task: a sample in one epoch.
#[derive(Debug, Deserialize)]
pub(super) struct Sample<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) epoch: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) events: Option<Vec<&'a RawValue>>,
    /// Where the events were up to version 0.3.42.
    #[serde(borrow)]
    pub(super) transcript: Option<Transcript<'a>>,
    #[serde(borrow)]
    pub(super) scores: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) score: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) attachments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Transcript<'a> {
    #[serde(borrow)]
    pub(super) events: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

/// An event of any kind; fields mean different things in different kinds, so most stay as they are.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub(super) event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) completed: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) pending: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) span_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) parent_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) retries: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) failed: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) events: Option<&'a RawValue>,
}

/// What a model answered.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Output<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
}

/// A message of the conversation.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) source: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) function: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value that is there and not null.
pub(super) fn present(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get).filter(|text| *text != "null")
}

/// A text; `None` where the value is anything else.
pub(super) fn word(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(present(raw)?).ok().map(|text| text.0)
}

/// A text or a number, as text.
pub(super) fn name(raw: Option<&RawValue>) -> String {
    word(raw).map(Cow::into_owned).or_else(|| present(raw).map(str::to_owned)).unwrap_or_default()
}

/// JSON in one line, with sorted keys: logs are indented, and equal arguments must compare equal.
pub(super) fn compact(raw: Option<&RawValue>) -> String {
    let Some(raw) = present(raw) else { return String::new() };
    serde_json::from_str::<Value>(raw).map_or_else(|_| raw.to_owned(), |value| value.to_string())
}

/// Texts that are kept apart from the messages that hold them.
#[derive(Debug, Default)]
pub(super) struct Attachments<'a>(BTreeMap<Cow<'a, str>, Cow<'a, str>>);

impl<'a> Attachments<'a> {
    pub(super) fn of(sample: &Sample<'a>) -> Self {
        let old = sample.transcript.as_ref().and_then(|transcript| transcript.content);
        let texts = |raw: Option<&'a RawValue>| -> BTreeMap<Cow<'a, str>, Text<'a>> {
            raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        };
        let all = texts(old).into_iter().chain(texts(sample.attachments));
        Self(all.map(|(key, text)| (key, text.0)).collect())
    }

    /// The words of a content: a text, the texts of its parts, or else the JSON.
    pub(super) fn words(&self, content: Option<&RawValue>) -> String {
        let Some(raw) = present(content) else { return String::new() };
        if let Some(text) = word(content) {
            return self.resolve(text);
        }
        match serde_json::from_str::<Vec<Part<'_>>>(raw) {
            Ok(parts) => {
                let texts = parts.into_iter().filter_map(|part| part.text);
                let texts: Vec<String> = texts.map(|text| self.resolve(text)).collect();
                texts.join("\n")
            }
            Err(_) => compact(content),
        }
    }

    fn resolve(&self, text: Cow<'_, str>) -> String {
        let kept = text.strip_prefix(ATTACHMENT).and_then(|key| self.0.get(key));
        kept.map_or_else(|| text.into_owned(), |kept| kept.clone().into_owned())
    }
}
