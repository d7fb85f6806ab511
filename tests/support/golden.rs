//! Golden files: what is stored or printed, compared byte for byte with a file of the crate that makes it.
//!
//! A test includes this file with `#[path]`. After a deliberate change of a form that nobody has stored yet, write
//! the files anew with `ENDSTOP_UPDATE_GOLDEN=1 cargo test -p CRATE --test TARGET`. A form that has been released
//! gets a new version and a new file instead; its old file and the test that reads it stay.

use std::path::PathBuf;

/// Compares a text with `tests/golden/NAME` of the crate that includes this, or writes the file if that is asked for.
/// Returns what the file says, without its last line feed.
///
/// Each of `fixed` is a JSON key and a value: the text's own value of that key, which differs from run to run, is
/// replaced by it. A number stands only for a number and a text only for a text, so that a change of its kind is seen,
/// and the key has to be there.
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
            Some('"') => end_of_text(piece),
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

/// Where a JSON text ends that begins here.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap() + 2
}
