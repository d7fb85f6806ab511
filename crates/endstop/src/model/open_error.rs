//! Why no model was opened: by its name, or by the builder of a provider's model.

use thiserror::Error;

use super::PROVIDERS;

/// Why no model was opened.
#[derive(Debug, Error)]
pub enum OpenModelError {
    /// No model was named.
    #[error("`{name}` names no model; write `provider/model`, `scripted` or `replay:FILE`")]
    NoModel {
        /// The given name.
        name: String,
    },
    /// The part before the slash is not known.
    #[error("unknown provider `{provider}`{hint}; known are {}", known())]
    UnknownProvider {
        /// The given provider.
        provider: String,
        /// `, did you mean ..?`, or empty.
        hint: String,
    },
    /// This build asks no provider.
    #[error("cannot call `{name}`: built without providers; build with `--features models`")]
    WithoutDrivers {
        /// The given name.
        name: String,
    },
    /// No key was given.
    #[error("no key for `{provider}`: set {variables}")]
    MissingKey {
        /// The provider.
        provider: String,
        /// The environment variables that may hold it.
        variables: String,
    },
    /// The base URL cannot be used. It is not shown, since it may hold a key.
    #[error("the base URL of `{provider}` {problem}")]
    BadUrl {
        /// The provider.
        provider: String,
        /// The problem.
        problem: &'static str,
    },
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
    /// The transcript cannot answer.
    #[cfg(feature = "transcripts")]
    #[error(transparent)]
    Replay(#[from] super::ReplayModelError),
    /// This build reads no transcripts.
    #[cfg(not(feature = "transcripts"))]
    #[error(
        "cannot answer from `{file}`: built without transcript readers; build with `--features transcripts`"
    )]
    WithoutReaders {
        /// The transcript.
        file: String,
    },
}

fn known() -> String {
    let names: Vec<String> = PROVIDERS.iter().map(|row| format!("`{}`", row.name)).collect();
    names.join(", ")
}
