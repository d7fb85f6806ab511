//! `cargo xtask test`: everything that a change has to pass, in one command.
//!
//! Each row of [`STEPS`] says what it runs, or aloud why it runs nothing. A failed step does not hide
//! the others: all run, and the summary names those that failed.

mod steps;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tree;
use steps::{Plan, STEPS};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// What every change has to pass, far under 30 minutes on two cores.
    Push,
    /// The same, and what takes longer.
    Nightly,
}

/// How a step ended.
#[derive(Debug)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Runs the steps of this depth and whether none failed.
pub(crate) fn run(depth: Depth) -> bool {
    let root = tree::root();
    let mut summary = Vec::new();
    for step in STEPS.iter().filter(|step| step.depth <= depth) {
        println!("\n== {}", step.name);
        let started = Instant::now();
        let outcome = match (step.plan)(&root) {
            Plan::Run(commands) => run_all(&root, &commands),
            Plan::Skip(reason) => {
                println!("skipped: {reason}");
                Outcome::Skipped(reason)
            }
        };
        if let Outcome::Failed(reason) = &outcome {
            eprintln!("failed: {reason}");
        }
        summary.push((step.name, outcome, started.elapsed()));
    }
    print_summary(&summary);
    !summary.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
}

fn run_all(root: &Path, commands: &[Vec<String>]) -> Outcome {
    for words in commands {
        let line = words.join(" ");
        println!("$ {line}");
        let Some((program, arguments)) = words.split_first() else { continue };
        match Command::new(program).args(arguments).current_dir(root).status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Outcome::Failed(format!("`{line}`: {status}")),
            Err(error) => return Outcome::Failed(format!("cannot run `{program}`: {error}")),
        }
    }
    Outcome::Passed
}

fn print_summary(summary: &[(&str, Outcome, Duration)]) {
    println!("\n== summary");
    for (name, outcome, spent) in summary {
        let result = match outcome {
            Outcome::Passed => "ok".to_owned(),
            Outcome::Failed(reason) => format!("FAILED: {reason}"),
            Outcome::Skipped(reason) => format!("skipped: {reason}"),
        };
        println!("{:>6}.{} s  {name:<14} {result}", spent.as_secs(), spent.subsec_millis() / 100);
    }
    let total: Duration = summary.iter().map(|(_, _, spent)| *spent).sum();
    println!("{:>6}.{} s  in all", total.as_secs(), total.subsec_millis() / 100);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_failed_command_fails_the_step_and_ends_it() {
        let root = tree::root();
        assert!(matches!(run_all(&root, &[words("cargo --version")]), Outcome::Passed));
        let outcome = run_all(&root, &[words("cargo no-such-task"), words("no-such-program")]);
        assert!(
            matches!(&outcome, Outcome::Failed(why) if why.contains("no-such-task")),
            "{outcome:?}"
        );
        let outcome = run_all(&root, &[words("no-such-program")]);
        assert!(
            matches!(&outcome, Outcome::Failed(why) if why.contains("cannot run")),
            "{outcome:?}"
        );
    }
}
