//! Many policies over one run: where each would stop it.
//!
//! [`Run`](super::Run) drives one policy. To find where a hundred policies would have stopped a recorded run, only
//! the first stop of each matters. Up to there a policy has no effect on the measurements, so one meter serves them
//! all. The comparisons of a gauge are kept sorted by their limits: a number that moves touches those that it passes
//! and no other.
//!
//! That holds for policies of stop rules ([`can_watch`]). A rule that pauses, retries, warns or wraps up, or refuses
//! a sub-agent, changes later events, as does a person who lets a run continue; see [`Watch::is_exact`].
//!
//! The questions are those of `judge`: which rules trip, whether a step ended naturally, which acts are held back, which
//! faults stop any run. The way through the events is written here a second time, because [`Run`](super::Run) evaluates its
//! whole policy and commits one decision at each event, and here only the rules of limits that are passed are evaluated,
//! and no rule changes the meter. One function for both would have to branch at each of these places. The differential
//! tests compare both on generated policies and runs.
//!
//! ```
//! use std::sync::Arc;
//! use endstop_core::probe::Probes;
//! use endstop_core::run::watch::{Watch, Watched};
//! use endstop_core::units::Millis;
//! use endstop_core::{Event, EventKind, Policy, expr::parse};
//!
//! let [two, three] = ["steps >= 2", "steps >= 3"].map(|text| Policy::stop(parse(text).unwrap()));
//! let watched = Arc::new(Watched::new(&[&two, &three], &Probes::new()).unwrap());
//! let mut watch = Watch::new(watched);
//! let mut stopped = Vec::new();
//! for at in 0..5 {
//!     for kind in [EventKind::StepBegin, EventKind::StepEnd] {
//!         if let Some(trip) = watch.observe(&Event::new(Millis(at), kind)) {
//!             stopped.extend(trip.policies.iter().map(|policy| (*policy, trip.steps)));
//!         }
//!     }
//! }
//! assert_eq!(stopped, [(0, 2), (1, 3)]);
//! ```

mod tables;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::judge::{fault, is_held_back, is_judged_first, is_natural_end, stands};
use crate::counter::Counter;
use crate::event::{Event, EventKind, Source};
use crate::meter::{Meter, Reading, Sight, Truth};
use crate::probe::RunningProbes;
use crate::signal::StopReason;
use crate::table::{FactIx, GaugeIx, RuleIx, Table};
use crate::units::Money;
pub use tables::{WatchError, Watched, can_watch};

/// Policies that stop the run at one event, and what the run had done by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip<'w> {
    /// The policies, as indices into the watched ones; each is reported once in a run.
    pub policies: &'w [usize],
    /// Like [`Run::step_count`](super::Run::step_count).
    pub steps: u64,
    /// Like [`Run::tokens`](super::Run::tokens).
    pub tokens: u64,
    /// Like [`Run::cost`](super::Run::cost).
    pub cost: Option<Money>,
}

/// The number of a gauge at its last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// How many of its fences lie at or below it.
    fences: usize,
    number: u64,
    reading: Reading,
}

/// One run under many policies.
///
/// See the example of [this module](self).
#[derive(Debug)]
pub struct Watch {
    watched: Arc<Watched>,
    meter: Meter,
    probes: RunningProbes,
    places: Table<GaugeIx, Place>,
    facts: Table<FactIx, Truth>,
    /// Rules whose condition is met, of policies that have not stopped the run.
    met: Vec<RuleIx>,
    is_met: Table<RuleIx, bool>,
    has_stopped: Box<[bool]>,
    left: usize,
    /// The policies that stop at this event.
    now: Vec<usize>,
    /// Rules to judge again.
    touched: Vec<RuleIx>,
    judged: bool,
    has_ended: bool,
    /// During a pause from outside, nothing is admitted.
    is_held: bool,
    is_exact: bool,
}

impl Watch {
    /// Creates a run that has not begun.
    #[must_use]
    pub fn new(watched: Arc<Watched>) -> Self {
        let program = watched.program();
        let probes = RunningProbes::start(program.probe_names().rows(), program.probes());
        let mut meter = Meter::new(program);
        meter.read_probes(program, &probes);
        let place = |(gauge, number, reading)| {
            let fences = tables::place(watched.fences(gauge), number);
            Place { fences, number, reading }
        };
        let mut watch = Self {
            places: meter.frame().gauges().map(place).collect(),
            facts: meter.facts().truths().map(|(_, truth)| truth).collect(),
            met: Vec::new(),
            is_met: program.rules().indices().map(|_| false).collect(),
            has_stopped: vec![false; watched.policies()].into_boxed_slice(),
            left: watched.policies(),
            now: Vec::new(),
            touched: program.rules().indices().collect(),
            judged: false,
            has_ended: false,
            is_held: false,
            is_exact: true,
            meter,
            probes,
            watched,
        };
        watch.judge_touched();
        watch
    }

    /// Returns whether every result so far equals that of separate runs. `false` from the first event on that means
    /// something else to each of them: a request to continue, an approval that moves a rule's limit, a raised signal
    /// that calls the run completed. Follow such a run with one [`Run`](super::Run) per policy, from its first event.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns how many policies have not stopped the run.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Records an event. Returns the policies whose run would answer it with [`Stop`](super::Directive::Stop) or
    /// [`Abort`](super::Directive::Abort) for the first time. A natural end does not count. O(gauges), and O(leaves
    /// of a rule) for each limit that is passed.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<Trip<'_>> {
        if self.left == 0 {
            return None;
        }
        self.now.clear();
        let watched = Arc::clone(&self.watched);
        let program = watched.program();
        self.meter.arrive(event);
        let after_step = self.meter.step().is_closed_by(event);
        let intends = is_judged_first(&event.kind);
        let mut is_raised = false;
        match &event.kind {
            EventKind::Piece { .. } | EventKind::Tick => {
                let changed = self.meter.stream(program, &mut self.probes, event);
                if !changed && !program.is_timed() && self.judged && !self.has_ended {
                    return None;
                }
            }
            _ if intends => self.announce(&watched, event),
            _ => {
                self.meter.apply(program, &mut self.probes, event);
                is_raised = self.take_in(&watched, event);
            }
        }
        self.decide(&watched, event, after_step, is_raised);
        let tallies = self.meter.tallies();
        let (steps, tokens) = (tallies.total(Counter::Steps), tallies.total(Counter::Tokens));
        let cost = self.cost(&watched);
        if intends {
            self.meter.hide_next_cost(program);
            if self.meter.frame().is_projected() {
                self.meter.project(None);
                self.touch_projected(&watched);
            }
            if !(self.is_held && is_held_back(&event.kind)) {
                self.meter.begin(program, &mut self.probes, event);
            } else if matches!(event.kind, EventKind::StepBegin) && event.source == Source::Own {
                self.meter.refuse_step();
            }
            self.judged = false;
        }
        (!self.now.is_empty()).then_some(Trip { policies: &self.now, steps, tokens, cost })
    }

    /// Like [`Run::cost`](super::Run::cost): policies that are watched together read prices alike.
    fn cost(&self, watched: &Watched) -> Option<Money> {
        let cost = Money::from_picos(self.meter.tallies().total(Counter::Cost));
        self.meter.is_cost_known(watched.program(), false).then_some(cost)
    }

    fn announce(&mut self, watched: &Watched, event: &Event<'_>) {
        if matches!(event.kind, EventKind::StepBegin) && event.source == Source::Own {
            self.has_ended = false;
        }
        self.meter.announce(watched.program(), event);
        if matches!(event.kind, EventKind::HandOff { .. }) {
            self.meter.apply(watched.program(), &mut self.probes, event);
        }
        if self.meter.frame().is_projected() {
            self.touch_projected(watched);
        }
    }

    /// Brings up to date the comparisons that see what may be spent.
    fn touch_projected(&mut self, watched: &Watched) {
        let program = watched.program();
        for leaf in program.projected() {
            if self.meter.evaluate_compare(program, leaf.compare) {
                self.touched.push(program.compares().at(leaf.compare).rule);
            }
        }
    }

    /// The effect of an event beyond its measurements: whether a signal is raised, which stops every policy.
    fn take_in(&mut self, watched: &Watched, event: &Event<'_>) -> bool {
        match &event.kind {
            EventKind::UserMessage if event.source == Source::Own => self.has_ended = false,
            EventKind::Cancel { .. } | EventKind::Kill { .. } => return true,
            EventKind::StopRaised { signal } => {
                self.is_exact &= signal.reason != StopReason::Completed;
                return true;
            }
            EventKind::PauseRequested { .. } if event.source == Source::Own => self.is_held = true,
            EventKind::ResumeRequested { .. } if event.source == Source::Own => {
                self.is_held = false
            }
            EventKind::ContinuationRequested { .. } | EventKind::Reopened { .. } => {
                self.is_exact = false;
            }
            EventKind::Approved { rule, limit: Some(_), .. } => {
                self.is_exact &= watched.program().rule_of_id(rule).is_none();
            }
            _ => {}
        }
        fault(&self.meter, event).is_some()
    }

    /// The decision of [`Run::observe`](super::Run::observe), for every policy that is left: they have
    /// seen the same, so they stand alike.
    fn decide(&mut self, watched: &Watched, event: &Event<'_>, after_step: bool, is_raised: bool) {
        self.judged = true;
        self.meter.sync_clocks(watched.program());
        self.touch_changed(watched);
        self.judge_touched();
        if is_raised {
            self.stop_all();
        } else if !self.met.is_empty() {
            self.stop_standing(watched, is_natural_end(&self.meter, event, after_step));
        }
        self.has_ended |= after_step && self.meter.step().ends_naturally();
    }

    /// Brings up to date the comparisons that a changed number passes, and finds the rules that may have
    /// changed with them.
    fn touch_changed(&mut self, watched: &Watched) {
        let has_operators = !watched.volatile().is_empty();
        for gauge in self.places.indices() {
            let frame = self.meter.frame();
            let (number, reading) = (frame.number(gauge), frame.reading(gauge));
            let known = *self.places.at(gauge);
            if (number, reading) == (known.number, known.reading) {
                continue;
            }
            let fences = watched.fences(gauge);
            let now = tables::moved(fences, known.fences, number);
            *self.places.at_mut(gauge) = Place { fences: now, number, reading };
            // Another reading can change every comparison.
            let (first, last) = if reading == known.reading {
                (known.fences.min(now), known.fences.max(now))
            } else {
                (0, fences.len())
            };
            for fence in fences.iter().take(last).skip(first) {
                let changed = self.meter.evaluate_compare(watched.program(), fence.compare);
                if changed || has_operators {
                    self.touched.push(fence.rule);
                }
            }
        }
        for (fact, truth) in self.meter.facts().truths() {
            let was = core::mem::replace(self.facts.at_mut(fact), truth);
            for (state, positive) in [(Truth::True, true), (Truth::False, false)] {
                if (was == state) != (truth == state) {
                    self.touched.extend_from_slice(watched.readers(fact, positive));
                }
            }
        }
        self.touched.extend_from_slice(watched.volatile());
    }

    fn judge_touched(&mut self) {
        let watched = Arc::clone(&self.watched);
        let program = watched.program();
        while let Some(rule) = self.touched.pop() {
            if self.has_stopped(watched.owner(rule)) {
                continue;
            }
            self.meter.evaluate_rule(program, program.rules().at(rule).folds.clone());
            let is_met = Sight::of(program, &self.meter).is_met(rule);
            if core::mem::replace(self.is_met.at_mut(rule), is_met) != is_met {
                if is_met {
                    self.met.push(rule);
                } else {
                    self.met.retain(|other| *other != rule);
                }
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "an owner is a place among the policies")]
    fn has_stopped(&self, policy: usize) -> bool {
        self.has_stopped[policy]
    }

    /// Stops the policies of the rules that stand.
    fn stop_standing(&mut self, watched: &Watched, natural: bool) {
        for rule in core::mem::take(&mut self.met) {
            if stands(Sight::of(watched.program(), &self.meter), rule, natural) {
                self.stop(watched.owner(rule));
            } else {
                self.met.push(rule);
            }
        }
        let mut met = core::mem::take(&mut self.met);
        met.retain(|rule| !self.has_stopped(watched.owner(*rule)));
        self.met = met;
        self.now.sort_unstable();
    }

    fn stop_all(&mut self) {
        (0..self.has_stopped.len()).for_each(|policy| self.stop(policy));
    }

    #[expect(clippy::indexing_slicing, reason = "an owner is a place among the policies")]
    fn stop(&mut self, policy: usize) {
        if !core::mem::replace(&mut self.has_stopped[policy], true) {
            self.left -= 1;
            self.now.push(policy);
        }
    }
}
