//! The runs of a gateway.
//!
//! A run is a tree of [`DrivenRun`]s: the run itself, and one below it for each conversation beside the first.
//! All draw on one ledger; what is about the words and results of a conversation is told apart.

mod conversation;
mod held;
mod lane;
mod own;
mod pick;
mod prices;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop::agent::driver::DrivenRun;
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::observe::RunInfo;
use endstop::store::RunId;
use tokio::sync::Notify;

pub(crate) use conversation::{Identity, InputBound, Memory, Rolling};
pub(crate) use lane::{LaneState, Seat, Step, close_step};
pub(crate) use pick::NoSeat;
pub(crate) use prices::Prices;

use crate::config::{Config, Runs};
use lane::Lanes;

/// What came of the requests of a run, beside what its policy counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Model calls that were sent to an upstream, failed ones and retries included.
    pub upstream_calls: u64,
    /// Requests that the gateway answered itself because the run had stopped.
    pub stop_answers: u64,
    /// Requests that passed without being read.
    pub unmetered: u64,
    /// Model calls whose client went away before their end.
    pub client_disconnects: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) upstream_calls: AtomicU64,
    pub(crate) stop_answers: AtomicU64,
    pub(crate) unmetered: AtomicU64,
    pub(crate) client_disconnects: AtomicU64,
}

impl Counters {
    fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            upstream_calls: of(&self.upstream_calls),
            stop_answers: of(&self.stop_answers),
            unmetered: of(&self.unmetered),
            client_disconnects: of(&self.client_disconnects),
        }
    }
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One run.
#[derive(Debug)]
pub(crate) struct RunEntry {
    /// The run itself; the first conversation is its own.
    pub(crate) driven: DrivenRun,
    pub(crate) counters: Counters,
    lanes: Mutex<Lanes>,
    /// Model calls in flight.
    calls: AtomicUsize,
    /// Rung whenever the run may have stopped, paused or gone on.
    bell: Notify,
    /// Whether the clock of the run stands still for a pause.
    is_held: AtomicBool,
    is_end_told: AtomicBool,
    last_used: AtomicU64,
}

impl RunEntry {
    fn begin(id: RunId, config: &Config, model: &str, provider: &str) -> Self {
        let info = RunInfo {
            id,
            parent: None,
            agent: "main".to_owned(),
            model: model.to_owned(),
            provider: provider.to_owned(),
            depth: 0,
            is_resumed: false,
        };
        let driven = DrivenRun::root(info, Arc::clone(&config.program), config.around.clone());
        driven.checkpoint();
        driven.begin();
        let lanes = Mutex::new(Lanes::new(driven.clone()));
        Self {
            driven,
            counters: Counters::default(),
            lanes,
            calls: AtomicUsize::new(0),
            bell: Notify::new(),
            is_held: AtomicBool::new(false),
            is_end_told: AtomicBool::new(false),
            last_used: AtomicU64::new(0),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why every further call of the run gets a stop; none where it ended by itself, goes on or is paused.
    pub(crate) fn stop(&self) -> Option<StopSignal> {
        stop_of(&self.driven)
    }

    /// Whoever waits for a change looks again; whoever watches the run is told of its end, once nothing is in
    /// flight.
    pub(crate) fn ring(&self) {
        self.bell.notify_waiters();
        if self.calls.load(Ordering::Acquire) == 0 && self.stop().is_some() {
            self.tell_end();
        }
    }

    /// Tells observers of the end, once.
    pub(crate) fn tell_end(&self) {
        if !self.is_end_told.swap(true, Ordering::AcqRel) {
            self.end_children();
            self.driven.ended();
        }
    }

    /// Calls in flight.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counters.read()
    }
}

/// Why a run has stopped for good: for any reason but its own natural end.
pub(crate) fn stop_of(driven: &DrivenRun) -> Option<StopSignal> {
    driven.look(|run| {
        let is_over = matches!(run.status(), Status::Completed | Status::Stopped | Status::Failed);
        let signal = run.last_stop_signal().filter(|_| is_over)?;
        (signal.reason != StopReason::Completed).then(|| signal.clone())
    })
}

/// Every run that is known.
#[derive(Debug)]
pub(crate) struct Registry {
    config: Arc<Config>,
    runs: Mutex<HashMap<RunId, Arc<RunEntry>>>,
    /// Counts uses, to know the longest idle.
    uses: AtomicU64,
}

impl Registry {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let mut runs = HashMap::new();
        if let Runs::One(id) = &config.runs {
            let entry = RunEntry::begin(id.clone(), &config, "", "");
            runs.insert(id.clone(), Arc::new(entry));
        }
        Self { config, runs: Mutex::new(runs), uses: AtomicU64::new(0) }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<RunEntry>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run that is known.
    pub(crate) fn get(&self, id: &RunId) -> Option<Arc<RunEntry>> {
        self.runs().get(id).cloned()
    }

    /// All runs, in order of their ids.
    pub(crate) fn all(&self) -> Vec<Arc<RunEntry>> {
        let mut all: Vec<_> = self.runs().values().cloned().collect();
        all.sort_unstable_by(|a, b| a.driven.info().id.cmp(&b.driven.info().id));
        all
    }

    /// The run of this id, begun if it is new. None where there are too many, and all have calls in flight.
    pub(crate) fn get_or_begin(
        &self,
        id: &RunId,
        model: &str,
        provider: &str,
    ) -> Option<Arc<RunEntry>> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut runs = self.runs();
        if let Some(entry) = runs.get(id) {
            entry.last_used.store(now, Ordering::Relaxed);
            return Some(Arc::clone(entry));
        }
        let forgotten = if runs.len() >= self.config.bounds.runs.max(1) {
            let idle = longest_idle(&runs)?;
            runs.remove(&idle)
        } else {
            None
        };
        let entry = Arc::new(RunEntry::begin(id.clone(), &self.config, model, provider));
        entry.last_used.store(now, Ordering::Relaxed);
        runs.insert(id.clone(), Arc::clone(&entry));
        drop(runs);
        if let Some(forgotten) = forgotten {
            forgotten.tell_end();
        }
        Some(entry)
    }
}

/// The run that can be forgotten: the longest idle one of those that ended by themselves, else of those that
/// were stopped, else of the rest. One that is forgotten begins anew if it is named again.
fn longest_idle(runs: &HashMap<RunId, Arc<RunEntry>>) -> Option<RunId> {
    let idle = runs.iter().filter(|(_, run)| run.calls() == 0 && Arc::strong_count(run) == 1);
    let rank = |run: &RunEntry| match run.driven.status() {
        Status::Completed => 0u8,
        Status::Stopped | Status::Failed => 1,
        Status::Pending | Status::InProgress | Status::Paused => 2,
    };
    let first = idle.min_by_key(|(_, run)| (rank(run), run.last_used.load(Ordering::Relaxed)));
    first.map(|(id, _)| id.clone())
}
