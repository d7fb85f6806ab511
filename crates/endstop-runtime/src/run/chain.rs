//! A run and its ancestors, locked together: what begins or is spent is theirs as well.

use std::cell::OnceCell;
use std::sync::MutexGuard;

use endstop_core::event::{EventKind, Source};
use endstop_core::policy::OnUnpriced;
use endstop_core::run::Directive;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::trip_record::PauseRequest;
use endstop_core::units::TokenUsage;
use tokio::time::Instant;

use super::node::{RunCore, RunNode};
use crate::ledger::{Amounts, Budget};
use crate::observe::{Detail, RefusedCall};

/// The locked cores of a run and its ancestors, root first.
pub(crate) struct LockedChain<'s> {
    ancestors: Vec<(&'s RunNode, MutexGuard<'s, RunCore>)>,
    own: &'s RunNode,
    core: MutexGuard<'s, RunCore>,
    /// The time of everything that the chain records. It is read under the locks, so that no core records an earlier time
    /// after a later one, and only once something is recorded or asked: often a chain needs no time.
    now: OnceCell<Instant>,
}

impl<'s> LockedChain<'s> {
    pub(super) fn new(
        ancestors: Vec<(&'s RunNode, MutexGuard<'s, RunCore>)>,
        own: &'s RunNode,
        core: MutexGuard<'s, RunCore>,
    ) -> Self {
        Self { ancestors, own, core, now: OnceCell::new() }
    }

    fn now(&self) -> Instant {
        *self.now.get_or_init(Instant::now)
    }

    pub(crate) fn cores(&self) -> impl Iterator<Item = &RunCore> {
        self.ancestors.iter().map(|(_, core)| &**core).chain([&*self.core])
    }

    /// The outermost run: the root, or this run itself.
    pub(crate) fn outermost(&self) -> &RunCore {
        self.ancestors.first().map_or(&*self.core, |(_, core)| &**core)
    }

    /// The run and its ancestors, root first, with their budgets.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&Budget, &RunCore)> {
        let ancestors = self.ancestors.iter().map(|(node, core)| (&node.budget, &**core));
        ancestors.chain([(&self.own.budget, &*self.core)])
    }

    pub(crate) fn own_core(&mut self) -> &mut RunCore {
        &mut self.core
    }

    pub(crate) const fn own_budget(&self) -> &Budget {
        &self.own.budget
    }

    /// The budget above the outermost run: a user's, which other runs may share.
    pub(crate) fn shared_budget(&self) -> Option<Budget> {
        self.ancestors.first().map_or(self.own, |(node, _)| node).budget.parent()
    }

    /// Records an event that concerns the run alone.
    pub(crate) fn record_own(&mut self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        let now = self.now();
        self.own.take_in(&mut self.core, now, Source::Own, kind, detail)
    }

    /// Records an event.
    pub(crate) fn record(&mut self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        let directive = self.record_own(kind, detail);
        if let Some(kind) = seen_above(kind) {
            let now = self.now();
            for (node, core) in &mut self.ancestors {
                let directive = node.take_in(core, now, Source::Descendant, &kind, detail);
                if directive.stops() {
                    node.trip(core, directive);
                }
            }
        }
        directive
    }

    fn all_cores(&mut self) -> impl Iterator<Item = &mut RunCore> {
        let above = self.ancestors.iter_mut().map(|(_, core)| &mut **core);
        above.chain([&mut *self.core])
    }

    /// Remembers a call that was not sent, or that the last one was, for every run concerned.
    pub(crate) fn set_refused_call(&mut self, refused: Option<&RefusedCall>) {
        self.all_cores().for_each(|core| core.set_refused_call(refused.cloned()));
    }

    /// Adds usage to every run concerned.
    pub(crate) fn add_usage(&mut self, usage: Option<TokenUsage>, is_estimate: bool) {
        self.all_cores().for_each(|core| core.add_usage(usage, is_estimate));
    }

    /// Counts a call that is charged in the outermost run, and returns its number there, from 1. `None` if it is free, or the calls
    /// before it are not known. A log of the run has the same numbers: there too it is the order of the events.
    pub(crate) fn count_charge(&mut self, amounts: &Amounts) -> Option<u64> {
        if amounts.tokens == 0 && amounts.cost.is_zero() {
            return None;
        }
        let outermost = match self.ancestors.first_mut() {
            Some((_, core)) => &mut **core,
            None => &mut *self.core,
        };
        outermost.count_charge()
    }

    /// The most output tokens that a provider counted of one call of the whole tree of runs, in this process.
    pub(crate) fn largest_output(&self) -> u64 {
        self.outermost().largest_output()
    }

    /// Reports a tool that could not be aborted, to every run concerned.
    pub(super) fn add_still_running(&mut self, tool: &str) {
        self.all_cores().for_each(|core| core.add_still_running(tool));
    }

    /// Whether every core would admit it. `kind_of` gives the event for each budget and for the policy's rule for
    /// calls without a price.
    pub(crate) fn would_admit<'k>(
        &mut self,
        kind_of: impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
    ) -> bool {
        self.would_admit_after(&[], kind_of).admits()
    }

    /// The directive of the first core that would refuse it, once calls of the tools `before` had begun.
    pub(super) fn would_admit_after<'k>(
        &mut self,
        before: &[&str],
        kind_of: impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
    ) -> Directive {
        let now = self.now();
        let own = (self.own, Source::Own, &mut *self.core);
        let above = self.ancestors.iter_mut().map(|(node, core)| {
            let core: &mut RunCore = core;
            (*node, Source::Descendant, core)
        });
        let mut answers = above.chain([own]).map(|(node, source, core)| {
            let kind = kind_of(&node.budget, core.unpriced());
            let event = node.event(core, now, source, &kind);
            core.run.would_admit_after(before, &event)
        });
        answers.find(|directive| !directive.admits()).unwrap_or(Directive::Proceed)
    }

    /// The directive of the run's core.
    pub(crate) fn would_admit_own(&mut self, kind: &EventKind<'_>) -> Directive {
        let now = self.now();
        let event = self.own.event(&mut self.core, now, Source::Own, kind);
        self.core.run.would_admit(&event)
    }

    /// Whether a step of the run that begins now would be the wrap-up, if it may spend what `reserve` says.
    pub(crate) fn would_finish(&mut self, reserve: &EventKind<'_>) -> bool {
        let now = self.now();
        let event = self.own.event(&mut self.core, now, Source::Own, &EventKind::StepBegin);
        self.core.run.would_finish(reserve, &event)
    }

    /// Admits an event for the run and all its ancestors, or for none.
    pub(crate) fn try_begin(&mut self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.try_begin_each(|_, _| kind.clone(), detail)
    }

    /// Like [`LockedChain::try_begin`], with what `kind_of` gives for each budget.
    pub(crate) fn try_begin_each<'k>(
        &mut self,
        kind_of: impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
        detail: Detail<'_>,
    ) -> Directive {
        let kind = kind_of(&self.own.budget, self.core.unpriced());
        if seen_above(&kind).is_none() {
            return self.record_own(&kind, detail);
        }
        self.share_pause();
        if self.core.run.holds_back(&kind) {
            // An ancestor that is paused refuses it too, and that is no reason to stop.
            let now = self.now();
            for (node, core) in &mut self.ancestors {
                if core.run.holds_back(&kind) {
                    node.take_in(core, now, Source::Descendant, &kind, detail);
                }
            }
            return self.record_own(&kind, detail);
        }
        if let Some(refused) = self.refused_above(&kind_of, detail) {
            // A refusal only because of the depth does not end the run.
            let Some(signal) = refused else { return Directive::Refuse };
            return self.record_own(&EventKind::StopRaised { signal: &signal }, Detail::None);
        }
        let directive = self.record_own(&kind, detail);
        if directive.admits() {
            let now = self.now();
            for (node, core) in &mut self.ancestors {
                let kind = kind_of(&node.budget, core.unpriced());
                let above = node.take_in(core, now, Source::Descendant, &kind, detail);
                if above.stops() {
                    node.trip(core, above);
                }
            }
        }
        directive
    }

    /// Brings the pause from outside of an ancestor to the runs between it and this one, or takes it back from them.
    pub(super) fn share_pause(&mut self) {
        let mut above: Option<PauseRequest> = None;
        let mut resumed_by: Option<&RunNode> = None;
        let now = || *self.now.get_or_init(Instant::now);
        let own = (self.own, &mut *self.core);
        let ancestors = self.ancestors.iter_mut().map(|(node, core)| (*node, &mut **core));
        for (node, core) in ancestors.chain([own]) {
            match (&above, core.run.pause_request()) {
                (Some(PauseRequest { by, why }), None) => {
                    core.set_shares_pause(true);
                    let kind = EventKind::PauseRequested { by, why };
                    node.take_in(core, now(), Source::Own, &kind, Detail::None);
                }
                (None, Some(_)) if core.shares_pause() => {
                    core.set_shares_pause(false);
                    let by = resumed_by.map_or("", |node| &node.info.agent);
                    let kind = EventKind::ResumeRequested { by, why: "" };
                    node.take_in(core, now(), Source::Own, &kind, Detail::None);
                }
                _ => {}
            }
            above = core.run.pause_request().cloned();
            resumed_by = Some(node);
        }
    }

    /// The pause from outside of the run itself, once it is shared.
    pub(super) fn pause_request(&self) -> Option<PauseRequest> {
        self.core.run.pause_request().cloned()
    }

    /// Ends the run's own pause from outside, and returns whether there was one.
    pub(super) fn resume(&mut self, by: &str, why: &str) -> bool {
        let has_own = self.core.run.pause_request().is_some() && !self.core.shares_pause();
        if has_own {
            self.record_own(&EventKind::ResumeRequested { by, why }, Detail::None);
        }
        has_own
    }

    /// Whether the run itself holds back the steps of its descendants for its wrap-up.
    pub(super) fn refuses_step_below(&mut self) -> bool {
        let (kind, now) = (EventKind::StepBegin, self.now());
        let event = self.own.event(&mut self.core, now, Source::Descendant, &kind);
        self.core.run.would_admit(&event) == Directive::Refuse
    }

    /// The stop signal of the ancestor that refuses it, if that is a reason to stop. Its core records the refusal.
    fn refused_above<'k>(
        &mut self,
        kind_of: &impl Fn(&Budget, OnUnpriced) -> EventKind<'k>,
        detail: Detail<'_>,
    ) -> Option<Option<StopSignal>> {
        let now = self.now();
        for (node, core) in &mut self.ancestors {
            let kind = kind_of(&node.budget, core.unpriced());
            let event = node.event(core, now, Source::Descendant, &kind);
            if core.run.would_admit(&event).admits() {
                continue;
            }
            let directive = node.take_in(core, now, Source::Descendant, &kind, detail);
            if directive.stops() {
                node.trip(core, directive);
            }
            if directive == Directive::Refuse {
                return Some(None);
            }
            let name = &node.info.agent;
            return Some(Some(match node.in_flight().signal() {
                Some(signal) => (*signal).clone(),
                None => StopSignal::new(StopReason::StopRequested)
                    .with_message(format!("`{name}`, which began this run, cannot continue now"))
                    .with_source(name.clone()),
            }));
        }
        None
    }
}

/// An event as the ancestors of the run see it; `None` if it concerns the run alone.
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
        | EventKind::ToolReserve { .. }
        | EventKind::ToolBegin { .. }
        | EventKind::ToolCost { .. }
        | EventKind::ToolEnd { .. }
        | EventKind::ToolRefused { .. }
        | EventKind::StepEnd
        | EventKind::ChildBegin { .. }
        | EventKind::ChildEnd
        | EventKind::HandOff { .. } => Some(kind.clone()),
        _ => None,
    }
}
