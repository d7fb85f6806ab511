//! Tests of messages.

use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::tests::{check_ends, dialect, edited, feed, read, stop, streamed};
use crate::{Api, CallRequest, Edits, OutputContract, Thread};

fn parsed(request: &Value) -> CallRequest {
    read(Api::Messages, request)
}

fn tool(name: &str) -> Value {
    json!({"name": name, "input_schema": {"type": "object", "properties": {"answer": {"type": "string"}}}})
}

#[test]
fn a_request_says_what_it_asks_for() {
    let got = parsed(&json!({
        "model": "claude", "stream": true, "max_tokens": 100, "system": "s", "tools": [tool("a")],
        "messages": [{"role": "user", "content": "u"}],
    }));
    assert_eq!((got.model.as_str(), got.is_stream, got.wants_usage), ("claude", true, true));
    assert_eq!((got.output_cap, got.choices, got.thread), (Some(100), 1, Thread::Whole));
    assert_eq!(
        (got.tools, got.messages.len(), got.has_user_message),
        (vec!["a".to_owned()], 1, true)
    );
}

#[test]
fn a_thread_that_continues_can_be_resent() {
    let with = |thread: Value| parsed(&json!({"thread": thread, "messages": []})).thread;
    assert_eq!(
        with(json!({"type": "continue", "previous_message_id": "msg_1"})),
        Thread::CanResend
    );
    assert_eq!(with(json!({"type": "new"})), Thread::Whole);
    assert_eq!(with(Value::Null), Thread::Whole);
}

#[test]
fn demands_follow_tool_choice_and_format() {
    let end = OutputContract::FinalAnswer { argument: "answer".to_owned() };
    for (name, more, want) in [
        ("a", json!({}), OutputContract::Text),
        ("a", json!({"tool_choice": {"type": "auto"}}), OutputContract::Text),
        ("a", json!({"tool_choice": {"type": "any"}}), OutputContract::Structure),
        ("a", json!({"tool_choice": {"type": "tool", "name": "a"}}), OutputContract::Structure),
        ("a", json!({"output_format": {"type": "json_schema"}}), OutputContract::Structure),
        (
            "a",
            json!({"output_config": {"format": {"type": "json_schema"}}}),
            OutputContract::Structure,
        ),
        ("a", json!({"output_config": {"effort": "low"}}), OutputContract::Text),
        ("final_answer", json!({"tool_choice": {"type": "any"}}), end.clone()),
        ("final_answer", json!({}), end),
        ("final_answer", json!({"tool_choice": {"type": "none"}}), OutputContract::Text),
    ] {
        let mut request = more;
        request["tools"] = json!([tool(name)]);
        assert_eq!(parsed(&request).contract, want, "{request}");
    }
}

#[test]
fn results_are_those_after_the_last_message_of_the_model() {
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {"n": id}});
    let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let mut failed =
        result("2", json!([{"type": "text", "text": "bad"}, {"type": "image", "source": {}}]));
    failed["is_error"] = json!(true);
    let mut request = json!({"messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": [used("0")]},
        {"role": "user", "content": [result("0", json!("old"))]},
        {"role": "assistant", "content": [{"type": "text", "text": "t"}, used("1"), used("2")]},
        {"role": "user", "content": [result("1", json!("fine")), failed,
            {"type": "text", "text": "<system-reminder>be good</system-reminder>"}]},
    ]});
    let got = parsed(&request);
    let short: Vec<_> = got
        .results
        .iter()
        .map(|it| {
            (
                it.id.as_str(),
                it.tool.as_str(),
                it.arguments.as_str(),
                it.content.as_str(),
                it.failed,
            )
        })
        .collect();
    let want = [
        ("1", "look", "{\"n\":\"1\"}", "fine", false),
        ("2", "look", "{\"n\":\"2\"}", "bad", true),
    ];
    assert_eq!(short, want);
    assert!(!got.has_user_message);
    assert_eq!(
        got.messages.iter().map(|it| it.is_user).collect::<Vec<_>>(),
        [true, false, false, false, false]
    );
    request["messages"][4]["content"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "text", "text": "and?"}));
    assert!(parsed(&request).has_user_message);
}

#[test]
fn the_cap_is_lowered_with_the_thinking_under_it() {
    let with = |cap: u64, request: Value| {
        edited(Api::Messages, &request, &Edits { output_cap: Some(cap), ..Edits::default() })
    };
    assert_eq!(with(50, json!({"max_tokens": 100})), json!({"max_tokens": 50}));
    assert_eq!(with(50, json!({"max_tokens": 10})), json!({"max_tokens": 10}));
    assert_eq!(with(50, json!({})), json!({"max_tokens": 50}));
    let thinking = |budget: u64| json!({"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": budget}});
    assert_eq!(with(4000, thinking(2000))["thinking"]["budget_tokens"], 2000);
    assert_eq!(with(4000, thinking(4000))["thinking"]["budget_tokens"], 3999);
    assert_eq!(with(1000, thinking(4000))["thinking"], json!({"type": "disabled"}));
}

#[test]
fn a_wrap_up_stands_behind_the_results() {
    let edits = Edits { finish: Some("Finish."), ..Edits::default() };
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "r"});
    let note = json!({"type": "text", "text": "Finish."});
    for (messages, want) in [
        (
            json!([{"role": "user", "content": "u"}]),
            json!([{"role": "user", "content": "u\n\nFinish."}]),
        ),
        (
            json!([{"role": "user", "content": [result]}]),
            json!([{"role": "user", "content": [result, note]}]),
        ),
        (
            json!([{"role": "assistant", "content": "a"}]),
            json!([{"role": "assistant", "content": "a"}, {"role": "user", "content": "Finish."}]),
        ),
    ] {
        let request = json!({"messages": messages, "tools": [tool("a")]});
        let got = edited(Api::Messages, &request, &edits);
        assert_eq!((&got["messages"], &got["tool_choice"]), (&want, &json!({"type": "none"})));
        let bare = edited(Api::Messages, &json!({"messages": messages}), &edits);
        assert_eq!(bare.get("tool_choice"), None);
    }
}

fn event(value: Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap())
}

fn block(index: u64, start: Value, deltas: &[Value]) -> String {
    let mut out =
        event(json!({"type": "content_block_start", "index": index, "content_block": start}));
    for delta in deltas {
        out += &event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    out + &event(json!({"type": "content_block_stop", "index": index}))
}

fn start() -> String {
    event(json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1, "service_tier": "standard"},
    }}))
}

fn finish(reason: &str) -> String {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}});
    event(delta) + &event(json!({"type": "message_stop"}))
}

fn tool_stream() -> String {
    [
        start(),
        event(json!({"type": "ping"})),
        block(
            0,
            json!({"type": "thinking", "thinking": ""}),
            &[
                json!({"type": "thinking_delta", "thinking": "hmm"}),
                json!({"type": "signature_delta", "signature": "xyz"}),
            ],
        ),
        block(
            1,
            json!({"type": "text", "text": ""}),
            &[
                json!({"type": "text_delta", "text": "Hé "}),
                json!({"type": "text_delta", "text": "you"}),
            ],
        ),
        block(
            2,
            json!({"type": "tool_use", "id": "1", "name": "look", "input": {}}),
            &[
                json!({"type": "input_json_delta", "partial_json": ""}),
                json!({"type": "input_json_delta", "partial_json": "{\"a\":"}),
                json!({"type": "input_json_delta", "partial_json": "1}"}),
            ],
        ),
        block(3, json!({"type": "tool_use", "id": "2", "name": "see", "input": {}}), &[]),
        finish("tool_use"),
    ]
    .concat()
}

#[test]
fn a_stream_is_assembled_and_its_usage_merged() {
    let response = streamed(Api::Messages, tool_stream().as_bytes());
    assert_eq!((response.text.as_str(), response.finish.as_deref()), ("Hé you", Some("tool_use")));
    let calls: Vec<_> = response
        .tool_calls
        .iter()
        .map(|it| (it.id.as_str(), it.tool.as_str(), it.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("1", "look", "{\"a\":1}"), ("2", "see", "{}")]);
    let usage = response.usage.unwrap();
    assert_eq!((usage.tokens.input, usage.tokens.cache_read, usage.tokens.output), (10, 5, 20));
    assert_eq!(usage.context.service_tier.as_deref(), Some("standard"));
    assert_eq!(
        (response.output_bytes, response.is_whole, response.model.as_deref()),
        (3 + 7 + 7, true, Some("claude"))
    );
}

#[test]
fn a_stream_that_is_cut_keeps_what_it_said() {
    let cut = tool_stream();
    let response =
        streamed(Api::Messages, &cut.as_bytes()[..cut.find("event: content_block_stop").unwrap()]);
    assert_eq!((response.is_whole, response.usage.unwrap().tokens.output), (false, 1));
}

#[test]
fn a_stream_can_be_ended_between_blocks_only() {
    let stream = tool_stream();
    let mut reader = dialect(Api::Messages).stream(&CallRequest::default());
    let mut states = Vec::new();
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        reader.event(&SseEvent { name: "", data });
        states.push(reader.is_between_blocks());
    }
    // Four pieces of the first call, the beginning of the second.
    assert_eq!(states.iter().filter(|is_between| !**is_between).count(), 5);
    assert_eq!(check_ends(Api::Messages, &stream, 2), states.len() + 1 - 5);
}

#[test]
fn an_end_closes_what_is_open_and_goes_on_with_the_next_index() {
    let stream = tool_stream();
    let end_at = |mark: &str| {
        let at = stream.find(mark).unwrap();
        let at = at + stream[at..].find("\n\n").unwrap() + 2;
        let mut reader = dialect(Api::Messages).stream(&CallRequest::default());
        feed(&mut *reader, &stream.as_bytes()[..at]);
        String::from_utf8(reader.end(&stop())).unwrap()
    };
    let names = |end: &str| -> Vec<String> {
        end.lines().filter_map(|line| line.strip_prefix("event: ")).map(str::to_owned).collect()
    };
    let tail = ["message_delta", "message_stop"];
    let text = end_at("Hé");
    assert_eq!(names(&text), [&["content_block_delta", "content_block_stop"][..], &tail].concat());
    assert!(text.contains("\"index\":1") && text.contains("end_turn"));
    let thought = end_at("hmm");
    let own =
        ["content_block_stop", "content_block_start", "content_block_delta", "content_block_stop"];
    assert_eq!(names(&thought), [&own[..], &tail].concat());
    let called = end_at("\"index\":2,\"type\":\"content_block_stop\"");
    assert_eq!(names(&called), tail);
    assert!(called.contains("\"stop_reason\":\"tool_use\""));
}

#[test]
fn errors_inside_a_stream_are_seen() {
    let error = event(
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    assert_eq!(streamed(Api::Messages, error.as_bytes()).error.as_deref(), Some("Overloaded"));
}

#[test]
fn a_whole_answer_is_read() {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
            {"type": "tool_use", "id": "1", "name": "look", "input": {"a": 1}},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_creation_input_tokens": 7},
    });
    let response = dialect(Api::Messages).answer(answer.to_string().as_bytes()).unwrap();
    assert_eq!(
        (response.text.as_str(), response.tool_calls.len(), response.is_whole),
        ("x", 1, true)
    );
    assert_eq!(response.tool_calls[0].arguments, "{\"a\":1}");
    assert_eq!(response.output_bytes, 1 + 7 + 7);
    let tokens = response.usage.unwrap().tokens;
    assert_eq!((tokens.input, tokens.cache_write, tokens.output), (3, 7, 4));
    let silent = json!({"type": "message", "content": [], "usage": null});
    assert_eq!(dialect(Api::Messages).answer(silent.to_string().as_bytes()).unwrap().usage, None);
}
