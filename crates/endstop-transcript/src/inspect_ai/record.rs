//! The parts of a log that are read: samples, their events, their messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::{compact, present, word};

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
    pub(super) transcript: Option<OldTranscript<'a>>,
    #[serde(borrow)]
    pub(super) scores: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) score: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) attachments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OldTranscript<'a> {
    #[serde(borrow)]
    pub(super) events: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

/// An event of any kind; fields mean different things in different kinds, so most stay as they are.
#[derive(Debug, Deserialize)]
pub(super) struct InspectEvent<'a> {
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

/// The output of a model.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ModelOutput<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<InspectChoice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InspectChoice<'a> {
    #[serde(borrow)]
    pub(super) message: Option<InspectMessage<'a>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
}

/// A message of the conversation.
#[derive(Debug, Default, Deserialize)]
pub(super) struct InspectMessage<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) source: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<InspectToolCall<'a>>>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InspectToolCall<'a> {
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

/// A text or a number, as text.
pub(super) fn name(raw: Option<&RawValue>) -> String {
    word(raw).map(Cow::into_owned).or_else(|| present(raw).map(str::to_owned)).unwrap_or_default()
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
