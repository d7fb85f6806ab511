//! Who may do what: holders of issued keys, pages of other sites, and clients with many run ids.

use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_gateway::{
    Config, Gateway, Key, RefusalObserver, RefusedCall, Runs, Unnamed, UpstreamKeys,
};
use endstop_runtime::observe::{Observation, Observer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const CHAT: &str = "/v1/chat/completions";

async fn answering() -> Fake {
    Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await
}

/// A request with these headers, each of which ends its line.
async fn ask(gateway: &Gateway, line: &str, headers: &str, body: &str) -> Got {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

#[tokio::test]
async fn an_issued_key_is_for_model_calls_and_reads_nothing_of_the_account() {
    let upstream = answering().await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    let keys = vec![(Key::new("issued-canary"), id().into())];
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: keys.into() };
    config.upstream_keys =
        UpstreamKeys { openai: Some(Key::new("upstream-canary")), ..UpstreamKeys::default() };
    let gateway = Gateway::start(config).await.unwrap();
    let key = "host: localhost\r\nauthorization: Bearer issued-canary\r\n";
    for line in [
        "GET /v1/responses/resp_of_another_tenant",
        "GET /v1/responses/resp_1/input_items",
        "DELETE /v1/responses/resp_1",
        "GET /v1/files",
        "GET /v1/files/file-1/content",
        "DELETE /v1/files/file-1",
        "GET /v1/chat/completions",
        "GET /v1/messages/batches",
        "GET /v1/organization/admin_api_keys",
        "OPTIONS /v1/files",
    ] {
        let got = ask(&gateway, line, key, "").await;
        assert_eq!(got.status, 403, "{line}: {got:?}");
        assert!(!got.text().contains("canary"), "{got:?}");
    }
    assert_eq!(upstream.calls(), 0);
    assert_eq!(ask(&gateway, "GET /v1/models", key, "").await.status, 200);
    let request = Agent::new("Answer.").request().to_string();
    assert_eq!(ask(&gateway, &format!("POST {CHAT}"), key, &request).await.words(), "Done.");
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn a_page_of_another_site_spends_nothing() {
    let upstream = answering().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 9\"\n", &upstream).await;
    let request = Agent::new("Answer.").request().to_string();
    let post = format!("POST {CHAT}");
    for headers in [
        "host: localhost\r\norigin: https://site.example\r\n",
        "host: localhost\r\norigin: null\r\n",
        // Its name leads to loopback.
        "host: site.example\r\n",
        "host: site.example:80\r\norigin: http://site.example:80\r\n",
    ] {
        for line in [post.as_str(), "OPTIONS /v1/models", "GET /endstop/health"] {
            let got = ask(&gateway, line, headers, &request).await;
            assert_eq!(got.status, 403, "{line} {headers}: {got:?}");
        }
    }
    assert_eq!((upstream.calls(), reading(&gateway, "steps")), (0, 0));
    for headers in ["host: localhost\r\n", "host: 127.0.0.1:1\r\norigin: http://localhost:3000\r\n"]
    {
        assert_eq!(ask(&gateway, &post, headers, &request).await.words(), "Done.", "{headers}");
    }
}

#[tokio::test]
async fn run_ids_that_cost_nothing_do_not_use_up_the_registry() {
    let upstream = answering().await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    config.bounds.runs = 3;
    let gateway = Gateway::start(config).await.unwrap();
    // One that has not ended stays.
    let calls =
        json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": "Go." }] });
    assert_eq!(post(&gateway, &format!("/r/paid{CHAT}"), &calls).await.status, 200);
    for number in 0..50 {
        let line = format!("GET /r/free-{number}/v1/models");
        let got = ask(&gateway, &line, "host: localhost\r\n", "").await;
        assert_eq!(got.status, 200, "{number}: {got:?}");
    }
    assert_eq!(post(&gateway, &format!("/r/new{CHAT}"), &calls).await.status, 200);
    let kept: Vec<String> = gateway.runs().iter().map(|run| run.info().id.to_string()).collect();
    assert!(kept.contains(&"paid".to_owned()) && kept.contains(&"new".to_owned()), "{kept:?}");
}

#[tokio::test]
async fn runs_whose_calls_all_failed_without_a_charge_make_room_for_new_ones() {
    let upstream = Fake::start(|arrived, n| {
        if arrived.body.contains("refused") {
            return answer("401 Unauthorized", r#"{"error":{"message":"no"}}"#);
        }
        answer("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))
    });
    let upstream = upstream.await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    config.bounds.runs = 3;
    let gateway = Gateway::start(config).await.unwrap();
    let look = Agent::new("Look.").request();
    let refused = Agent::new("This is refused.").request();
    assert_eq!(post(&gateway, &format!("/r/paid{CHAT}"), &look).await.status, 200);
    for number in 0..20 {
        let got = post(&gateway, &format!("/r/failed-{number}{CHAT}"), &refused).await;
        assert_eq!(got.status, 401, "{number}: {got:?}");
    }
    let kept = || gateway.runs().iter().map(|run| run.info().id.to_string()).collect::<Vec<_>>();
    assert!(kept().contains(&"paid".to_owned()), "{:?}", kept());
    // A run that was charged keeps its place.
    for name in ["new-1", "new-2"] {
        assert_eq!(post(&gateway, &format!("/r/{name}{CHAT}"), &look).await.status, 200);
    }
    for body in [&look, &refused] {
        assert_eq!(post(&gateway, &format!("/r/new-3{CHAT}"), body).await.status, 503);
    }
    assert_eq!(kept().len(), 3);
}

/// Asks for a tool, so that a run does not end.
async fn asking() -> Fake {
    Fake::start(|_, n| answer("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await
}

/// A gateway for holders of keys, `key-N` for the Nth of `runs`.
fn keyed(upstream: &Fake, policy: &str, runs: &[&str]) -> Config {
    let mut config = config(policy, upstream.addr);
    let key = |n: usize| Key::new(format!("key-{n}"));
    let keys: Vec<_> =
        runs.iter().enumerate().map(|(n, runs)| (key(n), runs.parse().unwrap())).collect();
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: keys.into() };
    config
}

/// A model call with a key, for the run that the header or the path names.
async fn call(gateway: &Gateway, key: usize, path: &str, header: &str, body: &str) -> Got {
    let run =
        if header.is_empty() { String::new() } else { format!("x-endstop-run: {header}\r\n") };
    let headers = format!("authorization: Bearer key-{key}\r\n{run}");
    receive(send(gateway.addr(), path, &headers, body).await).await
}

#[tokio::test]
async fn a_key_may_begin_many_runs_and_none_of_others() {
    let upstream = asking().await;
    let rules = "[stop]\nlimit = \"steps >= 2\"\n";
    let all = ["alice-*", "bob-*", "alice-x-*", "alice-y", "*"];
    let gateway = Gateway::start(keyed(&upstream, rules, &all)).await.unwrap();
    let body = Agent::new("Look.").request().to_string();
    let call =
        async |key: usize, path: &str, header: &str| call(&gateway, key, path, header, &body).await;
    for (path, header) in [(CHAT, "alice-1"), ("/r/alice-2/v1/chat/completions", "")] {
        assert_eq!(call(0, path, header).await.status, 200, "{path} {header}");
    }
    assert_eq!(call(0, "/r/alice-1/planner/v1/chat/completions", "").await.status, 200);
    assert_eq!(call(1, CHAT, "bob-1").await.status, 200);
    assert_eq!(call(2, CHAT, "alice-x-1").await.status, 200);
    // A key of one run needs no name, and names sub-agents.
    assert_eq!(call(3, CHAT, "").await.status, 200);
    assert_eq!(call(4, CHAT, "carol").await.status, 200);
    let sent = upstream.calls();
    for (key, run) in [
        (0, "bob-1"),
        (0, "alice-"),
        (0, "alice-x-1"),
        (0, "alice-y"),
        (1, "alice-1"),
        (4, "bob-1"),
    ] {
        for path in [CHAT.to_owned(), format!("/r/{run}{CHAT}"), format!("/r/{run}/sub{CHAT}")] {
            let got = call(key, &path, run).await;
            assert_eq!(got.status, 403, "{key} {path} {run}: {got:?}");
            assert!(got.json()["error"]["message"].is_string(), "{got:?}");
        }
    }
    assert_eq!(call(0, CHAT, "").await.status, 400);
    // Without a key that the gateway has issued.
    assert_eq!(call(9, CHAT, "alice-1").await.status, 401);
    assert_eq!((upstream.calls(), sent), (sent, 7));
    // Each run has its own limits.
    let stop = call(0, CHAT, "alice-1").await.header("x-endstop-reason");
    assert_eq!(stop.as_deref(), Some("steps_limit"));
    assert!(call(0, CHAT, "alice-2").await.header("x-endstop-reason").is_none());
    let runs: Vec<String> = gateway.runs().iter().map(|run| run.info().id.to_string()).collect();
    assert_eq!(runs, ["alice-1", "alice-2", "alice-x-1", "alice-y", "bob-1", "carol"]);
}

#[tokio::test]
async fn a_key_continues_no_response_of_another() {
    let upstream = Fake::start(|_, n| {
        let reply = json!({ "id": format!("resp_{n}"), "object": "response", "status": "completed",
            "model": "gpt-4o-mini", "output": [{ "type": "message", "role": "assistant",
                "content": [{ "type": "output_text", "text": "Done." }] }],
            "usage": { "input_tokens": 10, "output_tokens": 1, "total_tokens": 11 } });
        answer("200 OK", &reply.to_string())
    })
    .await;
    let rules = "[stop]\nlimit = \"steps >= 9\"\n";
    let gateway = Gateway::start(keyed(&upstream, rules, &["alice-*", "bob"])).await.unwrap();
    let body = |more: serde_json::Value| {
        let mut body = json!({ "model": "gpt-4o-mini", "input": "Hi." });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let first = call(&gateway, 0, "/v1/responses", "alice-1", &body(json!({}))).await;
    assert_eq!(first.status, 200, "{first:?}");
    let own = body(json!({ "previous_response_id": "resp_0" }));
    for more in [&own, &body(json!({ "conversation": "conv_1" }))] {
        for (key, run) in [(1, ""), (0, "alice-2")] {
            let got = call(&gateway, key, "/v1/responses", run, more).await;
            assert_eq!(got.status, 403, "{more}: {got:?}");
        }
    }
    assert_eq!(upstream.calls(), 1);
    assert_eq!(call(&gateway, 0, "/v1/responses", "alice-1", &own).await.status, 200);
}

#[tokio::test]
async fn a_key_has_its_share_of_connections_and_others_go_on() {
    let upstream = asking().await;
    let mut config = keyed(&upstream, "[stop]\nlimit = \"steps >= 9\"\n", &["a-*", "b-*"]);
    config.bounds.connections_per_client = 2;
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Look.").request().to_string();
    // Connections that stay open after their response.
    let mut open = Vec::new();
    for key in [0, 0, 1] {
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        let request = format!(
            "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-endstop-run: {}-1\r\n\
             authorization: Bearer key-{key}\r\n\r\n",
            ["a", "b"][key]
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        open.push(stream);
    }
    let refused = call(&gateway, 0, CHAT, "a-2", &body).await;
    assert_eq!((refused.status, refused.is_whole), (429, true), "{refused:?}");
    assert_eq!(refused.header("connection").as_deref(), Some("close"));
    assert!(refused.json()["error"]["message"].is_string());
    assert_eq!(call(&gateway, 1, CHAT, "b-2", &body).await.status, 200);
    drop(open);
    // The gateway learns from the system that a connection has ended.
    while call(&gateway, 0, CHAT, "a-2", &body).await.status == 429 {}
}

#[tokio::test]
async fn a_key_has_its_share_of_runs_and_others_go_on() {
    let upstream = asking().await;
    let mut config = keyed(&upstream, "[stop]\nlimit = \"steps >= 2\"\n", &["a-*", "b-*"]);
    config.bounds.runs_per_client = 2;
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Look.").request().to_string();
    let call = async |key: usize, run: &str| call(&gateway, key, CHAT, run, &body).await;
    for (key, run, status) in
        [(0, "a-1", 200), (0, "a-2", 200), (0, "a-3", 429), (1, "b-1", 200), (0, "a-1", 200)]
    {
        let got = call(key, run).await;
        assert_eq!(got.status, status, "{run}: {got:?}");
    }
    // It has stopped, and makes room: for its own client alone.
    assert_eq!(call(0, "a-1").await.header("x-endstop-reason").as_deref(), Some("steps_limit"));
    assert_eq!(call(0, "a-3").await.status, 200);
    assert_eq!(call(0, "a-4").await.status, 429);
    assert_eq!(call(0, "a-1").await.status, 429);
    assert_eq!(call(1, "b-2").await.status, 200);
}

/// The ids of runs and children that have begun.
#[derive(Debug, Default)]
struct Begun(std::sync::Mutex<Vec<String>>);

impl Observer for Begun {
    fn observe(&self, seen: &Observation<'_>) {
        if matches!(seen.event.kind, EventKind::RunBegin { .. }) {
            self.0.lock().unwrap().push(seen.info.id.to_string());
        }
    }
}

#[tokio::test]
async fn no_run_can_be_named_like_a_child_of_another() {
    let upstream = asking().await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    let begun = Arc::new(Begun::default());
    config.environment.observers.push(Arc::clone(&begun) as Arc<dyn Observer>);
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Look.").request();
    for run in ["a.1", "a.2"] {
        assert_eq!(post(&gateway, &format!("/r/{run}{CHAT}"), &body).await.status, 200);
    }
    for name in ["a/planner", "a/planner/finder"] {
        assert_eq!(post(&gateway, &format!("/r/{name}{CHAT}"), &body).await.status, 200);
    }
    assert_eq!(*begun.0.lock().unwrap(), ["a.1", "a.2", "a", "a~1", "a~1~2"]);
    for name in ["a~1", "a%7E1", "a~1~2"] {
        let got = post(&gateway, &format!("/r/{name}{CHAT}"), &body).await;
        assert_eq!(got.status, 400, "{name}: {got:?}");
    }
}

/// Collects reports of refused calls.
#[derive(Debug, Default)]
pub(crate) struct Refused(pub(crate) std::sync::Mutex<Vec<RefusedCall>>);

impl RefusalObserver for Refused {
    fn refused(&self, call: &RefusedCall) {
        self.0.lock().unwrap().push(call.clone());
    }
}

#[tokio::test]
async fn every_refused_call_is_told_with_its_rule_and_nothing_else_is() {
    let upstream = Fake::start(|_, n| match n {
        0 => answer("200 OK", &reply_text("Done.")),
        1 => answer("429 Too Many Requests", "{\"error\":{\"message\":\"slow down\"}}"),
        // A run that was charged and does not end keeps its place.
        _ => answer("200 OK", &reply_call("call_1", "look", "{}")),
    })
    .await;
    let mut config = keyed(&upstream, "[stop]\nmoney = \"cost >= $0.01\"\n", &["a-*", "b"]);
    config.bounds.runs_per_client = 1;
    let refused = Arc::new(Refused::default());
    config.refusals = Some(Arc::clone(&refused) as Arc<dyn RefusalObserver>);
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request();
    let with = |key: &str, value: serde_json::Value| {
        let mut body = body.clone();
        body[key] = value;
        body.to_string()
    };
    let plain = body.to_string();
    assert_eq!(call(&gateway, 1, CHAT, "", &plain).await.status, 200);
    // A refusal of the upstream is none of the gateway.
    assert_eq!(call(&gateway, 1, CHAT, "", &plain).await.status, 429);
    let long = json!([{ "role": "user", "content": "word ".repeat(100_000) }]);
    let dear = with("messages", long).replace("gpt-4o-mini", "gpt-4o");
    let unbounded = with("audio", json!({ "voice": "alloy", "format": "wav" }));
    let unbounded = unbounded.replacen('{', "{\"modalities\":[\"text\",\"audio\"],", 1);
    call(&gateway, 0, CHAT, "a-1", &plain).await;
    for (key, header, body) in
        [(1, "", "{"), (0, "a-2", &*plain), (1, "", &*unbounded), (1, "", &*dear)]
    {
        call(&gateway, key, CHAT, header, body).await;
    }
    let all = refused.0.lock().unwrap().clone();
    let told: Vec<_> = all
        .iter()
        .map(|it| (it.run.as_ref().unwrap().as_str(), it.key, &*it.reason, it.status))
        .collect();
    assert_eq!(
        told,
        [
            ("b", Some(1), "invalid_request", 400),
            ("a-2", Some(0), "client_share", 429),
            ("b", Some(1), "not_bounded", 402),
            ("b", Some(1), "cost_limit", 200),
        ]
    );
    let last = &all[3];
    assert_eq!((last.rule.as_deref(), last.model.as_deref()), (Some("money"), Some("gpt-4o")));
    assert_eq!((last.limit.as_deref(), last.api), (Some("$0.01"), Some("chat")));
    assert!(last.observed.as_ref().unwrap().starts_with("$0."), "{last:?}");
    assert!(!format!("{all:?}").contains("key-"));
}
