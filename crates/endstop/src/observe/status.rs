//! One permanent line: the progress of the run, and the limit that it will reach next.
//!
//! ```text
//! step 7/25 · 41.2k tok · $0.32/$2.00 (16%) · 48s · nearest limit: max_steps (28%)
//! ```
//!
//! Limits come from the core (`next_trip`), never from the policy: the line shows the rule that would trip first
//! along steps, tokens, money or time, if it compares that and an approval has not disarmed it. A limit of the own
//! share follows that share: `step 58 (own 11/50)`.

mod trips;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_core::Run;
use endstop_core::condition::gauge::Unit;
use endstop_core::event::EventKind;
use endstop_core::expr::amount_text;
use endstop_core::human::{count, money, short};
use endstop_core::run::Status;
use endstop_core::units::Money;

use super::text::took;
use super::{Observation, Observer, RunInfo, Screen, clean, truncate};
use endstop_runtime::ledger::Budget;
use trips::{Trip, Trips};

/// The time between two redraws within a step, in milliseconds of the run.
const REDRAW_MS: u64 = 100;
/// Columns if nothing else is known.
const WIDTH: usize = 80;

/// The contents of the status line.
///
/// ```
/// use endstop::observe::{StatusView, render};
///
/// let view = StatusView { steps: 7, steps_limit: Some(25), ..StatusView::default() };
/// let line = render(&view, 80);
/// assert!(line.starts_with("step 7/25"), "{line}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusView {
    /// The status of the run, if it does not continue.
    pub standing: Option<Standing>,
    /// Steps begun, descendants included.
    pub steps: u64,
    /// The limit, if there is one.
    pub steps_limit: Option<u64>,
    /// The run's own steps and their limit, if the limit applies to them.
    pub own_steps: Option<(u64, u64)>,
    /// Tokens settled.
    pub tokens: u64,
    /// The limit, if there is one.
    pub tokens_limit: Option<u64>,
    /// Like `own_steps`.
    pub own_tokens: Option<(u64, u64)>,
    /// Money settled.
    pub cost: Money,
    /// Whether some call had no price: then `cost` is the least.
    pub is_cost_unknown: bool,
    /// The limit, if there is one.
    pub cost_limit: Option<Money>,
    /// Like `own_steps`.
    pub own_cost: Option<(Money, Money)>,
    /// Tokens held for calls in flight.
    pub held_tokens: u64,
    /// Money held for calls in flight.
    pub held_cost: Money,
    /// Windows of the subscription and their used part in hundredths of a percent, if the driver knows them.
    pub quotas: Vec<(String, u64)>,
    /// Since the run began.
    pub elapsed: Duration,
    /// The limit that will trip next.
    pub next: Option<NextUp>,
}

/// Why a run does not continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for an approval.
    Paused,
    /// It has stopped.
    Stopped,
}

impl Standing {
    fn of(run: &Run) -> Option<Self> {
        match run.status() {
            Status::Paused => Some(Self::Paused),
            Status::Stopped | Status::Failed => Some(Self::Stopped),
            Status::Pending | Status::InProgress | Status::Completed => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

/// The limit that will trip next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextUp {
    /// The rule.
    pub rule: String,
    /// The distance to it.
    pub nearness: Nearness,
}

/// The distance to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// The used percentage of its limit, rounded down.
    Percent(u64),
    /// It trips after this time if nothing else happens.
    After(Duration),
}

/// The limits, and the one that trips next: a rule that pauses a run is not included.
#[derive(Clone, Debug, Default)]
struct Near {
    trips: Trips,
    stops: Trips,
}

impl Near {
    fn of(run: &Run, budget: &Budget, before: &Self) -> Self {
        Self {
            trips: Trips::of(run, budget, &before.trips),
            stops: Trips::stops(run, budget, &before.stops),
        }
    }
}

/// Money settled, and whether it is only the least.
fn cost(run: &Run, budget: &Budget) -> (Money, bool) {
    match run.cost() {
        Some(cost) => (cost, false),
        None => (budget.settled().cost, true),
    }
}

impl StatusView {
    /// Returns the status of a run. Asks the core for its nearest trips, which takes O(leaves²) of the policy.
    #[must_use]
    pub fn of(run: &Run, budget: &Budget) -> Self {
        Self::with(run, budget, &Near::of(run, budget, &Near::default()))
    }

    fn with(run: &Run, budget: &Budget, near: &Near) -> Self {
        let (trips, stops) = (&near.trips, &near.stops);
        let (cost, is_cost_unknown) = cost(run, budget);
        let held = budget.held();
        let limit = |trip: &Option<Trip>| trip.as_ref().and_then(Trip::whole);
        let own = |trip: &Option<Trip>| trip.as_ref().and_then(Trip::own);
        let dollars = |(used, limit)| (Money::from_picos(used), Money::from_picos(limit));
        Self {
            standing: Standing::of(run),
            steps: run.step_count(),
            steps_limit: limit(&stops.steps),
            own_steps: own(&stops.steps),
            tokens: run.tokens(),
            tokens_limit: limit(&stops.tokens),
            own_tokens: own(&stops.tokens),
            cost,
            is_cost_unknown,
            cost_limit: limit(&stops.cost).map(Money::from_picos),
            own_cost: own(&stops.cost).map(dollars),
            held_tokens: held.tokens,
            held_cost: held.cost,
            quotas: Vec::new(),
            elapsed: Duration::from_millis(run.at().0),
            next: next(trips, [run.step_count(), run.tokens(), cost.picos(), run.at().0]),
        }
    }
}

/// The trip of which the largest part is used; the first of equals.
fn next(trips: &Trips, used: [u64; 4]) -> Option<NextUp> {
    let all = [&trips.steps, &trips.tokens, &trips.cost, &trips.time];
    let mut nearest: Option<(u64, NextUp)> = None;
    for (index, (trip, used)) in all.into_iter().zip(used).enumerate() {
        let Some(trip) = trip else { continue };
        let used = trip.own.unwrap_or(used);
        let part = percent(used, trip.limit);
        if nearest.as_ref().is_some_and(|(largest, _)| part <= *largest) {
            continue;
        }
        let is_time = index == 3;
        let nearness = if is_time {
            Nearness::After(Duration::from_millis(trip.limit.saturating_sub(used)))
        } else {
            Nearness::Percent(part)
        };
        nearest = Some((part, NextUp { rule: trip.rule.clone(), nearness }));
    }
    nearest.map(|(_, next)| next)
}

/// 100 if the limit is reached, even if it is 0.
fn percent(used: u64, limit: u64) -> u64 {
    if used >= limit {
        return 100;
    }
    let part = u128::from(used) * 100 / u128::from(limit.max(1));
    u64::try_from(part).unwrap_or(100)
}

/// Returns the status line in at most `width` columns.
#[must_use]
pub fn render(view: &StatusView, width: usize) -> String {
    let of = |limit: Option<String>| limit.map(|limit| format!("/{limit}")).unwrap_or_default();
    let own = |text: Option<String>| text.map(|text| format!(" (own {text})")).unwrap_or_default();
    let own_steps =
        own(view.own_steps.map(|(used, limit)| format!("{}/{}", count(used), count(limit))));
    let own_tokens =
        own(view.own_tokens.map(|(used, limit)| format!("{}/{}", short(used), short(limit))));
    let steps_limit = of(view.steps_limit.map(count));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(view.standing.map(|standing| standing.name().to_owned()));
    parts.extend([
        format!("step {}{steps_limit}{own_steps}", count(view.steps)),
        format!("{}{} tok{own_tokens}", short(view.tokens), of(view.tokens_limit.map(short))),
    ]);
    let mut spent = if view.is_cost_unknown {
        format!("\u{2265} {}", money(view.cost))
    } else {
        money(view.cost)
    };
    if let Some(limit) = view.cost_limit {
        let part = percent(view.cost.picos(), limit.picos());
        spent = format!("{spent}/{} ({part}%)", money(limit));
    }
    if let Some((used, limit)) = view.own_cost {
        spent = format!("{spent} (own {}/{})", money(used), money(limit));
    }
    parts.push(spent);
    if !view.quotas.is_empty() {
        parts.push(format!("plan {}", plan_text(&view.quotas)));
    }
    let mut held = Vec::new();
    if view.held_cost > Money::ZERO {
        held.push(money(view.held_cost));
    }
    if view.held_tokens > 0 {
        held.push(format!("{} tok", short(view.held_tokens)));
    }
    let held_at = (!held.is_empty()).then_some(parts.len());
    if !held.is_empty() {
        parts.push(format!("held {}", held.join(" + ")));
    }
    parts.push(seconds(view.elapsed));
    let nearest = view.next.as_ref().map(|next| match next.nearness {
        Nearness::Percent(part) => format!("{} ({part}%)", clean(&next.rule)),
        Nearness::After(time) => format!("{} (in {})", clean(&next.rule), seconds(time)),
    });
    parts.extend(nearest.as_ref().map(|nearest| format!("nearest limit: {nearest}")));
    let mut line = parts.join(" \u{b7} ");
    // The next limit is worth more than the holds, which change with each call.
    if let Some(at) = held_at.filter(|_| super::text::width(&line) > width) {
        parts.remove(at);
        line = parts.join(" \u{b7} ");
    }
    if let Some(nearest) = nearest.filter(|_| super::text::width(&line) > width) {
        parts.pop();
        parts.push(format!("nearest: {nearest}"));
        line = parts.join(" \u{b7} ");
    }
    truncate(&line, width)
}

/// Returns the used part of each window of a subscription, from hundredths of a percent: `5h 42%, 7d 10.5%`.
#[must_use]
pub fn plan_text(quotas: &[(String, u64)]) -> String {
    let part = |used: u64| amount_text(used, Unit::Percent);
    let each = quotas.iter().map(|(window, used)| format!("{} {}", clean(window), part(*used)));
    each.collect::<Vec<_>>().join(", ")
}

/// A time in whole seconds: the line is drawn again and again.
fn seconds(time: Duration) -> String {
    took(Duration::from_secs(time.as_secs()))
}

/// Keeps a status line of the root run below the lines printed on a screen, and removes it at the end. Without a
/// terminal it does nothing.
///
/// See the example of [`Screen`].
pub struct StatusLine {
    screen: Arc<Screen>,
    width: Box<dyn Fn() -> usize + Send + Sync>,
    drawn: Mutex<Drawn>,
}

#[derive(Debug, Default)]
struct Drawn {
    near: Near,
    /// When it was drawn last, since the run began; none before the first time.
    at: Option<u64>,
}

impl fmt::Debug for StatusLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusLine").field("screen", &self.screen).finish_non_exhaustive()
    }
}

impl StatusLine {
    /// Creates a status line of 80 columns on a screen that others print to as well.
    #[must_use]
    pub fn on(screen: Arc<Screen>) -> Self {
        Self { screen, width: Box::new(|| WIDTH), drawn: Mutex::default() }
    }

    /// Sets the function that returns the columns of the terminal, called at each redraw.
    #[must_use]
    pub fn width(mut self, columns: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        self.width = Box::new(columns);
        self
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for StatusLine {
    fn observe(&self, observation: &Observation<'_>) {
        if !self.screen.is_terminal() || observation.info.parent.is_some() {
            return;
        }
        let (run, kind) = (observation.run, &observation.event.kind);
        let is_step =
            matches!(kind, EventKind::RunBegin { .. } | EventKind::StepBegin | EventKind::StepEnd);
        let mut drawn = self.lock();
        let now = run.at().0;
        let is_due = drawn.at.is_none_or(|at| now.abs_diff(at) >= REDRAW_MS);
        if !is_step && !is_due {
            return;
        }
        if is_step || !matches!(kind, EventKind::Piece { .. } | EventKind::Tick) {
            // An ended run has no next limit.
            let has_ended = run.stop_reason().is_some();
            let near = || Near::of(run, observation.budget, &drawn.near);
            drawn.near = if has_ended { Near::default() } else { near() };
        }
        drawn.at = Some(now);
        let view = StatusView::with(run, observation.budget, &drawn.near);
        // A line that fills the last column makes some terminals wrap.
        let columns = (self.width)().saturating_sub(1);
        self.screen.status(&render(&view, columns));
    }

    fn run_ended(&self, info: &RunInfo, _run: &Run, _budget: &Budget) {
        if info.parent.is_none() {
            *self.lock() = Drawn::default();
            self.screen.clear();
        }
    }
}

#[cfg(test)]
mod tests;
