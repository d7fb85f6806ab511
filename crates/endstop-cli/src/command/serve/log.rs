//! `endstop serve --log`: a line for each refused call, and for each upstream that cannot be reached.

use std::io::{self, Write as _};

use endstop::observe::clean;
use endstop_gateway::{RefusalObserver, RefusedCall, UnreachableUpstream, UpstreamObserver};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::output;

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
        write_line(&Self::line(call, Timestamp::now()));
    }
}

/// Writes a line for each upstream that cannot be reached: to standard error, and with `--json` to standard output.
#[derive(Debug)]
pub(super) struct UpstreamLog {
    pub(super) as_json: bool,
    pub(super) log: Option<LogFormat>,
}

impl UpstreamObserver for UpstreamLog {
    fn unreachable(&self, upstream: &UnreachableUpstream) {
        let line = json!({
            "version": 1,
            "event": "upstream_unreachable",
            "time": format!("{:.3}", Timestamp::now()),
            "upstream": upstream.host,
            "error": upstream.error,
        });
        if self.log.is_some() {
            write_line(&line);
        }
        if self.as_json {
            // A reader that has disconnected must not end the gateway of other runs.
            let _ = writeln!(io::stdout(), "{line}");
        }
        if self.log.is_none() && !self.as_json {
            output::warn(&format!("{}; its calls are answered with 502", clean(&upstream.error)));
        }
    }
}

/// Writes a line to standard error, in one write, so that no other line comes between. A reader that has disconnected
/// ends no run.
fn write_line(line: &Value) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}
