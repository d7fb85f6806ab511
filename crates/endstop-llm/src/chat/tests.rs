//! Tests of chat completions.

use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::tests::{check_ends, dialect, edited, read, streamed};
use crate::{Api, CallRequest, Edits, OutputContract, Thread};

fn parsed(request: &Value) -> CallRequest {
    read(Api::Chat, request)
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {"n": {"type": "integer"}, "answer": {"type": "string"}},
        "required": ["answer"],
    }}})
}

#[test]
fn a_request_says_what_it_asks_for() {
    let got = parsed(&json!({
        "model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "n": 2,
        "max_tokens": 100, "max_completion_tokens": 300, "tools": [tool("a"), tool("b")],
        "functions": [{"name": "c"}], "messages": [{"role": "system", "content": "s"}],
    }));
    assert_eq!((got.model.as_str(), got.is_stream, got.wants_usage), ("gpt-5", true, true));
    assert_eq!((got.output_cap, got.choices, got.thread), (Some(300), 2, Thread::Whole));
    assert_eq!(got.tools, ["a", "b", "c"]);
    assert_eq!(got.messages.len(), 1);
    let odd = parsed(&json!({"model": 3, "n": null, "max_tokens": null, "stream": null}));
    assert_eq!(
        (odd.model.as_str(), odd.output_cap, odd.choices, odd.is_stream),
        ("", None, 1, false)
    );
}

#[test]
fn bounds_cover_the_whole_request() {
    let body = json!({
        "messages": [{"role": "user", "content": "hello"}], "model": "m",
        "tools": [{"type": "function", "function": {"name": "a"}}, {"type": "custom"}],
    });
    let body = body.to_string();
    let got = dialect(Api::Chat).read("/", body.as_bytes()).unwrap();
    let sum = got.fixed_bound() + got.messages.iter().map(|message| message.bound).sum::<u64>();
    let around = r#"{"messages":[]}"#;
    assert!(sum + around.len() as u64 >= body.len() as u64);
}

#[test]
fn demands_follow_tool_choice_and_format() {
    let end = OutputContract::FinalAnswer { argument: "answer".to_owned() };
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let allowed =
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}});
    let schema = json!({"type": "json_schema", "json_schema": {}});
    for (tools, choice, format, want) in [
        (vec!["a"], Value::Null, Value::Null, OutputContract::Text),
        (vec!["a"], json!("auto"), json!({"type": "text"}), OutputContract::Text),
        (vec!["a"], json!("none"), Value::Null, OutputContract::Text),
        (vec!["a"], json!("required"), Value::Null, OutputContract::Structure),
        (vec!["a"], json!("any"), Value::Null, OutputContract::Structure),
        (vec!["a"], named("a"), Value::Null, OutputContract::Structure),
        (vec!["a"], allowed, Value::Null, OutputContract::Structure),
        (vec!["a"], Value::Null, schema.clone(), OutputContract::Structure),
        (vec![], Value::Null, json!({"type": "json_object"}), OutputContract::Structure),
        (vec!["a", "final_answer"], json!("required"), Value::Null, end.clone()),
        (vec!["final_answer"], json!("auto"), schema, end.clone()),
        (vec!["final_answer"], named("final_answer"), Value::Null, end),
        (vec!["a", "final_answer"], named("a"), Value::Null, OutputContract::Structure),
        (vec!["final_answer"], json!("none"), Value::Null, OutputContract::Text),
    ] {
        let tools: Vec<Value> = tools.into_iter().map(tool).collect();
        let request = json!({"tools": tools, "tool_choice": choice, "response_format": format});
        assert_eq!(parsed(&request).contract, want, "{request}");
    }
}

#[test]
fn a_final_answer_that_takes_no_text_is_not_called() {
    let with = |parameters: Value| {
        let tool = json!({"type": "function", "function": {"name": "final_answer", "parameters": parameters}});
        parsed(&json!({"tools": [tool], "tool_choice": "required"})).contract
    };
    let no = [
        json!({}),
        json!({"properties": {"answer": {"type": "object"}}}),
        json!({"properties": {"answer": {"type": "string"}, "n": {"type": "integer"}}, "required": ["answer", "n"]}),
    ];
    for parameters in no {
        assert_eq!(with(parameters), OutputContract::Structure);
    }
    let end = |argument: &str| OutputContract::FinalAnswer { argument: argument.to_owned() };
    assert_eq!(with(json!({"properties": {"x": {"type": ["string", "null"]}}})), end("x"));
    assert_eq!(
        with(json!({"properties": {"answer": {"type": "any"}}, "required": ["answer"]})),
        end("answer")
    );
}

#[test]
fn results_are_those_after_the_last_message_of_the_model() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let got = parsed(&json!({"messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": null, "tool_calls": [call("1", "{}")]},
        {"role": "tool", "tool_call_id": "1", "content": "old"},
        {"role": "assistant", "tool_calls": [call("2", "{\"a\": 1}"), call("3", "{}")]},
        {"role": "tool", "tool_call_id": "3", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
        {"role": "tool", "tool_call_id": "2", "content": "r"},
        {"role": "tool", "tool_call_id": "?", "name": "n", "content": "z"},
    ]}));
    let short: Vec<_> = got
        .results
        .iter()
        .map(|it| (it.id.as_str(), it.tool.as_str(), it.arguments.as_str(), it.content.as_str()))
        .collect();
    let want = [("3", "look", "{}", "x\ny"), ("2", "look", "{\"a\": 1}", "r"), ("?", "n", "", "z")];
    assert_eq!(short, want);
    assert!(!got.has_user_message);
    assert_eq!(got.messages.iter().filter(|message| message.is_user).count(), 1);
    let legacy = parsed(&json!({"messages": [
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "r"},
        {"role": "user", "content": "more"},
    ]}));
    assert_eq!((legacy.results[0].arguments.as_str(), legacy.has_user_message), ("{}", true));
}

#[test]
fn the_cap_is_lowered_where_it_stands_and_else_added() {
    let cap = Edits { output_cap: Some(50), ..Edits::default() };
    for (request, want) in [
        (json!({"max_tokens": 100}), json!({"max_tokens": 50})),
        (json!({"max_tokens": 10}), json!({"max_tokens": 10})),
        (json!({"max_tokens": "100"}), json!({"max_tokens": 50})),
        (
            json!({"max_completion_tokens": 100, "max_tokens": null}),
            json!({"max_completion_tokens": 50, "max_tokens": null}),
        ),
        (
            json!({"max_completion_tokens": 100, "max_tokens": 70}),
            json!({"max_completion_tokens": 50, "max_tokens": 50}),
        ),
        (json!({"model": "llama"}), json!({"model": "llama", "max_tokens": 50})),
        (json!({"model": "gpt-oss-20b"}), json!({"model": "gpt-oss-20b", "max_tokens": 50})),
        (
            json!({"model": "openai/gpt-5"}),
            json!({"model": "openai/gpt-5", "max_completion_tokens": 50}),
        ),
        (
            json!({"model": "o3", "max_tokens": null}),
            json!({"model": "o3", "max_tokens": null, "max_completion_tokens": 50}),
        ),
    ] {
        assert_eq!(edited(Api::Chat, &request, &cap), want);
    }
}

#[test]
fn usage_is_asked_for_and_the_rest_stays() {
    let body = br#"{ "stream" : true, "temperature": 1.0, "stream_options":{"x":1} }"#;
    let edits = Edits { force_usage: true, ..Edits::default() };
    let got = dialect(Api::Chat).edit(body, &edits).unwrap();
    let want = br#"{ "stream" : true, "temperature": 1.0, "stream_options":{"x":1,"include_usage":true} }"#;
    assert_eq!(got, want);
}

#[test]
fn a_wrap_up_forbids_tools_and_says_so_where_the_model_looks() {
    let edits = Edits { finish: Some("Finish."), ..Edits::default() };
    let user = json!({"role": "user", "content": "u"});
    let result = json!({"role": "tool", "tool_call_id": "1", "content": "r"});
    let note = json!({"role": "user", "content": "Finish."});
    for (messages, want) in [
        (json!([user]), json!([{"role": "user", "content": "u\n\nFinish."}])),
        (json!([user, result]), json!([user, result, note])),
        (
            json!([{"role": "user", "content": [{"type": "text", "text": "u"}]}]),
            json!([{"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "text", "text": "Finish."}]}]),
        ),
        (json!([]), json!([note])),
    ] {
        let request = json!({"messages": messages, "tools": [tool("a")], "tool_choice": "auto"});
        let got = edited(Api::Chat, &request, &edits);
        assert_eq!(got["messages"], want);
        assert_eq!(got["tool_choice"], "none");
    }
    let bare = edited(Api::Chat, &json!({"messages": [user], "tools": []}), &edits);
    assert_eq!(bare.get("tool_choice"), None);
    let noted = Edits { note: Some("n"), ..Edits::default() };
    let got = edited(Api::Chat, &json!({"messages": [user], "tools": [tool("a")]}), &noted);
    assert_eq!((got.get("tool_choice"), &got["messages"][0]["content"]), (None, &json!("u\n\nn")));
}

fn chunk(choices: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": choices})
    )
}

fn delta(delta: Value, finish: Value) -> String {
    chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]))
}

fn piece(index: u64, id: &str, name: &str, arguments: &str) -> String {
    let function = if id.is_empty() {
        json!({"arguments": arguments})
    } else {
        json!({"name": name, "arguments": arguments})
    };
    let mut call = json!({"index": index, "function": function});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    delta(json!({"tool_calls": [call]}), Value::Null)
}

fn usage(input: u64, output: u64) -> String {
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    format!("data: {}\n\n", json!({"id": "c1", "choices": [], "usage": usage}))
}

fn tool_stream() -> String {
    [
        delta(json!({"role": "assistant", "content": ""}), Value::Null),
        delta(json!({"reasoning_content": "hmm"}), Value::Null),
        delta(json!({"content": "Hé"}), Value::Null),
        piece(0, "1", "look", ""),
        piece(0, "", "", "{\"a\":"),
        piece(0, "", "", "1}"),
        piece(1, "2", "see", "{}"),
        delta(json!({}), json!("tool_calls")),
        usage(10, 5),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

#[test]
fn a_stream_is_assembled() {
    let response = streamed(Api::Chat, tool_stream().as_bytes());
    assert_eq!((response.text.as_str(), response.finish.as_deref()), ("Hé", Some("tool_calls")));
    let calls: Vec<_> = response
        .tool_calls
        .iter()
        .map(|it| (it.id.as_str(), it.tool.as_str(), it.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("1", "look", "{\"a\":1}"), ("2", "see", "{}")]);
    assert_eq!(response.usage.unwrap().tokens.total(), 15);
    assert_eq!((response.output_bytes, response.is_whole), (3 + 3 + 7 + 2, true));
}

#[test]
fn pieces_without_an_index_go_by_their_ids() {
    let call = |id: &str, name: &str| json!({"tool_calls": [{"id": id, "function": {"name": name, "arguments": "{}"}}]});
    let stream = [delta(call("1", "a"), Value::Null), delta(call("2", "b"), Value::Null)].concat();
    assert_eq!(streamed(Api::Chat, stream.as_bytes()).tool_calls.len(), 2);
}

#[test]
fn usage_is_found_wherever_it_stands() {
    let words = delta(json!({"content": "x"}), Value::Null);
    let done = "data: [DONE]\n\n".to_owned();
    let null = format!("data: {}\n\n", json!({"choices": [], "usage": null}));
    let garbage = format!("data: {}\n\n", json!({"choices": [], "usage": {"prompt_tokens": "x"}}));
    for (stream, want) in [
        (vec![usage(1, 2), words.clone()], Some(3)),
        (vec![words.clone(), usage(1, 2), usage(1, 4), done.clone()], Some(5)),
        (vec![usage(1, 2), null.clone(), usage(0, 0)], Some(3)),
        (vec![words.clone(), done.clone(), usage(2, 2)], Some(4)),
        (vec![words.clone(), null, done.clone()], None),
        (vec![words, garbage, done], None),
    ] {
        let response = streamed(Api::Chat, stream.concat().as_bytes());
        assert_eq!(response.usage.map(|usage| usage.tokens.total()), want);
    }
}

#[test]
fn only_the_chunk_that_has_nothing_else_is_only_usage() {
    let mut reader = dialect(Api::Chat).stream(&CallRequest::default());
    for (data, want) in [
        (json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}), true),
        (json!({"choices": [], "usage": null}), false),
        (json!({"choices": [], "prompt_filter_results": []}), false),
        (
            json!({"choices": [{"delta": {}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
            false,
        ),
    ] {
        let data = data.to_string();
        assert_eq!(reader.event(&SseEvent { name: "", data: &data }).is_only_usage, want, "{data}");
    }
}

#[test]
fn what_begins_is_told_once() {
    let mut reader = dialect(Api::Chat).stream(&CallRequest::default());
    let stream = tool_stream();
    let mut begun = Vec::new();
    for line in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        begun.extend(reader.event(&SseEvent { name: "", data: line }).begins_call);
    }
    assert_eq!(begun, ["look", "see"]);
}

#[test]
fn a_stream_can_be_ended_between_blocks_only() {
    let mut reader = dialect(Api::Chat).stream(&CallRequest::default());
    let states: Vec<bool> = tool_stream()
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| {
            reader.event(&SseEvent { name: "", data });
            reader.is_between_blocks()
        })
        .collect();
    assert_eq!(states, [true, true, true, false, false, true, true, true, true, true]);
    assert_eq!(check_ends(Api::Chat, &tool_stream(), 2), 9);
}

#[test]
fn every_open_choice_is_ended() {
    let two = chunk(
        json!([{"index": 0, "delta": {"content": "a"}}, {"index": 3, "delta": {"content": "b"}}]),
    );
    let mut reader = dialect(Api::Chat).stream(&CallRequest::default());
    reader.event(&SseEvent { name: "", data: two.trim().strip_prefix("data: ").unwrap() });
    let end = String::from_utf8(reader.end(&crate::tests::stop())).unwrap();
    assert_eq!(end.matches("\"finish_reason\":\"stop\"").count(), 2);
    assert!(end.contains("\"id\":\"c1\"") && end.contains("\"created\":7"));
}

#[test]
fn errors_inside_a_stream_are_seen() {
    let stream = "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n";
    assert_eq!(streamed(Api::Chat, stream.as_bytes()).error.as_deref(), Some("overloaded"));
}

#[test]
fn a_whole_answer_is_read() {
    let answer = json!({"id": "c", "model": "m", "service_tier": "flex", "choices": [
        {"index": 0, "message": {"content": "x", "tool_calls": [
            {"id": "1", "function": {"name": "a", "arguments": "{}"}},
            {"id": "2", "function": {"name": "b", "arguments": {"n": 1}}},
        ]}, "finish_reason": "tool_calls"},
        {"index": 1, "message": {"content": "yy"}, "finish_reason": "stop"},
    ], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 12,
        "completion_tokens_details": {"reasoning_tokens": 5}}});
    let response = dialect(Api::Chat).answer(answer.to_string().as_bytes()).unwrap();
    assert_eq!(
        (response.text.as_str(), response.output_bytes, response.is_whole),
        ("x", 3 + 2 + 7, true)
    );
    assert_eq!(response.tool_calls[1].arguments, "{\"n\":1}");
    let usage = response.usage.unwrap();
    assert_eq!((usage.tokens.input, usage.tokens.output, usage.reasoning), (3, 9, Some(5)));
    assert_eq!(usage.context.service_tier.as_deref(), Some("flex"));
}
