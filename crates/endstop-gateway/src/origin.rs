//! Requests of web pages: a page of any site can send requests to loopback through the browser that shows it, and spend the
//! budget of a run. Browsers name the page's site (`Origin`), or, for a site whose name leads to loopback, its name (`Host`).
//! Programs name neither, or loopback.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};
use std::net::IpAddr;
use thiserror::Error;

use crate::limits::QUOTED_CHARS;

/// Why a request is refused.
#[derive(Debug, Error)]
pub(crate) enum ForeignRequest {
    /// It was sent by the page of another site.
    #[error("requests of web pages are refused: `Origin` is `{0}`")]
    Origin(String),
    /// It was sent to another host.
    #[error(
        "this gateway listens on loopback, and the request is for the host `{0}`: send it to 127.0.0.1 or localhost"
    )]
    Host(String),
}

/// Checks that a request to loopback was sent by a program, or by a page on loopback.
///
/// # Errors
/// Returns the error says which part is foreign.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), ForeignRequest> {
    let shown = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes());
        text.chars().filter(|c| !c.is_control()).take(QUOTED_CHARS).collect::<String>()
    };
    for origin in headers.get_all(ORIGIN) {
        let host = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
        let is_own = host.as_ref().and_then(Uri::host).is_some_and(is_loopback);
        if !is_own {
            return Err(ForeignRequest::Origin(shown(origin)));
        }
    }
    if let Some(host) = uri.host().filter(|host| !is_loopback(host)) {
        return Err(ForeignRequest::Host(host.to_owned()));
    }
    for host in headers.get_all(HOST) {
        let name = host.to_str().ok().and_then(|host| host.parse::<http::uri::Authority>().ok());
        if !name.as_ref().is_some_and(|name| is_loopback(name.host())) {
            return Err(ForeignRequest::Host(shown(host)));
        }
    }
    Ok(())
}

/// Whether a name or address stays on this machine.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || bare.eq_ignore_ascii_case("localhost")
        || bare.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
mod tests;
