//! Agent programs as people install them, under `endstop run --steps 3 --upstream sim -- CMD`.
//!
//! They have no key and no login, and each has its own home directory. Each has to end without help, after exactly three
//! calls, with the reason on the screen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::install::{self, Installed, version};
use super::run::{self, Counts, STEPS, STOP_WORD, STOPPED};

/// One program.
#[derive(Debug)]
pub(super) struct Program {
    /// How it is called, here and on its command line.
    pub(super) name: &'static str,
    /// The package that it is installed from.
    pub(super) package: &'static str,
    /// Where its executable is below the directory of its packages. `PLATFORM` stands for `linux-x64` and similar names.
    directory: &'static str,
    /// Its arguments.
    arguments: &'static [&'static str],
    /// How its calls come to the gateway: `variables` or `adapter`.
    way: &'static str,
    /// The API that it speaks.
    api: &'static str,
    /// Variables that it needs for a start without a network.
    variables: &'static [(&'static str, &'static str)],
    /// Requests that get the stop.
    stops: u64,
    /// Whether the text of the stop is in its output.
    shows_reason: bool,
    /// Whether it is run for each change.
    pub(super) is_in_ci: bool,
}

/// Of programs written in Python.
const VENV: &str = "bin";
const BIN: &str = "node_modules/.bin";
const PROMPT: &str = "Count forever.";

/// Every program that can be installed.
pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "codex",
        package: "@openai/codex",
        directory: BIN,
        arguments: &["exec", "--skip-git-repo-check", PROMPT],
        way: "adapter",
        api: "responses",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: true,
    },
    Program {
        name: "gemini",
        package: "@google/gemini-cli",
        directory: BIN,
        arguments: &["--skip-trust", "--yolo", "--prompt", PROMPT],
        way: "adapter",
        api: "gemini",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: true,
    },
    Program {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        directory: "node_modules/@anthropic-ai/claude-code-PLATFORM",
        arguments: &["--print", PROMPT],
        way: "variables",
        api: "messages",
        variables: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "opencode",
        package: "opencode-ai",
        directory: "node_modules/opencode-PLATFORM/bin",
        arguments: &["run", PROMPT],
        way: "variables",
        api: "messages",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "opencode",
        package: "opencode-ai",
        directory: "node_modules/opencode-PLATFORM/bin",
        arguments: &["run", "--model", "google/gemini-2.5-pro", PROMPT],
        way: "adapter",
        api: "gemini",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "qwen",
        package: "@qwen-code/qwen-code",
        directory: BIN,
        arguments: &["--yolo", PROMPT],
        way: "adapter",
        api: "chat",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "pi",
        package: "@mariozechner/pi-coding-agent",
        directory: BIN,
        arguments: &["--print", PROMPT],
        way: "adapter",
        api: "messages",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "cline",
        package: "cline",
        directory: BIN,
        arguments: &["--json", PROMPT],
        way: "adapter",
        api: "messages",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "copilot",
        package: "@github/copilot",
        directory: BIN,
        arguments: &["--allow-all-tools", "--prompt", PROMPT],
        way: "adapter",
        api: "chat",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "cn",
        package: "@continuedev/cli",
        directory: BIN,
        arguments: &["--auto", "--print", PROMPT],
        way: "adapter",
        api: "messages",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "llm",
        package: "llm",
        directory: VENV,
        arguments: &["-m", "gpt-4o", "--tool", "llm_version", "--chain-limit", "0", PROMPT],
        way: "variables",
        api: "chat",
        variables: &[],
        stops: 1,
        shows_reason: true,
        is_in_ci: false,
    },
    Program {
        name: "mini",
        package: "mini-swe-agent",
        directory: VENV,
        arguments: &["--yolo", "--exit-immediately", "-m", "openai/gpt-4o", "-t", PROMPT],
        way: "variables",
        api: "chat",
        // It knows no price of the model that a stop response names.
        variables: &[("MSWEA_CONFIGURED", "true"), ("MSWEA_COST_TRACKING", "ignore_errors")],
        // It asks again where an answer has no command in it, three times.
        stops: 3,
        shows_reason: false,
        is_in_ci: false,
    },
];

/// Programs that this task cannot install, and why.
const NOT_HAD: &[(&str, &str)] = &[
    ("crush", "not run: its npm package downloads the program by a script"),
    ("goose", "not run: it is not installed from npm or PyPI"),
];

/// How a run of a program ended.
#[derive(Debug, Default)]
pub(super) struct ProgramRun {
    name: &'static str,
    version: String,
    way: &'static str,
    api: &'static str,
    counts: Counts,
    code: Option<i32>,
    seconds: u64,
    says_why: bool,
    shows_reason: bool,
    /// The fault of the run.
    pub(super) fault: Option<String>,
    /// The end of its output.
    pub(super) output: String,
}

/// Installs and runs a program.
pub(super) fn one(root: &Path, endstop: &Path, program: &Program) -> ProgramRun {
    let group = format!("program-{}", program.name);
    let mut ended = ProgramRun {
        name: program.name,
        version: version(root, &group, program.package).unwrap_or_default(),
        way: program.way,
        api: program.api,
        shows_reason: program.shows_reason,
        ..ProgramRun::default()
    };
    let started = install::install(root, &group).and_then(|place| {
        let command = command(root, endstop, program, &place)?;
        start(command, &mut ended)
    });
    ended.fault = started.err().or_else(|| fault(&ended, program.stops));
    ended
}

/// The command, and the file of its summary.
fn command(
    root: &Path,
    endstop: &Path,
    program: &Program,
    place: &Installed,
) -> Result<(Command, PathBuf), String> {
    let home = root.join("target/clients/homes").join(program.name);
    let failed = |error| format!("`{}`: {error}", home.display());
    // An earlier run may have left a login or a setting.
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(home.join("work")).map_err(failed)?;
    let platform = format!("{}-{}", system(), machine());
    let executables = place.directory.join(program.directory.replace("PLATFORM", &platform));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([executables].into_iter().chain(std::env::split_paths(&path)))
        .map_err(|error| error.to_string())?;
    let summary = home.join("summary.json");
    let mut command = Command::new(endstop);
    command.env_clear().env("PATH", path).env("HOME", &home).env("TERM", "dumb");
    // They would take the project for their user's, and read its notes.
    command.env("GIT_CEILING_DIRECTORIES", root.join("target/clients/homes"));
    command.envs(program.variables.iter().copied()).current_dir(home.join("work"));
    command.args(["run", "--steps", &STEPS.to_string(), "--upstream", "sim", "--quiet"]);
    command.arg("--json-file").arg(&summary).arg("--").arg(program.name).args(program.arguments);
    Ok((command, summary))
}

const fn system() -> &'static str {
    if cfg!(target_os = "macos") { "darwin" } else { "linux" }
}

const fn machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" }
}

fn start((mut command, summary): (Command, PathBuf), ended: &mut ProgramRun) -> Result<(), String> {
    let begun = Instant::now();
    let (status, output, errors) = run::finished(&mut command)?;
    ended.seconds = begun.elapsed().as_secs();
    ended.code = status.and_then(|status| status.code());
    ended.counts = Counts::read(&summary);
    ended.says_why = output.contains(STOP_WORD) || errors.contains(STOP_WORD);
    ended.output = run::tail(&format!("{output}\n{errors}"));
    status.map(drop).ok_or_else(|| "it did not end in time".to_owned())
}

/// The fault of a run whose program should get `stops` stops.
fn fault(ended: &ProgramRun, stops: u64) -> Option<String> {
    let Counts { calls, stop_responses } = ended.counts;
    if calls != Some(STEPS) {
        return Some(format!("{calls:?} calls reached the upstream, not {STEPS}"));
    }
    if stop_responses != Some(stops) {
        return Some(format!("{stop_responses:?} requests got the stop, not {stops}"));
    }
    if ended.code != Some(STOPPED) {
        return Some(format!("exit code {:?}, not {STOPPED}", ended.code));
    }
    (ended.shows_reason && !ended.says_why).then(|| "the reason is not on the screen".to_owned())
}

/// One run, for people who watch.
pub(super) fn line(ended: &ProgramRun) -> String {
    let mark = if ended.fault.is_some() { "FAILED" } else { "ok" };
    let ProgramRun { name, api, way, seconds, .. } = ended;
    let [calls, stops] = ended.counts.in_words();
    format!(
        "{mark:<6} {name:<21} {api:<10} {way:<9} calls {calls}, stop responses {stops}, {seconds} s"
    )
}

/// The table.
pub(super) fn page(rows: &[ProgramRun]) -> String {
    let mut text = "\
| program | version | way in | interface | calls upstream | stop responses | exit code | how it ended |
| --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for row in rows {
        let [calls, stops] = row.counts.in_words();
        let code = row.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let how = match &row.fault {
            None if row.says_why => format!("by itself, in {} s", row.seconds),
            None => format!("by itself, in {} s; it does not show the reason", row.seconds),
            Some(fault) => fault.replace('|', "/"),
        };
        let ProgramRun { name, version, way, api, .. } = row;
        text.push_str(&format!(
            "| {name} | {version} | {way} | {api} | {calls} | {stops} | {code} | {how} |\n"
        ));
    }
    for (name, why) in NOT_HAD {
        text.push_str(&format!("| {name} | - | not yet | - | - | - | - | {why} |\n"));
    }
    text
}

#[cfg(test)]
mod tests;
