//! Responses, as they are read.
//!
//! A separate file because each API has the same files.

use crate::json::{List, Raw, fields};

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
