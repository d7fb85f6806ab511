//! The words of the command without what looks like a key: summaries are kept, sent and pasted.
//!
//! A word too much costs nothing here, a key too few does. So a name that promises a secret is enough, and so is the
//! beginning of a provider's key.

use std::ffi::OsString;

use crate::limits::LEAST_KEY_REST;

/// The replacement of a key.
const REDACTED: &str = "[redacted]";

/// How keys begin that providers and code hosts hand out.
const PREFIXES: [&str; 15] = [
    "sk-",
    "sk_",
    "AIza",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xai-",
    "gsk_",
    "hf_",
    "r8_",
    "pplx-",
    "AKIA",
    "xox",
];
/// Words of a command line, with keys, passwords and the values of options and variables that promise them replaced.
/// A value that begins with `$` stays: the shell replaces it, and it is no secret itself.
pub(in crate::command) fn command(words: &[OsString]) -> Vec<String> {
    let mut is_value = false;
    let words = words.iter().map(|word| {
        let word = word.to_string_lossy();
        if std::mem::take(&mut is_value) && !word.starts_with("--") {
            return hidden(&word);
        }
        // A script or a header in one word holds further pairs.
        let mut shown = String::with_capacity(word.len());
        for part in word.split_inclusive(char::is_whitespace) {
            let text = part.trim_end();
            let is_secret = std::mem::take(&mut is_value) && !text.is_empty();
            let is_scheme =
                ["bearer", "basic", "token"].iter().any(|it| text.eq_ignore_ascii_case(it));
            match is_secret && !is_scheme {
                true => shown.push_str(&hidden(text)),
                false => shown.push_str(&redacted(text)),
            }
            is_value = (is_secret && is_scheme) || promises_a_value(text);
            shown.push_str(part.get(text.len()..).unwrap_or_default());
        }
        shown
    });
    words.collect()
}

/// A value in the place of a secret.
fn hidden(value: &str) -> String {
    let inner = value.trim_start_matches(['"', '\'']);
    if inner.starts_with('$') { value.to_owned() } else { REDACTED.to_owned() }
}

/// Whether the next part is the value: `--api-key`, `Authorization:`.
fn promises_a_value(part: &str) -> bool {
    let part = part.trim_matches(['"', '\'', '{', ',']);
    let name = match part.strip_suffix([':', '=']) {
        Some(name) => name.trim_end_matches(['"', '\'']),
        None if part.starts_with('-') => part,
        None => return false,
    };
    name.chars().all(is_of_name) && is_secret_name(name)
}

/// One part without blanks.
fn redacted(part: &str) -> String {
    let mut shown = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = user_of_address(rest) {
            shown.push_str("://");
            shown.push_str(REDACTED);
            rest = after;
            continue;
        }
        if !is_of_name(first) {
            shown.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if is_key(name) {
            shown.push_str(REDACTED);
            rest = after.trim_start_matches(is_of_value);
            continue;
        }
        shown.push_str(name);
        rest = after;
        if let Some((sign, value)) = value_after(after).filter(|_| is_secret_name(name)) {
            shown.push_str(sign);
            let end = value.find(|c| !is_of_value(c)).unwrap_or(value.len());
            let (value, after) = value.split_at(end);
            if !value.is_empty() {
                shown.push_str(&hidden(value));
            }
            rest = after;
        }
    }
    shown
}

/// `="value`, `":"value` and similar: the signs, and what begins with the value.
fn value_after(text: &str) -> Option<(&str, &str)> {
    let quotes = ['"', '\'', '\\'];
    let value =
        text.trim_start_matches(quotes).strip_prefix([':', '='])?.trim_start_matches(quotes);
    text.split_at_checked(text.len() - value.len())
}

/// The rest of an address after the user and the password: `://user:password@host`.
fn user_of_address(text: &str) -> Option<&str> {
    let address = text.strip_prefix("://")?;
    let host = address.find(['/', '?', '#', '"', '\'']).unwrap_or(address.len());
    let at = address.get(..host)?.rfind('@')?;
    address.get(at..)
}

fn is_key(word: &str) -> bool {
    PREFIXES
        .iter()
        .any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= LEAST_KEY_REST))
}

/// Whether a name promises a secret: `OPENAI_API_KEY`, `--auth-token`, `apiKey`. `--max-tokens` does not.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_secret = |part: &str| {
        ["key", "pwd", "auth", "authorization", "credential", "credentials"].contains(&part)
            || ["apikey", "token", "secret", "password", "passwd", "passphrase"]
                .iter()
                .any(|end| part.ends_with(end))
    };
    name.split(['-', '_']).any(is_secret)
}

const fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

const fn is_of_value(c: char) -> bool {
    !matches!(c, '"' | '\'' | '&' | ',' | ';' | '}' | ')' | '|')
}

#[cfg(test)]
mod tests;
