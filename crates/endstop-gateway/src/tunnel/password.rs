//! The password of the proxy: the port of loopback is open to every user of this machine, the tunnels are for one client.

use std::net::SocketAddr;

use http::HeaderMap;
use http::header::PROXY_AUTHORIZATION;
use hyper_util::client::proxy::matcher::Matcher;

use crate::config::Key;
use crate::limits::PROXY_PASSWORD_BYTES;
use crate::secret::{is_same, random};

/// The user that clients name. Their proxy needs one in addition to the password.
const USER: &str = "endstop";

/// A password that is made for one gateway.
#[derive(Debug)]
pub(super) struct ProxyPassword {
    password: Key,
    /// The credentials as HTTP has them, in base64.
    encoded: Key,
}

impl ProxyPassword {
    pub(super) fn new() -> Self {
        let bytes: [u8; PROXY_PASSWORD_BYTES] = random();
        let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let Some(encoded) = encoded(&password) else {
            // Without credentials, a client that sends none would have the right ones.
            unreachable!(
                "an address with a user and a password in hexadecimal digits has credentials"
            )
        };
        Self { password: Key::new(password), encoded: Key::new(encoded) }
    }

    /// The value that clients put into `HTTPS_PROXY`.
    pub(super) fn address(&self, at: SocketAddr) -> String {
        format!("http://{USER}:{}@{at}", self.password.expose())
    }

    /// The header of a client.
    #[cfg(test)]
    pub(super) fn header(&self) -> String {
        format!("Basic {}", self.encoded.expose())
    }

    /// Whether a request has it.
    pub(super) fn is_sent_in(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(PROXY_AUTHORIZATION).and_then(|value| value.to_str().ok());
        let credentials = sent.and_then(|sent| sent.split_once(' '));
        credentials.is_some_and(|(scheme, credentials)| {
            scheme.eq_ignore_ascii_case("basic")
                && is_same(credentials.trim().as_bytes(), self.encoded.expose().as_bytes())
        })
    }
}

/// The credentials as a client of this address sends them.
fn encoded(password: &str) -> Option<String> {
    let proxy = Matcher::builder().all(format!("http://{USER}:{password}@localhost")).build();
    let found = proxy.intercept(&http::Uri::from_static("http://any"))?;
    let header = found.basic_auth()?.to_str().ok()?;
    header.split_once(' ').map(|(_, credentials)| credentials.to_owned())
}

#[cfg(test)]
mod tests;
