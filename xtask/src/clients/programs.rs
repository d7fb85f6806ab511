//! Agent programs as people install them, under `endstop run --steps 3 --upstream sim -- CMD`.
//!
//! They have no key and no login, and each has its own home directory. Each has to end without help, after exactly three
//! calls, with the reason on the screen and no other connection to a model provider. The verdict of `endstop doctor`
//! before the run has to be right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::doctor::Diagnosis;
use super::home::ProgramHome;
use super::install::{self, Installed, NotRun, version};
use super::run::{self, Connections, Counts, EndSignals, STEPS, STOP_WORD, STOPPED};

/// One program, and how it is called.
#[derive(Debug)]
pub(super) struct Program {
    /// How it is called here.
    pub(super) name: &'static str,
    /// The directory of its packages, and the file that has them: `program-GROUP`.
    group: &'static str,
    /// The package that it is installed from.
    package: &'static str,
    /// Where its executable is below the directory of its packages. `PLATFORM` stands for `linux-x64` and similar names.
    directory: &'static str,
    /// Its name on its command line, and its arguments before the task.
    command: &'static [&'static str],
    /// How its calls come to the gateway.
    way: Way,
    /// The API that it speaks.
    api: &'static str,
    /// Variables that it needs for a start without a network.
    variables: &'static [(&'static str, &'static str)],
    /// Requests that get the stop.
    stops: u64,
    /// Whether the text of the stop is in its output.
    shows_reason: bool,
    /// How often it reads the task from its standard input, a line each. Otherwise the task is its last argument.
    reads_lines: usize,
    /// Whether it also opens connections to its provider for other things than model calls. They are refused.
    calls_home: bool,
    /// Whether it leaves a process behind that Endstop has to end.
    leaves_daemon: bool,
    /// Whether it is run for each change.
    pub(super) is_in_ci: bool,
}

/// How the calls of a program come to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// By the variables that every command gets.
    #[default]
    Variables,
    /// By what `endstop run` adds for it.
    Adapter,
    /// With `--intercept`, and not without it.
    Intercept,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Variables => "variables",
            Self::Adapter => "adapter",
            Self::Intercept => "intercept",
        }
    }
}

/// Of programs written in Python.
const VENV: &str = "bin";
const BIN: &str = "node_modules/.bin";
const PROMPT: &str = "Count forever.";
/// Exit code of `endstop run` if it does not start a command.
const NOT_STARTED: i32 = 125;

/// The fields that most programs share.
const PROGRAM: Program = Program {
    name: "",
    group: "",
    package: "",
    directory: BIN,
    command: &[],
    way: Way::Variables,
    api: "chat",
    variables: &[],
    stops: 1,
    shows_reason: true,
    reads_lines: 0,
    calls_home: false,
    leaves_daemon: false,
    is_in_ci: false,
};
const CODEX: Program = Program {
    name: "codex",
    group: "codex",
    package: "@openai/codex",
    command: &["codex", "exec", "--skip-git-repo-check"],
    way: Way::Adapter,
    api: "responses",
    // It asks chatgpt.com for its plugins.
    calls_home: true,
    is_in_ci: true,
    ..PROGRAM
};
const CLAUDE: Program = Program {
    name: "claude",
    group: "claude",
    package: "@anthropic-ai/claude-code",
    directory: "node_modules/@anthropic-ai/claude-code-PLATFORM",
    command: &["claude", "--print"],
    api: "messages",
    variables: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
    ..PROGRAM
};
const OPENCODE: Program = Program {
    name: "opencode",
    group: "opencode",
    package: "opencode-ai",
    directory: "node_modules/opencode-PLATFORM/bin",
    command: &["opencode", "run"],
    api: "messages",
    ..PROGRAM
};
const PI: Program = Program {
    name: "pi",
    group: "pi",
    package: "@mariozechner/pi-coding-agent",
    command: &["pi", "--print"],
    way: Way::Adapter,
    api: "messages",
    ..PROGRAM
};
const LLM: Program = Program {
    name: "llm",
    group: "llm",
    package: "llm",
    directory: VENV,
    command: &["llm", "-m", "gpt-4o", "--tool", "llm_version", "--chain-limit", "0"],
    ..PROGRAM
};
const LLM_GEMINI: Program = Program {
    name: "llm-gemini",
    group: "llm-gemini",
    package: "llm-gemini",
    command: &["llm", "-m", "gemini-2.5-flash", "--tool", "llm_version", "--chain-limit", "0"],
    way: Way::Intercept,
    api: "gemini",
    variables: &[("LLM_GEMINI_KEY", "endstop-sim")],
    ..LLM
};

const AIDER: Program = Program {
    name: "aider",
    group: "aider",
    package: "aider-chat",
    directory: VENV,
    command: &[
        "aider",
        "--model",
        "gpt-4o",
        "--yes-always",
        "--no-git",
        "--no-pretty",
        "--no-fancy-input",
        "--no-show-model-warnings",
        "--no-check-update",
        "--analytics-disable",
    ],
    // It calls no tool and makes one call for each line.
    reads_lines: 4,
    ..PROGRAM
};

const GROK: Program = Program {
    name: "grok",
    group: "grok",
    package: "@vibe-kit/grok-cli",
    command: &["grok", "--prompt"],
    way: Way::Adapter,
    ..PROGRAM
};
const KIMI: Program = Program {
    name: "kimi",
    group: "kimi",
    package: "@moonshot-ai/kimi-code",
    command: &["kimi", "--prompt"],
    way: Way::Adapter,
    variables: &[("KIMI_DISABLE_TELEMETRY", "1"), ("KIMI_CODE_NO_AUTO_UPDATE", "1")],
    ..PROGRAM
};
const OPENHANDS: Program = Program {
    name: "openhands",
    group: "openhands",
    package: "openhands",
    directory: VENV,
    command: &["openhands", "--headless", "--override-with-envs", "--task"],
    variables: &[("LLM_MODEL", "openai/gpt-4o")],
    ..PROGRAM
};
const FAST_AGENT: Program = Program {
    name: "fast-agent",
    group: "fast-agent",
    package: "fast-agent-mcp",
    directory: VENV,
    command: &["fast-agent", "go", "--shell", "--model", "openai.gpt-4o", "--message"],
    ..PROGRAM
};
const DCODE: Program = Program {
    name: "dcode",
    group: "dcode",
    package: "deepagents-code",
    directory: VENV,
    command: &["dcode", "--no-mcp", "--model", "openai:gpt-4o", "--non-interactive"],
    ..PROGRAM
};
const INTERPRETER: Program = Program {
    name: "interpreter",
    group: "interpreter",
    package: "open-interpreter",
    directory: VENV,
    command: &[
        "interpreter",
        "--stdin",
        "--plain",
        "--auto_run",
        "--disable_telemetry",
        "--model",
        "gpt-4o",
    ],
    reads_lines: 1,
    ..PROGRAM
};

/// Every program that can be installed.
pub(super) const PROGRAMS: &[Program] = &[
    CODEX,
    Program {
        name: "gemini",
        group: "gemini",
        package: "@google/gemini-cli",
        command: &["gemini", "--skip-trust", "--yolo", "--prompt"],
        way: Way::Adapter,
        api: "gemini",
        is_in_ci: true,
        ..PROGRAM
    },
    CLAUDE,
    OPENCODE,
    Program {
        name: "opencode (OpenAI)",
        command: &["opencode", "run", "--model", "openai/gpt-4o"],
        api: "responses",
        ..OPENCODE
    },
    Program {
        name: "opencode (Google)",
        command: &["opencode", "run", "--model", "google/gemini-2.5-pro"],
        way: Way::Adapter,
        api: "gemini",
        ..OPENCODE
    },
    Program {
        name: "qwen",
        group: "qwen",
        package: "@qwen-code/qwen-code",
        command: &["qwen", "--yolo"],
        way: Way::Adapter,
        ..PROGRAM
    },
    PI,
    Program {
        name: "pi (OpenAI)",
        command: &["pi", "--print", "--provider", "openai", "--model", "gpt-4o"],
        api: "responses",
        ..PI
    },
    Program {
        name: "cline",
        group: "cline",
        package: "cline",
        command: &["cline", "--json"],
        way: Way::Adapter,
        api: "messages",
        leaves_daemon: true,
        ..PROGRAM
    },
    Program {
        name: "copilot",
        group: "copilot",
        package: "@github/copilot",
        command: &["copilot", "--allow-all-tools", "--prompt"],
        way: Way::Adapter,
        ..PROGRAM
    },
    Program {
        name: "cn",
        group: "cn",
        package: "@continuedev/cli",
        command: &["cn", "--auto", "--print"],
        way: Way::Adapter,
        api: "messages",
        ..PROGRAM
    },
    LLM,
    Program {
        name: "llm --no-stream",
        command: &[
            "llm",
            "-m",
            "gpt-4o",
            "--no-stream",
            "--tool",
            "llm_version",
            "--chain-limit",
            "0",
        ],
        ..LLM
    },
    LLM_GEMINI,
    AIDER,
    GROK,
    KIMI,
    OPENHANDS,
    FAST_AGENT,
    DCODE,
    INTERPRETER,
    Program {
        name: "mini",
        group: "mini",
        package: "mini-swe-agent",
        directory: VENV,
        command: &["mini", "--yolo", "--exit-immediately", "-m", "openai/gpt-4o", "-t"],
        // It knows no price of the model that a stop response names.
        variables: &[("MSWEA_CONFIGURED", "true"), ("MSWEA_COST_TRACKING", "ignore_errors")],
        // It asks again where an answer has no command in it, three times.
        stops: 3,
        shows_reason: false,
        ..PROGRAM
    },
];

/// Programs that this task cannot install, and why.
const NOT_HAD: &[(&str, &str)] = &[
    ("codebuff", "not run: its npm package downloads the program by a script"),
    ("crush", "not run: its npm package downloads the program by a script"),
    ("goose", "not run: it is not installed from npm or PyPI"),
    ("letta", "not run: one of its packages is missing from npm"),
    ("nanocoder", "not run: it asks on a terminal whether the directory is trusted"),
    ("ra-aid", "not run: it imports a module that its packages no longer have"),
];

/// How a run of a program ended.
#[derive(Debug, Default)]
pub(super) struct ProgramRun {
    name: &'static str,
    version: String,
    way: &'static str,
    api: &'static str,
    doctor: Diagnosis,
    counts: Counts,
    connections: Connections,
    signals: EndSignals,
    code: Option<i32>,
    seconds: u64,
    says_why: bool,
    shows_reason: bool,
    calls_home: bool,
    leaves_daemon: bool,
    /// The fault of the run.
    pub(super) fault: Option<String>,
    /// The end of its output.
    pub(super) output: String,
}

impl Program {
    /// The group of its packages.
    pub(super) fn packages(&self) -> String {
        format!("program-{}", self.group)
    }

    /// The directory of its executable.
    pub(super) fn executables(&self, place: &Installed) -> PathBuf {
        let platform = format!("{}-{}", system(), machine());
        place.directory.join(self.directory.replace("PLATFORM", &platform))
    }

    /// Variables that it needs for a start without a network.
    pub(super) const fn variables(&self) -> &'static [(&'static str, &'static str)] {
        self.variables
    }

    /// The task among its arguments.
    fn task(&self) -> Option<&'static str> {
        (self.reads_lines == 0).then_some(PROMPT)
    }

    /// Its standard input: the task, or nothing.
    fn input(&self, home: &Path) -> Result<Stdio, String> {
        if self.reads_lines == 0 {
            return Ok(Stdio::null());
        }
        let file = home.join("task");
        let lines = format!("{PROMPT}\n").repeat(self.reads_lines);
        let opened = fs::write(&file, lines).and_then(|()| fs::File::open(&file));
        opened.map(Stdio::from).map_err(|error| format!("`{}`: {error}", file.display()))
    }
}

/// Installs and runs a program, after doctor was asked what would happen.
///
/// # Errors
/// If its packages cannot be had; the reason to skip it.
pub(super) fn one(root: &Path, endstop: &Path, program: &Program) -> Result<ProgramRun, String> {
    let group = program.packages();
    let mut ended = ProgramRun {
        name: program.name,
        version: version(root, &group, program.package).unwrap_or_default(),
        way: program.way.name(),
        api: program.api,
        shows_reason: program.shows_reason,
        calls_home: program.calls_home,
        leaves_daemon: program.leaves_daemon,
        ..ProgramRun::default()
    };
    let place = match install::install(root, &group) {
        Ok(place) => Ok(place),
        Err(NotRun::Skipped(why)) => return Err(why),
        Err(NotRun::Broken(why)) => Err(why),
    };
    let started = place.and_then(|place| {
        let commands = Commands { root, endstop, program, place: &place };
        ended.doctor = Diagnosis::of(&mut commands.doctor()?)?;
        let (command, summary) = commands.run()?;
        let home = summary.parent().unwrap_or(root);
        start(command, program.input(home)?, &summary, &mut ended)?;
        if program.way == Way::Intercept { is_refused_otherwise(&commands) } else { Ok(()) }
    });
    let fault = started.err().or_else(|| fault(&ended, program.stops));
    let disagrees = ended.doctor.fault(ended.way, ended.counts.calls == Some(STEPS));
    ended.fault = fault.or(disagrees);
    Ok(ended)
}

/// A program that only interception limits does not start without it.
fn is_refused_otherwise(commands: &Commands<'_>) -> Result<(), String> {
    let (mut command, _) = commands.under_run(&[])?;
    let (status, _, errors) = run::finished(&mut command)?;
    let code = status.and_then(|status| status.code());
    match code == Some(NOT_STARTED) && errors.contains("--intercept") {
        true => Ok(()),
        false => Err(format!("without --intercept it ends with {code:?}: {}", run::tail(&errors))),
    }
}

/// The commands around a program.
struct Commands<'a> {
    root: &'a Path,
    endstop: &'a Path,
    program: &'a Program,
    place: &'a Installed,
}

impl Commands<'_> {
    /// `endstop` in the program's own home, which is new.
    fn endstop(&self) -> Result<(Command, PathBuf), String> {
        let home = ProgramHome::new(self.root, self.program.group)?;
        let mut command = home.command(self.endstop, [self.program.executables(self.place)])?;
        command.envs(self.program.variables.iter().copied());
        Ok((command, home.path))
    }

    fn doctor(&self) -> Result<Command, String> {
        let (mut command, _) = self.endstop()?;
        command.args(["doctor", "--json", "--upstream", "sim", "--"]);
        command.args(self.program.command).args(self.program.task());
        Ok(command)
    }

    /// The command, and the file of its summary.
    fn run(&self) -> Result<(Command, PathBuf), String> {
        let flags: &[&str] = match self.program.way {
            Way::Variables | Way::Adapter => &[],
            Way::Intercept => &["--intercept"],
        };
        self.under_run(flags)
    }

    fn under_run(&self, flags: &[&str]) -> Result<(Command, PathBuf), String> {
        let (mut command, home) = self.endstop()?;
        let summary = home.join("summary.json");
        command.args(["run", "--steps", &STEPS.to_string(), "--upstream", "sim", "--quiet"]);
        command.args(flags).arg("--json-file").arg(&summary).arg("--");
        command.args(self.program.command).args(self.program.task());
        Ok((command, summary))
    }
}

const fn system() -> &'static str {
    if cfg!(target_os = "macos") { "darwin" } else { "linux" }
}

const fn machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" }
}

fn start(
    mut command: Command,
    input: Stdio,
    summary: &Path,
    ended: &mut ProgramRun,
) -> Result<(), String> {
    let begun = Instant::now();
    let (status, output, errors) = run::finished_with(&mut command, input)?;
    ended.seconds = begun.elapsed().as_secs();
    ended.code = status.and_then(|status| status.code());
    ended.counts = Counts::read(summary);
    ended.connections = Connections::read(summary);
    ended.signals = EndSignals::read(summary);
    ended.says_why = output.contains(STOP_WORD) || errors.contains(STOP_WORD);
    ended.output = run::tail(&format!("{output}\n{errors}"));
    status.map(drop).ok_or_else(|| "it did not end before the deadline".to_owned())
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
    let Connections { refused, direct, untrusted, .. } = ended.connections;
    let bypassing = if ended.calls_home { direct } else { direct + refused } + untrusted;
    if bypassing > 0 {
        return Some(format!("{bypassing} connections to providers bypassed the gateway"));
    }
    if ended.code != Some(STOPPED) {
        return Some(format!("exit code {:?}, not {STOPPED}", ended.code));
    }
    let EndSignals { command, left_behind } = &ended.signals;
    if let Some(signal) = command {
        return Some(format!("it did not end on its own: Endstop sent {signal}"));
    }
    if let Some(signal) = left_behind.as_ref().filter(|_| !ended.leaves_daemon) {
        return Some(format!("it left processes behind: Endstop sent {signal}"));
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
| program | version | way in | doctor | interface | calls upstream | stop responses | connections refused | exit code | how it ended |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for row in rows {
        let [calls, stops] = row.counts.in_words();
        let code = row.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let how = match &row.fault {
            None => on_its_own(row),
            Some(fault) => fault.replace('|', "/"),
        };
        let ProgramRun { name, version, way, api, doctor, connections, .. } = row;
        let (doctor, refused) = (doctor.in_words(), connections.refused);
        text.push_str(&format!(
            "| {name} | {version} | {way} | {doctor} | {api} | {calls} | {stops} | {refused} | {code} | {how} |\n"
        ));
    }
    for (name, why) in NOT_HAD {
        text.push_str(&format!("| {name} | - | not yet | - | - | - | - | - | - | {why} |\n"));
    }
    text
}

/// How a run without a fault ended.
fn on_its_own(row: &ProgramRun) -> String {
    let mut text = format!("on its own, in {} s", row.seconds);
    if !row.says_why {
        text.push_str("; it does not show the reason");
    }
    if let Some(signal) = &row.signals.left_behind {
        text.push_str(&format!("; {signal} ended what it left behind"));
    }
    text
}

/// The names of all rows, in their order.
pub(super) fn names() -> Vec<&'static str> {
    let programs = PROGRAMS.iter().map(|program| program.name);
    programs.chain(NOT_HAD.iter().map(|(name, _)| *name)).collect()
}

#[cfg(test)]
mod tests;
