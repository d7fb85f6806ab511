//! One run among the runs of a tree: its decision core, its node of the ledger, its token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_core::event::{Event, EventKind, Source};
use endstop_core::policy::OnUnpriced;
use endstop_core::run::{Directive, Notice, Run, Status};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{TokenUsage, WallTime};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::awaited_accounts::AwaitedAccounts;
use super::chain::LockedChain;
use super::ends::EndQueue;
use super::environment::{Carried, ExternalStop, RunEnvironment, StopReach};
use crate::account::RunAccounts;
use crate::cancel::{CancelToken, KillSwitch, Urgency, kill_signal, look_at};
use crate::clock::{LastWall, RunClock};
use crate::ledger::Budget;
use crate::observe::{
    Detail, Observation, Observer, RefusedCall, RunInfo, SettledCall, Unconfirmed, tell_each,
    tell_settled,
};

/// The parts that all runs of a tree share.
pub(crate) struct Tree {
    observers: Vec<Arc<dyn Observer>>,
    kill: Option<Arc<dyn KillSwitch>>,
    /// The token of the root run: a kill reaches every run of the tree.
    root: CancelToken,
    reach: StopReach,
    driver: Option<&'static str>,
    /// Replaced by [`RunHandle::set_accounts`](crate::RunHandle::set_accounts).
    accounts: Mutex<Option<RunAccounts>>,
    draws: Mutex<TreeDraws>,
    account_waits: Mutex<AwaitedAccounts>,
    /// Notified when a run of the tree is paused from outside, or no longer.
    pause_changed: Notify,
    /// How often that was.
    pause_changes: AtomicU64,
    /// The name of the key of the client whose calls begin now.
    key: Mutex<Option<Arc<str>>>,
}

impl Tree {
    /// The parts of a new tree. `root` is the token of its outermost run.
    pub(super) fn new(environment: RunEnvironment, root: CancelToken) -> Self {
        Self {
            observers: environment.observers,
            kill: environment.kill,
            root,
            reach: environment.reach,
            driver: environment.driver,
            accounts: Mutex::new(environment.accounts),
            draws: Mutex::default(),
            account_waits: Mutex::default(),
            pause_changed: Notify::new(),
            pause_changes: AtomicU64::new(0),
            key: Mutex::default(),
        }
    }
}

/// The budgets over time that the calls of a tree have asked for, and those that were killed. They change under one lock:
/// either a kill finds the budget of a call, or the call finds the kill. A kill cannot look further ahead, because a budget
/// of a model is known only with the call.
#[derive(Default)]
struct TreeDraws {
    drawn: BTreeSet<String>,
    /// Each with the reason.
    killed: BTreeMap<String, String>,
}

/// One run of a tree.
pub(crate) struct RunNode {
    pub(crate) info: RunInfo,
    pub(crate) budget: Budget,
    pub(crate) parent: Option<Arc<Self>>,
    token: CancelToken,
    tree: Arc<Tree>,
    clock: RunClock,
    /// Cancelled with the token, and by the run's own limits: calls in flight and descendants depend on it. A run
    /// that resumes after a limit gets a new one.
    in_flight: Mutex<CancelToken>,
    external: Mutex<Vec<ExternalStop>>,
    /// The end of the grace of hooks since the run was aborted.
    late_until: Mutex<Option<Instant>>,
    /// A step has begun that no account has counted.
    owes_step: AtomicBool,
    /// The number of [`Tree::pause_changes`] that the run has shared.
    shared_pauses: AtomicU64,
    ends: EndQueue,
    core: Mutex<RunCore>,
}

impl std::fmt::Debug for RunNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunNode").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The state of a run that is decided on and counted, under its lock.
pub(crate) struct RunCore {
    pub(crate) run: Run,
    carried: Carried,
    /// Warnings that no driver has taken yet.
    notices: Vec<Notice>,
    /// A budget refused something that the run wanted to begin.
    is_out_of_budget: bool,
    /// The pause from outside is that of an ancestor.
    shares_pause: bool,
    refused_call: Option<RefusedCall>,
    /// Cancellations of the token that are recorded.
    cancellations_taken: usize,
    /// The most output tokens that a provider counted of one call, of the run or a descendant, in this process.
    largest_output: u64,
    /// The charged calls of the run and its descendants, in the order of their events. `None` if those before this process are not
    /// known.
    charges: Option<u64>,
    last_wall: LastWall,
}

impl RunCore {
    pub(super) fn new(run: Run, carried: Carried) -> Self {
        // A saved core does not say how many calls it was charged for.
        let charges = (run.status() == Status::Pending).then_some(0);
        Self {
            run,
            carried,
            charges,
            notices: Vec::new(),
            is_out_of_budget: false,
            shares_pause: false,
            refused_call: None,
            cancellations_taken: 0,
            largest_output: 0,
            last_wall: None,
        }
    }

    /// The policy's answer to calls without a price.
    pub(crate) fn unpriced(&self) -> OnUnpriced {
        self.run.program().policy().unpriced()
    }

    /// The counts that the core does not have.
    pub(super) fn carried(&self) -> &Carried {
        &self.carried
    }

    /// Takes the warnings that no driver has taken yet.
    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether the pause from outside is that of an ancestor.
    pub(super) fn shares_pause(&self) -> bool {
        self.shares_pause
    }

    pub(super) fn set_shares_pause(&mut self, shares: bool) {
        self.shares_pause = shares;
    }

    pub(super) fn set_refused_call(&mut self, refused: Option<RefusedCall>) {
        self.refused_call = refused;
    }

    pub(super) fn largest_output(&self) -> u64 {
        self.largest_output
    }

    pub(super) fn set_charges(&mut self, charges: Option<u64>) {
        self.charges = charges;
    }

    /// Counts a call that is charged, and returns its number.
    pub(super) fn count_charge(&mut self) -> Option<u64> {
        self.charges = self.charges.map(|charges| charges.saturating_add(1));
        self.charges
    }

    /// Notes a tool that could not be aborted.
    pub(super) fn add_still_running(&mut self, tool: &str) {
        self.carried.still_running.push(tool.to_owned());
    }

    pub(super) fn add_usage(&mut self, usage: Option<TokenUsage>, is_estimate: bool) {
        let sum = usage.and_then(|usage| self.carried.usage.checked_add(&usage));
        self.carried.usage = sum.unwrap_or(self.carried.usage);
        self.carried.is_estimate |= is_estimate;
        if let Some(usage) = usage.filter(|_| !is_estimate) {
            self.largest_output = self.largest_output.max(usage.output);
        }
    }
}

impl RunNode {
    pub(super) fn new(
        info: RunInfo,
        budget: Budget,
        (token, clock): (CancelToken, RunClock),
        parent: Option<Arc<Self>>,
        tree: Arc<Tree>,
        core: RunCore,
    ) -> Self {
        Self {
            info,
            budget,
            parent,
            tree,
            clock,
            in_flight: Mutex::new(token.child()),
            token,
            external: Mutex::default(),
            late_until: Mutex::default(),
            owes_step: AtomicBool::new(false),
            shared_pauses: AtomicU64::new(0),
            ends: EndQueue::default(),
            core: Mutex::new(core),
        }
    }

    pub(super) fn token(&self) -> &CancelToken {
        &self.token
    }

    pub(super) fn tree(&self) -> Arc<Tree> {
        Arc::clone(&self.tree)
    }

    /// Shows something to every observer of the tree.
    pub(super) fn tell_observers(&self, tell: impl Fn(&dyn Observer)) {
        tell_each(&self.tree.observers, tell);
    }

    /// The budgets over time whose resets calls of the tree wait for.
    pub(super) fn account_waits(&self) -> MutexGuard<'_, AwaitedAccounts> {
        self.tree.account_waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reach(&self) -> StopReach {
        self.tree.reach
    }

    pub(crate) fn driver(&self) -> Option<&'static str> {
        self.tree.driver
    }

    /// The accounts that the tree draws on.
    pub(crate) fn accounts(&self) -> Option<RunAccounts> {
        self.tree.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_accounts(&self, accounts: Option<RunAccounts>) {
        *self.tree.accounts.lock().unwrap_or_else(PoisonError::into_inner) = accounts;
    }

    /// The name of the key of the client whose calls begin now.
    pub(crate) fn key(&self) -> Option<Arc<str>> {
        self.tree.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_key(&self, name: &str) {
        let mut key = self.tree.key.lock().unwrap_or_else(PoisonError::into_inner);
        if key.as_deref() != Some(name) {
            *key = Some(name.into());
        }
    }

    /// The run and its ancestors, itself first.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |node| node.parent.as_deref())
    }

    /// Reads the run and each ancestor, itself first, for values that need not be of one moment: one core is locked at a time.
    /// [`RunNode::chain`] takes longer.
    pub(crate) fn look_upwards<T>(&self, look: impl Fn(&Run) -> T) -> impl Iterator<Item = T> {
        self.upwards().map(move |node| look(&node.core().run))
    }

    fn root(&self) -> &Self {
        let mut root = self;
        while let Some(parent) = root.parent.as_deref() {
            root = parent;
        }
        root
    }

    /// The facts about the outermost run of the tree.
    pub(crate) fn root_info(&self) -> &RunInfo {
        &self.root().info
    }

    /// Reports a settled call of the run to the observers. The caller holds no lock of it.
    pub(crate) fn tell_settled(&self, call: &SettledCall<'_>) {
        tell_settled(&self.tree.observers, &self.info, call);
    }

    fn draws(&self) -> MutexGuard<'_, TreeDraws> {
        self.tree.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the accounts of a call before anything is reserved for it.
    /// Returns why one of them was killed, if one was.
    pub(crate) fn draw_on(&self, names: &[&str]) -> Option<String> {
        let mut draws = self.draws();
        for name in names {
            if !draws.drawn.contains(*name) {
                draws.drawn.insert((*name).to_owned());
            }
        }
        names.iter().find_map(|name| draws.killed.get(*name)).cloned()
    }

    /// Whether a call of the tree has asked for the account of this name.
    pub(crate) fn has_drawn_on(&self, name: &str) -> bool {
        self.draws().drawn.contains(name)
    }

    /// Refuses further calls that draw on the account of this name; the first reason stays.
    pub(crate) fn kill_account(&self, name: &str, why: &str) {
        self.draws().killed.entry(name.to_owned()).or_insert_with(|| why.to_owned());
    }

    /// Sets whether a step has begun that no account has counted, and returns the previous value.
    pub(crate) fn set_owes_step(&self, owes: bool) -> bool {
        self.owes_step.swap(owes, Ordering::AcqRel)
    }

    pub(crate) fn is_out_of_budget(&self) -> bool {
        self.core().is_out_of_budget
    }

    pub(crate) fn set_out_of_budget(&self, is_out: bool) {
        self.core().is_out_of_budget = is_out;
    }

    /// Resolves when a run of the tree is paused from outside, or no longer.
    pub(super) fn pause_changed(&self) -> Notified<'_> {
        self.tree.pause_changed.notified()
    }

    pub(super) fn notify_pause_changed(&self) {
        self.tree.pause_changes.fetch_add(1, Ordering::AcqRel);
        self.tree.pause_changed.notify_waiters();
    }

    /// Shares the pause of an ancestor if one started or ended since the last look, so that the clock `active` stands still
    /// while calls in flight end, and not only once something would begin.
    pub(super) fn share_new_pauses(&self) {
        let changes = self.tree.pause_changes.load(Ordering::Acquire);
        if self.parent.is_some() && self.shared_pauses.swap(changes, Ordering::AcqRel) != changes {
            self.chain().share_pause();
        }
    }

    pub(crate) fn refused_call(&self) -> Option<RefusedCall> {
        self.core().refused_call.clone()
    }

    pub(crate) fn wall(&self) -> WallTime {
        self.clock.wall()
    }

    pub(super) fn set_external_stops(&self, stops: Vec<ExternalStop>) {
        *self.external.lock().unwrap_or_else(PoisonError::into_inner) = stops;
    }

    /// The token that calls in flight and descendants depend on.
    pub(super) fn in_flight(&self) -> CancelToken {
        self.look_at_in_flight(CancelToken::clone)
    }

    pub(super) fn look_at_in_flight<T>(&self, look: impl FnOnce(&CancelToken) -> T) -> T {
        look(&self.in_flight.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets the run continue after one of its limits has aborted its calls in flight.
    pub(super) fn renew_in_flight(&self) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if in_flight.is_cancelled() {
            *in_flight = self.token.child();
        }
        *self.late_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The end of a grace that begins when this is first called after an abort.
    pub(super) fn late_until(&self, grace: Duration) -> Instant {
        let mut until = self.late_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until.get_or_insert_with(|| Instant::now() + grace)
    }

    /// Locks the core of this run alone.
    pub(super) fn core(&self) -> MutexGuard<'_, RunCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the cores of the run and its ancestors, root first.
    pub(crate) fn chain(&self) -> LockedChain<'_> {
        let nodes: Vec<&Self> = self.upwards().skip(1).collect();
        let ancestors = nodes.into_iter().rev().map(|node| (node, node.core())).collect();
        LockedChain::new(ancestors, self, self.core())
    }

    /// Whether the outermost run's budget is a part of another one.
    pub(crate) fn budget_is_shared(&self) -> bool {
        self.root().budget.parent().is_some()
    }

    /// Records an event, for the run and its ancestors.
    pub(super) fn record(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.chain().record(kind, detail)
    }

    pub(super) fn record_plain(&self, kind: &EventKind<'_>) -> Directive {
        self.record(kind, Detail::None)
    }

    /// Aborts the tree if its kill switch is on, and this run for its own switches and tokens.
    pub(super) fn look_at_kill_switch(&self) {
        self.upwards().for_each(Self::look_at_external);
        if let Some(signal) = self.tree.kill.as_deref().and_then(look_at) {
            self.tree.root.cancel(signal.clone(), Urgency::Now);
            self.token.cancel(signal, Urgency::Now);
        }
    }

    fn look_at_external(&self) {
        let all = {
            let external = self.external.lock().unwrap_or_else(PoisonError::into_inner);
            if external.is_empty() {
                return;
            }
            external.clone()
        };
        for ExternalStop { kill, token } in all {
            if let Some(signal) = kill.as_deref().and_then(look_at) {
                self.token.cancel(signal, Urgency::Now);
            }
            if let Some((token, urgency)) = token.and_then(|it| it.urgency().map(|now| (it, now))) {
                for signal in token.signals() {
                    self.token.cancel((*signal).clone(), urgency);
                }
            }
        }
    }

    /// Whether nothing may be sent or run now. Checks the kill switch first.
    pub(super) fn is_aborted(&self) -> bool {
        self.look_at_kill_switch();
        self.look_at_in_flight(CancelToken::urgency) == Some(Urgency::Now)
    }

    /// Records the cancellations that have reached the run and are not recorded yet, late ones too. A run that completed
    /// does not take them.
    pub(super) fn take_cancellations(&self) {
        if !self.token.is_cancelled() {
            return;
        }
        let is_open = |status| status != Status::Completed;
        for signal in self.new_cancellations(is_open) {
            self.record_cancellation(&signal);
        }
    }

    /// Records cancellations of a root run that completed but could continue with its next step or under another policy: a
    /// run that a person cancelled does not.
    pub(super) fn take_late_cancellations(&self) {
        if self.parent.is_some() || !self.token.is_cancelled() {
            return;
        }
        for signal in self.new_cancellations(is_over) {
            if signal.reason == StopReason::UserRequested {
                self.record_cancellation(&signal);
            }
        }
    }

    /// The cancellations that are not yet recorded, if the run has such a status.
    fn new_cancellations(&self, takes: impl Fn(Status) -> bool) -> Vec<Arc<StopSignal>> {
        let mut signals = self.token.signals();
        let mut core = self.core();
        if !takes(core.run.status()) {
            return Vec::new();
        }
        let taken = core.cancellations_taken.min(signals.len());
        core.cancellations_taken = core.cancellations_taken.max(signals.len());
        signals.split_off(taken)
    }

    fn record_cancellation(&self, signal: &StopSignal) {
        let is_kill = signal.source.as_deref() == kill_signal(String::new()).source.as_deref();
        let kind = match signal.reason {
            StopReason::UserRequested if is_kill => EventKind::Kill { message: &signal.message },
            StopReason::UserRequested => {
                // The signal keeps source and context; the event says that it was a person.
                self.record_plain(&EventKind::StopRaised { signal });
                EventKind::Cancel { message: &signal.message }
            }
            _ => EventKind::StopRaised { signal },
        };
        self.record_plain(&kind);
    }

    /// Aborts the descendants: the run has stopped.
    pub(super) fn abort_descendants(&self) {
        let core = self.core();
        self.trip(&core, Directive::Abort);
    }

    /// Stops the descendants from starting anything, and aborts them if the directive or a time limit says so. A run
    /// that completed may continue.
    pub(super) fn stop_descendants(&self, directive: Directive) {
        let core = self.core();
        if !core.run.ended_by_itself() {
            self.trip(&core, directive);
        }
    }

    pub(super) fn event<'e>(
        &self,
        core: &mut RunCore,
        now: Instant,
        source: Source,
        kind: &EventKind<'e>,
    ) -> Event<'e> {
        let at = self.clock.at_instant(now);
        let wall = self.clock.wall_at(at, &mut core.last_wall);
        Event { at, wall, source, kind: kind.clone() }
    }

    pub(super) fn take_in(
        &self,
        core: &mut RunCore,
        now: Instant,
        source: Source,
        kind: &EventKind<'_>,
        detail: Detail<'_>,
    ) -> Directive {
        let event = self.event(core, now, source, kind);
        let directive = core.run.observe(&event);
        core.carried.events = core.carried.events.saturating_add(1);
        core.carried.uncertainty.take(kind, detail.is_estimate(), Unconfirmed::of(&detail));
        let notices = core.run.take_notices();
        let (info, run, budget) = (&self.info, &core.run, &self.budget);
        self.tell_observers(|observer| {
            let seen = Observation { info, event: &event, directive, detail, run, budget };
            observer.observe(&seen);
            notices.iter().for_each(|notice| observer.warned(info, notice, run));
        });
        core.notices.extend(notices);
        directive
    }

    /// Cancels the descendants with the reason for which this run stopped.
    pub(super) fn trip(&self, core: &RunCore, directive: Directive) {
        let Some(signal) = core.run.last_stop_signal() else { return };
        let is_urgent =
            directive == Directive::Abort || signal.reason == StopReason::TimeLimitReached;
        let urgency = if is_urgent { Urgency::Now } else { Urgency::Graceful };
        let name = &self.info.agent;
        let mut signal = signal.clone();
        signal.source.get_or_insert_with(|| name.clone());
        self.in_flight().cancel(signal, urgency);
    }

    /// Reports to every observer that the run is over, or paused, as it is now. The caller holds no lock of it.
    pub(super) fn report_end(&self) {
        {
            // Ends are reported in the order in which they were seen.
            let core = self.core();
            if !self.ends.add(core.run.frozen()) {
                return;
            }
        }
        while let Some(end) = self.ends.next() {
            self.tell_observers(|observer| observer.run_ended(&self.info, &end, &self.budget));
        }
    }
}

/// Whether a run with this status has ended.
pub(crate) const fn is_over(status: Status) -> bool {
    matches!(status, Status::Completed | Status::Stopped | Status::Failed)
}
