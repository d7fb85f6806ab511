//! The behavior of every reader with complete, truncated, damaged and hostile files.
//!
//! Two of these tests take long: they read each example once for each of its bytes. A push tries every third byte, each byte
//! next to the end of a line or of the file, and each byte of a character that has several. `ENDSTOP_EVERY_BYTE`, which is set
//! each night, asks for all.

use std::fs;
use std::path::{Path, PathBuf};

use endstop_transcript::{FORMATS, Format, MAX_LINE_BYTES, Part, Transcript, WarningKind, walk};

use crate::sink::Keep;

/// Of this many bytes a push tries one. It has no divisor in common with the number of damages that are made in turn, or a
/// push would not make all of them.
const PERIOD: usize = 3;

/// Each byte is tried that is at most this far from the end of a line.
const NEAR: usize = 2;

/// Whether every byte is tried.
fn is_all_tried() -> bool {
    std::env::var_os("ENDSTOP_EVERY_BYTE").is_some()
}

/// Whether this place of a file is tried.
fn is_tried(bytes: &[u8], place: usize) -> bool {
    let near = &bytes[place.saturating_sub(NEAR)..bytes.len().min(place + NEAR)];
    let is_at_end = place < NEAR || place + NEAR >= bytes.len();
    is_all_tried()
        || place.is_multiple_of(PERIOD)
        || is_at_end
        || near.contains(&b'\n')
        || !bytes[place].is_ascii()
}

/// An example: its transcript, the bytes of its main file, and what they read as.
struct Example {
    transcript: Transcript,
    bytes: Vec<u8>,
    whole: Keep,
}

impl Example {
    /// Reads other bytes in place of the main file.
    fn read(&self, bytes: Vec<u8>) -> Keep {
        let main = Part::bytes(self.transcript.main.name(), bytes);
        Keep::of(&Transcript { main, ..self.transcript.clone() })
    }

    fn is_lines(&self) -> bool {
        self.transcript.main.name().ends_with(".jsonl")
    }

    /// Of prose, where a cut at the end of a line is no fault that could be seen.
    fn is_prose(&self) -> bool {
        self.transcript.main.name().ends_with(".md")
    }

    /// Of text, to put other text in.
    fn is_text(&self) -> bool {
        std::str::from_utf8(&self.bytes).is_ok()
    }

    /// A trace is passed on as it was recorded: what is cut out of it is missing from it.
    fn check(&self, keep: &Keep, what: &str) {
        if self.transcript.format.id() != "endstop" {
            assert!(keep.faults().is_empty(), "{what}: {:?}", keep.faults());
        }
        for warning in &keep.warnings {
            assert!(warning.count > 0 && !warning.message.is_empty(), "{what}: {warning}");
        }
        let mut kinds: Vec<_> = keep.warnings.iter().map(|w| (&w.file, w.kind)).collect();
        kinds.dedup();
        assert_eq!(kinds.len(), keep.warnings.len(), "{what}: one warning for each kind and file");
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn examples_of(format: &'static Format) -> Vec<Example> {
    let directory = data().join(format.id());
    let found = walk(std::slice::from_ref(&directory)).unwrap();
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    assert!(!found.transcripts.is_empty(), "`{}` needs an example", directory.display());
    let example = |mut transcript: Transcript| {
        assert_eq!(transcript.format.id(), format.id(), "{}", transcript.main.name());
        let bytes = fs::read(transcript.main.path().unwrap()).unwrap();
        let shorter = |part: &Part| {
            let path = part.path().unwrap();
            let name = path.strip_prefix(data()).unwrap().to_str().unwrap().replace('\\', "/");
            Part::bytes(name, fs::read(path).unwrap())
        };
        transcript.children = transcript.children.iter().map(shorter).collect();
        transcript.main = shorter(&transcript.main);
        let whole = Keep::of(&transcript);
        Example { transcript, bytes, whole }
    };
    found.transcripts.into_iter().map(example).collect()
}

/// Examples that text can be put into; what is packed has examples unpacked, too. A database has none.
fn examples_of_text() -> impl Iterator<Item = Example> {
    let texts = |format: &'static Format| {
        let mut texts = examples_of(format);
        if texts.iter().all(|example| example.bytes.starts_with(b"SQLite format 3\0")) {
            return Vec::new();
        }
        texts.retain(Example::is_text);
        assert!(!texts.is_empty(), "`{}` needs an example that is text", format.id());
        texts
    };
    FORMATS.iter().flat_map(texts)
}

fn examples() -> impl Iterator<Item = Example> {
    FORMATS.iter().flat_map(examples_of)
}

#[test]
fn examples_read_as_expected() {
    for format in FORMATS {
        let mut text = String::new();
        for example in examples_of(format) {
            assert!(example.whole.faults().is_empty(), "{:?}", example.whole.faults());
            assert!(!example.whole.runs.is_empty(), "{}", example.transcript.main.name());
            text.push_str(&format!("## {}\n", example.transcript.main.name()));
            text.push_str(&example.whole.as_trace());
        }
        let path = data().join("expected").join(format!("{}.txt", format.id()));
        if std::env::var_os("ENDSTOP_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{}", path.display());
    }
}

#[test]
fn a_list_of_messages_is_named_by_its_document() {
    let chat = endstop_transcript::format("openai-chat").unwrap();
    let named =
        examples_of(chat).into_iter().find(|e| e.transcript.main.name().contains("wrapped"));
    assert_eq!(named.unwrap().whole.runs[0].id, "chat-7");
}

#[test]
fn ids_are_unique_and_lines_describe_formats() {
    let mut ids: Vec<&str> = FORMATS.iter().map(|format| format.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), FORMATS.len());
    for format in FORMATS {
        assert!(!format.describe().is_empty() && !format.describe().contains('\n'));
        assert_eq!(endstop_transcript::format(format.id()).map(|f| f.id()), Some(format.id()));
    }
}

#[test]
fn a_file_may_be_cut_at_any_byte() {
    for example in examples() {
        // White space at the end of a text is no loss.
        let text = example.bytes.trim_ascii_end();
        let whole = if example.is_text() { text.len() } else { example.bytes.len() };
        for cut in (0..whole).filter(|cut| is_tried(&example.bytes[..whole], *cut)) {
            let keep = example.read(example.bytes[..cut].to_vec());
            let what = format!("{} cut at {cut}", example.transcript.main.name());
            example.check(&keep, &what);
            assert!(keep.steps() <= example.whole.steps(), "{what}");
            let at_line_end =
                cut == 0 || [example.bytes[cut], example.bytes[cut - 1]].contains(&b'\n');
            let last = example.bytes[..cut].rsplit(|byte| *byte == b'\n').next();
            let is_blank =
                example.is_prose() && last.is_some_and(|last| last.trim_ascii().is_empty());
            let is_cut_between = (example.is_lines() && at_line_end) || is_blank;
            if !is_cut_between {
                let cut_is_told = keep.warnings.iter().any(|w| w.kind == WarningKind::Truncated);
                assert!(cut_is_told, "{what}: {:?}", keep.warnings);
            }
        }
    }
}

#[test]
fn what_is_before_a_cut_is_kept_where_the_format_is_lines() {
    for example in examples().filter(Example::is_lines) {
        let lines: Vec<&[u8]> = example.bytes.split_inclusive(|b| *b == b'\n').collect();
        let all_but_last = lines[..lines.len() - 1].concat();
        let clean = example.read(all_but_last.clone());
        let cut = example.read([&all_but_last, &b"{\"type\":"[..]].concat());
        assert_eq!(clean.runs.len(), cut.runs.len());
        for (clean, cut) in clean.runs.iter().zip(&cut.runs) {
            assert_eq!(clean.lines, cut.lines, "{}", example.transcript.main.name());
        }
    }
}

#[test]
fn garbage_bytes_anywhere_are_survived() {
    for example in examples() {
        let places = (0..example.bytes.len()).step_by(2);
        let damages = places.zip(b"\x00\xff\"{}[],:\\\n9-e".iter().cycle());
        for (place, garbage) in damages.filter(|(place, _)| is_tried(&example.bytes, *place)) {
            let mut bytes = example.bytes.clone();
            // Inserted and written over the old text in turn.
            let replaced = place / 2 % 2;
            bytes.splice(place..place + replaced, [*garbage]);
            let what = format!("{} garbage {garbage} at {place}", example.transcript.main.name());
            example.check(&example.read(bytes), &what);
        }
    }
}

#[test]
fn garbage_lines_are_counted_and_cost_nothing_else() {
    for example in examples().filter(Example::is_lines) {
        let mut bytes = Vec::new();
        let mut inserted = 0;
        for line in example.bytes.split_inclusive(|b| *b == b'\n') {
            bytes.extend_from_slice(line);
            bytes.extend_from_slice(b"{\"type\":\"assistant\",\xfe\n");
            inserted += 1;
        }
        let keep = example.read(bytes);
        let malformed = |keep: &Keep| {
            let found = keep.warnings.iter().find(|w| w.kind == WarningKind::Malformed);
            found.map_or((0, 0), |w| (w.count, w.line.unwrap()))
        };
        let (count, line) = malformed(&keep);
        assert_eq!((count, line), (malformed(&example.whole).0 + inserted, 2));
        assert_eq!(keep.steps(), example.whole.steps());
        assert_eq!(keep.tokens(), example.whole.tokens());
    }
}

#[test]
fn unknown_records_and_keys_change_nothing() {
    let record = "{\"type\":\"future_record\",\"timestamp\":\"2026-11-01T09:00:00Z\",\"payload\":{\"a\":[1]}}\n";
    for example in examples_of_text() {
        let name = example.transcript.main.name();
        let text = String::from_utf8(example.bytes.clone()).unwrap();
        let key = "{\"future_key\":{\"a\":[1,null]},";
        let with_keys: String = match example.is_lines() {
            true => text.lines().map(|line| line.replacen('{', key, 1) + "\n").collect(),
            false => text.replacen('{', key, 1),
        };
        let keep = example.read(with_keys.into_bytes());
        assert_eq!(keep.as_trace(), example.whole.as_trace(), "{name}: unknown keys");
        // A trace has only kinds that its version knows.
        if example.is_lines() && example.transcript.format.id() != "endstop" {
            let with_records: String = text.lines().flat_map(|line| [line, "\n", record]).collect();
            let keep = example.read(with_records.into_bytes());
            let lines =
                |keep: &Keep| keep.runs.iter().flat_map(|r| r.lines.clone()).collect::<Vec<_>>();
            assert_eq!(lines(&keep), lines(&example.whole), "{name}: unknown records");
            assert_eq!(keep.warnings.len(), example.whole.warnings.len(), "{name}");
        }
    }
}

/// The text with the numbers under `key` replaced.
fn with_numbers(text: &str, key: &str, bad: &str) -> String {
    let mut damaged = String::new();
    for piece in text.split_inclusive(key) {
        let number = piece.trim_start();
        let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
        if damaged.ends_with(key) && rest.len() < number.len() {
            damaged.push_str(bad);
            damaged.push_str(rest);
        } else {
            damaged.push_str(piece);
        }
    }
    damaged
}

#[test]
fn numbers_that_are_no_counts_are_told_and_are_not_zero() {
    let keys = ["\"input_tokens\":", "\"prompt_tokens\":", "\"output_tokens\":", "\"input\":"];
    for example in examples_of_text() {
        let text = String::from_utf8(example.bytes.clone()).unwrap();
        for key in keys {
            for bad in ["-5", "1.5", "\"7\"", "1e400", "99999999999999999999", "[]", "true"] {
                let damaged = with_numbers(&text, key, bad);
                if damaged == text {
                    continue;
                }
                let keep = example.read(damaged.into_bytes());
                let what = format!("{} {key}{bad}", example.transcript.main.name());
                example.check(&keep, &what);
                assert!(keep.warnings.len() > example.whole.warnings.len(), "{what}");
                assert!(keep.steps() <= example.whole.steps(), "{what}");
                assert!(keep.tokens() < example.whole.tokens(), "{what}");
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    for depth in [200, 200_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for example in examples_of_text() {
            let what = format!("{} {depth} deep", example.transcript.main.name());
            let text = String::from_utf8(example.bytes.clone()).unwrap();
            let damaged = match example.is_lines() {
                true => format!("{text}\n{nested}\n{{\"type\":\"user\",\"message\":{nested}}}\n"),
                false => text.replacen("\"content\":", &format!("\"content\":{nested},\"x\":"), 1),
            };
            let keep = example.read(damaged.into_bytes());
            example.check(&keep, &what);
            assert!(keep.steps() <= example.whole.steps(), "{what}");
        }
    }
}

#[test]
fn a_line_beyond_the_limit_is_skipped_with_a_warning() {
    for format in FORMATS {
        let Some(example) = examples_of(format).into_iter().find(Example::is_lines) else {
            continue;
        };
        let mut bytes = vec![b'x'; MAX_LINE_BYTES + 1];
        bytes.push(b'\n');
        bytes.extend_from_slice(&example.bytes);
        let keep = example.read(bytes);
        assert_eq!(keep.steps(), example.whole.steps());
        let warning = keep.warnings.iter().find(|w| w.kind == WarningKind::TooLarge).unwrap();
        assert_eq!((warning.line, warning.count), (Some(1), 1));
    }
}

#[test]
fn an_absent_file_is_a_warning() {
    for format in FORMATS {
        let main = Part::file("/absent/file.json");
        let keep = Keep::of(&Transcript { format, main, children: Vec::new() });
        assert!(keep.runs.is_empty());
        assert_eq!(keep.warnings[0].kind, WarningKind::Unreadable);
    }
}
