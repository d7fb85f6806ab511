//! What tool results say about progress: repeats, cycles, and whether anything was new.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Distinct tool results that are remembered: a run that goes round in larger circles than this is not
/// found, and the memory is 32 KiB for the digests and 16 KiB for their index.
pub(crate) const DISTINCT: usize = 4_096;
const INDEX: usize = 2 * DISTINCT;
/// The longest period that counts as a cycle.
const LONGEST_PERIOD: usize = 4;

/// The digest of a (tool, arguments, result) triple.
pub(crate) fn digest(tool: &str, arguments: &str, result: &str) -> u64 {
    let tool = xxh3_64(tool.as_bytes());
    let call = xxh3_64_with_seed(arguments.as_bytes(), tool);
    xxh3_64_with_seed(result.as_bytes(), call)
}

/// Repeats and cycles of digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    /// The last digests, newest first.
    pub(crate) last: [u64; LONGEST_PERIOD],
    /// How many there have been since the run or the last user message began, up to [`LONGEST_PERIOD`].
    pub(crate) known: u64,
    /// Equal ones in a row beyond the first.
    pub(crate) repeats: u64,
    /// For each period from 2: how many digests in a row equal the one a period before.
    pub(crate) matched: [u64; LONGEST_PERIOD - 1],
}

impl Recent {
    pub(crate) fn push(&mut self, digest: u64) {
        let equal_at = |back: usize| {
            let known = usize::try_from(self.known).unwrap_or(LONGEST_PERIOD);
            known >= back && self.last.get(back - 1) == Some(&digest)
        };
        self.repeats = if equal_at(1) { self.repeats.saturating_add(1) } else { 0 };
        for (place, matched) in self.matched.iter_mut().enumerate() {
            let period = place + 2;
            // A constant run has every period; it is repeats, not a cycle.
            let constant = self.repeats >= u64::try_from(period).unwrap_or(u64::MAX);
            *matched = if equal_at(period) && !constant { matched.saturating_add(1) } else { 0 };
        }
        self.last.rotate_right(1);
        if let Some(newest) = self.last.first_mut() {
            *newest = digest;
        }
        self.known = (self.known + 1).min(LONGEST_PERIOD as u64);
    }

    /// Whole repetitions of a period of 2 to 4 beyond the first.
    pub(crate) fn cycles(&self) -> u64 {
        let periods = self.matched.iter().zip(2u64..);
        periods.map(|(matched, period)| matched / period).max().unwrap_or(0)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The last [`DISTINCT`] distinct digests: a ring for their age, an open-addressing index into it for
/// finding one in constant time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    ring: Vec<u64>,
    next: usize,
    /// Ring place + 1, or 0 where free.
    index: Box<[u16]>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            ring: Vec::with_capacity(DISTINCT),
            next: 0,
            index: vec![0; INDEX].into_boxed_slice(),
        }
    }
}

impl Seen {
    /// Adds a digest; false if it was there already.
    pub(crate) fn insert(&mut self, digest: u64) -> bool {
        if self.find(digest).is_some() {
            return false;
        }
        let place = self.next;
        match self.ring.get(place).copied() {
            None => self.ring.push(digest),
            Some(oldest) => {
                self.remove(oldest);
                if let Some(slot) = self.ring.get_mut(place) {
                    *slot = digest;
                }
            }
        }
        self.next = (place + 1) % DISTINCT;
        self.link(digest, place);
        true
    }

    fn home(digest: u64) -> usize {
        usize::try_from(digest % INDEX as u64).unwrap_or(0)
    }

    fn at(&self, cell: usize) -> Option<u64> {
        let place = usize::from(self.index.get(cell).copied().unwrap_or(0));
        self.ring.get(place.checked_sub(1)?).copied()
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
        while self.index.get(cell).is_some_and(|&used| used != 0) {
            cell = (cell + 1) % INDEX;
        }
        if let (Some(slot), Ok(place)) = (self.index.get_mut(cell), u16::try_from(place + 1)) {
            *slot = place;
        }
    }

    /// Takes a digest out, moving back what had to make way for it.
    fn remove(&mut self, digest: u64) {
        let Some(mut hole) = self.find(digest) else { return };
        let mut cell = (hole + 1) % INDEX;
        while let Some(moved) = self.at(cell) {
            let distance = |from: usize, to: usize| (to + INDEX - from) % INDEX;
            if distance(Self::home(moved), cell) >= distance(hole, cell) {
                let place = self.index.get(cell).copied().unwrap_or(0);
                if let Some(slot) = self.index.get_mut(hole) {
                    *slot = place;
                }
                hole = cell;
            }
            cell = (cell + 1) % INDEX;
        }
        if let Some(slot) = self.index.get_mut(hole) {
            *slot = 0;
        }
    }

    /// The digests, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = u64> {
        let start = if self.ring.len() < DISTINCT { 0 } else { self.next };
        let (newer, older) = self.ring.split_at(start.min(self.ring.len()));
        older.iter().chain(newer).copied()
    }
}

impl FromIterator<u64> for Seen {
    fn from_iter<I: IntoIterator<Item = u64>>(digests: I) -> Self {
        let mut seen = Self::default();
        for digest in digests {
            seen.insert(digest);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(digests: &[u64]) -> Recent {
        let mut recent = Recent::default();
        for &digest in digests {
            recent.push(digest);
        }
        recent
    }

    #[test]
    fn repeats_count_beyond_the_first() {
        for (digests, repeats) in
            [(&[][..], 0), (&[1], 0), (&[1, 1], 1), (&[1, 1, 1, 1], 3), (&[1, 1, 2], 0)]
        {
            assert_eq!(fed(digests).repeats, repeats, "{digests:?}");
        }
    }

    #[test]
    fn cycles_count_whole_periods_and_not_constant_runs() {
        for (digests, cycles) in [
            (&[1, 2, 1, 2][..], 1),
            (&[1, 2, 1, 2, 1, 2], 2),
            (&[1, 2, 3, 1, 2, 3], 1),
            (&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], 2),
            (&[1, 1, 1, 1, 1, 1, 1], 0),
            (&[1, 2, 3, 4, 5], 0),
            (&[1, 1, 2, 1, 1, 2], 1),
        ] {
            assert_eq!(fed(digests).cycles(), cycles, "{digests:?}");
        }
    }

    #[test]
    fn the_last_distinct_results_are_remembered_in_constant_space() {
        let mut seen = Seen::default();
        let spread = |i: u64| xxh3_64(&i.to_le_bytes()) % 6_000 + (i << 32);
        let all: Vec<u64> = (0..3 * DISTINCT as u64 + 7).map(spread).collect();
        for (i, &digest) in all.iter().enumerate() {
            assert!(seen.insert(digest), "{i}");
            assert!(!seen.insert(digest));
        }
        let last = &all[all.len() - DISTINCT..];
        assert!(seen.oldest_first().eq(last.iter().copied()));
        assert!(last.iter().all(|d| seen.find(*d).is_some()));
        assert!(all[..all.len() - DISTINCT].iter().all(|d| seen.find(*d).is_none()));
        assert_eq!(seen.index.iter().filter(|cell| **cell != 0).count(), DISTINCT);
        let again: Seen = seen.oldest_first().collect();
        assert!(again.oldest_first().eq(seen.oldest_first()));
    }
}
