//! Many policies over one run: where each would stop it.
//!
//! [`Run`](super::Run) drives one policy. Somebody who asks what a hundred policies would have done to a
//! recorded run needs only where each of them stops it first. Up to there nothing that a policy does shows
//! in what is measured, so one meter serves them all. The comparisons of a gauge are kept sorted by their
//! limits: a number that moves touches those that it passes and no other.
//!
//! That holds for policies of stop rules ([`can_watch`]). A rule that pauses, retries, warns or wraps up, or
//! refuses a sub-agent, changes what happens next, as does a person who lets a run go on; see
//! [`Watch::is_exact`].
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

use super::counts_as_intention;
use crate::event::{Event, EventKind, Source};
use crate::meter::counters::Counter;
use crate::meter::project::{Ahead, Projection};
use crate::meter::{Meter, Reading, Truth, bit};
use crate::policy::OnUnpriced;
use crate::policy::program::{Class, Literal};
use crate::signal::StopReason;
use crate::trip_record::rests_on_numbers;
use crate::units::Money;
pub use tables::{WatchError, Watched, can_watch};

/// Policies that stop the run at one event, and what the run had done by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip<'w> {
    /// The policies, as indices into those that are watched; each is told once in a run.
    pub policies: &'w [usize],
    /// As [`Run::step_count`](super::Run::step_count).
    pub steps: u64,
    /// As [`Run::tokens`](super::Run::tokens).
    pub tokens: u64,
    /// As [`Run::cost`](super::Run::cost).
    pub cost: Option<Money>,
}

/// One run under many policies.
#[derive(Debug)]
pub struct Watch {
    watched: Arc<Watched>,
    meter: Meter,
    /// For each gauge, how many of its fences lie at or below its number, and how it was read.
    places: Box<[(usize, u64, Reading)]>,
    facts: Box<[Truth]>,
    /// Rules that hold, of policies that have not stopped the run.
    holding: Vec<usize>,
    is_holding: Box<[bool]>,
    has_stopped: Box<[bool]>,
    left: usize,
    /// The policies that stop at this event.
    now: Vec<usize>,
    /// Rules to judge anew.
    touched: Vec<usize>,
    judged: bool,
    has_ended: bool,
    is_exact: bool,
}

impl Watch {
    /// A run that has not begun.
    #[must_use]
    pub fn new(watched: Arc<Watched>) -> Self {
        let program = &watched.program;
        let meter = Meter::new(program);
        let gauges = watched.fences.iter().zip(meter.view.iter().zip(&meter.readings));
        let place = |(fences, (value, reading)): (&Vec<tables::Fence>, (&u64, &Reading))| {
            (tables::place(fences, *value), *value, *reading)
        };
        let mut watch = Self {
            places: gauges.map(place).collect(),
            facts: meter.facts.clone(),
            holding: Vec::new(),
            is_holding: vec![false; program.rules.len()].into_boxed_slice(),
            has_stopped: vec![false; watched.policies].into_boxed_slice(),
            left: watched.policies,
            now: Vec::new(),
            touched: (0..program.rules.len()).collect(),
            judged: false,
            has_ended: false,
            is_exact: true,
            meter,
            watched,
        };
        watch.judge_touched();
        watch
    }

    /// Whether every answer so far is that of separate runs. False from the first event on that means
    /// something else to each of them: a continuation that is asked for, an approval that moves a rule's
    /// limit, a raised signal that calls the run completed. Follow such a run with one
    /// [`Run`](super::Run) a policy, from its first event.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// How many policies have not stopped the run.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Takes in an event; tells the policies whose run would answer it with
    /// [`Stop`](super::Directive::Stop) or [`CancelNow`](super::Directive::CancelNow) for the first time.
    /// A natural end is no stop. O(gauges), and O(leaves of a rule) for each limit that is passed.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<Trip<'_>> {
        if self.left == 0 {
            return None;
        }
        self.now.clear();
        let watched = Arc::clone(&self.watched);
        let program = &watched.program;
        self.meter.arrive(event);
        let after_step = self.meter.closes_own_step(event);
        let intends = counts_as_intention(&event.kind);
        let mut is_raised = false;
        match &event.kind {
            EventKind::Piece { .. } | EventKind::Tick => {
                let changed = self.meter.stream(program, event);
                if !changed && self.judged && !self.has_ended {
                    return None;
                }
            }
            _ if intends => self.announce(&watched, event),
            _ => {
                self.meter.apply(program, event);
                is_raised = self.take_in(&watched, event);
            }
        }
        self.decide(&watched, event, after_step, is_raised);
        let [steps, tokens] = [Counter::Steps, Counter::Tokens].map(|c| self.meter.totals.get(c));
        let cost = self.cost(&watched);
        if intends {
            self.hide_next_cost(&watched);
            if self.meter.projection.is_some() {
                self.project(&watched, None);
            }
            self.meter.begin(program, event);
            self.judged = false;
        }
        (!self.now.is_empty()).then_some(Trip { policies: &self.now, steps, tokens, cost })
    }

    /// As [`Run::cost`](super::Run::cost): policies that are watched together read prices alike.
    fn cost(&self, watched: &Watched) -> Option<Money> {
        let ignores = watched.program.policy.unpriced() == OnUnpriced::Ignore;
        (!self.meter.unpriced || ignores)
            .then(|| Money::from_picos(self.meter.totals.get(Counter::Cost)))
    }

    fn announce(&mut self, watched: &Watched, event: &Event<'_>) {
        if matches!(event.kind, EventKind::StepBegin) && event.source == Source::Own {
            self.has_ended = false;
        }
        self.meter.announce(&watched.program, event);
        match (&event.kind, event.source) {
            (EventKind::HandOff { .. }, _) => self.meter.apply(&watched.program, event),
            (EventKind::AttemptBegin { next_cost }, Source::Own) => {
                self.meter.expose_next_cost(&watched.program, *next_cost);
            }
            (kind, source) => {
                let own = source == Source::Own;
                let judged = !own || self.meter.step.own.open;
                if let Some(ahead) = Ahead::of(kind).filter(|_| judged) {
                    self.project(watched, Some(Projection::new(&watched.program, &ahead, own)));
                }
            }
        }
    }

    /// Begins or ends to judge by what may be spent.
    fn project(&mut self, watched: &Watched, projection: Option<Projection>) {
        self.meter.project(projection);
        for leaf in &watched.program.projected {
            if self.meter.evaluate_compare(&watched.program, leaf.compare)
                && let Some(compare) = watched.program.compares.get(leaf.compare)
            {
                self.touched.push(compare.rule);
            }
        }
    }

    fn hide_next_cost(&mut self, watched: &Watched) {
        self.meter.expose(&watched.program, Class::NextCost, 0, Reading::Absent);
    }

    /// What an event means beyond what is measured: whether a signal is raised, which stops every policy.
    fn take_in(&mut self, watched: &Watched, event: &Event<'_>) -> bool {
        match &event.kind {
            EventKind::UserMessage if event.source == Source::Own => self.has_ended = false,
            EventKind::Cancel { .. } | EventKind::Kill { .. } => return true,
            EventKind::StopRaised { signal } => {
                self.is_exact &= signal.reason != StopReason::Completed;
                return true;
            }
            EventKind::ContinuationRequested { .. } => self.is_exact = false,
            EventKind::Approved { rule, cap: Some(_) } => {
                self.is_exact &=
                    !watched.program.policy.rules.iter().any(|known| known.id == *rule);
            }
            _ => {}
        }
        self.meter.overflowed
    }

    /// The decision of [`Run::observe`](super::Run::observe), for every policy that is left: they have
    /// seen the same, so they stand alike.
    fn decide(&mut self, watched: &Watched, event: &Event<'_>, after_step: bool, is_raised: bool) {
        self.judged = true;
        self.meter.sync_clocks(&watched.program);
        self.touch_changed(watched);
        self.judge_touched();
        let ends_naturally = self.meter.step.has_reply && !self.meter.step.asked_for_tools;
        if is_raised {
            self.stop_all();
        } else if !self.holding.is_empty() {
            let open = self.meter.step.own.open || after_step;
            let natural = !counts_as_intention(&event.kind) && open && ends_naturally;
            self.stop_holding(watched, natural);
        }
        self.has_ended |= after_step && ends_naturally;
    }

    /// Brings up to date the comparisons that a changed number passes, and finds the rules that may have
    /// changed with them.
    fn touch_changed(&mut self, watched: &Watched) {
        for (slot, known) in self.places.iter_mut().enumerate() {
            let (Some(value), Some(reading)) =
                (self.meter.view.get(slot).copied(), self.meter.readings.get(slot).copied())
            else {
                continue;
            };
            let (place, seen, read) = *known;
            if (value, reading) == (seen, read) {
                continue;
            }
            let Some(fences) = watched.fences.get(slot) else { continue };
            let now = tables::moved(fences, place, value);
            *known = (now, value, reading);
            // Another reading can change every comparison.
            let all =
                if reading == read { place.min(now)..place.max(now) } else { 0..fences.len() };
            for fence in fences.get(all).unwrap_or(&[]) {
                if self.meter.evaluate_compare(&watched.program, fence.compare) || watched.has_ops {
                    self.touched.push(fence.rule);
                }
            }
        }
        for (fact, (truth, seen)) in self.meter.facts.iter().zip(&mut self.facts).enumerate() {
            let was = core::mem::replace(seen, *truth);
            for (state, positive) in [(Truth::True, true), (Truth::False, false)] {
                if (was == state) != (*truth == state) {
                    let rules = watched.by_literal.get(Literal::of(fact, positive));
                    self.touched.extend(rules.into_iter().flatten());
                }
            }
        }
        self.touched.extend_from_slice(&watched.volatile);
    }

    fn judge_touched(&mut self) {
        let watched = Arc::clone(&self.watched);
        while let Some(rule) = self.touched.pop() {
            let Some(compiled) = watched.program.rules.get(rule) else { continue };
            if self.has_stopped.get(watched.owner(rule)) != Some(&false) {
                continue;
            }
            self.meter.evaluate_rule(&watched.program, compiled.folds.clone());
            let holds = bit(&self.meter.truth, compiled.root);
            if let Some(known) = self.is_holding.get_mut(rule)
                && core::mem::replace(known, holds) != holds
            {
                if holds {
                    self.holding.push(rule);
                } else {
                    self.holding.retain(|other| *other != rule);
                }
            }
        }
    }

    /// Numeric limits alone do not stop a run that has just ended by itself.
    fn stop_holding(&mut self, watched: &Watched, natural: bool) {
        for rule in core::mem::take(&mut self.holding) {
            if natural && rests_on_numbers(&watched.program, &self.meter, rule) {
                self.holding.push(rule);
            } else {
                self.stop(watched.owner(rule));
            }
        }
        let stopped = &self.has_stopped;
        self.holding.retain(|rule| stopped.get(watched.owner(*rule)) == Some(&false));
        self.now.sort_unstable();
    }

    fn stop_all(&mut self) {
        (0..self.has_stopped.len()).for_each(|policy| self.stop(policy));
    }

    fn stop(&mut self, policy: usize) {
        if let Some(stopped) = self.has_stopped.get_mut(policy)
            && !core::mem::replace(stopped, true)
        {
            self.left = self.left.saturating_sub(1);
            self.now.push(policy);
        }
    }
}
