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
