//! The readers that are fuzzed (`fuzz/checks`), with mutations of documents that they can read. The same inputs in each run;
//! `ENDSTOP_FUZZ_CASES` asks for more of them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests"
)]

#[path = "../../../fuzz/checks/agent_state.rs"]
mod agent_state;
#[path = "../../../fuzz/checks/expression.rs"]
mod expression;
#[path = "../../../fuzz/checks/policy_file.rs"]
mod policy_file;
#[path = "../../../fuzz/checks/saved_run.rs"]
mod saved_run;
#[path = "../../../fuzz/checks/stream.rs"]
mod stream;
#[path = "../../../fuzz/checks/transcript.rs"]
mod transcript;
#[path = "../../../fuzz/checks/transcript_database.rs"]
mod transcript_database;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Mutations of a document where a change is pushed.
const CASES: u64 = 2_000;

/// Beyond this an input of a transcript reader only takes longer.
const MAX_INPUT: usize = 16 << 10;

/// Parts that are hard for readers of numbers, strings, nesting and lines.
const WORDS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"\n",
    b"\0",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"0.1",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"\\ud800",
    b"\xff\xfe",
    b"\xf0\x9f",
    b" or ",
    b"not (",
    b"[[",
    b"= '",
];

/// A generator of pseudorandom numbers (SplitMix64), because the inputs must not change with a library.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// A place in the bytes, or their end.
    fn place(&mut self, bytes: &[u8]) -> usize {
        self.below(bytes.len() + 1)
    }

    /// A part of the bytes, mostly a short one.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.place(bytes);
        let longest = if self.below(4) == 0 { bytes.len() } else { 32 };
        let length = self.below(longest + 1);
        start..bytes.len().min(start + length)
    }
}

/// Changes the document in one to four places; `other` lends parts.
fn mutate(numbers: &mut Numbers, document: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = document.to_vec();
    for _ in 0..=numbers.below(4) {
        let range = numbers.range(&bytes);
        match numbers.below(8) {
            0 => bytes.truncate(range.start),
            1 => drop(bytes.drain(range)),
            2 => {
                let part = bytes[range].to_vec();
                let place = numbers.place(&bytes);
                bytes.splice(place..place, part);
            }
            3 => {
                let part = other[numbers.range(other)].to_vec();
                bytes.splice(range, part);
            }
            4 if !range.is_empty() => bytes[range.start] ^= 1 << numbers.below(8),
            5 => {
                let digits = numbers.next().to_string();
                bytes.splice(range, digits.into_bytes());
            }
            _ => {
                let word = WORDS[numbers.below(WORDS.len())];
                bytes.splice(range.start..range.start, word.iter().copied());
            }
        }
    }
    bytes.truncate(MAX_INPUT);
    bytes
}

/// Checks a reader with each document and with mutations of them, and keeps the input on which it fails.
fn check_all(name: &str, documents: &[Vec<u8>], cases: u64, check: impl Fn(&[u8])) {
    assert!(!documents.is_empty(), "{name} has documents");
    let more = std::env::var("ENDSTOP_FUZZ_CASES").map(|times| times.parse::<u64>().unwrap());
    let mut numbers = Numbers(0);
    let checked = |input: &[u8]| {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(input))) else { return };
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzzed-{name}"));
        fs::write(&file, input).unwrap();
        let text = panic.downcast_ref::<String>().map_or("", String::as_str);
        panic!("the input is in {}: {text}", file.display());
    };
    for document in documents {
        checked(&document[..document.len().min(MAX_INPUT)]);
    }
    for _ in 0..more.unwrap_or(cases) {
        let [document, other] = [(); 2].map(|()| &documents[numbers.below(documents.len())]);
        checked(&mutate(&mut numbers, document, other));
    }
}

/// The same for a reader of text.
fn check_text(name: &str, documents: &[Vec<u8>], cases: u64, check: impl Fn(&str)) {
    check_all(name, documents, cases, |input| check(&String::from_utf8_lossy(input)));
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files below a directory whose names begin so, in an order that does not depend on the disk.
fn files(directory: &str, prefix: &str) -> Vec<Vec<u8>> {
    let (mut open, mut found) = (vec![crates().join(directory)], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().unwrap().to_string_lossy().starts_with(prefix) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// The blocks of code of a kind in the documents.
fn blocks(kind: &str) -> Vec<Vec<u8>> {
    let fence = format!("```{kind}");
    let mut found = Vec::new();
    for page in
        [files("../docs", ""), vec![fs::read(crates().join("../README.md")).unwrap()]].concat()
    {
        let page = String::from_utf8_lossy(&page).into_owned();
        let parts = page
            .split(&*fence)
            .skip(1)
            .filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
        found.extend(parts.map(|part| part.as_bytes().to_vec()));
    }
    found
}

/// Expressions of the policies in the documents.
fn expressions() -> Vec<Vec<u8>> {
    let text = blocks("toml").concat();
    let text = String::from_utf8(text).unwrap();
    let quoted = text.lines().filter_map(|line| line.split_once("= '")?.1.split('\'').next());
    quoted.map(|expression| expression.as_bytes().to_vec()).collect()
}

#[test]
fn any_expression_is_read_or_explained() {
    let documents = expressions();
    check_text("expression", &documents, CASES * 10, expression::check);
}

#[test]
fn any_policy_file_is_read_or_explained() {
    let mut documents = blocks("toml");
    documents.push(fs::read(crates().join("endstop-cli/data/default-policy.toml")).unwrap());
    check_text("policy_file", &documents, CASES, policy_file::check);
}

#[test]
fn any_saved_run_is_read_or_refused() {
    check_text("saved_run", &files("endstop-core/tests/golden", "state-"), CASES, saved_run::check);
}

#[test]
fn any_saved_agent_is_read_or_refused() {
    check_text(
        "agent_state",
        &files("endstop/tests/golden", "agent-state-"),
        CASES,
        agent_state::check,
    );
}

#[test]
fn any_stream_is_split_without_loss() {
    let documents = vec![
        b"event: message_start\ndata: {\"type\":\"message_start\"}\n\ndata: {}\n\n".to_vec(),
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n"
            .to_vec(),
        b": a comment\nid: 7\nretry: 10\ndata: one\ndata: two\n\n".to_vec(),
    ];
    check_all("stream", &documents, CASES * 5, |input| {
        let cuts = input.iter().map(|byte| byte % 24).collect();
        stream::check((input.to_vec(), cuts));
    });
}

#[test]
fn any_bytes_are_a_transcript_or_none_in_every_format() {
    check_all("transcript", &files("endstop-transcript/tests/data", ""), CASES, transcript::check);
}

#[test]
fn any_records_are_a_database_of_transcripts_or_none() {
    let files = files("endstop-transcript/tests/data/opencode", "");
    // Each line is a record, and the byte between records is in no text.
    let records =
        files.iter().map(|file| file.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&0xff));
    let documents: Vec<_> = [files.join(&0xff)].into_iter().chain(records).collect();
    check_all("transcript_database", &documents, CASES / 4, transcript_database::check);
}
