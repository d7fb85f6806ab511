//! The errors of providers, read once for the loop and the gateway.
//!
//! Decision: they are read here and not with the APIs in `endstop-llm`. A provider words its errors alike in all its APIs, and
//! their kinds are those by which a live run acts.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::ModelErrorKind;
use crate::limits::MAX_RETRY_AFTER;

/// The error object of a provider's response.
///
/// ```
/// use endstop_runtime::{ModelErrorKind, ProviderError};
///
/// let body = serde_json::json!({ "error": { "type": "insufficient_quota", "message": "not paid" } });
/// let error = ProviderError::of(&body);
/// // No further attempt helps, although the status says that one may.
/// assert_eq!(error.kind(Some(429)), ModelErrorKind::Rejected);
/// assert_eq!(error.message().as_deref(), Some("insufficient_quota: not paid"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProviderError<'v> {
    object: &'v Value,
}

/// Parts of the types and codes that providers give their errors. Sources: the API references of OpenAI,
/// Anthropic, Gemini and OpenRouter. The first that is found counts, after [`UNPAID`].
const WORDS: [(&str, ModelErrorKind); 17] = [
    ("overloaded", ModelErrorKind::Unavailable),
    ("rate_limit", ModelErrorKind::RateLimited),
    ("resource_exhausted", ModelErrorKind::RateLimited),
    ("timeout", ModelErrorKind::TimedOut),
    ("deadline", ModelErrorKind::TimedOut),
    ("server_error", ModelErrorKind::Unavailable),
    ("api_error", ModelErrorKind::Unavailable),
    ("unavailable", ModelErrorKind::Unavailable),
    ("internal", ModelErrorKind::Unavailable),
    ("invalid", ModelErrorKind::Rejected),
    ("authentication", ModelErrorKind::Rejected),
    ("permission", ModelErrorKind::Rejected),
    ("not_found", ModelErrorKind::Rejected),
    ("too_large", ModelErrorKind::Rejected),
    ("context_length", ModelErrorKind::Rejected),
    ("unsupported", ModelErrorKind::Rejected),
    ("failed_precondition", ModelErrorKind::Rejected),
];

/// The same for an account that is not paid, which no further attempt helps.
const UNPAID: [&str; 2] = ["insufficient_quota", "billing"];

impl<'v> ProviderError<'v> {
    /// Returns the error of a body: the body, its `error`, or that of the first element of a list, as in Gemini's streams.
    #[must_use]
    pub fn of(body: &'v Value) -> Self {
        let body = body.as_array().and_then(|all| all.first()).unwrap_or(body);
        Self { object: body.get("error").unwrap_or(body) }
    }

    /// Returns the HTTP status that the error names, if it is one of an error.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let keys = ["code", "status", "status_code"];
        let status = keys.iter().find_map(|key| self.object.get(key)?.as_u64());
        let status = status.and_then(|status| u16::try_from(status).ok());
        status.filter(|status| (400..600).contains(status))
    }

    /// Returns the kind of failure, of a response with a status or of an error inside a stream.
    #[must_use]
    pub fn kind(&self, status: Option<u16>) -> ModelErrorKind {
        let says_rejected = |status| match asks_to_try_again(status) {
            // Some providers report an unpaid account as too many requests. Others name each refusal `invalid_request_error`.
            true => UNPAID.iter().any(|word| self.says(word)),
            false => self.kind_by_words() == Some(ModelErrorKind::Rejected),
        };
        match status {
            None => self.kind_by_words().unwrap_or(ModelErrorKind::Unavailable),
            // A timeout can be charged, whatever it says.
            Some(status) if is_open(status) && says_rejected(status) => ModelErrorKind::Rejected,
            Some(status) => ModelErrorKind::of_status(status),
        }
    }

    fn kind_by_words(&self) -> Option<ModelErrorKind> {
        if UNPAID.iter().any(|word| self.says(word)) {
            return Some(ModelErrorKind::Rejected);
        }
        WORDS.iter().find(|(word, _)| self.says(word)).map(|(_, kind)| *kind)
    }

    /// Whether the type or the code of the error has a word.
    fn says(&self, word: &str) -> bool {
        let mut words =
            ["code", "type", "status"].iter().filter_map(|key| self.object.get(key)?.as_str());
        words.any(|said| said.to_ascii_lowercase().contains(word))
    }

    /// Returns the message, with the type of the error before it.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let message = self.object.get("message").or(Some(self.object)).and_then(Value::as_str)?;
        let kind = ["type", "status"].iter().find_map(|key| self.object.get(key)?.as_str());
        Some(kind.map_or_else(|| message.to_owned(), |kind| format!("{kind}: {message}")))
    }

    /// Returns the wait that Gemini asks for in the body: `retryDelay` among the details, such as `34s`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let details = self.object.get("details")?.as_array()?;
        let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
        wait_of(delay.strip_suffix('s')?, 1_000)
    }
}

/// Whether the body of a response with this status can say that no further attempt helps.
const fn is_open(status: u16) -> bool {
    status < 500 && status != 408
}

/// Whether a status alone says that a later attempt can succeed.
const fn asks_to_try_again(status: u16) -> bool {
    matches!(status, 409 | 425 | 429)
}

impl ModelErrorKind {
    /// Returns the kind of failure that an error response is, by its status and body.
    #[must_use]
    pub fn of_response(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(body) => ProviderError::of(&body).kind(Some(status)),
            Err(_) => Self::of_status(status),
        }
    }

    /// Returns whether the body of an error response with this status can change its kind.
    #[must_use]
    pub fn depends_on_body(status: u16) -> bool {
        is_open(status) && Self::of_status(status) != Self::Rejected
    }
}

/// Returns the wait that the headers of a response ask for: `retry-after-ms`, or `retry-after` as seconds or a date. At most a
/// week.
pub fn retry_after(header: impl Fn(&str) -> Option<String>, now: SystemTime) -> Option<Duration> {
    if let Some(wait) = header("retry-after-ms").and_then(|text| wait_of(&text, 1)) {
        return Some(wait);
    }
    let text = header("retry-after")?;
    wait_of(&text, 1_000).or_else(|| {
        let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
        let until = SystemTime::from(date.timestamp());
        Some(until.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER))
    })
}

/// A decimal number of units of `millis` milliseconds; fractions of a millisecond round up.
fn wait_of(text: &str, millis: u64) -> Option<Duration> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(millis);
    let mut scale = millis;
    let mut parts = 0;
    for digit in fraction.chars().filter_map(|digit| digit.to_digit(10)) {
        parts += u64::from(digit).saturating_mul(scale).div_ceil(10);
        scale /= 10;
    }
    Some(Duration::from_millis(whole.saturating_add(parts)).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests;
