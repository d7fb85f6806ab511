//! The nearest trips: at what a run will stop next, along each resource.

use endstop_core::Run;
use endstop_core::condition::gauge::Unit;
use endstop_core::condition::{Gauge, GaugeId};
use endstop_core::policy::Action;
use endstop_core::run::next_trip::Resource;

use super::cost;
use endstop_runtime::ledger::Budget;

/// The actions that end or pause a run.
const ENDS: &[Action] = &[Action::Stop, Action::Pause, Action::Finish];

/// The rule that trips first along one resource, and the value at which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trip {
    pub(super) rule: String,
    pub(super) limit: u64,
    /// The used part of it, if it limits the run's own share.
    pub(super) own: Option<u64>,
}

impl Trip {
    /// The used amount and the limit, if it limits the run's own share.
    pub(super) fn own(&self) -> Option<(u64, u64)> {
        self.own.map(|used| (used, self.limit))
    }

    /// The limit, where descendants count too.
    pub(super) fn whole(&self) -> Option<u64> {
        if self.own.is_none() { Some(self.limit) } else { None }
    }
}

/// The nearest trips, kept between updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trips {
    pub(super) steps: Option<Trip>,
    pub(super) tokens: Option<Trip>,
    pub(super) cost: Option<Trip>,
    /// In milliseconds since the run began.
    pub(super) time: Option<Trip>,
}

impl Trips {
    /// The nearest trips. If a rule that compares something else trips already, the core has no answer for this
    /// resource, and the previous one stays.
    pub(super) fn of(run: &Run, budget: &Budget, before: &Self) -> Self {
        // Once a finish rule has held, what it says is done.
        let is_open = |action: &Action| *action != Action::Finish || run.finishing().is_none();
        Self::among(ENDS.iter().copied().filter(is_open).collect(), run, budget, before)
    }

    /// Like `of`, for stop rules alone: the limits that a run cannot exceed.
    pub(super) fn stops(run: &Run, budget: &Budget, before: &Self) -> Self {
        Self::among(vec![Action::Stop], run, budget, before)
    }

    fn among(actions: Vec<Action>, run: &Run, budget: &Budget, before: &Self) -> Self {
        let query = TripQuery { run, actions };
        Self {
            steps: query.trip(Resource::Steps, GaugeId::Steps, run.step_count(), &before.steps),
            tokens: query.trip(Resource::Tokens, GaugeId::Tokens, run.tokens(), &before.tokens),
            cost: query.trip(
                Resource::Cost,
                GaugeId::Cost,
                cost(run, budget).0.picos(),
                &before.cost,
            ),
            time: query.trip(Resource::Time, GaugeId::Elapsed, run.at().0, &before.time),
        }
    }
}

/// The query for the nearest trips.
struct TripQuery<'r> {
    run: &'r Run,
    actions: Vec<Action>,
}

impl TripQuery<'_> {
    fn trip(
        &self,
        resource: Resource,
        id: GaugeId,
        used: u64,
        before: &Option<Trip>,
    ) -> Option<Trip> {
        let mut nearest: Option<(u64, Trip)> = None;
        let mut is_hidden = false;
        for action in &self.actions {
            let Some(next) = self.run.next_trip(resource, &[*action]) else { continue };
            let Some(is_own) = self.compares(&next.rule, id) else {
                is_hidden |= next.distance == 0;
                continue;
            };
            if nearest.as_ref().is_some_and(|(distance, _)| *distance <= next.distance) {
                continue;
            }
            let name = id.row().name;
            let own = is_own.then(|| self.run.gauge(&format!("own.{name}")).unwrap_or_default());
            let limit = own.unwrap_or(used).saturating_add(next.distance);
            nearest = Some((next.distance, Trip { rule: next.rule, limit, own }));
        }
        let nearest = nearest.map(|(_, trip)| trip);
        if is_hidden && nearest.is_none() { before.clone() } else { nearest }
    }

    /// Whether a rule compares this, or for `elapsed` any time; and then whether only the run's own share.
    fn compares(&self, rule: &str, id: GaugeId) -> Option<bool> {
        let rule = self.run.program().policy().rule(rule)?;
        let is_time = |unit| matches!(unit, Unit::Duration | Unit::WallTime);
        let is_it =
            |gauge: &&&Gauge| gauge.id == id || id == GaugeId::Elapsed && is_time(gauge.row().unit);
        let gauges = rule.gauges();
        let all: Vec<bool> = gauges.iter().filter(is_it).map(|gauge| gauge.own).collect();
        let is_any = !all.is_empty();
        is_any.then(|| id != GaugeId::Elapsed && all.iter().all(|own| *own))
    }
}
