//! The environment of the command: the address of models, and the run's id.
//!
//! A separate file because its table of variables changes with the clients, and nothing else does.

use std::collections::BTreeMap;

/// The key for the scripted model as the upstream, which requires none.
const KEY_OF_NOBODY: &str = "endstop-sim";
const KEYS: [&str; 4] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
const GOOGLE_KEYS: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// Addresses that must bypass any proxy.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

/// The API keys that a command may read that nothing is known of. Google's clients read two, and warn if both are set.
pub(super) fn missing_keys(get: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let has = |name: &str| get(name).is_some_and(|key| !key.is_empty());
    let has_google = GOOGLE_KEYS.into_iter().any(has);
    let is_missing = |name: &&str| !(has(name) || (has_google && GOOGLE_KEYS.contains(name)));
    KEYS.into_iter().filter(is_missing).collect()
}

/// The variables that are set, whatever they were: the addresses, and `keys`, which the scripted model does not ask for.
/// With the guard the gateway is the proxy of the command at the address `proxy`, and uses the proxy that the user has set.
/// `get` returns their current values.
pub(in crate::command) fn variables(
    base: &str,
    run: &str,
    keys: &[&'static str],
    proxy: Option<&str>,
    get: impl Fn(&str) -> Option<String>,
) -> BTreeMap<&'static str, String> {
    let mut set = BTreeMap::from([
        ("OPENAI_BASE_URL", format!("{base}/v1")),
        ("OPENAI_API_BASE", format!("{base}/v1")),
        ("ANTHROPIC_BASE_URL", base.to_owned()),
        // Read by Google's own clients, which append the version.
        ("GOOGLE_GEMINI_BASE_URL", base.to_owned()),
        // Read by LiteLLM, which appends `/models/..` to it.
        ("GEMINI_API_BASE", format!("{base}/v1beta")),
        ("ENDSTOP_RUN", run.to_owned()),
        ("ENDSTOP_BASE_URL", base.to_owned()),
    ]);
    for name in ["NO_PROXY", "no_proxy"] {
        set.insert(name, without_proxy(get(name).as_deref()));
    }
    if let Some(proxy) = proxy {
        set.extend(["HTTPS_PROXY", "https_proxy"].map(|name| (name, proxy.to_owned())));
        // Node reads the others only with it.
        set.insert("NODE_USE_ENV_PROXY", "1".to_owned());
    }
    set.extend(keys.iter().map(|name| (*name, KEY_OF_NOBODY.to_owned())));
    set
}

/// The hosts that are reached without a proxy, loopback among them.
fn without_proxy(now: Option<&str>) -> String {
    let now = now.unwrap_or_default().trim();
    if now == "*" {
        return now.to_owned();
    }
    let mut hosts: Vec<&str> =
        now.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
    for host in LOOPBACK {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts.join(",")
}

#[cfg(test)]
mod tests;
