//! Text conditions over streamed pieces, exact at any split.
//!
//! The state carried from piece to piece is one automaton state for all phrases and one for each pattern:
//! the answer equals a search over the whole text, wherever it was cut.
//!
//! Patterns are compiled to deterministic automata of bounded size, because only their state can be carried from
//! piece to piece and saved. A Unicode word boundary has no such automaton: it is refused with a hint.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use aho_corasick::automaton::Automaton as _;
use aho_corasick::{Anchored, MatchKind, StartKind, dfa, packed};
use regex_automata::Anchored as RegexAnchored;
use regex_automata::dfa::{Automaton as _, StartKind as RegexStart, dense};
use regex_automata::nfa::thompson::{Config as NfaConfig, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limits::{MAX_BUILD_BYTES, MAX_NFA_BYTES, MAX_PATTERN_BYTES};

/// From this length on the vectorised searcher beats the carried automaton.
const LONG_PIECE: usize = 64;

/// Why a pattern is refused.
pub(crate) struct PatternProblem {
    pub(crate) message: String,
    pub(crate) help: String,
}

/// Whether `pattern` can be compiled.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), PatternProblem> {
    Pattern::new(pattern).map(|_| ())
}

/// The phrases and patterns of a policy, compiled. Phrase `i` and pattern `j` are known to the caller by
/// the index they were given in.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    phrases: Option<Phrases>,
    patterns: Vec<Pattern>,
    pub(crate) fingerprint: u64,
}

/// The state carried from piece to piece. Its size is set by the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TextState {
    pub(crate) phrases: u32,
    pub(crate) patterns: Box<[u32]>,
}

/// A match: a phrase or a pattern, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Phrase(usize),
    Pattern(usize),
}

impl Texts {
    /// Compiles. A pattern that cannot be compiled was refused when it was read; one that was built in
    /// Rust comes back here as the error.
    pub(crate) fn new(phrases: &[&str], patterns: &[&str]) -> Result<Self, PatternProblem> {
        let phrases = if phrases.is_empty() { None } else { Some(Phrases::new(phrases)?) };
        let patterns = patterns.iter().map(|p| Pattern::new(p)).collect::<Result<Vec<_>, _>>()?;
        let mut fingerprint = phrases.as_ref().map_or(0, |p| p.fingerprint);
        for pattern in &patterns {
            fingerprint = xxh3_64_with_seed(&pattern.fingerprint.to_le_bytes(), fingerprint);
        }
        Ok(Self { phrases, patterns, fingerprint })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.phrases.is_none() && self.patterns.is_empty()
    }

    /// Whether the end of the text can decide anything: phrases are decided as they are read.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The state before any text.
    pub(crate) fn start(&self) -> TextState {
        TextState {
            phrases: self.phrases.as_ref().map_or(0, |p| p.start),
            patterns: self.patterns.iter().map(|p| p.start).collect(),
        }
    }

    /// Puts a state back to before any text.
    pub(crate) fn restart(&self, state: &mut TextState) {
        state.phrases = self.phrases.as_ref().map_or(0, |p| p.start);
        for (slot, pattern) in state.patterns.iter_mut().zip(&self.patterns) {
            *slot = pattern.start;
        }
    }

    /// Whether a saved state can be continued: every automaton state in it exists here.
    pub(crate) fn accepts(&self, state: &TextState) -> bool {
        state.patterns.len() == self.patterns.len()
            && self.phrases.as_ref().is_none_or(|p| p.is_state(state.phrases))
            && self.patterns.iter().zip(&state.patterns).all(|(p, &s)| p.is_state(s))
    }

    /// Feeds a piece. `found` is called for what the text so far contains and may be called again for it.
    pub(crate) fn feed(&self, state: &mut TextState, piece: &[u8], mut found: impl FnMut(Found)) {
        if let Some(phrases) = &self.phrases {
            state.phrases = phrases.feed(state.phrases, piece, &mut |i| found(Found::Phrase(i)));
        }
        for (index, (pattern, slot)) in self.patterns.iter().zip(&mut state.patterns).enumerate() {
            let (next, matched) = pattern.feed(*slot, piece);
            *slot = next;
            if matched {
                found(Found::Pattern(index));
            }
        }
    }

    /// Ends the text: patterns that look ahead (`$`, `\b`) are decided here.
    pub(crate) fn end(&self, state: &TextState, mut found: impl FnMut(Found)) {
        for (index, (pattern, &slot)) in self.patterns.iter().zip(&state.patterns).enumerate() {
            if pattern.matches_at_end(slot) {
                found(Found::Pattern(index));
            }
        }
    }
}

#[derive(Debug)]
struct Phrases {
    automaton: dfa::DFA,
    searcher: Option<packed::Searcher>,
    start: u32,
    /// The bytes that a phrase begins with: no other leaves the start.
    begins: Box<[bool; 256]>,
    longest: usize,
    fingerprint: u64,
}

impl Phrases {
    fn new(phrases: &[&str]) -> Result<Self, PatternProblem> {
        let too_large = |error: aho_corasick::BuildError| PatternProblem {
            message: format!("the texts to look for are too large together: {error}"),
            help: "look for fewer or shorter texts".to_string(),
        };
        let automaton = dfa::Builder::new()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .build(phrases)
            .map_err(too_large)?;
        let start = match automaton.start_state(Anchored::No) {
            Ok(id) => id.as_u32(),
            Err(error) => unreachable!("the automaton is built to start unanchored: {error}"),
        };
        let mut fingerprint = u64::try_from(automaton.memory_usage()).unwrap_or(0);
        for phrase in phrases {
            fingerprint = xxh3_64_with_seed(phrase.as_bytes(), fingerprint);
        }
        let mut begins = Box::new([false; 256]);
        for first in phrases.iter().filter_map(|phrase| phrase.as_bytes().first()) {
            if let Some(slot) = begins.get_mut(usize::from(*first)) {
                *slot = true;
            }
        }
        Ok(Self {
            start,
            begins,
            searcher: packed::Searcher::new(phrases),
            longest: automaton.max_pattern_len(),
            automaton,
            fingerprint,
        })
    }

    fn is_state(&self, id: u32) -> bool {
        is_reachable(self.start, id, |state, byte| self.step(state, &[byte], &mut |_| {}))
    }

    fn feed(&self, state: u32, piece: &[u8], found: &mut dyn FnMut(usize)) -> u32 {
        let long = piece.len() >= LONG_PIECE && piece.len() >= 4 * self.longest;
        if let (true, Some(searcher)) = (long, &self.searcher) {
            let overlap = self.longest.saturating_sub(1);
            let (head, _) = piece.split_at(overlap);
            let (_, tail) = piece.split_at(piece.len() - overlap);
            if searcher.find(piece).is_none() {
                // Nothing lies inside the piece; what began before it ends in its head, and the state
                // after it depends only on its tail: on nothing before the first byte that begins a phrase.
                if state != self.start {
                    self.step(state, head, found);
                }
                let begins = |byte: &u8| self.begins.get(usize::from(*byte)) == Some(&true);
                let from = tail.iter().position(begins).unwrap_or(tail.len());
                return self.step(self.start, tail.split_at(from).1, found);
            }
        }
        self.step(state, piece, found)
    }

    fn step(&self, state: u32, bytes: &[u8], found: &mut dyn FnMut(usize)) -> u32 {
        let mut id = match aho_corasick::automaton::StateID::new(state as usize) {
            Ok(id) => id,
            Err(error) => unreachable!("a state comes from the automaton: {error}"),
        };
        for &byte in bytes {
            id = self.automaton.next_state(Anchored::No, id, byte);
            if self.automaton.is_special(id) && self.automaton.is_match(id) {
                for index in 0..self.automaton.match_len(id) {
                    found(self.automaton.match_pattern(id, index).as_usize());
                }
            }
        }
        id.as_u32()
    }
}

#[derive(Debug)]
struct Pattern {
    automaton: dense::DFA<Vec<u32>>,
    start: u32,
    looks_ahead: bool,
    fingerprint: u64,
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, PatternProblem> {
        let bad = |message: String, help: &str| PatternProblem { message, help: help.to_string() };
        let hir = syntax::parse(pattern).map_err(|error| {
            let text = error.to_string();
            let cause = text.lines().last().unwrap_or("").trim_start_matches("error: ").to_string();
            bad(
                format!("the pattern is not a regular expression: {cause}"),
                "patterns are written as in Rust's `regex`",
            )
        })?;
        let looks_ahead = !hir.properties().look_set().is_empty();
        if !looks_ahead && hir.properties().minimum_len() == Some(0) {
            return Err(bad(
                "the pattern matches the empty text, so it is always true".to_string(),
                "use `+` instead of `*`",
            ));
        }
        let automaton = dense::Builder::new()
            .configure(
                dense::Config::new()
                    .start_kind(RegexStart::Unanchored)
                    .dfa_size_limit(Some(MAX_PATTERN_BYTES))
                    .determinize_size_limit(Some(MAX_BUILD_BYTES)),
            )
            .thompson(
                NfaConfig::new()
                    .which_captures(WhichCaptures::None)
                    .nfa_size_limit(Some(MAX_NFA_BYTES)),
            )
            .build(pattern)
            .map_err(|error| {
                bad(
                    format!("the pattern cannot be compiled: {error}"),
                    "write `(?-u:\\b)` for a word boundary, and `[0-9A-Za-z]` instead of `\\w` in long repetitions",
                )
            })?;
        let config = start::Config::new().anchored(RegexAnchored::No);
        let start = match automaton.start_state(&config) {
            Ok(id) => id.as_u32(),
            Err(error) => unreachable!("the automaton is built to start unanchored: {error}"),
        };
        let size = u64::try_from(automaton.memory_usage()).unwrap_or(0);
        let fingerprint = xxh3_64_with_seed(pattern.as_bytes(), size);
        Ok(Self { automaton, start, looks_ahead, fingerprint })
    }

    fn is_state(&self, id: u32) -> bool {
        is_reachable(self.start, id, |state, byte| self.feed(state, &[byte]).0)
    }

    /// The state after `piece`, and whether the text so far matches. A state that has matched is kept
    /// there: nothing that follows can undo it.
    fn feed(&self, state: u32, piece: &[u8]) -> (u32, bool) {
        let mut id = state_id(state);
        for &byte in piece {
            id = self.automaton.next_state(id, byte);
            if self.automaton.is_special_state(id) {
                if self.automaton.is_match_state(id) {
                    return (id.as_u32(), true);
                }
                if self.automaton.is_dead_state(id) || self.automaton.is_quit_state(id) {
                    return (id.as_u32(), false);
                }
            }
        }
        let state = id.as_u32();
        (state, !self.looks_ahead && self.matches_at_end(state))
    }

    fn matches_at_end(&self, state: u32) -> bool {
        let id = state_id(state);
        self.automaton.is_match_state(id)
            || self.automaton.is_match_state(self.automaton.next_eoi_state(id))
    }
}

/// A state of a pattern's automaton. One that was saved is checked before it gets here.
fn state_id(state: u32) -> StateID {
    match StateID::new(state as usize) {
        Ok(id) => id,
        Err(error) => unreachable!("a state comes from the automaton: {error}"),
    }
}

/// Whether `wanted` is a state that can be reached from `start`.
///
/// A saved state may come from anywhere, and stepping from an id that the automaton never handed out
/// would panic. Only a restore asks; O(states × 256).
fn is_reachable(start: u32, wanted: u32, mut step: impl FnMut(u32, u8) -> u32) -> bool {
    let mut seen = BTreeSet::from([start]);
    let mut left = Vec::from([start]);
    while let Some(state) = left.pop() {
        if state == wanted {
            return true;
        }
        for byte in 0..=u8::MAX {
            let next = step(state, byte);
            if seen.insert(next) {
                left.push(next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests;
