//! Responses, as they are read.

use std::borrow::Cow;

use super::request::Function;
use crate::json::{List, Raw, fields};

fields! {
    Chunk<'j> {
        id: Raw<'j> = "id",
        model: Raw<'j> = "model",
        created: Raw<'j> = "created",
        choices: List<Choice<'j>> = "choices",
        usage: Raw<'j> = "usage",
        groq: Groq<'j> = "x_groq",
        service_tier: Raw<'j> = "service_tier",
        error: Raw<'j> = "error",
    }
}

fields! {
    Groq<'j> {
        usage: Raw<'j> = "usage",
    }
}

fields! {
    Choice<'j> {
        index: Raw<'j> = "index",
        message: Message<'j> = "delta" | "message",
        finish: Raw<'j> = "finish_reason",
    }
}

fields! {
    Message<'j> {
        content: Raw<'j> = "content",
        refusal: Raw<'j> = "refusal",
        reasoning: Raw<'j> = "reasoning_content" | "reasoning",
        calls: List<Piece<'j>> = "tool_calls",
        function_call: Function<'j> = "function_call",
        annotations: Raw<'j> = "annotations",
    }
}

fields! {
    Piece<'j> {
        index: Raw<'j> = "index",
        id: Raw<'j> = "id",
        function: Function<'j> = "function" | "custom",
    }
}

impl Choice<'_> {
    pub(super) fn has_only_words(&self) -> bool {
        let message = &self.message;
        let function = &message.function_call;
        let others =
            [self.finish, message.refusal, message.reasoning, function.name, function.arguments];
        message.calls.0.is_empty() && !others.iter().any(|other| other.is_some())
    }
}

impl<'j> Piece<'j> {
    pub(super) fn id(&self) -> Option<Cow<'j, str>> {
        self.id.text().filter(|id| !id.is_empty())
    }
}
