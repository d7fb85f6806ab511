//! Keys that decide money or routing: each at most once, and only as the API writes it.
//!
//! Which of two equal keys counts, and whether `MAX_TOKENS` is `max_tokens`, is for each server to say. A cap that
//! is lowered in one of them would leave the other one in force.

use std::borrow::Cow;

use crate::ReadError;
use crate::json::{self, Raw, ReadEntry};

/// A key that decides.
pub(crate) struct DecidingKey {
    /// How it may be written: one word for one thing, so that two spellings are twice the same key.
    spellings: &'static [&'static str],
    /// A bit for the length of each spelling: most keys of an object have another one.
    lengths: u64,
    /// Keys of the object that is its value, or of each object in the list that is.
    inner: &'static [Self],
}

impl DecidingKey {
    pub(crate) const fn of(spellings: &'static [&'static str]) -> Self {
        let (mut lengths, mut rest) = (0u64, spellings);
        while let Some((first, others)) = rest.split_first() {
            lengths |= length_bit(first);
            rest = others;
        }
        Self { spellings, lengths, inner: &[] }
    }

    /// How it may be written.
    #[cfg(test)]
    pub(crate) const fn spellings(&self) -> &'static [&'static str] {
        self.spellings
    }

    pub(crate) const fn with(self, inner: &'static [Self]) -> Self {
        Self { spellings: self.spellings, lengths: self.lengths, inner }
    }

    /// Whether a key with this bit for its length is this one, in letters of any case.
    fn is(&self, folded: &str, length_bit: u64) -> bool {
        self.lengths & length_bit != 0
            && self.spellings.iter().any(|spelling| folded.eq_ignore_ascii_case(spelling))
    }
}

/// A bit that texts of the same length share.
const fn length_bit(text: &str) -> u64 {
    // Lengths 64 apart share one too.
    1u64 << (text.len() & 63)
}

/// The key of the tools of a request.
pub(crate) const TOOLS: &str = "tools";

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
    check_with(members, keys, |_, value, inner| check_objects(value, inner))
}

/// Like [`check_members`], for a request whose `tools` are known: all elements, if that is a list.
pub(crate) fn check_request<T>(
    members: &[(json::Key<'_>, Raw<'_>)],
    keys: &[DecidingKey],
    tools: &[ReadEntry<'_, T>],
) -> Result<(), ReadError> {
    check_with(members, keys, |name, value, inner| {
        if name == TOOLS && value.is_list() {
            return tools.iter().try_for_each(|it| check_members(it.entry.members(), inner));
        }
        check_objects(value, inner)
    })
}

/// Checks members, and with `check_inner` the value of each key that has keys inside.
fn check_with(
    members: &[(json::Key<'_>, Raw<'_>)],
    keys: &[DecidingKey],
    check_inner: impl Fn(&str, Raw<'_>, &[DecidingKey]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    debug_assert!(keys.len() <= 64, "each key has its own bit");
    let mut found = 0u64;
    for (name, value) in members {
        let name = name.as_str();
        let folded = folded(name);
        let length = length_bit(&folded);
        let is_it = |(_, key): &(u32, &DecidingKey)| key.is(&folded, length);
        let Some((at, key)) = (0u32..).zip(keys).find(is_it) else { continue };
        if !key.spellings.contains(&name) {
            let known = key.spellings.join("` or `");
            return Err(ReadError::Misspelled { key: name.to_owned(), known });
        }
        let bit = 1u64.rotate_left(at);
        if found & bit != 0 {
            return Err(ReadError::Duplicate(name.to_owned()));
        }
        found |= bit;
        if !key.inner.is_empty() {
            check_inner(name, *value, key.inner)?;
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
