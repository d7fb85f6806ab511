//! Limits of the readers, so that no file fills the memory or runs forever.

/// The longest line that is read, in bytes: an agent's longest lines hold a few images, some megabytes each. A
/// longer one is skipped with a warning and never held in memory.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// The largest element of a document that is read, in bytes: a run of a benchmark with its images stays below.
pub(crate) const MAX_ELEMENT_BYTES: usize = 256 << 20;

/// The most text of one step that is kept, in bytes: two of the longest lines. A step gathers its lines until the
/// next one begins, so a file that never begins one must not fill the memory.
pub(crate) const MAX_STEP_BYTES: usize = 2 * MAX_LINE_BYTES;

/// The most tool calls, pieces and failed attempts of one step, each; far beyond any provider's limit.
pub(crate) const MAX_STEP_ITEMS: usize = 4_096;

/// How many entries are held until one has a time: a run begins at the first recorded time, which a prompt without a
/// time may precede.
pub(crate) const MAX_UNTIMED_ENTRIES: usize = 16;

/// How many models of one run are distinguished in its tally; a run that names more is hostile.
pub(crate) const MAX_MODELS: usize = 64;

/// The most bytes of records that are held at once, over all open runs of a file or all sub-agents of a run: two of the
/// longest.
pub(crate) const MAX_HELD_BYTES: usize = 512 << 20;

/// The most files of sub-agents of one run; a run with more is damaged.
pub(crate) const MAX_CHILD_FILES: usize = 10_000;

/// How deep sub-agents and their events may nest in one document: far deeper than agents do, and far from the end of the stack.
pub(crate) const MAX_NESTING: u32 = 16;

/// The deepest directory that is entered. Tools nest four deep; links are followed, so there must be an end.
pub(crate) const MAX_DIRECTORY_DEPTH: usize = 64;

/// How far a span's ancestors are followed: deeper traces are damaged, or go in circles.
pub(crate) const MAX_ANCESTORS: usize = 512;

/// The most messages that are rebuilt from flattened attribute names; beyond any context.
pub(crate) const MAX_FLATTENED_MESSAGES: usize = 1 << 16;

/// The most of a history that is held at once, in bytes: far more than an ordinary run's. The rest is read when it
/// is reached, from the beginning of the file.
pub(crate) const MAX_HISTORY_BYTES: usize = 8 << 20;

/// The longest header to begin a piece of a trace with, in bytes. It names a run and a model; a longer one is left to
/// lie inside a piece.
pub(crate) const MAX_TRACE_HEADER_BYTES: usize = 64 << 10;

/// The most entries of one archive; an evaluation has a few thousand samples.
pub(crate) const MAX_ARCHIVE_ENTRIES: usize = 1 << 20;

/// The most that one entry of an archive unpacks to, in bytes: it is held in memory while its run is read.
pub(crate) const MAX_ARCHIVE_ENTRY_BYTES: u64 = 512 << 20;

/// The most that all entries of one archive unpack to, in bytes: as much as a disk holds, and minutes of work.
pub(crate) const MAX_ARCHIVE_BYTES: u64 = 64 << 30;

/// The largest database that is read from memory instead of a file, in bytes: it comes through a pipe.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_DATABASE_BYTES: usize = 512 << 20;

/// How many ids are kept at least, at 9 to 18 bytes each: a record is written again soon, or never.
pub(crate) const REMEMBERED_IDS: usize = 16_384;

/// Bytes of a file's beginning that are read: the keys that identify a format appear early, but may follow a long
/// system prompt.
pub(crate) const HEAD_BYTES: u64 = 64 << 10;

/// Bytes of a file's end that are read: some tools write the name of their format last.
pub(crate) const TAIL_BYTES: u64 = 4 << 10;

/// Lines of the head that are read: formats name themselves in the first few.
pub(crate) const HEAD_LINES: usize = 20;

/// How far ahead the history is searched for a call. The two lists run in parallel, except for entries that only one
/// of them has.
pub(crate) const HISTORY_LOOK_AHEAD: usize = 64;

/// How many lines of a sub-agent's file are searched for its first time: nearly every line has one.
pub(crate) const FIRST_TIME_LINES: usize = 20;

/// How much of an archive's end is searched for its table of contents, in bytes: the table's own end, and
/// the longest comment that may follow it.
pub(crate) const TABLE_SEARCH_BYTES: u64 = 22 + (64 << 10);
