//! Output that grows without end, kept within bounds: its beginning and its end.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of a stream.
#[derive(Debug)]
pub(super) struct HeadAndTail {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl HeadAndTail {
    /// Keeps `limit` bytes of the beginning and as many of the end.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.limit.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.limit);
        self.tail.drain(..over);
        self.left_out = self.left_out.saturating_add(u64::try_from(over).unwrap_or(u64::MAX));
    }

    /// The text, with a line for the omitted part. Invalid UTF-8 is replaced.
    pub(super) fn into_text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.left_out == 0 {
            let all = [self.head, tail].concat();
            return String::from_utf8_lossy(&all).into_owned();
        }
        // A character that was cut in two is left out whole.
        let head = String::from_utf8_lossy(whole_characters(&self.head)).into_owned();
        let begin = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let tail = String::from_utf8_lossy(tail.get(begin..).unwrap_or_default()).into_owned();
        format!("{head}\n[{} bytes left out]\n{tail}", self.left_out)
    }
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Bytes without the character that their end cuts in two.
pub(super) fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or_default()
        }
        _ => bytes,
    }
}

#[cfg(test)]
mod tests;
