//! The hosts of model providers, as tunnels know them: those of [`MODEL_PROVIDERS`].
//!
//! A separate file because several parts of tunnels ask for them.

use std::net::IpAddr;

use endstop_runtime::MODEL_PROVIDERS;

/// Returns the patterns of model providers' hosts, each with its provider. `*` stands for one label, or a part of one.
///
/// ```
/// assert!(endstop_gateway::model_hosts().any(|(host, _)| host == "api.anthropic.com"));
/// ```
pub fn model_hosts() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODEL_PROVIDERS.iter().flat_map(|it| it.hosts.iter().map(|host| (*host, it.name)))
}

/// Returns the provider of a host, if that is one of [`model_hosts`].
///
/// ```
/// assert_eq!(endstop_gateway::model_provider("API.OpenAI.com."), Some("OpenAI"));
/// assert_eq!(endstop_gateway::model_provider("127.0.0.1"), None);
/// ```
#[must_use]
pub fn model_provider(host: &str) -> Option<&'static str> {
    row_of(&normalized(host)).map(|(_, provider)| provider)
}

/// Returns a host as it is compared: in lower case, without brackets and the dots at its end.
pub(super) fn normalized(host: &str) -> String {
    let host = host.trim_end_matches('.');
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.to_ascii_lowercase()
}

/// Returns the row of a [normalized] host. An IP address has none.
pub(super) fn row_of(host: &str) -> Option<(&'static str, &'static str)> {
    if host.parse::<IpAddr>().is_ok() {
        return None;
    }
    model_hosts().find(|(pattern, _)| matches(pattern, host))
}

/// Whether a [normalized] host is one of a pattern.
pub(super) fn matches(pattern: &str, host: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == host };
    let rest = host.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    rest.is_some_and(|middle| !middle.is_empty() && !middle.contains('.'))
}

#[cfg(test)]
mod tests;
