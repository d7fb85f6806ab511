//! `cargo xtask bench --against REV`: the benchmarks of the core, of replay, of the ledger and of the agent loop, of an earlier
//! revision and of this one, in turns.
//!
//! Each revision is measured by the benchmarks that it has. Their tables are read here, because an earlier one prints nothing
//! else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::against::{DIRECTORY, Figure, Figures, Part, check_out};
use crate::bench_gateway::machine;

use super::{OF_AGENT, OF_CORE, build, build_agent, has_valgrind, per_step};

/// How often each revision is measured. The best round counts.
const ROUNDS: usize = 3;

/// The same for a program that takes a minute, and has a median over rounds itself.
const ROUNDS_OF_LONG: usize = 2;

/// How a line names a figure, its value and its unit.
type ReadLine = fn(&str) -> Option<(String, f64, &'static str)>;

/// A program that measures.
#[derive(Debug)]
struct Benchmark {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    rounds: usize,
    read: ReadLine,
}

/// Every benchmark, in the order of the table.
const BENCHMARKS: [Benchmark; 8] = [
    of("ratios", &[], at_the_end),
    of("ledger", &[], at_the_end),
    // Without its peer, which takes a minute more. Early revisions do not know that word.
    Benchmark { rounds: ROUNDS_OF_LONG, ..of(LOOP, &["ours"], in_columns) },
    of("agent_bytes", &[], at_the_end),
    replay("replay, 1 policy, 1 thread", &["one", "1"]),
    replay("replay, 1 policy, 2 threads", &["one", "2"]),
    replay("replay, 100 policies, 1 thread", &["hundred", "1"]),
    replay("replay, 100 policies, 2 threads", &["hundred", "2"]),
];

const fn of(
    program: &'static str,
    arguments: &'static [&'static str],
    read: ReadLine,
) -> Benchmark {
    Benchmark { name: program, program, arguments, rounds: ROUNDS, read }
}

const fn replay(name: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark { name, ..of("replay", arguments, at_the_beginning) }
}

/// One of both revisions.
#[derive(Debug)]
struct Side {
    /// Where its programs are.
    programs: PathBuf,
    figures: Figures,
    /// Programs that failed. They are not started again.
    failed: Vec<&'static str>,
}

/// The program that measures the agent loop. It is built apart.
const LOOP: &str = "agent";

/// The program that counts the instructions of late steps.
const COUNTED: &str = "flat";

/// Measures the benchmarks whose programs are in `only`; all if it is empty.
pub(super) fn run(root: &Path, revision: &str, only: &[&str]) -> Result<(), String> {
    check_names(only)?;
    let is_asked = |program: &str| only.is_empty() || only.contains(&program);
    let source = check_out(root, revision)?;
    let build =
        |source: &Path, name| Side::build(source, &root.join(DIRECTORY).join(name), is_asked(LOOP));
    let mut before = build(&source, "before").map_err(|why| format!("`{revision}`: {why}"))?;
    let mut after = build(root, "after")?;
    // Both read the same recorded runs, which this revision writes.
    let directory = root.join("benches/peers");
    if is_asked("replay") {
        output(&after.programs, "replay", &["prepare"], &directory)?;
    }
    println!("\n{}\n", machine());
    let mut whole = Part::default();
    let begin = Instant::now();
    for benchmark in BENCHMARKS.iter().filter(|benchmark| is_asked(benchmark.program)) {
        for round in 0..benchmark.rounds {
            eprintln!("{} s: {}, round {}", begin.elapsed().as_secs(), benchmark.name, round + 1);
            let mut turns = [&mut before, &mut after];
            if round % 2 == 1 {
                turns.reverse();
            }
            for side in turns {
                side.measure(benchmark, &directory);
            }
        }
        whole.count(end_of_part(&mut before, &mut after));
    }
    if is_asked(COUNTED) && !has_valgrind() {
        println!("skipped: valgrind is not installed, so instructions a step are not counted");
    } else if is_asked(COUNTED) {
        eprintln!("{} s: instructions", begin.elapsed().as_secs());
        before.count(&directory);
        after.count(&directory);
        whole.count(end_of_part(&mut before, &mut after));
    }
    print!("{}", whole.verdict());
    for name in whole.slower() {
        println!("  {name}");
    }
    Ok(())
}

/// Checks the names of benchmarks on the command line.
fn check_names(only: &[&str]) -> Result<(), String> {
    let mut known: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.program).collect();
    known.push(COUNTED);
    known.dedup();
    match only.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(format!("no benchmark `{name}`; there are {}", known.join(", "))),
        None => Ok(()),
    }
}

/// Prints the table of a benchmark: an interrupted command has printed those that ended.
fn end_of_part(before: &mut Side, after: &mut Side) -> Part {
    let [before, after] = [before, after].map(|side| std::mem::take(&mut side.figures));
    let part = Part::of(&before, &after);
    println!("{}", part.rows);
    part
}

impl Side {
    /// Builds the benchmarks of a revision from its sources.
    fn build(source: &Path, target: &Path, has_loop: bool) -> Result<Self, String> {
        let (directory, programs) = (source.join("benches/peers"), target.join("release"));
        if !directory.is_dir() {
            return Err("it has no `benches/peers`".to_owned());
        }
        // Programs of another revision that this one may not have.
        for program in BENCHMARKS.iter().map(|benchmark| benchmark.program).chain([COUNTED]) {
            let _ = fs::remove_file(programs.join(program));
        }
        build(&directory, target, &[])?;
        if has_loop && build_agent(&directory, target).is_err() {
            println!("skipped: the agent loop of {} does not build", source.display());
        }
        Ok(Self { programs, figures: Figures::default(), failed: Vec::new() })
    }

    fn measure(&mut self, benchmark: &Benchmark, directory: &Path) {
        let Benchmark { name, program, arguments, rounds: _, read } = *benchmark;
        if self.failed.contains(&name) {
            return;
        }
        match output(&self.programs, program, arguments, directory) {
            Ok(text) => {
                for figure in text.lines().filter_map(|line| figure(name, read(line)?)) {
                    self.figures.add(figure);
                }
            }
            Err(why) => {
                println!("skipped: {why}");
                self.failed.push(name);
            }
        }
    }

    /// Counts the instructions of late steps: once, because they are always the same.
    fn count(&mut self, directory: &Path) {
        let flat = self.programs.join(COUNTED);
        if !flat.exists() {
            return;
        }
        let ([_, of_core], [_, of_agent]) = (OF_CORE, OF_AGENT);
        let rows: [(&str, (u64, u64), &[&str]); 2] =
            [("the core", of_core, &[]), ("the agent loop", of_agent, &["agent"])];
        for (what, window, words) in rows {
            match per_step(directory, &flat, window, words) {
                Ok(count) => self.figures.add(Figure {
                    name: format!("a late step of {what}"),
                    value: count as f64,
                    unit: "instructions",
                }),
                Err(why) => println!("skipped: {}: {why}", flat.display()),
            }
        }
    }
}

/// The figure of a benchmark that a line names.
fn figure(benchmark: &str, (name, value, unit): (String, f64, &'static str)) -> Option<Figure> {
    let name = if name.is_empty() { benchmark.to_owned() } else { format!("{benchmark}: {name}") };
    value.is_finite().then_some(Figure { name, value, unit })
}

/// Reads a line with a figure and its unit at the end. The line of a peer ends with a ratio.
fn at_the_end(line: &str) -> Option<(String, f64, &'static str)> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let last = words.pop()?;
    let unit = ["ns", "GB/s", "bytes"].into_iter().find(|unit| *unit == last)?;
    let value = words.pop()?.parse().ok()?;
    Some((words.join(" "), value, unit))
}

/// Reads a line with the best and the median microseconds, which have digits after the point. The line of a peer has a ratio.
fn in_columns(line: &str) -> Option<(String, f64, &'static str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &&str| word.parse::<f64>().ok().filter(|_| word.contains('.'));
    let place = words.windows(2).position(|pair| pair.iter().all(|word| number(word).is_some()))?;
    let (name, figures) = words.split_at_checked(place)?;
    let is_of_peer = figures.contains(&"ratio");
    let median = figures.get(1).and_then(number)?;
    (!is_of_peer).then(|| (name.join(" "), median, "us"))
}

/// Reads a line that begins with seconds.
fn at_the_beginning(line: &str) -> Option<(String, f64, &'static str)> {
    let seconds = line.split_whitespace().next()?.parse().ok()?;
    Some((String::new(), seconds, "s"))
}

/// Runs a program to its end. Returns what it printed.
fn output(
    programs: &Path,
    program: &str,
    arguments: &[&str],
    directory: &Path,
) -> Result<String, String> {
    let path = programs.join(program);
    let failed = |why: &str| format!("`{}`: {why}", path.display());
    let output = Command::new(&path)
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(said.lines().next().unwrap_or("it failed")))
}

#[cfg(test)]
mod tests;
