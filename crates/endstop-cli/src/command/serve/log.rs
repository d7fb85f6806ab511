//! `endstop serve --log`: a line for each refused call.

use std::io::{self, Write as _};

use endstop_gateway::{RefusalObserver, RefusedCall};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// JSON.
    Json,
}

/// Writes a JSON line for each refused call to standard error. A key is shown by its place in the file, its name and its runs.
#[derive(Debug)]
pub(super) struct RefusalLog;

impl RefusalLog {
    fn line(call: &RefusedCall, time: Timestamp) -> Value {
        json!({
            "version": 1,
            "event": "refused",
            "time": format!("{time:.3}"),
            "run": call.run.as_ref().map(|run| run.as_str()),
            "key": call.key.map(|place| place.saturating_add(1)),
            "key_name": call.key_name,
            "key_runs": call.key_runs,
            "client": call.client,
            "reason": call.reason,
            "rule": call.rule,
            "limit": call.limit,
            "observed": call.observed,
            "model": call.model,
            "api": call.api,
            "status": call.status,
            "detail": call.detail,
        })
    }
}

impl RefusalObserver for RefusalLog {
    fn refused(&self, call: &RefusedCall) {
        let line = format!("{}\n", Self::line(call, Timestamp::now()));
        // In one write, so that no other line comes between. A reader that has disconnected ends no run.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}
