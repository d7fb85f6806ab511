//! The regular expressions of a schema, compiled once.
//!
//! Schemas write them in the syntax of ECMA-262. Constructs with another meaning in [`regex`] are translated: `\d`
//! and `\w` are ASCII, and within a class `[`, `&&`, `~~` and `--` are ordinary characters.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use crate::limits::MAX_PATTERN_BYTES;

/// Compiled patterns by their text in the schema.
#[derive(Debug, Default)]
pub(super) struct Patterns(HashMap<String, Regex>);

impl Patterns {
    /// Compiles a pattern, unless it is compiled already.
    ///
    /// # Errors
    ///
    /// The pattern needs backtracking, is larger than [`MAX_PATTERN_BYTES`], or is none.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), regex::Error> {
        if !self.0.contains_key(pattern) {
            let regex = RegexBuilder::new(&translated(pattern))
                .size_limit(MAX_PATTERN_BYTES)
                .dfa_size_limit(MAX_PATTERN_BYTES)
                .build()?;
            self.0.insert(pattern.to_owned(), regex);
        }
        Ok(())
    }

    /// Whether a text has a match. A pattern that was never added matches nothing.
    pub(super) fn is_match(&self, pattern: &str, text: &str) -> bool {
        self.0.get(pattern).is_some_and(|regex| regex.is_match(text))
    }
}

/// A pattern of ECMA-262 in the syntax of [`regex`].
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => push_escape(&mut out, escaped, in_class),
                None => out.push('\\'),
            },
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' | '-' if in_class && chars.next_if_eq(&c).is_some() => {
                out.extend(['\\', c, '\\', c]);
            }
            other => out.push(other),
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char, in_class: bool) {
    let ascii = match escaped {
        'd' if in_class => "0-9",
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' if in_class => "0-9A-Za-z_",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => {
            out.extend(['\\', escaped]);
            return;
        }
    };
    out.push_str(ascii);
}
