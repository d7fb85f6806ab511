//! One model call of a driven run: reserved before it is sent, settled once, whatever happens.

use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::policy::{Action, OnUnpriced};
use endstop_core::run::{Directive, Status};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};
use tokio::time::Instant;

use super::super::ask::settled;
use super::super::plan::{Admitted, CallPlan, NotAdmitted};
use super::super::pricing::Pricing;
use super::super::scope::Scope;
use super::super::step::ledger_signal;
use super::DrivenRun;
use crate::message::ToolCall;
use crate::model::{ModelError, ModelErrorKind};
use crate::observe::Detail;
use endstop_runtime::ledger::{Hold, Refused};

/// A model call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// The model's prices, and its name and provider.
    pub pricing: &'c Pricing,
    /// The most input tokens that it can be.
    pub input: u64,
    /// Those of them that the provider counted before.
    pub told: u64,
    /// The most output tokens that are wanted.
    pub max_output: u64,
    /// The least that are worth the call: [`MIN_OUTPUT_TOKENS`](crate::agent::MIN_OUTPUT_TOKENS) elsewhere.
    pub min_output: u64,
    /// Whether the step is the wrap-up: then no room is kept for one.
    pub is_wrap_up: bool,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome<'o> {
    /// The model that answered.
    pub model: Option<&'o str>,
    /// What it used, as the provider counted or as it is estimated.
    pub usage: TokenUsage,
    /// What it costs; computed from the usage where nobody told.
    pub cost: Option<Cost>,
    /// Whether the usage is an estimate.
    pub is_estimate: bool,
    /// The finish reason as the provider gave it.
    pub finish: Option<&'o str>,
    /// The calls that the reply asks for; none of a reply that was cut.
    pub tool_calls: &'o [ToolCall],
    /// The model's words.
    pub text: &'o str,
    /// Output tokens that were reasoning.
    pub reasoning_tokens: Option<u64>,
    /// From the request to the first piece.
    pub first_piece_after: Option<Duration>,
}

/// Why a call does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// It would fit if other calls in flight were settled, of the run or of what shares its budget. Nobody was
    /// told anything: ask again once one of them is settled. None is in the way for ever, as each is settled once.
    OthersHold,
    /// The run has stopped or is paused.
    Over(Status),
}

/// A call that has begun. It is settled exactly once; one that is dropped charges its worst case.
#[derive(Debug)]
pub struct OpenCall {
    hold: Option<Hold>,
    scope: Arc<Scope>,
    pricing: Pricing,
    at: WallTime,
    input: u64,
    estimated_input: u64,
    output: u64,
    unpriced: OnUnpriced,
    is_capped: bool,
    lowered_by: Option<StopReason>,
    begun: Instant,
}

impl DrivenRun {
    pub(super) fn plan<'p>(&self, call: &Call<'p>) -> CallPlan<'p> {
        let finishes = self.look(|run| run.program().has_action(Action::Finish));
        CallPlan {
            pricing: call.pricing,
            at: self.scope.clock.wall(),
            input: call.input,
            told: call.told,
            max_output: call.max_output,
            min_output: call.min_output,
            keeps_wrap_up: !call.is_wrap_up && finishes,
            unpriced: self.scope.chain().unpriced(),
            is_free: false,
            can_wait: true,
        }
    }

    /// Whether money or tokens are limited for the run: then a call has to have an output cap, and paths whose
    /// usage cannot be read cannot be admitted.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        let room = self.scope.budget.room();
        room.tokens.is_some() || room.cost.is_some() || self.scope.chain().needs_reserve()
    }

    /// Whether the step of a call is better begun once other calls in flight are settled, as
    /// [`NotBegun::OthersHold`] says: for the call, or because what they hold alone would make it the wrap-up.
    /// Nothing begins.
    #[must_use]
    pub fn waits_for_others(&self, call: &Call<'_>) -> bool {
        // Where nobody holds anything there is nobody to wait for; so it is of most calls.
        if !self.scope.budget.is_anything_held() || !self.is_metered() {
            return false;
        }
        let plan = self.plan(call);
        let finishes = self.look(|run| run.program().has_action(Action::Finish));
        self.scope.chain().step_waits(&plan, finishes)
    }

    /// Reserves the worst case of a call, its output cap lowered to what fits, and lets the attempt begin.
    ///
    /// # Errors
    ///
    /// Why the call does not begin.
    pub fn begin_call(&self, call: &Call<'_>) -> Result<OpenCall, NotBegun> {
        let plan = self.plan(call);
        let is_capped = self.is_metered();
        let (model, provider) = (call.pricing.model(), call.pricing.provider());
        let begun = self.scope.chain().begin_call(&plan, model, provider);
        match begun {
            Ok(Admitted { hold, output, lowered_by }) => Ok(OpenCall {
                hold: Some(hold),
                scope: Arc::clone(&self.scope),
                pricing: call.pricing.clone(),
                at: plan.at,
                input: plan.input,
                estimated_input: plan.estimated_input(),
                output,
                unpriced: plan.unpriced,
                is_capped,
                lowered_by,
                begun: Instant::now(),
            }),
            Err(NotAdmitted::OthersHold) => Err(NotBegun::OthersHold),
            Err(why) => {
                self.not_admitted(&why, model);
                Err(NotBegun::Over(self.status()))
            }
        }
    }

    /// A budget refused: the run stops whose it is; the whole tree, where it is above all of them.
    pub(super) fn refused_by_ledger(&self, refused: &Refused) {
        let mut scope = &self.scope;
        while scope.budget.id() != refused.budget
            && let Some(parent) = &scope.parent
        {
            scope = parent;
        }
        let signal = ledger_signal(refused);
        if !Arc::ptr_eq(scope, &self.scope) {
            Self { scope: Arc::clone(scope) }.raise(&signal);
        }
        self.raise(&signal);
    }

    pub(super) fn not_admitted(&self, why: &NotAdmitted, model: &str) {
        let signal = match why {
            NotAdmitted::Ledger(refused) => return self.refused_by_ledger(refused),
            NotAdmitted::Unpriced => {
                StopSignal::new(StopReason::CostLimitReached).with_source("budget").with_message(
                    format!("the budget limits money, and `{model}` has no price: give rates by `on_unpriced`, or ignore it"),
                )
            }
            NotAdmitted::Core(Directive::Refuse) => StopSignal::new(StopReason::StopRequested)
                .with_message("no request can begin now"),
            NotAdmitted::Core(_) | NotAdmitted::Both | NotAdmitted::OthersHold => return,
        };
        self.raise(&signal);
    }
}

impl OpenCall {
    /// The output cap that the call has to be sent with; none where nothing limits tokens or money.
    #[must_use]
    pub fn output_cap(&self) -> Option<u64> {
        self.is_capped.then_some(self.output)
    }

    /// The limit that lowered the output cap below what was wanted.
    #[must_use]
    pub const fn lowered_by(&self) -> Option<StopReason> {
        self.lowered_by
    }

    /// When it began.
    #[must_use]
    pub const fn begun(&self) -> Instant {
        self.begun
    }

    /// A guess of the input that was sent, where no provider counts it.
    #[must_use]
    pub const fn estimated_input(&self) -> u64 {
        self.estimated_input
    }

    /// What so many tokens cost.
    #[must_use]
    pub fn cost(&self, usage: &TokenUsage) -> Cost {
        self.pricing.cost(usage, self.at)
    }

    /// The call's wall time, for exact prices.
    #[must_use]
    pub const fn at(&self) -> WallTime {
        self.at
    }

    /// A reply, or what came of one that was cut. Settles, and asks the run what to do.
    pub fn replied(mut self, outcome: &Outcome<'_>) -> Directive {
        let cost = outcome.cost.unwrap_or_else(|| self.cost(&outcome.usage));
        let scope = Arc::clone(&self.scope);
        let mut chain = scope.chain();
        if let Some(hold) = self.hold.take() {
            hold.settle(settled(&outcome.usage, cost, self.unpriced));
        }
        chain.add_usage(Some(outcome.usage), outcome.is_estimate);
        let kind = EventKind::Reply {
            model: outcome.model.or(Some(self.pricing.model())),
            usage: Some(outcome.usage),
            cost: Some(cost),
            finish: outcome.finish,
            tool_calls: u32::try_from(outcome.tool_calls.len()).unwrap_or(u32::MAX),
        };
        let detail = Detail::Reply {
            text: outcome.text,
            tool_calls: outcome.tool_calls,
            is_estimate: outcome.is_estimate,
            reasoning_tokens: outcome.reasoning_tokens,
            first_piece_after: outcome.first_piece_after,
            took: self.begun.elapsed(),
        };
        chain.tell(&kind, detail)
    }

    /// The call failed; `usage` is what it is charged for: none where failing costs nothing.
    pub fn failed(mut self, error: &ModelError, usage: Option<TokenUsage>) -> Directive {
        let cost = usage.map(|usage| self.cost(&usage));
        self.fail(error, usage, cost)
    }

    fn fail(
        &mut self,
        error: &ModelError,
        usage: Option<TokenUsage>,
        cost: Option<Cost>,
    ) -> Directive {
        let scope = Arc::clone(&self.scope);
        let mut chain = scope.chain();
        if let Some(hold) = self.hold.take() {
            let spent = usage.unwrap_or_default();
            hold.settle(settled(&spent, cost.unwrap_or(Cost::Known(Money::ZERO)), self.unpriced));
        }
        chain.add_usage(usage, usage.is_some());
        let took = self.begun.elapsed();
        let detail = Detail::Failure { error, is_estimate: usage.is_some(), took };
        chain.tell(&EventKind::AttemptFailed { usage, cost }, detail)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.hold.is_some() {
            let worst =
                TokenUsage { input: self.input, output: self.output, ..TokenUsage::default() };
            let error = ModelError::new(ModelErrorKind::Truncated, "dropped before its end");
            let cost = self.pricing.worst(self.input, self.output, self.at);
            self.fail(&error, Some(worst), Some(cost));
        }
    }
}
