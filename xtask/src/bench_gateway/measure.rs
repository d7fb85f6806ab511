//! Runs the clients against a gateway and takes what they print.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Place;
use super::process::{Running, end_of};

use crate::against::Figure;

/// Events of a stream.
pub(super) const EVENTS: f64 = 53.0;
/// Microseconds between events that arrive one by one.
const GAP_US: u64 = 3_000;

/// One way in which clients call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    is_stream: bool,
    gap_us: u64,
    connections: usize,
    window_ms: u64,
}

pub(super) const JSON_ALONE: Case = json("JSON, c=1", 1, 1_000);
pub(super) const JSON: Case = json("JSON, c=16", 16, 1_500);
pub(super) const AT_ONCE: Case = stream("stream at once, c=16", 0, 16, 1_500);
pub(super) const PACED_ALONE: Case = stream("stream of single events, c=1", GAP_US, 1, 2_000);
pub(super) const PACED: Case = stream("stream of single events, c=16", GAP_US, 16, 2_100);

/// Every way, in the order in which they are measured.
pub(super) const CASES: [Case; 5] = [JSON_ALONE, JSON, AT_ONCE, PACED_ALONE, PACED];

const fn json(name: &'static str, connections: usize, window_ms: u64) -> Case {
    Case { name, is_stream: false, gap_us: 0, connections, window_ms }
}

const fn stream(name: &'static str, gap_us: u64, connections: usize, window_ms: u64) -> Case {
    Case { name, is_stream: true, gap_us, connections, window_ms }
}

/// The results of one window of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct One {
    /// Microseconds of processor time an answer.
    pub(super) cpu_us: f64,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) first_p50_ms: f64,
    /// Reads of the client that a body took.
    pub(super) reads: f64,
}

/// The results of all rounds.
#[derive(Debug, Default)]
pub(super) struct Taken {
    rounds: BTreeMap<&'static str, Vec<One>>,
    /// The problems, each one once.
    pub(super) troubles: Vec<String>,
}

impl Taken {
    pub(super) fn add(&mut self, case: &'static str, result: Option<Result<One, String>>) {
        match result {
            Some(Ok(one)) => self.rounds.entry(case).or_default().push(one),
            Some(Err(why)) => self.note(format!("{case}: {why}")),
            None => {}
        }
    }

    /// Notes a problem.
    pub(super) fn note(&mut self, trouble: String) {
        if !self.troubles.contains(&trouble) && self.troubles.len() < 5 {
            self.troubles.push(trouble);
        }
    }

    /// The median over the rounds.
    pub(super) fn median(&self, case: Case, what: impl Fn(&One) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.rounds.get(case.name)?.iter().map(what).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    /// The medians of each way, of what must not become more: processor time and waiting.
    pub(super) fn figures(&self, gateway: &str) -> Vec<Figure> {
        let mut figures = Vec::new();
        for case in CASES {
            let (cpu_us, p50_ms) =
                (self.median(case, |one| one.cpu_us), self.median(case, |one| one.p50_ms));
            let both = [("CPU", cpu_us, "us"), ("p50", p50_ms, "ms")];
            figures.extend(both.into_iter().filter_map(|(what, value, unit)| {
                let name = format!("{gateway}: {}, {what}", case.name);
                Some(Figure { name, value: value?, unit })
            }));
        }
        figures
    }
}

/// Memory in MiB.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Before the connections were opened.
    pub(super) start: Option<f64>,
    /// By number of connections: idle, and with a slow stream on each.
    pub(super) at: BTreeMap<usize, (Option<f64>, Option<f64>)>,
    /// The most that a process held at its end.
    pub(super) after: Option<f64>,
    /// The problems.
    pub(super) troubles: Vec<String>,
}

/// Some calls, so that what is built at the first call is built.
///
/// # Errors
/// Where none of them is answered as the upstream would.
pub(super) fn first_calls(place: &Place, running: Running) -> Result<Running, String> {
    // The first call of a heavy one takes seconds.
    let window_ms = if running.launch.is_heavy { 6_000 } else { 600 };
    let warm = Case { connections: 4, window_ms, ..JSON_ALONE };
    match one(place, &running, warm, 1) {
        Some(Err(why)) => Err(why),
        _ => Ok(running),
    }
}

/// One window; nothing where the gateway is not asked for that.
pub(super) fn one(
    place: &Place,
    running: &Running,
    case: Case,
    shorter: u64,
) -> Option<Result<One, String>> {
    if case.is_stream && running.launch.no_streams.is_some() {
        return None;
    }
    // A short window would have one or two of them.
    let is_sparse = running.launch.is_heavy || (case.gap_us > 0 && case.connections == 1);
    let mut words = words_of(place, running, "load", case.connections);
    for (name, value) in [
        ("--kind", if case.is_stream { "stream".to_owned() } else { "json".to_owned() }),
        ("--gap-us", case.gap_us.to_string()),
        ("--window-ms", (case.window_ms / if is_sparse { 1 } else { shorter }).to_string()),
        ("--warmup-ms", if running.launch.is_heavy { "400" } else { "200" }.to_owned()),
    ] {
        words.extend([name.to_owned(), value]);
    }
    Some(end_of(place, &words).and_then(|text| read(&text, case)))
}

fn read(text: &str, case: Case) -> Result<One, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|_| format!("`{text}` is not a result"))?;
    let number = |name: &str| value.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let (ended, seconds) = (number("answers"), number("seconds"));
    if number("failed") > 0.0 || ended == 0.0 {
        let why = value.get("failure").and_then(Value::as_str).unwrap_or("no call was answered");
        return Err(format!("{} calls failed: {why}", number("failed")));
    }
    // A stream is long compared with the window: the outcome of each counts.
    let answers = if case.is_stream { number("bytes") / number("size") } else { ended };
    if number("served") * 1.2 + 32.0 < ended {
        return Err(format!("{ended} answers, but {} came from the upstream", number("served")));
    }
    Ok(One {
        cpu_us: number("cpu_us") / answers,
        per_second: answers / seconds,
        p50_ms: number("whole_p50_ns") / 1e6,
        p99_ms: number("whole_p99_ns") / 1e6,
        first_p50_ms: number("first_p50_ns") / 1e6,
        reads: number("reads") / answers,
    })
}

/// Memory at 64 and at 1,000 connections.
pub(super) fn memory(place: &Place, running: &Running, is_quick: bool) -> Memory {
    let mut memory = Memory::default();
    if running.launch.program.is_none() {
        return memory;
    }
    for connections in [64, 1_000] {
        let is_much = running.launch.is_heavy && connections > 64;
        if is_much && is_quick {
            continue;
        }
        let mut words = words_of(place, running, "hold", connections);
        if is_much || running.launch.no_streams.is_some() {
            words.push("--no-streams".to_owned());
        }
        let value = end_of(place, &words).and_then(|text| {
            serde_json::from_str::<Value>(&text).map_err(|_| format!("`{text}` is not a result"))
        });
        match value {
            Ok(value) => memory.take(connections, &value),
            Err(why) => memory.troubles.push(format!("{connections} connections: {why}")),
        }
    }
    memory
}

impl Memory {
    /// Notes the memory that a process holds at its end.
    pub(super) fn note_end(&mut self, mib: Option<f64>) {
        self.after = [self.after, mib].into_iter().flatten().reduce(f64::max);
    }

    fn take(&mut self, connections: usize, value: &Value) {
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        let mib = |name: &str| number(name).map(|kib| kib / 1024.0);
        self.start = self.start.or(mib("before_kib"));
        self.at.insert(connections, (mib("idle_kib"), mib("streaming_kib")));
        if let Some(why) = value.get("failure").and_then(Value::as_str) {
            let opened = number("opened").unwrap_or(0.0);
            let streaming = number("streaming").unwrap_or(0.0);
            self.troubles.push(format!(
                "{connections} connections: {opened} opened, {streaming} streams began: {why}"
            ));
        }
    }
}

fn words_of(place: &Place, running: &Running, command: &str, connections: usize) -> Vec<String> {
    let mut words = vec![command.to_owned()];
    for (name, value) in [
        ("--target", running.address.to_string()),
        ("--upstream", place.upstream.to_string()),
        ("--process", running.id.to_string()),
        ("--connections", connections.to_string()),
    ] {
        words.extend([name.to_owned(), value]);
    }
    if let Some(path) = running.launch.path {
        words.extend(["--path".to_owned(), path.to_owned()]);
    }
    for header in &running.launch.headers {
        words.extend(["--header".to_owned(), header.clone()]);
    }
    words
}

#[cfg(test)]
mod tests;
