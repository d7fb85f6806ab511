//! A run that continues from its recorded events.

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::event::{Event, EventKind};
use endstop_core::run::Run;
use endstop_core::signal::BUDGET_SOURCE;
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::{Kind, Line};

use super::open_work::OpenWork;
use crate::call::settled;
use crate::ledger::Amounts;
use crate::observe::{
    CostUncertainty, Observer, RunInfo, SettledCall, Spender, Unconfirmed, UnconfirmedCause,
    tell_continues, tell_settled,
};
use crate::run::{Carried, RunEnvironment, RunHandle, is_over};
use crate::store::sealed_file::TraceLineError;

/// Replays the recorded events of a root run, in their order, under the current policy.
///
/// [`Replay::finish`] ends what the dead process had begun: an attempt that was sent and not settled is charged as a
/// failed one. Its money is its worst case, which every attempt announces; its tokens are the reservation. If none was
/// recorded (nothing limited tokens or money), they are those of the last attempt that was settled, as an estimate.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// use endstop_core::Status;
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::trace::Replay;
///
/// let mut replay = Replay::new(program);
/// for line in [r#"{"at":0,"event":"run_begin"}"#, r#"{"at":5,"event":"step_begin"}"#] {
///     replay.take_line(line.as_bytes())?;
/// }
/// let replayed = replay.finish();
/// assert_eq!(replayed.spent().steps, 1);
/// let run = RunHandle::replayed(info, replayed, RunEnvironment::default());
/// assert_eq!(run.status(), Status::InProgress);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    run: Run,
    work: OpenWork,
    spent: Amounts,
    /// The settled calls that used tokens or cost something.
    charged: u64,
    uncertainty: CostUncertainty,
    /// Whether the events are all that there is of the run.
    is_whole: bool,
    is_paused: bool,
}

/// A run whose events were replayed, with nothing open.
///
/// See the example of [`Replay`].
#[derive(Debug)]
pub struct Replayed {
    run: Run,
    usage: TokenUsage,
    uncertainty: CostUncertainty,
    spent: Amounts,
    is_estimate: bool,
    added: Vec<Event<'static>>,
    /// The charged calls before those, and the time of the last event. `None` if the events are not all of the run.
    recorded: Option<(u64, WallTime)>,
    /// Whether the added events charge something.
    is_charging: bool,
    /// The charged calls with those of the added events. `None` if the events are not all of the run.
    charges: Option<u64>,
    /// Whether its pause had not ended.
    was_paused: bool,
    /// The time since the last event that counts.
    later: Millis,
}

/// Whether a budget that runs share stopped the run. Its limit can be higher by now, and the ledger refuses the next call
/// if it is not.
fn is_of_shared_budget(kind: &EventKind<'_>) -> bool {
    let EventKind::StopRaised { signal } = kind else { return false };
    signal.source.as_deref() == Some(BUDGET_SOURCE) && signal.context.contains_key("asked")
}

impl Replay {
    /// Begins at the first event of a run.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Self { is_whole: true, ..Self::continuing(Run::new(program), false) }
    }

    /// Continues from a saved core with the events after it. A saved state counts in itself, so what it had open is not
    /// guessed from its past, and it stays paused.
    #[must_use]
    pub fn continuing(run: Run, is_step_open: bool) -> Self {
        Self {
            run,
            work: OpenWork::new(is_step_open),
            spent: Amounts::ZERO,
            charged: 0,
            uncertainty: CostUncertainty::default(),
            is_whole: false,
            is_paused: false,
        }
    }

    /// Records the text of the next line, as [`Replay::take`] does.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not the line of an event.
    pub fn take_line(&mut self, line: &[u8]) -> Result<(), TraceLineError> {
        self.take(&serde_json::from_slice(line)?);
        Ok(())
    }

    /// Records the next line: an act that did not begin then does not begin now either, whatever the current policy
    /// says.
    pub fn take(&mut self, line: &Line<'_>) {
        let event = line.as_event();
        if is_of_shared_budget(&event.kind) {
            return;
        }
        if !(line.refused && self.run.would_admit(&event).admits()) {
            let unconfirmed = match line.unconfirmed {
                Some(Cost::Known(amount)) => Some(Unconfirmed { amount, cause: cause_of(line) }),
                _ => None,
            };
            self.take_event(&event, line.refused, line.estimate, unconfirmed);
        }
    }

    /// Records the next event.
    pub fn observe(&mut self, event: &Event<'_>) {
        self.take_event(event, false, false, None);
    }

    fn take_event(
        &mut self,
        event: &Event<'_>,
        was_refused: bool,
        is_estimate: bool,
        unconfirmed: Option<Unconfirmed>,
    ) {
        let directive = self.run.observe(event);
        self.work.note(event, directive, was_refused);
        // The usage of a failed attempt is an estimate: no provider reported it.
        let is_estimate = match &event.kind {
            EventKind::AttemptFailed { usage, .. } => usage.is_some(),
            EventKind::Reply { .. } => is_estimate,
            _ => false,
        };
        self.uncertainty.take(&event.kind, is_estimate, unconfirmed);
        match &event.kind {
            EventKind::Reply { usage, cost, .. } | EventKind::AttemptFailed { usage, cost } => {
                self.settle(*usage, *cost);
                if self.is_whole {
                    self.work.last_usage = usage.or(self.work.last_usage);
                }
            }
            EventKind::ToolCost { cost, .. } => self.settle_tool(*cost),
            EventKind::Paused => self.is_paused = true,
            EventKind::Resumed => self.is_paused = false,
            _ => {}
        }
    }

    /// Counts as the ledger did while the run was live.
    fn settle(&mut self, usage: Option<TokenUsage>, cost: Option<Cost>) {
        let unpriced = self.run.program().policy().unpriced();
        let cost = cost.unwrap_or(Cost::Known(Money::ZERO));
        let amounts = settled(&usage.unwrap_or_default(), cost, unpriced);
        self.spent = self.spent.saturating_add(&amounts);
        self.count(amounts.tokens, amounts.cost);
    }

    fn count(&mut self, tokens: u64, cost: Money) {
        self.charged = self.charged.saturating_add(u64::from(tokens > 0 || !cost.is_zero()));
    }

    fn settle_tool(&mut self, cost: Money) {
        self.count(0, cost);
        self.spent = self.spent.saturating_add(&Amounts { cost, ..Amounts::ZERO });
    }

    /// Ends what is open, and the pause of a process that is no more.
    #[must_use]
    pub fn finish(mut self) -> Replayed {
        let (charged, (_, until)) = (self.charged, self.work.last_time(&self.run));
        let recorded = self.is_whole.then_some((charged, until));
        let mut added = self.work.close(&mut self.run);
        for event in &added {
            match &event.kind {
                EventKind::AttemptFailed { usage, cost } => {
                    self.settle(*usage, *cost);
                    let unconfirmed = match cost {
                        Some(Cost::Known(amount)) => Some(Unconfirmed {
                            amount: *amount,
                            cause: UnconfirmedCause::Truncated,
                        }),
                        _ => None,
                    };
                    self.uncertainty.take(&event.kind, usage.is_some(), unconfirmed);
                }
                EventKind::ToolCost { cost, .. } => {
                    self.settle_tool(*cost);
                    let unconfirmed = Unconfirmed { amount: *cost, cause: UnconfirmedCause::Tool };
                    self.uncertainty.take(&event.kind, false, Some(unconfirmed));
                }
                _ => {}
            }
        }
        if self.is_paused && self.is_whole {
            let (at, wall) = self.work.last_time(&self.run);
            let event = Event { wall, ..Event::new(at, EventKind::Resumed) };
            self.run.observe(&event);
            added.push(event);
        }
        let (steps, tool_calls) = (self.run.step_count(), self.run.tool_calls());
        let spent = Amounts { steps, tool_calls, ..self.spent };
        Replayed {
            usage: self.work.usage,
            is_estimate: self.work.is_estimate,
            uncertainty: self.uncertainty,
            spent,
            added,
            recorded,
            is_charging: self.charged > charged,
            charges: self.is_whole.then_some(self.charged),
            was_paused: self.is_paused,
            later: Millis(0),
            run: self.run,
        }
    }
}

/// Why a line's amount is unconfirmed, by its own word or by its kind.
fn cause_of(line: &Line<'_>) -> UnconfirmedCause {
    match (&line.cause, &line.kind) {
        (Some(cause), _) => {
            let Ok(cause) = cause.parse();
            cause
        }
        (None, Kind::ToolCost { .. }) => UnconfirmedCause::Tool,
        (None, _) => UnconfirmedCause::NoUsage,
    }
}

impl Replayed {
    /// Returns the events that ended what was open: to be added to the record, so that it is charged once.
    #[must_use]
    pub fn added(&self) -> &[Event<'static>] {
        &self.added
    }

    /// Reports the calls that the added events charge to observers, as settled calls of the run.
    pub fn tell_added(&self, info: &RunInfo, observers: &[Arc<dyn Observer>]) {
        let unpriced = self.run.program().policy().unpriced();
        if let Some((charged, until)) = self.recorded.filter(|_| self.is_charging) {
            tell_continues(observers, info, charged, until);
        }
        let mut last = self.recorded.map(|(charged, _)| charged);
        for event in &self.added {
            let (spender, usage, charged) = match &event.kind {
                EventKind::AttemptFailed { usage, cost: Some(cost) } => {
                    let model = Spender::Model { model: &info.model, provider: &info.provider };
                    (model, *usage, *cost)
                }
                EventKind::ToolCost { tool, cost } => {
                    (Spender::Tool { tool }, None, Cost::Known(*cost))
                }
                _ => continue,
            };
            let Amounts { tokens, cost, .. } =
                settled(&usage.unwrap_or_default(), charged, unpriced);
            let is_charged = tokens > 0 || !cost.is_zero();
            if is_charged {
                last = last.map(|last| last.saturating_add(1));
            }
            let is_priced = charged != Cost::Unpriced;
            let call = SettledCall {
                root: info,
                wall: event.wall,
                spender,
                usage,
                cost,
                is_priced,
                unconfirmed: if is_priced { cost } else { Money::ZERO },
                is_estimate: true,
                is_run_over: is_over(self.run.status()),
                budgets: &[],
                key: None,
                number: last.filter(|_| is_charged),
            };
            tell_settled(observers, info, &call);
        }
    }

    /// The run continues so long after its last event, in which no process ran it and its clocks did not stand still: all of it
    /// counts, as in the process that has the run in memory. Of a run that is paused nothing counts.
    #[must_use]
    pub fn after_pause_of(self, later: Millis) -> Self {
        Self { later: if self.was_paused { Millis(0) } else { later }, ..self }
    }

    /// Returns the spend of the events, as the ledger counts it.
    #[must_use]
    pub const fn spent(&self) -> Amounts {
        self.spent
    }

    /// Returns the tokens of the events, and whether some of them were added as an estimate.
    #[must_use]
    pub const fn usage(&self) -> (TokenUsage, bool) {
        (self.usage, self.is_estimate)
    }

    /// Returns the calls of the events whose cost is not exactly known.
    #[must_use]
    pub const fn uncertainty(&self) -> &CostUncertainty {
        &self.uncertainty
    }

    /// Returns the core.
    #[must_use]
    pub const fn run(&self) -> &Run {
        &self.run
    }
}

impl RunHandle {
    /// Creates a root run that continues from its recorded events: counters, money and a permanent stop as they were.
    /// The budgets of its ancestors are not charged. Observers get the calls that the dead process left in flight
    /// ([`Replayed::added`]) as settled.
    #[must_use]
    pub fn replayed(info: RunInfo, replayed: Replayed, environment: RunEnvironment) -> Self {
        replayed.tell_added(&info, &environment.observers);
        let Replayed { run, usage, uncertainty, spent, later, charges, .. } = replayed;
        let is_estimate = uncertainty.estimated > 0;
        let carried = Carried { usage, is_estimate, uncertainty, ..Carried::default() };
        let handle = Self::root_later(info, run, carried, (environment, later));
        handle.set_charges(charges);
        handle.budget().bring_in(spent);
        handle
    }
}
