//! What upstreams take of that which the gateway adds to a request, learnt from those that refuse it.
//!
//! A call without a cap gets one where tokens or money are limited; models differ in how much they take and in which
//! field, and no list of them stays right. A stream is asked to tell its usage, which some servers do not know. What an
//! upstream refuses is sent again as it would take it, and that is remembered of the model.

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

/// How a request is changed for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// The cap stands in the other field than the model's name suggests.
    pub(super) other_field: bool,
    /// Usage is not asked for in streams.
    pub(super) no_usage: bool,
}

/// What a model takes.
#[derive(Clone, Copy, Debug, Default)]
struct Takes {
    /// At most, where a larger cap was refused.
    cap: Option<u64>,
    form: Form,
}

/// What models take, by provider and model.
#[derive(Debug, Default)]
pub(super) struct Caps(Mutex<HashMap<(&'static str, String), Takes>>);

impl Caps {
    fn known(&self) -> MutexGuard<'_, HashMap<(&'static str, String), Takes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes(&self, provider: &'static str, model: &str) -> Takes {
        let known = self.known();
        if known.is_empty() {
            return Takes::default();
        }
        known.get(&(provider, model.to_owned())).copied().unwrap_or_default()
    }

    /// The cap for a call that has none: `default`, or what the model is known to take.
    pub(super) fn of(&self, provider: &'static str, model: &str, default: u64) -> u64 {
        self.takes(provider, model).cap.map_or(default, |cap| default.min(cap))
    }

    /// The model has taken a request in this form, with this cap where it has refused a larger one.
    fn keep(&self, provider: &'static str, model: &str, cap: Option<u64>, form: Form) {
        if model.len() > MAX_NAME {
            return;
        }
        let mut known = self.known();
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        let takes = known.entry((provider, model.to_owned())).or_default();
        (takes.cap, takes.form) = (cap.or(takes.cap), form);
    }
}

/// The letters of a text in lower case, so that spellings of a name are one.
pub(super) fn letters(words: &str) -> String {
    let letters = words.chars().filter(char::is_ascii_alphabetic);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a refusal is about usage in a stream.
fn names_usage(words: &str) -> bool {
    let letters = letters(words);
    ["streamoptions", "includeusage"].iter().any(|name| letters.contains(name))
}

/// Whether a refusal is about the field of a cap, and not about its size.
fn names_cap_field(words: &str) -> bool {
    let letters = letters(words);
    let is_named = ["maxtokens", "maxcompletiontokens"].iter().any(|name| letters.contains(name));
    let is_unknown = [
        "unsupported",
        "notsupported",
        "instead",
        "forbidden",
        "notpermitted",
        "notallowed",
        "unknown",
        "unrecognized",
        "unexpected",
        "extrainput",
        "extrafield",
        "additionalproperties",
    ];
    let is_too_large = ["toolarge", "atmost", "maximum", "exceed", "lessthan", "greaterthan"];
    is_named
        && is_unknown.iter().any(|it| letters.contains(it))
        && !is_too_large.iter().any(|it| letters.contains(it))
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
    fn may_lower(&self) -> bool {
        self.sent.output_cap.is_none() && self.cap.is_some() && self.lowered < MAX_TRIES
    }

    /// Whether a refusal may be about what the gateway put into the request.
    pub(super) fn may_change(&self, status: StatusCode) -> bool {
        let is_refusal =
            [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&status);
        let may_change = self.may_lower() || self.may_turn_off_otherwise() || self.forces_usage();
        is_refusal && may_change
    }

    /// Usage is asked for in a stream whose client did not ask for it.
    pub(super) const fn forces_usage(&self) -> bool {
        self.sent.lacks_usage && !self.form.no_usage
    }

    /// Another form of what the gateway has added, where these words refuse it.
    fn reform(&mut self, words: &str) -> bool {
        if self.forces_usage() && names_usage(words) {
            self.form.no_usage = true;
        } else if self.may_lower() && !self.has_swapped && names_cap_field(words) {
            self.has_swapped = true;
            self.form.other_field = !self.form.other_field;
        } else {
            return false;
        }
        self.is_reformed = true;
        true
    }

    /// A lower cap, where these words refuse the one that was sent.
    fn lower(&mut self, words: &str) -> bool {
        let choices = self.sent.choices.max(1);
        let sent = self.cap.unwrap_or_default() / choices;
        if !self.may_lower() {
            return false;
        }
        self.lowered += 1;
        let next = next_cap(words, sent, self.lowered);
        if let Some(cap) = next {
            self.cap = Some(cap.saturating_mul(choices));
        }
        next.is_some()
    }
}

impl Gate {
    /// The upstream refuses a call with a cap or a choice of tools of the gateway's own: what it says may be about
    /// that. Nothing is charged for it, and the call keeps what it holds.
    pub(super) async fn refused(
        &self,
        mut flight: Box<Flight>,
        taken: &Taken,
        status: StatusCode,
        headers: HeaderMap,
        mut body: UpstreamBody,
    ) -> Asked {
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
        let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let plain = encoding.map_or(Some(bytes.clone()), |it| decoded(&bytes, it, MAX_WORDS));
        let words = String::from_utf8_lossy(plain.as_deref().unwrap_or_default()).into_owned();
        if flight.turn_off_otherwise(taken, &words) || flight.reform(&words) || flight.lower(&words)
        {
            return Asked::Otherwise(flight);
        }
        flight.failed(&error_of(status), None);
        Asked::Answered(respond(status, headers, Body::full(bytes)))
    }

    /// A model has taken what was changed for it.
    pub(super) fn keep_form(&self, flight: &Flight, taken: &Taken) {
        if flight.lowered == 0 && !flight.is_reformed {
            return;
        }
        let cap = flight.cap.filter(|_| flight.lowered > 0);
        let cap = cap.map(|cap| cap / flight.sent.choices.max(1));
        self.caps.keep(self.provider(taken.route.side), &taken.asked.model, cap, flight.form);
    }

    /// The form that the model is known to take.
    pub(super) fn form(&self, taken: &Taken) -> Form {
        self.caps.takes(self.provider(taken.route.side), &taken.asked.model).form
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
    fn a_refusal_of_a_field_is_told_from_one_of_its_size() {
        for field in [
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"max_completion_tokens\"]}",
            "Unrecognized request argument supplied: max_completion_tokens",
        ] {
            assert!(names_cap_field(field), "{field}");
        }
        for other in [
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens",
            "`max_tokens` must be less than or equal to 8192, the maximum value; larger is not supported",
            "Unknown parameter: 'foo'",
        ] {
            assert!(!names_cap_field(other), "{other}");
        }
        assert!(names_usage("body.stream_options: Extra inputs are not permitted"));
        assert!(!names_usage("usage is forbidden"));
    }

    #[test]
    fn what_a_model_takes_is_kept_and_bounded() {
        let caps = Caps::default();
        assert_eq!(caps.of("openai", "a", 32_000), 32_000);
        let form = Form { no_usage: true, ..Form::default() };
        caps.keep("openai", "a", Some(16_384), Form::default());
        caps.keep("openai", "a", None, form);
        assert_eq!(caps.takes("openai", "a").form, form);
        assert_eq!(caps.of("openai", "a", 32_000), 16_384);
        assert_eq!(caps.of("openai", "a", 100), 100);
        (0..3_000).for_each(|n| caps.keep("openai", &n.to_string(), Some(16), form));
        assert!(caps.known().len() <= MAX_MODELS);
    }
}
