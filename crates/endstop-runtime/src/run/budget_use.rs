//! How much of a run's limits is used, in words for its model.

use std::fmt;

use endstop_core::condition::{Gauge, GaugeId};
use endstop_core::human;
use endstop_core::policy::Action;
use endstop_core::run::Run;
use endstop_core::run::next_trip::Resource;
use endstop_core::units::{Millis, Money};

use super::handle::RunHandle;

/// The used part of a run's limits, and the rest of each.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunEnvironment, RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(10));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # let run = RunHandle::root(info, program, RunEnvironment::default());
/// use endstop_core::EventKind;
///
/// // `run` stops at 10 steps.
/// for _ in 0..8 {
///     run.record_plain(&EventKind::StepBegin);
///     run.record_plain(&EventKind::StepEnd);
/// }
/// let used = run.budget_use().unwrap();
/// assert_eq!(used.percent, 80);
/// assert_eq!(used.to_string(), "80% of the budget is used: 2 steps are left.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// The used part of the limit of which most is used, in percent, rounded down; at most 100.
    pub percent: u64,
    /// The rest of each limit, such as `$0.40` and `10 steps`.
    left: Vec<String>,
    /// Whether that is one thing: `1 step`, `$0.40`.
    is_one: bool,
}

impl fmt::Display for BudgetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (last, before) = self
            .left
            .split_last()
            .map_or(("nothing", &[][..]), |(last, before)| (last.as_str(), before));
        let and = if before.is_empty() { "" } else { " and " };
        let verb = if self.is_one { "is" } else { "are" };
        let (percent, before) = (self.percent, before.join(", "));
        write!(f, "{percent}% of the budget is used: {before}{and}{last} {verb} left.")
    }
}

/// The used part of a limit on one resource, and the rest.
struct UsedLimit {
    percent: u64,
    left: u64,
}

impl RunHandle {
    /// Returns the used part of the step, token, cost and time limits that stop or finish the run, or `None` if it has none.
    /// Holds of calls in flight do not count. Takes O(leaves²) of the policy.
    #[must_use]
    pub fn budget_use(&self) -> Option<BudgetUse> {
        let core = self.node().core();
        let run = &core.run;
        let cost = used(run, Resource::Cost, &[GaugeId::Cost]);
        let steps = used(run, Resource::Steps, &[GaugeId::Steps]);
        let tokens = used(run, Resource::Tokens, &[GaugeId::Tokens]);
        let time = used(run, Resource::Time, &[GaugeId::Active, GaugeId::Elapsed]);
        let all = [&cost, &steps, &tokens, &time];
        let percent = all.into_iter().flatten().map(|it| it.percent).max()?;
        let is_one = |it: &Option<UsedLimit>| it.as_ref().is_none_or(|it| it.left == 1);
        let is_one = is_one(&steps) && is_one(&tokens);
        let words = [
            cost.map(|it| human::money_rounded(Money::from_picos(it.left), human::Rounding::Down)),
            steps.map(|it| human::counted(it.left, "step")),
            tokens.map(|it| human::tokens(it.left)),
            time.map(|it| human::duration(Millis(it.left))),
        ];
        let left: Vec<String> = words.into_iter().flatten().collect();
        let is_one = is_one && left.len() == 1;
        Some(BudgetUse { percent, left, is_one })
    }
}

/// The use of the nearest limit along a resource, if its rule compares one of these gauges.
fn used(run: &Run, resource: Resource, ids: &[GaugeId]) -> Option<UsedLimit> {
    let trip = run.next_trip(resource, &[Action::Stop, Action::Finish])?;
    let rule = run.program().policy().rule(&trip.rule)?;
    let is_it = |gauge: &&&Gauge| ids.contains(&gauge.id);
    let gauges = rule.gauges();
    let gauge = gauges.iter().find(is_it)?;
    let own = if gauges.iter().filter(is_it).all(|gauge| gauge.own) { "own." } else { "" };
    let now = match gauge.id {
        GaugeId::Cost if own.is_empty() => run.known_cost().picos(),
        id => run.gauge(&format!("{own}{}", id.row().name))?,
    };
    let limit = u128::from(now) + u128::from(trip.distance);
    let percent = (u128::from(now) * 100).checked_div(limit).unwrap_or(100);
    Some(UsedLimit { percent: u64::try_from(percent).unwrap_or(100), left: trip.distance })
}
