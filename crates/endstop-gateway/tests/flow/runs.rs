//! Runs: parallel conversations, pauses, people, control.

use std::sync::Arc;
use std::time::Duration;

use endstop_core::run::Status;
use endstop_core::units::Money;
use endstop_gateway::{Gateway, Key, PauseLimit, Runs, Unnamed, UpstreamKeys};
use endstop_runtime::cancel::Urgency;
use futures_util::future::join;
use serde_json::json;

use crate::fake::{Act, Fake, json};
use crate::kit::*;

const CHAT: &str = "/v1/chat/completions";

/// Calls `look` with the same arguments forever; `Sub.` conversations answer with text.
async fn repeating() -> Fake {
    Fake::start(|request, n| {
        if request.body.contains("Sub task") {
            return json("200 OK", &reply_text("Sub done."));
        }
        json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))
    })
    .await
}

#[tokio::test]
async fn repeats_are_seen_although_a_sub_agent_shares_the_address() {
    let upstream = repeating().await;
    let gateway = gateway("[stop]\nlimit = \"repeats >= 3 or steps >= 50\"\n", &upstream).await;
    let mut agent = Agent::new("Look.");
    let mut turns = 0;
    loop {
        let got = chat(&gateway, &agent.request()).await;
        if got.header("x-endstop-reason").is_some() {
            assert_eq!(got.header("x-endstop-reason").as_deref(), Some("no_progress"));
            break;
        }
        turns += 1;
        // Its tool asks a model too, before it answers.
        let sub = Agent::new(&format!("Sub task {turns}"));
        assert_eq!(chat(&gateway, &sub.request()).await.words(), "Sub done.");
        agent.take(&got, "nothing new");
        assert!(turns < 20);
    }
    assert_eq!(turns, 4);
    assert_eq!(reading(&gateway, "own.steps"), 4);
    assert_eq!((reading(&gateway, "steps"), reading(&gateway, "subagents")), (8, 0));
}

#[tokio::test]
async fn an_agent_that_rewrites_its_history_stays_one_conversation() {
    let upstream = repeating().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 6\"\n", &upstream).await;
    let mut agent = Agent::new("Look.");
    for turn in 0..6 {
        let got = chat(&gateway, &agent.request()).await;
        agent.take(&got, &format!("result {turn}"));
        if turn % 2 == 1 {
            // All but the system prompt and the last exchange is summed up.
            let tail = agent.messages.split_off(agent.messages.len() - 2);
            agent.messages.truncate(1);
            agent.messages.push(json!({ "role": "user", "content": format!("So far: {turn}") }));
            agent.messages.extend(tail);
        }
    }
    assert_eq!((reading(&gateway, "own.steps"), reading(&gateway, "subagents")), (6, 0));
}

#[tokio::test]
async fn the_same_task_begun_again_repeats_nothing() {
    let upstream = Fake::start(|request, _| {
        let is_answered = request.body.contains("tool_call_id");
        let reply = if is_answered { reply_text("Done.") } else { reply_call("c", "look", "{}") };
        json("200 OK", &reply)
    })
    .await;
    let policy = "[stop]\nlimit = \"steps >= 50\"\nloop = \"repeats >= 3 or cycles >= 2\"\n";
    let gateway = gateway(policy, &upstream).await;
    for _ in 0..5 {
        let mut agent = Agent::new("Look.");
        let got = chat(&gateway, &agent.request()).await;
        assert!(agent.take(&got, "the same"), "{got:?}");
        let got = chat(&gateway, &agent.request()).await;
        assert_eq!(got.words(), "Done.");
    }
    assert_eq!((reading(&gateway, "own.steps"), reading(&gateway, "repeats")), (10, 0));
}

#[tokio::test]
async fn children_in_the_path_draw_on_the_run() {
    let upstream = repeating().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 5\"\n", &upstream).await;
    let mut parent = Agent::new("Look.");
    let mut child = Agent::new("Look there.");
    for turn in 0..2 {
        let got = chat(&gateway, &parent.request()).await;
        parent.take(&got, &format!("p{turn}"));
        let got = post(&gateway, "/r/run-1/helper/v1/chat/completions", &child.request()).await;
        child.take(&got, &format!("c{turn}"));
    }
    let nested = Agent::new("Look deeper.").request();
    let got = post(&gateway, "/r/helper/worker/v1/chat/completions", &nested).await;
    assert_eq!(got.status, 200);
    assert!(got.header("x-endstop-reason").is_none());
    assert_eq!((reading(&gateway, "own.steps"), reading(&gateway, "steps")), (2, 5));
    for path in [CHAT, "/r/run-1/helper/v1/chat/completions", "/r/new/v1/chat/completions"] {
        let got = post(&gateway, path, &child.request()).await;
        assert_eq!(got.header("x-endstop-reason").as_deref(), Some("steps_limit"), "{path}");
    }
    assert_eq!(upstream.calls(), 5);
}

#[tokio::test]
async fn a_paused_call_is_held_until_a_person_approves() {
    let upstream = repeating().await;
    let policy = "[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"steps >= 2\"\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agent = Agent::new("Look.");
    let approving = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        all_that_is_on_its_way().await;
        assert_eq!(upstream.calls(), 2);
        assert!(gateway.approve(&id(), None));
        assert!(!gateway.approve(&id(), Some(Money::from_picos(1))));
    };
    let (answers, ()) = join(agent.run(&gateway, CHAT), approving).await;
    assert_eq!((answers.len(), upstream.calls()), (5, 4));
    assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Stopped);
}

#[tokio::test]
async fn a_call_that_is_held_too_long_gets_a_stop_and_may_come_again() {
    let upstream = repeating().await;
    let mut config =
        config("[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 1\"\n", upstream.addr);
    config.pause = PauseLimit(Duration::from_millis(30));
    let gateway = Gateway::start(config).await.unwrap();
    let mut agent = Agent::new("Look.");
    let answers = agent.run(&gateway, CHAT).await;
    assert!(answers[1].words().contains("approval"), "{answers:?}");
    assert_eq!((status(&gateway), upstream.calls()), (Status::Paused, 1));
    assert!(gateway.approve(&id(), None));
    let got = chat(&gateway, &Agent::new("Go on.").request()).await;
    assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn children_of_a_paused_run_go_on_with_it() {
    let upstream = repeating().await;
    let policy = "[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 1\"\n";
    let gateway = gateway(policy, &upstream).await;
    chat(&gateway, &Agent::new("Look.").request()).await;
    let child = Agent::new("Look there.").request();
    let held = post(&gateway, "/r/helper/v1/chat/completions", &child);
    let approving = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        assert!(gateway.approve(&id(), None));
    };
    let (got, ()) = join(held, approving).await;
    assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
    assert_eq!(upstream.calls(), 2);
}

/// Never answers; the test cancels.
async fn silent() -> Fake {
    Fake::start(|_, _| vec![Act::AwaitClose]).await
}

#[tokio::test]
async fn a_kill_cuts_a_call_that_waits_and_is_an_error() {
    let upstream = silent().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 9\"\n", &upstream).await;
    let request = Agent::new("Wait.").request();
    let killing = async {
        until("it has arrived", || upstream.calls() == 1).await;
        assert!(gateway.cancel(&id(), "enough", Urgency::Now));
    };
    let (got, ()) = join(chat(&gateway, &request), killing).await;
    assert_eq!(
        (got.status, got.header("x-endstop-reason").as_deref()),
        (402, Some("user_requested"))
    );
    assert!(got.text().contains("enough"), "{got:?}");
    let (usage, is_estimate) = gateway.run(&id()).unwrap().usage();
    assert!(is_estimate && usage.input > 0 && usage.output == 0, "{usage:?}");
    until("closed", || upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_limit_in_time_ends_a_call_that_waits() {
    let upstream = silent().await;
    let gateway = gateway("[stop]\nlimit = \"elapsed >= 300ms\"\n", &upstream).await;
    let got = chat(&gateway, &Agent::new("Wait.").request()).await;
    assert_eq!((got.status, got.header("x-endstop-reason").as_deref()), (200, Some("time_limit")));
    assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Stopped);
}

#[tokio::test]
async fn a_limit_in_time_is_reached_without_a_call() {
    let upstream = silent().await;
    let gateway = gateway("[stop]\nlimit = \"elapsed >= 50ms\"\n", &upstream).await;
    assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Stopped);
}

#[tokio::test]
async fn a_gateway_that_is_dropped_or_shut_down_cuts_what_is_in_flight() {
    let upstream = silent().await;
    let gateway = gateway("[stop]\nlimit = \"tokens >= 100_000\"\n", &upstream).await;
    let run = gateway.run(&id()).unwrap();
    let stream = send(gateway.addr(), CHAT, "", &Agent::new("Wait.").request().to_string()).await;
    until("it has arrived", || upstream.calls() == 1).await;
    assert!(!run.budget().held().is_zero());
    drop(gateway);
    until("settled", || run.budget().held().is_zero()).await;
    assert!(run.usage().0.input > 0);
    assert!(!receive(stream).await.is_whole);
}

pub(crate) async fn ask(
    gateway: &Gateway,
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) -> Got {
    use tokio::io::AsyncWriteExt as _;
    let mut stream = tokio::net::TcpStream::connect(gateway.control_addr().unwrap()).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{token}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

pub(crate) const TOKEN: &str = "authorization: Bearer control-1\r\n";

#[tokio::test]
async fn runs_are_seen_and_commanded_with_the_token() {
    let upstream = repeating().await;
    let mut config =
        config("[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 1\"\n", upstream.addr);
    config.control = controlled();
    config.pause = PauseLimit(Duration::ZERO);
    let gateway = Gateway::start(config).await.unwrap();
    assert_eq!(ask(&gateway, "GET", "/endstop/health", "", "").await.status, 200);
    let runs = "/endstop/v1/runs";
    assert_eq!(ask(&gateway, "GET", runs, "", "").await.status, 401);
    let wrong = "authorization: Bearer control-2\r\n";
    assert_eq!(ask(&gateway, "GET", runs, wrong, "").await.status, 401);
    let list = ask(&gateway, "GET", runs, TOKEN, "").await.json();
    assert_eq!(list["runs"][0]["run"], RUN);
    chat(&gateway, &Agent::new("Look.").request()).await;
    chat(&gateway, &Agent::new("Look.").request()).await;
    let one = format!("{runs}/{RUN}");
    let seen = ask(&gateway, "GET", &one, TOKEN, "").await.json();
    assert_eq!((&seen["status"], &seen["upstream_calls"]), (&json!("paused"), &json!(1)), "{seen}");
    assert_eq!(seen["report"]["totals"]["steps"], 1);
    let path = format!("{one}/approve");
    assert_eq!(ask(&gateway, "POST", &path, TOKEN, "{\"limit\":\"x\"}").await.status, 400);
    // A key that is not known decides nothing in silence.
    assert_eq!(ask(&gateway, "POST", &path, TOKEN, "{\"cap\":\"5\"}").await.status, 400);
    assert_eq!(ask(&gateway, "POST", &path, TOKEN, "{\"rule\":\"ask\"}").await.status, 200);
    assert_eq!(status(&gateway), Status::InProgress);
    let path = format!("{one}/cancel");
    let seen = ask(&gateway, "POST", &path, TOKEN, "{\"message\":\"lunch\"}").await.json();
    assert_eq!(seen["status"], "stopped");
    assert!(chat(&gateway, &Agent::new("Look.").request()).await.words().contains("lunch"));
    assert_eq!(ask(&gateway, "POST", &format!("{one}/dance"), TOKEN, "").await.status, 404);
    assert_eq!(ask(&gateway, "GET", &format!("{runs}/other"), TOKEN, "").await.status, 404);
}

#[tokio::test]
async fn an_external_signal_is_set_by_name_and_stops_the_run_whose_policy_names_it() {
    let upstream = repeating().await;
    let rules = "[stop]\nlimit = \"steps >= 9\"\nreview = 'signal(\"review\")'\n";
    let mut config = config(rules, upstream.addr);
    config.control = controlled();
    let gateway = Gateway::start(config).await.unwrap();
    let path = format!("/endstop/v1/runs/{RUN}/signal");
    for nothing in ["", "{}", "{\"name\":\"\"}", "{\"signal\":\"review\"}"] {
        assert_eq!(ask(&gateway, "POST", &path, TOKEN, nothing).await.status, 400, "{nothing}");
    }
    let seen = ask(&gateway, "POST", &path, TOKEN, "{\"name\":\"other\"}").await.json();
    assert_eq!(seen["status"], "in_progress", "no rule names it: {seen}");
    chat(&gateway, &Agent::new("Look.").request()).await;
    let seen = ask(&gateway, "POST", &path, TOKEN, "{\"name\":\"review\"}").await.json();
    assert_eq!(seen["status"], "stopped", "{seen}");
    assert_eq!(seen["report"]["reason"], "user_requested", "{seen}");
    let stopped = chat(&gateway, &Agent::new("Look.").request()).await;
    assert_eq!(stopped.header("x-endstop-reason").as_deref(), Some("user_requested"));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn keys_that_the_gateway_issued_stay_with_it() {
    let upstream = repeating().await;
    let mut config = config("[stop]\nlimit = \"steps >= 1\"\n", upstream.addr);
    let keys = vec![(Key::new("issued-canary"), id().into())];
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: keys.into() };
    config.upstream_keys =
        UpstreamKeys { openai: Some(Key::new("upstream-canary")), ..UpstreamKeys::default() };
    config.control = controlled();
    let shown = format!("{config:?}");
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Look.").request().to_string();
    let header = "authorization: Bearer issued-canary\r\nx-api-key: issued-canary\r\n\
        api-key: issued-canary\r\ncookie: a=issued-canary\r\nopenai-organization: org-1\r\n";
    let first = receive(send(gateway.addr(), CHAT, header, &body).await).await;
    let second = receive(send(gateway.addr(), CHAT, header, &body).await).await;
    let refused =
        receive(send(gateway.addr(), CHAT, "authorization: Bearer own-canary\r\n", &body).await)
            .await;
    assert_eq!((first.status, second.status, refused.status), (200, 200, 401));
    let named = "authorization: Bearer own-canary\r\nx-endstop-run: run-1\r\n";
    let stranger = receive(send(gateway.addr(), "/v1/messages", named, &body).await).await;
    assert_eq!((stranger.status, &stranger.json()["type"]), (401, &json!("error")));
    assert_eq!(second.header("x-endstop-reason").as_deref(), Some("steps_limit"));
    let arrived = upstream.seen()[0].head.clone();
    assert!(arrived.contains("authorization: Bearer upstream-canary"), "{arrived}");
    assert!(!arrived.contains("issued-canary") && !arrived.contains("x-api-key"), "{arrived}");
    assert!(!arrived.contains("api-key") && !arrived.contains("org-1"), "{arrived}");
    let report = ask(&gateway, "GET", &format!("/endstop/v1/runs/{RUN}"), TOKEN, "").await;
    let shown_gateway = format!("{gateway:?}");
    for text in [shown, shown_gateway, format!("{first:?}{second:?}{refused:?}{report:?}")] {
        assert!(!text.contains("canary") && !text.contains("control-1"), "{text}");
    }
}

#[tokio::test]
async fn runs_are_told_apart_and_the_longest_idle_is_forgotten() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let mut config = config("[stop]\nlimit = \"steps >= 2\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    config.bounds.runs = 3;
    let gateway = Arc::new(Gateway::start(config).await.unwrap());
    let request = Agent::new("Answer.").request();
    for run in ["a", "b", "a", "c", "d"] {
        let got = post(&gateway, &format!("/r/{run}/v1/chat/completions"), &request).await;
        assert_eq!(got.words(), "Done.", "{run}");
    }
    let ids: Vec<String> = gateway.runs().iter().map(|run| run.info().id.to_string()).collect();
    assert_eq!(ids, ["a", "c", "d"]);
    let got = post(&gateway, "/r/a/v1/chat/completions", &request).await;
    assert_eq!(got.header("x-endstop-run").as_deref(), Some("a"));
    let got = chat(&gateway, &request).await;
    assert_eq!(got.status, 400);
    assert!(got.text().contains("/r/<run>"), "{got:?}");
}

#[tokio::test]
async fn a_stopped_run_stays_stopped_however_many_follow() {
    let upstream = repeating().await;
    let mut config = config("[stop]\nlimit = \"steps >= 1\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    config.bounds.runs = 1;
    let gateway = Gateway::start(config).await.unwrap();
    let request = Agent::new("Look.").request();
    let ask =
        async |run: &str| post(&gateway, &format!("/r/{run}/v1/chat/completions"), &request).await;
    // One in memory, and sixteen stored reasons.
    for run in 0..17 {
        let (first, second) = (ask(&format!("r{run}")).await, ask(&format!("r{run}")).await);
        assert!(first.header("x-endstop-reason").is_none(), "{first:?}");
        assert_eq!(second.header("x-endstop-reason").as_deref(), Some("steps_limit"));
    }
    assert_eq!(ask("r17").await.status, 503);
    for run in [16, 0, 7] {
        let got = ask(&format!("r{run}")).await;
        assert_eq!(got.header("x-endstop-reason").as_deref(), Some("steps_limit"), "{got:?}");
    }
    assert_eq!(upstream.calls(), 17);
}
