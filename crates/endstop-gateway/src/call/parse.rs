//! The first phase: reading a request.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use endstop_llm::{Api, CallRequest, Dialect, ErrorKind, HEADERS, PriceHeader};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode, request};
use hyper::body::Incoming;

use super::respond;
use super::upstream_response::decoded;
use crate::body::Body;
use crate::config::Config;
use crate::route::Route;
use crate::run::MessageDigests;
use crate::server::{TooLargeOrBroken, read_body};

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A call whose request was read.
pub(super) struct ParsedCall {
    route: Route,
    head: request::Parts,
    api: Api,
    body: Bytes,
    request: CallRequest,
    digests: MessageDigests,
    body_digest: u64,
    /// The note to its model, once the call is admitted.
    note: OnceLock<String>,
}

impl ParsedCall {
    /// Reads a model call. Returns the response if it cannot be read.
    pub(super) async fn read(
        config: &Config,
        route: Route,
        head: request::Parts,
        incoming: Incoming,
        api: Api,
    ) -> Result<Arc<Self>, Box<Response<Body>>> {
        let dialect = api.dialect();
        let body = without_mark(plain_body(config, &head.headers, incoming, dialect).await?);
        let request = match dialect.read(&route.rest, &body) {
            Ok(request) => request,
            Err(error) => {
                let text = format!("the request cannot be read: {error}");
                return refuse(dialect, StatusCode::BAD_REQUEST, &text);
            }
        };
        let digests = MessageDigests::of(&request.messages);
        let body_digest = xxhash_rust::xxh3::xxh3_64(&body);
        let note = OnceLock::new();
        Ok(Arc::new(Self { route, head, api, body, request, digests, body_digest, note }))
    }

    pub(super) const fn route(&self) -> &Route {
        &self.route
    }

    /// The head of the request, as the client sent it.
    pub(super) const fn head(&self) -> &request::Parts {
        &self.head
    }

    pub(super) const fn api(&self) -> Api {
        self.api
    }

    pub(super) fn dialect(&self) -> &'static dyn Dialect {
        self.api.dialect()
    }

    /// The body, without the encoding that it came in.
    pub(super) const fn body(&self) -> &Bytes {
        &self.body
    }

    pub(super) const fn request(&self) -> &CallRequest {
        &self.request
    }

    /// The context window that a header of the request asks for, beyond that of its model.
    pub(super) fn asked_window(&self) -> Option<u64> {
        let is_there = |header: &&PriceHeader| {
            let values = self.head.headers.get_all(header.name).iter();
            values.filter_map(|value| value.to_str().ok()).any(|value| value.contains(header.value))
        };
        let of_api = HEADERS.iter().filter(|header| header.api == self.api);
        of_api.filter(is_there).map(|header| header.window).max()
    }

    /// Whether the client asks for the response piece by piece.
    pub(super) const fn is_streamed(&self) -> bool {
        self.request.is_stream || self.request.is_list
    }

    pub(super) const fn digests(&self) -> &MessageDigests {
        &self.digests
    }

    /// Adds a line for the model. Only the first one counts: a call that is repeated is sent as before.
    pub(super) fn set_note(&self, note: &str) {
        self.note.get_or_init(|| note.to_owned());
    }

    /// The line for the model that is added.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.get().map(String::as_str)
    }

    /// The digest of the body.
    pub(super) const fn body_digest(&self) -> u64 {
        self.body_digest
    }
}

/// Reads the body of a request unchanged. Returns the response if it is too large or broken.
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

fn refuse<T>(
    dialect: &dyn Dialect,
    status: StatusCode,
    text: &str,
) -> Result<T, Box<Response<Body>>> {
    Err(Box::new(respond::error(dialect, status, ErrorKind::Invalid, text)))
}

/// Like [`raw_body`], without the encoding that it came in.
async fn plain_body(
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

/// A body without the byte order mark that some programs write before JSON.
fn without_mark(body: Bytes) -> Bytes {
    if body.starts_with(BYTE_ORDER_MARK) { body.slice(BYTE_ORDER_MARK.len()..) } else { body }
}
