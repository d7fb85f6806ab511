//! Which bases are used, and which are refused.

use super::*;

fn environment(set: &[(&str, &str)]) -> Result<Upstreams, UpstreamsError> {
    Upstreams::from_environment(|name| {
        set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn without_variables_calls_go_to_the_providers() {
    let upstreams = environment(&[]).unwrap();
    assert_eq!(upstreams.openai, "https://api.openai.com/v1");
    assert_eq!(upstreams.anthropic, "https://api.anthropic.com");
    assert_eq!(upstreams.gemini, "https://generativelanguage.googleapis.com");
    let provider = |base: &Uri| ProviderApi::at(base.host().unwrap()).map(|api| api.provider);
    assert_eq!(provider(&upstreams.openai), Some("openai"));
    assert_eq!(provider(&upstreams.anthropic), Some("anthropic"));
    assert_eq!(provider(&upstreams.gemini), Some("google"));
}

#[test]
fn the_first_variable_that_is_set_wins_and_an_empty_one_is_none() {
    let set = [("OPENAI_BASE_URL", " "), ("OPENAI_API_BASE", "http://127.0.0.1:8/v1/")];
    assert_eq!(environment(&set).unwrap().openai, "http://127.0.0.1:8/v1");
    let set = [("OPENAI_BASE_URL", "http://a.example/v1"), ("OPENAI_API_BASE", "http://b.example")];
    assert_eq!(environment(&set).unwrap().openai, "http://a.example/v1");
    let set = [("GEMINI_API_BASE", "http://[::1]:9")];
    assert_eq!(environment(&set).unwrap().gemini, "http://[::1]:9");
}

#[test]
fn one_base_serves_all_with_its_version_path_or_without() {
    for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"] {
        let upstreams = Upstreams::all(base).unwrap();
        assert_eq!(upstreams.openai, "http://h:1/v1", "{base}");
        assert_eq!(upstreams.anthropic, "http://h:1", "{base}");
        assert_eq!(upstreams.gemini, "http://h:1", "{base}");
    }
    let upstreams = Upstreams::all("https://h/proxy").unwrap();
    assert_eq!(upstreams.openai, "https://h/proxy/v1");
    assert_eq!(upstreams.anthropic, "https://h/proxy");
}

#[test]
fn what_is_no_base_is_refused() {
    for text in [
        "",
        "h",
        "h:80",
        "/v1",
        "ftp://h",
        "file:///x",
        "http://",
        "http:///v1",
        "http://h:0",
        "http://h:",
        "http://h:99999",
        "http://u:p@h",
        "http://u@h",
        "http://h?x=1",
        "http://h/#f",
        "http://h h/",
    ] {
        assert!(Upstreams::all(text).is_err(), "{text}");
    }
}

#[test]
fn a_refusal_does_not_repeat_a_password() {
    for text in [
        "http://me:hunter2@h",
        "http://h/v1?key=hunter2",
        "http://h/v1?key=a@hunter2",
        "http://me:hunter2?@h",
        "http://h/#hunter2",
    ] {
        let error = Upstreams::all(text).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = Upstreams::all("http://h/v1?key=hunter2").unwrap_err().to_string();
    assert!(error.contains("`http://h/v1?…`"), "{error}");
}

#[test]
fn a_base_that_is_the_gateway_itself_is_refused() {
    let own: SocketAddr = "127.0.0.1:4100".parse().unwrap();
    for base in ["http://127.0.0.1:4100", "http://localhost:4100/v1", "http://0.0.0.0:4100"] {
        assert!(Upstreams::all(base).unwrap().refuse_loop(own).is_err(), "{base}");
    }
    for base in ["http://127.0.0.1:4101", "http://h.example:4100", "http://127.0.0.2:4100"] {
        assert!(Upstreams::all(base).unwrap().refuse_loop(own).is_ok(), "{base}");
    }
    let any: SocketAddr = "[::]:4100".parse().unwrap();
    for base in ["http://127.0.0.1:4100", "http://[::1]:4100", "http://[::ffff:127.0.0.1]:4100"] {
        assert!(Upstreams::all(base).unwrap().refuse_loop(any).is_err(), "{base}");
    }
}
