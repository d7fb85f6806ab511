//! Values of this crate as JSON.
//!
//! A separate file because stores, traces and reports all write values, and a failure must not leave empty text in any of them.

#[cfg(any(feature = "redis", feature = "sqlite"))]
use serde::Deserialize;
use serde::Serialize;
#[cfg(feature = "sqlite")]
use serde_json::value::{RawValue, to_raw_value};

/// The JSON of a value.
pub(crate) fn json_of(value: &(impl Serialize + ?Sized)) -> String {
    match serde_json::to_string(value) {
        Ok(text) => text,
        Err(error) => unwritten(&error),
    }
}

/// The JSON of a value that is part of many others.
#[cfg(feature = "sqlite")]
pub(crate) fn raw_json_of(value: &impl Serialize) -> Box<RawValue> {
    match to_raw_value(value) {
        Ok(text) => text,
        Err(error) => unwritten(&error),
    }
}

/// Appends the JSON of a value, and a line feed.
pub(crate) fn push_json_line(into: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    if let Err(error) = serde_json::to_writer(&mut *into, value) {
        unwritten(&error);
    }
    into.push(b'\n');
}

/// The `version` of a stored line, whatever else its version has.
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(crate) fn version_of_line(line: &[u8]) -> serde_json::Result<u64> {
    #[derive(Deserialize)]
    struct LineVersion {
        version: u64,
    }
    serde_json::from_slice(line).map(|LineVersion { version }| version)
}

#[cold]
fn unwritten(error: &serde_json::Error) -> ! {
    unreachable!("texts and numbers can be written to memory: {error}")
}
