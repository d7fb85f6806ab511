//! The label of a run in a list, taken from its state.
//!
//! A separate file because every store uses it, and none of them reads anything else of a state.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::limits::{MAX_LABEL_CHARS, MAX_LABEL_SEARCH_BYTES};

/// The text of the key `label` near the beginning of a JSON object; empty if it is missing.
pub(super) fn of_state(state: &str) -> String {
    let head = state.get(..state.floor_char_boundary(MAX_LABEL_SEARCH_BYTES)).unwrap_or_default();
    let mut label = None;
    let mut reader = serde_json::Deserializer::from_str(head);
    // The head is cut, and reading ends at the label: what counts is what was found before the error.
    drop(Find(&mut label).deserialize(&mut reader));
    label.as_deref().map(printable).unwrap_or_default()
}

/// Labels are printed to terminals.
fn printable(label: &str) -> String {
    label.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LABEL_CHARS).collect()
}

struct Find<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "label" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
