//! `cargo xtask test`: everything that a change has to pass, in one command.
//!
//! Each row of [`STEPS`] says what it runs, or aloud why it runs nothing. A failed step does not hide
//! the others: all run, the summary names those that failed, and the end of their output is below it,
//! where a log that was cut from above still has it.

mod steps;
mod tail;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::root::root;
use steps::{Plan, STEPS};
use tail::Tail;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// The checks that every change has to pass, far under 30 minutes on two cores.
    Push,
    /// The same, and what takes longer.
    Nightly,
}

/// How a step ended.
#[derive(Debug)]
enum Outcome {
    Passed,
    Failed { reason: String, printed: Tail },
    Skipped(String),
}

/// Runs the steps of this depth and whether none failed.
pub(crate) fn run(depth: Depth) -> bool {
    let root = root();
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
        if let Outcome::Failed { reason, .. } = &outcome {
            eprintln!("failed: {reason}");
        }
        summary.push((step.name, outcome, started.elapsed()));
    }
    print_summary(&summary);
    !summary.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed { .. }))
}

fn run_all(root: &Path, commands: &[Vec<String>]) -> Outcome {
    for words in commands {
        // Flags of the compiler that go through the environment are parted by this character.
        let line = words.join(" ").replace('\u{1f}', " ");
        println!("$ {line}");
        let (started, mut printed) = (Instant::now(), Tail::default());
        let reason = match tail::run(root, words, &mut printed) {
            Ok(status) if status.success() => {
                println!("({} s)", started.elapsed().as_secs());
                continue;
            }
            Ok(status) => format!("`{line}`: {status}"),
            Err(error) => format!("cannot run `{line}`: {error}"),
        };
        return Outcome::Failed { reason, printed };
    }
    Outcome::Passed
}

fn print_summary(summary: &[(&str, Outcome, Duration)]) {
    println!("\n== summary");
    for (name, outcome, spent) in summary {
        let result = match outcome {
            Outcome::Passed => "ok".to_owned(),
            Outcome::Failed { reason, .. } => format!("FAILED: {reason}"),
            Outcome::Skipped(reason) => format!("skipped: {reason}"),
        };
        println!("{:>6}.{} s  {name:<14} {result}", spent.as_secs(), spent.subsec_millis() / 100);
    }
    let total: Duration = summary.iter().map(|(_, _, spent)| *spent).sum();
    println!("{:>6}.{} s  in all", total.as_secs(), total.subsec_millis() / 100);
    for (name, outcome, _) in summary {
        if let Outcome::Failed { printed, .. } = outcome {
            println!("\n== the last lines of {name}\n{printed}");
        }
    }
}

#[cfg(test)]
mod tests;
