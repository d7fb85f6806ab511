//! Limits of a replay's input.

/// The most policies of one replay: a table that long is not read, and each is a run to follow.
pub const MAX_CANDIDATES: usize = 1_000;

/// How many values looser than the tightest that would do a family goes at most: looser values lose fewer runs that
/// were not seen, and each is one more pass over all folds, with less to save.
pub const MAX_HEADROOM: usize = 4;

/// The most threads of a replay; far more than there are cores.
pub(crate) const MAX_THREADS: usize = 256;

/// How many models, tools and kinds are distinguished, each; the rest are counted together. Far more than real runs
/// have, and few enough that hostile names do not fill the memory.
pub(crate) const MAX_NAMES: usize = 4_096;
