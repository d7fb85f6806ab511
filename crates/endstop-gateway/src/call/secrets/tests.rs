//! Secrets in texts, however those are cut into pieces.

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use http::Method;
use proptest::prelude::*;

use super::*;
use crate::config::{Runs, Upstreams};

const KEY: &str = "sk-canary/+1\"x";

fn secrets(headers: &[(&'static str, &str)], query: &str) -> Secrets {
    let policy = Policy { unbounded: true, ..Policy::default() };
    let program = Program::new(&policy, &Probes::new()).unwrap();
    let upstreams = Upstreams::all("http://127.0.0.1:1").unwrap();
    let run = endstop_runtime::store::RunId::parse("main").unwrap();
    let config = Config::new(upstreams, program.into(), Runs::One(run));
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    let keys = config.runs.known_keys();
    let route =
        route::route(&config, &keys, &Method::POST, "/v1/messages", &headers, None).unwrap();
    Secrets::of(&config, &route, &headers, Some(query))
}

#[test]
fn what_a_client_sends_as_a_key_is_found_in_every_form() {
    let all = secrets(
        &[
            ("authorization", &format!("Bearer {KEY}")),
            ("x-portkey-api-key", "portkey-canary"),
            ("cookie", "a=cookie-canary; b=1"),
            ("x-amz-security-token", "amz-canary-1"),
            ("anthropic-version", "2023-06-01-canary"),
        ],
        "alt=canary-alt&key=query%2Dcanary",
    );
    let text = |text: &str| String::from_utf8(all.redact(text.as_bytes()).into_owned()).unwrap();
    for (before, after) in [
        (format!("key {KEY}."), "key [redacted]."),
        (r#"{"m":"sk-canary/+1\"x"}"#.to_owned(), r#"{"m":"[redacted]"}"#),
        (r#"{"m":"sk-canary\/+1\"x"}"#.to_owned(), r#"{"m":"[redacted]"}"#),
        ("http://h/sk-canary%2F%2B1%22x/a".to_owned(), "http://h/[redacted]/a"),
        ("http://h/sk-canary%2f%2b1%22x/a".to_owned(), "http://h/[redacted]/a"),
        ("portkey-canary, cookie-canary".to_owned(), "[redacted], [redacted]"),
        ("query-canary and amz-canary-1".to_owned(), "[redacted] and [redacted]"),
        // Also of other owners.
        ("GET /v1?alt=1&KEY=other#x".to_owned(), "GET /v1?alt=1&KEY=[redacted]#x"),
        (r#""/v1?a=1\u0026api_key=other""#.to_owned(), r#""/v1?a=1\u0026api_key=[redacted]""#),
        ("/v1?a&amp;access_token=other>".to_owned(), "/v1?a&amp;access_token=[redacted]>"),
        ("/v1?key=a&sig=b".to_owned(), "/v1?key=[redacted]&sig=[redacted]"),
    ] {
        assert_eq!(text(&before), after);
    }
    for same in ["2023-06-01-canary", "canary-alt", "the key=value of ?monkey=7&pageToken=9", "sk-"]
    {
        assert!(matches!(all.redact(same.as_bytes()), Cow::Borrowed(_)), "{same}");
    }
    assert!(!format!("{all:?}").contains("canary"));
}

proptest! {
    #[test]
    fn pieces_are_redacted_like_the_whole(
        parts in proptest::collection::vec(
            prop_oneof![
                Just(KEY), Just("sk-can"), Just("?key="), Just("&"), Just("u0026sig="), Just("\\"),
                Just("other value"), Just("?a="), Just("ke"), Just("y=1"), Just("portkey-canary"),
            ],
            0..12,
        ),
        cuts in proptest::collection::vec(0usize..200, 0..8),
    ) {
        let bearer = format!("Bearer {KEY}");
        let all = secrets(&[("authorization", &bearer), ("x-portkey-api-key", "portkey-canary")], "");
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
        cuts.sort_unstable();
        let (mut redactor, mut passed, mut from) = (all.redactor(), Vec::new(), 0);
        for at in cuts.into_iter().chain([text.len()]) {
            passed.extend(redactor.push(&text.as_bytes()[from..at]));
            from = at;
        }
        passed.extend(redactor.finish());
        let passed = String::from_utf8(passed).unwrap();
        prop_assert!(!passed.contains(KEY) && !passed.contains("portkey-canary"), "{text} {passed}");
        prop_assert_eq!(passed.as_bytes(), &*all.redact(text.as_bytes()), "{}", text);
    }
}
