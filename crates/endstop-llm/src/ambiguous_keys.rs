//! Keys that decide money or routing: each at most once, and only as the API writes it.
//!
//! Which of two equal keys counts, and whether `MAX_TOKENS` is `max_tokens`, is for each server to say. A cap that
//! is lowered in one of them would leave the other one in force.

use std::borrow::Cow;

use crate::ReadError;
use crate::json::{self, Raw};

/// A key that decides.
pub(crate) struct DecidingKey {
    /// How it may be written: one word for one thing, so that two spellings are twice the same key.
    spellings: &'static [&'static str],
    /// Keys of the object that is its value, or of each object in the list that is.
    inner: &'static [Self],
}

impl DecidingKey {
    pub(crate) const fn of(spellings: &'static [&'static str]) -> Self {
        Self { spellings, inner: &[] }
    }

    /// How it may be written.
    #[cfg(test)]
    pub(crate) const fn spellings(&self) -> &'static [&'static str] {
        self.spellings
    }

    pub(crate) const fn with(self, inner: &'static [Self]) -> Self {
        Self { spellings: self.spellings, inner }
    }
}

/// Keys of a tool that decide who runs it, how often, and which model it asks.
pub(crate) const TOOL_KEYS: &[DecidingKey] =
    &[DecidingKey::of(&["type"]), DecidingKey::of(&["max_uses"]), DecidingKey::of(&["model"])];

/// Keys of a model to fall back on.
pub(crate) const FALLBACK_KEYS: &[DecidingKey] = &[DecidingKey::of(&["model"])];

/// Checks an object, or each one in a list.
fn check_objects(value: Raw<'_>, keys: &[DecidingKey]) -> Result<(), ReadError> {
    if value.is_list() {
        return value.items().into_iter().try_for_each(|item| check_object(item, keys));
    }
    check_object(value, keys)
}

fn check_object(object: Raw<'_>, keys: &[DecidingKey]) -> Result<(), ReadError> {
    if !object.is_object() {
        return Ok(());
    }
    let members = object.members();
    if members.is_empty() && object.json().bytes().any(|byte| byte == b'"') {
        return Err(ReadError::TooManyMembers);
    }
    check_members(&members, keys)
}

/// Refuses an object with an ambiguous key that decides. A value that is not an object has no keys.
///
/// # Errors
/// Returns an error if one appears twice, or in letters of another case.
pub(crate) fn check_members(
    members: &[(json::Key<'_>, Raw<'_>)],
    keys: &[DecidingKey],
) -> Result<(), ReadError> {
    let mut found = vec![false; keys.len()];
    for (name, value) in members {
        let name = name.as_str();
        let folded = folded(name);
        let is_it = |(key, _): &(&DecidingKey, &mut bool)| {
            key.spellings.iter().any(|spelling| folded.eq_ignore_ascii_case(spelling))
        };
        let Some((key, is_there)) = keys.iter().zip(&mut found).find(is_it) else { continue };
        if !key.spellings.contains(&name) {
            let known = key.spellings.join("` or `");
            return Err(ReadError::Misspelled { key: name.to_owned(), known });
        }
        if std::mem::replace(is_there, true) {
            return Err(ReadError::Duplicate(name.to_owned()));
        }
        if !key.inner.is_empty() {
            check_objects(*value, key.inner)?;
        }
    }
    Ok(())
}

/// A key as a server reads it that passes over the case of letters, up to the case of ASCII: some take the long s and the
/// Kelvin sign for letters too.
fn folded(key: &str) -> Cow<'_, str> {
    if key.is_ascii() {
        return Cow::Borrowed(key);
    }
    let letters = key.chars().map(|letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other,
    });
    Cow::Owned(letters.collect())
}

/// A whole number that is not below `least`; `None` if it is absent or `null`.
///
/// # Errors
/// Returns an error if it is anything else: a server may read a number in it that is not read here.
pub(crate) fn whole(value: Raw<'_>, name: &str, least: u64) -> Result<Option<u64>, ReadError> {
    if !value.is_some() {
        return Ok(None);
    }
    let count = value.count().filter(|count| *count >= least);
    let wrong = || ReadError::NotACount { key: name.to_owned(), least };
    count.ok_or_else(wrong).map(Some)
}

/// A truth value; `false` if it is absent or `null`.
///
/// # Errors
/// Returns an error if it is anything else.
pub(crate) fn truth(value: Raw<'_>, name: &str) -> Result<bool, ReadError> {
    match value.json() {
        "true" => Ok(true),
        "" | "null" | "false" => Ok(false),
        _ => Err(ReadError::NotABool(name.to_owned())),
    }
}
