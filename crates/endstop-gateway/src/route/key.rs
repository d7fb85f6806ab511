//! Keys of clients: those that the gateway has issued name a run, and never reach an upstream.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::ApiFamily;
use crate::config::{IssuedTo, Key, KeyTable, UpstreamKeys};

const ANTHROPIC: HeaderName = HeaderName::from_static("x-api-key");
const AZURE: HeaderName = HeaderName::from_static("api-key");
const GEMINI: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The token of `Authorization: Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The issued key that the request has. One that was revoked or has expired is one, too.
pub(super) fn issued(
    keys: &KeyTable,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Option<IssuedTo> {
    let in_query = query.and_then(|query| query.split('&').find_map(key_of_pair));
    sent(headers, in_query.as_deref()).find_map(|sent| keys.find(sent))
}

/// Whether the request has a key that looks issued and is unknown.
pub(super) fn is_forgotten(keys: &KeyTable, headers: &HeaderMap, query: Option<&str>) -> bool {
    let in_query = query.and_then(|query| query.split('&').find_map(key_of_pair));
    sent(headers, in_query.as_deref()).any(|sent| keys.has_forgotten(sent))
}

/// The keys that a request has sent.
fn sent<'r>(headers: &'r HeaderMap, in_query: Option<&'r [u8]>) -> impl Iterator<Item = &'r [u8]> {
    let sent = [
        bearer(headers),
        headers.get(&ANTHROPIC).map(HeaderValue::as_bytes),
        headers.get(&AZURE).map(HeaderValue::as_bytes),
        headers.get(&GEMINI).map(HeaderValue::as_bytes),
        in_query,
    ];
    sent.into_iter().flatten()
}

/// The value of a pair of a query if it is the key.
fn key_of_pair(pair: &str) -> Option<Cow<'_, [u8]>> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    (*unescaped(name) == *b"key").then(|| unescaped(value))
}

/// Escapes of a query read; what is none stays.
pub(crate) fn unescaped(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece.get(..2).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(piece.get(2..).unwrap_or_default().as_bytes());
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(piece.as_bytes());
            }
        }
    }
    Cow::Owned(bytes)
}

/// Names of parameters of a URL that are keys.
const SECRET_PARAMETERS: &[&str] = &[
    "key",
    "api_key",
    "api-key",
    "apikey",
    "access_token",
    "auth_token",
    "token",
    "sig",
    "signature",
    "client_secret",
    "password",
    "x-api-key",
    "x-goog-api-key",
    "x-goog-signature",
    "x-amz-signature",
    "x-amz-security-token",
];

/// Parts of the names of headers that carry keys: gateways and clouds use other names.
const SECRET_HEADERS: &[&str] =
    &["key", "token", "secret", "auth", "cookie", "password", "credential", "signature"];

static FIND_SECRET_HEADER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let built = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(SECRET_HEADERS);
    #[expect(
        clippy::expect_used,
        reason = "eight short words are far below the limits of the library"
    )]
    built.expect("the words are few and short")
});

/// Headers that only look like one of these.
const PLAIN_HEADERS: &[&str] = &["idempotency-key", "x-idempotency-key", "sec-websocket-key"];

/// Whether a parameter of a URL is a key, by its name.
pub(crate) fn is_secret_parameter(name: &[u8]) -> bool {
    SECRET_PARAMETERS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a header of a request carries a key, by its name.
pub(crate) fn is_secret_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    FIND_SECRET_HEADER.is_match(name) && !PLAIN_HEADERS.contains(&name)
}

/// The values of a query that are keys, as they are and without escapes.
pub(crate) fn secrets_of_query(query: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let secrets = pairs.filter(|(name, _)| is_secret_parameter(&unescaped(name)));
    secrets.flat_map(|(_, value)| [Cow::Borrowed(value.as_bytes()), unescaped(value)])
}

/// The query that goes to the upstream: with an issued key, nothing that is a key.
pub(super) fn strip_query<'q>(query: &'q str, issued: Option<&Key>) -> Option<Cow<'q, str>> {
    let Some(issued) = issued else { return Some(Cow::Borrowed(query)) };
    let is_kept = |pair: &&str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        !is_secret_parameter(&unescaped(name)) && !has(&unescaped(value), issued)
    };
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    (!kept.is_empty()).then(|| Cow::Owned(kept.join("&")))
}

/// Whether a key is in a value.
fn has(value: &[u8], key: &Key) -> bool {
    !key.expose().is_empty() && memchr::memmem::find(value, key.expose().as_bytes()).is_some()
}

/// Removes every key that a client can send, the issued one in any place, and the headers that belong to a client's
/// own account.
pub(crate) fn strip(headers: &mut HeaderMap, issued: &Key) {
    let is_of_account =
        |name: &HeaderName| matches!(name.as_str(), "openai-organization" | "openai-project");
    let is_stripped = |(name, value): &(&HeaderName, &HeaderValue)| {
        is_secret_header(name) || is_of_account(name) || has(value.as_bytes(), issued)
    };
    let stripped: Vec<HeaderName> =
        headers.iter().filter(is_stripped).map(|(name, _)| name.clone()).collect();
    for name in stripped {
        headers.remove(name);
    }
}

/// Puts the upstream's own key in.
pub(crate) fn use_key(headers: &mut HeaderMap, family: ApiFamily, keys: &UpstreamKeys) {
    let (name, key, prefix) = match family {
        ApiFamily::OpenAi => (AUTHORIZATION, &keys.openai, "Bearer "),
        ApiFamily::Anthropic => (ANTHROPIC, &keys.anthropic, ""),
        ApiFamily::Gemini => (GEMINI, &keys.gemini, ""),
    };
    let Some(key) = key else { return };
    if let Ok(mut value) = HeaderValue::from_str(&format!("{prefix}{}", key.expose())) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}
