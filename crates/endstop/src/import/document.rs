//! Files that are one JSON document: read whole, up to a limit.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::part::Part;
use super::warning::{WarningKind, Warnings};

/// The largest document that is read, in bytes: it is held in memory while its runs are read one by one.
pub const MAX_DOCUMENT_BYTES: u64 = 1 << 30;

/// The document's bytes; `None`, with a warning, where it cannot be read or is too large.
pub(super) fn read_document(part: &Part, warnings: &mut Warnings) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read =
        part.open().and_then(|file| file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let message = || format!("cannot be read: {error}");
        warnings.add(WarningKind::Unreadable, part.name(), None, message);
        return None;
    }
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let message = || format!("more than {} MiB; not read", MAX_DOCUMENT_BYTES >> 20);
        warnings.add(WarningKind::TooLarge, part.name(), None, message);
        return None;
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Some(bytes)
}

/// A warning about what the JSON reader says of a document.
pub(super) fn warn_of(
    error: &serde_json::Error,
    document: &[u8],
    part: &Part,
    warnings: &mut Warnings,
) {
    let line = Some(error.line() as u64).filter(|line| *line > 0);
    // Every document that is whole ends with a bracket.
    let last = document.trim_ascii_end().last();
    if error.is_eof() || !matches!(last, Some(b']' | b'}')) {
        let message = || "the file ends in the middle of its document".to_owned();
        warnings.add(WarningKind::Truncated, part.name(), line, message);
    } else {
        let message = || format!("not a document of this format: {error}");
        warnings.add(WarningKind::Malformed, part.name(), line, message);
    }
}

/// Hands over the elements of the list that the document is, or that it holds under `key`, one by one and
/// unparsed; of an object also what stands beside the list. What comes before a cut or a fault is handed
/// over before the error.
pub(super) fn each_element<'d>(
    document: &'d [u8],
    key: &'static str,
    take: &mut dyn FnMut(Element<'d>),
) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(document);
    reader.deserialize_any(Elements { key: Some(key), take })?;
    reader.end()
}

/// A part of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element<'d> {
    /// An element of the list.
    Item(&'d RawValue),
    /// A key beside the list, and its value.
    Beside(&'d str, &'d RawValue),
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'d>(#[serde(borrow)] Cow<'d, str>);

struct Elements<'f, 'd> {
    key: Option<&'static str>,
    take: &'f mut dyn FnMut(Element<'d>),
}

impl<'d> DeserializeSeed<'d> for Elements<'_, 'd> {
    type Value = ();

    fn deserialize<D: Deserializer<'d>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'d> Visitor<'d> for Elements<'_, 'd> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            Some(key) => write!(f, "a list, or an object with the list `{key}`"),
            None => f.write_str("a list"),
        }
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            (self.take)(Element::Item(item));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'d>>(self, mut entries: A) -> Result<(), A::Error> {
        let Some(key) = self.key else {
            return Err(serde::de::Error::custom("an object where a list belongs"));
        };
        while let Some(name) = entries.next_key::<Key<'d>>()? {
            match name.0 {
                name if name == key => {
                    entries.next_value_seed(Elements { key: None, take: &mut *self.take })?;
                }
                Cow::Borrowed(name) => {
                    (self.take)(Element::Beside(name, entries.next_value()?));
                }
                Cow::Owned(_) => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
