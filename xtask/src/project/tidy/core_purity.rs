//! The core is a pure function of policy and events: no standard library, clock, float or hash order.

use std::process::Command;

use proc_macro2::{TokenStream, TokenTree};
use syn::Lit;

use super::tokens::{is_punct, is_word, line_of, walk, without_tests};
use super::{Finding, TidyError};
use crate::project::tree::Tree;

const CORE_ROOT: &str = "crates/endstop-core/src/lib.rs";
const CORE_SOURCES: &str = "crates/endstop-core/src/";
const CORE_MANIFEST: &str = "crates/endstop-core/Cargo.toml";

/// Words that have no place in the core, and what to use instead.
const FORBIDDEN: [(&str, &str); 6] = [
    ("Instant", "events carry their time"),
    ("SystemTime", "events carry their time"),
    ("f32", "use integers with a scale"),
    ("f64", "use integers with a scale"),
    ("HashMap", "use `BTreeMap`, whose order is the same everywhere"),
    ("HashSet", "use `BTreeSet`, whose order is the same everywhere"),
];

pub(super) fn check_sources(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending_in(".rs") {
        if path.starts_with(CORE_SOURCES) && !path.ends_with("/tests.rs") {
            findings.extend(check_file(path, text));
        }
    }
    let declares = tree
        .texts
        .get(CORE_ROOT)
        .is_some_and(|text| text.lines().any(|line| line.trim() == "#![no_std]"));
    if !declares {
        findings.push(Finding::new(CORE_ROOT, 1, "declare `#![no_std]`"));
    }
    findings
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    // A file that does not parse was reported with the other sources.
    let Ok(stream) = text.parse::<TokenStream>() else { return Vec::new() };
    let mut findings = Vec::new();
    walk(without_tests(stream), &mut |tokens, index| {
        let Some(token) = tokens.get(index) else { return };
        if let Some(what) = impurity(tokens, index) {
            findings.push(Finding::new(path, line_of(token), what));
        }
    });
    findings
}

fn impurity(tokens: &[TokenTree], index: usize) -> Option<String> {
    let token = tokens.get(index);
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    if let Some((word, instead)) = FORBIDDEN.iter().find(|(word, _)| is_word(token, word)) {
        return Some(format!("`{word}` in the core; {instead}"));
    }
    let is_path = is_punct(tokens.get(index + 1), ':') && is_punct(tokens.get(index + 2), ':');
    if is_word(token, "std") && (is_path || is_word(before, "crate")) {
        return Some("`std` in the core; use `core` or `alloc`".to_owned());
    }
    let Some(TokenTree::Literal(literal)) = token else { return None };
    let before_that = index.checked_sub(2).and_then(|before| tokens.get(before));
    // In `pair.0.1` the tokens are `pair`, `.` and `0.1`; in `0..1.5` two dots stand before the float.
    let is_field = is_punct(before, '.') && !is_punct(before_that, '.');
    let is_float = match Lit::new(literal.clone()) {
        Lit::Float(_) => true,
        // `3f64` is an integer literal with a suffix.
        Lit::Int(integer) => integer.suffix().starts_with('f'),
        _ => false,
    };
    (is_float && !is_field)
        .then(|| format!("float `{literal}` in the core; use integers with a scale"))
}

/// Checks that the core builds without the standard library, in a separate directory, so that it waits for no lock and
/// disturbs no other build.
pub(super) fn check_build(tree: &Tree) -> Result<Vec<Finding>, TidyError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&tree.root)
        .args(["check", "--quiet", "--package", "endstop-core", "--no-default-features"])
        .args(["--target-dir", "target/tidy"])
        .output()
        .map_err(TidyError::Cargo)?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr.lines().find(|line| line.starts_with("error")).unwrap_or("no reason given");
    let what = format!("does not build with `--no-default-features`: {reason}");
    Ok(vec![Finding::new(CORE_MANIFEST, 1, what)])
}

#[cfg(test)]
mod tests;
