//! One run of the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use endstop_core::condition::GaugeId;
use endstop_core::policy::Action;
use endstop_core::run::Status;
use endstop_core::run::raise::RaiseError;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Money, WallTime};
use endstop_llm::PlanWindow;
use endstop_runtime::RunHandle;
use endstop_runtime::cancel::Urgency;
use endstop_runtime::ledger::Amounts;
use endstop_runtime::observe::{Observer, RunInfo};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{RunLogError, TraceHole};
use tokio::sync::futures::Notified;

use super::account_waits::AccountWaits;
use super::budget_notes::BudgetNotes;
use super::conversation::stop_of;
use super::conversation_match::Conversations;
use super::counters::{Counts, RunCounters};
use super::deadlock::{CallTraffic, ReadProgress, WaitingCall};
use super::pause::Pause;
use super::quotas::Quotas;
use super::response_history::ResponseHistory;
use super::run_log::{NotLogged, OpenLogError, RunLogWriter, RunLogs};
use super::unknown_fields::UnknownFields;
use crate::client::{ClientId, ClientShare};
use crate::config::Config;

/// The call that begins a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunOrigin<'o> {
    /// The model that it asks for.
    pub(crate) model: &'o str,
    /// The provider that it goes to.
    pub(crate) provider: &'o str,
    /// The client whose share it counts in, if clients are distinguished.
    pub(crate) client: Option<ClientId>,
}

/// One run.
#[derive(Debug)]
pub(crate) struct RunEntry {
    /// The run itself; the first conversation is its own.
    handle: RunHandle,
    counters: RunCounters,
    responses: ResponseHistory,
    unknown_fields: UnknownFields,
    quotas: Quotas,
    budget_notes: BudgetNotes,
    account_waits: AccountWaits,
    /// Where its events are written, if it is stored.
    log: Option<Arc<RunLogWriter>>,
    is_log_failure_raised: AtomicBool,
    conversations: Conversations,
    traffic: Arc<CallTraffic>,
    pause: Pause,
    is_end_reported: AtomicBool,
    /// Another driver reports its end.
    is_driven: bool,
    /// A user has paused it, approved a rule or set a signal.
    is_controlled: AtomicBool,
    last_used: AtomicU64,
    share: Option<ClientShare>,
}

/// How easily a run can be evicted; see [`RunEntry::eviction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// It has used nothing that a limit counts, and no user has set or paused anything: it begins again as it was.
    Untouched,
    /// It ended naturally.
    Ended,
    /// It has not ended, and its calls so far have failed without a charge: it loses the count of these.
    Free,
    /// It was stopped, or failed.
    Stopped,
    /// It has not ended.
    Running,
}

impl RunEntry {
    /// Begins a run, or continues a stored one.
    pub(super) fn open(
        id: RunId,
        config: &Config,
        logs: Option<&RunLogs>,
        origin: RunOrigin<'_>,
    ) -> Result<Self, OpenLogError> {
        let mut info = RunInfo {
            id,
            parent: None,
            agent: "main".to_owned(),
            model: origin.model.to_owned(),
            provider: origin.provider.to_owned(),
            depth: 0,
            is_resumed: false,
        };
        let program = Arc::clone(&config.program);
        let mut environment = config.environment.clone();
        let stored = logs.map(|logs| logs.writer(&info, &program)).transpose()?;
        let (log, replayed) = stored.map_or((None, None), |(log, before)| (Some(log), before));
        let log = log.map(Arc::new);
        if let Some(log) = &log {
            environment.observers.push(Arc::clone(log) as Arc<dyn Observer>);
        }
        // The gateway that has stopped it has reported that.
        let is_over = log.as_ref().is_some_and(|log| log.is_shared())
            && replayed.as_ref().is_some_and(|replayed| replayed.added().is_empty());
        info.is_resumed = replayed.is_some();
        let handle = match replayed {
            Some(replayed) => RunHandle::replayed(info, replayed, environment),
            None => RunHandle::root(info, program, environment),
        };
        let attempts_before = handle.look(|run| run.attempts());
        let counters = RunCounters::after(attempts_before);
        handle.checkpoint();
        if handle.status() == Status::Pending {
            handle.begin();
        }
        let is_end_reported = AtomicBool::new(is_over && stop_of(&handle).is_some());
        Ok(Self { counters, log, is_end_reported, ..Self::of(handle, &config.tell_model) })
    }

    /// A run that another driver drives, which reports its end.
    pub(super) fn driven(handle: RunHandle) -> Self {
        Self { is_end_reported: AtomicBool::new(true), is_driven: true, ..Self::of(handle, &[]) }
    }

    fn of(handle: RunHandle, tell_model: &[u64]) -> Self {
        Self {
            conversations: Conversations::new(handle.clone()),
            budget_notes: BudgetNotes::of(&handle, tell_model),
            handle,
            counters: RunCounters::after(0),
            responses: ResponseHistory::default(),
            unknown_fields: UnknownFields::default(),
            quotas: Quotas::default(),
            account_waits: AccountWaits::default(),
            log: None,
            is_log_failure_raised: AtomicBool::new(false),
            traffic: Arc::default(),
            pause: Pause::default(),
            is_end_reported: AtomicBool::new(false),
            is_driven: false,
            is_controlled: AtomicBool::new(false),
            last_used: AtomicU64::new(0),
            share: None,
        }
    }

    /// Takes a provider's report of a window of the subscription.
    pub(crate) fn report_quota(&self, window: &PlanWindow) {
        let now = self.handle.wall();
        let resets_at = window.resets.map(|resets| WallTime(resets.at(now.0)));
        // A time that has passed here announces no reset to wait for: a clock is off, or the window begins late.
        let resets_at = resets_at.filter(|at| *at > now);
        if self.quotas.take(&window.name, window.used, resets_at) {
            self.handle.report_quota(&window.name, window.used, resets_at);
        }
    }

    /// A window has reset for which the run has waited.
    fn has_reset(&self, window: &str) {
        // The core gets this even if a report arrived in the meantime: otherwise the run would wait for a reset that is over.
        self.quotas.reset(window);
        self.handle.report_quota(window, 0, Some(WallTime(0)));
        self.flush_log();
    }

    pub(crate) const fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(crate) const fn budget_notes(&self) -> &BudgetNotes {
        &self.budget_notes
    }

    pub(crate) const fn account_waits(&self) -> &AccountWaits {
        &self.account_waits
    }

    /// The run, counted in the share of the client that has begun it as long as it is in memory.
    pub(super) fn of_client(self, share: Option<ClientShare>) -> Self {
        Self { share, ..self }
    }

    /// The client in whose share it counts.
    pub(super) fn client(&self) -> Option<ClientId> {
        self.share.as_ref().map(ClientShare::client)
    }

    pub(crate) const fn handle(&self) -> &RunHandle {
        &self.handle
    }

    pub(crate) fn id(&self) -> &RunId {
        &self.handle.info().id
    }

    pub(crate) const fn counters(&self) -> &RunCounters {
        &self.counters
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// The responses that a request may continue.
    pub(crate) const fn responses(&self) -> &ResponseHistory {
        &self.responses
    }

    /// The fields of its requests that no table has.
    pub(crate) const fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown_fields
    }

    pub(super) const fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    /// Returns why every further call of the run gets a stop response. `None` if it ended naturally, continues or is
    /// paused.
    pub(crate) fn stop(&self) -> Option<StopSignal> {
        stop_of(&self.handle).or_else(|| self.log.as_ref()?.problem().map(|why| not_logged(&why)))
    }

    /// Returns why a call gets a stop response: the stop of the run, or `why` if it has none, because it is paused, refuses one
    /// sub-agent, or a call of it was cut. No other place makes such a signal.
    pub(crate) fn stop_or(&self, why: &str) -> StopSignal {
        let other = || StopSignal::new(StopReason::StopRequested).with_message(why);
        self.stop().unwrap_or_else(other)
    }

    /// Writes the buffered part of a stored run. A call that is not logged must not be sent: its run has stopped, unless the
    /// store is away or another gateway serves it.
    pub(crate) fn log_now(&self) -> Result<(), NotLogged> {
        let Some(log) = &self.log else { return Ok(()) };
        log.flush().inspect_err(|why| {
            if let NotLogged::Lost(why) = why
                && !self.is_log_failure_raised.swap(true, Ordering::AcqRel)
            {
                self.handle.raise(&not_logged(why));
            }
        })
    }

    /// Writes the buffered part of a stored run now, or later if that fails and can be repeated.
    pub(crate) fn flush_log(&self) {
        let _ = self.log_now();
    }

    /// Lets waiting calls check the run again, and reports its end to observers if nothing is in flight.
    pub(crate) fn notify(&self) {
        self.flush_log();
        self.pause.notify();
        if self.calls() == 0 && self.stop().is_some() && !self.has_moved() {
            self.report_end();
        }
    }

    /// Resolves with the next [`notify`](Self::notify) after this call: at the end of a call, or when the status of the
    /// run may have changed.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.pause.notified()
    }

    /// Reports the end to observers, once.
    pub(crate) fn report_end(&self) {
        if !self.is_end_reported.swap(true, Ordering::AcqRel) {
            self.conversations.end_children();
            self.handle.ended();
            self.flush_log();
        }
    }

    /// Calls in flight.
    pub(crate) fn calls(&self) -> usize {
        self.traffic.calls()
    }

    /// Counts one more call in flight, unless there are `max` already.
    pub(super) fn enter_call(&self, max: usize) -> bool {
        self.traffic.enter(max)
    }

    /// Takes [`enter_call`](Self::enter_call) back, for a call that gets no conversation.
    pub(super) fn cancel_enter(&self) {
        self.traffic.leave();
    }

    /// A call has ended.
    pub(super) fn leave_call(&self) {
        self.traffic.leave();
        self.conversations.end_surplus();
        self.notify();
    }

    /// A call that waits for others of this run.
    pub(crate) fn waiting_call(&self) -> WaitingCall {
        WaitingCall::new(&self.traffic)
    }

    /// Follows whether the client of a stream of this run reads.
    pub(crate) fn read_progress(&self) -> ReadProgress {
        ReadProgress::new(&self.traffic)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.handle.status() == Status::Paused
    }

    /// Pauses the run for someone outside. Returns `false` if it has stopped or is paused from outside already.
    pub(crate) fn pause(&self, by: &str, why: &str) -> bool {
        self.is_controlled.store(true, Ordering::Relaxed);
        let is_new = self.handle.pause(by, why);
        self.flush_log();
        self.pause.notify();
        is_new
    }

    /// Ends the pause from outside: waiting calls continue. Returns `false` if there was none.
    pub(crate) fn resume(&self, by: &str, why: &str) -> bool {
        if self.handle.pause_request().is_none() {
            return false;
        }
        self.end_pause(|| self.handle.resume(by, why))
    }

    /// Runs an act that may end the pause. Its clock `active` stands still again if the run is still paused then.
    fn end_pause<T>(&self, act: impl FnOnce() -> T) -> T {
        let was_recorded = self.pause.resume(&self.handle);
        let done = act();
        if was_recorded && self.is_paused() {
            self.pause.record(&self.handle);
        }
        self.flush_log();
        self.pause.notify();
        done
    }

    /// The pause rules that are met.
    fn met_pause_rules(&self) -> Vec<String> {
        let record = self.handle.look(endstop_core::run::Run::trip_record);
        let rules = record.rules.into_iter();
        rules
            .filter(|rule| rule.action == Action::Pause && rule.trips)
            .map(|rule| rule.id)
            .collect()
    }

    /// Waits while the run is paused: until it is approved or resumed, the window has reset for which a rule waits, it has
    /// stopped, or `limit` is over, which does not count while a reset is awaited. Its clock `active` stands still from here
    /// until then.
    pub(crate) async fn wait_while_paused(&self, limit: Duration) {
        if self.pause.record(&self.handle) {
            self.flush_log();
        }
        self.pause.notify();
        let has_moved = || self.has_moved();
        self.pause.wait(&self.handle, limit, has_moved, |window| self.has_reset(window)).await;
        if !self.is_paused() && !self.handle.is_over() && self.pause.resume(&self.handle) {
            self.flush_log();
            self.pause.notify();
        }
    }

    /// Waits until the run has stopped or is paused. One that ended naturally may continue.
    pub(crate) async fn wait_for_stop_or_pause(&self) -> Status {
        self.pause.wait_for_stop_or_pause(&self.handle, || self.stop().is_some()).await
    }

    /// Approves every pause rule that is met, for someone with a reason. With a `limit`, the rule trips again when the cost
    /// reaches it. Returns whether a rule was approved.
    pub(crate) fn approve(&self, limit: Option<Money>, by: &str, why: &str) -> bool {
        self.is_controlled.store(true, Ordering::Relaxed);
        let rules = self.met_pause_rules();
        if rules.is_empty() {
            return false;
        }
        let approve = |rule: &&String| self.handle.approve_by(rule, limit, by, why);
        self.end_pause(|| rules.iter().filter(approve).count() > 0)
    }

    /// Approves one rule by its name.
    pub(crate) fn approve_rule(
        &self,
        rule: &str,
        limit: Option<Money>,
        by: &str,
        why: &str,
    ) -> bool {
        self.is_controlled.store(true, Ordering::Relaxed);
        let approve = || self.handle.approve_by(rule, limit, by, why);
        if self.met_pause_rules().iter().any(|met| met == rule) {
            return self.end_pause(approve);
        }
        let is_approved = approve();
        self.flush_log();
        is_approved
    }

    /// Raises limits of the run, all or none. A run that one of them stopped continues.
    pub(crate) fn raise_limits(
        &self,
        amounts: &[(GaugeId, u64)],
        by: &str,
        why: &str,
    ) -> Result<(), RaiseError> {
        self.is_controlled.store(true, Ordering::Relaxed);
        self.handle.look(|run| {
            amounts.iter().try_for_each(|(gauge, by)| run.raised(*gauge, *by).map(drop))
        })?;
        let raised = self.end_pause(|| self.handle.raise_limits(amounts, by, why));
        if raised.is_ok() && !self.handle.is_over() && !self.is_driven {
            self.is_end_reported.store(false, Ordering::Release);
        }
        raised
    }

    /// Sets an external signal of the run, for someone with a reason.
    pub(crate) fn signal(&self, name: &str, by: &str, why: &str) {
        self.is_controlled.store(true, Ordering::Relaxed);
        self.handle.signal_by(name, by, why);
        self.flush_log();
        self.notify();
    }

    /// Cancels the run for a user: calls in flight finish, or are aborted.
    pub(crate) fn cancel(&self, message: &str, urgency: Urgency) {
        let signal = StopSignal::new(StopReason::UserRequested).with_message(message);
        self.handle.token().cancel(signal, urgency);
        self.handle.checkpoint();
        self.notify();
    }

    /// Cuts the run because the kill switch is on.
    pub(crate) fn kill(&self, signal: StopSignal) {
        self.cut(signal);
        self.notify();
    }

    /// Aborts calls in flight and admits no other. [`notify`](Self::notify) has to follow.
    pub(super) fn cut(&self, signal: StopSignal) {
        self.handle.token().cancel(signal, Urgency::Now);
        self.handle.checkpoint();
    }

    /// The number of the registry's use that was of this run last.
    pub(super) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    pub(super) fn set_last_used(&self, number: u64) {
        self.last_used.store(number, Ordering::Relaxed);
    }

    /// Whether the run is stored.
    pub(super) const fn is_stored(&self) -> bool {
        self.log.is_some()
    }

    /// The number of gateways that have taken the run so far, if others can.
    pub(super) fn shared_epoch(&self) -> Option<u64> {
        self.log.as_ref().filter(|log| log.is_shared()).map(|log| log.epoch())
    }

    /// Whether this gateway serves the run; `for_call` also says that no other one waits for it.
    pub(super) fn is_here(&self, for_call: bool) -> bool {
        self.log.as_ref().is_none_or(|log| log.is_here(for_call))
    }

    /// Whether another gateway has taken the run: nothing of this copy counts.
    pub(crate) fn has_moved(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.has_moved())
    }

    /// Whether another gateway waits for the run.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_here(true)
    }

    /// Serves the run for a call.
    pub(super) fn hold(&self) -> Result<(), RunLogError> {
        self.log.as_ref().map_or(Ok(()), |log| log.hold())
    }

    /// Another gateway has taken the run.
    pub(super) fn leave(&self) {
        if let Some(log) = &self.log {
            log.leave();
        }
        self.pause.notify();
    }

    /// Another gateway waits for the run.
    pub(super) fn want(&self) {
        if let Some(log) = &self.log {
            log.want();
        }
    }

    /// Nothing uses the run: see [`RunEntry::rest`].
    pub(super) fn begin_rest(&self) {
        if let Some(log) = &self.log {
            log.begin_rest();
        }
    }

    /// Lets other gateways serve the run, unless it is used again. Returns `false` if that cannot be done now.
    pub(super) fn rest(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.rest())
    }

    /// Whether the log of a stored run cannot be written, now or ever.
    pub(super) fn has_log_problem(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_away() || log.problem().is_some())
    }

    /// Whether the log of a stored run can never be written here again. Lines that wait for a store are no such hole.
    pub(super) fn has_log_hole(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.problem().is_some())
    }

    /// Whether something of a stored run is not written yet.
    pub(super) fn has_unwritten(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.has_unwritten())
    }

    /// Writes the log of a stored run. Returns `false` if that fails.
    pub(super) fn is_log_written(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.flush().is_ok())
    }

    /// Nothing more is written: the run is evicted, and may continue from its log.
    pub(super) fn close_log(&self) {
        if let Some(log) = &self.log {
            log.close();
        }
    }

    /// Stops a run that was evicted and is named again. Its end was reported before.
    pub(super) fn stop_again(&self, signal: &StopSignal) {
        self.handle.raise(signal);
        self.is_end_reported.store(true, Ordering::Release);
    }

    /// Lets a run continue that the total of all runs refused. Its end will be reported again.
    pub(super) fn reopen(&self, by: &str, why: &str) {
        if self.handle.reopen_refused(by, why) {
            self.is_end_reported.store(false, Ordering::Release);
            self.pause.notify();
        }
    }

    /// Whether nothing uses the run but the registry, which holds `self`.
    pub(super) fn is_idle(self: &Arc<Self>) -> bool {
        self.is_idle_but_for(0)
    }

    /// Whether nothing uses the run but the registry and so many holders, one of which asks.
    pub(super) fn is_idle_but_for(self: &Arc<Self>, holders: usize) -> bool {
        self.calls() == 0
            && Arc::strong_count(self) == holders.saturating_add(1)
            && Arc::strong_count(&self.traffic) == 1
    }

    /// How far a run is that has not ended and does not wait.
    fn eviction_of_running(&self) -> Eviction {
        let budget = self.handle.budget();
        let settled = budget.settled();
        if self.is_controlled.load(Ordering::Relaxed) || budget.held() != Amounts::ZERO {
            Eviction::Running
        } else if settled == Amounts::ZERO {
            Eviction::Untouched
        } else if settled.cost == Money::ZERO && settled.tokens == 0 {
            Eviction::Free
        } else {
            Eviction::Running
        }
    }

    /// How far the run is.
    pub(super) fn eviction(&self) -> Eviction {
        match self.handle.status() {
            // A rule may stop a run at its own end.
            Status::Completed if self.stop().is_none() => Eviction::Ended,
            Status::Completed | Status::Stopped | Status::Failed => Eviction::Stopped,
            Status::Pending | Status::InProgress => self.eviction_of_running(),
            Status::Paused => Eviction::Running,
        }
    }
}

/// The signal that stops a run whose events cannot be written.
fn not_logged(why: &TraceHole) -> StopSignal {
    StopSignal::new(StopReason::ErrorForbade)
        .with_message(format!("the run cannot be stored: {why}"))
        .with_source("gateway")
}
