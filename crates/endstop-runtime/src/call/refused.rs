//! The parts of a call that was refused, and the limits that would admit it.

use std::cmp::Reverse;

use endstop_core::policy::{Action, OnUnpriced};
use endstop_core::run::next_trip::Resource;
use endstop_core::units::{Cost, Money};

use super::fit::Others;
use super::plan::{PlannedCall, Worst};
use crate::ledger::{Amounts, Budget};
use crate::limits::SHORT_ANSWER_TOKENS;
use crate::observe::{Lack, LimitOwner, RefusedCall, Shortage};
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
#[derive(Clone, Copy)]
struct NodeLimit {
    /// The limit of its budget.
    budget: Option<u64>,
    /// The settled amount, and the held one if it counts.
    used: u64,
    /// The distance to the next trip of a rule, from the settled amount.
    rule: Option<u64>,
    /// The amount that other calls hold, if it counts.
    held: u64,
}

impl NodeLimit {
    /// The rest, the limit and the needed rest, of the budget or of a rule. `None` if the need fits both.
    fn shortage(self, need: Need) -> Option<(u64, u64, u64)> {
        let of_budget = self.budget.map(|limit| (limit.saturating_sub(self.used), need.alone));
        let of_rule = self.rule.map(|distance| (distance.saturating_sub(self.held), need.whole));
        let short = [of_budget, of_rule].into_iter().flatten().filter(|(left, need)| need > left);
        let (left, needed) = short.min_by_key(|(left, need)| (*left, Reverse(*need)))?;
        Some((left, self.used.saturating_add(left), needed))
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
        let known = |cost| match cost {
            Cost::Known(money) => money,
            Cost::Unpriced => Money::ZERO,
        };
        let has_rule = shortages.iter().any(|it| it.owner != LimitOwner::AllRuns);
        let wrap_up_cost = known(whole.cost).saturating_sub(known(worst.cost));
        Some(RefusedCall {
            model: plan.model().to_owned(),
            input_tokens: worst.input,
            output_tokens: worst.output,
            input_cost: known(plan.worst(0).cost),
            cost: known(worst.cost),
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
            if is_unpriced && (money.budget.is_some() || money.rule.is_some()) {
                shortages.push(Shortage { owner, lack: Lack::Price });
            } else if let Some((left, limit, needed)) = money.shortage(of_money) {
                let [left, limit, needed] = [left, limit, needed].map(Money::from_picos);
                shortages.push(Shortage { owner, lack: Lack::money(left, limit, needed) });
            }
            let tokens = token_limit(&budget, core, others).shortage(of_tokens);
            if let Some((left, limit, needed)) = tokens {
                shortages.push(Shortage { owner, lack: Lack::tokens(left, limit, needed) });
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

fn distance(core: Option<&RunCore>, resource: Resource) -> Option<u64> {
    let trip = core?.run.next_trip(resource, &[Action::Stop]);
    trip.map(|trip| trip.distance)
}

fn money_limit(budget: &Budget, core: Option<&RunCore>, others: Others) -> NodeLimit {
    let (used, held) = used(budget, others);
    NodeLimit {
        budget: budget.limits().cost.map(Money::picos),
        used: used.cost.picos(),
        rule: distance(core, Resource::Cost),
        held: held.cost.picos(),
    }
}

fn token_limit(budget: &Budget, core: Option<&RunCore>, others: Others) -> NodeLimit {
    let (used, held) = used(budget, others);
    NodeLimit {
        budget: budget.limits().tokens,
        used: used.tokens,
        rule: distance(core, Resource::Tokens),
        held: held.tokens,
    }
}
