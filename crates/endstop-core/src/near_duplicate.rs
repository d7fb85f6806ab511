//! Near-duplicate responses: a 64-bit similarity hash over word triples, streamed.
//!
//! The response is read as lower-case words of letters and digits. Two responses are nearly the same if their
//! hashes differ in at most [`SIMILAR_BITS`] bits; responses of fewer than [`SIMILAR_MIN_WORDS`] words ("yes",
//! "done, thank you") never are.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::limits::{SIMILAR_BITS, SIMILAR_MIN_WORDS, SIMILAR_RESPONSES, SIMILAR_WORD_BYTES};

/// The hash of the response that is being streamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResponseHash {
    /// The word that is being streamed, in UTF-8 that may be cut.
    word: Vec<u8>,
    words: u32,
    last_two: [u64; 2],
    /// For each bit of the hash, how many more shingles have it than have it not.
    #[serde(with = "balance")]
    balance: [i32; BITS],
}

/// Bits of a hash.
const BITS: usize = 64;

impl Default for ResponseHash {
    fn default() -> Self {
        Self {
            word: Vec::with_capacity(SIMILAR_WORD_BYTES),
            words: 0,
            last_two: [0; 2],
            balance: [0; BITS],
        }
    }
}

/// The serializer does not support arrays of this length.
mod balance {
    use alloc::vec::Vec;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::BITS;

    pub(super) fn serialize<S: Serializer>(
        balance: &[i32; BITS],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(balance)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[i32; BITS], D::Error> {
        let found = Vec::<i32>::deserialize(deserializer)?;
        let length = found.len();
        found.try_into().map_err(|_| D::Error::invalid_length(length, &"64 numbers"))
    }
}

impl ResponseHash {
    /// Adds a piece; any split gives the same hash.
    pub(crate) fn feed(&mut self, piece: &str) {
        for c in piece.chars() {
            if !c.is_alphanumeric() {
                self.end_word();
                continue;
            }
            for lower in c.to_lowercase() {
                let mut bytes = [0; 4];
                let room = SIMILAR_WORD_BYTES.saturating_sub(self.word.len());
                self.word.extend(lower.encode_utf8(&mut bytes).as_bytes().iter().take(room));
            }
        }
    }

    /// Forgets the response so far.
    pub(crate) fn clear(&mut self) {
        self.word.clear();
        (self.words, self.last_two, self.balance) = (0, [0; 2], [0; BITS]);
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let hash = xxh3_64(&self.word);
        self.word.clear();
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

    /// The hash of the response, or `None` if it is too short to be compared. Starts over.
    pub(crate) fn finish(&mut self) -> Option<u64> {
        self.end_word();
        let bits = self.balance.iter().enumerate().filter(|(_, balance)| **balance > 0);
        let hash = bits.fold(0, |hash, (bit, _)| hash | (1 << bit));
        let is_long = self.words >= SIMILAR_MIN_WORDS;
        self.clear();
        is_long.then_some(hash)
    }
}

/// The hashes of the last responses that were long enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LastResponses {
    hashes: [u64; SIMILAR_RESPONSES],
    count: u64,
}

impl LastResponses {
    /// Whether the response is nearly one of the remembered ones.
    pub(crate) fn has_near(&self, hash: u64) -> bool {
        let known = self.count.min(SIMILAR_RESPONSES as u64) as usize;
        self.hashes.iter().take(known).any(|old| (old ^ hash).count_ones() <= SIMILAR_BITS)
    }

    /// Remembers one more.
    #[expect(clippy::indexing_slicing, reason = "a count modulo the length")]
    pub(crate) fn push(&mut self, hash: u64) {
        let oldest = (self.count % SIMILAR_RESPONSES as u64) as usize;
        self.hashes[oldest] = hash;
        self.count = self.count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
