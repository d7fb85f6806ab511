//! The worst case of a model call before it is made: how much input it can be, how much output fits.

mod context;
mod fit;

use endstop_core::event::EventKind;
use endstop_core::policy::{Action, FallbackRates, OnUnpriced};
use endstop_core::run::Directive;
use endstop_core::run::next_trip::Axis;
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};

pub(super) use context::{ContextBound, estimate};

use self::fit::{Others, is_only_held};
use super::pricing::{Pricing, amount};
use super::scope::Chain;
use crate::observe::Detail;
use endstop_runtime::ledger::{Amounts, Budget, Hold, Refused};

/// Output tokens below which a call is not worth making (docs/semantics.md, section 2).
pub const MIN_OUTPUT_TOKENS: u64 = 16;
/// The output that is reserved for a call where neither the agent nor the model sets a cap.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 8_192;
/// The output that is kept for a wrap-up.
pub const WRAP_UP_OUTPUT_TOKENS: u64 = 1_024;
/// The tool results that are expected before a wrap-up, in tokens.
const WRAP_UP_RESULTS_TOKENS: u64 = 2_048;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPlan<'p> {
    pub(super) pricing: &'p Pricing,
    pub(super) at: WallTime,
    /// The most input tokens, and those of them that a provider counted before.
    pub(super) input: u64,
    pub(super) told: u64,
    /// The most output tokens that are wanted, and the least that are worth the call.
    pub(super) max_output: u64,
    pub(super) min_output: u64,
    /// Whether room is kept for a wrap-up after this call.
    pub(super) keeps_wrap_up: bool,
    /// What a call without a price counts for the ledger.
    pub(super) unpriced: OnUnpriced,
    /// Whether money is left out of account.
    pub(super) is_free: bool,
    /// Whether the call can wait for others in flight to be settled.
    pub(super) can_wait: bool,
}

/// The worst case of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worst {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cost: Cost,
}

impl CallPlan<'_> {
    /// The most that so many tokens cost.
    fn cost(&self, input: u64, output: u64) -> Cost {
        if self.is_free {
            return Cost::Known(Money::ZERO);
        }
        self.pricing.worst(input, output, self.at)
    }

    /// A guess of the input that was sent.
    pub(super) const fn estimated_input(&self) -> u64 {
        self.told.saturating_add(estimate(self.input.saturating_sub(self.told)))
    }

    /// The worst case with an output cap, without what is kept for a wrap-up.
    pub(super) fn worst(&self, output: u64) -> Worst {
        Worst { input: self.input, output, cost: self.cost(self.input, output) }
    }

    /// As [`CallPlan::worst`], with what is kept.
    fn worst_with_wrap_up(&self, output: u64) -> Worst {
        self.with_wrap_up(self.worst(output))
    }

    /// A worst case, and what is kept for a wrap-up after it.
    fn with_wrap_up(&self, worst: Worst) -> Worst {
        if !self.keeps_wrap_up {
            return worst;
        }
        let again = self.input.saturating_add(worst.output).saturating_add(WRAP_UP_RESULTS_TOKENS);
        let wrap_up = self.cost(again, WRAP_UP_OUTPUT_TOKENS);
        Worst {
            input: worst.input.saturating_add(again),
            output: worst.output.saturating_add(WRAP_UP_OUTPUT_TOKENS),
            cost: plus(worst.cost, wrap_up),
        }
    }

    /// What the ledger holds for the call.
    fn amounts(&self, worst: Worst) -> Amounts {
        let Worst { input, output, .. } = worst;
        let usage = TokenUsage { input, output, ..TokenUsage::default() };
        Amounts {
            attempts: 1,
            tokens: usage.total(),
            cost: amount(Some(worst.cost), &usage, self.unpriced),
            ..Amounts::default()
        }
    }

    /// The most money that a million more output tokens cost.
    fn output_rate(&self) -> Money {
        let with = self.cost(self.input, 1_000_000);
        let without = self.cost(self.input, 0);
        match (with, without) {
            (Cost::Known(with), Cost::Known(without)) => with.saturating_sub(without),
            _ => Money::ZERO,
        }
    }
}

fn plus(a: Cost, b: Cost) -> Cost {
    match (a, b) {
        (Cost::Known(a), Cost::Known(b)) => {
            Cost::Known(Money::from_picos(a.picos().saturating_add(b.picos())))
        }
        _ => Cost::Unpriced,
    }
}

impl Worst {
    /// As an event for the run of a budget: what it holds for other calls in flight comes on top. A call
    /// without a price costs what the run's policy says.
    pub(super) fn beside(&self, budget: &Budget, unpriced: OnUnpriced) -> EventKind<'static> {
        self.beside_held(budget.held(), unpriced)
    }

    /// As [`Worst::beside`], beside so much.
    fn beside_held(&self, held: Amounts, unpriced: OnUnpriced) -> EventKind<'static> {
        let usage = TokenUsage { input: self.input, output: self.output, ..TokenUsage::default() };
        let cost = match (self.cost, unpriced) {
            (Cost::Unpriced, OnUnpriced::Stop) => Cost::Unpriced,
            (Cost::Unpriced, OnUnpriced::Ignore) if held.cost == Money::ZERO => Cost::Unpriced,
            _ => Cost::Known(amount(Some(self.cost), &usage, unpriced)),
        };
        EventKind::Reserve {
            input_tokens: self.input.saturating_add(held.tokens),
            output_tokens: self.output,
            cost: Some(plus(cost, Cost::Known(held.cost))),
        }
    }
}

/// A call that has begun.
pub(super) struct Admitted {
    pub(super) hold: Hold,
    pub(super) output: u64,
    /// The limit that lowered the output cap below what was wanted.
    pub(super) lowered_by: Option<StopReason>,
}

/// Why a call was not admitted.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    /// A core said so.
    Core(Directive),
    /// The ledger said so: a budget that is shared with other runs.
    Ledger(Refused),
    /// Both said so, and a core has the rule.
    Both,
    /// Money is limited by a budget that is shared with other runs, and the model has no price.
    Unpriced,
    /// It would fit if other calls in flight were settled; nobody was told anything.
    OthersHold,
}

impl Chain<'_> {
    /// Whether money or tokens matter to any run concerned.
    pub(super) fn needs_reserve(&self) -> bool {
        self.cores().any(|core| core.run.program().needs_reserve())
    }

    /// What a call without a price counts in the ledger, whose nodes have one amount for all: the dearest
    /// rates of the runs concerned, else what the outermost one says.
    pub(super) fn unpriced(&self) -> OnUnpriced {
        let mut all = self.cores().map(|core| core.run.program().policy().unpriced());
        let first = all.next().unwrap_or_default();
        all.fold(first, |dearest, next| match (dearest, next) {
            (OnUnpriced::Rates(a), OnUnpriced::Rates(b)) => OnUnpriced::Rates(FallbackRates {
                input: a.input.max(b.input),
                output: a.output.max(b.output),
            }),
            (_, OnUnpriced::Rates(rates)) => OnUnpriced::Rates(rates),
            (dearest, _) => dearest,
        })
    }

    /// Whether a budget beyond the runs' own rules limits money that nobody can tell.
    fn is_untold_money(&self, plan: &CallPlan<'_>) -> bool {
        let is_limited = || self.shared_budget().is_some_and(|it| it.room().cost.is_some());
        plan.unpriced == OnUnpriced::Stop && is_limited() && plan.worst(0).cost == Cost::Unpriced
    }

    /// Whether the budget above the outermost run refuses even the least of a call, and not only for what others
    /// hold now: then nothing is to begin of it, its step neither.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn check_shared(&self, plan: &CallPlan<'_>) -> Result<(), NotAdmitted> {
        let Some(shared) = self.shared_budget() else { return Ok(()) };
        if self.is_untold_money(plan) {
            return Err(NotAdmitted::Unpriced);
        }
        let least = plan.worst(plan.min_output.min(plan.max_output));
        match shared.check(&plan.amounts(least)) {
            Err(refused) if !(plan.can_wait && is_only_held(&refused)) => {
                Err(NotAdmitted::Ledger(refused))
            }
            _ => Ok(()),
        }
    }

    /// Tells what the next ordinary step and the wrap-up after it may spend, before the step begins: the
    /// core begins the wrap-up early enough.
    pub(super) fn look_ahead(&mut self, plan: &CallPlan<'_>) {
        self.look_ahead_beside(plan, self.own_budget().held());
    }

    fn look_ahead_beside(&mut self, plan: &CallPlan<'_>, held: Amounts) {
        let output = plan.max_output.min(plan.min_output.max(WRAP_UP_OUTPUT_TOKENS));
        let kind = plan.worst_with_wrap_up(output).beside_held(held, self.own_unpriced());
        self.note_own(&kind, Detail::None);
    }

    /// Reserves the worst case of a call, its output cap lowered to what fits, and lets the attempt begin.
    pub(super) fn begin_call(
        &mut self,
        plan: &CallPlan<'_>,
        model: &str,
        provider: &str,
    ) -> Result<Admitted, NotAdmitted> {
        let needs_reserve = self.needs_reserve();
        // Priced once: that is most of what admitting a call costs.
        let (worst, fits) = self.output_that_fits(plan, needs_reserve, Others::Count);
        let output = worst.output;
        if self.is_untold_money(plan) {
            return Err(NotAdmitted::Unpriced);
        }
        if self.waits_for_others(plan, (worst, fits), needs_reserve) {
            return Err(NotAdmitted::OthersHold);
        }
        let is_lowered = output < plan.max_output;
        let lowered_by = is_lowered.then(|| self.lowered_by(plan, needs_reserve));
        let hold = match self.own_budget().reserve(plan.amounts(worst)) {
            Ok(hold) => hold,
            Err(refused) if plan.can_wait && is_only_held(&refused) => {
                // A call of another run was quicker.
                return Err(NotAdmitted::OthersHold);
            }
            Err(refused) => {
                // Whose limit it is, if it is a rule's, the cores know; and then that run stops too.
                let reserve = |budget: &Budget, unpriced| worst.beside(budget, unpriced);
                if !needs_reserve || self.would(reserve) {
                    return Err(NotAdmitted::Ledger(refused));
                }
                self.intend_each(reserve, Detail::None);
                return Err(NotAdmitted::Both);
            }
        };
        // What is held already is not counted beside itself.
        let held = hold.amounts();
        let detail = Detail::Request {
            model,
            provider,
            max_output_tokens: Some(output),
            input_bound: plan.input,
        };
        let begun = self.begin_held(worst, held, needs_reserve, detail);
        match begun {
            Ok(()) => Ok(Admitted { hold, output, lowered_by }),
            Err(directive) => {
                hold.release();
                Err(NotAdmitted::Core(directive))
            }
        }
    }

    fn begin_held(
        &mut self,
        worst: Worst,
        held: Amounts,
        needs_reserve: bool,
        detail: Detail<'_>,
    ) -> Result<(), Directive> {
        if needs_reserve {
            let reserve = |budget: &Budget, unpriced| without(worst.beside(budget, unpriced), held);
            let directive = self.intend_each(reserve, Detail::None);
            if !directive.admits() {
                return Err(directive);
            }
        }
        let begin = EventKind::AttemptBegin { next_cost: Some(worst.cost) };
        let directive = self.intend(&begin, detail);
        if directive.admits() { Ok(()) } else { Err(directive) }
    }

    /// Where no stop rule limits it, the output up to which a finish rule still leaves room for a wrap-up.
    fn output_below_finish(&self, plan: &CallPlan<'_>) -> u64 {
        let axis = Axis::Output { rate: plan.output_rate() };
        let run = &self.core.run;
        if run.next_trip(axis, &[Action::Stop]).is_some() {
            return u64::MAX;
        }
        let worst = plan.worst_with_wrap_up(0);
        let Cost::Known(cost) = worst.cost else { return u64::MAX };
        let reserved = endstop_core::run::next_trip::Reserved {
            input_tokens: worst.input,
            output_tokens: worst.output,
            cost,
        };
        run.room(axis, reserved, &[Action::Finish]).map_or(u64::MAX, |trip| trip.distance)
    }
}

/// A reserve without what the call itself holds by now.
fn without(kind: EventKind<'static>, held: Amounts) -> EventKind<'static> {
    match kind {
        EventKind::Reserve { input_tokens, output_tokens, cost } => EventKind::Reserve {
            input_tokens: input_tokens.saturating_sub(held.tokens),
            output_tokens,
            cost: cost.map(|cost| match cost {
                Cost::Known(money) => Cost::Known(money.saturating_sub(held.cost)),
                other => other,
            }),
        },
        other => other,
    }
}
