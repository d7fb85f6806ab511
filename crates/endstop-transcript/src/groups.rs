//! Records of many runs in one file, in any order: a first pass finds where each run ends, so that the
//! second holds only the runs that are open and lets each go at its last record.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::limits::MAX_HELD_BYTES;
use super::reading::Reading;
use super::text::Text;
use super::warning::{WarningKind, Warnings};

/// Where the runs of a file end. The first pass notes every record's run, the second asks in the same order.
///
/// Runs are known by digests, so that a file of a gigabyte takes about 30 bytes for each of its runs. A hash table would take up to
/// 60 while it grows.
#[derive(Debug, Default)]
struct RunEnds {
    last: BTreeMap<u64, u64>,
    noted: u64,
    asked: u64,
}

impl RunEnds {
    /// The next record is of this run.
    fn note(&mut self, run: &str) {
        self.noted += 1;
        self.last.insert(xxh3_64(run.as_bytes()), self.noted);
    }

    /// Whether the next record is the last of this run.
    fn is_last(&mut self, run: &str) -> bool {
        self.asked += 1;
        self.last.get(&xxh3_64(run.as_bytes())) == Some(&self.asked)
    }
}

/// The held records of the open runs.
#[derive(Debug)]
struct OpenRuns<T> {
    runs: BTreeMap<String, RunRecords<T>>,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct RunRecords<T> {
    records: Vec<T>,
    bytes: usize,
}

impl<T> OpenRuns<T> {
    const fn new(limit: usize) -> Self {
        Self { runs: BTreeMap::new(), bytes: 0, limit }
    }

    /// Holds a record of that many bytes. Returns `false` and drops it if that exceeds the bytes held at one time.
    fn add(&mut self, run: &str, record: T, bytes: usize) -> bool {
        if self.bytes.saturating_add(bytes) > self.limit {
            return false;
        }
        self.bytes += bytes;
        let held = match self.runs.get_mut(run) {
            Some(held) => held,
            None => {
                let held = RunRecords { records: Vec::new(), bytes: 0 };
                self.runs.entry(run.to_owned()).or_insert(held)
            }
        };
        held.bytes += bytes;
        held.records.push(record);
        true
    }

    /// The records of a run, in their order in the file; it is no longer held.
    fn close(&mut self, run: &str) -> Vec<T> {
        let Some(held) = self.runs.remove(run) else { return Vec::new() };
        self.bytes -= held.bytes;
        held.records
    }
}

/// Hands over the records of a file, one after the other.
type EachRecord<'g> = dyn Fn(Reading<'_>, &mut dyn FnMut(&RawValue)) + 'g;

/// How the records of many runs in one file are read.
pub(super) struct Grouped<'g, T> {
    /// Hands over the records of the file.
    pub(super) each: &'g EachRecord<'g>,
    /// The run that a record belongs to.
    pub(super) run_of: fn(&RawValue) -> Option<Text<'_>>,
    /// Reads a record; `None` if it holds nothing that counts.
    pub(super) record: fn(&RawValue) -> Result<Option<T>, serde_json::Error>,
    /// The names of a record and of the runs in warnings.
    pub(super) words: (&'static str, &'static str),
    /// The warning of a record without a run; `None` if it is a line of another kind.
    pub(super) nameless: Option<&'static str>,
}

impl<T> Grouped<'_, T> {
    /// Hands over the records of each run, in their order in the file, where its last record is.
    pub(super) fn read(&self, reading: Reading<'_>, take: &mut dyn FnMut(&str, Vec<T>)) {
        let (record_word, runs_word) = self.words;
        let mut ends = RunEnds::default();
        // The second pass gives the warnings.
        let discarded = Warnings::default();
        (self.each)(reading.telling(&discarded), &mut |raw| {
            if let Some(run) = (self.run_of)(raw) {
                ends.note(&run);
            }
        });
        let mut open = OpenRuns::new(MAX_HELD_BYTES);
        (self.each)(reading, &mut |raw| {
            let Some(run) = (self.run_of)(raw) else {
                if let Some(warning) = self.nameless {
                    reading.warn(WarningKind::Malformed, || warning.to_owned());
                }
                return;
            };
            match (self.record)(raw) {
                Ok(Some(record)) => {
                    if !open.add(&run, record, raw.get().len()) {
                        reading.warn(WarningKind::TooLarge, || {
                            format!("the {runs_word} that are open at once hold more than is kept")
                        });
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    reading.warn(WarningKind::Malformed, || format!("not {record_word}: {error}"));
                }
            }
            if ends.is_last(&run) {
                take(&run, open.close(&run));
            }
        });
    }
}

#[cfg(test)]
mod tests;
