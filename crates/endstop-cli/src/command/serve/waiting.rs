//! Output about a run of `endstop serve` before its end.

use std::io::{self, Write as _};

use endstop::account::AccountRefused;
use endstop::core::Run;
use endstop::core::event::EventKind;
use endstop::core::run::{Notice, Status};
use endstop::observe::{Observation, Observer, RunInfo, clean};
use endstop::store::RunId;
use serde_json::json;

use super::super::trip;
use crate::output;

/// Prints pauses, which wait for a user or for the reset of a budget, and warnings.
pub(super) struct Waiting {
    pub(super) as_json: bool,
    /// Whether there is a control API that approves.
    pub(super) is_controlled: bool,
}

impl Waiting {
    fn tell(&self, event: &str, run: &RunId, text: &str) {
        if self.as_json {
            let line = json!({ "version": 1, "event": event, "run": run.as_str(), "text": text });
            // A reader that has disconnected must not end the gateway of other runs.
            let _ = writeln!(io::stdout(), "{line}");
            return;
        }
        let run = clean(run.as_str());
        match event {
            "wait_ended" => output::note(&format!("run {run} {text}")),
            "warning" => output::warn(&format!("run {run}: {text}")),
            _ => output::note(&format!("run {run}: {event}: {text}")),
        }
    }
}

impl Observer for Waiting {
    fn observe(&self, observation: &Observation<'_>) {
        let info = observation.info;
        if info.parent.is_some() {
            return;
        }
        match observation.event.kind {
            EventKind::PauseRequested { by, why } => {
                let how = if self.as_json { String::new() } else { resume_hint(&info.id) };
                self.tell("paused", &info.id, &format!("{}{how}", by_whom(by, why)));
            }
            EventKind::ResumeRequested { by, why } => {
                self.tell("resumed", &info.id, &by_whom(by, why));
            }
            // A call waits for the end of a pause that was printed.
            EventKind::Paused | EventKind::Resumed if observation.run.pause_request().is_some() => {
            }
            EventKind::Paused => {
                let record = observation.run.trip_record();
                let rules: Vec<String> =
                    trip::pausing(&record).map(|rule| clean(&trip::why(rule))).collect();
                let reset = observation.run.next_reset();
                let how = match (&reset, self.is_controlled) {
                    (Some(reset), _) => {
                        format!("; continues when {}", trip::reset_text(reset))
                    }
                    (None, true) => {
                        format!("; POST /endstop/v1/runs/{}/approve lets it continue", info.id)
                    }
                    (None, false) => "; with --control it could be approved".to_owned(),
                };
                let how = if self.as_json { String::new() } else { how };
                self.tell("paused", &info.id, &format!("{}{how}", rules.join("; ")));
            }
            EventKind::Resumed => {
                // An approval follows this event; a reset came before it.
                let is_reset = observation.run.status() != Status::Paused;
                let why = if is_reset { "the window of the plan has reset" } else { "approved" };
                self.tell("resumed", &info.id, why);
            }
            _ => {}
        }
    }

    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        match refused {
            Some(refused) => {
                let text = format!("waits for {}", clean(&refused.awaited()));
                self.tell("paused", &info.id, &text);
            }
            // It may have given up, and its run does not continue by that.
            None => self.tell("wait_ended", &info.id, "waits for no budget any longer"),
        }
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, _: &Run) {
        if info.parent.is_none() {
            let text = format!("{}: {}", clean(&notice.rule), clean(&notice.message));
            self.tell("warning", &info.id, &text);
        }
    }
}

fn by_whom(by: &str, why: &str) -> String {
    let why = if why.is_empty() { String::new() } else { format!(": {}", clean(why)) };
    format!("by {}{why}", clean(by))
}

fn resume_hint(run: &RunId) -> String {
    format!("; POST /endstop/v1/runs/{run}/resume continues it")
}
