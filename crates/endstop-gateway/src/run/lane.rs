//! Lanes: one conversation each, with a run of its own below the one that pays.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop::agent::driver::DrivenRun;
use endstop::core::event::EventKind;
use endstop::core::policy::{Policy, Program};
use endstop::core::probe::Probes;
use endstop::observe::Detail;
use endstop::store::RunId;

use super::{Memory, RunEntry};

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
    state: Mutex<LaneState>,
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

    fn new(
        group: String,
        is_main: bool,
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
        Self { group, is_main, agent, parent, state: Mutex::new(state) }
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
    /// The policy of every child: what is above limits it.
    free: Option<Arc<Program>>,
}

/// The run above does not let a child begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotBegun;

impl Lanes {
    pub(super) fn new(driven: DrivenRun) -> Self {
        let main = Lane::new(String::new(), true, "main".to_owned(), None, driven);
        let free = Policy { unbounded: true, ..Policy::default() };
        let free = Program::new(&free, &Probes::new()).ok().map(Arc::new);
        Self { all: vec![Arc::new(main)], uses: 0, bound: usize::MAX, begun: 0, free }
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
    ) -> Result<DrivenRun, NotBegun> {
        let depth = parent.info().depth.saturating_add(1);
        let begin = EventKind::ChildBegin { depth };
        if !parent.intend(&begin, Detail::Child { agent }).admits() {
            return Err(NotBegun);
        }
        self.begun = self.begun.saturating_add(1);
        let of_parent = parent.info().id.as_str();
        let id = RunId::parse(&format!("{of_parent}.{}", self.begun)).unwrap_or_default();
        let free = self.free.clone().ok_or(NotBegun)?;
        let child = parent.child(id, agent, free);
        child.begin();
        Ok(child)
    }

    pub(super) fn push(
        &mut self,
        group: &str,
        is_main: bool,
        agent: String,
        parent: Arc<Lane>,
        driven: DrivenRun,
    ) -> Arc<Lane> {
        let lane = Lane::new(group.to_owned(), is_main, agent, Some(parent), driven);
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

impl Drop for Seat {
    fn drop(&mut self) {
        self.lane.state().is_busy = false;
        self.run.calls.fetch_sub(1, Ordering::AcqRel);
        self.run.end_surplus();
        self.run.ring();
    }
}
