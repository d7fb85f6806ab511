//! The model APIs by name.
//!
//! A separate file because the tables of kinds and fields name an API, and what reads and writes it uses these tables.

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
