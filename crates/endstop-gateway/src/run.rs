//! The runs of a gateway.
//!
//! A run is a tree of [`DrivenRun`]s: the run itself, and one below it for each conversation beside the first.
//! All draw on one ledger; what is about the words and results of a conversation is told apart.

mod answers;
mod conversation;
mod held;
mod keep;
mod lane;
mod own;
mod pick;
mod prices;
mod registry;
mod stuck;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop::agent::driver::DrivenRun;
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::observe::{Observer, RunInfo};
use endstop::store::RunId;
use tokio::sync::Notify;

pub(crate) use answers::Answers;
pub(crate) use conversation::{Identity, InputBound, Memory, Rolling};
pub(crate) use lane::{LaneState, Seat, Step, close_step};
pub(crate) use pick::NoSeat;
pub(crate) use prices::Prices;
pub(crate) use registry::{NoRun, Registry};
pub(crate) use stuck::{Reading, Waiting};

use crate::config::Config;
use keep::{Keep, Trail};
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
    /// Requests that were refused although the run goes on: what they cost cannot be bounded.
    pub refused: u64,
    /// Model calls that an upstream did not answer, or not with success.
    pub failed_calls: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) upstream_calls: AtomicU64,
    pub(crate) stop_answers: AtomicU64,
    pub(crate) unmetered: AtomicU64,
    pub(crate) client_disconnects: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed_calls: AtomicU64,
}

impl Counters {
    fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            upstream_calls: of(&self.upstream_calls),
            stop_answers: of(&self.stop_answers),
            unmetered: of(&self.unmetered),
            client_disconnects: of(&self.client_disconnects),
            refused: of(&self.refused),
            failed_calls: of(&self.failed_calls),
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
    /// What a request may go on from.
    pub(crate) answers: Answers,
    /// Where its events are written, if it is kept.
    trail: Option<Arc<Trail>>,
    is_unkept_told: AtomicBool,
    lanes: Mutex<Lanes>,
    /// Model calls in flight.
    calls: AtomicUsize,
    /// Those of them that wait for others, and the streams whose client does not read what it was given.
    waiting: AtomicUsize,
    unread: AtomicUsize,
    /// Rises whenever a client reads on.
    reads: AtomicU64,
    /// Rung whenever the run may have stopped, paused or gone on.
    bell: Notify,
    /// Whether the clock of the run stands still for a pause.
    is_held: AtomicBool,
    is_end_told: AtomicBool,
    last_used: AtomicU64,
}

impl RunEntry {
    /// Begins a run, or goes on with one that is kept.
    fn open(
        id: RunId,
        config: &Config,
        keep: Option<&Keep>,
        model: &str,
        provider: &str,
    ) -> Result<Self, String> {
        let mut info = RunInfo {
            id,
            parent: None,
            agent: "main".to_owned(),
            model: model.to_owned(),
            provider: provider.to_owned(),
            depth: 0,
            is_resumed: false,
        };
        let program = Arc::clone(&config.program);
        let mut around = config.around.clone();
        let kept = keep.map(|keep| keep.trail(&info, &program)).transpose()?;
        let (trail, replayed) = kept.map_or((None, None), |(trail, before)| (Some(trail), before));
        let trail = trail.map(Arc::new);
        if let Some(trail) = &trail {
            around.observers.push(Arc::clone(trail) as Arc<dyn Observer>);
        }
        info.is_resumed = replayed.is_some();
        let driven = match replayed {
            Some(replayed) => DrivenRun::replayed(info, replayed, around),
            None => DrivenRun::root(info, program, around),
        };
        driven.checkpoint();
        if driven.status() == Status::Pending {
            driven.begin();
        }
        let lanes = Mutex::new(Lanes::new(driven.clone()));
        Ok(Self {
            driven,
            trail,
            is_unkept_told: AtomicBool::new(false),
            counters: Counters::default(),
            answers: Answers::default(),
            lanes,
            calls: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
            bell: Notify::new(),
            is_held: AtomicBool::new(false),
            is_end_told: AtomicBool::new(false),
            last_used: AtomicU64::new(0),
        })
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why every further call of the run gets a stop; none where it ended by itself, goes on or is paused.
    pub(crate) fn stop(&self) -> Option<StopSignal> {
        stop_of(&self.driven).or_else(|| self.trail.as_ref()?.problem().map(|why| unkept(&why)))
    }

    /// Writes what is not written yet of the run, if it is kept. False where that fails: then the run has stopped,
    /// for nothing may go on that would be forgotten.
    pub(crate) fn keep(&self) -> bool {
        let Some(trail) = &self.trail else { return true };
        let Err(why) = trail.flush() else { return true };
        if !self.is_unkept_told.swap(true, Ordering::AcqRel) {
            self.driven.raise(&unkept(&why));
        }
        false
    }

    /// Whoever waits for a change looks again; whoever watches the run is told of its end, once nothing is in
    /// flight.
    pub(crate) fn ring(&self) {
        self.keep();
        self.bell.notify_waiters();
        if self.calls.load(Ordering::Acquire) == 0 && self.stop().is_some() {
            self.tell_end();
        }
    }

    /// Resolves when the bell is next rung after this: at the end of a call, or where the run's state may have
    /// changed.
    pub(crate) fn rung(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }

    /// Tells observers of the end, once.
    pub(crate) fn tell_end(&self) {
        if !self.is_end_told.swap(true, Ordering::AcqRel) {
            self.end_children();
            self.driven.ended();
            self.keep();
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

/// What stops a run whose events cannot be written.
fn unkept(why: &str) -> StopSignal {
    StopSignal::new(StopReason::ErrorForbade)
        .with_message(format!("the run cannot be kept: {why}"))
        .with_source("gateway")
}

/// Why a run has stopped for good: for any reason but its own natural end.
pub(crate) fn stop_of(driven: &DrivenRun) -> Option<StopSignal> {
    driven.look(|run| {
        let is_over = matches!(run.status(), Status::Completed | Status::Stopped | Status::Failed);
        let signal = run.last_stop_signal().filter(|_| is_over)?;
        (signal.reason != StopReason::Completed).then(|| signal.clone())
    })
}
