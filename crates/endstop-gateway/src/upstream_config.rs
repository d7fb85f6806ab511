//! Upstreams from the environment and from the command line.

use std::net::{IpAddr, SocketAddr};

use endstop_runtime::ProviderApi;
use http::Uri;
use http::uri::Scheme;

use crate::config::{Upstreams, UpstreamsError};

impl Upstreams {
    /// Reads the upstreams from the variables that the clients themselves read: `OPENAI_BASE_URL`, otherwise
    /// `OPENAI_API_BASE`; `ANTHROPIC_BASE_URL`; `GOOGLE_GEMINI_BASE_URL`, otherwise `GEMINI_API_BASE`. The default is the
    /// provider's own address, also for an empty variable.
    ///
    /// # Errors
    /// Returns an error if one of them is no valid address.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Self, UpstreamsError> {
        let base = |names: &[&str], provider: &str| {
            let set = names.iter().filter_map(|name| get(name));
            let set = set.map(|text| text.trim().to_owned()).find(|text| !text.is_empty());
            address(set.as_deref().unwrap_or_else(|| server_of(provider)))
        };
        Ok(Self {
            openai: base(&["OPENAI_BASE_URL", "OPENAI_API_BASE"], "openai")?,
            anthropic: base(&["ANTHROPIC_BASE_URL"], "anthropic")?,
            gemini: base(&["GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE"], "google")?,
            endstop: None,
            is_scripted: false,
        }
        .with_endstop(get))
    }

    /// Believes the stops that an upstream reports if it is the Endstop that `ENDSTOP_BASE_URL` names: one that runs this
    /// process. From any other server such a report would make calls free.
    #[must_use]
    pub fn with_endstop(mut self, get: impl Fn(&str) -> Option<String>) -> Self {
        let named = get("ENDSTOP_BASE_URL");
        self.endstop = named.and_then(|base| address(base.trim()).ok()).or(self.endstop);
        self
    }

    /// Uses one base for all APIs, with or without `/v1` at its end.
    ///
    /// # Errors
    /// Returns an error if it is no valid address.
    pub fn all(base: &str) -> Result<Self, UpstreamsError> {
        let base = base.trim().trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        Ok(Self {
            openai: address(&format!("{root}/v1"))?,
            anthropic: address(root)?,
            gemini: address(root)?,
            endstop: None,
            is_scripted: false,
        })
    }

    /// Returns the scripted model of `endstop-sim` for all. It bills a token for four bytes.
    ///
    /// # Errors
    /// Returns an error if it is no valid address.
    pub fn scripted(base: &str) -> Result<Self, UpstreamsError> {
        Ok(Self { is_scripted: true, ..Self::all(base)? })
    }

    /// Whether chat completions are counted by OpenAI's tokenizers: its own API, or the scripted model. A server that only
    /// speaks the API can have models of the same names with other tokenizers.
    pub(crate) fn has_openai_tokens(&self) -> bool {
        let api = ProviderApi::at(self.openai.host().unwrap_or_default());
        self.is_scripted || api.is_some_and(|api| api.provider == "openai")
    }

    /// Refuses bases that point at `listen`, the gateway's own address: calls would go round forever. Does not look up
    /// names other than `localhost`.
    ///
    /// # Errors
    /// Returns the first such base.
    pub fn refuse_loop(&self, listen: SocketAddr) -> Result<(), UpstreamsError> {
        let bases = [&self.openai, &self.anthropic, &self.gemini];
        match bases.into_iter().find(|base| points_at(base, listen)) {
            Some(base) => Err(wrong(&base.to_string(), "it is the gateway's own address")),
            None => Ok(()),
        }
    }
}

/// The address of a provider's own server, as the base of an upstream has it: only that of OpenAI has its version.
fn server_of(provider: &str) -> &'static str {
    let Some(server) = ProviderApi::of(provider).and_then(|api| api.server) else {
        unreachable!("the table of providers has the server of `{provider}`")
    };
    let versions: &[&str] = if provider == "openai" { &[] } else { &["v1/", "v1beta/"] };
    versions.iter().find_map(|version| server.strip_suffix(version)).unwrap_or(server)
}

fn points_at(base: &Uri, listen: SocketAddr) -> bool {
    let default = if base.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    let host = base.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let own = listen.ip().to_canonical();
    let is_here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    let is_same = match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) => {
            ip == own
                || (is_here(ip) && (own.is_unspecified() || (ip.is_unspecified() && is_here(own))))
        }
        Err(_) => host.eq_ignore_ascii_case("localhost") && is_here(own),
    };
    is_same && base.port_u16().unwrap_or(default) == listen.port()
}

/// Parses an address: nothing after the path, no slash at its end.
fn address(text: &str) -> Result<Uri, UpstreamsError> {
    let trimmed = text.trim_end_matches('/');
    if text.contains(['?', '#']) {
        return Err(wrong(text, "it may not have a query or a fragment"));
    }
    let uri: Uri = trimmed.parse().map_err(|_| wrong(text, "it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong(text, "it must begin with http:// or https://"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(wrong(text, "it may not hold a user or a password"));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if uri.host().is_none_or(str::is_empty)
        || (has_port && uri.port_u16().is_none_or(|port| port == 0))
    {
        return Err(wrong(text, "its host or port cannot be used"));
    }
    Ok(uri)
}

fn wrong(text: &str, why: &str) -> UpstreamsError {
    // The text before an `@` may be a password, and the text after a `?` or `#` a key.
    let end = text.find(['?', '#']).map_or(text.len(), |at| at.saturating_add(1));
    let begin = text.rfind('@').map_or(0, |at| at.saturating_add(1));
    // If the `@` comes after the others, every part may be a secret.
    let shown = text.get(begin..end).unwrap_or_default();
    let before = if begin > 0 { "…@" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    let text = format!("{before}{shown}{after}");
    UpstreamsError::Address { text, why: why.to_owned() }
}

#[cfg(test)]
mod tests;
