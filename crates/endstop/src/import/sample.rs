//! The runs that ship: invented, for a first look without transcripts of one's own.

use super::{Part, Transcript, format};

/// A file of the sample: its format, its name, its bytes.
type Row = (&'static str, &'static str, &'static [u8]);

/// The files; a row that follows with the format `""` is a sub-agent's file of the one before.
const FILES: &[Row] = &[];

/// The sample's transcripts.
#[must_use]
pub fn sample() -> Vec<Transcript> {
    let mut found: Vec<Transcript> = Vec::new();
    for (id, name, bytes) in FILES.iter().copied() {
        let part = Part::bytes(format!("sample/{name}"), bytes);
        match (format(id), found.last_mut()) {
            (Some(format), _) => {
                found.push(Transcript { format, main: part, children: Vec::new() });
            }
            (None, Some(last)) => last.children.push(part),
            (None, None) => {}
        }
    }
    found
}
