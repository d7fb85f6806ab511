//! Values of this crate as JSON, in one place: one that became empty text would be stored as nothing was.

use serde::Serialize;

/// The JSON of a value.
pub(crate) fn json_of(value: &(impl Serialize + ?Sized)) -> String {
    match serde_json::to_string(value) {
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

#[cold]
fn unwritten(error: &serde_json::Error) -> ! {
    unreachable!("texts and numbers can be written to memory: {error}")
}
