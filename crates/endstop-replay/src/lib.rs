//! Policies over recorded runs: which runs a policy would have stopped, what it would have saved, and which successes it
//! would have cost.
//!
//! An untested limit is a guess. Replay tests it on the runs that are already on disk, before it stops a live
//! one.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use endstop_core::Policy;
//! use endstop_price::PriceTable;
//! use endstop_replay::{Options, replay};
//! use endstop_transcript::sample;
//!
//! let policy = Policy::from_toml("[stop]\nusd = \"cost >= $0.10\"").unwrap();
//! let (outcomes, prices) = (BTreeMap::new(), PriceTable::embedded());
//! let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs: 0, as_live: false };
//! let report = replay(&sample(), &options, &|_| {})?;
//! assert!(report.runs > 0);
//! # Ok::<(), endstop_core::policy::PolicyError>(())
//! ```
//!
//! Start with [`replay`], [`Options`] and [`Report`]. [`compare`] tries many policies in one pass, [`suggest`] proposes
//! limits, and [`drift`] compares two sets of runs.
//!
//! # How it works
//!
//! Replay is a driver of the core like any other: a reader's events go into a [`Run`](endstop_core::Run), its directives
//! come out, and nothing is decided here. It makes one pass over the inputs, each on one thread. Policies that only stop
//! share one meter; every other policy follows the run separately. A large file whose format allows it is read in
//! pieces, on several threads, and its runs are put back in order. `docs/semantics.md` of the repository, section 2,
//! lists the differences to a live run.
//!
//! # Where next
//!
//! `docs/guide/find-limits.md` of the repository is the guide. The command is `endstop replay`. The minimum Rust version
//! is 1.95.

mod compare;
mod counterfactual;
mod drift;
mod limits;
mod money;
mod needs;
mod pieces;
mod policy_set;
mod recorder;
mod report;
mod suggest;
mod sweep;
mod usage;
mod wilson;

use std::collections::BTreeMap;
use std::sync::Arc;

use endstop_core::Policy;
use endstop_core::policy::PolicyError;
use rayon::prelude::*;

use endstop_price::PriceTable;
use endstop_transcript::{Transcript, Warning};
use limits::MAX_THREADS;
use pieces::{PIECE_BYTES, Pieces};
use policy_set::PolicySet;
use recorder::{Detail, Record, Recorded, Recorder};

pub use compare::{Comparison, Effect, compare};
pub use counterfactual::StopPoint;
pub use drift::{Baseline, BaselineError, Change, Figure, Group, Unit, drift};
pub use limits::{MAX_CANDIDATES, MAX_HEADROOM};
pub use report::{Outcomes, Report, RuleReport, RunReport, Unpriced, warning_json};
pub use suggest::{FOLDS, Proposed, SuggestedRule, Suggestion, suggest};
pub use sweep::{Candidate, Sweep, SweepError, candidates};
pub use usage::{KindUsage, ModelUsage, ToolUsage, Usage};
pub use wilson::Interval;

/// The settings of a replay.
///
/// See the example of [the crate](crate).
#[derive(Debug)]
pub struct Options<'a> {
    /// The policy; without rules, the runs are only counted.
    pub policy: &'a Policy,
    /// Known outcomes by run id; they win over what a transcript says of itself.
    pub outcomes: &'a BTreeMap<String, bool>,
    /// Prices for calls that carry no bill.
    pub prices: &'a PriceTable,
    /// Threads; 0 takes one per core.
    pub jobs: usize,
    /// Whether the reservations that an Endstop trace recorded count, so that money and token rules refuse a call by its
    /// worst case as they did live. Otherwise only spend counts, as in every other format.
    pub as_live: bool,
}

/// Replays a policy over `inputs`. `progress` is called from any thread with each input that is done.
///
/// The order of the report is that of the inputs, whatever the number of threads. Memory is bounded by
/// the largest single element of a document and by the report itself.
///
/// # Errors
/// Returns an error if the policy cannot be compiled.
pub fn replay(
    inputs: &[Transcript],
    options: &Options<'_>,
    progress: &Progress<'_>,
) -> Result<Report, PolicyError> {
    let policies = PolicySet::new([options.policy])?;
    let mut report = Report::new(options.policy);
    for record in record(inputs, &policies, options, Detail::Evidence, progress) {
        record.runs.into_iter().for_each(|run| report.add(run.report));
        report.usage.merge(&record.usage);
        report.warnings.extend(record.warnings);
    }
    Ok(report)
}

/// Called from any thread with each input that is done.
pub type Progress<'a> = dyn Fn(&Transcript) + Sync + 'a;

/// One pass over all inputs, on the requested number of threads; in the order of the inputs.
fn record(
    inputs: &[Transcript],
    policies: &PolicySet,
    options: &Options<'_>,
    detail: Detail,
    progress: &Progress<'_>,
) -> Vec<Record> {
    let read = |input: &Transcript, plan| {
        let mut recorder =
            Recorder::new(plan, options.outcomes, detail).with_reservations(options.as_live);
        input.read(options.prices, &mut recorder);
        recorder.finish()
    };
    let one = |input: &Transcript| {
        let plan = policies.plan(input.format);
        let found = read(input, Arc::clone(&plan));
        if found.is_exact {
            return found;
        }
        // A person let a run continue, which means something else to each policy.
        read(input, Arc::new(plan.individual()))
    };
    // 0 means one per core.
    let threads = options.jobs.min(MAX_THREADS);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    match pool {
        Ok(pool) => pool.install(|| record_in_pieces(inputs, PIECE_BYTES, one, progress)),
        // Without threads the work is the same, only slower.
        Err(_) => inputs.iter().map(|input| (one(input).of(input), progress(input)).0).collect(),
    }
}

/// All inputs in their order, each by `one` in pieces of at least `least` bytes where it is large, on the
/// threads of the pool that this is called in.
fn record_in_pieces(
    inputs: &[Transcript],
    least: u64,
    one: impl Fn(&Transcript) -> Record + Sync,
    progress: &Progress<'_>,
) -> Vec<Record> {
    let threads = rayon::current_num_threads();
    let inputs: Vec<Pieces<'_>> =
        inputs.par_iter().map(|input| Pieces::of(input, threads, least)).collect();
    let parts: Vec<(&Pieces<'_>, &Transcript)> = inputs
        .iter()
        .flat_map(|input| input.parts().iter().map(move |part| (input, part)))
        .collect();
    let read = |(input, part): &(&Pieces<'_>, &Transcript)| {
        let found = one(part);
        if input.part_is_read() {
            progress(input.whole);
        }
        found
    };
    let mut found = parts.par_iter().map(read).collect::<Vec<_>>().into_iter();
    let joined = |input: &Pieces<'_>| {
        let parts = found.by_ref().take(input.parts().len());
        input.join(parts).unwrap_or_else(|| one(input.whole)).of(input.whole)
    };
    inputs.iter().map(joined).collect()
}

/// The trip record of one run, as `endstop explain` shows it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The run.
    pub run: RunReport,
    /// The record at the stop, or at the end.
    pub trip_record: endstop_core::TripRecord,
    /// The act that the run's own limits refused when it was recorded, such as `step 4`, if nothing began after it: they
    /// stopped the run. Only Endstop traces record it.
    pub refused: Option<String>,
}

/// Replays one input and keeps the trip record of each run.
///
/// # Errors
/// Returns an error if the policy cannot be compiled.
pub fn explain(
    input: &Transcript,
    options: &Options<'_>,
) -> Result<(Vec<Explained>, Vec<Warning>), PolicyError> {
    let policies = PolicySet::new([options.policy])?;
    let mut recorder =
        Recorder::new(policies.plan(input.format), options.outcomes, Detail::TripRecords)
            .with_reservations(options.as_live);
    input.read(options.prices, &mut recorder);
    let record = recorder.finish().of(input);
    let explained = |run: Recorded| {
        let Recorded { report, trip_record, refused, .. } = run;
        Some(Explained { run: report, trip_record: trip_record?, refused })
    };
    Ok((record.runs.into_iter().filter_map(explained).collect(), record.warnings))
}
