//! Non-streaming responses.

use super::request::Part;
use super::stream::GeminiStream;
use crate::json::{List, Raw, fields, parse};
use crate::parts::{read_object, text_of_body};
use crate::response_outline::ResponseOutline;
use crate::{CallRequest, CallResponse, ReadError};

fields! {
    Answer<'j> {
        candidates: List<Candidate<'j>> = "candidates",
        usage: Raw<'j> = "usageMetadata" | "usage_metadata",
        model: Raw<'j> = "modelVersion" | "model_version",
        id: Raw<'j> = "responseId" | "response_id",
        feedback: Feedback<'j> = "promptFeedback" | "prompt_feedback",
        error: Raw<'j> = "error",
    }
}

fields! {
    Feedback<'j> {
        block: Raw<'j> = "blockReason" | "block_reason",
    }
}

fields! {
    Candidate<'j> {
        index: Raw<'j> = "index",
        content: Content<'j> = "content",
        finish: Raw<'j> = "finishReason" | "finish_reason",
        grounding: Grounding<'j> = "groundingMetadata" | "grounding_metadata",
    }
}

fields! {
    Grounding<'j> {
        queries: List<Raw<'j>> = "webSearchQueries" | "web_search_queries",
    }
}

fields! {
    Content<'j> {
        parts: List<Part<'j>> = "parts",
    }
}

/// Reads a complete response: an object, or a list of them.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let reader = GeminiStream::new(ResponseOutline::to(&CallRequest::default()));
    if body.trim_ascii_start().starts_with(b"[") {
        let pieces: List<Answer<'_>> = parse(text_of_body(body)?)?;
        return Ok(reader.pieces(&pieces.0));
    }
    let answer: Answer<'_> = read_object(body)?;
    let says_something =
        answer.usage.is_some() || answer.error.is_some() || answer.feedback.block.is_some();
    if answer.candidates.0.is_empty() && !says_something {
        return Err(ReadError::NotAResponse("generateContent"));
    }
    Ok(reader.whole(&answer))
}
