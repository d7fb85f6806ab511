//! Anthropic messages and their blocks of content.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::step::{Full, Step};
use crate::text::text_of;

/// A message; the model's may be a whole response.
#[derive(Deserialize)]
pub(super) struct AnthropicMessage<'a> {
    #[serde(borrow)]
    pub(super) role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    /// In place of all the rest: a whole list.
    #[serde(borrow)]
    pub(super) messages: Option<&'a RawValue>,
}

/// A block of content.
#[derive(Default, Deserialize)]
pub(super) struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
}

/// The blocks of a message; a text is one block, and an empty one is none.
pub(super) fn blocks_of(
    raw: Option<&RawValue>,
) -> Result<Vec<ContentBlock<'_>>, serde_json::Error> {
    match raw.map(RawValue::get) {
        None | Some("null" | "\"\"") => Ok(Vec::new()),
        Some(text) if text.starts_with('"') => {
            let text = Some(Cow::Owned(serde_json::from_str(text)?));
            Ok(vec![ContentBlock { kind: Some("text".into()), text, ..ContentBlock::default() }])
        }
        Some(blocks) => serde_json::from_str(blocks),
    }
}

/// Adds what the model said or asked for. Tools that the provider runs itself are part of the reply.
pub(super) fn add_block(step: &mut Step, block: ContentBlock<'_>) -> Result<(), Full> {
    match (block.kind.as_deref(), block.text, block.name) {
        (Some("text"), Some(text), _) if !text.is_empty() => step.say(None, text.into_owned()),
        (Some("tool_use"), _, Some(name)) => {
            let arguments = block.input.map(|input| input.get().to_owned()).unwrap_or_default();
            step.call(None, block.id.map(Cow::into_owned), name.into_owned(), arguments)
        }
        _ => Ok(()),
    }
}

/// The result of a tool as text. Where there is more than text (images) it stays the JSON it is, so that
/// only equal results compare equal.
pub(super) fn result_text(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else { return String::new() };
    let is_text = |blocks: &Vec<ContentBlock<'_>>| blocks.iter().all(|block| block.text.is_some());
    match serde_json::from_str::<Vec<ContentBlock<'_>>>(raw.get()) {
        Ok(blocks) if !is_text(&blocks) => raw.get().to_owned(),
        _ => text_of(Some(raw)).unwrap_or_default(),
    }
}
