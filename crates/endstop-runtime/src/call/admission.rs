//! The admission of a model call: reserved with the output that fits, waiting for others, or refused.

use endstop_core::event::EventKind;
use endstop_core::policy::{Action, FallbackRates, OnServerError, OnUnknownUsage, OnUnpriced};
use endstop_core::run::next_trip::{Reserved, Resource};
use endstop_core::run::{Directive, Run};
use endstop_core::signal::StopReason;
use endstop_core::units::Cost;

use super::fit::{Fit, is_only_held};
use super::plan::{PlannedCall, Worst};
use crate::account::AccountBlock;
use crate::ledger::{Amounts, Budget, Hold, Refused};
use crate::limits::{MIN_OUTPUT_TOKENS, WRAP_UP_OUTPUT_TOKENS};
use crate::observe::Detail;
use crate::run::{LockedChain, RunHandle};

/// A call that has begun.
pub(crate) struct Admitted {
    pub(crate) hold: Hold,
    pub(crate) output: u64,
    /// The limit that lowered the output cap below what was wanted.
    pub(crate) lowered_by: Option<StopReason>,
    /// Whether it did so only together with what other calls in flight hold.
    pub(crate) is_by_others: bool,
    /// Whether the output cap is a share, so that parallel calls fit too.
    pub(crate) is_shared: bool,
}

/// Why a call was not admitted.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// A core said so.
    Core(Directive),
    /// The ledger said so: a budget that is shared with other runs.
    Ledger(Refused),
    /// Both said so, and a core has the rule.
    Both,
    /// Money is limited by a budget that is shared with other runs, and the model has no price.
    Unpriced,
    /// An account said so, or its store failed.
    Account(AccountBlock),
    /// A budget of the call was killed, for this reason.
    Killed(String),
    /// It would fit if other calls in flight were settled; no core or observer has seen it.
    OthersHold,
    /// It does not fit together with the wrap-up after it, and the next step would be that wrap-up.
    WrapUpDue,
}

impl RunHandle {
    /// Returns the output tokens below which a call is refused: the most that a policy of the run or of an ancestor
    /// says, and [`MIN_OUTPUT_TOKENS`](crate::MIN_OUTPUT_TOKENS) if none says it.
    #[must_use]
    pub fn min_output_tokens(&self) -> u64 {
        let of = |run: &Run| run.program().policy().accounting.min_output_tokens;
        self.node().look_upwards(of).flatten().max().unwrap_or(MIN_OUTPUT_TOKENS)
    }

    /// Whether money or tokens matter to the run or an ancestor.
    pub(super) fn needs_reserve(&self) -> bool {
        self.node().look_upwards(|run| run.program().needs_reserve()).any(|needs| needs)
    }

    /// The charge in the ledger for a call without a price. All nodes get the same amount: the most expensive rates
    /// of the runs concerned, or what the outermost one says.
    pub(super) fn unpriced(&self) -> OnUnpriced {
        let of = |run: &Run| run.program().policy().unpriced();
        let above = self.node().look_upwards(of).skip(1);
        above.fold(self.look(of), |dearest, above| match (dearest, above) {
            (OnUnpriced::Rates(a), OnUnpriced::Rates(b)) => OnUnpriced::Rates(FallbackRates {
                input: a.input.max(b.input),
                output: a.output.max(b.output),
            }),
            (OnUnpriced::Rates(rates), _) => OnUnpriced::Rates(rates),
            (_, above) => above,
        })
    }
}

impl LockedChain<'_> {
    /// Whether money or tokens matter to any run concerned.
    pub(crate) fn needs_reserve(&self) -> bool {
        self.cores().any(|core| core.run.program().needs_reserve())
    }

    /// Whether a response of unknown usage is charged the most that is possible: unless a policy of the chain says
    /// otherwise, and none says this.
    pub(super) fn holds_unknown_usage(&self) -> bool {
        let said =
            self.cores().filter_map(|core| core.run.program().policy().accounting.on_unknown_usage);
        said.max_by_key(|usage| *usage == OnUnknownUsage::Hold) != Some(OnUnknownUsage::Estimate)
    }

    /// Whether an error response of an upstream whose billing is not known is free: a policy of the chain says so, and
    /// none says otherwise.
    pub(super) fn frees_server_errors(&self) -> bool {
        let said =
            self.cores().filter_map(|core| core.run.program().policy().accounting.on_server_error);
        said.max_by_key(|it| *it == OnServerError::Auto) == Some(OnServerError::Free)
    }

    /// Whether a budget beyond the runs' own rules limits money and the cost of the call cannot be known.
    fn is_untold_money(&self, plan: &PlannedCall<'_>) -> bool {
        let is_limited = || self.shared_budget().is_some_and(|it| it.room().cost.is_some());
        plan.unpriced() == OnUnpriced::Stop && is_limited() && plan.worst(0).cost == Cost::Unpriced
    }

    /// Whether the budget above the outermost run refuses even the smallest form of a call, and not only because of
    /// the current holds of others: then neither the call nor its step should begin.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_shared(&self, plan: &PlannedCall<'_>) -> Result<(), NotAdmitted> {
        let Some(shared) = self.shared_budget() else { return Ok(()) };
        if self.is_untold_money(plan) {
            return Err(NotAdmitted::Unpriced);
        }
        let least = plan.worst(plan.least_output());
        match shared.check(&plan.amounts(least)) {
            Err(refused) if !(plan.can_wait() && is_only_held(&refused)) => {
                Err(NotAdmitted::Ledger(refused))
            }
            _ => Ok(()),
        }
    }

    /// Reports how much the next ordinary step and the wrap-up after it may spend, before the step begins: the core
    /// begins the wrap-up early enough.
    pub(crate) fn look_ahead(&mut self, plan: &PlannedCall<'_>) {
        self.look_ahead_beside(plan, self.own_budget().held());
    }

    pub(super) fn look_ahead_beside(&mut self, plan: &PlannedCall<'_>, held: Amounts) {
        let kind = self.ahead_beside(plan, held);
        self.record_own(&kind, Detail::None);
    }

    /// The most that the next ordinary step and the wrap-up after it may spend, with other holds added.
    fn ahead_beside(&mut self, plan: &PlannedCall<'_>, held: Amounts) -> EventKind<'static> {
        let output = plan.max_output().min(plan.min_output().max(WRAP_UP_OUTPUT_TOKENS));
        let unpriced = self.own_core().unpriced();
        plan.worst_with_wrap_up(output).beside_held(held, unpriced)
    }

    /// Whether a step that begins now would be the wrap-up. The same applies to a further attempt if the first ones
    /// have spent the reserve for it.
    fn is_wrap_up_due(&mut self, plan: &PlannedCall<'_>) -> bool {
        let held = self.own_budget().held();
        let reserve = self.ahead_beside(plan, held);
        self.would_finish(&reserve)
    }

    /// Reserves the worst case of a call, its output cap lowered to fit, and starts the attempt.
    pub(crate) fn begin_call(
        &mut self,
        plan: &PlannedCall<'_>,
        model: &str,
        provider: &str,
    ) -> Result<Admitted, NotAdmitted> {
        let needs_reserve = self.needs_reserve();
        // Priced once: that is most of what admitting a call costs.
        let fit = self.fit(plan, needs_reserve);
        let Fit { worst, is_by_others, .. } = fit;
        let output = worst.output;
        if self.is_untold_money(plan) {
            return Err(NotAdmitted::Unpriced);
        }
        if self.waits_for_others(plan, &fit, needs_reserve) {
            return Err(NotAdmitted::OthersHold);
        }
        if !fit.fits {
            if plan.keeps_wrap_up() && self.is_wrap_up_due(plan) {
                return Err(NotAdmitted::WrapUpDue);
            }
            self.note_refused(plan);
        }
        let is_shared = is_by_others && fit.share.is_some();
        let is_lowered = output < plan.max_output();
        let lowered_by = is_lowered.then(|| self.lowered_by(plan, is_shared, needs_reserve));
        let hold = match self.own_budget().reserve(plan.amounts(worst)) {
            Ok(hold) => hold,
            Err(refused) if plan.can_wait() && is_only_held(&refused) => {
                // A call of another run was quicker.
                return Err(NotAdmitted::OthersHold);
            }
            Err(refused) => {
                // Whose limit it is, if it is a rule's, the cores know; and then that run stops too.
                let reserve = |budget: &Budget, unpriced| worst.beside(budget, unpriced);
                if !needs_reserve || self.would_admit(reserve) {
                    return Err(NotAdmitted::Ledger(refused));
                }
                self.try_begin_each(reserve, Detail::None);
                return Err(NotAdmitted::Both);
            }
        };
        // The call's own hold is not counted twice.
        let held = hold.amounts();
        let detail = Detail::Request {
            model,
            provider,
            max_output_tokens: Some(output),
            input_bound: worst.input,
        };
        let begun = self.begin_held(worst, held, needs_reserve, detail);
        match begun {
            Ok(()) => {
                self.set_refused_call(None);
                Ok(Admitted { hold, output, lowered_by, is_by_others, is_shared })
            }
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
            let directive = self.try_begin_each(reserve, Detail::None);
            if !directive.admits() {
                return Err(directive);
            }
        }
        let begin = EventKind::AttemptBegin { next_cost: Some(worst.cost) };
        let directive = self.try_begin(&begin, detail);
        if directive.admits() { Ok(()) } else { Err(directive) }
    }

    /// If no stop rule limits it, the output up to which a finish rule still leaves room for a wrap-up.
    pub(super) fn output_below_finish(&mut self, plan: &PlannedCall<'_>) -> u64 {
        let resource = Resource::Output { rate: plan.output_rate() };
        let run = &self.own_core().run;
        if run.room(resource, Reserved::default(), &[Action::Stop]).is_some() {
            return u64::MAX;
        }
        let worst = plan.worst_with_wrap_up(0);
        let Cost::Known(cost) = worst.cost else { return u64::MAX };
        let reserved = Reserved { input_tokens: worst.input, output_tokens: worst.output, cost };
        run.room(resource, reserved, &[Action::Finish]).map_or(u64::MAX, |trip| trip.distance)
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
