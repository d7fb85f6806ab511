//! The model's words: matchers carried from piece to piece, and the facts that they make true.

use xxhash_rust::xxh3::xxh3_64;

use super::{Meter, Truth, bit, set_bit};
use crate::condition::Fact;
use crate::policy::program::Program;
use crate::text::Found;

impl Meter {
    /// Whether the words made a fact true.
    pub(super) fn feed(&mut self, program: &Program, text: &str) -> bool {
        if program.needs.replies {
            self.reply.feed(text);
        }
        if program.texts.is_empty() {
            return false;
        }
        let mut found: Option<FoundFacts> = None;
        program.texts.feed(&mut self.text, text.as_bytes(), |hit| {
            found.get_or_insert_with(FoundFacts::default).note(program, hit);
        });
        if let Some(found) = &found {
            self.learn_found(program, found);
        }
        found.is_some()
    }

    pub(super) fn learn_found(&mut self, program: &Program, found: &FoundFacts) {
        if found.is_empty() {
            return;
        }
        let agent = self.agent;
        for (index, fact) in program.facts.iter().enumerate() {
            if !found.has(index) {
                continue;
            }
            let spoken_by = match fact {
                Fact::Said { from: Some(from), .. } => agent_digest(from) == agent,
                _ => true,
            };
            if let (true, Some(truth)) = (spoken_by, self.facts.get_mut(index)) {
                *truth = Truth::True;
            }
        }
        self.write_facts(program);
    }
}

/// Agents are told apart by digest: the meter keeps no names.
pub(super) fn agent_digest(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Facts that a piece of text made true, as bits: no allocation while text streams by.
#[derive(Default)]
pub(super) struct FoundFacts([u64; crate::condition::MAX_NODES / 64]);

impl FoundFacts {
    pub(super) fn note(&mut self, program: &Program, found: Found) {
        let fact = match found {
            Found::Phrase(index) => program.phrase_facts.get(index),
            Found::Pattern(index) => program.pattern_facts.get(index),
        };
        if let Some(fact) = fact {
            set_bit(&mut self.0, *fact, true);
        }
    }

    pub(super) fn has(&self, fact: usize) -> bool {
        bit(&self.0, fact)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}
