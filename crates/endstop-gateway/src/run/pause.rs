//! Waiting for a run: until it may go on, until it is held up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use endstop::cancel::Urgency;
use endstop::core::event::EventKind;
use endstop::core::policy::Action;
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::core::units::Money;
use endstop::observe::Detail;
use tokio::time::Instant;

use super::RunEntry;

/// How soon a rule in time that holds already is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl RunEntry {
    /// Whether the run is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.driven.status() == Status::Paused
    }

    /// Waits while the run is paused: until it is approved, has stopped, or the time is over. Its clock
    /// `active` stands still from here until it is approved.
    pub(crate) async fn wait_while_paused(&self, limit: Duration) {
        if !self.is_held.swap(true, Ordering::AcqRel) {
            self.driven.tell(&EventKind::Paused, Detail::None);
            self.keep();
        }
        self.bell.notify_waiters();
        let until = Instant::now() + limit;
        loop {
            let rung = self.bell.notified();
            self.driven.checkpoint();
            if !self.is_paused() {
                return;
            }
            tokio::select! {
                () = rung => {}
                () = self.next_change() => {}
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// Waits until the run has stopped or is paused. One that ended by itself may go on.
    pub(crate) async fn held_up(&self) -> Status {
        loop {
            let rung = self.bell.notified();
            let status = self.driven.checkpoint();
            if status == Status::Paused || self.stop().is_some() {
                return status;
            }
            tokio::select! {
                () = rung => {}
                () = self.next_change() => {}
            }
        }
    }

    /// Waits for a cancellation, or for the next limit in time.
    async fn next_change(&self) {
        let token = self.driven.in_flight();
        let limit = async {
            match self.driven.next_limit_in_time() {
                None => std::future::pending().await,
                Some(left) => {
                    let left = Duration::from_millis(left.0);
                    tokio::time::sleep(left.max(Duration::from_millis(1))).await;
                    if left.is_zero() && !self.driven.tick().stops() {
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                    self.driven.tick();
                }
            }
        };
        if token.is_cancelled() {
            // It is cancelled already, and that did not end the wait.
            tokio::time::sleep(LOOK_AGAIN).await;
            return;
        }
        tokio::select! {
            () = token.cancelled() => {}
            () = limit => {}
        }
    }

    /// Approves every pause rule that holds: it no longer holds up the run, or does so again where money has
    /// reached the cap. Whether there was one, and it could be.
    pub(crate) fn approve(&self, cap: Option<Money>) -> bool {
        let rules: Vec<String> = {
            let verdict = self.driven.look(endstop::core::run::Run::verdict);
            let rules = verdict.rules.iter();
            let held = rules.filter(|rule| rule.action == Action::Pause && rule.holds);
            held.map(|rule| rule.id.clone()).collect()
        };
        self.resume();
        let approved = rules.iter().filter(|rule| self.driven.approve(rule, cap)).count();
        self.keep();
        self.bell.notify_waiters();
        approved > 0
    }

    /// Approves one rule by its name.
    pub(crate) fn approve_rule(&self, rule: &str, cap: Option<Money>) -> bool {
        self.resume();
        let is_approved = self.driven.approve(rule, cap);
        self.keep();
        self.bell.notify_waiters();
        is_approved
    }

    fn resume(&self) {
        if self.is_held.swap(false, Ordering::AcqRel) {
            self.driven.tell(&EventKind::Resumed, Detail::None);
        }
    }

    /// Cancels the run for a person: what is in flight ends by itself, or is cut.
    pub(crate) fn cancel(&self, message: &str, urgency: Urgency) {
        let signal = StopSignal::new(StopReason::UserRequested).with_message(message);
        self.driven.token().cancel(signal, urgency);
        self.driven.checkpoint();
        self.ring();
    }
}
