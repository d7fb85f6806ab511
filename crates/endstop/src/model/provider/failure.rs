//! The failure of a request: status, headers and body as one of the kinds that the loop knows.

use std::time::{Duration, SystemTime};

use genai::Error;
use serde_json::Value;

use crate::limits::{MAX_ERROR_TEXT_BYTES, MAX_RETRY_AFTER_SECONDS};
use crate::model::provider::ProviderModel;
use crate::model::{ModelError, ModelErrorKind, ProviderApi, Secret};

/// The error of a stream. An error in its frames (`told`) takes precedence over the text of `genai`.
pub(super) fn of(error: &Error, told: Option<&Value>, model: &ProviderModel) -> ModelError {
    let (key, api) = (model.key.as_ref(), model.api);
    let error = match error {
        Error::WebStream { error: inner, .. } => inner.downcast_ref().unwrap_or(error),
        _ => error,
    };
    let mut failure = match (error, told) {
        (Error::HttpError { status, body, .. }, _) => {
            let read: Option<Value> = serde_json::from_str(body).ok();
            let inner = read.as_ref().map(|read| read.get("error").unwrap_or(read));
            let kind = kind_of_status(status.as_u16(), inner);
            let message = inner.and_then(message_of).unwrap_or_else(|| body.clone());
            ModelError {
                status: Some(status.as_u16()),
                billing: ProviderApi::billing_of(
                    api,
                    status.as_u16(),
                    inner.is_some_and(|inner| message_of(inner).is_some()),
                    body.as_bytes(),
                ),
                ..ModelError::new(kind, message)
            }
        }
        (_, Some(told)) => of_body(told, api),
        (Error::ChatResponse { body, .. }, None) => of_body(body.get("error").unwrap_or(body), api),
        (Error::WebStream { error, cause, .. }, None) => {
            let is_text = error.downcast_ref::<std::string::FromUtf8Error>().is_some();
            let kind = match (is_text, is_unsent(&**error)) {
                (true, _) => ModelErrorKind::Malformed,
                (_, true) => ModelErrorKind::Connection,
                _ => ModelErrorKind::Truncated,
            };
            ModelError::new(kind, with_cause(cause, error.source()))
        }
        (Error::StreamParse { serde_error, .. }, None) => {
            ModelError::new(ModelErrorKind::Malformed, serde_error.to_string())
        }
        (
            Error::JsonValueExt(_) | Error::SerdeJson(_) | Error::InvalidJsonResponseElement { .. },
            _,
        ) => ModelError::new(ModelErrorKind::Malformed, error.to_string()),
        // The remaining errors concern the request before anything is sent.
        _ => ModelError::new(ModelErrorKind::Rejected, error.to_string()),
    };
    let header = |name: &str| {
        let value = error.headers()?.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    failure.retry_after =
        retry_after(&header, SystemTime::now()).or_else(|| asked_wait(error, told));
    failure.message = shown(&failure.message, key);
    failure
}

/// Whether the connection could not be made.
fn is_unsent(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<reqwest::Error>())
        .any(reqwest::Error::is_connect)
}

/// A stream that is over without its end.
pub(super) fn truncated() -> ModelError {
    ModelError::new(ModelErrorKind::Truncated, "the stream ended without its end")
}

/// An error object that came instead of the rest of an answer.
pub(super) fn of_body(error: &Value, api: Option<&ProviderApi>) -> ModelError {
    let status = ["code", "status", "status_code"].iter().find_map(|key| error.get(key)?.as_u64());
    let status = status.and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (400..600).contains(status));
    let kind = match status {
        Some(status) => kind_of_status(status, Some(error)),
        None => kind_of_body(error).unwrap_or(ModelErrorKind::Unavailable),
    };
    let message = message_of(error).unwrap_or_else(|| error.to_string());
    let billing = ProviderApi::billing_inside(api, status);
    ModelError { status, billing, ..ModelError::new(kind, message) }
}

fn kind_of_status(status: u16, error: Option<&Value>) -> ModelErrorKind {
    // Some providers report an unpaid account as too many requests.
    if error.and_then(kind_of_body) == Some(ModelErrorKind::Rejected) && status < 500 {
        return ModelErrorKind::Rejected;
    }
    ModelErrorKind::of_status(status)
}

/// Parts of the types and codes that providers give their errors. Sources: the API references of OpenAI,
/// Anthropic, Gemini and OpenRouter. The first that is found counts.
const WORDS: [(&str, ModelErrorKind); 19] = [
    ("insufficient_quota", ModelErrorKind::Rejected),
    ("billing", ModelErrorKind::Rejected),
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

fn kind_of_body(error: &Value) -> Option<ModelErrorKind> {
    let said = ["code", "type", "status"].iter().filter_map(|key| error.get(key)?.as_str());
    let said: Vec<String> = said.map(str::to_ascii_lowercase).collect();
    let is_said = |word: &str| said.iter().any(|said| said.contains(word));
    WORDS.iter().find(|(word, _)| is_said(word)).map(|(_, kind)| *kind)
}

fn message_of(error: &Value) -> Option<String> {
    let message = error.get("message").or(Some(error)).and_then(Value::as_str)?;
    let kind = ["type", "status"].iter().find_map(|key| error.get(key)?.as_str());
    Some(kind.map_or_else(|| message.to_owned(), |kind| format!("{kind}: {message}")))
}

fn with_cause(text: &str, mut cause: Option<&(dyn std::error::Error + 'static)>) -> String {
    let mut text = text.to_owned();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// A text without the key, cut to [`MAX_ERROR_TEXT_BYTES`].
fn shown(text: &str, key: Option<&Secret>) -> String {
    let text = key.map_or_else(|| text.to_owned(), |key| key.hide_in(text));
    let end = text.floor_char_boundary(MAX_ERROR_TEXT_BYTES);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start} .."),
        _ => text,
    }
}

/// `retry-after-ms`, or `retry-after`: seconds, or a date.
fn retry_after(header: &dyn Fn(&str) -> Option<String>, now: SystemTime) -> Option<Duration> {
    if let Some(wait) = header("retry-after-ms").and_then(|text| wait_of(&text, 1)) {
        return Some(wait);
    }
    let text = header("retry-after")?;
    wait_of(&text, 1_000).or_else(|| {
        let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
        let until = SystemTime::from(date.timestamp());
        let wait = until.duration_since(now).unwrap_or_default();
        Some(wait.min(Duration::from_secs(MAX_RETRY_AFTER_SECONDS)))
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
    let wait = Duration::from_millis(whole.saturating_add(parts));
    Some(wait.min(Duration::from_secs(MAX_RETRY_AFTER_SECONDS)))
}

/// Gemini says in the body how long to wait: `retryDelay` among the details, such as `34s`.
fn asked_wait(error: &Error, told: Option<&Value>) -> Option<Duration> {
    let told = match error {
        Error::HttpError { body, .. } => serde_json::from_str(body).ok(),
        _ => told.cloned(),
    }?;
    let details = told.get("error").unwrap_or(&told).get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    wait_of(delay.strip_suffix('s')?, 1_000)
}

#[cfg(test)]
mod tests;
