//! Limits of the core, each with its reason. Outside input is checked against them where it is read.

/// Deepest nesting of a condition that is accepted when read: enough for any policy written by hand, and
/// small enough that every recursive walk is safe.
pub const MAX_DEPTH: usize = 32;
/// The longest beginning of a name that is compared with known names, in characters: comparing takes the square of that.
pub(crate) const COMPARED_CHARS: usize = 64;
/// Most nodes of a policy that are accepted when read: bounds the compiled program's memory.
pub const MAX_NODES: usize = 1_024;
/// Longest expression text that is accepted when read, in bytes: room for [`MAX_NODES`] written out.
pub const MAX_TEXT: usize = 64 * 1024;
/// Longest policy file that is read, in bytes: a person writes less, and a device file has no end.
pub const MAX_FILE: usize = 1024 * 1024;
/// Most rules of a policy that are accepted when read: each is judged at every checkpoint.
pub const MAX_RULES: usize = 256;
/// Longest rule id, in bytes: every signal and trip record contains it.
pub const MAX_RULE_ID: usize = 128;
/// How often in a row a rule may be overridden, unless it says otherwise: a critic may ask for a correction more than
/// once, and a hook that always asks does not void the limit.
pub const DEFAULT_OVERRIDES: u32 = 3;
/// Most stamps that a count over a window keeps: bounds the operator's memory.
pub const MAX_COUNT: u64 = 1_024;
/// Largest saved state of one probe, in bytes of JSON: the state of a run is bounded by its policy.
pub const MAX_PROBE_STATE: usize = 4 * 1024;
/// Longest saved run that is read, in bytes: above what a policy of the largest size writes.
pub const MAX_STATE: usize = 16 * 1024 * 1024;
/// How often in a row a response is dropped before a retry rule stops the run: each is charged, and a third response of the
/// same kind shows that asking again does not help.
pub const MAX_REPLY_RETRIES: u32 = 2;
/// Overrides and approvals that a trip record keeps; earlier ones are only counted. They are saved with the run and
/// printed with its record, so they are no log of a run that is approved at every step.
pub const MAX_OVERRIDE_RECORDS: usize = 64;
/// The largest amount that is accepted when read: $9,000,000.
///
/// A signed 64-bit word of pico-dollars reaches $9.2 M, so every accepted amount also fits a ledger's
/// signed room.
pub const MAX_READ_DOLLARS: u64 = 9_000_000;

/// Most raised signals that are kept; more than a handful is a driver that does not stop.
pub(crate) const MAX_RAISED: usize = 64;
/// Leaves that a signal's message lists: it is one line.
pub(crate) const MAX_LEAVES_IN_MESSAGE: usize = 3;

/// Longest string or pattern in a condition, in bytes: names, phrases and patterns are short, and the matcher's
/// size follows from it.
pub(crate) const MAX_STRING: usize = 4_096;
/// Largest automaton of one pattern, in bytes: a policy may have many patterns, and each stays in memory.
pub(crate) const MAX_PATTERN_BYTES: usize = 4 * 1024 * 1024;
/// Most memory that building one pattern may take, in bytes: four times its largest automaton, because states are made
/// that the finished one does not keep.
pub(crate) const MAX_BUILD_BYTES: usize = 16 * 1024 * 1024;
/// Largest automaton before it is made deterministic, in bytes: `\w{200}{200}` would take seconds to build.
pub(crate) const MAX_NFA_BYTES: usize = 1024 * 1024;

/// Distinct tool results that are kept: a run that repeats itself over more than these is not found, and the memory
/// is 32 KiB for the digests and 16 KiB for their index.
pub(crate) const DISTINCT_RESULTS: usize = 4_096;
/// The longest period that counts as a cycle: longer ones are rarely loops.
pub(crate) const CYCLE_PERIOD: usize = 4;
/// Halves of stale steps below which they have no share: reading something again, and once more, is checking. A step
/// that only failed again counts one half, because agents do get out of errors.
pub(crate) const STALE_MIN_HALVES: u64 = 6;
/// Stale steps in a row below which there is no share of them: an agent that has just got something new is in no loop.
pub(crate) const STALE_MIN_STREAK: u64 = 3;
/// A call that took this long, in milliseconds, and did not fail has waited for something. Waiting does not count as
/// a loop.
pub(crate) const WAIT_MS: u64 = 10_000;
/// Responses that a new one is compared with: a run that repeats itself does so within a few responses, and each is one
/// word of the state.
pub(crate) const SIMILAR_RESPONSES: usize = 8;
/// Shorter responses are agreement, not repetition.
pub(crate) const SIMILAR_MIN_WORDS: u32 = 12;
/// Bits of 64 in which the hashes of nearly equal responses may differ: a changed word changes a few triples and so a few
/// bits, while the hashes of unrelated responses differ in about half of them.
pub(crate) const SIMILAR_BITS: u32 = 3;
/// Longest word that is distinguished, in bytes; longer ones (such as base64) are hashed by their head.
pub(crate) const SIMILAR_WORD_BYTES: usize = 64;
