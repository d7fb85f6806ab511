//! `cargo xtask bench spend`: how quickly `endstop spend` reads sessions. They are generated below `target/`, and removed after.
//!
//! Times are printed, and fail nothing. A summary that lacks calls fails: it would have been quick for nothing.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench_gateway;

/// The default size of all sessions. Sessions of a year of daily work have about as much.
const MEGABYTES: u64 = 1_000;
/// The calls of a session: about two megabytes.
const CALLS: u64 = 400;
const PROJECTS: u64 = 12;
/// The fastest round is printed.
const ROUNDS: u32 = 3;
/// The bytes of the results of tools, in turn: most are short, and files and logs are long.
const RESULTS: [usize; 5] = [200, 900, 2_400, 6_000, 14_000];
/// The text of results, again and again.
const LINE: &str =
    "    Checking endstop-core v0.1.0 (/projects/endstop): \"3 warnings\" in 1.25s\n";

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    megabytes: u64,
    /// An `endstop` that was built before.
    binary: Option<PathBuf>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { megabytes: MEGABYTES, binary: None };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--size" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    let number = number.filter(|number| (1..=100_000).contains(number));
                    options.megabytes = number.ok_or("--size needs a number of megabytes")?;
                }
                "--binary" => {
                    let path = words.next().ok_or("--binary needs the path of an `endstop`")?;
                    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
                    options.binary = Some(path);
                }
                other => {
                    return Err(format!(
                        "`{other}` is unknown; there are --size MB and --binary FILE"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// The sessions that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    files: u64,
    calls: u64,
    bytes: u64,
}

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    let endstop = match options.binary {
        Some(path) => path,
        None => built(root)?,
    };
    let directory = root.join("target/bench-spend");
    let failed = |error: io::Error| format!("`{}`: {error}", directory.display());
    remove(&directory).map_err(failed)?;
    let written = write_sessions(&directory, options.megabytes * 1_000_000).map_err(failed)?;
    println!("{}", bench_gateway::machine().trim());
    let Written { files, calls, bytes } = written;
    println!("{files} sessions, {calls} calls, {} MB, in the page cache\n", bytes / 1_000_000);
    let measured = measure(&endstop, &directory, &written);
    remove(&directory).map_err(failed)?;
    measured
}

fn measure(endstop: &Path, directory: &Path, written: &Written) -> Result<(), String> {
    let spend = |mut command: Command| {
        command.args(["spend", "--json", "--by", "day"]).arg(directory);
        // Neither defaults nor budgets of the user.
        command.env("ENDSTOP_CONFIG", "").env("HOME", directory).env("XDG_STATE_HOME", directory);
        command
    };
    if Command::new("taskset").arg("--version").output().is_ok() {
        let one_core = || {
            let mut command = Command::new("taskset");
            command.args(["-c", "0"]).arg(endstop);
            spend(command)
        };
        tell("one core", fastest(one_core, written)?, written.bytes);
    } else {
        println!("skipped: `taskset` is not installed, so one core is not measured");
    }
    tell("all cores", fastest(|| spend(Command::new(endstop)), written)?, written.bytes);
    Ok(())
}

fn tell(what: &str, took: Duration, bytes: u64) {
    let millis = took.as_millis().max(1);
    // Gigabytes per second, in hundredths.
    let speed = u128::from(bytes) / millis / 10_000;
    let (seconds, rest) = (millis / 1_000, millis % 1_000);
    println!("{what}: {seconds}.{rest:03} s, {}.{:02} GB/s", speed / 100, speed % 100);
}

/// The shortest time of some runs, each of which has to find every call.
fn fastest(command: impl Fn() -> Command, written: &Written) -> Result<Duration, String> {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let output = command().output().map_err(|error| format!("`endstop spend`: {error}"))?;
        best = best.min(begun.elapsed());
        let summary: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            format!("`endstop spend`: {error}\n{}", String::from_utf8_lossy(&output.stderr))
        })?;
        let calls = summary.pointer("/total/calls").and_then(Value::as_u64);
        if calls != Some(written.calls) {
            return Err(format!("`endstop spend` has {calls:?} calls of {}", written.calls));
        }
    }
    Ok(best)
}

fn built(root: &Path) -> Result<PathBuf, String> {
    let status = Command::new("cargo")
        .args(["build", "--release", "-p", "endstop-cli", "--bin", "endstop", "--target-dir"])
        .arg(root.join("target"))
        .current_dir(root)
        .status();
    if status.is_ok_and(|status| status.success()) {
        Ok(root.join("target/release/endstop"))
    } else {
        Err("`endstop` does not build".to_owned())
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes sessions, in the form of Claude Code, up to a number of bytes.
fn write_sessions(directory: &Path, bytes: u64) -> io::Result<Written> {
    let mut written = Written::default();
    while written.bytes < bytes {
        let name = format!("session-{}", written.files);
        let project = directory.join(format!("projects/-home-me-{}", written.files % PROJECTS));
        fs::create_dir_all(&project)?;
        let mut file = BufWriter::new(File::create(project.join(format!("{name}.jsonl")))?);
        for _ in 0..CALLS {
            let lines = call_lines(&name, written.calls);
            file.write_all(lines.as_bytes())?;
            written.calls += 1;
            written.bytes += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        }
        file.flush()?;
        written.files += 1;
    }
    Ok(written)
}

/// The lines of one call: the result of the tool that the last one asked for, and the response.
fn call_lines(session: &str, call: u64) -> String {
    let size = RESULTS.iter().cycle().nth(usize::try_from(call % 5).unwrap_or(0));
    let mut result = LINE.repeat(size.map_or(1, |size| size / LINE.len() + 1));
    result.truncate(size.copied().unwrap_or(LINE.len()));
    let before = call.wrapping_sub(1);
    let user = json!({
        "type": "user", "uuid": format!("u{call}"), "parentUuid": format!("a{before}"), "sessionId": session,
        "timestamp": time(call, 0), "version": "2.0.0", "cwd": "/projects/shop", "gitBranch": "main",
        "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": format!("toolu_{before}"), "content": result }
        ] },
    });
    let assistant = json!({
        "type": "assistant", "uuid": format!("a{call}"), "parentUuid": format!("u{call}"), "sessionId": session,
        "requestId": format!("req_{call}"), "timestamp": time(call, 500), "version": "2.0.0",
        "cwd": "/projects/shop", "gitBranch": "main",
        "message": {
            "id": format!("msg_{call}"), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "stop_reason": "tool_use",
            "content": [
                { "type": "text", "text": LINE.repeat(3) },
                { "type": "tool_use", "id": format!("toolu_{call}"), "name": "Bash",
                  "input": { "command": "cargo check --all-targets", "description": "Check the workspace" } }
            ],
            "usage": { "input_tokens": 9, "cache_creation_input_tokens": 700 + call % 900,
                "cache_read_input_tokens": 40_000 + call % 9_000, "output_tokens": 150 + call % 700 },
        },
    });
    format!("{user}\n{assistant}\n")
}

/// The time of a call, which no other has, so that none counts as a copy of another.
fn time(call: u64, millis: u64) -> String {
    let seconds = call * 97;
    let (day, month) = (seconds / 86_400 % 28 + 1, seconds / (86_400 * 28) % 12 + 1);
    let year = 2020 + seconds / (86_400 * 28 * 12);
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    let second = seconds % 60;
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests;
