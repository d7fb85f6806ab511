//! Every API, over the scripted model: three steps and not one more, as JSON and as a stream.

use endstop_gateway::Gateway;
use endstop_sim::{Script, Sim};
use serde_json::{Value, json};

use crate::fake::{self, Fake};
use crate::kit::*;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    path: &'static str,
    body: fn(usize) -> Value,
    /// Parts of a stop response, as JSON and as a stream.
    ends: [&'static str; 2],
}

fn tools() -> Value {
    json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] })
}

pub(crate) const CASES: [Case; 4] = [
    Case {
        name: "chat",
        path: "/v1/chat/completions",
        body: |n| {
            json!({ "model": "gpt-4o-mini", "max_completion_tokens": 200,
            "messages": [{ "role": "user", "content": format!("Count {n}.") }],
            "tools": [{ "type": "function", "function": { "name": "counter", "parameters": tools() } }] })
        },
        ends: ["\"finish_reason\":\"stop\"", "data: [DONE]\n\n"],
    },
    Case {
        name: "responses",
        path: "/v1/responses",
        body: |n| {
            json!({ "model": "gpt-4o-mini", "max_output_tokens": 200, "input": format!("Count {n}."),
            "tools": [{ "type": "function", "name": "counter", "parameters": tools() }] })
        },
        ends: ["\"status\":\"completed\"", "response.completed"],
    },
    Case {
        name: "messages",
        path: "/v1/messages",
        body: |n| {
            json!({ "model": "claude-sonnet-4-5", "max_tokens": 200,
            "messages": [{ "role": "user", "content": format!("Count {n}.") }],
            "tools": [{ "name": "counter", "input_schema": tools() }] })
        },
        ends: ["\"end_turn\"", "message_stop"],
    },
    Case {
        name: "gemini",
        path: "/v1beta/models/gemini-2.5-flash:generateContent",
        body: |n| {
            json!({ "contents": [{ "role": "user", "parts": [{ "text": format!("Count {n}.") }] }],
            "generationConfig": { "maxOutputTokens": 200 },
            "tools": [{ "functionDeclarations": [{ "name": "counter", "parameters": tools() }] }] })
        },
        ends: ["\"STOP\"", "\"STOP\""],
    },
];

pub(crate) fn asked(case: &Case, is_stream: bool, n: usize) -> (String, Value) {
    let mut body = (case.body)(n);
    let mut path = case.path.to_owned();
    match case.name {
        "gemini" if is_stream => {
            path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        }
        "gemini" => {}
        _ => body["stream"] = json!(is_stream),
    }
    (path, body)
}

#[tokio::test]
async fn three_steps_are_three_calls_in_every_interface() {
    for case in &CASES {
        for is_stream in [false, true] {
            let sim = Sim::start(Script::Loop).await.unwrap();
            let policy = "[stop]\nlimit = \"steps >= 3\"\nmoney = \"cost >= $5\"\n";
            let gateway = Gateway::start(config(policy, sim.addr())).await.unwrap();
            let name = case.name;
            for n in 0..5 {
                let (path, body) = asked(case, is_stream, n);
                let got = post(&gateway, &path, &body).await;
                assert_eq!(
                    (got.status, got.is_whole),
                    (200, true),
                    "{name} {is_stream} {n}: {got:?}"
                );
                let is_stop = got.header("x-endstop-reason").is_some();
                assert_eq!(is_stop, n >= 3, "{name} {is_stream} {n}: {got:?}");
                if is_stop {
                    let text = got.text().replace("\": \"", "\":\"");
                    assert!(text.contains("steps"), "{name} {is_stream}: {text}");
                    assert!(text.contains(case.ends[usize::from(is_stream)]), "{name}: {text}");
                }
            }
            assert_eq!(sim.calls(), 3, "{name} {is_stream}");
            let run = gateway.run(&id()).unwrap();
            let (usage, is_estimate) = run.usage();
            assert!(
                !is_estimate && usage.input > 0 && usage.output > 0,
                "{name} {is_stream}: {usage:?}"
            );
            assert_eq!(
                (reading(&gateway, "steps"), reading(&gateway, "tool_calls")),
                (3, 3),
                "{name}"
            );
            let spent = run.budget().settled().cost;
            assert!(spent.picos() > 0, "{name} {is_stream}");
        }
    }
}

#[tokio::test]
async fn a_thread_is_asked_to_be_sent_whole() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let gateway =
        Gateway::start(config("[stop]\nmoney = \"cost >= $5\"\n", sim.addr())).await.unwrap();
    let mut body = (CASES[2].body)(0);
    body["thread"] = json!({ "type": "continue", "previous_message_id": "msg_1" });
    let got = post(&gateway, "/v1/messages", &body).await;
    assert_eq!((got.status, sim.calls()), (400, 0), "{got:?}");
    assert_eq!(got.json()["error"]["details"]["error_code"], "thread_unsupported_request");
}

#[tokio::test]
async fn a_conversation_that_the_upstream_keeps_is_bounded_by_what_it_told() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let gateway =
        Gateway::start(config("[stop]\nmoney = \"cost >= $5\"\n", sim.addr())).await.unwrap();
    let mut body = (CASES[1].body)(0);
    body["previous_response_id"] = json!("resp_0");
    let unknown = post(&gateway, "/v1/responses", &body).await;
    assert_eq!((unknown.status, sim.calls()), (402, 0), "{unknown:?}");
    let first = post(&gateway, "/v1/responses", &(CASES[1].body)(0)).await.json();
    let call = first["output"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["type"] == "function_call")
        .unwrap();
    // That of another conversation, and a prompt that the upstream keeps, can be of any size.
    for (name, foreign) in [("previous_response_id", json!("resp_0")), ("prompt", json!("p_1"))] {
        body["previous_response_id"] = first["id"].clone();
        body[name] = foreign;
        let refused = post(&gateway, "/v1/responses", &body).await;
        assert_eq!((refused.status, sim.calls()), (402, 1), "{refused:?}");
    }
    body.as_object_mut().unwrap().remove("prompt");
    body["previous_response_id"] = first["id"].clone();
    body["input"] =
        json!([{ "type": "function_call_output", "call_id": call["call_id"], "output": "1" }]);
    let second = post(&gateway, "/v1/responses", &body).await;
    assert_eq!((second.status, sim.calls()), (200, 2), "{second:?}");
    assert_eq!((reading(&gateway, "own.steps"), reading(&gateway, "subagents")), (2, 0));
}

#[tokio::test]
async fn searches_at_the_provider_are_in_the_bill() {
    let fake = Fake::start(|_, _| {
        let search = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": { "type": "search", "query": "q" } });
        let usage = json!({ "input_tokens": 10, "output_tokens": 1, "total_tokens": 11 });
        let answer = json!({ "id": "resp_1", "object": "response", "status": "completed",
            "model": "gpt-4o-mini", "output": [search], "usage": usage });
        fake::json("200 OK", &answer.to_string())
    })
    .await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $5\"\n", &fake).await;
    let mut body = (CASES[1].body)(0);
    body["tools"] = json!([{ "type": "web_search" }]);
    assert_eq!(post(&gateway, "/v1/responses", &body).await.status, 200);
    let spent = gateway.run(&id()).unwrap().budget().settled().cost;
    // $10 for 1,000 searches, and the tokens.
    assert_eq!(spent.picos(), 10_000_000_000 + 10 * 150_000 + 600_000);
}
