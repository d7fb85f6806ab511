//! Secrets of a request: the keys that its client sent, and the key that the gateway put in their place. Responses of
//! errors and everything that the gateway writes leave them out.
//!
//! Exactly these values are replaced, as they are, escaped in a URL or escaped in JSON. In bodies, so are values of keys in
//! URLs, also of other owners; in headers these pass, because a client may have to follow a signed URL. The text of a model
//! passes unchanged: a model sees no key.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use crate::config::Config;
use crate::limits::{MAX_PARAMETER_NAME, MIN_SECRET};
use crate::route::{self, Route};

/// The text in the place of a secret.
const REDACTED: &[u8] = b"[redacted]";

/// The bytes that end the value of a parameter in a URL, wherever that stands.
const AFTER_VALUE: &[u8] = b"&\"'<> \t\r\n\\#),";

/// The secrets of one request, the longest first.
#[derive(Clone, Default)]
pub(super) struct Secrets(Arc<[Box<[u8]>]>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The secrets of a request with these headers and this query.
    pub(super) fn of(
        config: &Config,
        route: &Route,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Self {
        let mut all = Vec::new();
        for (name, value) in headers {
            if name == http::header::COOKIE {
                for pair in value.as_bytes().split(|byte| *byte == b';') {
                    let value = pair.splitn(2, |byte| *byte == b'=').last();
                    add(&mut all, value.unwrap_or_default());
                }
            } else if route::is_secret_header(name) {
                add(&mut all, without_scheme(value.as_bytes()));
            }
        }
        for value in query.into_iter().flat_map(route::secrets_of_query) {
            add(&mut all, &value);
        }
        if let Some(issued) = &route.issued {
            add(&mut all, issued.sent.expose().as_bytes());
            let own = &config.upstream_keys;
            for key in [&own.openai, &own.anthropic, &own.gemini].into_iter().flatten() {
                add(&mut all, key.expose().as_bytes());
            }
        }
        all.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all.into())
    }

    /// Replaces the secrets in text.
    pub(super) fn redact<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let mut redactor = self.redactor();
        let mut redacted = redactor.push(text);
        redacted.extend_from_slice(&redactor.finish());
        if redacted == text { Cow::Borrowed(text) } else { Cow::Owned(redacted) }
    }

    /// Replaces the secrets in words.
    pub(super) fn redact_words(&self, words: &str) -> String {
        String::from_utf8_lossy(&self.redact(words.as_bytes())).into_owned()
    }

    /// Replaces the secrets in the values of headers, and no others: a redirect may name a URL that its owner has signed.
    pub(super) fn redact_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let has = |secret: &[u8]| memmem::find(value.as_bytes(), secret).is_some();
            if self.0.iter().any(|secret| has(secret)) {
                let redacted =
                    self.0.iter().fold(value.as_bytes().to_vec(), |text, it| without(text, it));
                let plain = HeaderValue::from_bytes(&redacted);
                *value = plain.unwrap_or_else(|_| HeaderValue::from_static("[redacted]"));
            }
        }
    }

    /// Replaces the secrets in a text that comes in pieces.
    pub(super) fn redactor(&self) -> Redactor {
        Redactor { secrets: self.clone(), kept: Vec::new(), is_in_value: false }
    }
}

/// The secret of `Authorization`, which may begin with a scheme.
fn without_scheme(value: &[u8]) -> &[u8] {
    let at = value.iter().position(|byte| *byte == b' ');
    at.and_then(|at| value.get(at..)).unwrap_or(value)
}

/// Adds a secret in the forms in which it may be repeated.
fn add(all: &mut Vec<Box<[u8]>>, secret: &[u8]) {
    let secret = secret.trim_ascii();
    if secret.len() < MIN_SECRET {
        return;
    }
    all.push(secret.into());
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    if secret.iter().all(is_plain) {
        return;
    }
    let (mut upper, mut lower) = (String::new(), String::new());
    for byte in secret {
        if is_plain(byte) {
            upper.push(char::from(*byte));
            lower.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(upper, "%{byte:02X}");
            let _ = write!(lower, "%{byte:02x}");
        }
    }
    let text = String::from_utf8_lossy(secret);
    let json = serde_json::Value::from(&*text).to_string();
    let json = json.trim_matches('"').to_owned();
    let slashed = json.replace('/', "\\/");
    all.extend([upper, lower, json, slashed].map(|form| form.into_bytes().into_boxed_slice()));
}

/// Replaces secrets in a text that comes in pieces. Keeps only what may be the beginning of one.
#[derive(Debug)]
pub(super) struct Redactor {
    secrets: Secrets,
    /// The end of what came, if a secret may begin in it.
    kept: Vec<u8>,
    /// Whether the text is in the value of a parameter that is replaced.
    is_in_value: bool,
}

impl Redactor {
    /// Takes the next piece, and returns what can be passed on.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.kept);
        text.extend_from_slice(piece);
        for secret in &*self.secrets.0 {
            text = without(text, secret);
        }
        self.kept = text.split_off(text.len().saturating_sub(self.begun(&text)));
        self.without_parameters(&text)
    }

    /// Returns the rest.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.kept);
        self.without_parameters(&rest)
    }

    /// Replaces the values of parameters that are keys.
    fn without_parameters(&mut self, text: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(text.len());
        let mut left = text;
        loop {
            if self.is_in_value {
                let end = left.iter().position(|byte| AFTER_VALUE.contains(byte));
                let Some(end) = end else { return passed };
                left = left.get(end..).unwrap_or_default();
                self.is_in_value = false;
            }
            let names_secret = |at: &usize| {
                left.get(..*at).and_then(parameter).is_some_and(route::is_secret_parameter)
            };
            let Some(at) = memchr::memchr_iter(b'=', left).find(names_secret) else {
                passed.extend_from_slice(left);
                return passed;
            };
            let (name, value) = left.split_at(at.saturating_add(1));
            passed.extend_from_slice(name);
            passed.extend_from_slice(REDACTED);
            left = value;
            self.is_in_value = true;
        }
    }

    /// The bytes at the end of a text that may begin a secret, or the name of a parameter.
    fn begun(&self, text: &[u8]) -> usize {
        let of_secret = |secret: &[u8]| {
            let longest = secret.len().saturating_sub(1).min(text.len());
            (1..=longest)
                .rev()
                .find(|length| text.ends_with(secret.get(..*length).unwrap_or_default()))
        };
        let secret = self.secrets.0.iter().filter_map(|secret| of_secret(secret)).max();
        let name = text.iter().rev().take(MAX_PARAMETER_NAME).take_while(|byte| is_of_name(**byte));
        let name = name.count();
        let before = text.len().checked_sub(name.saturating_add(1)).and_then(|at| text.get(at));
        let is_begun = before.is_some_and(|byte| b"?&;\\".contains(byte));
        secret.unwrap_or(0).max(if is_begun { name.saturating_add(1) } else { 0 })
    }
}

fn without(text: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    if memmem::find(&text, secret).is_none() {
        return text;
    }
    let mut passed = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in memmem::find_iter(&text, secret) {
        passed.extend_from_slice(text.get(from..at).unwrap_or_default());
        passed.extend_from_slice(REDACTED);
        from = at.saturating_add(secret.len());
    }
    passed.extend_from_slice(text.get(from..).unwrap_or_default());
    passed
}

const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The name of the parameter of a URL at the end of a text: after `?` or `&`, or one that is escaped in HTML or JSON.
fn parameter(text: &[u8]) -> Option<&[u8]> {
    let length = text.iter().rev().take(MAX_PARAMETER_NAME).take_while(|it| is_of_name(**it));
    let (before, name) = text.split_at_checked(text.len().checked_sub(length.count())?)?;
    match before.last()? {
        b'?' | b'&' | b';' => Some(name),
        b'\\' => name.strip_prefix(b"u0026").or_else(|| name.strip_prefix(b"u003f")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
