//! How much prices and usage objects may hold.

/// Counts stay below this, so that a count times a rate fits 128 bits.
pub const MAX_COUNT: u64 = 1 << 58;

/// Tokens of instructions that providers add, and bill, if a request offers tools. Anthropic publishes at most 530
/// ("Tool use", pricing), and the others publish nothing.
pub const TOOL_INSTRUCTION_TOKENS: u64 = 1_000;

/// The largest exponent that is read; a price or an amount with more is a mistake.
pub(crate) const MAX_EXPONENT: i32 = 400;

/// The most dimensions by which units differ: a set of them is one 64-bit word.
pub(crate) const MAX_DIMENSIONS: usize = 64;

/// Names are shorter; a longer text is not a name.
pub(crate) const MAX_NAME: usize = 512;

/// How many names a hint shows: they fit in one line, and the intended one is among the nearest or is not similar.
pub(crate) const MAX_HINTS: usize = 3;

/// Further requests in one usage report; real ones have a handful.
pub(crate) const MAX_FURTHER: usize = 256;
