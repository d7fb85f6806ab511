//! Warnings, counted: one for each kind and file, with the first line it was seen on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use super::RunSink;

/// What a warning is about.
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
}

impl WarningKind {
    /// The stable name, such as `malformed`.
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
        }
    }
}

/// Something that could not be read, or not be trusted. One for each kind and file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// The file.
    pub file: String,
    /// The first line it was seen on, from 1; `None` where it is about the whole file.
    pub line: Option<u64>,
    /// How often.
    pub count: u64,
    /// What was wrong the first time.
    pub message: String,
}

impl fmt::Display for Warning {
    /// `file:line: message (12 times)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// The warnings of one transcript, until they go to the sink. All parts of a reader share them.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    by_file: RefCell<BTreeMap<String, BTreeMap<WarningKind, Warning>>>,
}

impl Warnings {
    /// Counts a warning. `message` is asked for only the first time.
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

    /// Takes over what another reading of the same files found. What both found counts once.
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
