//! `cargo xtask bench budgets`: shows that budgets hold over processes, gateways and kills, and prints what they cost.
//!
//! Each row starts everything that it needs on loopback, and ends it. A row fails the command if a budget is passed, a call is
//! admitted after a kill, or the books differ from what was served. Times are printed, and fail nothing.

mod burst;
mod contract;
mod cost;
mod gateways;
mod http;
mod kill;
mod peers;
mod place;
mod processes;
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement without its server has no meaning"
)]
#[path = "../../tests/support/redis.rs"]
mod redis;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench_gateway;
use crate::page;
use place::Place;
use redis::RedisServer;

/// The page that has the table.
const PAGE: &str = "docs/budgets-benchmark.md";
/// The parts of the table, in its order.
const PARTS: [&str; 7] = ["contract", "processes", "gateways", "kill", "cost", "burst", "peers"];

/// The options of the command line.
#[derive(Debug, Default)]
struct Options {
    is_quick: bool,
    is_written: bool,
    /// An `endstop` that was built before.
    binary: Option<PathBuf>,
    only: Vec<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter().peekable();
        while let Some(&word) = words.next() {
            match word {
                "--quick" => options.is_quick = true,
                "--write" => options.is_written = true,
                "--binary" => {
                    let path = words.next().ok_or("--binary needs the path of an `endstop`")?;
                    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
                    options.binary = Some(path);
                }
                "--only" => {
                    while let Some(&part) = words.next_if(|part| !part.starts_with("--")) {
                        options.only.push(part.to_owned());
                    }
                }
                other => {
                    return Err(format!(
                        "`{other}` is unknown; there are --quick, --write, --binary FILE and --only PART.."
                    ));
                }
            }
        }
        if let Some(part) = options.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
            return Err(format!("no part `{part}`; there are {}", PARTS.join(", ")));
        }
        if options.is_written && (options.is_quick || !options.only.is_empty()) {
            return Err("--write needs the whole table, without --quick and --only".to_owned());
        }
        Ok(options)
    }

    fn has(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    what: &'static str,
    tried: String,
    found: String,
}

/// The rows of a part, and its failures.
#[derive(Debug, Default)]
struct Found {
    rows: Vec<Row>,
    /// The failures, each as a sentence.
    broken: Vec<String>,
}

impl Found {
    fn row(row: Row) -> Self {
        Self { rows: vec![row], broken: Vec::new() }
    }

    fn broken(what: &str, details: &str) -> Self {
        println!("{details}");
        Self { rows: Vec::new(), broken: vec![what.to_owned()] }
    }

    fn skipped(what: &'static str, tried: &str, why: &str) -> Self {
        println!("skipped: {what}: {why}");
        Self::row(Row { what, tried: tried.to_owned(), found: format!("skipped: {why}") })
    }

    fn must(&mut self, holds: bool, otherwise: &str) {
        if !holds {
            self.broken.push(otherwise.to_owned());
        }
    }
}

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    let (endstop, example) = built(root, options.binary.as_ref())?;
    let place = Place::new(endstop)?;
    let begun = Instant::now();
    let mut all = Found::default();
    for part in PARTS.into_iter().filter(|part| options.has(part)) {
        println!("{part} ..");
        let began = Instant::now();
        let found = measure(root, &place, &example, part, options.is_quick)?;
        for row in &found.rows {
            println!("  {}: {}\n    {}", row.what, row.tried, row.found);
        }
        println!("  {} s", began.elapsed().as_secs());
        all.rows.extend(found.rows);
        all.broken.extend(found.broken);
    }
    println!("measured in {} s\n", begun.elapsed().as_secs());
    let text = table(&all.rows);
    println!("{text}");
    if !all.broken.is_empty() {
        return Err(all.broken.join("\nerror: "));
    }
    if options.is_written {
        page::write(root, PAGE, "bench budgets", &text)?;
    }
    Ok(())
}

fn measure(
    root: &Path,
    place: &Place,
    example: &Path,
    part: &str,
    is_quick: bool,
) -> Result<Found, String> {
    match part {
        "contract" => return contract::measure(root, is_quick),
        "processes" => return processes::measure(place),
        "cost" => return cost::measure(example, &place.directory, is_quick),
        "peers" => return peers::measure(root, place, is_quick),
        _ => {}
    }
    let Some(mut server) = RedisServer::start() else {
        let why = "neither `redis-server` nor `valkey-server` is installed";
        return Ok(match part {
            "gateways" => Found::skipped("many gateways", "", why),
            "kill" => Found::skipped("kill", "", why),
            _ => Found::skipped("burst", "", why),
        });
    };
    match part {
        "gateways" => gateways::measure(place, &mut server, is_quick),
        "kill" => kill::measure(place, &server, is_quick),
        _ => burst::measure(place, &server),
    }
}

/// The command `endstop` and the program that measures the stores, as they are released.
fn built(root: &Path, before: Option<&PathBuf>) -> Result<(PathBuf, PathBuf), String> {
    let examples = |directory: &Path| directory.join("examples/budget_cost");
    if let Some(path) = before {
        let directory = path.parent().unwrap_or(path);
        return Ok((path.clone(), examples(directory)));
    }
    let words = ["build", "--release", "-p", "endstop-cli", "-p", "endstop-runtime"];
    let status = Command::new("cargo")
        .args(words)
        .args(["--bin", "endstop", "--example", "budget_cost", "--target-dir"])
        .arg(root.join("target"))
        .current_dir(root)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("`endstop` or its example does not build".to_owned());
    }
    let directory = root.join("target/release");
    Ok((directory.join("endstop"), examples(&directory)))
}

/// The time below which this part of them is, in thousandths. They are sorted.
fn quantile(times: &[Duration], part: usize) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get(last * part / 1_000).copied().unwrap_or_default()
}

fn table(rows: &[Row]) -> String {
    let machine = bench_gateway::machine();
    let mut text = format!("{}\n| | tried | found |\n|---|---|---|\n", machine.trim());
    text = text.replacen('\n', "\n\n", 1);
    for row in rows {
        text.push_str(&format!("| {} | {} | {} |\n", row.what, row.tried, row.found));
    }
    text
}

#[cfg(test)]
mod tests;
