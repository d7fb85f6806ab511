//! The state of the run that the supervisor has to know while it runs.

use std::time::Instant;

use endstop::core::Run;
use endstop::core::event::EventKind;
use endstop::core::run::{Notice, Status, WindowReset};
use endstop::core::signal::StopSignal;
use endstop::observe::{Observation, Observer, RunInfo, clean};
use tokio::sync::watch;

use super::super::trip;

/// The current state of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunSnapshot {
    /// Why it was stopped; `None` for a natural end, because the command may continue.
    pub(super) stopped: Option<StopSignal>,
    /// The pause rules that pause it, and why.
    pub(super) paused: Option<Vec<String>>,
    /// The reset after which the run continues without an approval.
    pub(super) reset: Option<WindowReset>,
    /// Whether they paused calls, without an approval since.
    pub(super) is_held: bool,
    /// The pause from outside, in words.
    pub(super) pause: Option<String>,
    /// Model calls that were started.
    pub(super) calls: u64,
    /// Model calls in flight.
    pub(super) in_flight: u64,
    /// When one began or ended last.
    pub(super) last_call: Option<Instant>,
    /// Warnings that were not said yet.
    pub(super) warnings: Vec<String>,
}

/// Reports the state of the run to the supervisor.
#[derive(Debug)]
pub(super) struct Watcher(watch::Sender<RunSnapshot>);

impl Watcher {
    /// One, and where to look.
    pub(super) fn new() -> (Self, watch::Receiver<RunSnapshot>) {
        let (sender, receiver) = watch::channel(RunSnapshot::default());
        (Self(sender), receiver)
    }
}

impl Observer for Watcher {
    fn observe(&self, observation: &Observation<'_>) {
        // The root sees every event of its descendants.
        if observation.info.parent.is_some() {
            return;
        }
        self.0.send_if_modified(|snapshot| snapshot.take(&observation.event.kind, observation.run));
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, _: &Run) {
        if info.parent.is_none() {
            let text = format!("{}: {}", clean(&notice.rule), clean(&notice.message));
            self.0.send_modify(|snapshot| snapshot.warnings.push(text));
        }
    }
}

impl RunSnapshot {
    /// The pause rules that pause calls, and why, if there is no approval; otherwise `None`.
    pub(super) fn paused_by(&self) -> Option<Vec<String>> {
        self.paused.clone().filter(|_| self.is_held && self.stopped.is_none())
    }

    /// Whether it has changed.
    fn take(&mut self, kind: &EventKind<'_>, run: &Run) -> bool {
        let mut has_changed = true;
        match kind {
            EventKind::AttemptBegin { .. } => {
                self.calls = self.calls.saturating_add(1);
                self.in_flight = self.in_flight.saturating_add(1);
                self.last_call = Some(Instant::now());
            }
            EventKind::Reply { .. } | EventKind::AttemptFailed { .. } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.last_call = Some(Instant::now());
            }
            EventKind::Paused => self.is_held = run.pause_request().is_none(),
            EventKind::Resumed => self.is_held = false,
            _ => has_changed = false,
        }
        let status = run.status();
        let is_over = matches!(status, Status::Completed | Status::Stopped | Status::Failed);
        let signal = run.last_stop_signal().filter(|_| is_over);
        let signal = signal.filter(|_| !run.ended_by_itself());
        if signal.is_some() != self.stopped.is_some() {
            self.stopped = signal.cloned();
            has_changed = true;
        }
        let rules: Option<Vec<String>> = (status == Status::Paused)
            .then(|| trip::pausing(&run.trip_record()).map(trip::why).collect());
        let paused = rules.filter(|rules| !rules.is_empty());
        if paused.is_some() != self.paused.is_some() {
            self.paused = paused;
            has_changed = true;
        }
        let reset = run.next_reset();
        if reset != self.reset {
            self.reset = reset;
            has_changed = true;
        }
        let pause = run.pause_request();
        if pause.is_some() != self.pause.is_some() {
            self.pause = pause.map(|pause| clean(&pause.to_string()));
            has_changed = true;
        }
        has_changed
    }
}
