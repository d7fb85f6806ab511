//! One run of a client under `endstop run`, and whether it did as it should.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::install::{Installed, version};
use super::list::Client;

/// Calls that are let through.
pub(super) const STEPS: u64 = 3;
/// The exit code of `endstop run` when it stopped the run.
pub(super) const STOPPED: i32 = 124;
/// The beginning of the text that every stop response contains. Lines that Endstop itself prints do not have it.
const STOP_TEXT: &str = "Endstop stopped this run";
/// A client has this long, and some take half of it to load.
const PATIENCE: Duration = Duration::from_secs(120);
/// After which it is asked to end, and after as long again made to.
const GRACE: Duration = Duration::from_secs(15);
/// Characters of a client's error output that are shown.
const MAX_ERRORS: usize = 4_000;

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) client: &'static str,
    pub(super) version: String,
    pub(super) api: &'static str,
    pub(super) is_stream: bool,
    pub(super) counts: Counts,
    pub(super) connections: Connections,
    /// Exit code of `endstop run`.
    pub(super) code: Option<i32>,
    /// The client's last line.
    pub(super) result: Option<ClientResult>,
    /// The problem with it.
    pub(super) fault: Option<String>,
    /// The end of its error output.
    pub(super) errors: String,
}

/// Counts of a run's summary; `None` if there is no summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Calls that reached the upstream.
    pub(super) calls: Option<u64>,
    /// Requests that were answered with the stop.
    pub(super) stop_responses: Option<u64>,
}

impl Counts {
    /// Reads the file of `--json-file`.
    pub(super) fn read(summary: &Path) -> Self {
        let text = fs::read(summary).unwrap_or_default();
        let summary: Value = serde_json::from_slice(&text).unwrap_or_default();
        let count = |key: &str| summary.get(key).and_then(Value::as_u64);
        Self { calls: count("upstream_calls"), stop_responses: count("stop_responses") }
    }

    /// Both, for people.
    pub(super) fn in_words(self) -> [String; 2] {
        [self.calls, self.stop_responses]
            .map(|count| count.map_or_else(|| "?".to_owned(), |count| count.to_string()))
    }
}

/// The signals by which Endstop ended the command of a run, and what that left behind; `None` if it ended on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EndSignals {
    pub(super) command: Option<String>,
    pub(super) left_behind: Option<String>,
}

impl EndSignals {
    /// Reads the file of `--json-file`.
    pub(super) fn read(summary: &Path) -> Self {
        let text = fs::read(summary).unwrap_or_default();
        let summary: Value = serde_json::from_slice(&text).unwrap_or_default();
        let name = |key: &str| summary.get(key).and_then(Value::as_str).map(str::to_owned);
        Self { command: name("ended_by"), left_behind: name("left_behind_ended_by") }
    }
}

/// Connections to hosts of model providers that came to the proxy of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    /// Those that were refused.
    pub(super) refused: u64,
    /// Those that bypassed the gateway.
    pub(super) direct: u64,
    /// Those that the gateway answered.
    pub(super) intercepted: u64,
    /// Those that the client ended, because it does not trust the certificate.
    pub(super) untrusted: u64,
}

impl Connections {
    /// Reads the file of `--json-file`.
    pub(super) fn read(summary: &Path) -> Self {
        let text = fs::read(summary).unwrap_or_default();
        let summary: Value = serde_json::from_slice(&text).unwrap_or_default();
        let count = |kind: &str| {
            let hosts = summary.pointer(&format!("/guard/{kind}")).and_then(Value::as_object);
            hosts.into_iter().flat_map(|hosts| hosts.values()).filter_map(Value::as_u64).sum()
        };
        Self {
            refused: count("refused"),
            direct: count("direct"),
            intercepted: count("intercepted"),
            untrusted: count("untrusted"),
        }
    }
}

/// The report of a client about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientResult {
    /// The class of the exception that it raised; `None` if it returned.
    pub(super) raised: Option<String>,
    /// Its final text.
    pub(super) text: String,
    pub(super) tools_run: u64,
}

/// Runs a client on one of its interfaces, streaming and not at once.
pub(super) fn both(
    root: &Path,
    endstop: &Path,
    place: &Installed,
    client: &Client,
    api: &'static str,
) -> [Ended; 2] {
    let version = version(root, client.group, client.package).unwrap_or_default();
    let run = |is_stream| {
        let version = version.clone();
        let name = client.name;
        let mut ended = Ended { client: name, version, api, is_stream, ..Ended::default() };
        let mut command = Command::new(&place.interpreter);
        command.arg(place.programs.join(client.program)).args(["--api", api]);
        ended.fault = match one(root, endstop, &[], &command, &mut ended) {
            Ok(()) => fault(&ended, client.loops),
            Err(why) => Some(why),
        };
        ended
    };
    thread::scope(|scope| {
        let stream = scope.spawn(|| run(true));
        let whole = run(false);
        [whole, stream.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
    })
}

/// Runs a command under `endstop run` with these flags.
pub(super) fn one(
    root: &Path,
    endstop: &Path,
    flags: &[&str],
    started: &Command,
    ended: &mut Ended,
) -> Result<(), String> {
    let Ended { client, api, is_stream, .. } = ended;
    // `net/http` has a character of paths.
    let name = client.replace('/', "-");
    let report = root.join(format!("target/clients/report-{name}-{api}-{is_stream}.json"));
    let _ = fs::remove_file(&report);
    let mut command = Command::new(endstop);
    command.args(["run", "--steps", &STEPS.to_string(), "--upstream", "sim", "--quiet"]);
    command.args(flags).arg("--json-file").arg(&report).arg("--").arg(started.get_program());
    command.args(started.get_args());
    if ended.is_stream {
        command.arg("--stream");
    }
    let (status, output, errors) = finished(&mut command)?;
    ended.errors = tail(&errors);
    ended.code = status.and_then(|status| status.code());
    ended.result = client_result(&output);
    ended.counts = Counts::read(&report);
    ended.connections = Connections::read(&report);
    match status {
        Some(_) => Ok(()),
        None => Err(format!("it did not end within {} s", PATIENCE.as_secs())),
    }
}

/// The problem with the end of a run of this many loops.
pub(super) fn fault(ended: &Ended, loops: u64) -> Option<String> {
    let Some(result) = &ended.result else {
        return Some("the client did not end on its own".to_owned());
    };
    let Counts { calls, stop_responses } = ended.counts;
    if calls != Some(STEPS) {
        return Some(format!("{calls:?} calls reached the upstream, not {STEPS}"));
    }
    if stop_responses != Some(loops) {
        return Some(format!("{stop_responses:?} requests got the stop, not {loops}"));
    }
    if ended.code != Some(STOPPED) {
        return Some(format!("exit code {:?}, not {STOPPED}", ended.code));
    }
    let Connections { refused, direct, .. } = ended.connections;
    if refused + direct > 0 {
        return Some(format!("{refused} connections to providers were refused, {direct} passed"));
    }
    if let Some(raised) = &result.raised {
        return Some(format!("the client raised `{raised}`: {}", result.text));
    }
    if !says_why(&result.text) {
        return Some(format!("the client does not say why it ended: {:?}", result.text));
    }
    None
}

/// Whether a text has that of a stop response. Programs break lines, draw frames and use colors.
pub(super) fn says_why(text: &str) -> bool {
    let plain = without_colors(text);
    let words = plain.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").contains(STOP_TEXT)
}

/// The text without the control sequences of terminals: ESC, `[`, parameters, and a final sign.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rests = parts.map(|part| {
        let end = part.find(|sign: char| ('@'..='~').contains(&sign));
        end.and_then(|end| part.get(end..)).and_then(|rest| rest.get(1..)).unwrap_or_default()
    });
    first + &rests.collect::<String>()
}

/// The status (none: it had to be ended), the output and the errors of a command without input.
pub(super) fn finished(
    command: &mut Command,
) -> Result<(Option<ExitStatus>, String, String), String> {
    finished_with(command, Stdio::null())
}

/// Like [`finished`], for a command that may take this long.
pub(super) fn finished_within(
    command: &mut Command,
    patience: Duration,
) -> Result<(Option<ExitStatus>, String, String), String> {
    ended(command, Stdio::null(), patience)
}

/// The status, the output and the errors of a command with this input.
pub(super) fn finished_with(
    command: &mut Command,
    input: Stdio,
) -> Result<(Option<ExitStatus>, String, String), String> {
    ended(command, input, PATIENCE)
}

fn ended(
    command: &mut Command,
    input: Stdio,
    patience: Duration,
) -> Result<(Option<ExitStatus>, String, String), String> {
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start it: {error}"))?;
    let output = read_aside(child.stdout.take());
    let errors = read_aside(child.stderr.take());
    let status = wait_or_end(&mut child, patience);
    Ok((status, output.join().unwrap_or_default(), errors.join().unwrap_or_default()))
}

/// The status of a command that reads and writes where this one does; `None` if it took longer and had to be ended.
pub(super) fn status_within(
    command: &mut Command,
    patience: Duration,
) -> io::Result<Option<ExitStatus>> {
    Ok(wait_or_end(&mut command.spawn()?, patience))
}

/// The status of a process; `None` if it took longer and had to be ended.
fn wait_or_end(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let status = wait(child, patience);
    if status.is_none() {
        // It takes its command with it, which a kill would not let it do.
        let id = child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        if wait(child, GRACE).is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    status
}

fn read_aside(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < patience {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

/// A client's last line.
fn client_result(output: &str) -> Option<ClientResult> {
    let line: Value = serde_json::from_str(output.trim_end().lines().next_back()?).ok()?;
    let raised = line.get("ended")?.as_str()? == "raised";
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ClientResult {
        raised: raised.then(|| text("error")),
        text: text("text"),
        tools_run: line.get("tools_run").and_then(Value::as_u64).unwrap_or_default(),
    })
}

pub(super) fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(MAX_ERRORS);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests;
