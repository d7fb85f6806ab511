//! Golden files: stored and printed forms, compared byte for byte with a file of the crate that writes them.
//!
//! A test includes this file with `#[path]`. After a deliberate change of a form that was never released, update the
//! files with `ENDSTOP_UPDATE_GOLDEN=1 cargo test -p CRATE`. A released form gets a new version and a new file instead;
//! its old file and the test that reads it stay.

use std::path::PathBuf;

/// Compares a text with `tests/golden/NAME` of the crate that includes this file; writes the file if
/// `ENDSTOP_UPDATE_GOLDEN` is set. Returns the text of the file without line feeds at its end.
///
/// Each entry of `fixed` is a JSON key and a value that replaces the value of this key in `now`, for values that differ
/// from run to run. The key must occur, a number replaces only numbers, and a string only strings; so a change of the
/// key or of its type still fails.
pub(crate) fn golden(name: &str, now: &str, fixed: &[(&str, &str)]) -> String {
    let now = fixed.iter().fold(now.to_owned(), |text, (key, by)| replaced(name, &text, key, by));
    let now = now.trim_end_matches('\n');
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect();
    if std::env::var_os("ENDSTOP_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("{now}\n")).unwrap();
    }
    let stored = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; see the head of tests/support/golden.rs"));
    let stored = stored.trim_end_matches('\n');
    assert_eq!(stored, now, "{name}: see the head of tests/support/golden.rs");
    stored.to_owned()
}

/// JSON text with another value of a key, wherever it stands.
fn replaced(name: &str, text: &str, key: &str, by: &str) -> String {
    let key = format!("\"{key}\":");
    let mut pieces = text.split(&key);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for piece in pieces {
        let (space, piece) = piece.split_at(piece.len() - piece.trim_start_matches(' ').len());
        let end = match piece.chars().next() {
            Some('"') => string_length(piece),
            Some('0'..='9' | '-') => piece.find([',', '}', ']', '\n']).unwrap(),
            _ => 0,
        };
        let (own, rest) = piece.split_at(end);
        let by = if own.is_empty() { "" } else { by };
        assert_eq!(own.starts_with('"'), by.starts_with('"'), "{name}: {key}{own}");
        count += usize::from(!own.is_empty());
        out.extend([key.as_str(), space, by, rest]);
    }
    assert!(count > 0, "{name}: {key} has no value in {text}");
    out
}

/// The length of the JSON string that a text begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap() + 2
}
