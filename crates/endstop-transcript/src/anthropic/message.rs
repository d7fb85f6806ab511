//! Anthropic messages and their blocks of content, as transcripts keep them.
//!
//! `endstop-llm` reads the same objects as whole responses of the API and sums them up: one text, the calls, the
//! usage. Here a message may be a part of one, as Claude Code writes it, or a user's with results; the order of the
//! blocks and the text of the results count, and any field may be absent. So this is a separate form.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::step::{Full, Step};
use crate::time::Time;

/// A message; the model's may be a whole response.
#[derive(Debug, Deserialize)]
pub(crate) struct AnthropicMessage<'a> {
    #[serde(borrow)]
    pub(crate) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) usage: Option<&'a RawValue>,
    /// In place of all the rest: a whole list.
    #[serde(borrow)]
    pub(crate) messages: Option<&'a RawValue>,
}

/// The content of a message.
#[derive(Debug)]
pub(crate) enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<ContentBlock<'a>>),
}

/// A block of content.
#[derive(Debug, Deserialize)]
pub(crate) struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) is_error: Option<bool>,
}

impl<'a> MessageContent<'a> {
    /// Reads a `content` field; absent and null are no blocks.
    pub(crate) fn read(raw: Option<&'a RawValue>) -> Result<Self, serde_json::Error> {
        match raw.map(RawValue::get) {
            None | Some("null") => Ok(Self::Blocks(Vec::new())),
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<BorrowedText<'a>>(text).map(|text| Self::Text(text.0))
            }
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

    /// Adds what the model said or asked for. Tools that the provider runs itself are part of the reply.
    pub(crate) fn add_to(self, step: &mut Step, time: Time) -> Result<(), Full> {
        let blocks = match self {
            Self::Text(text) if text.is_empty() => return Ok(()),
            Self::Text(text) => return step.say(time, text.into_owned()),
            Self::Blocks(blocks) => blocks,
        };
        for block in blocks {
            match (&*block.kind, block.text, block.name) {
                ("text", Some(text), _) if !text.is_empty() => step.say(time, text.into_owned())?,
                ("tool_use", _, Some(name)) => {
                    let arguments = block.input.map(|input| input.get().to_owned());
                    let (id, arguments) =
                        (block.id.map(Cow::into_owned), arguments.unwrap_or_default());
                    step.call(time, id, name.into_owned(), arguments)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl ContentBlock<'_> {
    pub(crate) fn is_result(&self) -> bool {
        self.kind == "tool_result"
    }
}

#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
