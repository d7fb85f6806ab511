//! Rules that match the name of a model or a provider.
//!
//! All but regular expressions compare without case; names are lower-cased before they get here.

use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;

/// A rule as the price data writes it: `{"starts_with": "gpt-5"}`, `{"or": [..]}`.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clause {
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Equals(String),
    Regex(Pattern),
    Or(Vec<Self>),
    And(Vec<Self>),
}

impl Clause {
    /// Whether `name`, in lower case, matches.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        match self {
            Self::StartsWith(text) => name.starts_with(text),
            Self::EndsWith(text) => name.ends_with(text),
            Self::Contains(text) => name.contains(text),
            Self::Equals(text) => name == text,
            Self::Regex(pattern) => pattern.is_match(name),
            Self::Or(clauses) => clauses.iter().any(|clause| clause.is_match(name)),
            Self::And(clauses) => clauses.iter().all(|clause| clause.is_match(name)),
        }
    }

    /// The same rule with its texts in lower case.
    pub(crate) fn lowered(self) -> Self {
        let all = |clauses: Vec<Self>| clauses.into_iter().map(Self::lowered).collect();
        match self {
            Self::StartsWith(text) => Self::StartsWith(text.to_lowercase()),
            Self::EndsWith(text) => Self::EndsWith(text.to_lowercase()),
            Self::Contains(text) => Self::Contains(text.to_lowercase()),
            Self::Equals(text) => Self::Equals(text.to_lowercase()),
            Self::Regex(pattern) => Self::Regex(pattern),
            Self::Or(clauses) => Self::Or(all(clauses)),
            Self::And(clauses) => Self::And(all(clauses)),
        }
    }

    /// The first regular expression that cannot be compiled.
    pub(crate) fn bad_pattern(&self) -> Option<&str> {
        match self {
            Self::Regex(pattern) if pattern.compiled().is_none() => Some(&pattern.text),
            Self::Or(clauses) | Self::And(clauses) => clauses.iter().find_map(Self::bad_pattern),
            _ => None,
        }
    }
}

/// A regular expression, compiled when it is first needed.
///
/// A negative look-ahead at the start, `^(?!X)Y`, is read as "not `^X`, and `^Y`": the data has two of
/// them, and the linear-time engine has none.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Pattern {
    text: String,
    compiled: OnceLock<Option<Compiled>>,
}

#[derive(Debug)]
struct Compiled {
    wanted: Regex,
    unwanted: Option<Regex>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    fn is_match(&self, name: &str) -> bool {
        self.compiled().is_some_and(|compiled| {
            let unwanted = compiled.unwanted.as_ref().is_some_and(|regex| regex.is_match(name));
            !unwanted && compiled.wanted.is_match(name)
        })
    }

    fn compiled(&self) -> Option<&Compiled> {
        self.compiled.get_or_init(|| compile(&self.text)).as_ref()
    }
}

fn compile(text: &str) -> Option<Compiled> {
    let Some((unwanted, rest)) = text.strip_prefix("^(?!").and_then(split_group) else {
        return Some(Compiled { wanted: Regex::new(text).ok()?, unwanted: None });
    };
    let unwanted = Regex::new(&format!("^(?:{unwanted})")).ok()?;
    let wanted = Regex::new(&format!("^{rest}")).ok()?;
    Some(Compiled { wanted, unwanted: Some(unwanted) })
}

/// Splits at the `)` that closes a group whose `(` was already taken.
fn split_group(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut escaped, mut in_class) = (0, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => depth += 1,
            b')' if !in_class && depth == 0 => {
                return Some((text.get(..index)?, text.get(index + 1..)?));
            }
            b')' if !in_class => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
