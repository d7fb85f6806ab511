//! The ids that were met last, in bounded memory.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::REMEMBERED_IDS;

/// Digests of ids: all of the last [`REMEMBERED_IDS`], and at most twice as many.
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
        if self.new.len() >= REMEMBERED_IDS {
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
