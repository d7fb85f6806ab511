//! The limits of this crate, each with its reason.

use std::time::Duration;

// The loop.

/// The longest response that is kept, in bytes: far beyond the output cap of any model. A longer one is cut.
pub(crate) const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;
/// The most tool calls of one response: far more than a model asks for at once. A response with more is cut.
pub(crate) const MAX_CALLS_OF_REPLY: usize = 1_024;
/// The longest answer that is kept of a tool call, in bytes: more than a model reads. The rest is cut.
pub(crate) const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The time of all hooks together that begin when the run is aborted already: enough to write something down.
pub(crate) const HOOK_GRACE: Duration = Duration::from_secs(10);

/// After this many checks of the switch, the cancellation sources are checked, which may be files or servers: about
/// once per second.
pub(crate) const RECHECKS_PER_CHECKPOINT: u32 = 20;
/// The longest wait for calls in flight of which none is settled: longer than nearly all calls take. One of them may be
/// waiting for the call that waits, so that one continues with what fits.
pub(crate) const MAX_QUIET_WAIT: Duration = Duration::from_secs(10 * 60);

// Models.

/// The most requests that are recorded; each holds a copy of its conversation.
pub const MAX_REMEMBERED: usize = 1_000;
/// Characters of a provider's name that are compared with the known ones: it is an argument of a command, and a
/// longer one names no provider.
pub(crate) const MAX_PROVIDER_NAME_CHARS: usize = 64;
/// The most responses that are taken from a run; the longest recorded runs have a few thousand.
#[cfg(feature = "transcripts")]
pub const MAX_REPLIES: usize = 100_000;
/// The most bytes of texts and arguments that are kept of a recorded run: a few of them fit into memory.
#[cfg(feature = "transcripts")]
pub(crate) const MAX_REPLAYED_BYTES: usize = 256 << 20;
/// How many runs an error names: enough to see the one that was meant.
#[cfg(feature = "transcripts")]
pub(crate) const MAX_NAMED_RUNS: usize = 8;
/// The most bytes of one model response; far beyond the output cap of any model.
#[cfg(feature = "models")]
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// The most entries that a provider can want back of one response: each is kept in the conversation.
#[cfg(feature = "models")]
pub(crate) const MAX_OPAQUE: usize = 1_024;
/// The most bytes of a provider's error text that are kept: it is shown to a person.
#[cfg(feature = "models")]
pub(crate) const MAX_ERROR_TEXT_BYTES: usize = 1_024;

// Tools.

/// The most tools of one agent: the number that the strictest of the large providers accepts in a request.
pub const MAX_TOOLS: usize = 128;
/// The longest name of a tool in bytes, as all providers take it.
pub const MAX_TOOL_NAME_BYTES: usize = 64;
/// The longest description of a tool in bytes. It is sent with every request.
pub const MAX_TOOL_DESCRIPTION_BYTES: usize = 16 << 10;
/// Causes of an error that are printed; one that names itself as its cause would otherwise never end.
pub(crate) const MAX_CAUSES: usize = 32;
/// The longest piece that is quoted from elsewhere, in bytes: a page, which is enough of an error for a model.
pub const MAX_QUOTED_BYTES: usize = 4 << 10;
/// The longest unfinished answer of a sub-agent that is reported, in bytes: that of a long page.
pub const MAX_PARTIAL_BYTES: usize = 32 << 10;
/// The longest name that is quoted, in bytes: a model may write anything as a tool's name.
pub(crate) const MAX_QUOTED_NAME_BYTES: usize = 80;
/// Tools that are listed for a model that called one that does not exist; with more, only the nearest are named.
pub(crate) const MAX_KNOWN_TOOLS: usize = 24;
/// Names that a wrong name may have meant: as many as a model needs to see to find the one it meant.
pub(crate) const MAX_NEAREST: usize = 3;
/// Names longer than this are compared by their beginning: a model may write anything as a name.
pub(crate) const MAX_COMPARED_CHARS: usize = 64;

// Arguments of tools and their schemas.

/// The longest schema of a tool in bytes. It is sent with every request: the largest seen in use have about 20 KiB.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// The longest arguments of a call in bytes: twice what the longest responses of today's models hold.
pub const MAX_ARGUMENTS_BYTES: usize = 1 << 20;
/// The deepest nesting of arguments: no tool in use needs a tenth of it, and every recursive walk is safe. A schema
/// that refers to itself is followed as deep as they go.
pub const MAX_ARGUMENTS_DEPTH: usize = 64;
/// The problems that one answer reports: with more than that, the model has misread the tool.
pub const MAX_PROBLEMS: usize = 5;
/// The longest text about problems in bytes: the model reads it once more with every later request.
pub const MAX_PROBLEM_BYTES: usize = 2 << 10;
/// The longest line about one problem in bytes: [`MAX_PROBLEMS`] of them fit into [`MAX_PROBLEM_BYTES`].
pub(crate) const MAX_PROBLEM_LINE_BYTES: usize = 380;
/// The longest piece of the arguments or of the schema that is quoted, in bytes: several fit into a line.
pub(crate) const MAX_QUOTE_BYTES: usize = 80;
/// The names and values that are listed of a schema: more do not fit into a line.
pub(crate) const MAX_LISTED: usize = 12;
/// The problems that are kept of one form: enough to show how far a value is from it.
pub(crate) const MAX_FORM_PROBLEMS: usize = 64;
/// The size of one compiled pattern, of a schema or a search, in bytes; that of a long Unicode class counted many
/// times is near it.
pub(crate) const MAX_PATTERN_BYTES: usize = 1 << 20;

// Built-in tools. The result of one call stays a small part of a context window.

/// The longest path that is checked, in bytes: that of Linux.
pub const MAX_PATH_BYTES: usize = 4096;
/// The most bytes that one call of `read` returns: about 16,000 tokens.
pub(crate) const MAX_READ_BYTES: usize = 64 << 10;
/// The entries that one call of `list` brings: a person would narrow the search, too.
pub(crate) const MAX_LISTED_ENTRIES: usize = 500;
/// The entries that `list` reads to put them in order; a larger directory is shown in part.
pub(crate) const MAX_SORTED_ENTRIES: usize = 50_000;
/// The matches that one call of `search` returns; a pattern with more should be narrowed.
pub(crate) const MAX_MATCHES: usize = 200;
/// The most of a matching line that is shown, in bytes: longer lines are generated.
pub(crate) const MAX_MATCH_BYTES: usize = 300;
/// The largest file that is searched, in bytes; larger ones are data.
pub(crate) const MAX_SEARCHED_FILE_BYTES: u64 = 8 << 20;
/// The files that one search reads: a repository of the largest kind.
pub(crate) const MAX_SEARCHED_FILES: usize = 100_000;
/// The deepest directory that is searched, which also ends circles of mounts.
pub(crate) const MAX_SEARCH_DEPTH: usize = 64;
/// The longest that a command of `bash` may ask for, in seconds: a long build.
pub(crate) const MAX_COMMAND_SECONDS: u64 = 3600;

// Observers.

/// Runs that an observer follows at the same time; also the bound for runs whose end was never reported.
pub(crate) const MAX_OBSERVED_RUNS: usize = 4_096;
/// Levels of sub-agents that are indented; deeper ones are indented like this one, so that some of the line is left.
pub(crate) const MAX_INDENT: u32 = 8;

// Defaults of agents, their retries and built-in tools.

/// Tool calls of one response that run at the same time, unless the builder says otherwise: most responses call fewer.
pub const DEFAULT_PARALLEL_TOOLS: usize = 8;
/// The interval at which the kill switch is checked while a run waits, unless the builder sets another one.
pub const DEFAULT_KILL_INTERVAL: Duration = Duration::from_millis(100);
/// Longer than any process runs: a hundred years.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 366 * 24 * 3_600);
/// How long a command may take if the call does not say: a build or a test run of a small project.
pub(crate) const DEFAULT_COMMAND_SECONDS: u64 = 120;
/// The bytes kept from the beginning and from the end of the output, each: about 4,000 tokens.
pub(crate) const KEPT_OUTPUT_BYTES: usize = 16 << 10;
/// The output of a command is in the pipe when it ends; only a process that left the group can hold it open.
pub(crate) const OUTPUT_DRAIN: Duration = Duration::from_millis(200);
/// As much as a pipe holds on Linux.
pub(crate) const OUTPUT_PIECE_BYTES: usize = 64 << 10;
/// The lines that a call returns if it does not say how many: most source files have fewer.
pub(crate) const DEFAULT_READ_LINES: u64 = 2000;
