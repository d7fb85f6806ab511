//! `llm` reads `OPENAI_BASE_URL`; its plugin for Google has the address in its code.
//!
//! A separate file because each program has one: it changes with that program.

use super::{Adaptation, InterceptEffect, Situation};

/// The prefixes of the names of the plugin's models.
const GOOGLE: [&str; 2] = ["gemini/", "gemini-"];

pub(super) fn adapt(_: &Situation<'_>, adaptation: &mut Adaptation) {
    let model = adaptation.model.as_deref().unwrap_or_default();
    if GOOGLE.iter().any(|begin| model.starts_with(begin)) {
        adaptation.goes_elsewhere(
            InterceptEffect::Limits,
            "llm calls Google's models at an address in the code of its plugin, whose calls do not come to the gateway",
            "start it with `endstop run --intercept`",
        );
    }
}
