//! The APIs, and which of them are read.

use crate::dialect::Dialect;
use crate::{chat, gemini, messages, responses};

/// The interface that a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini,
    /// Counts tokens and costs nothing: Anthropic `count_tokens`, Gemini `countTokens`.
    CountTokens,
    /// Lists models and costs nothing.
    Models,
    /// Anything else under the upstream: passes untouched, counted as a request.
    Other,
}

impl Api {
    /// How the interface is read; none for those whose answers have no usage.
    #[must_use]
    pub fn dialect(self) -> Option<&'static dyn Dialect> {
        match self {
            Self::Chat => Some(&chat::Chat),
            Self::Responses => Some(&responses::Responses),
            Self::Messages => Some(&messages::Messages),
            Self::Gemini => Some(&gemini::Gemini),
            Self::CountTokens | Self::Models | Self::Other => None,
        }
    }
}

/// How errors of OpenAI look, where no request was read.
pub const CHAT: &dyn Dialect = &chat::Chat;
/// How errors of Anthropic look.
pub const MESSAGES: &dyn Dialect = &messages::Messages;
/// How errors of Gemini look.
pub const GEMINI: &dyn Dialect = &gemini::Gemini;
