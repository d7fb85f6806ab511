//! Seals on the lines of a file that is only appended to: a number and a checksum for each line, and a mark that says how
//! many lines there are.
//!
//! ```text
//! {"endstop_trace":1,"run":"a","seq":0,"sum":"93a1…","end":"000000000003-5be2…"}
//! {"at":0,"event":"run_begin","seq":1,"sum":"f00c…"}
//! {"at":5,"event":"step_begin","seq":2,"sum":"12ab…"}
//! ```
//!
//! Each checksum covers its line and the checksum before it. So a line that was changed, moved, repeated, removed or taken
//! from another file is found, and the first line, which names the run, vouches for all. Lines that are missing at the
//! end would not be found by that: the mark counts the lines that were acknowledged. It is written after them, so a
//! process that is killed leaves at most lines that the mark does not count yet, never a mark without its lines.
//!
//! Decision: seals are no signatures. They find damage and mistakes, not a person with an editor and this page.

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Digits of a checksum: 64 bits in hexadecimal.
const SUM_DIGITS: usize = 16;
/// Digits of the number of lines in a mark, so that it can be replaced in its place: more lines than a disk has room for.
const COUNT_DIGITS: usize = 12;
/// Bytes of the longest seal of a line: its number has at most 20 digits.
pub(crate) const LONGEST_SEAL: usize = SEQ.len() + 20 + SUM.len() + SUM_DIGITS + CLOSE.len();
/// Bytes of a mark: the number, `-`, and its checksum.
pub(crate) const MARK_BYTES: usize = COUNT_DIGITS + 1 + SUM_DIGITS;

const SEQ: &[u8] = b",\"seq\":";
const SUM: &[u8] = b",\"sum\":\"";
const END: &[u8] = b",\"end\":\"";
const CLOSE: &[u8] = b"\"}";

/// The problem with a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// The line has none, or half of one.
    #[error("it has no checksum")]
    Missing,
    /// The line is in the place of another.
    #[error(
        "it has the number {found} in the place of {expected}: lines were removed, repeated or moved"
    )]
    Sequence {
        /// The number that it has.
        found: u64,
        /// The number of its place.
        expected: u64,
    },
    /// The checksum is that of another text, or of another file.
    #[error("its checksum does not match: it was changed, or is of another file")]
    Changed,
}

/// The lines of a file so far: how many, and the checksum of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineChain {
    lines: u64,
    sum: u64,
}

impl LineChain {
    /// The number of lines.
    pub(crate) const fn lines(&self) -> u64 {
        self.lines
    }

    /// The checksum of the last line.
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    /// Adds the next line, a JSON object without its line feed, to `into` with its seal and a line feed.
    pub(crate) fn seal(&mut self, line: &[u8], into: &mut Vec<u8>) {
        let begin = into.len();
        into.extend_from_slice(line.strip_suffix(b"}").unwrap_or(line));
        into.extend_from_slice(SEQ);
        into.extend_from_slice(self.lines.to_string().as_bytes());
        self.sum = xxh3_64_with_seed(into.get(begin..).unwrap_or_default(), self.sum);
        self.lines = self.lines.saturating_add(1);
        into.extend_from_slice(SUM);
        into.extend_from_slice(format!("{:016x}", self.sum).as_bytes());
        into.extend_from_slice(CLOSE);
        into.push(b'\n');
    }

    /// Checks the next line, without its line feed.
    pub(crate) fn check(&mut self, line: &[u8]) -> Result<(), SealError> {
        let Seal { sealed, number: found, sum, .. } = Seal::of(line).ok_or(SealError::Missing)?;
        if found != self.lines {
            return Err(SealError::Sequence { found, expected: self.lines });
        }
        if xxh3_64_with_seed(sealed, self.sum) != sum {
            return Err(SealError::Changed);
        }
        *self = Self { lines: self.lines.saturating_add(1), sum };
        Ok(())
    }

    /// The chain after a line of which this is the end, by what its seal says: nothing is checked.
    pub(crate) fn after(line: &[u8]) -> Option<Self> {
        let Seal { number, sum, .. } = Seal::of(line)?;
        Some(Self { lines: number.checked_add(1)?, sum })
    }
}

/// A line with its seal.
struct Seal<'l> {
    /// The line without its last brace.
    text: &'l [u8],
    /// The bytes that the checksum covers.
    sealed: &'l [u8],
    number: u64,
    sum: u64,
}

impl<'l> Seal<'l> {
    fn of(line: &'l [u8]) -> Option<Self> {
        let (rest, digits) = line.strip_suffix(CLOSE)?.split_last_chunk::<SUM_DIGITS>()?;
        let (sealed, sum) = (rest.strip_suffix(SUM)?, hex(digits)?);
        let digits = sealed.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, digits) = sealed.split_at_checked(sealed.len().saturating_sub(digits))?;
        let number = str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Self { text: text.strip_suffix(SEQ)?, sealed, number, sum })
    }
}

/// The JSON object that was sealed. Returns `None` if the line has no seal.
pub(crate) fn unsealed(line: &[u8]) -> Option<Vec<u8>> {
    let mut text = Seal::of(line)?.text.to_vec();
    text.push(b'}');
    Some(text)
}

fn hex(digits: &[u8]) -> Option<u64> {
    let is_lower = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(str::from_utf8(digits).ok().filter(|_| is_lower)?, 16).ok()
}

/// The mark of a file with this number of lines. `first` is the checksum of its first line.
pub(crate) fn mark(lines: u64, first: u64) -> [u8; MARK_BYTES] {
    let count = format!("{lines:012}");
    let text = format!("{count}-{:016x}", xxh3_64_with_seed(count.as_bytes(), first));
    let mut mark = [b'9'; MARK_BYTES];
    // Twelve digits last for all lines that are ever written.
    if let Some(text) = text.as_bytes().first_chunk() {
        mark = *text;
    }
    mark
}

/// Adds a mark to a sealed line that ends `into`. Returns where in `into` it begins.
pub(crate) fn push_mark(into: &mut Vec<u8>, mark: &[u8; MARK_BYTES]) -> usize {
    // Without `}` and the line feed.
    into.truncate(into.len().saturating_sub(2));
    into.extend_from_slice(END);
    let at = into.len();
    into.extend_from_slice(mark);
    into.extend_from_slice(CLOSE);
    into.push(b'\n');
    at
}

/// Where the mark begins in a line of this length, without its line feed.
pub(crate) fn mark_position(line: usize) -> u64 {
    u64::try_from(line.saturating_sub(CLOSE.len() + MARK_BYTES)).unwrap_or(u64::MAX)
}

/// Splits a line with a mark into the sealed line without it, and the mark.
pub(crate) fn split_mark(line: &[u8]) -> Option<(Vec<u8>, &[u8; MARK_BYTES])> {
    let (rest, mark) = line.strip_suffix(CLOSE)?.split_last_chunk::<MARK_BYTES>()?;
    let mut sealed = rest.strip_suffix(END)?.to_vec();
    sealed.push(b'}');
    Some((sealed, mark))
}

/// The number of lines that a mark says, if it is one of this file.
pub(crate) fn marked_lines(found: &[u8; MARK_BYTES], first: u64) -> Option<u64> {
    let lines = str::from_utf8(found.get(..COUNT_DIGITS)?).ok()?.parse().ok()?;
    (mark(lines, first) == *found).then_some(lines)
}

/// Whether bytes after the last whole line are what an interrupted write leaves: the beginning of a line, which begins with
/// `begin`.
pub(crate) fn is_torn_line(tail: &[u8], begin: &[u8]) -> bool {
    let is_begin = tail.iter().zip(begin).all(|(found, wanted)| found == wanted);
    let is_text = match str::from_utf8(tail) {
        Ok(_) => true,
        // The write can end in the middle of a character.
        Err(error) => error.error_len().is_none(),
    };
    is_begin && is_text && !tail.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests;
