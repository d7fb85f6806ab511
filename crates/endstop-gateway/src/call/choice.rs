//! How a wrap-up is kept from tools, learnt from upstreams that take no choice of none.
//!
//! Such an upstream gets the call again without its tools, or, where the conversation needs them, with the note
//! alone. That is remembered of it, so that the next wrap-up is sent so at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Gate;
use super::cap::letters;
use super::flight::Flight;
use super::take::Taken;
use endstop_llm::{Api, ToolsOff};

/// What a client is told where its tools stay in a wrap-up.
const STAYS: &str = "the upstream takes no choice of no tools, and the conversation needs its tools: they stay in this \
    last call";

/// What the upstreams take, by interface: each has one upstream.
#[derive(Debug, Default)]
pub(super) struct Choices(Mutex<Vec<(Api, ToolsOff)>>);

impl Choices {
    fn known(&self) -> MutexGuard<'_, Vec<(Api, ToolsOff)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, api: Api) -> ToolsOff {
        let known = self.known();
        known.iter().find(|(of, _)| *of == api).map_or(ToolsOff::Forbid, |(_, off)| *off)
    }

    fn keep(&self, api: Api, off: ToolsOff) {
        let mut known = self.known();
        known.retain(|(of, _)| *of != api);
        known.push((api, off));
    }
}

/// Whether a refusal is about the choice of tools, by any interface's name of it.
fn names_choice(words: &str) -> bool {
    let letters = letters(words);
    ["toolchoice", "toolconfig", "functioncall"].iter().any(|name| letters.contains(name))
}

impl Flight {
    pub(super) fn may_turn_off_otherwise(&self) -> bool {
        self.is_wrap_up && self.tools_off < ToolsOff::Ask
    }

    /// Another way to keep the model from tools, where these words refuse the one that was sent.
    pub(super) fn turn_off_otherwise(&mut self, taken: &Taken, words: &str) -> bool {
        let next = match self.tools_off {
            ToolsOff::Forbid if names_choice(words) => without_choice(taken, ToolsOff::Remove),
            ToolsOff::Remove if words.to_ascii_lowercase().contains("tool") => ToolsOff::Ask,
            _ => return false,
        };
        if self.is_wrap_up {
            self.turn_off_by(next);
        }
        self.is_wrap_up
    }

    fn turn_off_by(&mut self, off: ToolsOff) {
        self.tools_off = off;
        if off == ToolsOff::Ask {
            let known = self.warning.take().map(|known| format!("{known}; {STAYS}"));
            self.warning = known.or_else(|| Some(STAYS.to_owned()));
        }
    }
}

/// As `off` says, where the request is taken without its tools.
fn without_choice(taken: &Taken, off: ToolsOff) -> ToolsOff {
    let stays = off == ToolsOff::Remove && !taken.dialect.may_remove_tools(&taken.body);
    if stays { ToolsOff::Ask } else { off }
}

impl Gate {
    /// Begins with what the upstream is known to take.
    pub(super) fn choose(&self, flight: &mut Flight, taken: &Taken) {
        flight.form = self.form(taken);
        if flight.is_wrap_up {
            flight.turn_off_by(without_choice(taken, self.choices.of(taken.route.api)));
        }
    }

    /// The upstream has taken a wrap-up: so it gets the next one.
    pub(super) fn keep_choice(&self, flight: &Flight, taken: &Taken) {
        if !flight.is_wrap_up || flight.tools_off == ToolsOff::Forbid {
            return;
        }
        let is_removable = taken.dialect.may_remove_tools(&taken.body);
        let off = if is_removable { flight.tools_off } else { ToolsOff::Remove };
        self.choices.keep(taken.route.api, off);
    }
}

#[cfg(test)]
mod choice_tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_choice_of_tools_in_any_spelling() {
        for words in [
            "Unsupported parameter: 'tool_choice'",
            "tool choice \"none\" is not supported",
            "Unknown name \"toolConfig\"",
            "function_calling_config.mode: invalid",
            "function_call: not permitted",
        ] {
            assert!(names_choice(words), "{words}");
        }
        for words in ["tools[0] is wrong", "messages: required", ""] {
            assert!(!names_choice(words), "{words}");
        }
    }
}
