//! Replay: a policy over recorded runs. What it would have stopped, what that would have saved, and which
//! successes it would have cost.
//!
//! Replay is a driver of the core like any other: the reader's events go into a [`Run`], its directives
//! come out. Nothing is decided here.

mod needs;
mod recorder;
mod report;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use endstop_core::Policy;
use endstop_core::policy::PolicyError;
use endstop_core::probe::Probes;
use rayon::prelude::*;

use crate::import::{Transcript, Warning};
use crate::price::PriceTable;
use needs::Programs;
use recorder::Recorder;
pub use report::{Outcomes, Report, RuleReport, RunReport};

/// What to replay with.
#[derive(Debug)]
pub struct Options<'a> {
    /// The policy; without rules, the runs are only counted.
    pub policy: &'a Policy,
    /// Known outcomes by run id; they win over what a transcript says of itself.
    pub outcomes: &'a BTreeMap<String, bool>,
    /// Prices for calls that carry no bill.
    pub prices: &'a PriceTable,
    /// Threads; 0 takes one a core.
    pub jobs: usize,
}

/// Replays a policy over `inputs`. `progress` is called from any thread with each input that is done.
///
/// The order of the report is that of the inputs, whatever the number of threads. Memory is bounded by
/// the largest single document and by the report itself.
///
/// # Errors
/// If the policy cannot be compiled.
pub fn replay(
    inputs: &[Transcript],
    options: &Options<'_>,
    progress: &(dyn Fn(&Transcript) + Sync),
) -> Result<Report, PolicyError> {
    let programs = Programs::new(options.policy, &Probes::new())?;
    let one = |input: &Transcript| {
        let mut recorder = Recorder::new(&programs, input.format, options.outcomes);
        input.read(options.prices, &mut recorder);
        progress(input);
        recorder.finish()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build();
    let parts: Vec<(Vec<RunReport>, Vec<Warning>)> = match pool {
        Ok(pool) => pool.install(|| inputs.par_iter().map(one).collect()),
        // Without threads the work is the same, only slower.
        Err(_) => inputs.iter().map(one).collect(),
    };
    let mut report = Report::new(options.policy);
    for (runs, warnings) in parts {
        runs.into_iter().for_each(|run| report.add(run));
        report.warnings.extend(warnings);
    }
    Ok(report)
}

/// The trip record of one run, as `endstop explain` shows it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The run.
    pub run: RunReport,
    /// The record at the stop, or at the end.
    pub verdict: endstop_core::Verdict,
}

/// Replays one input and keeps the trip record of each run.
///
/// # Errors
/// If the policy cannot be compiled.
pub fn explain(
    input: &Transcript,
    options: &Options<'_>,
) -> Result<(Vec<Explained>, Vec<Warning>), PolicyError> {
    let programs = Programs::new(options.policy, &Probes::new())?;
    let kept = Mutex::new(Vec::new());
    let keep = |run: &RunReport, verdict: endstop_core::Verdict| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Explained { run: run.clone(), verdict });
    };
    let mut recorder = Recorder::new(&programs, input.format, options.outcomes).keeping(&keep);
    input.read(options.prices, &mut recorder);
    let (_, warnings) = recorder.finish();
    Ok((kept.into_inner().unwrap_or_else(PoisonError::into_inner), warnings))
}
