//! The failure of a request: status, headers and body as one of the kinds that the loop knows.

use std::time::{Duration, SystemTime};

use endstop_runtime::{ProviderError, retry_after};
use genai::Error;
use serde_json::Value;

use crate::limits::MAX_ERROR_TEXT_BYTES;
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
            let message = read.as_ref().and_then(|read| ProviderError::of(read).message());
            let (status, is_in_shape) = (status.as_u16(), message.is_some());
            let kind = ModelErrorKind::of_response(status, body.as_bytes());
            ModelError {
                status: Some(status),
                billing: ProviderApi::billing_of(api, status, is_in_shape, body.as_bytes()),
                ..ModelError::new(kind, message.unwrap_or_else(|| body.clone()))
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
        retry_after(header, SystemTime::now()).or_else(|| asked_wait(error, told));
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
    let read = ProviderError::of(error);
    let status = read.status();
    let message = read.message().unwrap_or_else(|| error.to_string());
    let billing = ProviderApi::billing_inside(api, status);
    ModelError { status, billing, ..ModelError::new(read.kind(status), message) }
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

/// The wait that the body asks for.
fn asked_wait(error: &Error, told: Option<&Value>) -> Option<Duration> {
    match error {
        Error::HttpError { body, .. } => {
            let body: Value = serde_json::from_str(body).ok()?;
            ProviderError::of(&body).retry_after()
        }
        _ => ProviderError::of(told?).retry_after(),
    }
}

#[cfg(test)]
mod tests;
