//! The results, as Markdown.

use std::fmt::Write;

use super::Measured;
use super::measure::{AT_ONCE, Case, EVENTS, JSON, JSON_ALONE, One, PACED, PACED_ALONE};

/// The machine, in a line.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores,{} load average {load}\n", model.replace(['\t', ':'], "") + ",")
}

/// All tables, and what was skipped or went wrong.
pub(super) fn all(all: &[Measured], skipped: &[String]) -> String {
    let mut text = [cost(all), latency(all), memory(all), remarks(all, skipped)].join("\n");
    text.push('\n');
    text
}

fn cost(all: &[Measured]) -> String {
    let ways: [(Case, f64); 3] = [(JSON, 1.0), (AT_ONCE, 1.0), (PACED, EVENTS)];
    let mut rows = vec![
        [
            "CPU, µs",
            "JSON request",
            "× nginx",
            "stream at once",
            "× nginx",
            "a chunk, one by one",
            "× nginx",
            "JSON requests/s, c=16",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for measured in all.iter().filter(|measured| measured.name != "direct") {
        let mut row = vec![measured.name.to_owned()];
        for (case, parts) in ways {
            let cost = cpu(measured, case, parts);
            let relay = named(all, "nginx").and_then(|nginx| cpu(nginx, case, parts));
            row.push(number(cost, 1));
            row.push(number(cost.zip(relay).map(|(cost, relay)| cost / relay), 2));
        }
        row.push(number(measured.taken.median(JSON, |one| one.per_second), 0));
        rows.push(row);
    }
    table(&rows)
}

fn latency(all: &[Measured]) -> String {
    type Column = (&'static str, Case, fn(&One) -> f64);
    let columns: [Column; 6] = [
        ("JSON c=1 p50", JSON_ALONE, |one| one.p50_ms),
        ("p99", JSON_ALONE, |one| one.p99_ms),
        ("JSON c=16 p50", JSON, |one| one.p50_ms),
        ("p99", JSON, |one| one.p99_ms),
        ("first byte of a stream c=1 p50", PACED_ALONE, |one| one.first_p50_ms),
        ("c=16 p50", PACED, |one| one.first_p50_ms),
    ];
    let mut header = vec!["added to direct, ms".to_owned()];
    header.extend(columns.iter().map(|(name, ..)| (*name).to_owned()));
    header.push("reads of a stream in one write".to_owned());
    let mut rows = vec![header];
    let direct = named(all, "direct");
    for measured in all {
        let is_direct = measured.name == "direct";
        let name = if is_direct { "direct (not added)" } else { measured.name };
        let mut row = vec![name.to_owned()];
        for (_, case, what) in columns {
            let base = direct.and_then(|direct| direct.taken.median(case, what));
            let taken = measured.taken.median(case, what);
            let added = taken.zip(base).map(|(taken, base)| taken - base);
            row.push(number(if is_direct { taken } else { added }, 3));
        }
        row.push(number(measured.taken.median(AT_ONCE, |one| one.reads), 1));
        rows.push(row);
    }
    table(&rows)
}

fn memory(all: &[Measured]) -> String {
    let header = [
        "memory, MiB",
        "at start",
        "64 idle",
        "64 streams",
        "1,000 idle",
        "1,000 streams",
        "after all",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for measured in all.iter().filter(|measured| measured.name != "direct") {
        let memory = &measured.memory;
        let at = |connections| memory.at.get(&connections).copied().unwrap_or_default();
        let ((few, few_streams), (many, many_streams)) = (at(64), at(1_000));
        let mut row = vec![measured.name.to_owned()];
        for value in [memory.start, few, few_streams, many, many_streams, memory.after] {
            row.push(number(value, 1));
        }
        rows.push(row);
    }
    table(&rows)
}

fn remarks(all: &[Measured], skipped: &[String]) -> String {
    let mut text = String::new();
    for line in skipped {
        let _ = writeln!(text, "- skipped: {line}");
    }
    for measured in all {
        if let Some(why) = measured.running.as_ref().and_then(|it| it.launch.no_streams) {
            let _ = writeln!(text, "- {}: no streams: {why}", measured.name);
        }
        for trouble in measured.taken.troubles.iter().chain(&measured.memory.troubles) {
            let _ = writeln!(text, "- {}: {trouble}", measured.name);
        }
    }
    text
}

pub(super) fn named<'a>(all: &'a [Measured], name: &str) -> Option<&'a Measured> {
    all.iter().find(|measured| measured.name == name)
}

/// Processor time of one of this many parts of a response.
pub(super) fn cpu(measured: &Measured, case: Case, parts: f64) -> Option<f64> {
    measured.taken.median(case, |one| one.cpu_us).map(|cost| cost / parts)
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

/// A table with columns as wide as what is in them.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let wide = |column: usize| rows.iter().map(|row| cell(row, column).chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| wide(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, width) in widths.iter().enumerate() {
            let _ = write!(text, "| {:<width$} ", cell(row, column));
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests;
