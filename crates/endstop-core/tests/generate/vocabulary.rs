//! The few names, phrases and amounts that generated conditions and runs share, so that they meet.

pub(crate) const TOOLS: [&str; 3] = ["search", "read", "submit"];
pub(crate) const ARGUMENTS: [&str; 2] = ["{}", "{\"q\":1}"];
/// Two short ones, and one of twelve words.
pub(crate) const RESULTS: [&str; 3] =
    ["ok", "nothing found", "error 7: no file or directory of that name is in this place, sir"];
pub(crate) const AGENTS: [&str; 3] = ["planner", "coder", "human"];
pub(crate) const SIGNALS: [&str; 2] = ["cancel", "halt"];
pub(crate) const REPORTED: [&str; 3] = ["score", "left", "quota(score)"];
/// Texts that a condition searches: some overlap, one is not ASCII.
pub(crate) const PHRASES: [&str; 4] = ["DONE", "FINAL ANSWER", "aab", "é!"];
/// Literal patterns; with `$` they are decided when the reply is complete.
pub(crate) const PATTERNS: [&str; 4] = ["done$", "ANSWER", "aab$", "é"];
/// Texts of the model: with a phrase, with the beginning of one, without.
pub(crate) const TEXTS: [&str; 8] = [
    "",
    "I am DONE",
    "not yet done",
    "the FINAL ANSWER is aaab",
    "FINAL ANS",
    "DONDONEaab and more é",
    "é! FINAL FINAL ANSWER done",
    "aaaaaaaabaab",
];
/// Finish reasons as providers spell them.
pub(crate) const FINISHES: [&str; 6] =
    ["stop", "end_turn", "length", "max_tokens", "tool_calls", "Weird"];
/// Finish reasons as conditions name them.
pub(crate) const WANTED_FINISHES: [&str; 5] = ["stop", "LENGTH", "tool_use", "weird", "end_turn"];
/// The wall time of offset 0: 2026-11-30T12:00Z.
pub(crate) const WALL_START_MS: u64 = 1_796_040_000_000;
/// Steps between moments, in milliseconds; conditions use sums of them as limits, so that "exactly then"
/// happens.
pub(crate) const GAPS_MS: [u64; 5] = [0, 1, 250, 1_000, 5_000];
/// Amounts of one call in pico-dollars.
pub(crate) const COSTS_PICOS: [u64; 4] = [0, 1, 250_000_000_000, 1_000_000_000_000];
