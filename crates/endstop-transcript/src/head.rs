//! The beginning and the end of a file, which show its format.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};

use super::part::Part;
use crate::limits::{HEAD_BYTES, HEAD_LINES, TAIL_BYTES};

/// The beginning and the end of a file.
///
/// ```
/// use endstop_transcript::{FORMATS, Head};
///
/// let text = b"{\"endstop_trace\":1,\"run\":\"nightly-17\"}\n";
/// let head = Head::new(text, b"");
/// let format = FORMATS.iter().find(|format| format.detect(&head)).unwrap();
/// assert_eq!(format.id(), "endstop");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Head<'a> {
    bytes: &'a [u8],
    tail: &'a [u8],
    keys: Vec<Keys>,
}

/// The keys of an object, or of the first object of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// Whether the object is the first of a list.
    pub(super) in_list: bool,
    names: BTreeSet<String>,
}

impl Keys {
    /// Whether all of these keys are present.
    pub(super) fn have(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.names.contains(*name))
    }
}

impl<'a> Head<'a> {
    /// Reads the head of a file that begins with `bytes` and ends with `tail`; both may be cut anywhere.
    #[must_use]
    pub fn new(bytes: &'a [u8], tail: &'a [u8]) -> Self {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = lines.filter(|line| !line.is_empty()).take(HEAD_LINES);
        let mut keys: Vec<Keys> = lines.map(keys_of).collect();
        // A document is not cut into lines.
        keys.insert(0, keys_of(bytes));
        Self { bytes, tail, keys }
    }

    /// The keys of the document's object, or of the first object of its list.
    pub(super) fn document(&self) -> Option<&Keys> {
        self.keys.first()
    }

    /// The keys of the document, if it is an object.
    pub(super) fn object(&self) -> Option<&Keys> {
        self.document().filter(|keys| !keys.in_list)
    }

    /// The keys of the document's first object, if it is a list.
    pub(super) fn list(&self) -> Option<&Keys> {
        self.document().filter(|keys| keys.in_list)
    }

    /// The keys of the first lines' objects.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Keys> {
        self.keys.iter().skip(1).filter(|keys| !keys.in_list)
    }

    /// Whether the text, quotes included, is in the head or the tail.
    pub(super) fn mentions(&self, text: &str) -> bool {
        [self.bytes, self.tail]
            .iter()
            .any(|bytes| memchr::memmem::find(bytes, text.as_bytes()).is_some())
    }

    /// The bytes that the file begins with.
    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Reads the beginning and the end of a part.
pub(super) fn ends_of(part: &Part) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut head = Vec::new();
    part.open()?.take(HEAD_BYTES).read_to_end(&mut head)?;
    let mut tail = Vec::new();
    if let Some(length) = part.length().filter(|length| *length > HEAD_BYTES) {
        let mut whole = part.open_to_seek()?;
        whole.seek(SeekFrom::Start(length - TAIL_BYTES.min(length)))?;
        whole.take(TAIL_BYTES).read_to_end(&mut tail)?;
    }
    Ok((head, tail))
}

/// The keys of a part's document, or of its first line; `None` if it is blank. A part that cannot be opened is blank:
/// reading it reports the error.
pub(super) fn first_keys(part: &Part) -> Option<Keys> {
    let (head, _) = ends_of(part).unwrap_or_default();
    (!head.trim_ascii().is_empty()).then(|| keys_of(&head))
}

/// The keys at the top of a JSON text that may be cut anywhere.
fn keys_of(text: &[u8]) -> Keys {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    let mut keys = Keys { in_list: text.first() == Some(&b'['), ..Keys::default() };
    let top = if keys.in_list { 2 } else { 1 };
    let mut depth = 0usize;
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth < top {
                    break;
                }
            }
            b'"' => {
                let Some(end) = string_end(rest) else { break };
                let (string, after) = rest.split_at(end);
                rest = after.get(1..).unwrap_or_default();
                if depth == top && rest.trim_ascii_start().first() == Some(&b':') {
                    keys.names.insert(String::from_utf8_lossy(string).into_owned());
                }
            }
            _ => {}
        }
        let opened = depth > 0;
        if !opened && !byte.is_ascii_whitespace() {
            break;
        }
    }
    keys
}

/// The end of the string that begins here.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests;
