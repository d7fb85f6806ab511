//! Replies that come as a whole.

use std::collections::BTreeMap;

use endstop_price::UsageShape;
use serde_json::json;

use super::stream::MessagesStream;
use crate::StopText;
use crate::delta_template::DeltaTemplate;
use crate::json::{List, Raw, fields, parse};
use crate::limits::MAX_OPEN_BLOCKS;
use crate::parts::{arguments_of, read_object};
use crate::response_builder::ResponseBuilder;
use crate::response_outline::{ResponseOutline, error_words, word, words};
use crate::sse::SseEvent;
use crate::{CallRequest, CallResponse, EventContent, ReadError, StreamReader};

fields! {
    Answer<'j> {
        kind: Raw<'j> = "type",
        id: Raw<'j> = "id",
        model: Raw<'j> = "model",
        content: List<Content<'j>> = "content",
        reason: Raw<'j> = "stop_reason",
        usage: Raw<'j> = "usage",
        error: Raw<'j> = "error",
    }
}

fields! {
    Content<'j> {
        kind: Raw<'j> = "type",
        text: Raw<'j> = "text",
        thinking: Raw<'j> = "thinking" | "data",
        id: Raw<'j> = "id",
        name: Raw<'j> = "name",
        input: Raw<'j> = "input",
    }
}

/// Reads an answer that is whole.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let answer: Answer<'_> = read_object(body)?;
    let reader = MessagesStream::new(ResponseOutline::to(&CallRequest::default()));
    if let Some(error) = error_words(answer.error) {
        return Ok(CallResponse { error: Some(error), ..CallResponse::default() });
    }
    if answer.kind.json() != "\"message\"" && !answer.usage.is_some() {
        return Err(ReadError("no answer of messages".to_owned()));
    }
    Ok(reader.whole(&answer))
}
