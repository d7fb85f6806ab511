//! Progress as tool results show it: repeats, cycles, whether anything was new, and how much was stale.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::stale::Stale;
use crate::limits::{CYCLE_PERIOD, DISTINCT_RESULTS, WAIT_MS};
use crate::program::Needs;
use crate::units::Millis;

/// Cells of the index: twice the digests, so that a search is short.
const INDEX: usize = 2 * DISTINCT_RESULTS;

/// The digest of a (tool, arguments, result) triple.
pub(super) fn digest(tool: &str, arguments: &str, result: &str) -> u64 {
    let tool = xxh3_64(tool.as_bytes());
    let call = xxh3_64_with_seed(arguments.as_bytes(), tool);
    xxh3_64_with_seed(result.as_bytes(), call)
}

/// Progress as tool results show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    recent: RecentResults,
    /// Distinct results; kept if a condition asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Box<SeenResults>>,
    /// The basis of `stale`; kept if a condition asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<Stale>,
    /// Steps in a row without news.
    no_progress: u64,
    /// Whether the step, or a user since the last one, brought something new.
    brought_news: bool,
    /// When the last own call of a tool began, in the open step.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_begun: Option<Millis>,
    /// Whether a call of the open step has waited.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    has_waited: bool,
}

impl Progress {
    pub(crate) fn new(needs: Needs) -> Self {
        Self {
            seen: needs.seen.then(Box::default),
            stale: needs.stale.then(Stale::default),
            ..Self::default()
        }
    }

    pub(crate) const fn repeats(&self) -> u64 {
        self.recent.repeats
    }

    pub(crate) fn cycles(&self) -> u64 {
        self.recent.cycles()
    }

    /// Steps in a row without news.
    pub(crate) const fn idle_steps(&self) -> u64 {
        self.no_progress
    }

    /// Stale steps of a hundred; 0 if the policy does not ask for it.
    pub(crate) fn stale_percent(&self) -> u64 {
        self.stale.as_ref().map_or(0, Stale::percent)
    }

    /// Whether a part of the steps was not checked.
    pub(crate) fn is_stale_unknown(&self) -> bool {
        self.stale.as_ref().is_some_and(Stale::is_unknown)
    }

    /// A user spoke: what comes now answers something else.
    pub(crate) fn user_message(&mut self) {
        self.recent = RecentResults::default();
        self.no_progress = 0;
        if let Some(stale) = &mut self.stale {
            stale.clear();
        }
        self.brought_news = true;
    }

    /// An own call of a tool has begun.
    pub(crate) fn begin_tool(&mut self, needs: Needs, at: Millis) {
        self.tool_begun = Some(at).filter(|_| needs.digests || needs.seen || needs.stale);
    }

    /// Records the result of an own call. One that has waited says nothing of progress.
    pub(crate) fn result(
        &mut self,
        needs: Needs,
        (tool, arguments, result): (&str, &str, &str),
        failed: bool,
        at: Millis,
    ) {
        let took = self.tool_begun.map_or(0, |begun| at.0.saturating_sub(begun.0));
        if !failed && took >= WAIT_MS {
            self.has_waited = true;
            return;
        }
        if let Some(stale) = &mut self.stale {
            stale.result(tool, arguments, result, failed);
        }
        if needs.digests || needs.seen {
            let digest = digest(tool, arguments, result);
            self.recent.push(digest);
            if let Some(seen) = &mut self.seen {
                self.brought_news |= seen.insert(digest);
            }
        }
    }

    /// The own step that was open is over.
    pub(crate) fn end_step(&mut self) {
        if let Some(stale) = &mut self.stale {
            stale.end_step();
        }
        self.tool_begun = None;
        let news = core::mem::take(&mut self.brought_news);
        if core::mem::take(&mut self.has_waited) && !news {
            return;
        }
        // Without the results, nothing is known of what was new.
        let is_idle = self.seen.is_some() && !news;
        self.no_progress = if is_idle { self.no_progress.saturating_add(1) } else { 0 };
    }

    /// Brings saved progress under another policy's needs, in a run that may have `begun`.
    pub(crate) fn fit(&mut self, needs: Needs, begun: bool) {
        self.recent.known = self.recent.known.min(CYCLE_PERIOD as u64);
        if self.seen.is_none() {
            self.no_progress = 0;
        }
        if needs.seen {
            self.seen.get_or_insert_default();
        } else {
            self.seen = None;
        }
        if needs.stale {
            self.stale.get_or_insert_with(|| Stale::unseen(begun));
        } else {
            self.stale = None;
        }
    }
}

/// Repeats and cycles of digests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RecentResults {
    /// The last digests, newest first.
    last: [u64; CYCLE_PERIOD],
    /// How many there have been since the run or the last user message began, up to [`CYCLE_PERIOD`].
    known: u64,
    /// Equal ones in a row beyond the first.
    repeats: u64,
    /// For each period from 2: how many digests in a row equal the one a period before.
    matched: [u64; CYCLE_PERIOD - 1],
}

impl RecentResults {
    fn push(&mut self, digest: u64) {
        let (known, last) = (self.known, self.last);
        let equal_at = |back: u64| {
            known >= back && last.iter().zip(1..).any(|(d, b)| b == back && *d == digest)
        };
        self.repeats = if equal_at(1) { self.repeats.saturating_add(1) } else { 0 };
        for (matched, period) in self.matched.iter_mut().zip(2u64..) {
            // A constant run has every period; it is repeats, not a cycle.
            let constant = self.repeats >= period;
            *matched = if equal_at(period) && !constant { matched.saturating_add(1) } else { 0 };
        }
        self.last.rotate_right(1);
        self.last[0] = digest;
        self.known = (self.known + 1).min(CYCLE_PERIOD as u64);
    }

    /// Whole repetitions of a period of 2 to 4 beyond the first.
    fn cycles(&self) -> u64 {
        let periods = self.matched.iter().zip(2u64..);
        periods.map(|(matched, period)| matched / period).max().unwrap_or(0)
    }
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
