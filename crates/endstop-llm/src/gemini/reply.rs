//! Responses, as they are read.

use super::request::Part;
use crate::json::{List, Raw, fields};

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
