//! The tool results that a run has seen, as digests.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::limits::DISTINCT_RESULTS;

/// Cells of the index: twice the digests, so that a search is short.
const INDEX: usize = 2 * DISTINCT_RESULTS;

/// The digest of a (tool, arguments, result) triple.
pub(super) fn digest(tool: &str, arguments: &str, result: &str) -> u64 {
    let tool = xxh3_64(tool.as_bytes());
    let call = xxh3_64_with_seed(arguments.as_bytes(), tool);
    xxh3_64_with_seed(result.as_bytes(), call)
}

/// The last [`DISTINCT_RESULTS`] distinct digests: a ring for their age, an open-addressing index into it for
/// finding one in constant time. Saved as the digests, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenResults {
    ring: Vec<u64>,
    next: usize,
    /// Ring place + 1, or 0 where free.
    index: Box<[u16]>,
}

impl Default for SeenResults {
    fn default() -> Self {
        Self {
            ring: Vec::with_capacity(DISTINCT_RESULTS),
            next: 0,
            index: vec![0; INDEX].into_boxed_slice(),
        }
    }
}

impl Serialize for SeenResults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.oldest_first())
    }
}

impl<'de> Deserialize<'de> for SeenResults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<u64>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "cells are taken modulo the index, and a cell holds a place of the ring"
)]
impl SeenResults {
    /// Adds a digest; false if it was there already.
    pub(super) fn insert(&mut self, digest: u64) -> bool {
        if self.find(digest).is_some() {
            return false;
        }
        let place = self.next;
        if self.ring.len() < DISTINCT_RESULTS {
            self.ring.push(digest);
        } else {
            self.remove(self.ring[place]);
            self.ring[place] = digest;
        }
        self.next = (place + 1) % DISTINCT_RESULTS;
        self.link(digest, place);
        true
    }

    const fn home(digest: u64) -> usize {
        (digest % INDEX as u64) as usize
    }

    /// The digest in a cell; `None` if it is free.
    fn at(&self, cell: usize) -> Option<u64> {
        let place = usize::from(self.index[cell]).checked_sub(1)?;
        Some(self.ring[place])
    }

    fn find(&self, digest: u64) -> Option<usize> {
        let mut cell = Self::home(digest);
        while let Some(found) = self.at(cell) {
            if found == digest {
                return Some(cell);
            }
            cell = (cell + 1) % INDEX;
        }
        None
    }

    fn link(&mut self, digest: u64, place: usize) {
        let mut cell = Self::home(digest);
        while self.index[cell] != 0 {
            cell = (cell + 1) % INDEX;
        }
        const { assert!(DISTINCT_RESULTS < u16::MAX as usize, "a cell holds a place + 1") };
        self.index[cell] = (place + 1) as u16;
    }

    /// Takes a digest out, moving back what had to make way for it.
    fn remove(&mut self, digest: u64) {
        let Some(mut hole) = self.find(digest) else { return };
        let mut cell = (hole + 1) % INDEX;
        while let Some(moved) = self.at(cell) {
            let distance = |from: usize, to: usize| (to + INDEX - from) % INDEX;
            if distance(Self::home(moved), cell) >= distance(hole, cell) {
                self.index[hole] = self.index[cell];
                hole = cell;
            }
            cell = (cell + 1) % INDEX;
        }
        self.index[hole] = 0;
    }

    /// The digests, oldest first.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = u64> {
        let start = if self.ring.len() < DISTINCT_RESULTS { 0 } else { self.next };
        let (newer, older) = self.ring.split_at(start);
        older.iter().chain(newer).copied()
    }
}

impl FromIterator<u64> for SeenResults {
    fn from_iter<I: IntoIterator<Item = u64>>(digests: I) -> Self {
        let mut seen = Self::default();
        for digest in digests {
            seen.insert(digest);
        }
        seen
    }
}

#[cfg(test)]
mod tests;
