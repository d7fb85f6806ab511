//! Anthropic messages and their blocks of content, as transcripts keep them.
//!
//! `endstop-llm` reads the same objects as whole responses of the API and sums them up: one text, the calls, the
//! usage. Here a message may be a part of one, as Claude Code writes it, or a user's with results; the order of the
//! blocks and the text of the results count, and any field may be absent. So this is a separate form.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::step::{Full, Step};
use crate::text::Text;
use crate::time::Time;

/// A message; the model's may be a whole response.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct AnthropicMessage<'a> {
    pub(crate) role: Option<Text<'a>>,
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) id: Option<Text<'a>>,
    pub(crate) model: Option<Text<'a>>,
    pub(crate) stop_reason: Option<Text<'a>>,
    pub(crate) usage: Option<&'a RawValue>,
    /// In place of all the rest: a whole list.
    pub(crate) messages: Option<&'a RawValue>,
}

/// The content of a message.
#[derive(Debug)]
pub(crate) enum MessageContent<'a> {
    Text(Text<'a>),
    Blocks(Vec<ContentBlock<'a>>),
}

/// A block of content.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct ContentBlock<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Text<'a>,
    pub(crate) text: Option<Text<'a>>,
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    input: Option<&'a RawValue>,
    pub(crate) tool_use_id: Option<Text<'a>>,
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) is_error: Option<bool>,
}

impl<'a> MessageContent<'a> {
    /// Reads a `content` field; absent and null are no blocks.
    pub(crate) fn read(raw: Option<&'a RawValue>) -> Result<Self, serde_json::Error> {
        match raw.map(RawValue::get) {
            None | Some("null") => Ok(Self::Blocks(Vec::new())),
            Some(text) if text.starts_with('"') => serde_json::from_str(text).map(Self::Text),
            Some(blocks) => serde_json::from_str(blocks).map(Self::Blocks),
        }
    }

    /// Whether it says nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// Adds what the model said or asked for. Tools that the provider runs itself are part of the response.
    pub(crate) fn add_to(self, step: &mut Step, time: Time) -> Result<(), Full> {
        let blocks = match self {
            Self::Text(text) => return step.say(time, text),
            Self::Blocks(blocks) => blocks,
        };
        for block in blocks {
            match (&*block.kind, block.text, block.name) {
                ("text", Some(text), _) => step.say(time, text)?,
                ("tool_use", _, Some(name)) => {
                    let arguments = block.input.map(|input| input.get().to_owned());
                    step.call(time, block.id, name, arguments.unwrap_or_default())?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl ContentBlock<'_> {
    pub(crate) fn is_result(&self) -> bool {
        &*self.kind == "tool_result"
    }
}
