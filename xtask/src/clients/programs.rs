//! Agent programs as people install them, under `endstop run --steps 3 --upstream sim -- CMD`.
//!
//! They have no login and no real key, and each has its own home directory. Each has to end without help, after exactly
//! three calls, with the reason on the screen and no other connection to a model provider. The answer of `endstop doctor`
//! before the run has to be right. Codex and Claude Code are also run with `--intercept`, and then call their provider's
//! own host. Codex is run without its adapter too, and the guard has to end it.

mod known;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::doctor::Diagnosis;
use super::home::ProgramHome;
use super::install::{Installed, NotRun, Packages, version};
use super::run::{self, Connections, Counts, EndSignals, STEPS, STOPPED};
use known::NOT_HAD;
pub(super) use known::PROGRAMS;

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
    /// Variables with which it calls its provider's own host if it has no adapter. It is then run once more, without one.
    unadapted: Option<&'static [(&'static str, &'static str)]>,
    /// Whether it is run for each change.
    pub(super) is_in_ci: bool,
}

/// How the calls of a program come to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// By the variables that every command gets.
    #[default]
    Variables,
    /// By what `endstop run` adds for it.
    Adapter,
    /// With `--intercept`, although they also come without it, in another way.
    Intercept,
    /// With `--intercept`, and not without it.
    InterceptOnly,
}

impl Way {
    /// The word in the table and of doctor.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Variables => "variables",
            Self::Adapter => "adapter",
            Self::Intercept | Self::InterceptOnly => "intercept",
        }
    }

    /// The flags of `endstop run`.
    const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Variables | Self::Adapter => &[],
            Self::Intercept | Self::InterceptOnly => INTERCEPT,
        }
    }

    /// The flags of `endstop doctor`. A program that needs `--intercept` has to learn of it from doctor.
    const fn flags_of_doctor(self) -> &'static [&'static str] {
        match self {
            Self::Variables | Self::Adapter | Self::InterceptOnly => &[],
            Self::Intercept => INTERCEPT,
        }
    }
}

const INTERCEPT: &[&str] = &["--intercept"];
const PROMPT: &str = "Count forever.";
/// Exit code of `endstop run` if it does not start a command, or ends it because its calls bypass the gateway.
const NOT_LIMITED: i32 = 125;
/// The line of a command that the guard ended, before its hosts.
const ENDED_BY_GUARD: &str = "endstop: ended the command: refused";

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
pub(super) fn one(
    root: &Path,
    endstop: &Path,
    packages: &Packages<'_>,
    program: &Program,
) -> Result<ProgramRun, NotRun> {
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
    let place = match packages.install(&group) {
        Ok(place) => Ok(place),
        Err(NotRun::Broken(why)) => Err(why),
        Err(skipped) => return Err(skipped),
    };
    let started = place.and_then(|place| {
        let commands = Commands { root, endstop, program, place: &place };
        ended.doctor = Diagnosis::of(&mut commands.doctor()?)?;
        let (command, summary) = commands.run()?;
        let home = summary.parent().unwrap_or(root);
        start(command, program.input(home)?, &summary, &mut ended)?;
        if program.way == Way::InterceptOnly {
            is_refused_otherwise(&commands)?;
        }
        program.unadapted.map_or(Ok(()), |variables| is_ended_unadapted(&commands, variables))
    });
    let fault = started.err().or_else(|| fault(&ended, program.stops));
    let disagrees = ended.doctor.fault(program.way, ended.counts.calls == Some(STEPS));
    ended.fault = fault.or(disagrees);
    Ok(ended)
}

/// A program that only interception limits does not start without it.
fn is_refused_otherwise(commands: &Commands<'_>) -> Result<(), String> {
    let (mut command, _) = commands.under_run(&[])?;
    let (status, _, errors) = run::finished(&mut command)?;
    let code = status.and_then(|status| status.code());
    match code == Some(NOT_LIMITED) && errors.contains("--intercept") {
        true => Ok(()),
        false => Err(format!("without --intercept it ends with {code:?}: {}", run::tail(&errors))),
    }
}

/// A program that only its adapter leads to the gateway is ended by the guard without it.
fn is_ended_unadapted(commands: &Commands<'_>, variables: &[(&str, &str)]) -> Result<(), String> {
    let (mut command, _) = commands.under_run(&["--no-adapter"])?;
    is_ended_by_the_guard(command.envs(variables.iter().copied()))
}

/// Runs a command of `endstop run` that the guard has to end.
fn is_ended_by_the_guard(command: &mut Command) -> Result<(), String> {
    let (status, _, errors) = run::finished(command)?;
    let code = status.and_then(|status| status.code());
    // Long lines are broken.
    let said = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    match code == Some(NOT_LIMITED) && said.contains(ENDED_BY_GUARD) {
        true => Ok(()),
        false => Err(format!(
            "without its adapter it ends with {code:?}, and not by the guard: {}",
            run::tail(&errors)
        )),
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
        command.args(["doctor", "--json", "--upstream", "sim"]);
        command.args(self.program.way.flags_of_doctor()).arg("--");
        command.args(self.program.command).args(self.program.task());
        Ok(command)
    }

    /// The command, and the file of its summary.
    fn run(&self) -> Result<(Command, PathBuf), String> {
        self.under_run(self.program.way.flags())
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
    ended.says_why = run::says_why(&output) || run::says_why(&errors);
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
    let Connections { refused, direct, untrusted, intercepted } = ended.connections;
    let bypassing = if ended.calls_home { direct } else { direct + refused } + untrusted;
    if bypassing > 0 {
        return Some(format!("{bypassing} connections to providers bypassed the gateway"));
    }
    if ended.way == Way::Intercept.name() && intercepted == 0 {
        return Some("no connection was answered by the gateway".to_owned());
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
| program | version | way in | doctor | API | calls upstream | stop responses | connections refused | exit code | how it ended |
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
