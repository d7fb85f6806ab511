//! Tables of requests and where they go.

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use http::HeaderValue;

use super::*;
use crate::config::{IssuedKey, IssuedKeys, Key, KeyChange, KeyHash, KeySource, Upstreams};
use crate::secret::is_same;

fn config(runs: Runs) -> Config {
    let policy = Policy { unbounded: true, ..Policy::default() };
    let upstreams = Upstreams::all("http://127.0.0.1:1").unwrap();
    Config::new(upstreams, Program::new(&policy, &Probes::new()).unwrap().into(), runs)
}

fn one() -> Config {
    config(Runs::One(RunId::parse("main").unwrap()))
}

fn many(unnamed: Unnamed) -> Config {
    let keys = vec![(Key::new("issued-1"), RunId::parse("keyed").unwrap().into())];
    config(Runs::Many { unnamed, keys: keys.into() })
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

fn post(
    config: &Config,
    target: &str,
    pairs: &[(&'static str, &str)],
) -> Result<Route, RouteError> {
    let keys = config.runs.known_keys();
    route(config, &keys, &Method::POST, target, &headers(pairs), None)
}

use ApiFamily::{Anthropic, Gemini, OpenAi};
use Endpoint::{CountTokens, Models, Other};

/// Method, target, run, API family, purpose, and the path sent to the upstream.
type Row = (&'static str, &'static str, ApiFamily, Endpoint, &'static str);

const CHAT: Endpoint = Endpoint::ModelCall(Api::Chat);
const RESPONSES: Endpoint = Endpoint::ModelCall(Api::Responses);
const MESSAGES: Endpoint = Endpoint::ModelCall(Api::Messages);
const BEDROCK: Endpoint = Endpoint::Cloud(CloudPlatform::Bedrock);
const VERTEX: Endpoint = Endpoint::Cloud(CloudPlatform::Vertex);
const GEMINI: Endpoint = Endpoint::ModelCall(Api::Gemini);

const PATHS: &[Row] = &[
    ("POST", "/v1/chat/completions", OpenAi, CHAT, "/chat/completions"),
    ("POST", "/chat/completions", OpenAi, CHAT, "/chat/completions"),
    ("POST", "/v1/chat/completions/", OpenAi, CHAT, "/chat/completions/"),
    ("POST", "/v1/chat/completions?a=b&c", OpenAi, CHAT, "/chat/completions?a=b&c"),
    ("GET", "/v1/chat/completions", OpenAi, Other, "/chat/completions"),
    ("POST", "/openai/v1/chat/completions", OpenAi, CHAT, "/openai/v1/chat/completions"),
    ("POST", "/v1/responses", OpenAi, RESPONSES, "/responses"),
    ("GET", "/v1/responses/resp_1", OpenAi, Other, "/responses/resp_1"),
    ("POST", "/v1/responses/input_tokens", OpenAi, CountTokens, "/responses/input_tokens"),
    ("POST", "/v1/embeddings", OpenAi, Other, "/embeddings"),
    ("POST", "/v1/completions", OpenAi, Other, "/completions"),
    ("POST", "/v1/threads/t/messages", OpenAi, Other, "/threads/t/messages"),
    ("GET", "/v1/models", OpenAi, Models, "/models"),
    ("POST", "/v1/messages", Anthropic, MESSAGES, "/v1/messages"),
    ("POST", "/v1/messages?beta=true", Anthropic, MESSAGES, "/v1/messages?beta=true"),
    ("POST", "/messages", Anthropic, MESSAGES, "/v1/messages"),
    ("POST", "/v1/messages/count_tokens", Anthropic, CountTokens, "/v1/messages/count_tokens"),
    ("POST", "/v1/messages/batches", Anthropic, Other, "/v1/messages/batches"),
    ("POST", "/v1/complete", Anthropic, Other, "/v1/complete"),
    (
        "POST",
        "/v1beta/models/g:generateContent",
        ApiFamily::Gemini,
        GEMINI,
        "/v1beta/models/g:generateContent",
    ),
    (
        "POST",
        "/v1beta/models/g:streamGenerateContent?alt=sse",
        ApiFamily::Gemini,
        GEMINI,
        "/v1beta/models/g:streamGenerateContent?alt=sse",
    ),
    (
        "POST",
        "/models/g:generateContent",
        ApiFamily::Gemini,
        GEMINI,
        "/v1beta/models/g:generateContent",
    ),
    (
        "POST",
        "/v1beta/models/g:countTokens",
        ApiFamily::Gemini,
        CountTokens,
        "/v1beta/models/g:countTokens",
    ),
    (
        "POST",
        "/v1beta/models/g:embedContent",
        ApiFamily::Gemini,
        Other,
        "/v1beta/models/g:embedContent",
    ),
    (
        "POST",
        "/v1beta/openai/chat/completions",
        ApiFamily::Gemini,
        CHAT,
        "/v1beta/openai/chat/completions",
    ),
    ("GET", "/v1beta/models", ApiFamily::Gemini, Models, "/v1beta/models"),
    ("POST", "/anything", OpenAi, Other, "/anything"),
    (
        "POST",
        "/v1/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict",
        Gemini,
        VERTEX,
        "/v1/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict",
    ),
];

/// `model` is no root of a path, so that a child may have that name.
#[test]
fn calls_of_bedrock_are_known_by_their_paths() {
    let endpoint = |method: Method, path: &str| {
        let route =
            route(&one(), &KeyTable::default(), &method, path, &HeaderMap::new(), None).unwrap();
        (route.endpoint, route.rest)
    };
    for method in ["invoke", "invoke-with-response-stream", "converse", "converse-stream"] {
        let path = format!("/model/a.b%3A0/{method}");
        assert_eq!(endpoint(Method::POST, &path), (BEDROCK, path.clone()));
        assert_eq!(endpoint(Method::GET, &path), (Other, path.clone()));
        let of_child = endpoint(Method::POST, &format!("/r/main/sub{path}"));
        assert_eq!(of_child, (BEDROCK, format!("/sub{path}")));
    }
    assert_eq!(endpoint(Method::POST, "/model/a.b/count-tokens").0, Other);
}

#[test]
fn a_path_says_what_it_speaks_and_whose_it_is() {
    for &(method, target, family, endpoint, rest) in PATHS {
        let method: Method = method.parse().unwrap();
        for target in
            [target.to_owned(), format!("/r/main{target}"), format!("/r/main/sub/a{target}")]
        {
            if target.ends_with("/anything") && target.contains("sub") {
                continue;
            }
            let found =
                route(&one(), &KeyTable::default(), &method, &target, &HeaderMap::new(), None)
                    .unwrap();
            let found = (found.family, found.endpoint, found.rest.as_str());
            assert_eq!(found, (family, endpoint, rest), "{method} {target}");
        }
    }
}

#[test]
fn models_are_those_of_the_provider_whose_client_asks() {
    let family = |pairs: &[(&'static str, &str)]| {
        route(&one(), &KeyTable::default(), &Method::GET, "/v1/models", &headers(pairs), None)
            .unwrap()
            .family
    };
    assert_eq!(family(&[]), ApiFamily::OpenAi);
    assert_eq!(family(&[("anthropic-version", "2023-06-01")]), ApiFamily::Anthropic);
    assert_eq!(family(&[("x-goog-api-key", "k")]), ApiFamily::Gemini);
}

#[test]
fn the_path_names_run_and_children() {
    let table: [(&str, &str, &[&str], &str); 7] = [
        ("/v1/messages", "main", &[], "/v1/messages"),
        ("/r/main/v1/messages", "main", &[], "/v1/messages"),
        ("/r/planner/v1/messages", "main", &["planner"], "/v1/messages"),
        ("/r/main/planner/v1/messages", "main", &["planner"], "/v1/messages"),
        ("/r/main/planner/worker-2/v1/messages", "main", &["planner", "worker-2"], "/v1/messages"),
        ("/r/main/planner/messages", "main", &["planner"], "/v1/messages"),
        ("/r/main/else/where", "main", &[], "/else/where"),
    ];
    for (target, run, child, rest) in table {
        let found = post(&one(), target, &[]).unwrap();
        assert_eq!((found.run.as_str(), found.rest.as_str()), (run, rest), "{target}");
        assert_eq!(found.child, child, "{target}");
    }
    let found = post(&many(Unnamed::Refuse), "/r/one/sub/v1/responses", &[]).unwrap();
    assert_eq!((found.run.as_str(), found.child), ("one", vec!["sub".to_owned()]));
    let deep = format!("/r/main{}/v1/messages", "/x".repeat(50));
    assert_eq!(post(&one(), &deep, &[]).unwrap().child.len(), MAX_CHILD_DEPTH);
}

#[test]
fn headers_and_keys_name_runs_where_the_path_does_not() {
    let gate = many(Unnamed::Refuse);
    let run = |pairs: &[(&'static str, &str)]| {
        post(&gate, "/v1/messages", pairs)
            .map(|found| (found.run.to_string(), found.has_issued_key()))
    };
    let of = |name: &str, issued| Ok((name.to_owned(), issued));
    assert_eq!(run(&[("x-endstop-run", "h")]), of("h", false));
    assert_eq!(run(&[("x-claude-code-session-id", "0b7c")]), of("0b7c", false));
    assert_eq!(run(&[("authorization", "Bearer issued-1")]), of("keyed", true));
    assert_eq!(run(&[("x-api-key", "issued-1"), ("x-endstop-run", "h")]), of("keyed", true));
    assert_eq!(run(&[("x-goog-api-key", "issued-1")]), of("keyed", true));
    assert_eq!(run(&[("authorization", "Bearer issued-2")]), Err(RouteError::UnknownKey));
    assert_eq!(run(&[("authorization", "issued-1")]), Err(RouteError::UnknownKey));
    assert_eq!(run(&[("api-key", "issued-1")]), of("keyed", true));
    let gone = [("x-endstop-run", "h"), ("api-key", "endstop_0123")];
    assert_eq!(run(&gone), Err(RouteError::ForgottenKey));
    let needs = Err(RouteError::NeedsKey(RunId::parse("keyed").unwrap()));
    assert_eq!(run(&[("authorization", "Bearer own"), ("x-endstop-run", "keyed")]), needs);
    assert_eq!(run(&[("authorization", "Bearer own"), ("x-endstop-run", "h")]), of("h", false));
    let escaped = "/v1beta/models/g:generateContent?%6bey=issued%2D1&alt=sse";
    let found = post(&gate, escaped, &[]).unwrap();
    assert_eq!((found.run.as_str(), found.rest.ends_with("?alt=sse")), ("keyed", true));
    assert!(matches!(run(&[("x-endstop-run", "a b")]), Err(RouteError::Name { .. })));
    let shared = post(&many(Unnamed::Shared), "/v1/messages", &[]).unwrap();
    assert_eq!(shared.run.as_str(), SHARED_RUN);
    let target = "/v1beta/models/g:generateContent?alt=sse&key=issued-1";
    let keyed = post(&gate, target, &[]).unwrap();
    assert_eq!(
        (keyed.run.as_str(), keyed.rest.as_str()),
        ("keyed", "/v1beta/models/g:generateContent?alt=sse")
    );
}

#[test]
fn a_path_that_can_be_read_in_two_ways_is_refused() {
    let table = [
        "",
        "v1/messages",
        "//v1/messages",
        "/v1//messages",
        "/v1/../v1/messages",
        "/v1/./messages",
        "/v1/%6dessages",
        "/v1%2fmessages",
        "/v1%2Fmessages",
        "/v1/messages%",
        "/v1/messages%0",
        "/v1/messages%zz",
        "/v1/messages%00",
        "/v1/%2e%2e/messages",
        "/v1\\messages",
        "/v1/%5cmessages",
        "/r//v1/messages",
        "/r/main//v1/messages",
        "http://evil.example/v1/messages",
    ];
    for target in table {
        let found = post(&one(), target, &[]);
        assert!(matches!(found, Err(RouteError::Path(_))), "{target}: {found:?}");
    }
    for target in ["/r/a%20b/v1/messages", "/r/..a%3Fb/v1/messages", "/r/main/a%20b/v1/messages"] {
        let found = post(&one(), target, &[]);
        assert!(matches!(found, Err(RouteError::Name { .. })), "{target}: {found:?}");
    }
    assert!(post(&one(), "/v1beta/models/a%3Ab:generateContent", &[]).is_ok());
}

#[test]
fn nothing_in_a_request_chooses_a_host() {
    let evil = "evil.example";
    let named: [&[(&'static str, &str)]; 6] = [
        &[("host", evil)],
        &[("x-forwarded-host", evil), ("forwarded", "host=evil.example")],
        &[("x-original-url", "http://evil.example/"), ("x-rewrite-url", "http://evil.example/")],
        &[("x-endstop-run", evil), ("x-endstop-child", evil)],
        &[("origin", "http://evil.example"), ("referer", "http://evil.example")],
        &[("openai-base-url", "http://evil.example"), ("x-base-url", "http://evil.example")],
    ];
    let targets = [
        "/v1/messages",
        "/r/evil.example/v1/messages",
        "/evil.example/v1/messages",
        "/v1/evil.example",
        "/r/main/evil.example/v1/chat/completions",
        "/@evil.example/v1/messages",
        "/v1/models?host=evil.example",
    ];
    for pairs in named {
        for target in targets {
            let found = post(&one(), target, pairs).unwrap();
            // All that is used is a path: no scheme, no authority.
            assert!(found.rest.starts_with('/') && !found.rest.starts_with("//"), "{target}");
            let uri: http::Uri = found.rest.parse().unwrap();
            assert_eq!((uri.scheme(), uri.authority()), (None, None), "{target}");
        }
    }
}

#[test]
fn secrets_are_compared_whole() {
    assert!(is_same(b"abc", b"abc") && is_same(b"", b""));
    for other in [&b"abd"[..], b"ab", b"abcd", b"", b"ABC"] {
        assert!(!is_same(b"abc", other), "{other:?}");
    }
}

fn intercepted(host: &str, method: &Method, target: &str, is_sim: bool) -> Route {
    let mut config = one();
    config.upstreams.is_scripted = is_sim;
    let host = InterceptedHost::new(host, 443);
    route(&config, &KeyTable::default(), method, target, &HeaderMap::new(), host).unwrap()
}

#[test]
fn paths_of_an_intercepted_host_go_to_it_unchanged_and_name_no_run() {
    let (post, get) = (&Method::POST, &Method::GET);
    for (host, method, target, endpoint) in [
        ("api.openai.com", post, "/v1/responses?x=1", Endpoint::ModelCall(Api::Responses)),
        ("api.groq.com", post, "/openai/v1/chat/completions", Endpoint::ModelCall(Api::Chat)),
        ("chatgpt.com", post, "/backend-api/codex/responses", Endpoint::ModelCall(Api::Responses)),
        ("api.z.ai", post, "/api/anthropic/v1/messages", Endpoint::ModelCall(Api::Messages)),
        ("chatgpt.com", post, "/backend-api/codex/responses/compact", Other),
        ("chatgpt.com", post, "/backend-api/codex/analytics-events", Endpoint::Free),
        ("api.anthropic.com", post, "/api/event_logging/batch", Endpoint::Free),
        ("chatgpt.com", get, "/backend-api/wham/tasks", Endpoint::Free),
        ("api.cline.bot", post, "/api/v1/auth/token", Endpoint::Free),
        ("api.cline.bot", post, "/api/v1/auth/refresh", Endpoint::Free),
        ("api.cline.bot", get, "/api/v1/users/me", Endpoint::Free),
        ("api.cline.bot", post, "/api/v1/users/me", Other),
        ("api.cline.bot", post, "/api/v1/chat/completions", Endpoint::ModelCall(Api::Chat)),
        // It may start work that is billed.
        ("chatgpt.com", post, "/backend-api/wham/tasks", Other),
        ("api.openai.com", post, "/v1/embeddings", Other),
        ("openrouter.ai", post, "/api/v1/embeddings", Other),
        ("chatgpt.com", get, "/r/other/v1/models", Other),
    ] {
        let route = intercepted(host, method, target, false);
        assert_eq!((route.endpoint, route.rest.as_str()), (endpoint, target), "{host}");
        assert_eq!(route.host.unwrap().base.to_string(), format!("https://{host}/"), "{target}");
        assert!(route.child.is_empty(), "{target}");
    }
}

#[test]
fn calls_to_an_intercepted_host_reach_the_scripted_model_where_that_is_the_upstream() {
    for (host, target, rest) in [
        ("api.groq.com", "/openai/v1/chat/completions", "/chat/completions"),
        ("chatgpt.com", "/backend-api/codex/responses", "/responses"),
        ("api.z.ai", "/api/anthropic/v1/messages", "/v1/messages"),
        (
            "generativelanguage.googleapis.com",
            "/v1beta/models/gemini-2.5-flash:generateContent",
            "/v1beta/models/gemini-2.5-flash:generateContent",
        ),
    ] {
        let route = intercepted(host, &Method::POST, target, true);
        assert_eq!((route.host.is_none(), route.rest.as_str()), (true, rest), "{host}");
    }
}

/// A store that is away.
#[derive(Debug)]
struct AwayStore;

impl KeySource for AwayStore {
    fn look(&self) -> KeyChange {
        KeyChange::Away("redis://HOST refused".to_owned())
    }
}

#[test]
fn without_the_store_of_the_keys_no_request_is_taken_with_or_without_a_key() {
    let keys = IssuedKeys::from_source(AwayStore);
    let config = config(Runs::Many { unnamed: Unnamed::Shared, keys });
    for key in [None, Some("Bearer sk-own"), Some("Bearer endstop_1")] {
        let pairs: Vec<_> = key.map(|key| ("authorization", key)).into_iter().collect();
        let error = post(&config, "/r/free/v1/chat/completions", &pairs).unwrap_err();
        assert_eq!(error.reason(), ("store_away", None));
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!error.to_string().contains("HOST"), "{error}");
    }
}

#[test]
fn a_key_of_a_later_version_is_refused_by_its_name_and_the_others_are_taken() {
    let key = |name: &str| {
        let hash = KeyHash::of(&Key::new(format!("{name}-secret")));
        IssuedKey::new(name, hash, format!("{name}-*").parse().unwrap())
    };
    let mut later = key("later");
    later.unread = Some("a later version wrote it".to_owned());
    let keys = IssuedKeys::new(vec![later, key("known")]);
    let config = config(Runs::Many { unnamed: Unnamed::Refuse, keys });
    let call = |name: &str| {
        let key = format!("Bearer {name}-secret");
        post(
            &config,
            &format!("/r/{name}-1/v1/chat/completions"),
            &[("authorization", key.as_str())],
        )
    };
    let error = call("later").unwrap_err();
    assert_eq!(error, RouteError::UnreadKey("later".to_owned()));
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(call("known").unwrap().run.as_str(), "known-1");
    // Its runs are no more open than before.
    let error = post(&config, "/r/later-1/v1/chat/completions", &[]).unwrap_err();
    assert_eq!(error, RouteError::NeedsKey(RunId::parse("later-1").unwrap()));
}

#[test]
fn a_key_whose_runs_are_not_known_has_all_that_no_other_key_has() {
    let key = |name: &str, runs: &str| {
        let hash = KeyHash::of(&Key::new(format!("{name}-secret")));
        IssuedKey::new(name, hash, runs.parse().unwrap())
    };
    let mut damaged = key("damaged", "*");
    damaged.unread = Some("no JSON".to_owned());
    let keys = vec![damaged, key("team", "team-*"), key("one", "one"), key("all", "*")];
    let runs = Runs::Many { unnamed: Unnamed::Shared, keys: IssuedKeys::new(keys) };
    let config = config(runs);
    let call = |run: &str, name: &str| {
        let key = format!("Bearer {name}-secret");
        let target = format!("/r/{run}/v1/chat/completions");
        post(&config, &target, &[("authorization", key.as_str())])
            .map(|route| route.run.to_string())
    };
    for (run, name) in [("team-1", "team"), ("one", "one"), ("other", "all")] {
        assert_eq!(call(run, name), Ok(run.to_owned()));
    }
    for run in ["other", "team-1", "one"] {
        let needs = RouteError::NeedsKey(RunId::parse(run).unwrap());
        assert_eq!(call(run, "unknown"), Err(needs));
    }
    assert!(matches!(post(&config, "/v1/chat/completions", &[]), Err(RouteError::NeedsKey(_))));
}
