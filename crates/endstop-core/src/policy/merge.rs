//! Merging: a narrower policy (a project's file over a user's) can only tighten.

use alloc::format;
use alloc::string::String;

use super::{FallbackRates, OnUnpriced, Policy};

impl Policy {
    /// This policy with the rules of `narrower` added.
    ///
    /// Every rule of this policy stays as it is, so whatever it stops, the result stops. A rule of the
    /// narrower policy whose id is taken is kept beside it as `id@origin`. What to do with unpriced calls
    /// is the stricter of the two, and only this policy can say that it may be unbounded.
    #[must_use]
    pub fn merge(&self, narrower: &Self) -> Self {
        let mut merged = self.clone();
        for rule in &narrower.rules {
            let mut rule = rule.clone();
            let origin = rule.origin.clone().unwrap_or_else(|| String::from("narrower"));
            let wanted = rule.id.clone();
            let mut tries = 1u32;
            while merged.rule(&rule.id).is_some() {
                rule.id = if tries == 1 {
                    format!("{wanted}@{origin}")
                } else {
                    format!("{wanted}@{origin}#{tries}")
                };
                tries += 1;
            }
            merged.rules.push(rule);
        }
        merged.on_unpriced = match (self.on_unpriced, narrower.on_unpriced) {
            (Some(one), Some(other)) => Some(stricter(one, other)),
            // Saying nothing means the strictest, so only what this policy says can be kept.
            (one, _) => one,
        };
        merged
    }
}

fn stricter(one: OnUnpriced, other: OnUnpriced) -> OnUnpriced {
    match (one, other) {
        (OnUnpriced::Stop, _) | (_, OnUnpriced::Stop) => OnUnpriced::Stop,
        (OnUnpriced::Ignore, other) | (other, OnUnpriced::Ignore) => other,
        (OnUnpriced::Rates(a), OnUnpriced::Rates(b)) => OnUnpriced::Rates(FallbackRates {
            input: a.input.max(b.input),
            output: a.output.max(b.output),
        }),
    }
}
