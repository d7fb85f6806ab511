//! How each model API is read and written.
//!
//! A separate file because it is the one that knows every API's module.

use crate::api::Api;
use crate::dialect::Dialect;
use crate::{chat, gemini, messages, responses};

impl Api {
    /// Returns the reader and writer of the API.
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
