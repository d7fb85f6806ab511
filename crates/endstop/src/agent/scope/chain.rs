//! A run and its ancestors, locked together: what begins or is spent is theirs as well.

use std::sync::MutexGuard;

use endstop_core::event::{EventKind, Source};
use endstop_core::policy::OnUnpriced;
use endstop_core::run::Directive;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::TokenUsage;
use tokio::time::Instant;

use super::{Core, Scope};
use crate::observe::Detail;
use endstop_runtime::ledger::Budget;

/// The locked cores of a run and its ancestors, root first.
pub(in crate::agent) struct Chain<'s> {
    pub(super) ancestors: Vec<(&'s Scope, MutexGuard<'s, Core>)>,
    pub(super) own: &'s Scope,
    pub(in crate::agent) core: MutexGuard<'s, Core>,
    /// When all this is.
    pub(super) now: Instant,
}

impl Chain<'_> {
    pub(in crate::agent) fn cores(&self) -> impl Iterator<Item = &Core> {
        self.ancestors.iter().map(|(_, core)| &**core).chain([&*self.core])
    }

    pub(in crate::agent) const fn own_budget(&self) -> &Budget {
        &self.own.budget
    }

    /// What the run's own policy says of calls without a price.
    pub(in crate::agent) fn own_unpriced(&self) -> OnUnpriced {
        unpriced_of(&self.core)
    }

    /// The budget above the outermost run: a user's, which may be shared with other runs.
    pub(in crate::agent) fn shared_budget(&self) -> Option<Budget> {
        self.ancestors.first().map_or(self.own, |(scope, _)| scope).budget.parent()
    }

    /// Takes in what concerns the run alone.
    pub(in crate::agent) fn note_own(
        &mut self,
        kind: &EventKind<'_>,
        detail: Detail<'_>,
    ) -> Directive {
        self.own.take_in(&mut self.core, self.now, Source::Own, kind, detail)
    }

    /// Takes in what happened.
    pub(in crate::agent) fn tell(&mut self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        let directive = self.own.take_in(&mut self.core, self.now, Source::Own, kind, detail);
        if let Some(kind) = seen_above(kind) {
            self.tell_above(&kind, detail);
        }
        directive
    }

    fn tell_above(&mut self, kind: &EventKind<'_>, detail: Detail<'_>) {
        for (scope, core) in &mut self.ancestors {
            let directive = scope.take_in(core, self.now, Source::Descendant, kind, detail);
            if directive.stops() {
                scope.trip(core, directive);
            }
        }
    }

    /// Adds what was spent, of every run concerned.
    pub(in crate::agent) fn add_usage(&mut self, usage: Option<TokenUsage>, is_estimate: bool) {
        let cores = self.ancestors.iter_mut().map(|(_, core)| core);
        for core in cores.chain([&mut self.core]) {
            let sum = usage.and_then(|usage| core.usage.checked_add(&usage));
            core.usage = sum.unwrap_or(core.usage);
            core.is_estimate |= is_estimate;
        }
    }

    /// Reports a tool that goes on, to every run concerned.
    pub(in crate::agent) fn add_still_running(&mut self, tool: &str) {
        let cores = self.ancestors.iter_mut().map(|(_, core)| core);
        for core in cores.chain([&mut self.core]) {
            core.still_running.push(tool.to_owned());
        }
    }

    /// Whether every core would let it begin, asked with what `kind_of` gives for each budget, and for what its
    /// policy says of calls without a price.
    pub(in crate::agent) fn would<'k>(
        &mut self,
        kind_of: impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
    ) -> bool {
        self.would_after(&[], kind_of).admits()
    }

    /// What the first core that would not let it begin would say, once calls of the tools `before` had begun.
    pub(in crate::agent) fn would_after<'k>(
        &mut self,
        before: &[&str],
        kind_of: impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
    ) -> Directive {
        let own = (self.own, Source::Own, &mut *self.core);
        let above = self.ancestors.iter_mut().map(|(scope, core)| {
            let core: &mut Core = core;
            (*scope, Source::Descendant, core)
        });
        let (all, now) = (above.chain([own]), self.now);
        let mut answers = all.map(|(scope, source, core)| {
            let kind = kind_of(&scope.budget, unpriced_of(core));
            let event = scope.event(core, now, source, &kind);
            core.run.would_after(before, &event)
        });
        answers.find(|directive| !directive.admits()).unwrap_or(Directive::Proceed)
    }

    /// What the run's own core would say.
    pub(in crate::agent) fn would_own(&mut self, kind: &EventKind<'_>) -> Directive {
        let event = self.own.event(&mut self.core, self.now, Source::Own, kind);
        self.core.run.would(&event)
    }

    /// Asks whether something may begin; it begins for the run and all its ancestors, or for none.
    pub(in crate::agent) fn intend(
        &mut self,
        kind: &EventKind<'_>,
        detail: Detail<'_>,
    ) -> Directive {
        self.intend_each(|_, _| kind.clone(), detail)
    }

    /// As [`Chain::intend`], with what `kind_of` gives for each budget.
    pub(in crate::agent) fn intend_each<'k>(
        &mut self,
        kind_of: impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
        detail: Detail<'_>,
    ) -> Directive {
        let kind = kind_of(&self.own.budget, self.own_unpriced());
        if seen_above(&kind).is_none() {
            return self.own.take_in(&mut self.core, self.now, Source::Own, &kind, detail);
        }
        if let Some(refused) = self.refused_above(&kind_of, detail) {
            // What is only too deep ends nobody.
            let Some(signal) = refused else { return Directive::Refuse };
            let raised = EventKind::StopRaised { signal: &signal };
            return self.own.take_in(&mut self.core, self.now, Source::Own, &raised, Detail::None);
        }
        let directive = self.own.take_in(&mut self.core, self.now, Source::Own, &kind, detail);
        if directive.admits() {
            for (scope, core) in &mut self.ancestors {
                let kind = kind_of(&scope.budget, unpriced_of(core));
                let above = scope.take_in(core, self.now, Source::Descendant, &kind, detail);
                if above.stops() {
                    scope.trip(core, above);
                }
            }
        }
        directive
    }

    /// Whether the run itself holds back steps below for its wrap-up.
    pub(in crate::agent) fn refuses_step_below(&mut self) -> bool {
        let kind = EventKind::StepBegin;
        let event = self.own.event(&mut self.core, self.now, Source::Descendant, &kind);
        self.core.run.would(&event) == Directive::Refuse
    }

    /// The reason of the ancestor that does not let it begin, if that is one to stop. Its core records what it
    /// refused.
    fn refused_above<'k>(
        &mut self,
        kind_of: &impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
        detail: Detail<'_>,
    ) -> Option<Option<StopSignal>> {
        for (scope, core) in &mut self.ancestors {
            let kind = kind_of(&scope.budget, unpriced_of(core));
            let event = scope.event(core, self.now, Source::Descendant, &kind);
            if core.run.would(&event).admits() {
                continue;
            }
            let directive = scope.take_in(core, self.now, Source::Descendant, &kind, detail);
            if directive.stops() {
                scope.trip(core, directive);
            }
            if directive == Directive::Refuse {
                return Some(None);
            }
            let name = &scope.info.agent;
            return Some(Some(match scope.in_flight().signal() {
                Some(signal) => (*signal).clone(),
                None => StopSignal::new(StopReason::StopRequested)
                    .with_message(format!("`{name}`, which began this run, cannot go on now"))
                    .with_source(name.clone()),
            }));
        }
        None
    }
}

fn unpriced_of(core: &Core) -> OnUnpriced {
    core.run.program().policy().unpriced()
}

/// How an event looks to the ancestors of the run; none where it concerns the run alone.
fn seen_above<'e>(kind: &EventKind<'e>) -> Option<EventKind<'e>> {
    match kind {
        // Only that there was one: it keeps them from being idle. The words are the run's own.
        EventKind::Piece { .. } => Some(EventKind::Piece { text: "" }),
        EventKind::UserMessage
        | EventKind::StepBegin
        | EventKind::Reserve { .. }
        | EventKind::AttemptBegin { .. }
        | EventKind::AttemptFailed { .. }
        | EventKind::Reply { .. }
        | EventKind::ToolBegin { .. }
        | EventKind::ToolEnd { .. }
        | EventKind::ToolRefused { .. }
        | EventKind::StepEnd
        | EventKind::ChildBegin { .. }
        | EventKind::ChildEnd
        | EventKind::HandOff { .. } => Some(kind.clone()),
        _ => None,
    }
}
