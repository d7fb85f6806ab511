//! Output caps that a model takes at most, learnt from upstreams that refuse a larger one.
//!
//! A call without a cap gets one where tokens or money are limited; models differ in what they take, and no list
//! of them stays right. An upstream that refuses it says what it would take, and the call is sent again with that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, StatusCode};

use super::Gate;
use super::ask::{Asked, Cut, Whole, error_of, guarded, read_whole, respond};
use super::flight::Flight;
use super::raw::RawBody;
use super::take::{Taken, decoded};
use crate::body::Body;
use crate::upstream::UpstreamBody;

/// Most models that are kept; a client that invents names does not fill the memory.
const MAX_MODELS: usize = 1_024;
/// Longest name that is kept.
const MAX_NAME: usize = 256;
/// Most times that a call is sent again with a lower cap.
const MAX_TRIES: u32 = 3;
/// Longest error that is read.
const MAX_WORDS: usize = 64 << 10;
/// A smaller cap is not tried.
const LEAST: u64 = 16;

/// What models take, by provider and model.
#[derive(Debug, Default)]
pub(super) struct Caps(Mutex<HashMap<(&'static str, String), u64>>);

impl Caps {
    fn known(&self) -> MutexGuard<'_, HashMap<(&'static str, String), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cap for a call that has none: `default`, or what the model is known to take.
    pub(super) fn of(&self, provider: &'static str, model: &str, default: u64) -> u64 {
        let known = self.known();
        if known.is_empty() {
            return default;
        }
        known.get(&(provider, model.to_owned())).map_or(default, |cap| default.min(*cap))
    }

    /// The model has taken this cap, and refused a larger one.
    pub(super) fn keep(&self, provider: &'static str, model: &str, cap: u64) {
        if model.len() > MAX_NAME {
            return;
        }
        let mut known = self.known();
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        known.insert((provider, model.to_owned()), cap);
    }
}

/// The cap to try next, after `sent` was refused with these words for the `tries`th time. None where they are about
/// something else.
///
/// The largest number in the words below the cap is what the model takes, as a rule; where that was refused too, it
/// is halved at most, as the number may be that of the tokens in the request.
pub(super) fn next_cap(words: &str, sent: u64, tries: u32) -> Option<u64> {
    if !words.to_ascii_lowercase().contains("token") {
        return None;
    }
    let numbers = words.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok());
    let named = numbers.filter(|number| (LEAST..sent).contains(number)).max();
    let half = sent / 2;
    let next = match named {
        Some(named) if tries <= 1 => named,
        Some(named) => named.max(half),
        None => half,
    };
    (next >= LEAST).then_some(next)
}

impl Flight {
    /// Whether the cap that was sent is of the gateway's own, and a lower one can be tried.
    pub(super) fn may_lower(&self) -> bool {
        self.sent.output_cap.is_none() && self.cap.is_some() && self.lowered < MAX_TRIES
    }
}

impl Gate {
    /// The upstream says 400 to a call whose cap is of the gateway's own: what it says may be about that. Nothing is
    /// charged for it, and the call keeps what it holds.
    pub(super) async fn refused_cap(
        &self,
        mut flight: Box<Flight>,
        taken: &Taken,
        headers: HeaderMap,
        mut body: UpstreamBody,
    ) -> Asked {
        let status = StatusCode::BAD_REQUEST;
        let mut came = 0;
        let read = read_whole(&mut body, MAX_WORDS, &mut came);
        let bytes = match guarded(&flight.driven, read).await {
            Err(Cut) => return Asked::Answered(self.cut(flight, taken)),
            Ok(Ok(Whole::All(bytes))) => bytes,
            Ok(Ok(Whole::TooLong(begun))) => {
                flight.failed(&error_of(status), None);
                let body = RawBody::after(begun, body).into_body_of(&flight.driven);
                return Asked::Answered(respond(status, headers, body));
            }
            Ok(Err(_)) => Bytes::new(),
        };
        let choices = flight.sent.choices.max(1);
        let sent = flight.cap.unwrap_or_default() / choices;
        flight.lowered += 1;
        let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let plain = encoding.map_or(Some(bytes.clone()), |it| decoded(&bytes, it, MAX_WORDS));
        let words = String::from_utf8_lossy(plain.as_deref().unwrap_or_default()).into_owned();
        if let Some(cap) = next_cap(&words, sent, flight.lowered) {
            flight.cap = Some(cap.saturating_mul(choices));
            return Asked::Lower(flight);
        }
        flight.failed(&error_of(status), None);
        Asked::Answered(respond(status, headers, Body::full(bytes)))
    }

    /// A model has taken a cap that was lowered for it.
    pub(super) fn keep_cap(&self, flight: &Flight, taken: &Taken) {
        if flight.lowered > 0 {
            let cap = flight.cap.unwrap_or_default() / flight.sent.choices.max(1);
            self.caps.keep(self.provider(taken.route.side), &taken.asked.model, cap);
        }
    }
}

#[cfg(test)]
mod cap_tests {
    use super::*;

    #[test]
    fn the_number_that_the_words_name_is_tried_and_then_halves() {
        let openai =
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens";
        assert_eq!(next_cap(openai, 32_000, 1), Some(16_384));
        let context = "This model's maximum context length is 8192 tokens. However, you requested 32100 tokens \
            (100 in the messages, 32000 in the completion)";
        assert_eq!(next_cap(context, 32_000, 1), Some(8_192));
        let again =
            "maximum context length is 8192 tokens: 100 in the messages, 8192 in the completion";
        assert_eq!(next_cap(again, 8_192, 2), Some(4_096));
        assert_eq!(next_cap("too many tokens", 32_000, 1), Some(16_000));
        assert_eq!(next_cap("messages[0].role is 100 wrong", 32_000, 1), None);
        assert_eq!(next_cap("tokens", 17, 1), None);
    }

    #[test]
    fn what_a_model_takes_is_kept_and_bounded() {
        let caps = Caps::default();
        assert_eq!(caps.of("openai", "a", 32_000), 32_000);
        caps.keep("openai", "a", 16_384);
        assert_eq!(caps.of("openai", "a", 32_000), 16_384);
        assert_eq!(caps.of("openai", "a", 100), 100);
        (0..3_000).for_each(|n| caps.keep("openai", &n.to_string(), 16));
        assert!(caps.known().len() <= MAX_MODELS);
    }
}
