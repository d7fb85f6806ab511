//! Lanes: one conversation each, with a run of its own below the one that pays.
//!
//! A lane that a request names is a sub-agent's, and announced as one. One that is only told apart by what is
//! in it is a sibling of the first: nobody is told of a sub-agent, and what stops it stops the run above.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop::agent::driver::DrivenRun;
use endstop::core::event::EventKind;
use endstop::core::policy::Program;
use endstop::core::signal::StopReason;
use endstop::observe::Detail;
use endstop::store::RunId;

use super::{Memory, RunEntry, own, stop_of};

/// Where the lane's step stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    /// None is open.
    #[default]
    Closed,
    /// It has its reply, and waits for the results of tools.
    Replied,
    /// It has no reply yet: a request with this body is one more attempt of it.
    Asking {
        /// Of the request's body.
        digest: u64,
        /// Attempts begun.
        attempts: u32,
        /// Whether it is the wrap-up.
        is_wrap_up: bool,
    },
}

/// One conversation.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The path of the child that it belongs to; empty for the run itself.
    pub(super) group: String,
    /// Whether it is the first of its group, which lasts as long as the run.
    pub(super) is_main: bool,
    pub(super) agent: String,
    /// The lane whose run this one's is below; none for the run itself.
    pub(super) parent: Option<Arc<Lane>>,
    /// Whether a request named it; else its parent is its first sibling.
    pub(super) kind: Kind,
    state: Mutex<LaneState>,
}

/// Whose conversation a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// That of the run itself, or of a sub-agent that a request named.
    Named,
    /// One beside it.
    Sibling,
}

/// What changes in a lane.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) driven: DrivenRun,
    pub(crate) step: Step,
    pub(crate) memory: Memory,
    pub(super) is_busy: bool,
    pub(super) used: u64,
}

impl Lane {
    pub(crate) fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    /// What stops a sibling stops what both belong to, unless it only could not begin something just then.
    pub(crate) fn stop_siblings(&self) {
        let Some(first) = self.parent.as_ref().filter(|_| self.kind == Kind::Sibling) else {
            return;
        };
        let own = self.state().driven.clone();
        let above = first.state().driven.clone();
        let signal = stop_of(&own).filter(|signal| signal.reason != StopReason::StopRequested);
        if let Some(signal) = signal.filter(|_| stop_of(&above).is_none()) {
            above.raise(&signal);
        }
    }

    fn new(
        group: String,
        kind: Kind,
        agent: String,
        parent: Option<Arc<Self>>,
        driven: DrivenRun,
    ) -> Self {
        let state = LaneState {
            driven,
            step: Step::Closed,
            memory: Memory::default(),
            is_busy: false,
            used: 0,
        };
        let is_main = kind == Kind::Named;
        Self { group, is_main, agent, parent, kind, state: Mutex::new(state) }
    }
}

/// The lanes of a run, that of the run itself first.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) all: Vec<Arc<Lane>>,
    pub(super) uses: u64,
    /// Lanes beyond which idle ones are ended.
    pub(super) bound: usize,
    /// Children begun, for their names.
    begun: u64,
    /// The policy of every child: what is its own of the run's. What is above limits the rest.
    own: Option<Arc<Program>>,
}

/// The run above does not let a child begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotBegun;

impl Lanes {
    pub(super) fn new(driven: DrivenRun) -> Self {
        let own = own::program(driven.look(|run| Arc::clone(run.program())).policy());
        let main = Lane::new(String::new(), Kind::Named, "main".to_owned(), None, driven);
        Self { all: vec![Arc::new(main)], uses: 0, bound: usize::MAX, begun: 0, own }
    }

    /// The number of the next child.
    pub(super) const fn count_child(&self) -> u64 {
        self.begun.saturating_add(1)
    }

    /// Begins a run below another, if all above let it.
    pub(super) fn begin_child(
        &mut self,
        parent: &DrivenRun,
        agent: &str,
        kind: Kind,
    ) -> Result<DrivenRun, NotBegun> {
        let depth = parent.info().depth.saturating_add(1);
        let begin = EventKind::ChildBegin { depth };
        if kind == Kind::Named && !parent.intend(&begin, Detail::Child { agent }).admits() {
            return Err(NotBegun);
        }
        self.begun = self.begun.saturating_add(1);
        let of_parent = parent.info().id.as_str();
        let id = RunId::parse(&format!("{of_parent}.{}", self.begun)).unwrap_or_default();
        let own = self.own.clone().ok_or(NotBegun)?;
        let child = parent.child(id, agent, own);
        child.begin();
        Ok(child)
    }

    pub(super) fn push(
        &mut self,
        group: &str,
        kind: Kind,
        agent: String,
        parent: Arc<Lane>,
        driven: DrivenRun,
    ) -> Arc<Lane> {
        let lane = Lane::new(group.to_owned(), kind, agent, Some(parent), driven);
        let lane = Arc::new(lane);
        self.all.push(Arc::clone(&lane));
        lane
    }
}

/// Tells the run above that a child has ended.
pub(super) fn end_child(lane: &Lane) {
    let Some(parent) = &lane.parent else { return };
    let driven = lane.state().driven.clone();
    close_step(&mut lane.state());
    driven.ended();
    if lane.kind == Kind::Sibling {
        return;
    }
    let above = parent.state().driven.clone();
    above.tell(&EventKind::ChildEnd, Detail::Child { agent: &lane.agent });
}

/// Ends the open step of a lane.
pub(crate) fn close_step(state: &mut LaneState) {
    if state.step != Step::Closed {
        state.step = Step::Closed;
        state.driven.tell(&EventKind::StepEnd, Detail::None);
    }
}

/// A call's place in its lane; the lane takes the next call when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) run: Arc<RunEntry>,
    pub(crate) lane: Arc<Lane>,
}

impl Seat {
    /// Where the run is about to answer with what it has, a sibling's call is that answer: it takes the place
    /// of the first, unless that has a call in flight. The sibling's own state is left as it is.
    pub(crate) fn first_to_wrap_up(&self) -> Option<Arc<Lane>> {
        let first = self.lane.parent.as_ref().filter(|_| self.lane.kind == Kind::Sibling)?;
        // Lanes are given under this lock.
        let _giving = self.run.lanes();
        let mut state = first.state();
        let is_asking = matches!(state.step, Step::Asking { .. });
        if state.is_busy || is_asking || !state.driven.awaits_wrap_up() {
            return None;
        }
        state.is_busy = true;
        drop(state);
        Some(Arc::clone(first))
    }

    /// Takes a place that was kept by [`Self::first_to_wrap_up`], and leaves its own.
    pub(crate) fn move_to(&mut self, lane: Arc<Lane>) {
        let left = std::mem::replace(&mut self.lane, lane);
        left.state().is_busy = false;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lane.stop_siblings();
        self.lane.state().is_busy = false;
        self.run.calls.fetch_sub(1, Ordering::AcqRel);
        self.run.end_surplus();
        self.run.ring();
    }
}
