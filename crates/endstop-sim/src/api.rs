//! The APIs of model providers.

/// An API that the scripted model speaks.
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
