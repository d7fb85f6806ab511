//! How a run ended, in a form that all drivers share.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use endstop::core::signal::StopReason;
use endstop::core::trip_record::NodeRecord;
use endstop::core::{TripRecord, Truth};
use endstop::observe::DryRunObserver;
use endstop::price::PriceTable;
use endstop::transcript::{Part, Transcript, format};
use endstop_replay::{Options, explain};

use crate::case::Case;

/// How a run ended: the step, the reason and the leaves that were met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) steps: u64,
    pub(crate) reason: StopReason,
    rule: Option<String>,
    terminated_by: Option<String>,
    /// Of the rules that trip; empty for a run that ended naturally.
    leaves: BTreeSet<String>,
}

impl Outcome {
    pub(crate) fn of(record: &TripRecord) -> Self {
        let reason = record.primary.as_ref().map_or(StopReason::Unknown, |signal| signal.reason);
        let mut leaves = BTreeSet::new();
        if reason != StopReason::Completed {
            for rule in record.rules.iter().filter(|rule| rule.trips) {
                add_leaves(&rule.id, &rule.tree, &mut leaves);
            }
        }
        Self {
            steps: record.steps,
            reason,
            rule: record.rule.clone(),
            terminated_by: record.terminated_by.clone(),
            leaves,
        }
    }

    /// The stop that a dry run found, otherwise `end`, the end of the run that it followed.
    pub(crate) fn of_dry_run(dry_run: &DryRunObserver, end: &Self) -> Self {
        dry_run.first_stop().map_or_else(|| end.clone(), |stop| Self::of(&stop.trip_record))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at step {}", self.reason, self.steps)?;
        if let Some(rule) = &self.rule {
            write!(f, " by {rule}, {}", self.terminated_by.as_deref().unwrap_or("-"))?;
        }
        write!(f, "; {:?}", self.leaves)
    }
}

/// Recursion is bounded by the depth of a generated condition.
fn add_leaves(rule: &str, node: &NodeRecord, leaves: &mut BTreeSet<String>) {
    if node.state != Truth::True {
        return;
    }
    let leaf = match (node.text.as_str(), node.parts.as_slice()) {
        ("and" | "or", parts) => {
            parts.iter().for_each(|part| add_leaves(rule, part, leaves));
            return;
        }
        ("not", [part]) => format!("{rule}: not {}", part.text),
        (text, _) => format!("{rule}: {text}"),
    };
    leaves.insert(leaf);
}

/// A live run: its outcome, that of a dry run of another policy, and its trace.
pub(crate) struct Live {
    pub(crate) outcome: Outcome,
    pub(crate) dry_run: Option<Outcome>,
    pub(crate) trace: Vec<u8>,
}

/// A buffer that every clone writes to.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The outcome of the case's policy over a trace.
pub(crate) fn replayed(case: &Case, trace: &[u8], as_live: bool) -> Outcome {
    let main = Part::bytes("run.jsonl", trace.to_vec());
    let transcript = Transcript { format: format("endstop").unwrap(), main, children: Vec::new() };
    let (policy, outcomes) = (case.policy(), std::collections::BTreeMap::new());
    let prices = PriceTable::embedded();
    let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs: 1, as_live };
    let (runs, warnings) = explain(&transcript, &options).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let [run] = runs.as_slice() else { panic!("{} runs in a trace", runs.len()) };
    assert!(run.run.not_testable.is_empty(), "{:?}", run.run.not_testable);
    Outcome::of(&run.trip_record)
}
