//! Header fields and targets of requests that are passed on.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::PathAndQuery;
use http::{Request, Uri, Version};

use super::UpstreamError;

/// What a message says of its own connection and framing, and not of its content.
const OF_ONE_HOP: [HeaderName; 13] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The fields of a message that are passed on, in either direction: all but those of its connection and framing,
/// those that `Connection` names, and `Host`. The length is set anew from the body that is really sent.
pub(crate) fn forwardable(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    for named in headers.get_all(CONNECTION) {
        let names = named.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        for name in names.filter_map(|name| HeaderName::from_bytes(name).ok()) {
            passed.remove(name);
        }
    }
    for name in &OF_ONE_HOP {
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
        let target = format!("{prefix}{below}");
        Uri::from(PathAndQuery::try_from(target).map_err(|_| UpstreamError::Path)?)
    };
    parts.version = Version::HTTP_11;
    let host = base.authority().ok_or(UpstreamError::Path)?.as_str();
    let host = HeaderValue::from_str(host).map_err(|_| UpstreamError::Path)?;
    for name in [CONNECTION, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
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
