//! Rust sources: a doc at the top, nothing left undone, no silent lint exceptions.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::tokens::{group_of, is_punct, is_word, line_of, walk};
use crate::project::tree::Tree;

/// Macros that mark unfinished work or leftover debugging.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Words in comments that mark unfinished work; split so that this file does not contain them.
const MARKERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending_in(".rs").flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.rsplit('/').next() == Some("mod.rs") {
        findings.push(Finding::new(
            path,
            1,
            "name the module after its directory: `foo.rs` next to `foo/`",
        ));
    }
    if format!("/{path}").contains("/src/") && !text.starts_with("//!") {
        findings.push(Finding::new(
            path,
            1,
            "begin with a `//!` doc that says what the file is for",
        ));
    }
    findings.extend(unfinished_comments(path, text));
    match text.parse::<TokenStream>() {
        Ok(stream) => findings.extend(check_tokens(path, stream)),
        Err(error) => findings.push(Finding::new(path, error.span().start().line, "not Rust")),
    }
    findings
}

fn unfinished_comments(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else { continue };
        let mut words = comment.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if let Some(marker) = words.find(|word| MARKERS.contains(word)) {
            let what = format!("`{marker}`; finish it, or describe the limit in words");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

fn check_tokens(path: &str, stream: TokenStream) -> Vec<Finding> {
    let mut findings = Vec::new();
    walk(stream, &mut |tokens, index| {
        let Some(token) = tokens.get(index) else { return };
        if let Some(what) = unfinished_macro(tokens, index).or_else(|| bad_attribute(tokens, index))
        {
            findings.push(Finding::new(path, line_of(token), what));
        }
    });
    findings
}

fn unfinished_macro(tokens: &[TokenTree], index: usize) -> Option<String> {
    let token = tokens.get(index);
    let name = UNFINISHED.into_iter().find(|name| is_word(token, name))?;
    is_punct(tokens.get(index + 1), '!').then(|| format!("`{name}!`; write the missing code"))
}

fn bad_attribute(tokens: &[TokenTree], index: usize) -> Option<String> {
    if !is_punct(tokens.get(index), '#') {
        return None;
    }
    let inner = usize::from(is_punct(tokens.get(index + 1), '!'));
    let group = group_of(tokens.get(index + 1 + inner), Delimiter::Bracket)?;
    let content: Vec<TokenTree> = group.stream().into_iter().collect();
    if is_word(content.first(), "ignore") {
        return Some("`#[ignore]`; make the test run, or remove it".to_owned());
    }
    if !is_word(content.first(), "allow") {
        return None;
    }
    let lints = group_of(content.get(1), Delimiter::Parenthesis)?;
    let has_reason = lints.stream().into_iter().any(|token| is_word(Some(&token), "reason"));
    (!has_reason)
        .then(|| "`allow` without a reason; use `#[expect(.., reason = \"..\")]`".to_owned())
}

#[cfg(test)]
mod tests;
