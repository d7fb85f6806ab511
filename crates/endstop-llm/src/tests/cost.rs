//! Tests of what decides the cost of a call: what a request may ask for, and what a response says of it.

use serde_json::{Value, json};

use crate::tests::{dialect, feed, read};
use crate::{Api, CallRequest, CallResponse};

fn answered(api: Api, answer: &Value) -> CallResponse {
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
    let mut reader = dialect(Api::Responses).stream(&CallRequest::default());
    feed(reader.as_mut(), format!("data: {created}\n\n").as_bytes());
    assert_eq!(reader.response().id.as_deref(), Some("resp_2"));
}

#[test]
fn what_a_provider_says_it_billed_is_kept() {
    let usage =
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.25});
    let response = answered(Api::Chat, &json!({"choices": [], "usage": usage}));
    let billed = response.usage.and_then(|usage| usage.billed);
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
fn a_conversation_that_may_be_summarized_first_is_read_twice() {
    let edits = json!({"edits": [{"type": "compact_20260112"}]});
    assert_eq!(
        read(Api::Messages, &json!({"context_management": edits})).added_by_more_reads(100),
        100
    );
    assert_eq!(read(Api::Messages, &json!({"messages": []})).added_by_more_reads(100), 0);
}

/// The counts in a response and in the stream of the same: searches on the web, in files, and runs of code.
fn runs(api: Api, answer: &Value, events: &[Value]) -> [Option<u64>; 3] {
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut reader = dialect(api).stream(&CallRequest::default());
    feed(reader.as_mut(), stream.as_bytes());
    let [whole, streamed] = [answered(api, answer), reader.response().clone()].map(|response| {
        let counts = response.usage.expect("usage").counts;
        ["web_searches", "storage_searches", "code_executions"]
            .map(|unit| counts.get(endstop_price::Unit::named(unit).unwrap()))
    });
    assert_eq!(whole, streamed, "{api:?} {answer}");
    whole
}

#[test]
fn tools_at_openai_that_cost_by_the_run_are_counted() {
    let items = [
        json!({"type": "web_search_call", "id": "1", "action": {"type": "search", "query": "q"}}),
        json!({"type": "web_search_call", "id": "2", "action": {"type": "search", "queries": ["a", "b"]}}),
        json!({"type": "web_search_call", "id": "3", "action": {"type": "open_page", "url": "u"}}),
        json!({"type": "web_search_call", "id": "4"}),
        json!({"type": "file_search_call", "id": "5", "queries": ["a"]}),
        json!({"type": "code_interpreter_call", "id": "6", "code": "1"}),
        json!({"type": "message", "id": "7", "content": []}),
    ];
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15});
    let response = json!({"id": "1", "object": "response", "status": "completed", "output": items, "usage": usage});
    let mut events = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        begun.as_object_mut().unwrap().remove("action");
        for (kind, item) in [("added", &begun), ("done", item), ("done", item)] {
            let kind = format!("response.output_item.{kind}");
            events.push(json!({"type": kind, "output_index": index, "item": item}));
        }
    }
    events.push(json!({"type": "response.completed", "response": response}));
    assert_eq!(runs(Api::Responses, &response, &events), [Some(4), Some(1), Some(1)]);
}

#[test]
fn an_answer_of_chat_that_cites_the_web_has_searched_it() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let cited = json!([{"type": "url_citation", "url_citation": {"url": "u"}}]);
    for (annotations, want) in [(cited, Some(1)), (json!([]), None), (Value::Null, None)] {
        let message = json!({"content": "a", "annotations": annotations});
        let answer = json!({"id": "1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage});
        let events = [
            json!({"id": "1", "choices": [{"delta": {"content": "a"}}], "usage": usage}),
            json!({"id": "1", "choices": [{"delta": {"annotations": annotations}}], "usage": usage}),
        ];
        assert_eq!(runs(Api::Chat, &answer, &events), [want, None, None], "{annotations}");
    }
}

#[test]
fn searches_of_gemini_are_counted_as_they_are_billed() {
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15});
    let queries = json!(["a", "", "b", "a"]);
    for (model, queries, want) in [
        ("gemini-2.5-flash", &queries, Some(1)),
        ("models/gemini-2.0-flash", &queries, Some(1)),
        ("gemini-3-flash-preview", &queries, Some(2)),
        ("gemini-3-flash-preview", &json!([""]), None),
    ] {
        let piece = |text: &str, grounding: Value| {
            let content = json!({"parts": [{"text": text}], "role": "model"});
            json!({"modelVersion": model, "usageMetadata": usage,
                "candidates": [{"content": content, "finishReason": "STOP", "groundingMetadata": grounding}]})
        };
        let grounding = json!({"webSearchQueries": queries});
        let events =
            [piece("a", Value::Null), piece("b", grounding.clone()), piece("", grounding.clone())];
        assert_eq!(
            runs(Api::Gemini, &piece("ab", grounding), &events),
            [want, None, None],
            "{model}"
        );
    }
}

#[test]
fn searches_that_are_reported_are_not_counted_twice() {
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "server_tool_use": {"web_search_requests": 3}});
    let answer =
        json!({"type": "message", "content": [], "usage": usage, "stop_reason": "end_turn"});
    let events = [json!({"type": "message_start", "message": answer})];
    assert_eq!(runs(Api::Messages, &answer, &events), [Some(3), None, None]);
}

/// Input and output of a report, and whether it is all of a response with some words.
fn halves(api: Api, answer: &Value) -> Option<(u64, u64, bool)> {
    let usage = answered(api, answer).usage?;
    let is_whole = usage.is_whole(40);
    Some((usage.tokens.total_input(), usage.tokens.output, is_whole))
}

#[test]
fn half_a_report_is_known_for_what_it_is() {
    let chat = |usage: Value| {
        halves(Api::Chat, &json!({"choices": [{"message": {"content": "a"}}], "usage": usage}))
    };
    let gemini =
        |usage: Value| halves(Api::Gemini, &json!({"candidates": [], "usageMetadata": usage}));
    let whole = json!({"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1005});
    assert_eq!(chat(whole), Some((1000, 5, true)));
    assert_eq!(chat(json!({"prompt_tokens": 1000})), Some((1000, 0, false)));
    assert_eq!(chat(json!({"completion_tokens": 5})), Some((0, 5, false)));
    let zero = json!({"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000});
    assert_eq!(chat(zero), Some((1000, 0, false)));
    assert_eq!(gemini(json!({"promptTokenCount": 1000})), Some((1000, 0, false)));
    // The total tells the other half.
    let rest = json!({"prompt_tokens": 1000, "completion_tokens": null, "total_tokens": 1600});
    assert_eq!(chat(rest), Some((1000, 600, true)));
    let rest = json!({"completion_tokens": 600, "total_tokens": 1600});
    assert_eq!(chat(rest), Some((1000, 600, true)));
    let rest = json!({"promptTokenCount": 1000, "totalTokenCount": 7000});
    assert_eq!(gemini(rest), Some((1000, 6000, true)));
    assert_eq!(chat(json!({})), None);
}

#[test]
fn what_a_stream_of_messages_tells_at_its_beginning_is_not_its_output() {
    let told = |ends: &[Value]| {
        let usage = json!({"input_tokens": 10, "output_tokens": 1});
        let mut events =
            vec![json!({"type": "message_start", "message": {"type": "message", "usage": usage}})];
        events.extend_from_slice(ends);
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let mut reader = dialect(Api::Messages).stream(&CallRequest::default());
        feed(reader.as_mut(), stream.as_bytes());
        let usage = reader.response().usage.clone().unwrap();
        (usage.tokens.output, usage.is_whole(40))
    };
    let end = |usage: Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    assert_eq!(told(&[]), (1, false));
    assert_eq!(told(&[end(Value::Null)]), (1, false));
    assert_eq!(told(&[end(json!({"input_tokens": 12}))]), (1, false));
    assert_eq!(told(&[end(json!({"output_tokens": 7}))]), (7, true));
    assert_eq!(told(&[end(json!({"output_tokens": 1}))]), (1, true));
}

#[test]
fn a_request_says_who_may_answer_it() {
    let parsed = read(Api::Chat, &json!({"models": ["a", {"model": "b"}, 7], "fallbacks": ["c"]}));
    assert_eq!(parsed.fallbacks, ["a", "b", "", "c"]);
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    assert!(is_refused(Api::Chat, &json!({"models": many}).to_string()));
}
