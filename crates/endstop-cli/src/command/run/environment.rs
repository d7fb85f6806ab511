//! What the command sees in its environment: where models are, and which run it is.
//!
//! A file of its own because its table of variables changes with the clients, and nothing else does.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use endstop::store::RunId;

/// What a key is where the scripted model is the upstream, which asks for none.
const KEY_OF_NOBODY: &str = "endstop-sim";
const KEYS: [&str; 4] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// What no proxy may swallow.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "localhost"];

/// The variables that are set, whatever they were. `get` tells what they are now.
pub(super) fn variables(
    addr: SocketAddr,
    run: &RunId,
    is_sim: bool,
    get: impl Fn(&str) -> Option<String>,
) -> BTreeMap<&'static str, String> {
    let base = format!("http://{addr}");
    let mut set = BTreeMap::from([
        ("OPENAI_BASE_URL", format!("{base}/v1")),
        ("OPENAI_API_BASE", format!("{base}/v1")),
        ("ANTHROPIC_BASE_URL", base.clone()),
        // Read by Google's own clients, which append the version.
        ("GOOGLE_GEMINI_BASE_URL", base.clone()),
        // Read by LiteLLM, which appends `/models/..` to it.
        ("GEMINI_API_BASE", format!("{base}/v1beta")),
        ("ENDSTOP_RUN", run.to_string()),
        ("ENDSTOP_BASE_URL", base),
    ]);
    for name in ["NO_PROXY", "no_proxy"] {
        set.insert(name, without_proxy(get(name).as_deref()));
    }
    if is_sim {
        for name in KEYS.into_iter().filter(|name| get(name).is_none_or(|key| key.is_empty())) {
            set.insert(name, KEY_OF_NOBODY.to_owned());
        }
    }
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
mod tests {
    use super::*;

    fn set(is_sim: bool, now: &[(&str, &str)]) -> BTreeMap<&'static str, String> {
        let get = |name: &str| {
            let found = now.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        variables("127.0.0.1:4321".parse().unwrap(), &RunId::parse("r1").unwrap(), is_sim, get)
    }

    #[test]
    fn every_client_is_pointed_at_the_gateway() {
        let set = set(false, &[("OPENAI_BASE_URL", "https://elsewhere/v1")]);
        assert_eq!(set["OPENAI_BASE_URL"], "http://127.0.0.1:4321/v1");
        assert_eq!(set["OPENAI_API_BASE"], "http://127.0.0.1:4321/v1");
        assert_eq!(set["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4321");
        assert_eq!(set["GOOGLE_GEMINI_BASE_URL"], "http://127.0.0.1:4321");
        assert_eq!(set["GEMINI_API_BASE"], "http://127.0.0.1:4321/v1beta");
        assert_eq!(set["ENDSTOP_RUN"], "r1");
        assert!(KEYS.iter().all(|key| !set.contains_key(key)), "{set:?}");
    }

    #[test]
    fn keys_are_set_only_where_nobody_asks_for_them_and_there_are_none() {
        let set = set(true, &[("OPENAI_API_KEY", "mine"), ("GEMINI_API_KEY", "")]);
        assert!(!set.contains_key("OPENAI_API_KEY"));
        assert_eq!(set["ANTHROPIC_API_KEY"], KEY_OF_NOBODY);
        assert_eq!(set["GEMINI_API_KEY"], KEY_OF_NOBODY);
    }

    #[test]
    fn loopback_goes_past_every_proxy() {
        let set = set(false, &[("NO_PROXY", "corp.example, localhost"), ("no_proxy", "*")]);
        assert_eq!(set["NO_PROXY"], "corp.example,localhost,127.0.0.1");
        assert_eq!(set["no_proxy"], "*");
        assert_eq!(without_proxy(None), "127.0.0.1,localhost");
    }
}
