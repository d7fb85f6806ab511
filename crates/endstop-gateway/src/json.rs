//! Reading JSON without trusting its shape, and changing single values of it and nothing else of its text.
//!
//! What others send is read field by field: a value of the wrong kind counts as absent, of a key that is there
//! twice the last value counts (as in the usual parsers), and nothing is as deep as the text is: values that are
//! not asked for are skipped without recursion.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use memchr::memchr;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

mod splice;

pub(crate) use splice::{Changes, Object};

/// Most elements of one list, and members of one object, that are read; more is an error.
pub(crate) const MAX_ITEMS: usize = 1 << 16;

/// A value as its text; empty where it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw<'j>(&'j str);

impl<'j> Raw<'j> {
    /// Of a text that is one JSON value.
    pub(crate) const fn of(json: &'j str) -> Self {
        Self(json)
    }

    /// Its text; empty where it is absent.
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

    /// Its value; the default where it is none of this kind.
    pub(crate) fn read<T: Deserialize<'j> + Default>(self) -> T {
        serde_json::from_str(self.0).unwrap_or_default()
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

impl<'de: 'j, 'j> Deserialize<'de> for Raw<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self::of(raw.get()))
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

impl<'de: 'j, 'j> Deserialize<'de> for Key<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Lossy).map(Self)
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

/// What takes its value from a list or an object, and has a default for all else.
pub(crate) trait Soft<'j>: Default {
    /// Takes one member of an object.
    fn member<A: MapAccess<'j>>(&mut self, key: Key<'j>, map: &mut A) -> Result<(), A::Error>;

    /// Takes the next element of a list; `false` where there is none.
    fn element<A: SeqAccess<'j>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        Ok(list.next_element::<IgnoredAny>()?.is_some())
    }
}

/// Reads what may be of any kind.
pub(crate) fn soft<'j, T: Soft<'j>, D: Deserializer<'j>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(SoftVisitor(PhantomData))
}

struct SoftVisitor<T>(PhantomData<T>);

impl<'j, T: Soft<'j>> Visitor<'j> for SoftVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<T, A::Error> {
        let mut value = T::default();
        while let Some(key) = map.next_key()? {
            value.member(key, &mut map)?;
        }
        Ok(value)
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut list: A) -> Result<T, A::Error> {
        let mut value = T::default();
        while value.element(&mut list)? {}
        Ok(value)
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Ok(T::default())
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

impl<'j, T: Deserialize<'j>> Soft<'j> for List<T> {
    fn member<A: MapAccess<'j>>(&mut self, _: Key<'j>, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }

    fn element<A: SeqAccess<'j>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let Some(item) = list.next_element()? else { return Ok(false) };
        if self.0.len() >= MAX_ITEMS {
            return Err(A::Error::custom(format_args!("a list of more than {MAX_ITEMS}")));
        }
        self.0.push(item);
        Ok(true)
    }
}

impl<'j, T: Deserialize<'j>> Deserialize<'j> for List<T> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        soft(deserializer)
    }
}

/// The members of an object as they are.
#[derive(Default)]
struct Members<'j>(Vec<(Key<'j>, Raw<'j>)>);

impl<'j> Soft<'j> for Members<'j> {
    fn member<A: MapAccess<'j>>(&mut self, key: Key<'j>, map: &mut A) -> Result<(), A::Error> {
        if self.0.len() >= MAX_ITEMS {
            return Err(A::Error::custom(format_args!("an object of more than {MAX_ITEMS}")));
        }
        self.0.push((key, map.next_value()?));
        Ok(())
    }
}

impl<'j> Deserialize<'j> for Members<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        soft(deserializer)
    }
}

/// Declares what is read of an object: field, kind, and the keys that it may have.
macro_rules! fields {
    ($(#[$meta:meta])* $name:ident<$life:lifetime> {
        $($field:ident: $kind:ty = $($key:literal)|+,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub(super) struct $name<$life> {
            $(pub(super) $field: $kind,)*
        }

        impl<$life> crate::json::Soft<$life> for $name<$life> {
            fn member<A: serde::de::MapAccess<$life>>(
                &mut self,
                key: crate::json::Key<$life>,
                map: &mut A,
            ) -> Result<(), A::Error> {
                match key.as_str() {
                    $($($key)|+ => self.$field = map.next_value()?,)*
                    _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
                }
                Ok(())
            }
        }

        impl<$life> serde::Deserialize<$life> for $name<$life> {
            fn deserialize<D: serde::Deserializer<$life>>(from: D) -> Result<Self, D::Error> {
                crate::json::soft(from)
            }
        }
    };
}

pub(crate) use fields;

#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod splice_tests;
