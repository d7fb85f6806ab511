//! Size of files, in lines of code: tests, docs, comments and blank lines are not counted.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Item;

use super::Finding;
use super::modules::{Module, is_shared_type};
use super::tokens::{group_of, is_punct, is_word, without_tests};
use crate::project::tree::Tree;

/// A file of more lines of code has more than one subject.
const MOST_LINES: usize = 600;

/// A file of fewer lines of code belongs into another, unless it has a reason to be separate.
const FEWEST_LINES: usize = 50;

/// How a small file gives its reason, in its `//!` doc.
const REASON: &str = "A separate file because ";

/// A reader of recorded runs is records and a mapping; one with more lines of code, all its files counted, says why.
const READER_LINES: usize = 250;

/// How a long reader gives its reason, in its `//!` doc.
const READER_REASON: &str = "More than 250 lines because ";

/// Where the readers are, and what each of them has.
const READERS: &str = "crates/endstop-transcript/src/";
const READER: &str = "pub(crate) fn detect(head: ";

/// No file has more code than its limit.
pub(super) fn check_large(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending_in(".rs") {
        let is_code = !is_test(path) && !path.contains("/generated/");
        if !is_code || text.lines().count() <= MOST_LINES {
            continue;
        }
        // A file that does not parse was reported with the other sources.
        let Ok(stream) = text.parse::<TokenStream>() else { continue };
        let lines = lines_of_code(stream);
        if lines > MOST_LINES {
            let what = format!(
                "{lines} lines of code, and {MOST_LINES} is the limit; split it where a type ends"
            );
            findings.push(Finding::new(path, 1, what));
        }
    }
    findings
}

/// Small files have a reason: they define a type that others use, hold a crate together, or say why.
pub(super) fn check_small(tree: &Tree, modules: &[Module<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in modules {
        let Some(text) = tree.texts.get(module.file) else { continue };
        let has_type = module.syntax.items.iter().any(is_shared_type);
        let is_table = module.syntax.items.iter().all(is_row);
        let says_why = says(text, REASON);
        let has_place = ["/limits.rs", "/main.rs"].iter().any(|end| module.file.ends_with(end));
        if has_type || is_table || says_why || has_place {
            continue;
        }
        let Ok(stream) = text.parse::<TokenStream>() else { continue };
        let lines = lines_of_code(stream);
        if lines < FEWEST_LINES {
            let what = format!(
                "{lines} lines of code and no type that others use; put it into the file that needs it, \
                 or say `{REASON}..` in its `//!` doc"
            );
            findings.push(Finding::new(module.file, 1, what));
        }
    }
    findings
}

/// Readers are short, or say why they are not.
pub(super) fn check_readers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code = || tree.ending_in(".rs").filter(|(path, _)| path.starts_with(READERS));
    for (path, text) in code().filter(|(_, text)| text.contains(READER)) {
        let parts = path.replace(".rs", "/");
        let of_reader = code()
            .filter(|(other, _)| (*other == path || other.starts_with(&parts)) && !is_test(other));
        let streams = of_reader.filter_map(|(_, text)| text.parse::<TokenStream>().ok());
        let lines: usize = streams.map(lines_of_code).sum();
        let what = match (lines > READER_LINES, says(text, READER_REASON)) {
            (true, false) => format!(
                "a reader of {lines} lines of code; use what other readers share, \
                 or say `{READER_REASON}..` in its `//!` doc"
            ),
            (false, true) => format!("a reader of {lines} lines of code needs no reason"),
            _ => continue,
        };
        findings.push(Finding::new(path, 1, what));
    }
    findings
}

/// Whether a line of a file's `//!` doc has these words.
fn says(text: &str, words: &str) -> bool {
    text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(words))
}

/// Whether an item only says where others are.
fn is_row(item: &Item) -> bool {
    matches!(item, Item::Mod(_) | Item::Use(_) | Item::ExternCrate(_) | Item::Macro(_))
}

/// Whether the file holds cases rather than logic.
pub(super) fn is_test(path: &str) -> bool {
    let rooted = format!("/{path}");
    rooted.ends_with("/tests.rs")
        || ["/tests/", "/fuzz/"].iter().any(|directory| rooted.contains(directory))
}

/// The lines on which code stands that is compiled without tests.
fn lines_of_code(stream: TokenStream) -> usize {
    let mut lines = BTreeSet::new();
    collect(without_tests(stream), &mut lines);
    lines.len()
}

fn collect(stream: TokenStream, lines: &mut BTreeSet<usize>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        if let Some(length) = doc_length(&tokens, index) {
            index += length;
            continue;
        }
        let span = token.span();
        match token {
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                lines.insert(group.span_close().end().line);
                collect(group.stream(), lines);
            }
            _ => lines.extend(span.start().line..=span.end().line),
        }
        index += 1;
    }
}

/// The number of tokens of the doc comment that begins here.
fn doc_length(tokens: &[TokenTree], index: usize) -> Option<usize> {
    if !is_punct(tokens.get(index), '#') {
        return None;
    }
    let inner = usize::from(is_punct(tokens.get(index + 1), '!'));
    let group = group_of(tokens.get(index + 1 + inner), Delimiter::Bracket)?;
    let first = group.stream().into_iter().next();
    is_word(first.as_ref(), "doc").then_some(2 + inner)
}

#[cfg(test)]
mod tests;
