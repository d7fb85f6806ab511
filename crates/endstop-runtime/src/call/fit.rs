//! How much output of a call fits, and whether it is worth waiting for other calls in flight.
//!
//! The holds of other calls are worst cases; most of each is released when the call is settled. A call that fits only
//! then waits for them, if its driver can wait. The same applies to a call that could begin now with less than a
//! quarter of the output that it could have then: a truncated response is worth less than one that arrives a little
//! later.
//!
//! Most calls use little of their output cap, so parallel calls would wait for amounts that no call spends. A call that
//! takes a share begins with a lower cap instead: a quarter of the remaining budget, and at least four times the largest
//! output of the run so far. The cap that is sent is the cap that is held, so shares never let a limit be passed. They
//! can cut a response off.

use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::signal::StopReason;

use super::input::InputBound;
use super::plan::{CallPlan, PlannedCall, Worst};
use crate::ledger::{Amounts, Budget, Dimension, Limits, Refused};
use crate::limits::{MIN_SHARE, SHARES, WORTH_A_PART};
use crate::run::{LockedChain, RunHandle};

/// Whether what other calls in flight hold counts against a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    Count,
    Ignore,
}

impl Others {
    pub(super) fn held(self, budget: &Budget) -> Amounts {
        match self {
            Self::Count => budget.held(),
            Self::Ignore => Amounts::ZERO,
        }
    }

    pub(super) fn room(self, budget: &Budget) -> Limits {
        match self {
            Self::Count => budget.room(),
            Self::Ignore => unheld_room(budget),
        }
    }
}

/// The output that a call can have now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    /// Its worst case with it.
    pub(super) worst: Worst,
    /// Whether that fits; otherwise it is the least that is worth the call.
    pub(super) fits: bool,
    /// The output cap that is its share, if that is less than it wants.
    pub(super) share: Option<u64>,
    /// Whether the other calls, and no limit, are why it has less than it wants.
    pub(super) is_by_others: bool,
}

/// The tokens and money that the settled calls leave, over a node and its ancestors.
fn unheld_room(budget: &Budget) -> Limits {
    let mut least = Limits::unlimited();
    let mut next = Some(budget.clone());
    while let Some(node) = next {
        let of = node.snapshot();
        let tokens = of.limits.tokens.map(|limit| limit.saturating_sub(of.settled.tokens));
        let cost = of.limits.cost.map(|limit| limit.saturating_sub(of.settled.cost));
        least.tokens = least.tokens.into_iter().chain(tokens).min();
        least.cost = least.cost.into_iter().chain(cost).min();
        next = node.parent();
    }
    least
}

/// Whether a refusal of tokens or money is only for what other calls hold.
pub(super) fn is_only_held(refused: &Refused) -> bool {
    matches!(refused.dimension, Dimension::Tokens | Dimension::Cost)
        && refused.held > 0
        && refused.settled.saturating_add(refused.asked) <= refused.limit
}

/// The answer to whether a call fits, now or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRoom {
    /// Together with the other calls in flight.
    Now,
    /// Once they are settled.
    OnceSettled,
    /// Not even alone.
    Never,
}

impl RunHandle {
    /// Returns when a call fits with all the output that it wants, and a wrap-up after it if one is kept. Nothing
    /// begins and nothing is recorded.
    #[must_use]
    pub fn room_for(&self, plan: &CallPlan<'_>) -> CallRoom {
        let planned = self.planned(&CallPlan { min_output: plan.max_output, ..*plan });
        let mut chain = self.node().chain();
        let needs_reserve = chain.needs_reserve();
        if chain.output_that_fits(&planned, needs_reserve, Others::Count).1 {
            CallRoom::Now
        } else if chain.output_that_fits(&planned, needs_reserve, Others::Ignore).1 {
            CallRoom::OnceSettled
        } else {
            CallRoom::Never
        }
    }

    /// Returns whether a smaller bound of its input could help a call, once other calls in flight are settled: all the
    /// output that it wants does not fit, and the least would, if only the part that was counted before were its input.
    /// Nothing begins and nothing is recorded.
    #[must_use]
    pub fn would_gain_by_count(&self, plan: &CallPlan<'_>) -> bool {
        let wanted = self.planned(plan);
        let input = InputBound { tokens: plan.input.counted, ..plan.input };
        let least = CallPlan { input, tool_input: 0, max_output: plan.min_output, ..*plan };
        let least = self.planned(&least);
        let accounts = self.node().accounts();
        let room = accounts.map(|it| it.current().unheld_room(wanted.provider(), wanted.model()));
        let room = room.unwrap_or_else(Limits::unlimited);
        let (wanted, least) = (wanted.with_granted(room), least.with_granted(room));
        let mut chain = self.node().chain();
        let needs_reserve = chain.needs_reserve();
        let mut fits = |plan: &PlannedCall<'_>| {
            chain.lets_begin(plan, plan.worst(plan.max_output()), needs_reserve, Others::Ignore)
        };
        !fits(&wanted) && fits(&least)
    }
}

impl LockedChain<'_> {
    fn is_in_budget(&self, plan: &PlannedCall<'_>, worst: Worst, others: Others) -> bool {
        let (room, amounts) = (others.room(self.own_budget()), plan.amounts(worst));
        let both = [Dimension::Tokens, Dimension::Cost];
        let fits = |it: &Dimension| {
            let rooms = [room.get(*it), plan.granted().get(*it)];
            rooms.into_iter().flatten().all(|left| amounts.get(*it) <= left)
        };
        both.iter().all(fits)
    }

    /// Whether cores and budgets would admit a call.
    fn lets_begin(
        &mut self,
        plan: &PlannedCall<'_>,
        worst: Worst,
        needs_reserve: bool,
        others: Others,
    ) -> bool {
        self.is_in_budget(plan, worst, others)
            && (!needs_reserve
                || self.would_admit(|budget, unpriced| {
                    worst.beside_held(others.held(budget), unpriced)
                }))
    }

    /// The output that a call can have now: all that fits, or its share.
    pub(super) fn fit(&mut self, plan: &PlannedCall<'_>, needs_reserve: bool) -> Fit {
        let share = self.share(plan, needs_reserve);
        let most = share.map_or(*plan, |share| plan.with_max_output(share));
        let (worst, fits) = self.output_that_fits(&most, needs_reserve, Others::Count);
        // A driver that cannot wait makes no other call later, so the limit is its reason.
        let is_lowered = fits && plan.can_wait() && worst.output < plan.max_output();
        let is_by_others = is_lowered && self.own_budget().is_anything_held() && {
            let (alone, _) = self.output_that_fits(plan, needs_reserve, Others::Ignore);
            alone.output > worst.output
        };
        Fit { worst, fits, share, is_by_others }
    }

    /// The share of a call, if others are in flight and it wants more than that.
    fn share(&mut self, plan: &PlannedCall<'_>, needs_reserve: bool) -> Option<u64> {
        let wanted = plan.max_output();
        if !plan.takes_share() || !self.own_budget().is_anything_held() {
            return None;
        }
        // Asked of the cores like any other amount: how much fits if each token of output is several.
        let several = plan.with_max_output(wanted.saturating_mul(SHARES));
        let (worst, _) = self.output_that_fits(&several, needs_reserve, Others::Count);
        let least = self.largest_output().saturating_mul(SHARES).max(MIN_SHARE);
        let share = (worst.output / SHARES).max(least);
        if share >= wanted {
            return None;
        }
        // The calls of unrelated runs matter only where a budget that they share is what limits this one.
        let (alone, _) = self.output_that_fits(&several, needs_reserve, Others::Ignore);
        (alone.output > worst.output).then_some(share)
    }

    /// Whether the call is better begun once others are settled.
    pub(super) fn waits_for_others(
        &mut self,
        plan: &PlannedCall<'_>,
        now: &Fit,
        needs_reserve: bool,
    ) -> bool {
        let Fit { worst, fits, share, .. } = *now;
        let (wanted, part) = match share {
            // Less than its share is not worth it.
            Some(share) => (plan.with_max_output(share), 1),
            None => (*plan, WORTH_A_PART),
        };
        let is_worth = |alone: u64| worst.output >= alone.div_ceil(part);
        if !plan.can_wait() || fits && is_worth(wanted.max_output()) {
            return false;
        }
        let (alone, _) = self.output_that_fits(&wanted, needs_reserve, Others::Ignore);
        if !self.lets_begin(plan, alone, needs_reserve, Others::Ignore) {
            return false;
        }
        !is_worth(alone.output) || !self.lets_begin(plan, worst, needs_reserve, Others::Count)
    }

    /// Whether the step of a call is better begun once others are settled: for the call, or because what they
    /// hold alone would make it the wrap-up.
    pub(crate) fn step_waits(&mut self, plan: &PlannedCall<'_>, looks_ahead: bool) -> bool {
        let needs_reserve = self.needs_reserve();
        let now = self.fit(plan, needs_reserve);
        if self.waits_for_others(plan, &now, needs_reserve) {
            return true;
        }
        let held = self.own_budget().held();
        if !plan.can_wait() || !looks_ahead || held.tokens == 0 {
            return false;
        }
        let mut finishes_beside = |held| {
            self.look_ahead_beside(plan, held);
            self.would_admit_own(&EventKind::StepBegin) == Directive::Finish
        };
        finishes_beside(held) && !finishes_beside(Amounts::ZERO)
    }

    /// The worst case with the largest output cap that every core and every budget admits, and `true`. If none fits,
    /// the worst case with the smallest cap and `false`, so that the refusal shows it.
    ///
    /// The cores themselves are asked, by [`Run::would_admit`](endstop_core::Run::would_admit) of a reserve, instead of computing
    /// the cap from the distance to the next trip: prices have tiers, and every ancestor has another policy.
    pub(super) fn output_that_fits(
        &mut self,
        plan: &PlannedCall<'_>,
        needs_reserve: bool,
        others: Others,
    ) -> (Worst, bool) {
        let least = plan.least_output();
        let mut most = plan.max_output();
        if plan.keeps_wrap_up() {
            let below = self.output_below_finish(plan);
            if below < least {
                return (plan.worst(least), false);
            }
            most = most.min(below);
        }
        let mut fits = |worst: Worst| {
            self.is_in_budget(plan, worst, others)
                && (!needs_reserve || {
                    let whole = plan.with_wrap_up(worst);
                    self.would_admit(|budget, unpriced| {
                        whole.beside_held(others.held(budget), unpriced)
                    })
                })
        };
        let wanted = plan.worst(most);
        if fits(wanted) {
            return (wanted, true);
        }
        let mut low = plan.worst(least);
        if !fits(low) {
            return (low, false);
        }
        let mut above = most;
        while above.saturating_sub(low.output) > 1 {
            let middle = low.output.saturating_add(above.saturating_sub(low.output) / 2);
            let worst = plan.worst(middle);
            if fits(worst) {
                low = worst;
            } else {
                above = middle;
            }
        }
        (low, true)
    }

    /// The dimension that lowered the output cap, maybe to a share: tokens, if they lower it without money too.
    pub(super) fn lowered_by(
        &mut self,
        plan: &PlannedCall<'_>,
        is_shared: bool,
        needs_reserve: bool,
    ) -> StopReason {
        let shares = if is_shared { SHARES } else { 1 };
        let free = plan.with_max_output(plan.max_output().saturating_mul(shares)).free();
        let (worst, _) = self.output_that_fits(&free, needs_reserve, Others::Count);
        if worst.output < free.max_output() {
            StopReason::TokenLimitReached
        } else {
            StopReason::CostLimitReached
        }
    }
}
