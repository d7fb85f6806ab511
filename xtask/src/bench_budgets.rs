//! `cargo xtask bench budgets`: shows that budgets hold over processes, gateways and kills, and prints what they cost.
//!
//! Each row starts everything that it needs on loopback, and ends it. A row fails the command if a budget is passed, a call is
//! admitted after a kill, or the books differ from what was served. Times are printed, and fail nothing. Programs that parts
//! need are built and looked for before the first part, and a part that fails does not end the others.

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
mod through;
mod tools;

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bench_gateway;
use crate::page;
use redis::RedisServer;
use tools::Tools;

/// The page that has the table.
const PAGE: &str = "docs/budgets-benchmark.md";
/// The name of its table there.
const TASK: &str = "bench budgets";
/// The parts of the table, in its order.
const PARTS: [&str; 7] = ["contract", "processes", "gateways", "kill", "cost", "burst", "peers"];

// The first cells of rows. The rows of a part replace those with the same ones.
const CONTRACT: &str = "contract of all stores";
const PROCESSES: &str = "many processes, one machine";
const GATEWAYS: &str = "many gateways";
const KILL: &str = "kill";
const THROUGH: &str = "a call through a gateway";
const THROUGH_RATE: &str = "calls/s through a gateway";
const COST: &str = "budgets of a call alone";
const COST_RATE: &str = "calls/s, budgets alone";
const BURST: &str = "burst";
const BURST_LITELLM: &str = "burst, LiteLLM";
const BURST_PYDANTIC: &str = "burst, Pydantic AI";
/// All of them, in the order of the table.
const NAMES: [&str; 11] = [
    CONTRACT,
    PROCESSES,
    GATEWAYS,
    KILL,
    THROUGH,
    THROUGH_RATE,
    COST,
    COST_RATE,
    BURST,
    BURST_LITELLM,
    BURST_PYDANTIC,
];

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
        if options.is_written && options.is_quick {
            return Err("--write needs the long form, without --quick".to_owned());
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
    /// One of [`NAMES`].
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
    /// Whether something of it was not measured.
    is_skipped: bool,
}

impl Found {
    fn row(row: Row) -> Self {
        Self { rows: vec![row], ..Self::default() }
    }

    fn broken(what: &str, details: &str) -> Self {
        println!("{details}");
        Self { broken: vec![what.to_owned()], ..Self::default() }
    }

    fn skipped(what: &'static str, tried: &str, why: &str) -> Self {
        println!("skipped: {what}: {why}");
        let row = Row { what, tried: tried.to_owned(), found: format!("skipped: {why}") };
        Self { rows: vec![row], is_skipped: true, ..Self::default() }
    }

    fn must(&mut self, holds: bool, otherwise: &str) {
        if !holds {
            self.broken.push(otherwise.to_owned());
        }
    }

    fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.broken.extend(other.broken);
        self.is_skipped |= other.is_skipped;
    }

    /// Why its rows may not replace those of the page, if they may not.
    fn unfit(&self) -> Option<&'static str> {
        match self {
            Self { broken, .. } if !broken.is_empty() => Some("it failed"),
            Self { is_skipped: true, .. } => Some("a row of it was skipped"),
            Self { rows, .. } if rows.is_empty() => Some("it found nothing"),
            _ => None,
        }
    }
}

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    let tools = Tools::prepare(root, &options)?;
    let begun = Instant::now();
    let (mut text, mut failures) = (String::new(), Vec::new());
    for part in PARTS.into_iter().filter(|part| options.has(part)) {
        println!("{part} ..");
        let (how, began) = (tools.how(part, &bench_gateway::machine()), Instant::now());
        let found = measure_on(root, &tools, part, options.is_quick);
        for row in &found.rows {
            println!("  {}: {}\n    {}", row.what, row.tried, row.found);
        }
        println!("  {} s", began.elapsed().as_secs());
        let table = table(&found.rows, &how);
        text.push_str(rows_of(&table, text.is_empty()));
        failures.extend(found.broken.iter().map(|why| format!("{part}: {why}")));
        // Each part on its own, so that nothing that comes later loses it.
        if options.is_written {
            let written = match found.unfit() {
                Some(why) => Err(format!("{part}: {why}, so the page keeps its rows")),
                None => page::merge(root, PAGE, TASK, &table, &NAMES),
            };
            failures.extend(written.err());
        }
    }
    println!("measured in {} s\n\n{text}", begun.elapsed().as_secs());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\nerror: ")) }
}

/// Measures a part. One that cannot be measured has failed, and the next one can be.
fn measure_on(root: &Path, tools: &Tools, part: &str, is_quick: bool) -> Found {
    // The server of the tests panics if it does not start.
    let part = AssertUnwindSafe(|| measure(root, tools, part, is_quick));
    let why = match panic::catch_unwind(part) {
        Ok(Ok(found)) => return found,
        Ok(Err(why)) => why,
        Err(_) => "it panicked, as is written above".to_owned(),
    };
    Found { broken: vec![why], ..Found::default() }
}

fn measure(root: &Path, tools: &Tools, part: &str, is_quick: bool) -> Result<Found, String> {
    let place = &tools.place;
    match part {
        "contract" => return contract::measure(root, is_quick),
        "processes" => return processes::measure(place),
        "cost" => return Ok(costs(tools, is_quick)),
        "peers" => return peers::measure(root, place, &tools.peers),
        _ => {}
    }
    let Some(mut server) = tools.has_server().then(RedisServer::start).flatten() else {
        return Ok(match part {
            "gateways" => Found::skipped(GATEWAYS, "", tools::NO_SERVER),
            "kill" => Found::skipped(KILL, "", tools::NO_SERVER),
            _ => Found::skipped(BURST, "", tools::NO_SERVER),
        });
    };
    match part {
        "gateways" => gateways::measure(place, &mut server, is_quick),
        "kill" => kill::measure(place, &server, is_quick),
        _ => burst::measure(place, &server),
    }
}

/// The cost of a whole call, and of its budgets alone. One that cannot be measured leaves the other.
fn costs(tools: &Tools, is_quick: bool) -> Found {
    let whole = through::measure(tools, is_quick);
    let budgets = cost::measure(tools, is_quick);
    let mut all = Found::default();
    for found in [whole, budgets] {
        match found {
            Ok(found) => all.extend(found),
            Err(why) => all.broken.push(why),
        }
    }
    all
}

/// The time below which this part of them is, in thousandths. They are sorted.
fn quantile(times: &[Duration], part: usize) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get(last * part / 1_000).copied().unwrap_or_default()
}

/// The table of rows that were measured in the same way.
fn table(rows: &[Row], how: &str) -> String {
    let mut text = "| | tried | found | measured on |\n|---|---|---|---|\n".to_owned();
    for Row { what, tried, found } in rows {
        text.push_str(&format!("| {what} | {tried} | {found} | {how} |\n"));
    }
    text
}

/// The rows of a table, with its head if it is the first one.
fn rows_of(table: &str, is_first: bool) -> &str {
    if is_first { table } else { table.splitn(3, '\n').nth(2).unwrap_or_default() }
}

#[cfg(test)]
mod tests;
