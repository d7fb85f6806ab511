//! Requests of each API, as they are read and answered.

use serde_json::{Value, json};

use crate::plan::PlannedResponse;
use crate::request::SimRequest;
use crate::script::Script;
use crate::wire::Answer;
use crate::{chat, gemini, messages, responses};

fn schema() -> Value {
    json!({ "type": "object", "properties": { "step": { "type": "integer" } }, "required": ["step"] })
}

fn chat_body() -> Value {
    json!({
        "model": "gpt-4o",
        "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "tool_calls": [] },
            { "role": "tool", "tool_call_id": "a", "content": "x" },
        ],
        "tools": [{ "type": "function", "function": { "name": "counter", "parameters": schema() } }],
    })
}

fn with(mut body: Value, key: &str, value: Value) -> Value {
    body.as_object_mut().unwrap().insert(key.to_owned(), value);
    body
}

fn reply(script: Script, request: &SimRequest) -> PlannedResponse {
    PlannedResponse::of(script, request, "0".repeat(16))
}

fn whole(answer: Answer) -> Value {
    match answer {
        Answer::Whole(value) => value,
        Answer::Stream { .. } => panic!("a stream"),
    }
}

/// The data of a stream's events.
fn data(answer: Answer) -> Vec<Value> {
    let Answer::Stream { pieces, .. } = answer else { panic!("no stream") };
    let text: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
    let text = String::from_utf8(text).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn chat_answer(script: Script, body: &Value) -> Value {
    let request = chat::read(body).unwrap();
    whole(chat::answer(&request, &reply(script, &request)))
}

fn at<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

#[test]
fn a_loop_calls_the_tool_that_is_offered_with_the_number_of_its_step() {
    let answer = chat_answer(Script::Loop, &chat_body());
    let call = at(&answer, "/choices/0/message/tool_calls/0/function");
    assert_eq!(*call, json!({ "name": "counter", "arguments": "{\"step\":2}" }));
    assert_eq!(*at(&answer, "/choices/0/finish_reason"), "tool_calls");
}

#[test]
fn a_loop_of_so_many_calls_ends_with_words() {
    let calls = |times| chat_answer(Script::LoopFor(times), &chat_body());
    assert_eq!(*at(&calls(2), "/choices/0/finish_reason"), "tool_calls");
    let answer = calls(1);
    assert_eq!(*at(&answer, "/choices/0/finish_reason"), "stop");
    assert!(!at(&answer, "/choices/0/message/content").as_str().unwrap().is_empty());
}

#[test]
fn a_repeated_call_is_the_same_at_every_step() {
    let longer =
        with(chat_body(), "messages", json!([{ "role": "assistant" }, { "role": "assistant" }]));
    let call = |body| {
        let answer = chat_answer(Script::Repeat, &body);
        at(&answer, "/choices/0/message/tool_calls/0/function").clone()
    };
    assert_eq!(call(chat_body()), call(longer));
}

#[test]
fn tools_are_not_called_where_the_request_forbids_it() {
    let body = with(chat_body(), "tool_choice", json!("none"));
    assert_eq!(*at(&chat_answer(Script::Loop, &body), "/choices/0/finish_reason"), "stop");
    let body = with(chat_body(), "tools", json!([]));
    assert_eq!(*at(&chat_answer(Script::Loop, &body), "/choices/0/finish_reason"), "stop");
}

#[test]
fn an_answer_is_a_call_where_the_request_demands_one() {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": schema() } });
    let body = with(chat_body(), "tools", json!([tool("counter"), tool("final_answer")]));
    let name = |body: &Value| {
        let answer = chat_answer(Script::Answer, body);
        answer.pointer("/choices/0/message/tool_calls/0/function/name").cloned()
    };
    assert_eq!(
        name(&with(body.clone(), "tool_choice", json!("required"))),
        Some(json!("final_answer"))
    );
    let named = json!({ "type": "function", "function": { "name": "counter" } });
    assert_eq!(name(&with(body.clone(), "tool_choice", named)), Some(json!("counter")));
    assert_eq!(name(&body), Some(json!("final_answer")));
    assert_eq!(name(&chat_body()), None);
}

#[test]
fn the_tool_that_fits_the_script_is_chosen() {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let names = ["final_answer", "run_agent", "write_file", "read_file"];
    let body = with(chat_body(), "tools", names.iter().map(|name| tool(name)).collect());
    let name = |script| {
        let answer = chat_answer(script, &body);
        at(&answer, "/choices/0/message/tool_calls/0/function/name").clone()
    };
    assert_eq!(name(Script::Loop), "read_file");
    assert_eq!(name(Script::Delegate), "run_agent");
}

#[test]
fn a_demanded_format_is_kept_to() {
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema() } });
    let answer = chat_answer(Script::Answer, &with(chat_body(), "response_format", format));
    assert_eq!(*at(&answer, "/choices/0/message/content"), "{\"step\":2}");
}

#[test]
fn the_output_cap_holds_for_words_and_calls() {
    let body = with(chat_body(), "max_completion_tokens", json!(3));
    for script in [Script::Long, Script::Loop, Script::Answer] {
        let answer = chat_answer(script, &body);
        assert_eq!(*at(&answer, "/choices/0/finish_reason"), "length");
        assert_eq!(*at(&answer, "/usage/completion_tokens"), 3);
        assert_eq!(at(&answer, "/choices/0/message/content").as_str().unwrap().len(), 12);
    }
    let long = chat_answer(Script::Long, &chat_body());
    assert!(at(&long, "/usage/completion_tokens").as_u64().unwrap() > 4_000);
}

#[test]
fn all_choices_that_are_asked_for_come_and_are_counted() {
    let one = chat_answer(Script::Answer, &chat_body());
    let three = chat_answer(Script::Answer, &with(chat_body(), "n", json!(3)));
    assert_eq!(at(&three, "/choices").as_array().unwrap().len(), 3);
    let tokens = |answer: &Value| at(answer, "/usage/completion_tokens").as_u64().unwrap();
    assert_eq!(tokens(&three), 3 * tokens(&one));
}

#[test]
fn usage_comes_in_a_chat_stream_only_if_asked_for() {
    let body = with(chat_body(), "stream", json!(true));
    let chunks = |body: &Value| {
        let request = chat::read(body).unwrap();
        data(chat::answer(&request, &reply(Script::Loop, &request)))
    };
    assert!(chunks(&body).iter().all(|chunk| chunk.get("usage").is_none()));
    let asked = chunks(&with(body, "stream_options", json!({ "include_usage": true })));
    let (last, others) = asked.split_last().unwrap();
    assert!(others.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    assert_eq!(*at(last, "/choices"), json!([]));
    assert!(at(last, "/usage/completion_tokens").as_u64().unwrap() > 0);
}

/// A stream adds up to the non-streaming response: here, the arguments of a call.
#[test]
fn the_pieces_of_a_stream_are_the_whole_answer() {
    let body = with(chat_body(), "stream", json!(true));
    let request = chat::read(&body).unwrap();
    let pieces: String = data(chat::answer(&request, &reply(Script::Loop, &request)))
        .iter()
        .filter_map(|chunk| {
            chunk
                .pointer("/choices/0/delta/tool_calls/0/function/arguments")?
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(pieces, "{\"step\":2}");

    let body = json!({ "model": "m", "input": "go", "stream": true });
    let request = responses::read(&body).unwrap();
    let events = data(responses::answer(&request, &reply(Script::Answer, &request)));
    let numbers: Vec<u64> =
        events.iter().map(|event| at(event, "/sequence_number").as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let content: String = events
        .iter()
        .filter(|event| *at(event, "/type") == "response.output_text.delta")
        .map(|event| at(event, "/delta").as_str().unwrap())
        .collect();
    let last = events.last().unwrap();
    assert_eq!(*at(last, "/response/output/0/content/0/text"), content);
    assert_eq!(*at(last, "/response/status"), "completed");
}

#[test]
fn responses_count_the_turns_of_the_model_in_their_items() {
    let body = json!({
        "model": "m",
        "input": [
            { "role": "user", "content": "go" },
            { "type": "function_call", "call_id": "a", "name": "counter", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "a", "output": "x" },
        ],
        "tools": [{ "type": "function", "name": "counter", "parameters": schema() }, { "type": "web_search" }],
        "tool_choice": { "type": "function", "name": "counter" },
    });
    let request = responses::read(&body).unwrap();
    assert_eq!((request.messages, request.results, request.tools.len()), (3, 1, 1));
    let answer = whole(responses::answer(&request, &reply(Script::Loop, &request)));
    assert_eq!(*at(&answer, "/output/0/arguments"), "{\"step\":2}");
}

/// As Codex offers them for its default model.
#[test]
fn tools_of_an_input_item_are_called_with_their_namespace() {
    let function = |name: &str| json!({ "type": "function", "name": name, "parameters": schema() });
    let body = json!({ "model": "gpt-6.1-sol", "tool_choice": "auto", "input": [
        { "type": "additional_tools", "role": "developer", "tools": [
            { "type": "namespace", "name": "functions", "tools": [
                { "type": "custom", "name": "exec" }, function("wait") ] },
            { "type": "namespace", "name": "files", "tools": [function("read")] },
        ] },
        { "type": "message", "role": "user", "content": "Go." },
    ] });
    let request = responses::read(&body).unwrap();
    let answer = whole(responses::answer(&request, &reply(Script::Loop, &request)));
    let call = at(&answer, "/output/0");
    assert_eq!((at(call, "/name"), at(call, "/namespace")), (&json!("read"), &json!("files")));
    let plain = json!({ "model": "m", "input": "Go.", "tools": [function("read")] });
    let request = responses::read(&plain).unwrap();
    let answer = whole(responses::answer(&request, &reply(Script::Loop, &request)));
    assert!(answer.pointer("/output/0/namespace").is_none(), "{answer}");
}

#[test]
fn messages_stream_a_call_as_blocks() {
    let body = json!({
        "model": "m", "max_tokens": 100, "stream": true,
        "messages": [{ "role": "user", "content": "go" }],
        "tools": [{ "name": "counter", "input_schema": schema() }, { "type": "web_search_20250305", "name": "w" }],
        "tool_choice": { "type": "any" },
    });
    let request = messages::read(&body).unwrap();
    let events = data(messages::answer(&request, &reply(Script::Loop, &request)));
    let types: Vec<&str> =
        events.iter().map(|event| at(event, "/type").as_str().unwrap()).collect();
    assert_eq!(types.first(), Some(&"message_start"));
    assert_eq!(types.last(), Some(&"message_stop"));
    let input: String = events
        .iter()
        .filter_map(|event| event.pointer("/delta/partial_json")?.as_str().map(str::to_owned))
        .collect();
    assert_eq!(input, "{\"step\":1}");
    let end = events.iter().find(|event| *at(event, "/type") == "message_delta").unwrap();
    assert_eq!(*at(end, "/delta/stop_reason"), "tool_use");
    assert!(messages::read(&json!({ "messages": [] })).is_err(), "the cap is demanded");
    assert!(messages::read_to_count(&json!({ "messages": [] })).is_ok());
}

#[test]
fn gemini_streams_events_or_an_array() {
    let body = json!({
        "contents": [{ "role": "user", "parts": [{ "text": "go" }] }],
        "tools": [{ "functionDeclarations": [{ "name": "counter", "parametersJsonSchema": schema() }] }],
    });
    let request = gemini::read(&body, "gemini-2.5-flash", false, false).unwrap();
    let answer = whole(gemini::answer(&request, &reply(Script::Loop, &request)));
    let call = at(&answer, "/candidates/0/content/parts/0/functionCall");
    assert_eq!(*call, json!({ "name": "counter", "args": { "step": 1 } }));
    let request = gemini::read(&body, "m", true, true).unwrap();
    let events = data(gemini::answer(&request, &reply(Script::Answer, &request)));
    assert!(events.len() > 1);
    assert_eq!(*at(events.last().unwrap(), "/candidates/0/finishReason"), "STOP");
    let request = gemini::read(&body, "m", true, false).unwrap();
    let Answer::Stream { pieces, content_type } =
        gemini::answer(&request, &reply(Script::Answer, &request))
    else {
        panic!("no stream")
    };
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
    let array: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (array, content_type),
        (
            events
                .clone()
                .into_iter()
                .map(|mut event| {
                    event.as_object_mut().unwrap().insert("modelVersion".to_owned(), json!("m"));
                    event
                })
                .collect(),
            "application/json"
        )
    );
    let none = with(body, "toolConfig", json!({ "functionCallingConfig": { "mode": "NONE" } }));
    let request = gemini::read(&none, "m", false, false).unwrap();
    let answer = whole(gemini::answer(&request, &reply(Script::Loop, &request)));
    assert!(answer.pointer("/candidates/0/content/parts/0/text").is_some());
}

#[test]
fn gemini_is_read_in_both_of_its_spellings() {
    let body = json!({
        "contents": [{ "role": "model" }],
        "tools": [{ "function_declarations": [{ "name": "counter", "parameters_json_schema": schema() }] }],
        "generation_config": { "max_output_tokens": 9, "candidate_count": 2 },
        "tool_config": {
            "function_calling_config": { "mode": "ANY", "allowed_function_names": ["counter"] },
        },
    });
    let request = gemini::read(&body, "m", false, false).unwrap();
    assert_eq!((request.cap, request.choices), (Some(9), 2));
    let answer = whole(gemini::answer(&request, &reply(Script::Answer, &request)));
    let call = at(&answer, "/candidates/1/content/parts/0/functionCall");
    assert_eq!(*call, json!({ "name": "counter", "args": { "step": 2 } }));
}
