//! The behavior of the scripted model, and its notation.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::limits::ERROR_CHARS;

/// The behavior of the scripted model. A request may choose another one by its model's name, `sim/<script>`.
///
/// ```
/// use endstop_sim::Script;
///
/// let script: Script = "loop:3".parse()?;
/// assert_eq!(script, Script::LoopFor(3));
/// assert_eq!(script.to_string(), "loop:3");
/// # Ok::<(), endstop_sim::ScriptError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Script {
    /// Calls a tool forever, each time with other arguments.
    #[default]
    Loop,
    /// Calls a tool that many times, then answers.
    LoopFor(u64),
    /// Answers immediately.
    Answer,
    /// Like `Loop`, but with a tool that delegates if the request has one.
    Delegate,
    /// A text, a word every 200 ms.
    Slow,
    /// Like `Loop`, but every second call fails: 500, then 529, then 429, and again.
    Fail,
    /// Like `Loop`, but the connection is closed in the middle of each answer.
    Cut,
    /// Calls the same tool with the same arguments, forever.
    Repeat,
    /// A long text: about 4,000 words, or as much as the output cap admits.
    Long,
}

/// A text that names no script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown script `{0}`: write loop, loop:N, answer, delegate, slow, fail, cut, repeat or long"
)]
pub struct ScriptError(String);

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Ok(match text {
            "loop" => Self::Loop,
            "answer" => Self::Answer,
            "delegate" => Self::Delegate,
            "slow" => Self::Slow,
            "fail" => Self::Fail,
            "cut" => Self::Cut,
            "repeat" => Self::Repeat,
            "long" => Self::Long,
            _ => {
                let times = text.strip_prefix("loop:").and_then(|times| times.parse().ok());
                Self::LoopFor(
                    times.ok_or_else(|| ScriptError(text.chars().take(ERROR_CHARS).collect()))?,
                )
            }
        })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loop => "loop",
            Self::LoopFor(times) => return write!(f, "loop:{times}"),
            Self::Answer => "answer",
            Self::Delegate => "delegate",
            Self::Slow => "slow",
            Self::Fail => "fail",
            Self::Cut => "cut",
            Self::Repeat => "repeat",
            Self::Long => "long",
        })
    }
}

impl Script {
    /// The script that a model's name asks for, `sim/<script>`.
    pub(crate) fn of_model(model: &str) -> Option<Self> {
        model.strip_prefix("sim/")?.parse().ok()
    }
}

#[cfg(test)]
mod tests;
