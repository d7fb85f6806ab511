//! Each channel, installed in a clean environment from packages that are served on loopback, and timed up to the first
//! thing that Endstop did.

mod channels;
mod shelf;

use std::path::Path;
use std::time::Duration;

use super::sandbox::Sandbox;
use super::{Effort, Release};
use channels::Trial;
use shelf::Shelf;

/// A person who installs waits no longer than this.
const GOAL: Duration = Duration::from_secs(30);

/// How a channel did.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// From the empty environment to the end of the first command.
    Ran(Duration),
    /// Not tried, for this reason.
    Skipped(String),
    Failed(String),
}

/// Tries the channels, and prints a table.
///
/// # Errors
/// If a channel does not install, run or leave.
pub(super) fn run(root: &Path, release: &Release, channels: &[&str]) -> Result<(), String> {
    let shelf = Shelf::open(release)?;
    let first = First::of(release.effort);
    println!("\nfrom nothing to the end of `endstop {}`:", first.words.join(" "));
    let mut failed = 0_u32;
    for trial in channels::TRIALS.iter().filter(|trial| channels.contains(&trial.channel)) {
        let outcome = one(root, release, &shelf, &first, trial);
        let outcome = judged(outcome, release.effort, trial.is_binary);
        if matches!(outcome, Outcome::Failed(_)) {
            failed = failed.saturating_add(1);
        }
        println!("{}", line(trial.name, &outcome));
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} channels do not work")) }
}

/// The first command that is run of a new installation, and its exit code.
#[derive(Debug)]
struct First {
    words: &'static [&'static str],
    code: i32,
}

impl First {
    /// The demo; of a binary without optimizations, which takes a minute for it, something short.
    const fn of(effort: Effort) -> Self {
        match effort {
            Effort::Release => Self { words: &["demo"], code: 0 },
            Effort::Trial => Self {
                words: &["agent", "--model", "scripted:loop", "--steps", "3", "go"],
                code: 124,
            },
        }
    }
}

fn one(root: &Path, release: &Release, shelf: &Shelf, first: &First, trial: &Trial) -> Outcome {
    let sandbox = match Sandbox::new(root, trial.name) {
        Ok(sandbox) => sandbox,
        Err(why) => return Outcome::Failed(why),
    };
    (trial.run)(&channels::Place { root, release, shelf, sandbox: &sandbox, first })
        .unwrap_or_else(Outcome::Failed)
}

/// A channel with a release binary that takes longer than the goal has failed. A binary without optimizations is slow
/// anyway, and a channel that compiles has no goal.
fn judged(outcome: Outcome, effort: Effort, is_binary: bool) -> Outcome {
    match outcome {
        Outcome::Ran(time) if is_binary && effort == Effort::Release && time > GOAL => {
            let goal = GOAL.as_secs();
            Outcome::Failed(format!("{:.1} s, more than {goal} s", time.as_secs_f64()))
        }
        other => other,
    }
}

fn line(name: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran(time) if *time > GOAL => {
            format!("  {name:<14} {:>5.1} s, more than {} s", time.as_secs_f64(), GOAL.as_secs())
        }
        Outcome::Ran(time) => format!("  {name:<14} {:>5.1} s", time.as_secs_f64()),
        Outcome::Skipped(why) => format!("  {name:<14} skipped: {why}"),
        Outcome::Failed(why) => format!("  {name:<14} FAILED: {why}"),
    }
}

#[cfg(test)]
mod tests;
