//! Reading a request.

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;

use super::answer;
use crate::body::Body;
use crate::config::Config;
use crate::decode::Decoder;
use crate::route::Route;
use crate::run::Rolling;
use crate::server::{TooLargeOrBroken, read_body};
use endstop_llm::{CallRequest, Dialect, ErrorKind};

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A request that has been read.
pub(super) struct Taken {
    pub(super) route: Route,
    pub(super) dialect: &'static dyn Dialect,
    /// Without the encoding that it came in.
    pub(super) body: Bytes,
    pub(super) asked: CallRequest,
    pub(super) rolling: Rolling,
    /// Of the body.
    pub(super) digest: u64,
}

/// Reads the body of a request as it came; the answer where it is not taken.
pub(super) async fn raw_body(
    config: &Config,
    incoming: Incoming,
    dialect: &dyn Dialect,
) -> Result<Bytes, Box<Response<Body>>> {
    let max = config.bounds.request;
    match read_body(incoming, max).await {
        Ok(body) => Ok(body),
        Err(TooLargeOrBroken::TooLarge) => {
            let text = format!("the body of the request has more than {max} bytes");
            refuse(dialect, StatusCode::PAYLOAD_TOO_LARGE, &text)
        }
        Err(error) => refuse(dialect, StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

fn refuse(
    dialect: &dyn Dialect,
    status: StatusCode,
    text: &str,
) -> Result<Bytes, Box<Response<Body>>> {
    Err(Box::new(answer::error(dialect, status, ErrorKind::Invalid, text)))
}

/// As [`raw_body`], without the encoding that it came in.
async fn body(
    config: &Config,
    headers: &HeaderMap,
    incoming: Incoming,
    dialect: &dyn Dialect,
) -> Result<Bytes, Box<Response<Body>>> {
    let body = raw_body(config, incoming, dialect).await?;
    let Some(encoding) = headers.get(CONTENT_ENCODING) else { return Ok(body) };
    let max = config.bounds.request;
    let text = "the body of the request cannot be decoded";
    match encoding.to_str().ok().and_then(|encoding| decoded(&body, encoding, max)) {
        Some(body) => Ok(body),
        None => refuse(dialect, StatusCode::UNSUPPORTED_MEDIA_TYPE, text),
    }
}

/// The whole of an encoded body; none where it cannot be decoded, or has more than `max` bytes.
pub(super) fn decoded(body: &[u8], encoding: &str, max: usize) -> Option<Bytes> {
    let mut decoder = Decoder::new(encoding, max).ok()?;
    let first = decoder.push(body).ok()?;
    let last = decoder.finish().ok()?;
    if last.is_empty() {
        return Some(first);
    }
    Some(Bytes::from([first, last].concat()))
}

/// A body without the mark of its encoding, which some programs write before JSON.
fn without_mark(body: Bytes) -> Bytes {
    if body.starts_with(BYTE_ORDER_MARK) { body.slice(BYTE_ORDER_MARK.len()..) } else { body }
}

/// Reads a model call; the answer where it cannot be read.
pub(super) async fn take(
    config: &Config,
    route: Route,
    headers: &HeaderMap,
    incoming: Incoming,
    dialect: &'static dyn Dialect,
) -> Result<Taken, Box<Response<Body>>> {
    let body = without_mark(body(config, headers, incoming, dialect).await?);
    let asked = match dialect.read(&route.rest, &body) {
        Ok(asked) => asked,
        Err(error) => {
            let text = format!("the request cannot be read: {error}");
            let status = StatusCode::BAD_REQUEST;
            return Err(Box::new(answer::error(dialect, status, ErrorKind::Invalid, &text)));
        }
    };
    let rolling = Rolling::of(&asked.messages);
    let digest = xxhash_rust::xxh3::xxh3_64(&body);
    Ok(Taken { route, dialect, body, asked, rolling, digest })
}
