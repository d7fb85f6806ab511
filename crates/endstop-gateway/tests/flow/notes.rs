//! Notes on the remaining budget to the model: one line, and no other byte of the request changes.

use std::sync::Arc;

use endstop_gateway::{Config, Gateway};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fake::{self, Act, Fake};
use crate::kit::*;
use crate::stored_runs::{directory, many, path, start};

/// A gateway that tells the model at these percentages.
async fn telling(policy: &str, upstream: &Fake, percents: &[u64]) -> Gateway {
    let config = config(policy, upstream.addr);
    Gateway::start(Config { tell_model: percents.to_vec(), ..config }).await.unwrap()
}

/// An answer of the API that a path names.
fn answer(path: &str) -> String {
    let text = json!({ "type": "text", "text": "Done." });
    let body = match path {
        path if path.contains("/chat/") => return reply_text("Done."),
        path if path.contains("/responses") => json!({ "id": "resp_1", "object": "response",
            "status": "completed", "model": "gpt-4o-mini", "output": [{ "type": "message",
            "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": "Done.", "annotations": [] }] }],
            "usage": { "input_tokens": 9, "output_tokens": 1, "total_tokens": 10 } }),
        path if path.contains("/messages") => json!({ "id": "msg_1", "type": "message",
            "role": "assistant", "model": "claude-sonnet-4-5", "content": [text],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 9, "output_tokens": 1 } }),
        _ => {
            json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Done." }] },
            "finishReason": "STOP" }], "usageMetadata": { "promptTokenCount": 9,
            "candidatesTokenCount": 1, "totalTokenCount": 10 } })
        }
    };
    body.to_string()
}

/// The bytes before and after the note, for each API, in a body with odd spaces and fields.
const CASES: [(&str, &str, &str, &str); 5] = [
    (
        "/v1/chat/completions",
        r#"{ "model":"gpt-4o-mini" ,"messages" : [ {"role":"user","content":"Go \u00e9 N."} ],"x": 1.0e2 }"#,
        r#"N.""#,
        r#"N.\n\nNOTE""#,
    ),
    (
        "/v1/responses",
        r#"{ "input" :"Go N.",  "model": "gpt-4o-mini","store":false }"#,
        r#"N.""#,
        r#"N.\n\nNOTE""#,
    ),
    (
        "/v1/messages",
        r#"{"model":"claude-sonnet-4-5","max_tokens":9 , "messages":[{"content":[ {"type":"text","text":"Go N."}],"role":"user"}]}"#,
        r#"N."}"#,
        r#"N."},{"text":"NOTE","type":"text"}"#,
    ),
    (
        "/v1/messages",
        r#"{"model":"claude-sonnet-4-5","max_tokens":9 , "messages":[{"content":"Go N.","role":"user"}]}"#,
        r#"N.""#,
        r#"N.\n\nNOTE""#,
    ),
    (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        r#"{"contents": [{"role":"user", "parts":[ {"text":"Go N."} ]}]}"#,
        r#"N."} "#,
        r#"N."} ,{"text":"NOTE"}"#,
    ),
];

#[tokio::test]
async fn each_percentage_is_told_once_and_every_other_byte_stays() {
    for (path, template, place, with_note) in CASES {
        let upstream = Fake::start(|request, _| fake::json("200 OK", &answer(&request.head))).await;
        let gateway = telling("[stop]\nlimit = 'steps >= 4'", &upstream, &[50, 75]).await;
        let mut expected = Vec::new();
        for n in 1..=5 {
            let body = template.replace('N', &n.to_string());
            let got = receive(send(gateway.addr(), path, "", &body).await).await;
            let is_stopped = got.header("x-endstop-reason").is_some();
            assert_eq!((got.status, is_stopped), (200, n > 4), "{path}: {got:?}");
            let note = match n {
                3 => "[Endstop] 50% of the budget is used: 2 steps are left.",
                4 => "[Endstop] 75% of the budget is used: 1 step is left.",
                _ => {
                    expected.push(body);
                    continue;
                }
            };
            let with_note = with_note.replace("NOTE", note).replace('N', &n.to_string());
            expected.push(body.replace(&place.replace('N', &n.to_string()), &with_note));
        }
        expected.truncate(4);
        let seen: Vec<String> = upstream.seen().into_iter().map(|it| it.body).collect();
        assert_eq!(seen, expected, "{path}");
    }
}

#[tokio::test]
async fn a_failed_request_that_comes_again_has_the_same_note() {
    let upstream = Fake::start(|_, n| match n {
        1 => fake::json("500 Internal Server Error", r#"{"error":{"message":"no"}}"#),
        _ => fake::json("200 OK", &reply_text("Done.")),
    })
    .await;
    let gateway = telling("[stop]\nlimit = 'steps >= 2'", &upstream, &[50]).await;
    let ask = |n: u32| json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": format!("Go {n}.") }] });
    for n in [1, 2, 2] {
        chat(&gateway, &ask(n)).await;
    }
    let seen: Vec<String> = upstream.seen().into_iter().map(|it| it.body).collect();
    assert_eq!((seen.len(), &seen[1]), (3, &seen[2]));
    assert!(seen[1].contains("50% of the budget is used: 1 step is left."), "{seen:?}");
}

/// The tokens that are held while the last of some calls is in flight: the second request of the agent, or a repetition.
async fn held(percents: &[u64], last: usize) -> u64 {
    let gate = Arc::new(Notify::new());
    let waits = Arc::clone(&gate);
    let upstream = Fake::start(move |_, n| {
        let is_refused = (1..last).contains(&n);
        let text = if is_refused { "nonsense" } else { "Done." };
        let mut acts = fake::json("200 OK", &reply_text(text));
        if n == last {
            acts.insert(0, Act::Gate(Arc::clone(&waits)));
        }
        acts
    })
    .await;
    let policy = "[stop]\nlimit = 'tokens >= 1000'\n[retry]\nbad = 'said(\"nonsense\")'";
    let gateway = telling(policy, &upstream, percents).await;
    let ask = |n: u32| -> Value {
        json!({ "model": "gpt-4o-mini", "max_completion_tokens": 100,
            "messages": [{ "role": "user", "content": format!("Go {n}.") }] })
    };
    chat(&gateway, &ask(1)).await;
    let second = ask(2);
    let look = async {
        until("the last call", || upstream.calls() == last + 1).await;
        let held = gateway.run(&id()).unwrap().budget().held().tokens;
        gate.notify_one();
        held
    };
    let (got, held) = tokio::join!(chat(&gateway, &second), look);
    assert_eq!(got.words(), "Done.");
    held
}

#[tokio::test]
async fn the_note_counts_in_the_worst_case_of_its_call_also_if_that_is_repeated() {
    let note = "[Endstop] 11% of the budget is used: 890 tokens are left.";
    for last in [1, 2] {
        assert!(held(&[10], last).await >= held(&[], last).await + note.len() as u64, "{last}");
    }
}

#[tokio::test]
async fn a_stored_run_that_continues_is_not_told_again() {
    let upstream = Fake::start(|_, _| fake::json("200 OK", &reply_text("Done."))).await;
    let keep = directory("told-before");
    let make = || {
        let config = many("[stop]\nlimit = 'steps >= 5'", upstream.addr, &keep);
        Config { tell_model: vec![20], ..config }
    };
    let ask = |n: u32| json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": format!("Go {n}.") }] });
    for part in [[1, 2], [3, 4]] {
        let gateway = start(make).await;
        for n in part {
            post(&gateway, &path("told"), &ask(n)).await;
        }
        gateway.shut_down().await;
    }
    let told = upstream.seen().into_iter().map(|it| it.body.contains("[Endstop]"));
    assert_eq!(told.collect::<Vec<_>>(), [false, true, false, false]);
}
