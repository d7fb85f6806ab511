//! The subject of a line of the console.

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exec,
    Step,
    Model,
    Text,
    Tool,
    Error,
    Warn,
    Retry,
    Pause,
    HandOff,
    Kill,
    Fact,
    Signal,
    Continuation,
    Stop,
    Done,
    Failed,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Exec => "EXEC",
            Self::Step => "STEP",
            Self::Model => "LLM",
            Self::Text => "TEXT",
            Self::Tool => "TOOL",
            Self::Error => "ERR",
            Self::Warn => "WARN",
            Self::Retry => "RETRY",
            Self::Pause => "PAUSE",
            Self::HandOff => "HAND",
            Self::Kill => "KILL",
            Self::Fact => "FACT",
            Self::Signal => "SIG",
            Self::Continuation => "CONT",
            Self::Stop => "STOP",
            Self::Done | Self::Failed => "DONE",
        }
    }

    /// The parameters of the escape sequence.
    pub(super) const fn color(self) -> &'static str {
        match self {
            Self::Exec => "1",
            Self::Step => "34",
            Self::Model => "35",
            Self::Tool | Self::HandOff => "36",
            Self::Text | Self::Fact | Self::Signal | Self::Continuation => "2",
            Self::Warn | Self::Retry | Self::Pause => "33",
            Self::Stop => "1;33",
            Self::Error | Self::Kill | Self::Failed => "31",
            Self::Done => "32",
        }
    }
}

/// One line without its time and its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: Kind,
    pub(super) message: String,
}

impl Line {
    pub(super) const fn new(kind: Kind, message: String) -> Self {
        Self { kind, message }
    }
}
