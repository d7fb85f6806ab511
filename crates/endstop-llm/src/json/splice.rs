//! Changes of single values: the rest of the text stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;
use std::str::Utf8Error;

use thiserror::Error;

use super::{JsonError, Key, Members, Raw, parse};

/// Why a text cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum SpliceError {
    #[error(transparent)]
    Utf8(#[from] Utf8Error),
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("not a readable JSON object")]
    NoObject,
}

/// An object inside a text, with the place of each value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object<'j> {
    /// Of the closing brace.
    end: usize,
    members: Vec<(Key<'j>, Range<usize>)>,
}

impl Object<'static> {
    /// The object that `text` is, whose members are known. `keys` are those that need not be copied.
    pub(crate) fn known(
        text: &str,
        members: &[(Key<'_>, Raw<'_>)],
        keys: &[&'static str],
    ) -> Option<Self> {
        let end = text.trim_ascii_end().strip_suffix('}')?.len();
        let place = |raw: Raw<'_>| {
            let start = raw.json().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
            Some(start..start.checked_add(raw.json().len())?)
        };
        let mut known = Vec::with_capacity(members.len());
        for (key, value) in members {
            let usual = keys.iter().find(|usual| **usual == key.as_str());
            let key =
                usual.map_or_else(|| Cow::Owned(key.as_str().to_owned()), |it| Cow::Borrowed(*it));
            known.push((Key(key), place(*value)?));
        }
        Some(Self { end, members: known })
    }
}

impl Object<'_> {
    /// The place of the value of a key; of several the last one, which is what parsers take.
    pub(crate) fn get(&self, key: &str) -> Option<Range<usize>> {
        self.all(key).last()
    }

    /// The places of all values of a key.
    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = Range<usize>> {
        self.members
            .iter()
            .filter(move |(known, _)| known.as_str() == key)
            .map(|(_, place)| place.clone())
    }
}

/// Changes of a text that is one JSON object, to be made together. Places are those of the unchanged text, and
/// each is changed at most once.
#[derive(Clone, Debug)]
pub(crate) struct Changes<'j> {
    text: &'j str,
    splices: Vec<(Range<usize>, String)>,
}

impl<'j> Changes<'j> {
    /// No changes yet, and their object. The error says why the text is not an object.
    pub(crate) fn of(body: &'j [u8]) -> Result<(Self, Object<'j>), SpliceError> {
        let text = std::str::from_utf8(body)?;
        let changes = Self::of_text(text);
        let members: Members<'_> = parse(text)?;
        let root = changes.object_of(Raw::known(text.trim_ascii()), members);
        Ok((changes, root.ok_or(SpliceError::NoObject)?))
    }

    /// None yet, of a text whose places are known.
    pub(crate) const fn of_text(text: &'j str) -> Self {
        Self { text, splices: Vec::new() }
    }

    /// The value at a place. It is checked: the places may be those of another text.
    pub(crate) fn value(&self, place: &Range<usize>) -> Raw<'j> {
        Raw::of(self.text_at(place))
    }

    fn text_at(&self, place: &Range<usize>) -> &'j str {
        self.text.get(place.clone()).unwrap_or_default().trim_ascii()
    }

    /// The object at a place, if there is one.
    pub(crate) fn object(&self, place: Range<usize>) -> Option<Object<'j>> {
        let text = self.text_at(&place);
        let members = parse(text).ok()?;
        self.object_of(Raw::known(text), members)
    }

    fn object_of(&self, value: Raw<'j>, members: Members<'j>) -> Option<Object<'j>> {
        let end = self.end_of(value, '{')?;
        let members = members.0.into_iter();
        let members = members.map(|(key, value)| Some((key, self.place(value)?)));
        Some(Object { end, members: members.collect::<Option<_>>()? })
    }

    /// The place of the whole text.
    pub(crate) const fn whole(&self) -> Range<usize> {
        0..self.text.len()
    }

    /// The place of a value that was read from this text.
    pub(crate) fn place(&self, value: Raw<'j>) -> Option<Range<usize>> {
        let (text, part) = (self.text.as_ptr().addr(), value.json().as_ptr().addr());
        let start = part.checked_sub(text)?;
        let place = start..start.checked_add(value.json().len())?;
        (self.text.get(place.clone()) == Some(value.json())).then_some(place)
    }

    /// Puts a value in the place of another.
    pub(crate) fn replace(&mut self, place: Range<usize>, value: &str) {
        self.splices.push((place, value.to_owned()));
    }

    /// Sets all values of a key, and adds it if it is missing. `key` has no character that JSON escapes.
    pub(crate) fn set(&mut self, object: &Object<'_>, key: &str, value: &str) {
        let mut places = object.all(key).peekable();
        if places.peek().is_none() {
            self.add(object, key, value);
        }
        for place in places {
            self.replace(place, value);
        }
    }

    /// Sets a value one level further down, where the upper one may be absent or no object.
    pub(crate) fn set_inner(&mut self, object: &Object<'_>, outer: &str, key: &str, value: &str) {
        let whole = format!("{{\"{key}\":{value}}}");
        let mut places = object.all(outer).peekable();
        if places.peek().is_none() {
            self.add(object, outer, &whole);
        }
        for place in places {
            match self.object(place.clone()) {
                Some(inner) => self.set(&inner, key, value),
                None => self.replace(place, &whole),
            }
        }
    }

    /// Adds a member behind the others.
    pub(crate) fn add(&mut self, object: &Object<'_>, key: &str, value: &str) {
        let is_first = object.members.is_empty() && !self.has_insertion(object.end);
        let comma = if is_first { "" } else { "," };
        self.splices.push((object.end..object.end, format!("{comma}\"{key}\":{value}")));
    }

    /// Removes all members with one of these keys of the object at a place, unless nothing else would be left. At
    /// most once of an object, and not with another change of them.
    pub(crate) fn remove(&mut self, object: Range<usize>, keys: &[&str]) {
        let start = object.start;
        let Some(Object { members, .. }) = self.object(object) else { return };
        let stays = |(key, _): &(Key<'_>, Range<usize>)| !keys.contains(&key.as_str());
        let Some(first) = members.iter().position(stays) else { return };
        let opening = self.text.get(start..).and_then(|text| text.find('{'));
        let Some(opening) = opening else { unreachable!("an object begins with a brace") };
        let begin = start.saturating_add(opening).saturating_add(1);
        let mut before = begin;
        for (at, member) in members.iter().enumerate() {
            if at > first && !stays(member) {
                // With the comma before it.
                self.replace(before..member.1.end, "");
            } else if at.checked_add(1) == Some(first) {
                let comma = self.text.get(member.1.end..).and_then(|rest| rest.find(','));
                let Some(comma) = comma else { unreachable!("another member follows a comma") };
                let end = member.1.end.saturating_add(comma).saturating_add(1);
                self.replace(begin..end, "");
            }
            before = member.1.end;
        }
    }

    /// Adds an element after the others of the list at a place. Returns `false` if that is not a list.
    pub(crate) fn push(&mut self, list: &Range<usize>, value: &str) -> bool {
        let text = self.value(list);
        let Some(end) = self.end_of(text, '[') else { return false };
        let inner = text.json().trim_start_matches('[').trim_start();
        let is_first = inner.starts_with(']') && !self.has_insertion(end);
        let comma = if is_first { "" } else { "," };
        self.splices.push((end..end, format!("{comma}{value}")));
        true
    }

    /// Adds to the text of the string at a place. Returns `false` if that is not a string.
    pub(crate) fn extend_text(&mut self, string: &Range<usize>, more: &str) -> bool {
        let Some(end) = self.end_of(self.value(string), '"') else { return false };
        let more = serde_json::Value::from(more).to_string();
        let more = more.get(1..more.len().saturating_sub(1)).unwrap_or_default();
        self.splices.push((end..end, more.to_owned()));
        true
    }

    /// The text with the changes.
    pub(crate) fn apply(mut self) -> Vec<u8> {
        // Stable: insertions at one place stay in order.
        self.splices.sort_by_key(|(place, _)| place.start);
        let more: usize = self.splices.iter().map(|(_, value)| value.len()).sum();
        let mut out = Vec::with_capacity(self.text.len().saturating_add(more));
        let mut at = 0;
        for (place, value) in &self.splices {
            let before = self.text.get(at..place.start).unwrap_or_default();
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(value.as_bytes());
            at = place.end.max(at);
        }
        out.extend_from_slice(self.text.get(at..).unwrap_or_default().as_bytes());
        out
    }

    /// Where the last character of a value is that begins with `first`.
    fn end_of(&self, value: Raw<'j>, first: char) -> Option<usize> {
        let place = self.place(value).filter(|_| value.json().starts_with(first))?;
        place.end.checked_sub(1)
    }

    fn has_insertion(&self, at: usize) -> bool {
        self.splices.iter().any(|(place, _)| place.start == at && place.end == at)
    }
}

#[cfg(test)]
mod tests;
