//! Non-streaming responses.
//!
//! A separate file because each API has the same files.

use super::stream::MessagesStream;
use crate::json::{List, Raw, fields};
use crate::parts::read_object;
use crate::response_outline::{ResponseOutline, error_words};
use crate::{CallRequest, CallResponse, ReadError};

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

/// Reads a complete response.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let answer: Answer<'_> = read_object(body)?;
    let reader = MessagesStream::new(ResponseOutline::to(&CallRequest::default()));
    if let Some(error) = error_words(answer.error) {
        return Ok(CallResponse { error: Some(error), ..CallResponse::default() });
    }
    if answer.kind.json() != "\"message\"" && !answer.usage.is_some() {
        return Err(ReadError::NotAResponse("messages"));
    }
    Ok(reader.whole(&answer))
}
