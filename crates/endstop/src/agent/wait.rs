//! Waiting inside a run: for the model, for tools, between attempts. A cancellation and the next limit in
//! time end the wait.

use std::future::Future;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_core::run::Directive;
use endstop_core::run::next_trip::Axis;
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::hooks::Trigger;
use super::scope::{Scope, is_over};
use endstop_runtime::cancel::{CancelToken, Urgency};

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited<T> {
    /// What was waited for is there.
    Done(T),
    /// The run is to stop now.
    Cut,
}

/// What else ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Only what cuts: what is in flight may end by itself.
    ToTheEnd,
    /// Any cancellation: nothing is in flight.
    None,
}

/// What all hooks together have that begin when the run is cut already: enough to write something down.
const HOOK_GRACE: Duration = Duration::from_secs(10);
/// How long a rule in time that holds and is overridden is left alone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Scope {
    /// Waits for `future`.
    ///
    /// # Cancellation safety
    ///
    /// Cancel safe: the future is only borrowed.
    pub(super) async fn wait<F: Future + Unpin>(
        &self,
        future: &mut F,
        patience: Patience,
    ) -> Waited<F::Output> {
        loop {
            // What is there already needs no timers.
            let is_cancelled = self.look_at_in_flight(CancelToken::is_cancelled);
            if !is_cancelled && let Some(output) = (&mut *future).now_or_never() {
                return Waited::Done(output);
            }
            let token = self.in_flight();
            let stopped = async {
                match patience {
                    Patience::ToTheEnd => token.cut().await,
                    Patience::None => token.cancelled().await,
                }
            };
            tokio::select! {
                biased;
                _ = stopped => return Waited::Cut,
                output = &mut *future => return Waited::Done(output),
                () = self.next_limit_in_time() => {
                    if self.tick().stops() {
                        return Waited::Cut;
                    }
                }
            }
        }
    }

    /// Waits for hooks, or for a source that is asked: what cuts the run ends that wait too. Hooks that begin
    /// in a run that is cut or out of time already have some time, those after everything all that they need.
    pub(super) async fn wait_for_hooks<F: Future + Unpin>(
        &self,
        hooks: &mut F,
        trigger: Option<Trigger>,
    ) -> Waited<F::Output> {
        if let Some(output) = (&mut *hooks).now_or_never() {
            return Waited::Done(output);
        }
        if trigger == Some(Trigger::AfterExecution) {
            return Waited::Done(hooks.await);
        }
        if self.in_flight().urgency() != Some(Urgency::Now) && !self.is_out_of_time() {
            return self.wait(hooks, Patience::ToTheEnd).await;
        }
        let until = trigger.map_or_else(Instant::now, |_| self.late_until(HOOK_GRACE));
        let was_cut = self.token.urgency() == Some(Urgency::Now);
        tokio::select! {
            biased;
            output = hooks => Waited::Done(output),
            () = self.token.cut(), if !was_cut => Waited::Cut,
            () = tokio::time::sleep_until(until) => Waited::Cut,
        }
    }

    /// The run is over, and a limit in time has passed.
    fn is_out_of_time(&self) -> bool {
        let core = self.core();
        let trip = core.run.next_trip(Axis::Time, &[Action::Stop]);
        is_over(core.run.status()) && trip.is_some_and(|trip| trip.distance == 0)
    }

    /// Lets a timer fire; what is below stops with the run.
    pub(super) fn tick(&self) -> Directive {
        let directive = self.note(&EventKind::Tick);
        if directive.stops() {
            self.cut_below();
        }
        directive
    }

    /// Sleeps until the next stop rule can trip by time alone; for ever if none can.
    async fn next_limit_in_time(&self) {
        let trip = self.core().run.next_trip(Axis::Time, &[Action::Stop]);
        match trip.map(|trip| trip.distance) {
            None => std::future::pending().await,
            Some(0) => tokio::time::sleep(LOOK_AGAIN).await,
            Some(distance) => tokio::time::sleep(Duration::from_millis(distance)).await,
        }
    }
}
