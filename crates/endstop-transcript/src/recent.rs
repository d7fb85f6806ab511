//! The ids that were met last, in bounded memory.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

/// How many ids are kept at least, at 9 to 18 bytes each: a record is written again soon, or never.
const REMEMBERED: usize = 16_384;

/// Digests of ids: all of the last [`REMEMBERED`], and at most twice as many.
#[derive(Debug, Default)]
pub(super) struct Recent {
    new: HashSet<u64>,
    old: HashSet<u64>,
}

impl Recent {
    /// Records an id. Returns `false` if it was met before.
    pub(super) fn insert(&mut self, id: u64) -> bool {
        if self.new.contains(&id) || self.old.contains(&id) {
            return false;
        }
        if self.new.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(id)
    }
}

/// The digest of an id.
pub(super) fn digest(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

#[cfg(test)]
mod tests;
