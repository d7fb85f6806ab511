//! Records of many runs in one file, in any order: a first pass finds where each run ends, so that the
//! second holds only the runs that are open and lets each go at its last record.

use std::collections::{BTreeMap, HashMap};

use xxhash_rust::xxh3::xxh3_64;

/// Where the runs of a file end. The first pass notes every record's run, the second asks in the same order.
///
/// Runs are known by digests, so that a file of a gigabyte takes some 20 bytes for each of its runs.
#[derive(Debug, Default)]
pub(super) struct RunEnds {
    last: HashMap<u64, u64>,
    noted: u64,
    asked: u64,
}

impl RunEnds {
    /// The next record is of this run.
    pub(super) fn note(&mut self, run: &str) {
        self.noted += 1;
        self.last.insert(xxh3_64(run.as_bytes()), self.noted);
    }

    /// Whether the next record is the last of this run.
    pub(super) fn is_last(&mut self, run: &str) -> bool {
        self.asked += 1;
        self.last.get(&xxh3_64(run.as_bytes())) == Some(&self.asked)
    }
}

/// What is held of the runs that are open.
#[derive(Debug)]
pub(super) struct OpenRuns<T> {
    runs: BTreeMap<String, Held<T>>,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct Held<T> {
    records: Vec<T>,
    bytes: usize,
}

impl<T> OpenRuns<T> {
    pub(super) const fn new(limit: usize) -> Self {
        Self { runs: BTreeMap::new(), bytes: 0, limit }
    }

    /// Holds a record of that many bytes. False, and it is dropped, where that is more than is held at once.
    pub(super) fn add(&mut self, run: &str, record: T, bytes: usize) -> bool {
        if self.bytes.saturating_add(bytes) > self.limit {
            return false;
        }
        self.bytes += bytes;
        let held = match self.runs.get_mut(run) {
            Some(held) => held,
            None => {
                let held = Held { records: Vec::new(), bytes: 0 };
                self.runs.entry(run.to_owned()).or_insert(held)
            }
        };
        held.bytes += bytes;
        held.records.push(record);
        true
    }

    /// The records of a run, in their order in the file; it is no longer held.
    pub(super) fn close(&mut self, run: &str) -> Vec<T> {
        let Some(held) = self.runs.remove(run) else { return Vec::new() };
        self.bytes -= held.bytes;
        held.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_let_go_at_its_last_record() {
        let records = ["a", "b", "a", "c", "b"];
        let mut ends = RunEnds::default();
        records.iter().for_each(|run| ends.note(run));
        let mut open = OpenRuns::new(10);
        let mut closed = Vec::new();
        for (index, run) in records.iter().enumerate() {
            assert!(open.add(run, index, 2));
            if ends.is_last(run) {
                closed.push((*run, open.close(run)));
            }
        }
        assert_eq!(closed, [("a", vec![0, 2]), ("c", vec![3]), ("b", vec![1, 4])]);
        assert_eq!(open.bytes, 0);
        assert!(!open.add("d", 5, 11));
    }
}
