//! The parts of a call that was refused, and the limits that would admit it.

use std::cmp::Reverse;

use endstop_core::policy::{Action, OnUnpriced};
use endstop_core::run::next_trip::{NextTrip, Resource};
use endstop_core::units::{Cost, Money};

use super::fit::Others;
use super::plan::{PlannedCall, Worst};
use crate::ledger::{Amounts, Budget};
use crate::limits::SHORT_ANSWER_TOKENS;
use crate::observe::{Lack, LimitOwner, LimitRule, RefusedCall, Shortage};
use crate::run::{LockedChain, RunCore};

/// The needs of a refused call, in one unit.
#[derive(Clone, Copy)]
struct Need {
    /// Of the call alone: for budgets.
    alone: u64,
    /// With the reserve for a wrap-up: for rules.
    whole: u64,
}

/// One node's limit in one unit.
struct NodeLimit {
    /// The limit of its budget.
    budget: Option<u64>,
    /// The settled amount, and the held one if it counts.
    used: u64,
    /// The stop rules, with the distance to their next trip from the settled amount.
    rules: Vec<(LimitRule, u64)>,
    /// The amount that other calls hold, if it counts.
    held: u64,
}

impl NodeLimit {
    /// The rest, the limit and the needed rest, of the budget or of a rule. `None` if the need fits both.
    fn shortage(&self, need: Need) -> Option<(u64, u64, u64)> {
        let of_budget = self.budget.map(|limit| (limit.saturating_sub(self.used), need.alone));
        let of_rule = self.rules.iter().map(|(_, distance)| (self.rest(*distance), need.whole));
        let short = of_budget.into_iter().chain(of_rule).filter(|(left, need)| need > left);
        let (left, needed) = short.min_by_key(|(left, need)| (*left, Reverse(*need)))?;
        Some((left, self.used.saturating_add(left), needed))
    }

    const fn rest(&self, distance: u64) -> u64 {
        distance.saturating_sub(self.held)
    }

    /// The rules that the need does not fit.
    fn refusing(self, need: Need) -> Vec<LimitRule> {
        let held = self.held;
        let short = self.rules.into_iter();
        let short = short.filter(|(_, distance)| need.whole > distance.saturating_sub(held));
        short.map(|(rule, _)| rule).collect()
    }
}

impl LockedChain<'_> {
    /// Remembers the parts of a call that does not fit, for the run and its ancestors. Before the refusal is recorded: a
    /// run that has stopped has nothing left.
    pub(super) fn note_refused(&mut self, plan: &PlannedCall<'_>) {
        if let Some(refused) = self.refused_call(plan) {
            self.set_refused_call(Some(&refused));
        }
    }

    /// The parts of a call that does not fit; `None` if neither money nor tokens refuse it.
    fn refused_call(&self, plan: &PlannedCall<'_>) -> Option<RefusedCall> {
        let output = plan.least_output().max(plan.max_output().min(SHORT_ANSWER_TOKENS));
        let worst = plan.worst(output);
        let whole = plan.with_wrap_up(worst);
        // A call that can wait is refused only if it does not fit without the others.
        let others = if plan.can_wait() { Others::Ignore } else { Others::Count };
        let mut shortages = self.shortages(plan, worst, whole, others);
        // The nearest first, money before tokens; a price before both.
        shortages.sort_by_key(|it| (kind(&it.lack), it.lack.left(), it.owner));
        if shortages.iter().any(|it| it.lack == Lack::Price) {
            shortages.truncate(1);
        }
        if shortages.is_empty() {
            return None;
        }
        // The reserved amounts: a model without a price costs what the policy says.
        let cost = |worst| plan.amounts(worst).cost;
        let has_rule = shortages.iter().any(|it| it.owner != LimitOwner::AllRuns);
        let wrap_up_cost = cost(whole).saturating_sub(cost(worst));
        Some(RefusedCall {
            model: plan.model().to_owned(),
            input_tokens: worst.input,
            output_tokens: worst.output,
            input_cost: cost(plan.worst(0)),
            cost: cost(worst),
            wrap_up_cost: if has_rule { wrap_up_cost } else { Money::ZERO },
            shortages,
        })
    }

    fn shortages(
        &self,
        plan: &PlannedCall<'_>,
        worst: Worst,
        whole: Worst,
        others: Others,
    ) -> Vec<Shortage> {
        let (amounts, with_wrap_up) = (plan.amounts(worst), plan.amounts(whole));
        let of_money = Need { alone: amounts.cost.picos(), whole: with_wrap_up.cost.picos() };
        let of_tokens = Need { alone: amounts.tokens, whole: with_wrap_up.tokens };
        let is_unpriced = worst.cost == Cost::Unpriced && plan.unpriced() == OnUnpriced::Stop;
        let levels = self.levels().enumerate().map(|(at, (budget, core))| {
            let owner = if at == 0 { LimitOwner::Run } else { LimitOwner::SubAgent };
            (owner, budget.clone(), Some(core))
        });
        let shared = std::iter::successors(self.shared_budget(), Budget::parent);
        let shared = shared.map(|budget| (LimitOwner::AllRuns, budget, None));
        let mut shortages = Vec::new();
        for (owner, budget, core) in levels.chain(shared) {
            let money = money_limit(&budget, core, others);
            if is_unpriced && (money.budget.is_some() || !money.rules.is_empty()) {
                shortages.push(Shortage { owner, lack: Lack::Price, rules: Vec::new() });
            } else if let Some((left, limit, needed)) = money.shortage(of_money) {
                let [left, limit, needed] = [left, limit, needed].map(Money::from_picos);
                let (lack, rules) = (Lack::money(left, limit, needed), money.refusing(of_money));
                shortages.push(Shortage { owner, lack, rules });
            }
            let tokens = token_limit(&budget, core, others);
            if let Some((left, limit, needed)) = tokens.shortage(of_tokens) {
                let (lack, rules) = (Lack::tokens(left, limit, needed), tokens.refusing(of_tokens));
                shortages.push(Shortage { owner, lack, rules });
            }
        }
        shortages
    }
}

const fn kind(lack: &Lack) -> u8 {
    match lack {
        Lack::Price => 0,
        Lack::Money { .. } => 1,
        Lack::Tokens { .. } => 2,
    }
}

/// The used amounts, and the part of them that other calls hold, if it counts.
fn used(budget: &Budget, others: Others) -> (Amounts, Amounts) {
    let held = others.held(budget);
    (budget.settled().saturating_add(&held), held)
}

/// The stop rules that read a resource, with the distance to their next trip.
fn rules(core: Option<&RunCore>, resource: Resource) -> Vec<(LimitRule, u64)> {
    let Some(core) = core else { return Vec::new() };
    let policy = core.run.program().policy();
    let named = |trip: NextTrip| {
        let origin = policy.rule(&trip.rule).and_then(|rule| rule.origin.clone());
        (LimitRule { id: trip.rule, origin }, trip.distance)
    };
    core.run.next_trips(resource, &[Action::Stop]).into_iter().map(named).collect()
}

fn money_limit(budget: &Budget, core: Option<&RunCore>, others: Others) -> NodeLimit {
    let (used, held) = used(budget, others);
    NodeLimit {
        budget: budget.limits().cost.map(Money::picos),
        used: used.cost.picos(),
        rules: rules(core, Resource::Cost),
        held: held.cost.picos(),
    }
}

fn token_limit(budget: &Budget, core: Option<&RunCore>, others: Others) -> NodeLimit {
    let (used, held) = used(budget, others);
    NodeLimit {
        budget: budget.limits().tokens,
        used: used.tokens,
        rules: rules(core, Resource::Tokens),
        held: held.tokens,
    }
}
