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
/// The longest seal of a line: its number has at most 20 digits.
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
mod tests {
    use super::*;

    const EVENT: &[u8] = b"{\"at\":";
    const LINES: [&str; 3] = ["{\"a\":1}", "{\"b\":\"é\"}", "{\"c\":3}"];

    fn sealed() -> Vec<Vec<u8>> {
        let (mut chain, mut file) = (LineChain::default(), Vec::new());
        LINES.iter().for_each(|line| chain.seal(line.as_bytes(), &mut file));
        file.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    }

    fn checked(lines: &[Vec<u8>]) -> Result<u64, SealError> {
        let mut chain = LineChain::default();
        lines.iter().try_for_each(|line| chain.check(line))?;
        Ok(chain.lines())
    }

    #[test]
    fn sealed_lines_are_json_with_what_they_had() {
        let lines = sealed();
        assert_eq!(checked(&lines), Ok(3));
        for (number, line) in lines.iter().enumerate() {
            let value: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!(value["seq"], number);
        }
        assert!(lines[1].starts_with("{\"b\":\"é\",\"seq\":1,\"sum\":\"".as_bytes()));
        let without: Vec<_> = lines.iter().map(|line| unsealed(line).unwrap()).collect();
        assert_eq!(without, LINES.map(|line| line.as_bytes().to_vec()));
        assert_eq!(unsealed(b"{\"a\":1}"), None);
    }

    #[test]
    fn lines_that_were_changed_moved_repeated_or_removed_are_found() {
        let lines = sealed();
        let of = |order: &[usize]| order.iter().map(|at| lines[*at].clone()).collect::<Vec<_>>();
        let sequence = |found, expected| Err(SealError::Sequence { found, expected });
        assert_eq!(checked(&of(&[0, 2])), sequence(2, 1));
        assert_eq!(checked(&of(&[1, 0, 2])), sequence(1, 0));
        assert_eq!(checked(&of(&[0, 1, 1, 2])), sequence(1, 2));
        for line in 0..lines.len() {
            for at in 0..lines[line].len() {
                for bit in 0..8 {
                    let mut changed = lines.clone();
                    changed[line][at] ^= 1 << bit;
                    assert!(checked(&changed).is_err(), "line {line}, byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_mark_counts_the_lines_of_its_own_file() {
        let mut file = Vec::new();
        let mut chain = LineChain::default();
        chain.seal(LINES[0].as_bytes(), &mut file);
        let (plain, first) = (file.clone(), chain.sum());
        let at = push_mark(&mut file, &mark(7, first));
        assert_eq!(file[at..][..MARK_BYTES], mark(7, first));
        let (sealed, found) = split_mark(file.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(sealed, plain.strip_suffix(b"\n").unwrap());
        assert_eq!(marked_lines(found, first), Some(7));
        assert_eq!(marked_lines(found, first ^ 1), None);
        let mut changed = *found;
        changed[COUNT_DIGITS - 1] = b'6';
        assert_eq!(marked_lines(&changed, first), None);
    }

    #[test]
    fn half_a_line_begins_as_a_line_does() {
        for torn in ["", "{", "{\"a", "{\"at\":1,\"event\":\"pie"] {
            assert!(is_torn_line(torn.as_bytes(), EVENT), "{torn}");
        }
        for garbage in [
            &b"\0\0"[..],
            b"x",
            b"{\"bt\":",
            b"{\"at\":\x01",
            b"{\"at\":\xff\xfe1",
            b"\xef\xbb\xbf",
        ] {
            assert!(!is_torn_line(garbage, EVENT), "{garbage:?}");
        }
        let cut = "{\"at\":1,\"text\":\"é";
        assert!(is_torn_line(&cut.as_bytes()[..cut.len() - 1], EVENT));
    }
}
