//! Near-duplicate replies: a 64-bit similarity hash over word triples, streamed.
//!
//! The reply is read as lower-case words of letters and digits. Two replies are nearly the same if their
//! hashes differ in at most [`MAX_DISTANCE`] bits; replies of fewer than [`MIN_WORDS`] words ("yes",
//! "done, thank you") never are.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Replies that a new one is compared with.
pub(crate) const REMEMBERED: usize = 8;
/// Shorter replies are agreement, not repetition.
const MIN_WORDS: u32 = 12;
/// Bits of 64 in which the hashes of nearly equal replies may differ.
const MAX_DISTANCE: u32 = 3;
/// Longest word that is told apart, in bytes; longer ones (base64 and the like) are hashed by their head.
const MAX_WORD: usize = 64;

/// The hash of the reply that is being streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplyHash {
    word: [u8; MAX_WORD],
    word_length: u8,
    words: u32,
    last_two: [u64; 2],
    balance: [i32; 64],
}

impl Default for ReplyHash {
    fn default() -> Self {
        Self { word: [0; MAX_WORD], word_length: 0, words: 0, last_two: [0; 2], balance: [0; 64] }
    }
}

impl ReplyHash {
    /// The word, the number of words, the last two hashes and the balance, for saving.
    pub(crate) fn parts(&self) -> (&[u8], u32, [u64; 2], &[i32]) {
        let word = self.word.get(..usize::from(self.word_length)).unwrap_or(&[]);
        (word, self.words, self.last_two, &self.balance)
    }

    /// The inverse of [`ReplyHash::parts`]; what is too long is cut.
    pub(crate) fn from_parts(word: &[u8], words: u32, last_two: [u64; 2], balance: &[i32]) -> Self {
        let mut reply = Self { words, last_two, ..Self::default() };
        for (slot, byte) in reply.word.iter_mut().zip(word) {
            *slot = *byte;
            reply.word_length += 1;
        }
        for (slot, value) in reply.balance.iter_mut().zip(balance) {
            *slot = *value;
        }
        reply
    }

    /// Adds a piece; any split gives the same hash.
    pub(crate) fn feed(&mut self, piece: &str) {
        for c in piece.chars() {
            if !c.is_alphanumeric() {
                self.end_word();
                continue;
            }
            for lower in c.to_lowercase() {
                let mut bytes = [0; 4];
                for &byte in lower.encode_utf8(&mut bytes).as_bytes() {
                    if let Some(slot) = self.word.get_mut(usize::from(self.word_length)) {
                        *slot = byte;
                        self.word_length += 1;
                    }
                }
            }
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.get(..usize::from(self.word_length)).filter(|w| !w.is_empty())
        else {
            return;
        };
        let hash = xxh3_64(word);
        self.word_length = 0;
        self.words = self.words.saturating_add(1);
        let [first, second] = self.last_two;
        self.last_two = [second, hash];
        if self.words < 3 {
            return;
        }
        let shingle = xxh3_64_with_seed(&hash.to_le_bytes(), first.rotate_left(17) ^ second);
        for (bit, balance) in self.balance.iter_mut().enumerate() {
            let up = (shingle >> bit) & 1 == 1;
            *balance = balance.saturating_add(if up { 1 } else { -1 });
        }
    }

    /// The reply's hash, or `None` if it is too short to be compared. Starts afresh.
    pub(crate) fn finish(&mut self) -> Option<u64> {
        self.end_word();
        let done = core::mem::take(self);
        if done.words < MIN_WORDS {
            return None;
        }
        let bits = done.balance.iter().enumerate();
        Some(bits.filter(|(_, balance)| **balance > 0).fold(0, |hash, (bit, _)| hash | (1 << bit)))
    }
}

/// The hashes of the last replies that were long enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastReplies {
    pub(crate) hashes: [u64; REMEMBERED],
    pub(crate) count: u64,
}

impl LastReplies {
    /// Whether the reply is nearly one of the remembered ones.
    pub(crate) fn has_near(&self, hash: u64) -> bool {
        let known = usize::try_from(self.count).unwrap_or(REMEMBERED).min(REMEMBERED);
        self.hashes.iter().take(known).any(|old| (old ^ hash).count_ones() <= MAX_DISTANCE)
    }

    /// Remembers one more.
    pub(crate) fn push(&mut self, hash: u64) {
        let slot = usize::try_from(self.count % REMEMBERED as u64).unwrap_or(0);
        if let Some(old) = self.hashes.get_mut(slot) {
            *old = hash;
        }
        self.count = self.count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> Option<u64> {
        let mut reply = ReplyHash::default();
        reply.feed(text);
        reply.finish()
    }

    const LONG: &str = "I will now run the tests again to see whether the failing import has been fixed by the last edit.";

    #[test]
    fn case_space_and_punctuation_do_not_matter() {
        let shouted = LONG.to_uppercase().replace(' ', "\n  ").replace('.', "!!");
        assert_eq!(hash(LONG), hash(&shouted));
    }

    #[test]
    fn short_agreement_is_excepted() {
        assert_eq!(hash("Yes, that is right."), None);
    }

    #[test]
    fn any_split_gives_the_same_hash() {
        for cut in 0..LONG.len() {
            let mut reply = ReplyHash::default();
            reply.feed(&LONG[..cut]);
            reply.feed(&LONG[cut..]);
            assert_eq!(reply.finish(), hash(LONG), "cut at {cut}");
        }
    }

    #[test]
    fn the_last_eight_are_remembered() {
        let mut last = LastReplies::default();
        assert!(!last.has_near(0));
        for i in 1..=9u64 {
            last.push(xxh3_64(&i.to_le_bytes()));
        }
        assert!(!last.has_near(xxh3_64(&1u64.to_le_bytes())));
        assert!(last.has_near(xxh3_64(&2u64.to_le_bytes()) ^ 0b111));
    }
}
