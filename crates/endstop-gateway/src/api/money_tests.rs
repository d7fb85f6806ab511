//! Tests of what decides the cost of a call: what a request may ask for, and what an answer says of it.

use serde_json::{Value, json};

use super::dialect_tests::{dialect, feed, read};
use super::{Api, Asked, Seen};

fn answered(api: Api, answer: &Value) -> Seen {
    dialect(api).answer(answer.to_string().as_bytes()).unwrap()
}

#[test]
fn a_request_for_the_background_is_known_however_it_says_so() {
    for yes in [json!(true), json!(1), json!("true"), json!("True"), json!("yes"), json!(0.5)] {
        assert!(read(Api::Responses, &json!({"background": yes})).is_background, "{yes}");
    }
    for no in [json!(false), json!(0), json!("false"), json!(""), Value::Null] {
        assert!(!read(Api::Responses, &json!({"background": no})).is_background, "{no}");
    }
}

#[test]
fn an_answer_has_an_id_and_a_request_names_the_one_that_it_continues() {
    let continued = read(Api::Responses, &json!({"previous_response_id": "resp_1"}));
    assert_eq!(continued.continues.as_deref(), Some("resp_1"));
    assert_eq!(read(Api::Responses, &json!({"input": "a"})).continues, None);
    for (api, answer) in [
        (Api::Chat, json!({"id": "1", "choices": [{"message": {"content": "a"}}]})),
        (Api::Responses, json!({"id": "1", "object": "response", "status": "completed"})),
        (Api::Messages, json!({"id": "1", "type": "message", "content": []})),
        (Api::Gemini, json!({"responseId": "1", "candidates": [{"finishReason": "STOP"}]})),
    ] {
        assert_eq!(answered(api, &answer).id.as_deref(), Some("1"), "{api:?}");
    }
    let created = json!({"type": "response.created", "response": {"id": "resp_2"}});
    let mut reader = dialect(Api::Responses).stream(&Asked::default());
    feed(reader.as_mut(), format!("data: {created}\n\n").as_bytes());
    assert_eq!(reader.seen().id.as_deref(), Some("resp_2"));
}

#[test]
fn what_a_provider_says_it_billed_is_kept() {
    let usage =
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.25});
    let seen = answered(Api::Chat, &json!({"choices": [], "usage": usage}));
    let billed = seen.usage.and_then(|usage| usage.billed);
    assert_eq!(billed.map(|money| money.picos()), Some(250_000_000_000));
}

fn is_refused(api: Api, request: &str) -> bool {
    let path = "/v1beta/models/gemini-pro:generateContent";
    dialect(api).read(path, request.as_bytes()).is_err()
}

#[test]
fn a_key_that_decides_money_stands_once_and_as_it_is_written() {
    for (api, request) in [
        (Api::Chat, r#"{"max_tokens":1,"max_tokens":2}"#),
        (Api::Chat, r#"{"max_tokens":1,"max_\u0074okens":2}"#),
        (Api::Chat, r#"{"MAX_TOKENS":1}"#),
        (Api::Chat, "{\"max_to\u{212a}ens\":1}"),
        (Api::Chat, r#"{"n":1,"N":2}"#),
        (Api::Chat, r#"{"model":"a","model":"b"}"#),
        (Api::Chat, r#"{"stream":true,"stream":false}"#),
        (Api::Chat, r#"{"stream_options":{"include_usage":true,"include_usage":false}}"#),
        (Api::Responses, r#"{"max_output_tokens":1,"Max_Output_Tokens":2}"#),
        (Api::Responses, r#"{"background":false,"background":true}"#),
        (Api::Messages, r#"{"max_tokens":1,"max_tokens":null,"messages":[]}"#),
        (Api::Gemini, r#"{"generationConfig":{},"generation_config":{}}"#),
        (Api::Gemini, r#"{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2}}"#),
        (Api::Gemini, r#"{"generationConfig":{"CandidateCount":2}}"#),
    ] {
        assert!(is_refused(api, request), "{request}");
    }
    let both = r#"{"max_tokens":1,"max_completion_tokens":2,"metadata":{"n":1,"N":2}}"#;
    assert!(!is_refused(Api::Chat, both));
}

#[test]
fn counts_and_switches_are_what_they_have_to_be() {
    for wrong in ["\"5\"", "-1", "1.5", "true", "[1]", "{}", "1e30"] {
        for (api, request) in [
            (Api::Chat, format!(r#"{{"max_tokens":{wrong}}}"#)),
            (Api::Chat, format!(r#"{{"max_completion_tokens":{wrong}}}"#)),
            (Api::Chat, format!(r#"{{"n":{wrong}}}"#)),
            (Api::Chat, format!(r#"{{"best_of":{wrong}}}"#)),
            (Api::Responses, format!(r#"{{"max_output_tokens":{wrong}}}"#)),
            (Api::Messages, format!(r#"{{"max_tokens":{wrong}}}"#)),
            (Api::Gemini, format!(r#"{{"generationConfig":{{"maxOutputTokens":{wrong}}}}}"#)),
            (Api::Gemini, format!(r#"{{"generationConfig":{{"candidateCount":{wrong}}}}}"#)),
        ] {
            assert!(is_refused(api, &request), "{request}");
        }
    }
    assert!(is_refused(Api::Chat, r#"{"n":0}"#));
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        assert!(is_refused(api, r#"{"stream":"yes"}"#) && is_refused(api, r#"{"stream":1}"#));
        assert!(!is_refused(api, r#"{"stream":null,"max_tokens":null,"n":null}"#));
    }
    assert_eq!(read(Api::Chat, &json!({"n": 2, "best_of": 5})).choices, 5);
}

#[test]
fn a_request_says_what_may_make_it_dearer() {
    let dear = read(
        Api::Messages,
        &json!({"service_tier": "priority", "speed": "fast", "messages": [{"role": "user",
            "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}]}),
    );
    assert_eq!(dear.context.service_tier.as_deref(), Some("priority"));
    assert_eq!(dear.context.speed.as_deref(), Some("fast"));
    assert!(dear.may_write_1h);
    assert!(!read(Api::Messages, &json!({"messages": []})).may_write_1h);
    assert_eq!(
        read(Api::Chat, &json!({"service_tier": "flex"})).context.service_tier.as_deref(),
        Some("flex")
    );
}

#[test]
fn tools_that_run_at_the_provider_double_the_bound() {
    for (api, tools, at_provider) in [
        (Api::Chat, json!([{"type": "function", "function": {"name": "a"}}]), false),
        (Api::Chat, json!([{"type": "web_search"}]), true),
        (
            Api::Responses,
            json!([{"type": "function", "name": "a"}, {"type": "custom", "name": "b"}]),
            false,
        ),
        (Api::Responses, json!([{"type": "function", "name": "a"}, {"type": "file_search"}]), true),
        (Api::Messages, json!([{"name": "a"}, {"type": "bash_20250124", "name": "bash"}]), false),
        (Api::Messages, json!([{"type": "web_search_20250305", "name": "web_search"}]), true),
        (Api::Gemini, json!([{"functionDeclarations": [{"name": "a"}]}]), false),
        (Api::Gemini, json!([{"googleSearch": {}}]), true),
    ] {
        let asked = read(api, &json!({"tools": tools}));
        let want = if at_provider { 200 } else { 100 };
        assert_eq!(asked.with_server_tools(100), want, "{tools}");
    }
}
