//! Upstreams that fail, requests that cannot be taken.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop_core::run::Status;
use endstop_gateway::{Gateway, StopWith};
use endstop_runtime::observe::{Detail, Observation, Observer};
use serde_json::{Value, json};

use crate::fake::{Act, Fake, json, json_with};
use crate::kit::*;

const ERROR: &str = "{\"error\":{\"message\":\"slow down\",\"type\":\"rate_limit\"}}";

#[tokio::test]
async fn the_same_request_after_a_failure_is_an_attempt_of_its_step() {
    let upstream = Fake::start(|_, n| match n {
        0 | 1 => json("429 Too Many Requests", ERROR),
        _ => json("200 OK", &reply_text("Done.")),
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let request = Agent::new("Answer.").request();
    for turn in 0..3 {
        let got = chat(&gateway, &request).await;
        assert_eq!(got.status, if turn < 2 { 429 } else { 200 });
        if turn < 2 {
            assert_eq!(got.text(), ERROR);
        }
    }
    let gauges = ["steps", "attempts", "retries", "errors"].map(|gauge| reading(&gateway, gauge));
    assert_eq!(gauges, [1, 3, 2, 2]);
    assert_eq!(gateway.run(&id()).unwrap().usage().0.total(), 110);
    assert_eq!(
        (status(&gateway), gateway.counts(&id()).unwrap().upstream_calls),
        (Status::Completed, 3)
    );
}

#[tokio::test]
async fn another_request_after_a_failure_begins_a_step() {
    let upstream = Fake::start(|_, _| json("500 Internal Server Error", ERROR)).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 2\"\n", &upstream).await;
    for turn in 0..4 {
        chat(&gateway, &Agent::new(&format!("Answer {turn}.")).request()).await;
    }
    assert_eq!(
        (upstream.calls(), reading(&gateway, "steps"), reading(&gateway, "retries")),
        (2, 2, 0)
    );
}

#[tokio::test]
async fn a_request_that_is_never_given_up_is_stopped_by_its_steps() {
    let upstream = Fake::start(|_, _| json("500 Internal Server Error", ERROR)).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 2\"\n", &upstream).await;
    let request = Agent::new("Answer.").request();
    for turn in 0..30 {
        let got = chat(&gateway, &request).await;
        assert_eq!(got.status, if turn < 24 { 500 } else { 200 }, "{turn}: {got:?}");
    }
    let gauges = ["steps", "attempts"].map(|gauge| reading(&gateway, gauge));
    assert_eq!((upstream.calls(), gauges, status(&gateway)), (24, [2, 24], Status::Stopped));
}

#[tokio::test]
async fn what_was_sent_is_counted_whatever_became_of_it() {
    let upstream = Fake::start(|_, n| match n {
        0 => vec![Act::AwaitClose],
        _ => json("200 OK\r\nx-endstop-reason: steps_limit", &reply_text("Stopped.")),
    })
    .await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    config.upstreams = config.upstreams.with_endstop(behind_endstop(upstream.addr));
    config.bounds.drain_within = Duration::from_millis(50);
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request().to_string();
    let stream = send(gateway.addr(), "/v1/chat/completions", "", &body).await;
    until("it has arrived", || upstream.calls() == 1).await;
    let sent = || gateway.counts(&id()).unwrap().upstream_calls;
    assert_eq!(sent(), 1);
    drop(stream);
    until("it is settled", || gateway.counts(&id()).unwrap().client_disconnects == 1).await;
    // A gateway before the upstream has answered: the model was not asked.
    let got = chat(&gateway, &Agent::new("Look.").request()).await;
    assert_eq!((got.words(), upstream.calls(), sent()), ("Stopped.".to_owned(), 2, 1));
}

#[tokio::test]
async fn retries_end_at_their_limit() {
    let upstream = Fake::start(|_, _| json("503 Service Unavailable", ERROR)).await;
    let gateway = gateway("[stop]\nlimit = \"retries >= 2 or steps >= 9\"\n", &upstream).await;
    let request = Agent::new("Answer.").request();
    let mut last = chat(&gateway, &request).await;
    while last.status == 503 {
        last = chat(&gateway, &request).await;
    }
    assert_eq!(last.header("x-endstop-reason").as_deref(), Some("retry_limit"));
    assert_eq!(upstream.calls(), 3);
}

#[tokio::test]
async fn an_upstream_that_never_answers_is_given_up_and_the_attempt_is_charged() {
    let upstream = Fake::start(|_, n| match n {
        0 | 1 => vec![Act::AwaitClose],
        _ => json("200 OK", &reply_text("Done.")),
    })
    .await;
    let mut config = config("[stop]\nlimit = \"tokens >= 100_000\"\n", upstream.addr);
    config.bounds.answer_within = Duration::from_millis(500);
    let gateway = Gateway::start(config).await.unwrap();
    let request = Agent::new("Answer.").request();
    for turn in 1..3 {
        let got = chat(&gateway, &request).await;
        assert_eq!(got.status, 504, "{got:?}");
        let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("has not answered within 500ms"), "{message}");
        until("closed", || upstream.closed.load(Ordering::SeqCst) == turn).await;
    }
    let (usage, is_estimate) = gateway.run(&id()).unwrap().usage();
    // It may have been worked on to its end: two output caps.
    assert!(is_estimate && usage.input > 0 && usage.output == 2_000, "{usage:?}");
    assert_eq!(chat(&gateway, &request).await.status, 200);
    let gauges = ["steps", "attempts", "retries", "errors"].map(|gauge| reading(&gateway, gauge));
    assert_eq!((gauges, upstream.calls()), ([1, 3, 2, 2], 3));
}

#[tokio::test]
async fn the_wait_for_an_answer_ends_with_its_head_and_holds_for_what_is_not_read() {
    let upstream = Fake::start(|arrived, _| {
        if arrived.head.contains("/audio/") {
            return vec![Act::AwaitClose];
        }
        let text = reply_text("Done.");
        let body = Act::Send(text.clone().into_bytes());
        vec![json_with("", text.len()), Act::Wait(Duration::from_millis(1_500)), body]
    })
    .await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    config.bounds.answer_within = Duration::from_millis(1_000);
    let gateway = Gateway::start(config).await.unwrap();
    let got = chat(&gateway, &Agent::new("Answer.").request()).await;
    assert_eq!((got.status, got.words().as_str()), (200, "Done."));
    let got = post(&gateway, "/v1/audio/speech", &json!({})).await;
    assert_eq!(got.status, 504, "{got:?}");
    assert!(got.json()["error"]["message"].is_string());
}

#[tokio::test]
async fn an_upstream_that_is_not_there_or_breaks_off_is_a_bad_gateway() {
    let upstream = Fake::start(|_, n| match n {
        0 => vec![Act::Close],
        1 => vec![
            Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"id".to_vec()),
            Act::Close,
        ],
        _ => vec![Act::Send(b"nonsense\r\n\r\n".to_vec()), Act::Close],
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"tokens >= 100_000\"\n", &upstream).await;
    for turn in 0..3 {
        let got = chat(&gateway, &Agent::new(&format!("Answer {turn}.")).request()).await;
        assert_eq!(got.status, 502, "{turn}: {got:?}");
        assert!(got.json()["error"]["message"].is_string());
    }
    let run = gateway.run(&id()).unwrap();
    assert!(run.budget().held().is_zero());
    // The upstream may have processed the request.
    assert!(run.usage().1 && run.usage().0.input > 0 && run.usage().0.output > 0);
}

#[tokio::test]
async fn usage_that_is_missing_is_held_or_estimated_and_marked() {
    let mut body: serde_json::Value =
        serde_json::from_str(&reply_text(&"word ".repeat(60))).unwrap();
    body.as_object_mut().unwrap().remove("usage");
    let upstream = Fake::start(move |_, _| json("200 OK", &body.to_string())).await;
    let used = async |accounting: &str| {
        let policy = format!("[stop]\nlimit = \"tokens >= 100_000\"\n{accounting}");
        let gateway = gateway(&policy, &upstream).await;
        chat(&gateway, &Agent::new("Answer.").request()).await;
        gateway.run(&id()).unwrap().usage()
    };
    let (usage, is_estimate) = used("[accounting]\non_unknown_usage = \"estimate\"\n").await;
    assert!(is_estimate && usage.input > 20 && (60..=200).contains(&usage.output), "{usage:?}");
    // Otherwise it is the most that is possible: hidden output too.
    let (held, is_estimate) = used("").await;
    assert!(is_estimate && held.input > usage.input && held.output == 1_000, "{held:?}");
}

#[tokio::test]
async fn what_cannot_be_metered_is_refused_unless_it_is_allowed() {
    let upstream = Fake::start(|_, _| json("200 OK", "{\"data\":[]}")).await;
    let policy = "[stop]\nlimit = \"cost >= $1\"\n";
    let gateway = gateway(policy, &upstream).await;
    let got = post(&gateway, "/v1/embeddings", &json!({ "input": "x" })).await;
    assert_eq!((got.status, got.header("x-should-retry").as_deref()), (402, Some("false")));
    assert!(got.text().contains("/embeddings"), "{got:?}");
    let counted = post(&gateway, "/v1/messages/count_tokens", &json!({})).await;
    assert_eq!((counted.status, upstream.calls()), (200, 1));
    for (names, status) in [("'background'", 402), ("'/embeddings'", 200), ("'all'", 200)] {
        let config =
            config(&format!("{policy}[accounting]\nallow_unmetered = [{names}]\n"), upstream.addr);
        let gateway = Gateway::start(config).await.unwrap();
        let got = post(&gateway, "/v1/embeddings", &json!({ "input": "x" })).await;
        assert_eq!(got.status, status, "{names}: {got:?}");
        assert_eq!(gateway.counts(&id()).unwrap().unmetered, u64::from(status == 200));
    }
}

#[tokio::test]
async fn the_output_cap_is_lowered_to_what_the_budget_leaves() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let gateway = gateway("[stop]\nlimit = \"tokens >= 3_000\"\n", &upstream).await;
    let mut agent = Agent::new("Answer.");
    agent.extra = json!({ "max_tokens": 4_000 });
    chat(&gateway, &agent.request()).await;
    let cap = upstream.seen()[0].json()["max_tokens"].as_u64().unwrap();
    assert!((1_000..3_000).contains(&cap), "{cap}");
    let run = gateway.run(&id()).unwrap();
    assert_eq!((run.usage().0.total(), run.budget().overshoot().is_zero()), (110, true));
}

#[tokio::test]
async fn where_structure_is_demanded_or_so_it_is_set_a_stop_is_402() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let policy = "[stop]\nlimit = \"steps >= 1\"\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agent = Agent::new("Answer.");
    chat(&gateway, &agent.request()).await;
    agent.extra = json!({ "tool_choice": "required" });
    let got = chat(&gateway, &agent.request()).await;
    assert_eq!((got.status, got.header("x-should-retry").as_deref()), (402, Some("false")));
    assert!(got.text().contains("steps"), "{got:?}");
    let mut config = config(policy, upstream.addr);
    config.stop_with = StopWith::Error;
    let gateway = Gateway::start(config).await.unwrap();
    let agent = Agent::new("Answer.");
    chat(&gateway, &agent.request()).await;
    assert_eq!(chat(&gateway, &agent.request()).await.status, 402);
}

#[tokio::test]
async fn a_wrap_up_has_no_tools_and_ends_the_run() {
    let upstream = Fake::start(|request, n| {
        if request.json()["tool_choice"] == "none" {
            return json("200 OK", &reply_text("As far as I came."));
        }
        json("200 OK", &reply_call(&format!("call_{n}"), "look", &format!("{{\"n\":{n}}}")))
    })
    .await;
    let gateway =
        gateway("[finish]\nwrap = \"steps >= 2\"\n[stop]\nlimit = \"steps >= 9\"\n", &upstream)
            .await;
    let mut agent = Agent::new("Look.");
    let answers = agent.run(&gateway, "/v1/chat/completions").await;
    assert_eq!(answers.last().unwrap().words(), "As far as I came.");
    assert_eq!((upstream.calls(), status(&gateway)), (3, Status::Stopped));
    assert!(upstream.seen()[2].body.contains("last turn"));
    let got = chat(&gateway, &agent.request()).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("steps_limit"));
}

#[tokio::test]
async fn a_warning_is_a_header_once() {
    let upstream =
        Fake::start(|_, n| json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await;
    let gateway =
        gateway("[warn]\nsoon = \"steps >= 1\"\n[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let mut agent = Agent::new("Look.");
    let answers = agent.run(&gateway, "/v1/chat/completions").await;
    let warned: Vec<_> = answers.iter().filter_map(|got| got.header("x-endstop-warning")).collect();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("soon") && answers[1].header("x-endstop-warning").is_some());
}

#[tokio::test]
async fn requests_that_cannot_be_read_never_leave() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    for body in ["", "[]", "{", "null", "{\"model\":7}x"] {
        let got = receive(send(gateway.addr(), "/v1/chat/completions", "", body).await).await;
        assert_eq!(got.status, 400, "{body}: {got:?}");
    }
    for path in ["/v1//chat/completions", "/v1/chat/%63ompletions", "/v1/x/../chat/completions"] {
        let got = post(&gateway, path, &Agent::new("Answer.").request()).await;
        assert_eq!(got.status, 400, "{path}");
    }
    assert_eq!((upstream.calls(), reading(&gateway, "steps")), (0, 0));
}

#[tokio::test]
async fn an_answer_that_a_retry_rule_dislikes_is_asked_for_again() {
    let upstream = Fake::start(|_, n| {
        json("200 OK", &reply_text(if n == 0 { "lorem ipsum" } else { "Done." }))
    })
    .await;
    let policy = "[retry]\nbad = 'said(\"lorem ipsum\")'\n[stop]\nlimit = \"steps >= 3\"\n";
    let gateway = gateway(policy, &upstream).await;
    let got = chat(&gateway, &Agent::new("Answer.").request()).await;
    assert_eq!((got.words().as_str(), upstream.calls()), ("Done.", 2));
    let gauges = ["steps", "attempts"].map(|gauge| reading(&gateway, gauge));
    assert_eq!((gauges, gateway.run(&id()).unwrap().usage().0.total()), ([1, 2], 220));
}

#[tokio::test]
async fn more_calls_at_once_than_are_taken_are_told_to_wait() {
    let upstream = Fake::start(|_, _| vec![Act::AwaitClose]).await;
    let mut config = config("[stop]\nlimit = \"steps >= 90\"\n", upstream.addr);
    config.bounds.calls = 2;
    config.bounds.drain_within = Duration::from_millis(50);
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request().to_string();
    let first = send(gateway.addr(), "/v1/chat/completions", "", &body).await;
    let second = send(gateway.addr(), "/v1/chat/completions", "", &body).await;
    until("both have arrived", || upstream.calls() == 2).await;
    let got = receive(send(gateway.addr(), "/v1/chat/completions", "", &body).await).await;
    assert_eq!(got.status, 503, "{got:?}");
    drop((first, second));
    until("both are gone", || upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_hangs_or_stays_held_when_everything_happens_at_once() {
    let upstream = std::sync::Arc::new(
        Fake::start(|_, n| match n % 5 {
            0 => json("500 Internal Server Error", ERROR),
            1 => json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}")),
            2 => vec![Act::Wait(std::time::Duration::from_millis(3)), Act::Close],
            3 => vec![Act::AwaitClose],
            _ => json("200 OK", &reply_text("Done.")),
        })
        .await,
    );
    let mut config = config("[stop]\nlimit = \"tokens >= 100_000_000\"\n", upstream.addr);
    config.bounds.conversations = 2;
    config.bounds.drain_within = Duration::from_millis(50);
    let gateway = std::sync::Arc::new(Gateway::start(config).await.unwrap());
    let calls = (0..200usize).map(|n| {
        let gateway = std::sync::Arc::clone(&gateway);
        let upstream = std::sync::Arc::clone(&upstream);
        tokio::spawn(async move {
            let path = match n % 4 {
                0 => format!("/r/child-{}/v1/chat/completions", n % 7),
                1 => format!("/r/child-{}/below/v1/chat/completions", n % 3),
                _ => "/v1/chat/completions".to_owned(),
            };
            let body = Agent::new(&format!("Answer {}.", n % 11)).request().to_string();
            let stream = send(gateway.addr(), &path, "", &body).await;
            let leaving = async {
                tokio::time::sleep(std::time::Duration::from_millis(20 + (n as u64 % 50) * 20))
                    .await;
                // On a busy machine no client leaves before its call has arrived.
                until("enough has begun", || upstream.calls() > 50).await;
            };
            tokio::select! {
                _ = receive(stream) => {}
                () = leaving => {}
            }
        })
    });
    let all = tokio::time::timeout(
        std::time::Duration::from_secs(120),
        futures_util::future::join_all(calls),
    );
    all.await.expect("something hangs");
    let run = gateway.run(&id()).unwrap();
    until("all is settled", || run.budget().held().is_zero()).await;
    // As the last answer of its first conversation left it.
    assert!(matches!(run.status(), Status::InProgress | Status::Completed), "{:?}", run.status());
    let counts = gateway.counts(&id()).unwrap();
    assert!(upstream.calls() > 50 && counts.upstream_calls > 0, "{counts:?}");
    assert!(run.usage().0.total() > 0, "{counts:?}");
}

#[tokio::test]
async fn an_error_inside_a_success_is_a_failed_attempt_of_the_step() {
    let usage = json!({ "input_tokens": 1_000, "output_tokens": 5, "total_tokens": 1_005 });
    let failed = json!({ "id": "resp_1", "object": "response", "status": "failed", "model": "gpt-4o-mini",
        "error": { "code": "server_error", "message": "broken" }, "output": [], "usage": usage });
    let event = json!({ "type": "response.failed", "sequence_number": 0, "response": failed });
    let stream = format!("event: response.failed\ndata: {event}\n\n");
    let chat_error = json!({ "error": { "message": "no provider", "code": 502 } }).to_string();
    for (path, body, answer, tokens) in [
        (
            "/v1/chat/completions",
            json!({ "messages": [] }),
            crate::fake::json("200 OK", &chat_error),
            0,
        ),
        (
            "/v1/responses",
            json!({ "input": "a" }),
            crate::fake::json("200 OK", &failed.to_string()),
            1_005,
        ),
        (
            "/v1/responses",
            json!({ "input": "a", "stream": true }),
            vec![
                crate::fake::sse_head(),
                crate::fake::chunk(stream.as_bytes()),
                crate::fake::sse_end(),
            ],
            1_005,
        ),
    ] {
        let upstream = Fake::start(move |_, _| answer.clone()).await;
        let policy = "[stop]\nlimit = \"steps >= 9 or errors >= 2\"\n\
                      [accounting]\non_server_error = \"free\"\n";
        let gateway = gateway(policy, &upstream).await;
        let mut body = body;
        body["model"] = json!("gpt-4o-mini");
        for errors in 1..=2 {
            let got = post(&gateway, path, &body).await;
            assert_eq!(got.status, 200, "{got:?}");
            assert_eq!(
                (reading(&gateway, "errors"), reading(&gateway, "own.steps")),
                (errors, 1),
                "{path}"
            );
        }
        assert_eq!(gateway.run(&id()).unwrap().usage().0.total(), 2 * tokens, "{path}");
        post(&gateway, path, &body).await;
        assert_eq!(upstream.calls(), 2, "{path}");
    }
}

#[tokio::test]
async fn a_mark_of_the_encoding_before_a_request_is_left_out() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let body = format!("\u{feff}{}", Agent::new("Answer.").request());
    let got = receive(send(gateway.addr(), "/v1/chat/completions", "", &body).await).await;
    assert_eq!((got.status, upstream.calls()), (200, 1), "{got:?}");
    assert!(upstream.seen()[0].body.starts_with('{'));
}

/// The kinds of failed calls.
#[derive(Debug, Default)]
struct FailureKinds(Mutex<Vec<&'static str>>);

impl Observer for FailureKinds {
    fn observe(&self, seen: &Observation<'_>) {
        if let Detail::Failure { error, .. } = seen.detail {
            self.0.lock().unwrap().push(error.kind.name());
        }
    }
}

/// The loop reads the same samples in its test of the same name.
#[tokio::test]
async fn errors_of_providers_have_the_same_kind_in_the_loop_and_in_the_gateway() {
    for line in include_str!("../../../endstop-runtime/tests/provider-errors.jsonl").lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let (status, body) = (format!("{} Error", sample["status"]), sample["body"].to_string());
        let text = body.clone();
        let upstream = Fake::start(move |_, _| json(&status, &text)).await;
        let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
        let kinds = Arc::new(FailureKinds::default());
        config.environment.observers.push(Arc::clone(&kinds) as Arc<dyn Observer>);
        let gateway = Gateway::start(config).await.unwrap();
        let got = chat(&gateway, &Agent::new("Answer.").request()).await;
        let wanted = (sample["status"].as_u64(), body);
        assert_eq!((Some(u64::from(got.status)), got.text()), wanted, "{line}");
        let kind = sample["kind"].as_str().unwrap();
        assert_eq!(*kinds.0.lock().unwrap(), [kind], "{line}");
    }
}
