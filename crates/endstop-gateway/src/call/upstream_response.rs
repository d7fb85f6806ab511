//! The response of an upstream: its head, and its body read as a whole.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use endstop_runtime::{ModelError, ModelErrorKind, retry_after};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use crate::body::Body;
use crate::decode::Decoder;
use crate::limits::{ERROR_WITHIN, MAX_REFUSAL};
use crate::upstream::{UpstreamBody, UpstreamError};

/// The body of a response, read.
pub(super) enum WholeBody {
    Complete(Bytes),
    /// It is longer than the maximum; this part was received.
    TooLong(Bytes),
}

/// Reads a body of at most `max` bytes. Writes the number of bytes received so far to `received`.
pub(super) async fn read_whole(
    body: &mut UpstreamBody,
    max: usize,
    received: &mut u64,
) -> Result<WholeBody, UpstreamError> {
    let Some(first) = body.data().await.transpose()? else {
        return Ok(WholeBody::Complete(Bytes::new()));
    };
    *received = bytes_of(&first);
    if first.len() > max {
        return Ok(WholeBody::TooLong(first));
    }
    let Some(second) = body.data().await.transpose()? else {
        return Ok(WholeBody::Complete(first));
    };
    let mut all = BytesMut::with_capacity(first.len().saturating_add(second.len()));
    all.extend_from_slice(&first);
    all.extend_from_slice(&second);
    *received = bytes_of(&all);
    while all.len() <= max {
        match body.data().await.transpose()? {
            Some(next) => {
                all.extend_from_slice(&next);
                *received = bytes_of(&all);
            }
            None => return Ok(WholeBody::Complete(all.freeze())),
        }
    }
    Ok(WholeBody::TooLong(all.freeze()))
}

/// Reads the body of an error: all of it, if it is short and arrives in time, or else the part received so far. The first part
/// may take this long, or as long as it takes.
pub(super) async fn read_error(body: &mut UpstreamBody, first_within: Option<Duration>) -> Bytes {
    let first = match first_within {
        Some(within) => timeout(within, body.data()).await.ok().flatten(),
        None => body.data().await,
    };
    let Some(Ok(first)) = first else { return Bytes::new() };
    let mut all = BytesMut::from(first);
    let deadline = Instant::now() + ERROR_WITHIN;
    while all.len() <= MAX_REFUSAL {
        match timeout_at(deadline, body.data()).await {
            Ok(Some(Ok(next))) => all.extend_from_slice(&next),
            _ => break,
        }
    }
    all.freeze()
}

pub(super) fn bytes_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Decodes a whole body. Returns `None` if it cannot be decoded, or has more than `max` bytes.
pub(super) fn decoded(body: &[u8], encoding: &str, max: usize) -> Option<Bytes> {
    let mut decoder = Decoder::new(encoding, max).ok()?;
    let first = decoder.push(body).ok()?;
    let last = decoder.finish().ok()?;
    if last.is_empty() {
        return Some(first);
    }
    Some(Bytes::from([first, last].concat()))
}

/// Returns the body without its `Content-Encoding`, or `None` if it cannot be decoded.
pub(super) fn plain(headers: &HeaderMap, bytes: &Bytes, max: usize) -> Option<Bytes> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::to_str) {
        None => Some(bytes.clone()),
        Some(encoding) => encoding.ok().and_then(|encoding| decoded(bytes, encoding, max)),
    }
}

pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    is_of(headers, "text/event-stream")
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    is_of(headers, "application/json")
}

fn is_of(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.map(|value| value.split(';').next().unwrap_or("").trim());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(wanted))
}

/// Returns the error that an upstream's response is for the run, by its status, its headers and its plain body.
pub(super) fn error_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let kind = ModelErrorKind::of_response(status.as_u16(), body);
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    ModelError {
        status: Some(status.as_u16()),
        retry_after: retry_after(header, SystemTime::now()),
        ..ModelError::new(kind, format!("the upstream answered {status}"))
    }
}

/// A response to the client with an upstream's head.
pub(super) fn with_head(status: StatusCode, mut headers: HeaderMap, body: Body) -> Response<Body> {
    headers.remove(CONTENT_LENGTH);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
