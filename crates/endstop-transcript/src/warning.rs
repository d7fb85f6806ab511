//! Warnings, counted: one for each kind and file, with the first line it was seen on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use super::RunSink;

/// The subject of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WarningKind {
    /// The file, or the rest of it, cannot be read.
    Unreadable,
    /// A line or document is not what its format says.
    Malformed,
    /// The file ends in the middle of a line or document.
    Truncated,
    /// Something is larger than a reader takes: a line, a document, a step, a number of files.
    TooLarge,
    /// A number is negative, fractional, too large or no number; the reading is unknown, not zero.
    BadNumber,
    /// A line belongs to a model call that was already over; it is not counted again.
    LateLine,
    /// Written by a version that is not known.
    UnknownVersion,
    /// The transcript reports fewer tokens than were used.
    LowerBound,
    /// A number was taken otherwise than its format says, because it makes no sense as that.
    Reinterpreted,
    /// A file that might be a transcript, of a format that is not known: nothing of it was read. The files of one
    /// search are one warning, which names the largest.
    UnknownFormat,
    /// A file of a known format, or a directory, in which no run is.
    NoRuns,
}

impl WarningKind {
    /// Returns the stable name, such as `malformed`.
    #[must_use]
    pub const fn value(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::TooLarge => "too_large",
            Self::BadNumber => "bad_number",
            Self::LateLine => "late_line",
            Self::UnknownVersion => "unknown_version",
            Self::LowerBound => "lower_bound",
            Self::Reinterpreted => "reinterpreted",
            Self::UnknownFormat => "unknown_format",
            Self::NoRuns => "no_runs",
        }
    }
}

/// Something that could not be read, or not be trusted. One for each kind and file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The subject.
    pub kind: WarningKind,
    /// The file.
    pub file: String,
    /// The first line it was seen on, from 1; `None` if it is about the whole file.
    pub line: Option<u64>,
    /// The number of times.
    pub count: u64,
    /// The problem at the first occurrence.
    pub message: String,
}

impl fmt::Display for Warning {
    /// `file:line: message (12 times)`; of files of unknown formats, `file: message (and 11 other files)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        match (self.kind, self.count.saturating_sub(1)) {
            (_, 0) => Ok(()),
            (WarningKind::UnknownFormat, 1) => f.write_str(" (and 1 other file)"),
            (WarningKind::UnknownFormat, others) => write!(f, " (and {others} other files)"),
            _ => write!(f, " ({} times)", self.count),
        }
    }
}

impl Warning {
    /// A warning about a whole file.
    fn of_file(kind: WarningKind, file: &str, message: impl Into<String>) -> Self {
        Self { kind, file: file.to_owned(), line: None, count: 1, message: message.into() }
    }

    /// Creates the warning of a file, or an equivalent, that has no known format.
    ///
    /// ```
    /// let warning = endstop_transcript::Warning::unknown_format("notes.json");
    /// assert_eq!(warning.to_string(), "notes.json: not read, of no known format");
    /// ```
    #[must_use]
    pub fn unknown_format(file: &str) -> Self {
        Self::of_file(WarningKind::UnknownFormat, file, "not read, of no known format")
    }

    /// Creates the warning of a file of a known format that has no run.
    #[must_use]
    pub fn no_runs(file: &str) -> Self {
        Self::of_file(WarningKind::NoRuns, file, "no run is in this file")
    }

    /// A directory held no transcript.
    pub(super) fn no_transcripts(directory: &str) -> Self {
        Self::of_file(WarningKind::NoRuns, directory, "no transcript is in this directory")
    }

    /// A file cannot be read.
    pub(super) fn unreadable(file: &str, error: &dyn fmt::Display) -> Self {
        Self::of_file(WarningKind::Unreadable, file, format!("cannot be read: {error}"))
    }
}

/// The warnings of one transcript, until they go to the sink. All parts of a reader share them.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    by_file: RefCell<BTreeMap<String, BTreeMap<WarningKind, Warning>>>,
}

impl Warnings {
    /// Counts a warning. `message` is called only the first time.
    pub(super) fn add(
        &self,
        kind: WarningKind,
        file: &str,
        line: Option<u64>,
        message: impl FnOnce() -> String,
    ) {
        let mut by_file = self.by_file.borrow_mut();
        if !by_file.contains_key(file) {
            by_file.insert(file.to_owned(), BTreeMap::new());
        }
        let Some(kinds) = by_file.get_mut(file) else { return };
        let warning = kinds.entry(kind).or_insert_with(|| Warning {
            kind,
            file: file.to_owned(),
            line,
            count: 0,
            message: message(),
        });
        warning.count = warning.count.saturating_add(1);
    }

    /// Adds the findings of another reading of the same files. A finding of both counts once.
    pub(super) fn join(&self, other: Self) {
        let mut by_file = self.by_file.borrow_mut();
        for (file, kinds) in other.by_file.into_inner() {
            let own = by_file.entry(file).or_default();
            for (kind, warning) in kinds {
                own.entry(kind).or_insert(warning);
            }
        }
    }

    /// All warnings, by file and kind.
    pub(super) fn into_list(self) -> Vec<Warning> {
        self.by_file.into_inner().into_values().flat_map(BTreeMap::into_values).collect()
    }

    /// Hands all warnings over.
    pub(super) fn send(self, sink: &mut dyn RunSink) {
        for warning in self.into_list() {
            sink.warn(warning);
        }
    }
}
