//! The parts of a log that are read: samples, their events, their messages.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::{Text, compact, present, word};

/// How a text begins that is kept among the attachments.
const ATTACHMENT: &str = "attachment://";

/// One run of a task: a sample in one epoch.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Sample<'a> {
    pub(super) id: Option<&'a RawValue>,
    pub(super) epoch: Option<&'a RawValue>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) messages: Option<Vec<&'a RawValue>>,
    pub(super) events: Option<Vec<&'a RawValue>>,
    /// Where the events were up to version 0.3.42.
    pub(super) transcript: Option<OldTranscript<'a>>,
    pub(super) scores: Option<&'a RawValue>,
    pub(super) score: Option<&'a RawValue>,
    pub(super) attachments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OldTranscript<'a> {
    pub(super) events: Option<Vec<&'a RawValue>>,
    pub(super) content: Option<&'a RawValue>,
}

/// An event of any kind; fields mean different things in different kinds, so most stay as they are.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct InspectEvent<'a> {
    pub(super) event: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
    pub(super) completed: Option<&'a RawValue>,
    pub(super) pending: Option<&'a RawValue>,
    pub(super) span_id: Option<Text<'a>>,
    pub(super) parent_id: Option<Text<'a>>,
    pub(super) id: Option<&'a RawValue>,
    #[serde(rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    pub(super) action: Option<&'a RawValue>,
    pub(super) model: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) retries: Option<&'a RawValue>,
    pub(super) cache: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) function: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) failed: Option<&'a RawValue>,
    pub(super) events: Option<&'a RawValue>,
}

/// The output of a model.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ModelOutput<'a> {
    pub(super) model: Option<Text<'a>>,
    pub(super) choices: Option<Vec<InspectChoice<'a>>>,
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct InspectChoice<'a> {
    pub(super) message: Option<InspectMessage<'a>>,
    pub(super) stop_reason: Option<Text<'a>>,
}

/// A message of the conversation.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct InspectMessage<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) role: Option<Text<'a>>,
    pub(super) source: Option<Text<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) tool_calls: Option<Vec<InspectToolCall<'a>>>,
    pub(super) tool_call_id: Option<Text<'a>>,
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct InspectToolCall<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) function: Option<Text<'a>>,
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct InspectPart<'a> {
    text: Option<Text<'a>>,
}

/// A text or a number, as text.
pub(super) fn name(raw: Option<&RawValue>) -> String {
    word(raw).map(Text::into_owned).or_else(|| present(raw).map(str::to_owned)).unwrap_or_default()
}

/// Texts that are kept apart from the messages that hold them.
#[derive(Debug, Default)]
pub(super) struct Attachments<'a>(BTreeMap<String, Text<'a>>);

impl<'a> Attachments<'a> {
    pub(super) fn of(sample: &Sample<'a>) -> Self {
        let old = sample.transcript.as_ref().and_then(|transcript| transcript.content);
        let texts = |raw: Option<&'a RawValue>| -> BTreeMap<String, Text<'a>> {
            raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        };
        let all = texts(old).into_iter().chain(texts(sample.attachments));
        Self(all.collect())
    }

    /// The words of a content: a text, the texts of its parts, or else the JSON.
    pub(super) fn words(&self, content: Option<&RawValue>) -> String {
        let Some(raw) = present(content) else { return String::new() };
        if let Some(text) = word(content) {
            return self.resolve(text);
        }
        match serde_json::from_str::<Vec<InspectPart<'_>>>(raw) {
            Ok(parts) => {
                let texts = parts.into_iter().filter_map(|part| part.text);
                let texts: Vec<String> = texts.map(|text| self.resolve(text)).collect();
                texts.join("\n")
            }
            Err(_) => compact(content),
        }
    }

    fn resolve(&self, text: Text<'_>) -> String {
        let kept = text.strip_prefix(ATTACHMENT).and_then(|key| self.0.get(key));
        kept.map_or_else(|| text.into_owned(), |kept| kept.clone().into_owned())
    }
}
