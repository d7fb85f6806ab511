//! Header fields and targets of requests that are passed on.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::PathAndQuery;
use http::{Request, Uri, Version};

use super::error::UpstreamError;

/// Fields of a message about its connection and framing, and not about its content.
fn is_of_one_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "content-length"
            | "expect"
            | "host"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// The fields of a message that are passed on, in either direction: all but those of its connection and framing,
/// those that `Connection` names, `Host`, and those of these names. The length is set again from the body that is
/// sent.
pub(crate) fn forwardable(headers: HeaderMap, but: &[&str]) -> HeaderMap {
    let mut passed = headers;
    let mut dropped: Vec<HeaderName> = Vec::new();
    for named in passed.get_all(CONNECTION) {
        let names = named.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        dropped.extend(names.filter_map(|name| HeaderName::from_bytes(name).ok()));
    }
    // Most of them are absent, so reading the present ones costs less.
    let is_dropped = |name: &&HeaderName| is_of_one_hop(name) || but.contains(&name.as_str());
    dropped.extend(passed.keys().filter(is_dropped).cloned());
    for name in dropped {
        passed.remove(name);
    }
    passed
}

/// The request as it is sent below `base`, with its own host and length.
pub(super) fn aimed(base: &Uri, request: Request<Bytes>) -> Result<Request<Bytes>, UpstreamError> {
    let (mut parts, body) = request.into_parts();
    let below = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let prefix = base.path().trim_end_matches('/');
    parts.uri = if prefix.is_empty() {
        let target = parts.uri.path_and_query().cloned();
        Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")))
    } else {
        let target = [prefix, below].concat();
        Uri::from(PathAndQuery::try_from(target).map_err(|_| UpstreamError::Path)?)
    };
    parts.version = Version::HTTP_11;
    let host = base.authority().ok_or(UpstreamError::Path)?.as_str();
    let host = HeaderValue::from_str(host).map_err(|_| UpstreamError::Path)?;
    let is_of_framing = |name: &&HeaderName| {
        [CONNECTION, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(*name)
    };
    let dropped: Vec<HeaderName> = parts.headers.keys().filter(is_of_framing).cloned().collect();
    for name in dropped {
        parts.headers.remove(name);
    }
    parts.headers.insert(HOST, host);
    if body.is_empty() && (parts.method.is_safe()) {
        parts.headers.remove(CONTENT_LENGTH);
    } else {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Ok(Request::from_parts(parts, body))
}
