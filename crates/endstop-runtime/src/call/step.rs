//! Steps and tool calls that begin, and the one place that turns a refusal into a stop reason.

use std::sync::Arc;

use endstop_core::condition::fact::normalized_finish;
use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_core::run::Directive;
use endstop_core::signal::{BUDGET_SOURCE, LIMIT_SOURCE, StopReason, StopSignal};

use super::admission::NotAdmitted;
use super::plan::CallPlan;
use crate::account::{AccountBlock, uncounted};
use crate::ledger::{Amounts, Hold, Refused};
use crate::observe::{ALL_RUNS, Detail, OWNER_KEY, RefusedCall};
use crate::run::{RunHandle, StopReach};

impl RunHandle {
    /// Admits a step with a known call, for the run and its ancestors. `Finish`: it begins as the wrap-up. If it is
    /// refused, the run says why. The budget that the run shares with others may also have no room for the call
    /// ([`CallPlan::is_final`]); it then does not count as a step of this run.
    pub fn begin_step(&self, plan: &CallPlan<'_>) -> Directive {
        let model = plan.pricing.model();
        if plan.is_final
            && self.node().budget_is_shared()
            && self.would_admit(&EventKind::StepBegin)
        {
            let planned = self.planned(plan);
            let checked = {
                let mut chain = self.node().chain();
                let checked = chain.check_shared(&planned);
                if checked.is_err() {
                    chain.note_refused(&planned);
                }
                checked
            };
            if let Err(why) = checked {
                self.not_admitted(&why, model);
                return Directive::Stop;
            }
        }
        if let Err(why) = self.check_accounts(plan) {
            self.not_admitted(&why, model);
            return Directive::Stop;
        }
        let needs_look_ahead = self
            .look(|run| run.program().needs_reserve() && run.program().has_action(Action::Finish));
        if needs_look_ahead {
            let planned = self.planned(plan);
            self.node().chain().look_ahead(&planned);
        }
        let one = Amounts { steps: 1, ..Amounts::default() };
        let directive =
            self.begin_counted(self.budget().reserve(one), &EventKind::StepBegin, Detail::None);
        if directive.admits() {
            self.node().set_owes_step(true);
        }
        if directive == Directive::Refuse {
            let why = "no step can begin now: a run above is about to answer with what it has";
            return self.raise_own(StopReason::StopRequested, why);
        }
        directive
    }

    /// Lets a tool call begin, for the run and its ancestors. A call that has begun counts, whatever its outcome is. While the
    /// run is paused from outside none begins.
    pub fn begin_tool_call(&self, tool: &str, detail: Detail<'_>) -> Directive {
        if self.pause_request().is_some() {
            return Directive::Pause;
        }
        let one = Amounts { tool_calls: 1, ..Amounts::default() };
        // Something that it does not draw on may be overdrawn: that ends the run before its next model call, and the tools
        // of a response that was paid for run.
        let hold = self.budget().reserve_asked(one);
        self.begin_counted(hold, &EventKind::ToolBegin { tool }, detail)
    }

    /// Lets a tool call begin that a client has already, or will get: no budget can hold it back, only the rules. One
    /// that does not begin is recorded as refused, and a pause from outside comes too late for it. Whether it has begun.
    pub fn begin_forwarded_tool_call(&self, tool: &str, detail: Detail<'_>) -> bool {
        let begins = self.try_begin(&EventKind::ToolBegin { tool }, detail).admits();
        if begins {
            self.budget().charge(Amounts { tool_calls: 1, ..Amounts::default() });
        } else {
            self.record(&EventKind::ToolRefused { tool }, detail);
        }
        begins
    }

    /// Stops the run if a lowered output cap cut a response off, which requested no tools and is not the wrap-up: the
    /// model did not end on its own. `lowered_by` is [`OpenCall::lowered_by`](super::OpenCall::lowered_by). Whether it
    /// was so.
    pub fn end_by_cap(&self, lowered_by: Option<StopReason>, finish: Option<&str>) -> bool {
        let Some(reason) = lowered_by.filter(|_| is_cut_off(finish)) else { return false };
        let signal = StopSignal::new(reason)
            .with_message("the response was cut off at what the limit left for it");
        self.raise(&signal.with_source(LIMIT_SOURCE));
        true
    }

    /// Records a refusal if something may not begin, and returns it. If it may, nothing is counted.
    pub fn refusal_of(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Option<Directive> {
        let mut chain = self.node().chain();
        if chain.would_admit(|_, _| kind.clone()) {
            return None;
        }
        Some(chain.try_begin(kind, detail))
    }

    /// Returns whether a budget refused something that the run wanted to begin: no override helps then.
    #[must_use]
    pub fn is_out_of_budget(&self) -> bool {
        self.node().is_out_of_budget()
    }

    /// Returns the last call, of the run or of a descendant, that money or tokens did not admit.
    #[must_use]
    pub fn refused_call(&self) -> Option<RefusedCall> {
        self.node().refused_call()
    }

    fn begin_counted(
        &self,
        hold: Result<Hold, Refused>,
        kind: &EventKind<'_>,
        detail: Detail<'_>,
    ) -> Directive {
        match hold {
            Ok(hold) => {
                let directive = self.try_begin(kind, detail);
                if directive.admits() {
                    let one = hold.amounts();
                    hold.settle(one)
                } else {
                    hold.release()
                }
                directive
            }
            Err(refused) => {
                self.node().set_out_of_budget(true);
                // The cores know the limit of a rule more exactly, and the run whose limit it is stops.
                self.refusal_of(kind, detail).unwrap_or_else(|| self.refused_by_budget(&refused))
            }
        }
    }

    /// Stops the run for a budget that refused, and as far above it as the tree's [`StopReach`] says.
    fn refused_by_budget(&self, refused: &Refused) -> Directive {
        let mut owner = self.node();
        while owner.budget.id() != refused.budget
            && let Some(parent) = &owner.parent
        {
            owner = parent;
        }
        let is_of_all_runs = owner.budget.id() != refused.budget;
        let signal = signal_of(refused, is_of_all_runs);
        if self.node().reach() == StopReach::Tree && !Arc::ptr_eq(owner, self.node()) {
            Self::of(Arc::clone(owner)).raise(&signal);
        }
        self.raise(&signal);
        Directive::Stop
    }

    /// Stops the run for a call that was not admitted, unless a core has stopped it already.
    pub(crate) fn not_admitted(&self, why: &NotAdmitted, model: &str) {
        match why {
            NotAdmitted::Core(Directive::Refuse) => {
                self.raise_own(StopReason::StopRequested, "no request can begin now");
            }
            NotAdmitted::Core(_)
            | NotAdmitted::OthersHold
            | NotAdmitted::WrapUpDue
            | NotAdmitted::Account(AccountBlock::Wait(_)) => {}
            NotAdmitted::Account(AccountBlock::Refused { refused, is_by_model }) => {
                self.node().set_out_of_budget(true);
                self.refused_by_account(refused, *is_by_model);
            }
            NotAdmitted::Account(AccountBlock::Store(why)) => {
                self.node().set_out_of_budget(true);
                self.raise_with(&uncounted(why));
            }
            NotAdmitted::Killed(why) => self.kill_tree(why),
            NotAdmitted::Both => self.node().set_out_of_budget(true),
            NotAdmitted::Ledger(refused) => {
                self.node().set_out_of_budget(true);
                self.refused_by_budget(refused);
            }
            NotAdmitted::Unpriced => {
                self.node().set_out_of_budget(true);
                let message = format!(
                    "the budget limits money, and `{model}` has no price: set `on_unpriced` in the policy, or \
                     `--unpriced 3,15` in the command"
                );
                let signal = StopSignal::new(StopReason::CostLimitReached).with_message(message);
                self.raise_with(&signal.with_source(BUDGET_SOURCE));
            }
        }
    }

    /// Raises a signal of the driver's own.
    fn raise_own(&self, reason: StopReason, message: &str) -> Directive {
        let signal = StopSignal::new(reason).with_message(message);
        self.raise_with(&match self.node().driver() {
            Some(driver) => signal.with_source(driver),
            None => signal,
        })
    }

    /// A driver that has a name reports its own signals as errors too.
    pub(super) fn raise_with(&self, signal: &StopSignal) -> Directive {
        let detail = match self.node().driver() {
            Some(_) => Detail::Error { message: &signal.message },
            None => Detail::None,
        };
        self.record(&EventKind::StopRaised { signal }, detail)
    }
}

/// The stop signal of a budget that refused.
fn signal_of(refused: &Refused, is_of_all_runs: bool) -> StopSignal {
    let (message, owner) = match is_of_all_runs {
        true => (refused.text_of("all runs have"), ALL_RUNS),
        false => (refused.to_string(), "run"),
    };
    StopSignal::new(refused.dimension.reason())
        .with_message(message)
        .with_context(OWNER_KEY, owner)
        .with_context("limit", refused.limit)
        .with_context("settled", refused.settled)
        .with_context("held", refused.held)
        .with_context("asked", refused.asked)
        .with_source(BUDGET_SOURCE)
}

/// Whether a response ended at its output cap, by the finish reason as the provider gave it.
pub(super) fn is_cut_off(finish: Option<&str>) -> bool {
    finish.map(normalized_finish).as_deref() == Some("length")
}
