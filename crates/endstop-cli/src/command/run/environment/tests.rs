//! Tests of `environment`.

use super::*;

fn set(is_sim: bool, now: &[(&str, &str)]) -> BTreeMap<&'static str, String> {
    let get = |name: &str| {
        let found = now.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let keys = if is_sim { missing_keys(get) } else { Vec::new() };
    variables("http://127.0.0.1:4321", "r1", &keys, None, get)
}

#[test]
fn the_gateway_is_the_proxy_with_the_guard_alone() {
    let get = |name: &str| (name == "HTTPS_PROXY").then(|| "http://corp:3128".to_owned());
    let proxy = "http://endstop:secret@127.0.0.1:4321";
    let with = variables("http://127.0.0.1:4321", "r1", &[], Some(proxy), get);
    for name in ["HTTPS_PROXY", "https_proxy"] {
        assert_eq!(with[name], proxy);
    }
    assert_eq!(with["NODE_USE_ENV_PROXY"], "1");
    assert!(!with.contains_key("HTTP_PROXY") && !with.contains_key("ALL_PROXY"), "{with:?}");
    let without = variables("http://127.0.0.1:4321", "r1", &[], None, get);
    assert!(
        without.keys().all(|name| !name.ends_with("_PROXY") || *name == "NO_PROXY"),
        "{without:?}"
    );
    assert!(!without.contains_key("https_proxy"), "{without:?}");
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
fn a_key_of_google_gets_no_second_one_beside_it() {
    for (one, other) in [("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("GOOGLE_API_KEY", "GEMINI_API_KEY")]
    {
        let set = set(true, &[(one, "mine")]);
        assert!(!set.contains_key(one) && !set.contains_key(other), "{set:?}");
        assert_eq!(set["OPENAI_API_KEY"], KEY_OF_NOBODY);
    }
}

#[test]
fn loopback_goes_past_every_proxy() {
    let set = set(false, &[("NO_PROXY", "corp.example, localhost"), ("no_proxy", "*")]);
    assert_eq!(set["NO_PROXY"], "corp.example,localhost,127.0.0.1,::1");
    assert_eq!(set["no_proxy"], "*");
    assert_eq!(without_proxy(None), "127.0.0.1,localhost,::1");
}
