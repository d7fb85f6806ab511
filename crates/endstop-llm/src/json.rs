//! Reading JSON without trusting its shape, and changing single values of it and nothing else of its text.
//!
//! Foreign data is read field by field: a value of the wrong kind counts as absent, of a repeated key the last value
//! counts (as in the usual parsers), and the depth of the text does not matter: unwanted values are skipped without
//! recursion.

use crate::limits::MAX_ITEMS;
use std::borrow::Cow;
use std::fmt;

use memchr::memchr;
use serde::de::{Deserializer, Error, Visitor};

mod splice;
mod walk;

use walk::parse_known;

pub(crate) use splice::{Changes, Object, SpliceError};
pub use walk::JsonError;
pub(crate) use walk::{FromJson, FromMembers, Walk, is_plain, parse, parse_noting};

/// A value as its text, which is known to be JSON; empty if it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw<'j>(&'j str);

impl<'j> Raw<'j> {
    /// The value that a text is; absent if it is not one.
    pub(crate) fn of(json: &'j str) -> Self {
        parse(json).unwrap_or_default()
    }

    /// Of a text that was read as one value, or as nothing. Later reads of it check nothing.
    const fn known(json: &'j str) -> Self {
        Self(json)
    }

    /// Its text; empty if it is absent.
    pub(crate) const fn json(self) -> &'j str {
        self.0
    }

    /// Whether it is there and not `null`.
    pub(crate) fn is_some(self) -> bool {
        !matches!(self.0, "" | "null")
    }

    /// Whether it is an object.
    pub(crate) fn is_object(self) -> bool {
        self.json().starts_with('{')
    }

    /// Whether it is a list.
    pub(crate) fn is_list(self) -> bool {
        self.json().starts_with('[')
    }

    /// The characters of a string. Halves of characters become U+FFFD.
    pub(crate) fn text(self) -> Option<Cow<'j, str>> {
        let json = self.json();
        let inner = json.strip_prefix('"')?.strip_suffix('"')?;
        if memchr(b'\\', inner.as_bytes()).is_none() {
            return Some(Cow::Borrowed(inner));
        }
        let text = serde_json::Deserializer::from_str(json).deserialize_bytes(Lossy);
        text.ok().map(|text| Cow::Owned(text.into_owned()))
    }

    /// The characters of a string that is not empty.
    pub(crate) fn word(self) -> Option<String> {
        self.text().map(Cow::into_owned).filter(|word| !word.is_empty())
    }

    /// A number that is a count: whole, or written with a fraction of zero. Strings of digits are none.
    pub(crate) fn count(self) -> Option<u64> {
        let json = self.json();
        json.parse().ok().or_else(|| {
            let number: f64 = serde_json::from_str(json).ok()?;
            let is_count = (0.0..9.0e15).contains(&number) && number.fract() == 0.0;
            is_count.then(|| format!("{number:.0}").parse().ok()).flatten()
        })
    }

    /// Whether it is `true`, in one of the ways that lenient servers take.
    pub(crate) fn is_true(self) -> bool {
        matches!(self.json(), "true" | "1" | "\"true\"")
    }

    /// Whether a server that takes anything for a truth value may take it for true.
    pub(crate) fn is_truthy(self) -> bool {
        let word = self.text().map(|word| word.trim().to_ascii_lowercase());
        match word.as_deref() {
            Some(word) => !matches!(word, "" | "0" | "false" | "f" | "no" | "n" | "off" | "null"),
            None => self.is_some() && !matches!(self.json(), "false" | "0" | "0.0" | "-0"),
        }
    }

    /// Its value; the default if it has another kind.
    pub(crate) fn read<T: FromJson<'j> + Default>(self) -> T {
        parse_known(self).unwrap_or_default()
    }

    /// The elements of a list; of anything else none.
    pub(crate) fn items(self) -> Vec<Raw<'j>> {
        self.read::<List<Raw<'j>>>().0
    }

    /// The members of an object, in order, with all duplicates; of anything else none.
    pub(crate) fn members(self) -> Vec<(Key<'j>, Raw<'j>)> {
        self.read::<Members<'j>>().0
    }
}

impl<'j> FromJson<'j> for Raw<'j> {
    fn from_json(walk: &mut Walk<'j>) -> Result<Self, JsonError> {
        walk.raw()
    }

    fn of_raw(raw: Self) -> Self {
        raw
    }
}

/// The key of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key<'j>(Cow<'j, str>);

impl Key<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads a string as bytes: only so are halves of characters no error.
struct Lossy;

impl<'de> Visitor<'de> for Lossy {
    type Value = Cow<'de, str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A list; empty where something else stands.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'j, T: FromJson<'j>> FromJson<'j> for List<T> {
    fn from_json(walk: &mut Walk<'j>) -> Result<Self, JsonError> {
        let mut items = Vec::new();
        walk.list(|walk| {
            if items.len() >= MAX_ITEMS {
                return Err(walk.broken("too many elements"));
            }
            items.push(T::from_json(walk)?);
            Ok(())
        })?;
        Ok(Self(items))
    }
}

/// A value with its text, and its members if it is an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry<'j> {
    raw: Raw<'j>,
    members: Members<'j>,
}

impl<'j> Entry<'j> {
    /// Of a value.
    pub(crate) fn of(raw: Raw<'j>) -> Self {
        Self { raw, members: raw.read() }
    }

    /// Its text.
    pub(crate) const fn raw(&self) -> Raw<'j> {
        self.raw
    }

    /// Its members, in order, with all duplicates.
    pub(crate) fn members(&self) -> &[(Key<'j>, Raw<'j>)] {
        &self.members.0
    }

    /// The value of a key; of several the last one.
    pub(crate) fn get(&self, key: &str) -> Raw<'j> {
        let mut members = self.members().iter().rev();
        members.find(|(known, _)| known.as_str() == key).map_or(Raw::default(), |(_, raw)| *raw)
    }
}

impl<'j> FromJson<'j> for Entry<'j> {
    fn from_json(walk: &mut Walk<'j>) -> Result<Self, JsonError> {
        let (raw, members) = walk.with_text()?;
        Ok(Self { raw, members })
    }
}

/// An object that is read as `T`, with its text and all its members.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadEntry<'j, T> {
    pub(crate) entry: Entry<'j>,
    pub(crate) value: T,
}

impl<'j, T: FromMembers<'j>> FromJson<'j> for ReadEntry<'j, T> {
    fn from_json(walk: &mut Walk<'j>) -> Result<Self, JsonError> {
        let entry = Entry::from_json(walk)?;
        let value = T::of_members(entry.members());
        Ok(Self { entry, value })
    }
}

/// The members of an object as they are.
#[derive(Clone, Debug, Default)]
struct Members<'j>(Vec<(Key<'j>, Raw<'j>)>);

impl<'j> FromJson<'j> for Members<'j> {
    fn from_json(walk: &mut Walk<'j>) -> Result<Self, JsonError> {
        let mut members = Vec::new();
        walk.object(|key, walk| {
            if members.len() >= MAX_ITEMS {
                return Err(walk.broken("too many members"));
            }
            members.push((key, walk.raw()?));
            Ok(())
        })?;
        Ok(Self(members))
    }
}

/// Declares the fields that are read of an object: name, kind, and the keys that it may have.
macro_rules! fields {
    ($(#[$meta:meta])* $name:ident<$life:lifetime> {
        $($field:ident: $kind:ty = $($key:literal)|+,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name<$life> {
            $(pub(crate) $field: $kind,)*
        }

        impl<$life> crate::json::FromJson<$life> for $name<$life> {
            fn from_json(
                walk: &mut crate::json::Walk<$life>,
            ) -> Result<Self, crate::json::JsonError> {
                let mut value = Self::default();
                walk.object(|key, walk| {
                    match key.as_str() {
                        $($($key)|+ => value.$field = crate::json::FromJson::from_json(walk)?,)*
                        _ => walk.skip()?,
                    }
                    Ok(())
                })?;
                Ok(value)
            }
        }

        impl<$life> crate::json::FromMembers<$life> for $name<$life> {
            fn of_members(
                members: &[(crate::json::Key<$life>, crate::json::Raw<$life>)],
            ) -> Self {
                let mut value = Self::default();
                for (key, raw) in members {
                    match key.as_str() {
                        $($($key)|+ => value.$field = crate::json::FromJson::of_raw(*raw),)*
                        _ => {}
                    }
                }
                value
            }
        }
    };
}

pub(crate) use fields;

#[cfg(test)]
mod tests;
