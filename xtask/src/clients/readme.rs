//! README's lines with real programs, word for word: `sh -c 'endstop run --usd 2 -- claude -p "…"'`.
//!
//! The environment says what a reader has: the programs and `endstop` on PATH, a git repository to work in, and an agent
//! `my_agent.py`. The scripted model (`ENDSTOP_RUN_UPSTREAM=sim`) is the provider, and the limit of the line has
//! to end it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::home::ProgramHome;
use super::install::{self, NotRun, Packages};
use super::list::DIRECTORY;
use super::programs::PROGRAMS;
use super::run::{self, Connections, Counts, STOPPED};

/// The name that chooses all of these lines.
pub(super) const README: &str = "README";
const FILE: &str = "README.md";
const BEGIN: &str = "endstop run ";
/// The agent of the line with Python.
const AGENT: &str = "my_agent.py";
/// The packages of that agent.
const AGENT_GROUP: &str = "sdk";
/// Dollars take more calls than a few steps.
const PATIENCE: Duration = Duration::from_secs(600);

/// A program that README names.
#[derive(Debug)]
struct NamedProgram {
    command: &'static str,
    /// The name that chooses its lines alone.
    choice: &'static str,
    /// Whether its lines are run for each change.
    is_in_ci: bool,
}

const NAMED: &[NamedProgram] = &[
    NamedProgram { command: "claude", choice: "README:claude", is_in_ci: false },
    NamedProgram { command: "codex", choice: "README:codex", is_in_ci: true },
    NamedProgram { command: "python", choice: "README:python", is_in_ci: true },
];

/// The names that choose the lines of one program.
pub(super) fn choices() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|named| named.choice)
}

/// A line of README.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadmeLine {
    /// The words of the line.
    pub(super) text: String,
    program: &'static str,
    /// The name that chooses the lines of this program.
    pub(super) choice: &'static str,
    /// Whether it is run for each change.
    pub(super) is_in_ci: bool,
}

/// How a line ended.
#[derive(Debug, Default)]
pub(super) struct LineRun {
    counts: Counts,
    connections: Connections,
    code: Option<i32>,
    seconds: u64,
    output: String,
}

/// The lines of README that start a named program.
///
/// # Errors
/// If README cannot be read.
pub(super) fn lines(root: &Path) -> Result<Vec<ReadmeLine>, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    Ok(lines_of(&text))
}

fn lines_of(text: &str) -> Vec<ReadmeLine> {
    let commands = text.lines().filter(|line| line.starts_with(BEGIN));
    let lines = commands.filter_map(|line| {
        let (_, command) = line.split_once(" -- ")?;
        let name = command.split(' ').next()?;
        let named = NAMED.iter().find(|named| named.command == name)?;
        let NamedProgram { command: program, choice, is_in_ci } = *named;
        Some(ReadmeLine { text: line.to_owned(), program, choice, is_in_ci })
    });
    lines.collect()
}

impl ReadmeLine {
    /// The group of packages of its program.
    pub(super) fn packages(&self) -> String {
        match PROGRAMS.iter().find(|program| program.name == self.program) {
            Some(program) => program.packages(),
            None => AGENT_GROUP.to_owned(),
        }
    }

    /// Runs it, and says in a line how it ended.
    ///
    /// # Errors
    /// If its program cannot be had, or it did not end as it should.
    pub(super) fn run(
        &self,
        root: &Path,
        endstop: &Path,
        packages: &Packages<'_>,
    ) -> Result<String, NotRun> {
        let mut command = self.command(root, endstop, packages)?;
        let begun = Instant::now();
        let (status, output, errors) = run::finished_within(&mut command, PATIENCE)?;
        let summary = summary(root, self.program);
        let ended = LineRun {
            counts: Counts::read(&summary),
            connections: Connections::read(&summary),
            code: status.and_then(|status| status.code()),
            seconds: begun.elapsed().as_secs(),
            output: run::tail(&format!("{output}\n{errors}")),
        };
        match fault(&ended) {
            Some(fault) => Err(NotRun::Broken(format!("{fault}\n{}", ended.output))),
            None => {
                let [calls, stops] = ended.counts.in_words();
                Ok(format!("calls {calls}, stop responses {stops}, {} s", ended.seconds))
            }
        }
    }

    fn command(
        &self,
        root: &Path,
        endstop: &Path,
        packages: &Packages<'_>,
    ) -> Result<Command, NotRun> {
        let place = packages.install(&self.packages())?;
        let program = PROGRAMS.iter().find(|program| program.name == self.program);
        let executables = match program {
            Some(program) => program.executables(&place),
            None => place.directory.join("bin"),
        };
        let home = ProgramHome::new(root, &home_of(self.program))?;
        let work = home.work();
        let agent = root.join(DIRECTORY).join(AGENT);
        fs::copy(&agent, work.join(AGENT))
            .map_err(|error| format!("`{}`: {error}", agent.display()))?;
        // Codex starts in a repository only.
        install::succeed("git", Command::new("git").args(["init", "--quiet"]).arg(&work))?;
        let own = endstop.parent().map(Path::to_path_buf);
        let mut command = home.command("sh", own.into_iter().chain([executables]))?;
        command.args(["-c", &self.text]).env("ENDSTOP_RUN_UPSTREAM", "sim");
        command.env("ENDSTOP_RUN_JSON_FILE", summary(root, self.program));
        command.envs(program.into_iter().flat_map(|program| program.variables().iter().copied()));
        Ok(command)
    }
}

fn home_of(program: &str) -> String {
    format!("readme-{program}")
}

fn summary(root: &Path, program: &str) -> PathBuf {
    root.join("target/clients/homes").join(home_of(program)).join("summary.json")
}

/// The fault of a run.
fn fault(ended: &LineRun) -> Option<String> {
    if ended.code != Some(STOPPED) {
        return Some(format!("exit code {:?}, not {STOPPED}", ended.code));
    }
    if ended.counts.calls.unwrap_or_default() == 0 {
        return Some("no call reached the upstream".to_owned());
    }
    let Connections { direct, .. } = ended.connections;
    (direct > 0).then(|| format!("{direct} connections to providers bypassed the gateway"))
}

#[cfg(test)]
mod tests;
