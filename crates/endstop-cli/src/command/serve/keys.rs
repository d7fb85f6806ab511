//! The file of `--keys`. A file of its own because it shows no key, which its errors and tests have to keep to.

use std::collections::BTreeSet;
use std::path::Path;

use endstop_gateway::{Key, KeyRuns};

use crate::error::CliError;
use crate::input::read_text;
use crate::limits::MAX_KEYS_BYTES;
use crate::output;

/// Reads lines of a key and its runs; those that begin with `#` are comments. Warns if other users can read the file.
///
/// # Errors
/// If it cannot be read, or a line is wrong. No error shows a key.
pub(super) fn read(path: &Path) -> Result<Vec<(Key, KeyRuns)>, CliError> {
    let shown = path.display();
    let text = read_text(path, "keys", MAX_KEYS_BYTES)?;
    if is_open_to_others(path) {
        output::warn(&format!("other users can read the keys `{shown}`: chmod 600 {shown}"));
    }
    keys(&text).map_err(|problem| CliError::new(format!("`{shown}`: {problem}")))
}

/// Whether the group of a file, or everybody, can read or replace what is in it.
#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o066 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}

fn keys(text: &str) -> Result<Vec<(Key, KeyRuns)>, String> {
    let mut seen = BTreeSet::new();
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_whitespace();
        let Some(key) = words.next().filter(|key| !key.starts_with('#')) else { continue };
        let (Some(runs), None) = (words.next(), words.next()) else {
            return Err(format!("line {number} is not `KEY RUN` or `KEY PREFIX*`"));
        };
        let runs = runs.parse().map_err(|error| format!("line {number}: {error}"))?;
        if !seen.insert(key) {
            return Err(format!("line {number} repeats the key of an earlier line"));
        }
        keys.push((Key::new(key), runs));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
