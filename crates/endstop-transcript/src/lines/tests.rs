//! Tests of `lines`.

use super::*;

/// Warnings and their lines.
type Warned = Vec<(WarningKind, u64)>;

fn numbers(bytes: &'static [u8], limit: usize) -> (Vec<(u64, i64)>, Warned) {
    let part = Part::bytes("x.jsonl", bytes);
    let warnings = Warnings::default();
    let mut lines = JsonLines::open(&part, &warnings);
    lines.limit = limit;
    let mut read = Vec::new();
    while lines.advance() {
        let number = lines.number();
        read.extend(lines.parse::<i64>().map(|value| (number, value)));
    }
    drop(lines);
    let warnings = warnings.into_list();
    (read, warnings.iter().map(|w| (w.kind, w.line.unwrap())).collect())
}

#[test]
fn blank_lines_are_skipped_and_counted_as_lines() {
    let text = b"\xef\xbb\xbf1\r\n\n  \n2\n{\n3";
    let (read, warnings) = numbers(text, 100);
    assert_eq!(read, [(1, 1), (4, 2), (6, 3)]);
    assert_eq!(warnings, [(WarningKind::Malformed, 5)]);
}

#[test]
fn a_cut_last_line_is_told_from_a_malformed_one() {
    assert_eq!(numbers(b"1\n{\"a\":", 100).1, [(WarningKind::Truncated, 2)]);
    assert_eq!(numbers(b"1\n[1 }", 100).1, [(WarningKind::Malformed, 2)]);
}

#[test]
fn a_line_beyond_the_limit_is_skipped() {
    let (read, warnings) = numbers(b"1\n123456\n12345\n7", 5);
    assert_eq!(read, [(1, 1), (3, 12345), (4, 7)]);
    assert_eq!(warnings, [(WarningKind::TooLarge, 2)]);
}

#[test]
fn lines_of_any_length_are_read_wherever_the_reads_end() {
    let lengths = [1, CHUNK_BYTES - 2, CHUNK_BYTES, 3, 5 * CHUNK_BYTES, 1, 2 * CHUNK_BYTES + 1, 7];
    let limit = 3 * CHUNK_BYTES;
    let text: String = lengths.iter().map(|length| "7".repeat(*length) + "\n").collect();
    let part = Part::bytes("x.jsonl", text.into_bytes());
    let warnings = Warnings::default();
    let mut lines = JsonLines::open(&part, &warnings);
    lines.limit = limit;
    let mut read = Vec::new();
    while lines.advance() {
        assert!(lines.text().iter().all(|byte| *byte == b'7'));
        read.push((lines.number(), lines.text().len()));
    }
    let expected: Vec<(u64, usize)> =
        (1..).zip(lengths).filter(|(_, length)| *length <= limit).collect();
    assert_eq!(read, expected);
    assert!(lines.buffer.len() <= 2 * limit, "{}", lines.buffer.len());
    drop(lines);
    let warnings: Vec<_> = warnings.into_list().iter().map(|w| (w.kind, w.line)).collect();
    assert_eq!(warnings, [(WarningKind::TooLarge, Some(5))]);
}
