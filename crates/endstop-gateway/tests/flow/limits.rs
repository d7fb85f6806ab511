//! Calls that reach an upstream, and calls that do not.

use endstop_core::run::Status;
use endstop_core::signal::StopReason;
use serde_json::{Value, json};

use crate::fake::{Fake, json};
use crate::kit::*;

const CHAT: &str = "/v1/chat/completions";

async fn looping() -> Fake {
    Fake::start(|_, n| {
        json("200 OK", &reply_call(&format!("call_{n}"), "look", &format!("{{\"n\":{n}}}")))
    })
    .await
}

#[tokio::test]
async fn exactly_as_many_steps_reach_the_upstream_as_the_limit_admits() {
    let upstream = looping().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let mut agent = Agent::new("Loop.");
    let answers = agent.run(&gateway, CHAT).await;
    assert_eq!((upstream.calls(), answers.len()), (3, 4));
    let last = answers.last().unwrap();
    assert!(last.words().contains("steps"), "{last:?}");
    assert_eq!(last.json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(last.header("x-should-retry").as_deref(), Some("false"));
    assert_eq!(last.header("x-endstop-reason").as_deref(), Some("steps_limit"));
    assert_eq!(last.header("x-endstop-run").as_deref(), Some(RUN));
    let run = gateway.run(&id()).unwrap();
    assert_eq!(run.status(), Status::Stopped);
    assert_eq!(run.look(|run| run.stop_reason()), Some(StopReason::StepsLimitReached));
    assert_eq!((reading(&gateway, "steps"), reading(&gateway, "own.steps")), (3, 3));
    assert_eq!((reading(&gateway, "tool_calls"), run.usage().0.total()), (3, 330));
}

/// The agent loop has the same rule, and a test of the same name.
#[tokio::test]
async fn a_provider_that_counts_more_than_the_bytes_is_believed() {
    // A template that is not seen: 4,000 tokens for a few bytes.
    let upstream = Fake::start(|_, n| {
        let arguments = format!("{{\"n\":{n}}}");
        let mut reply: Value =
            serde_json::from_str(&reply_call(&format!("call_{n}"), "look", &arguments)).unwrap();
        reply["usage"] =
            json!({ "prompt_tokens": 4_000, "completion_tokens": 10, "total_tokens": 4_010 });
        json("200 OK", &reply.to_string())
    })
    .await;
    let small = || Agent { extra: json!({ "max_tokens": 16 }), ..Agent::new("Go.") };
    let gateway = gateway("[stop]\nlimit = \"tokens >= 7k or steps >= 9\"\n", &upstream).await;
    let stopped = small().run(&gateway, CHAT).await;
    assert_eq!((upstream.calls(), stopped.len()), (1, 2));
    let reason = stopped[1].header("x-endstop-reason");
    assert_eq!(reason.as_deref(), Some("token_limit"), "{stopped:?}");
    assert_eq!(gateway.run(&id()).unwrap().usage().0.total(), 4_010);

    // The template comes again if the client shortens the conversation, and if another model answers.
    let changes: [fn(&mut Value); 2] = [
        |request| drop(request["messages"].as_array_mut().unwrap().remove(1)),
        |request| request["model"] = json!("gpt-4o"),
    ];
    for change in changes {
        let before = upstream.calls();
        let gateway = self::gateway("[stop]\nlimit = \"tokens >= 7k or steps >= 9\"\n", &upstream);
        let gateway = gateway.await;
        let mut agent = small();
        let first = chat(&gateway, &agent.request()).await;
        assert!(agent.take(&first, "1"), "{first:?}");
        let mut request = agent.request();
        change(&mut request);
        let second = chat(&gateway, &request).await;
        assert_eq!(upstream.calls() - before, 1, "{second:?}");
        assert_eq!(second.header("x-endstop-reason").as_deref(), Some("token_limit"), "{second:?}");
    }
}

#[tokio::test]
async fn a_stop_is_sticky_and_costs_nothing() {
    let upstream = looping().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 1\"\n", &upstream).await;
    let mut agent = Agent::new("Loop.");
    agent.run(&gateway, CHAT).await;
    let spent = gateway.run(&id()).unwrap().usage();
    for _ in 0..3 {
        let got = chat(&gateway, &Agent::new("Something else.").request()).await;
        assert_eq!(got.header("x-endstop-reason").as_deref(), Some("steps_limit"), "{got:?}");
    }
    let got = post(&gateway, "/v1/embeddings", &json!({})).await;
    assert_eq!(got.status, 402);
    assert_eq!(upstream.calls(), 1);
    assert_eq!(gateway.run(&id()).unwrap().usage(), spent);
    assert_eq!(gateway.counts(&id()).unwrap().stop_responses, 5);
}

#[tokio::test]
async fn a_run_that_ended_by_itself_goes_on_when_it_is_asked_again() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let mut agent = Agent::new("Answer.");
    for turn in 0..3 {
        let got = chat(&gateway, &agent.request()).await;
        assert_eq!(got.words(), "Done.");
        assert_eq!(status(&gateway), Status::Completed);
        agent.take(&got, "");
        agent.messages.push(json!({ "role": "user", "content": format!("And now {turn}?") }));
    }
    let got = chat(&gateway, &agent.request()).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("steps_limit"));
    assert_eq!((upstream.calls(), reading(&gateway, "own.steps")), (3, 3));
}

#[tokio::test]
async fn an_answer_passes_byte_for_byte() {
    let body = reply_text("Héllo.\u{1F600}").replace(',', ", ");
    let sent = body.clone();
    let upstream = Fake::start(move |_, _| json("200 OK", &sent)).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3 or cost >= $5\"\n", &upstream).await;
    let got = chat(&gateway, &Agent::new("Answer.").request()).await;
    assert_eq!((got.status, got.text()), (200, body));
    assert_eq!(got.header("x-request-id").as_deref(), Some("req_7"));
    let arrived = &upstream.seen()[0];
    assert!(arrived.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", arrived.head);
    assert!(!arrived.head.to_lowercase().contains("x-endstop"));
    assert_eq!(arrived.json()["max_completion_tokens"], 1_000);
}

/// A gateway whose calls wait for each other instead of taking shares.
async fn without_shares(policy: &str, upstream: &Fake) -> endstop_gateway::Gateway {
    let mut config = config(policy, upstream.addr);
    config.fair_shares = false;
    endstop_gateway::Gateway::start(config).await.unwrap()
}

#[tokio::test]
async fn a_hundred_calls_at_once_on_a_budget_for_ten_are_ten() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let held = std::sync::Arc::clone(&gate);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![crate::fake::Act::Gate(std::sync::Arc::clone(&held))];
        let spent = json!({ "prompt_tokens": 30, "completion_tokens": 1_000_000 });
        let mut reply: serde_json::Value = serde_json::from_str(&reply_text("Done.")).unwrap();
        reply["usage"] = spent;
        acts.extend(json("200 OK", &reply.to_string()));
        acts
    })
    .await;
    let body = json!({ "model": "gpt-4o-mini", "max_completion_tokens": 1_000_000,
        "messages": [{ "role": "user", "content": "Go." }] });
    let gateway = without_shares("[stop]\nlimit = \"tokens >= 10_000_300\"\n", &upstream).await;
    let calls = (0..100).map(|_| chat(&gateway, &body));
    let all = futures_util::future::join_all(calls);
    let opened = async {
        until("ten have arrived", || upstream.calls() >= 10).await;
        all_that_is_on_its_way().await;
        loop {
            gate.notify_one();
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let answers = tokio::select! {
        answers = all => answers,
        () = opened => unreachable!(),
    };
    let through = answers.iter().filter(|got| got.words() == "Done.").count();
    assert_eq!((through, upstream.calls()), (10, 10));
    let run = gateway.run(&id()).unwrap();
    assert!(run.budget().overshoot().is_zero(), "{:?}", run.budget().overshoot());
    assert_eq!(run.usage().0.total(), 10_000_300);
}

#[tokio::test]
async fn a_call_waits_for_what_others_in_flight_only_hold() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let held = std::sync::Arc::clone(&gate);
    let upstream = Fake::start(move |_, n| {
        let mut acts = vec![crate::fake::Act::Gate(std::sync::Arc::clone(&held))];
        acts.extend(json("200 OK", &reply_text(&format!("Done {n}."))));
        acts
    })
    .await;
    let gateway = without_shares("[stop]\nlimit = \"tokens >= 10_000\"\n", &upstream).await;
    let body = json!({ "model": "gpt-4o-mini", "max_completion_tokens": 4_500,
        "messages": [{ "role": "user", "content": "Go." }] });
    let calls = futures_util::future::join_all((0..6).map(|_| chat(&gateway, &body)));
    let opened = async {
        until("two have arrived", || upstream.calls() >= 2).await;
        all_that_is_on_its_way().await;
        assert_eq!(upstream.calls(), 2);
        loop {
            gate.notify_one();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let answers = tokio::select! {
        answers = calls => answers,
        () = opened => unreachable!(),
    };
    assert!(answers.iter().all(|got| got.words().starts_with("Done")), "{answers:?}");
    let run = gateway.run(&id()).unwrap();
    assert_eq!((run.status(), run.usage().0.total()), (Status::Completed, 660));
    assert!(upstream.seen().iter().all(|it| it.json()["max_completion_tokens"] == 4_500));
}

#[tokio::test]
async fn a_call_does_not_wait_for_a_stream_of_its_own_run_that_nobody_reads() {
    let upstream = Fake::start(|_, n| {
        if n > 0 {
            return json("200 OK", &reply_text("Done."));
        }
        let words =
            json!({ "choices": [{ "index": 0, "delta": { "content": "a".repeat(1 << 20) } }] });
        let event = crate::fake::chunk(format!("data: {words}\n\n").as_bytes());
        let mut acts = vec![crate::fake::sse_head()];
        acts.extend(std::iter::repeat_n(event, 40));
        acts.push(crate::fake::Act::AwaitClose);
        acts
    })
    .await;
    let mut config = config("[stop]\nlimit = \"tokens >= 10_000\"\n", upstream.addr);
    config.pause = endstop_gateway::PauseLimit(std::time::Duration::from_millis(300));
    let gateway = endstop_gateway::Gateway::start(config).await.unwrap();
    let body = |is_stream: bool| {
        json!({ "model": "gpt-4o-mini", "max_completion_tokens": 9_000, "stream": is_stream,
            "messages": [{ "role": "user", "content": "Go." }] })
    };
    let parent = send(gateway.addr(), CHAT, "", &body(true).to_string()).await;
    until("it has begun", || upstream.calls() == 1).await;
    let got = chat(&gateway, &body(false)).await;
    assert_eq!((got.status, upstream.calls()), (402, 1), "{got:?}");
    assert!(got.text().contains("their client does not read"), "{got:?}");
    assert_eq!(got.header("x-should-retry").as_deref(), Some("false"));
    assert_eq!((status(&gateway), gateway.counts(&id()).unwrap().refused), (Status::InProgress, 1));
    // Its client goes: what it held comes back.
    drop(parent);
    until("it is closed", || upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
}
