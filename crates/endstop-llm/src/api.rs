//! The model APIs.
//!
//! A file of its own because it is the one that knows every API's module.

use crate::dialect::Dialect;
use crate::{chat, gemini, messages, responses};

/// A model API.
///
/// See the example of [the crate](crate).
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
}

impl Api {
    /// How the API is read and written.
    #[must_use]
    pub fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Chat => &chat::Chat,
            Self::Responses => &responses::Responses,
            Self::Messages => &messages::Messages,
            Self::Gemini => &gemini::Gemini,
        }
    }
}
