//! Steps and tool calls that begin.

use endstop_core::condition::fact::normalized_finish;
use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_core::run::Directive;
use endstop_core::signal::{LIMIT_SOURCE, StopReason, StopSignal};

use super::plan::CallPlan;
use crate::ledger::{Amounts, Hold, Refused};
use crate::observe::{Detail, RefusedCall};
use crate::run::RunHandle;

impl RunHandle {
    /// Admits a step with a known call, for the run and its ancestors. `Finish`: it begins as the wrap-up. If it is
    /// refused, the run says why. The budget that the run shares with others may also have no room for the call
    /// ([`CallPlan::is_final`]); it then does not count as a step of this run.
    pub fn begin_step(&self, plan: &CallPlan<'_>) -> Directive {
        let model = plan.pricing.model();
        if plan.is_final && self.node().budget_is_shared() {
            let planned = self.planned(plan);
            let checked = self.node().chain().check_shared(&planned);
            // A step that the rules refuse says so itself. Few calls are refused, and asking the rules costs more.
            if let Err(why) = checked
                && self.would_admit(&EventKind::StepBegin)
            {
                self.node().chain().note_refused(&planned);
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
}

/// Whether a response ended at its output cap, by the finish reason as the provider gave it.
pub(super) fn is_cut_off(finish: Option<&str>) -> bool {
    finish.map(normalized_finish).as_deref() == Some("length")
}
