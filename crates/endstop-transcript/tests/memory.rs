//! The memory of readers does not grow with the file. Each example in `tests/data/` is repeated inside its
//! file, lines as lines, elements as elements and runs under keys as such, to a small and to a large size that
//! no one holds: the peak of the large one is that of the small one. `ENDSTOP_MEMORY_MIB` sets the large size,
//! in MiB.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of this test fail as the test does"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use endstop_core::{Event, EventKind};
use endstop_price::PriceTable;
use endstop_transcript::{
    FORMATS, Format, Part, RunFooter, RunHeader, RunSink, Transcript, Warning,
};
use endstop_transcript::{WarningKind, walk};
use peak_alloc::PeakAlloc;
use serde_json::Value;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The small size, in bytes.
const SMALL: u64 = 1 << 20;

/// The default large size, in MiB.
const LARGE_MIB: u64 = 4;

/// The bytes by which the peak of the large size may exceed that of the small one: the memory of a
/// run's ids, at some bytes a record, and the steps of allocation. The file's growth is many times this.
const SLACK: usize = 1 << 20;

/// The same for each MiB of the file, in bytes: if a file has runs in any order, about 30 for each run.
/// The examples' runs are of a kilobyte or two.
const SLACK_PER_MIB: usize = 48 << 10;

/// The longest document that is kept in memory, in MiB.
const LONGEST_CALL_MIB: u64 = 256;

/// Keys whose texts name a thing of one repetition.
const IDS: [&str; 16] = [
    "id",
    "uuid",
    "parentUuid",
    "requestId",
    "message_id",
    "tool_use_id",
    "tool_call_id",
    "source_call_id",
    "call_id",
    "callId",
    "traceId",
    "spanId",
    "parentSpanId",
    "request_id",
    "session_id",
    "litellm_call_id",
];

/// Counts, and keeps nothing.
#[derive(Default)]
struct Count {
    runs: u64,
    steps: u64,
    warnings: BTreeMap<WarningKind, String>,
}

impl RunSink for Count {
    fn begin(&mut self, _: &RunHeader<'_>) {
        self.runs += 1;
    }
    fn event(&mut self, event: &Event<'_>) {
        self.steps += u64::from(matches!(event.kind, EventKind::StepBegin));
    }
    fn end(&mut self, _: &RunFooter<'_>) {}
    fn warn(&mut self, warning: Warning) {
        self.warnings.insert(warning.kind, warning.to_string());
    }
}

/// A file as a beginning, a piece that is repeated, and an end.
struct Pattern {
    before: String,
    /// Cut where the number of the repetition is put in.
    piece: Vec<String>,
    between: &'static str,
    after: String,
}

impl Pattern {
    fn of(name: &str, text: &str) -> Option<Self> {
        if name.ends_with(".jsonl") || name.ends_with(".md") {
            let piece = cut_at_ids(text.trim_end());
            let (before, after) = (String::new(), "\n".to_owned());
            return Some(Self { before, piece, between: "\n", after });
        }
        let document: Value = serde_json::from_str(text).ok()?;
        let list_of = |elements: &[Value]| {
            let texts: Vec<String> = elements.iter().map(Value::to_string).collect();
            cut_at_ids(&texts.join(",\n"))
        };
        let (before, piece, after) = match document {
            Value::Array(elements) => ("[".to_owned(), list_of(&elements), "]".to_owned()),
            Value::Object(keys) if keys.values().all(Value::is_object) => {
                ("{".to_owned(), cut_at_keys(&keys), "}".to_owned())
            }
            Value::Object(mut keys) => {
                let longest = keys
                    .iter()
                    .filter_map(|(key, value)| Some((value.as_array()?.len(), key.clone())))
                    .max();
                let list = longest?.1;
                let elements = keys.remove(&list)?;
                // The list comes first: a name behind it has to be found without holding it.
                let rest = Value::Object(keys).to_string();
                let rest = rest.strip_prefix('{').unwrap_or_default();
                let separator = if rest == "}" { "" } else { "," };
                let before = format!("{{\"{list}\":[");
                (before, list_of(elements.as_array()?), format!("]{separator}{rest}"))
            }
            _ => return None,
        };
        Some(Self { before, piece, between: ",\n", after })
    }

    /// The piece of this repetition.
    fn piece(&self, number: u64) -> String {
        self.piece.join(&format!("{number:08}-"))
    }

    fn repetitions(&self, size: u64) -> u64 {
        (size / (self.piece(0).len() as u64 + self.between.len() as u64)).max(1)
    }
}

/// The keys and values of an object, cut behind the opening quotes of the keys.
fn cut_at_keys(keys: &serde_json::Map<String, Value>) -> Vec<String> {
    let mut pieces = vec!["\"".to_owned()];
    for (key, value) in keys {
        if pieces.len() > 1 {
            pieces.last_mut().unwrap().push_str(",\n\"");
        }
        pieces.push(format!("{key}\":{value}"));
    }
    pieces
}

/// Cuts a text behind the opening quotes of the texts under the keys of [`IDS`].
fn cut_at_ids(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = text;
    while let Some(quote) = rest.find("\":") {
        let (before, after) = rest.split_at(quote + 2);
        let key = before[..quote].rsplit('"').next().unwrap_or_default();
        let after_space = after.trim_start_matches(' ');
        let mut taken = before.to_owned();
        rest = after;
        let is_escaped = before[..quote].ends_with('\\');
        if IDS.contains(&key) && after_space.starts_with('"') && !is_escaped {
            taken.push('"');
            rest = &after_space[1..];
        }
        let is_cut = taken.ends_with('"');
        pieces.last_mut().unwrap().push_str(&taken);
        if is_cut {
            pieces.push(String::new());
        }
    }
    pieces.last_mut().unwrap().push_str(rest);
    pieces
}

/// Returns the bytes of a pattern.
struct Repeat {
    pattern: Arc<Pattern>,
    repetitions: u64,
    next: u64,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Repeat {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.at == self.piece.len() && !self.advance() {
                break;
            }
            let read = (&self.piece[self.at..]).read(&mut buffer[filled..])?;
            self.at += read;
            filled += read;
        }
        Ok(filled)
    }
}

impl Repeat {
    /// Goes to the next part of the file. False behind the last.
    fn advance(&mut self) -> bool {
        let pattern = &self.pattern;
        let piece = match self.next {
            0 => pattern.before.clone(),
            number if number > self.repetitions + 1 => return false,
            number if number > self.repetitions => pattern.after.clone(),
            1 => pattern.piece(1),
            number => format!("{}{}", pattern.between, pattern.piece(number)),
        };
        (self.piece, self.next, self.at) = (piece.into_bytes(), self.next + 1, 0);
        true
    }
}

/// The cost of reading.
struct Reading {
    peak: usize,
    count: Count,
    seconds: f64,
}

fn read(format: &'static Format, name: &str, pattern: &Arc<Pattern>, size: u64) -> Reading {
    let repetitions = pattern.repetitions(size);
    let pattern = Arc::clone(pattern);
    let open = move || -> io::Result<Box<dyn Read>> {
        let pattern = Arc::clone(&pattern);
        Ok(Box::new(Repeat { pattern, repetitions, next: 0, piece: Vec::new(), at: 0 }))
    };
    let main = Part::stream(name, open);
    let transcript = Transcript { format, main, children: Vec::new() };
    let mut count = Count::default();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let began = Instant::now();
    transcript.read(PriceTable::embedded(), &mut count);
    let seconds = began.elapsed().as_secs_f64();
    Reading { peak: MEMORY.peak_usage().saturating_sub(before), count, seconds }
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let asked = std::env::var("ENDSTOP_MEMORY_MIB").ok().and_then(|text| text.parse().ok());
    let large_mib = asked.unwrap_or(LARGE_MIB).max(2);
    let slack = SLACK + usize::try_from(large_mib).unwrap() * SLACK_PER_MIB;
    // The table is read once, before anything is measured.
    let _ = PriceTable::embedded();
    for format in FORMATS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format.id());
        for transcript in walk(&[directory]).unwrap().transcripts {
            let path = transcript.main.path().unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let pattern = fs::read_to_string(path).ok().and_then(|text| Pattern::of(name, &text));
            let Some(pattern) = pattern.map(Arc::new) else {
                println!("skipped: {}/{name} is no text that could be repeated", format.id());
                continue;
            };
            let small = read(format, name, &pattern, SMALL);
            if small.count.runs == 0 && !transcript.children.is_empty() {
                println!("skipped: {}/{name} has its runs in other files", format.id());
                continue;
            }
            let large = read(format, name, &pattern, large_mib << 20);
            println!(
                "{:<16} {name:<28} peak {:>6} KiB at 1 MiB, {:>6} KiB at {large_mib} MiB; {:>4.0} MB/s",
                format.id(),
                small.peak >> 10,
                large.peak >> 10,
                (large_mib << 20) as f64 / 1e6 / large.seconds,
            );
            let what = format!("{}/{name}", format.id());
            let kinds = |reading: &Reading| reading.count.warnings.clone().into_keys();
            assert!(small.count.runs > 0 && small.count.steps > 0, "{what}");
            if format.id() == "openhands-calls" {
                // A file is one call, which is kept in memory; the length that is read of it has a limit.
                let of_length = (large_mib >= LONGEST_CALL_MIB).then_some(WarningKind::TooLarge);
                let expected: BTreeSet<_> = kinds(&small).chain(of_length).collect();
                assert!(
                    expected.into_iter().eq(kinds(&large)),
                    "{what}: {:?}",
                    large.count.warnings
                );
                continue;
            }
            assert!(kinds(&small).eq(kinds(&large)), "{what}: {:?}", large.count.warnings);
            let grown = large.count.steps / small.count.steps.max(1);
            assert!(grown + 1 >= large_mib, "{what}: {grown} times the steps");
            assert!(large.peak <= small.peak + slack, "{what}: {} > {}", large.peak, small.peak);
        }
    }
}
