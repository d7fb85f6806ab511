//! An input in pieces, so that one large file keeps every thread busy; and what they held, put together as
//! if it had been read as a whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};

use endstop_core::units::Money;
use rayon::prelude::*;

use super::recorder::Record;
use endstop_transcript::{Transcript, Warning, WarningKind};

/// The smallest piece worth reading separately: a few milliseconds.
pub(super) const PIECE_BYTES: u64 = 8 << 20;

/// Pieces for each thread: runs differ, and the last piece should not keep the others waiting for long.
const PIECES_A_THREAD: u64 = 4;

/// An input, and what it is read as.
#[derive(Debug)]
pub(super) struct Pieces<'t> {
    pub(super) whole: &'t Transcript,
    /// In order; empty if it is read in one go.
    pieces: Vec<Transcript>,
    left: AtomicUsize,
}

impl<'t> Pieces<'t> {
    /// Takes `whole` apart for that many threads, into pieces of at least that many bytes.
    pub(super) fn of(whole: &'t Transcript, threads: usize, least: u64) -> Self {
        let pieces = pieces_of(whole, threads, least);
        let left = AtomicUsize::new(pieces.len().max(1));
        Self { whole, pieces, left }
    }

    /// What to read, in order.
    pub(super) fn parts(&self) -> &[Transcript] {
        match self.pieces.as_slice() {
            [] => std::slice::from_ref(self.whole),
            pieces => pieces,
        }
    }

    /// To be called once a part is read; true when it was the last.
    pub(super) fn part_is_read(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The record of the whole, from the records of its parts in their order. `None` if only the whole can give it.
    pub(super) fn join(&self, parts: impl Iterator<Item = Record>) -> Option<Record> {
        let mut parts = parts;
        let mut joined = parts.next()?;
        let mut warnings = vec![std::mem::take(&mut joined.warnings)];
        for part in parts {
            joined.runs.extend(part.runs);
            joined.usage.merge(&part.usage);
            joined.is_exact &= part.is_exact;
            warnings.push(part.warnings);
        }
        joined.warnings = self.warnings(warnings);
        (self.pieces.is_empty() || is_certain(&joined)).then_some(joined)
    }

    /// One for each file and kind, with the line of the whole that it was first seen on.
    pub(super) fn warnings(&self, mut by_part: Vec<Vec<Warning>>) -> Vec<Warning> {
        if by_part.len() == 1 {
            return by_part.pop().unwrap_or_default();
        }
        let mut joined: BTreeMap<(String, WarningKind), Warning> = BTreeMap::new();
        for (index, warnings) in by_part.into_iter().enumerate() {
            let mut before = None;
            for mut warning in warnings {
                match joined.entry((warning.file.clone(), warning.kind)) {
                    Entry::Occupied(mut known) => {
                        let count = &mut known.get_mut().count;
                        *count = count.saturating_add(warning.count);
                    }
                    Entry::Vacant(new) => {
                        warning.line = warning.line.and_then(|line| {
                            let before = *before.get_or_insert_with(|| self.lines_before(index));
                            Some(line.saturating_add(before?))
                        });
                        new.insert(warning);
                    }
                }
            }
        }
        joined.into_values().collect()
    }

    /// The lines of the parts before the one at `index`; `None` if these can no longer be read.
    fn lines_before(&self, index: usize) -> Option<u64> {
        let before = self.parts().get(..index)?;
        before.par_iter().map(|part| part.main.line_feeds().ok()).sum()
    }
}

/// Whether the usage is the same in any order of addition: of too many names the first are distinguished, and amounts
/// that money cannot hold are left out.
fn is_certain(record: &Record) -> bool {
    let costs = record.runs.iter().map(|run| run.report.known_cost);
    let total = costs.into_iter().try_fold(Money::ZERO, Money::checked_add);
    // One amount is at most half of what money can hold, so a run that left one out has more than the rest.
    let has_room = total.is_some_and(|total| total.checked_add(total).is_some());
    has_room && !record.usage.is_full()
}

fn pieces_of(whole: &Transcript, threads: usize, least: u64) -> Vec<Transcript> {
    let length = whole.main.length().filter(|_| threads > 1 && whole.children.is_empty());
    let Some(length) = length.filter(|length| *length > least) else { return Vec::new() };
    let wanted = u64::try_from(threads).unwrap_or(u64::MAX).saturating_mul(PIECES_A_THREAD);
    let about = length.div_ceil(wanted.max(1)).max(least);
    let pieces = whole.format.pieces(&whole.main, about).into_iter();
    let transcript = |main| Transcript { format: whole.format, main, children: Vec::new() };
    pieces.map(transcript).collect()
}

#[cfg(test)]
mod tests;
