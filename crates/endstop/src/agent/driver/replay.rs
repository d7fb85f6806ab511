//! A driven run that goes on from its recorded events.

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::event::{Event, EventKind};
use endstop_core::run::Run;
use endstop_core::units::{Cost, Money, TokenUsage};
use endstop_core::wire::v1::trace::Line;

use super::super::ask::settled;
use super::super::resume::Tail;
use super::{DrivenRun, Surroundings};
use crate::observe::{Doubts, RunInfo};
use endstop_runtime::ledger::{Amounts, Limits};

/// Takes in the events that were recorded of a root run, in their order, under today's policy.
///
/// What the dead process had begun is brought to an end by [`Replay::finish`]: a model request that was sent and
/// not settled is charged as a failed attempt. Its money is its worst case, which every attempt announces; its
/// tokens are the reservation, and where none was recorded (nothing limited tokens or money) those of the last
/// attempt that was settled, as an estimate.
#[derive(Debug)]
pub struct Replay {
    run: Run,
    tail: Tail,
    spent: Amounts,
    doubts: Doubts,
    is_held: bool,
    is_approved: bool,
}

/// A run whose events were taken in, with nothing open.
#[derive(Debug)]
pub struct Replayed {
    run: Run,
    usage: TokenUsage,
    doubts: Doubts,
    is_approved: bool,
    spent: Amounts,
    added: Vec<Event<'static>>,
}

impl Replay {
    /// Nothing is taken in yet.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Self {
            run: Run::new(program),
            tail: Tail::default(),
            spent: Amounts::ZERO,
            doubts: Doubts::default(),
            is_held: false,
            is_approved: false,
        }
    }

    /// Takes in the next line: what did not begin then does not begin now either, whatever today's policy says.
    pub fn take(&mut self, line: &Line<'_>) {
        let event = line.as_event();
        if !(line.refused && self.run.would(&event).admits()) {
            self.observe(&event);
            if line.estimate && matches!(event.kind, EventKind::Reply { .. }) {
                self.doubts.estimated = self.doubts.estimated.saturating_add(1);
            }
        }
    }

    /// Takes in the next event.
    pub fn observe(&mut self, event: &Event<'_>) {
        let directive = self.run.observe(event);
        self.tail.note(event, directive);
        self.doubt(&event.kind);
        match &event.kind {
            EventKind::Reply { usage, cost, .. } | EventKind::AttemptFailed { usage, cost } => {
                self.settle(*usage, *cost);
                self.tail.last_usage = usage.or(self.tail.last_usage);
            }
            EventKind::Paused => self.is_held = true,
            EventKind::Resumed => self.is_held = false,
            EventKind::Approved { .. } => self.is_approved = true,
            _ => {}
        }
    }

    /// What a failed request has used is told by nobody.
    fn doubt(&mut self, kind: &EventKind<'_>) {
        let is_estimate = matches!(kind, EventKind::AttemptFailed { usage: Some(_), .. });
        self.doubts.take(kind, is_estimate);
    }

    /// Counts as the ledger did while the run was live.
    fn settle(&mut self, usage: Option<TokenUsage>, cost: Option<Cost>) {
        let unpriced = self.run.program().policy().unpriced();
        let cost = cost.unwrap_or(Cost::Known(Money::ZERO));
        let amounts = settled(&usage.unwrap_or_default(), cost, unpriced);
        self.spent = self.spent.saturating_add(&amounts);
    }

    /// Ends what is open, and the pause of a process that is no more.
    #[must_use]
    pub fn finish(mut self) -> Replayed {
        let mut added = self.tail.close(&mut self.run);
        for event in &added {
            if let EventKind::AttemptFailed { usage, cost } = &event.kind {
                self.settle(*usage, *cost);
                self.doubt(&event.kind);
            }
        }
        if self.is_held {
            let (at, wall) = self.tail.last_time(&self.run);
            let event = Event { wall, ..Event::new(at, EventKind::Resumed) };
            self.run.observe(&event);
            added.push(event);
        }
        let reading = |gauge: &str| self.run.reading(gauge).unwrap_or(0);
        let spent =
            Amounts { steps: reading("steps"), tool_calls: reading("tool_calls"), ..self.spent };
        Replayed {
            usage: self.tail.usage,
            doubts: self.doubts,
            is_approved: self.is_approved,
            spent,
            added,
            run: self.run,
        }
    }
}

impl Replayed {
    /// What ended what was open: to be added to the record, so that it is charged once.
    #[must_use]
    pub fn added(&self) -> &[Event<'static>] {
        &self.added
    }

    /// What the run has spent, as the ledger counts it.
    #[must_use]
    pub const fn spent(&self) -> Amounts {
        self.spent
    }
}

impl DrivenRun {
    /// A root run that goes on from its recorded events: counters, money and a stop for good as they were. The
    /// budgets above are not charged: what was spent before they were there is for their owner to bring in.
    #[must_use]
    pub fn replayed(info: RunInfo, replayed: Replayed, around: Surroundings) -> Self {
        let Replayed { run, usage, doubts, is_approved, spent, .. } = replayed;
        let driven = Self::root_of(info, run, around);
        driven.scope.budget.bring_in(spent);
        if is_approved {
            // From there on the core alone knew the limits.
            driven.scope.budget.set_limits(Limits::unlimited());
        }
        {
            let mut core = driven.scope.core();
            (core.usage, core.is_estimate) = (usage, doubts.estimated > 0);
            core.doubts = doubts;
        }
        driven
    }
}
