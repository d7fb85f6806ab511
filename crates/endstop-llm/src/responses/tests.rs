//! Tests of responses.

use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::tests::{check_ends, dialect, edited, feed, read, stop, streamed};
use crate::{Api, CallRequest, Edits, OutputContract, Thread};

fn parsed(request: &Value) -> CallRequest {
    read(Api::Responses, request)
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"properties": {"answer": {"type": "string"}}}})
}

#[test]
fn a_request_says_what_it_asks_for() {
    let got = parsed(&json!({
        "model": "gpt-5", "stream": true, "max_output_tokens": 100, "input": "u",
        "tools": [tool("a"), {"type": "web_search"}],
    }));
    assert_eq!((got.model.as_str(), got.is_stream, got.wants_usage), ("gpt-5", true, true));
    assert_eq!(
        (got.output_cap, got.thread, got.tools),
        (Some(100), Thread::Whole, vec!["a".to_owned()])
    );
    assert_eq!(
        (got.messages.len(), got.messages[0].is_user, got.has_user_message),
        (1, true, true)
    );
}

#[test]
fn input_that_is_elsewhere_makes_a_thread() {
    for more in [
        json!({"previous_response_id": "resp_1"}),
        json!({"conversation": {"id": "conv_1"}}),
        json!({"prompt": {"id": "p"}}),
        json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
        // The API takes the kind for granted.
        json!({"input": [{"id": "msg_1"}]}),
        json!({"input": [{"type": null, "id": "msg_1"}]}),
    ] {
        assert_eq!(parsed(&more).thread, Thread::Continues, "{more}");
    }
    assert_eq!(parsed(&json!({"previous_response_id": null})).thread, Thread::Whole);
    let whole = json!({"input": [{"role": "user", "id": "msg_1", "content": "hi"}]});
    assert_eq!(parsed(&whole).thread, Thread::Whole);
}

#[test]
fn demands_follow_tool_choice_and_format() {
    let end = OutputContract::FinalAnswer { argument: "answer".to_owned() };
    for (name, more, want) in [
        ("a", json!({}), OutputContract::Text),
        ("a", json!({"tool_choice": "required"}), OutputContract::Structure),
        ("a", json!({"tool_choice": {"type": "function", "name": "a"}}), OutputContract::Structure),
        (
            "a",
            json!({"tool_choice": {"type": "allowed_tools", "mode": "auto"}}),
            OutputContract::Text,
        ),
        ("a", json!({"tool_choice": {"type": "web_search"}}), OutputContract::Structure),
        ("a", json!({"text": {"format": {"type": "json_schema"}}}), OutputContract::Structure),
        ("a", json!({"text": {"format": {"type": "text"}}}), OutputContract::Text),
        ("final_answer", json!({"tool_choice": "required"}), end),
        ("final_answer", json!({"tool_choice": "none"}), OutputContract::Text),
    ] {
        let mut request = more;
        request["tools"] = json!([tool(name)]);
        assert_eq!(parsed(&request).contract, want, "{request}");
    }
}

#[test]
fn results_are_those_after_the_last_item_of_the_model() {
    let got = parsed(&json!({"input": [
        {"role": "user", "content": "u"},
        {"type": "reasoning", "id": "r"},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{\"a\":1}"},
        {"type": "custom_tool_call", "call_id": "2", "name": "patch", "input": "*** x"},
        {"type": "function_call_output", "call_id": "1", "output": "fine"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "function_call_output", "call_id": "?", "output": {"n": 1}},
    ]}));
    let short: Vec<_> = got
        .results
        .iter()
        .map(|it| (it.tool.as_str(), it.arguments.as_str(), it.content.as_str()))
        .collect();
    assert_eq!(
        short,
        [("look", "{\"a\":1}", "fine"), ("patch", "*** x", "ok"), ("", "", "{\"n\":1}")]
    );
    assert!(!got.has_user_message);
    assert_eq!(got.messages.iter().filter(|it| it.is_user).count(), 1);
}

#[test]
fn cap_and_note_are_set() {
    let edits = Edits { output_cap: Some(50), finish: Some("Finish."), ..Edits::default() };
    let got = edited(Api::Responses, &json!({"input": "u", "tools": [tool("a")]}), &edits);
    assert_eq!((&got["input"], &got["max_output_tokens"]), (&json!("u\n\nFinish."), &json!(50)));
    assert_eq!(got["tool_choice"], "none");
    let output = json!({"type": "function_call_output", "call_id": "1", "output": "r"});
    let got = edited(Api::Responses, &json!({"input": [output], "max_output_tokens": 9}), &edits);
    let note = json!({"type": "input_text", "text": "Finish."});
    assert_eq!(
        got["input"],
        json!([output, {"type": "message", "role": "user", "content": [note]}])
    );
    assert_eq!((&got["max_output_tokens"], got.get("tool_choice")), (&json!(9), None));
    let user = json!({"role": "user", "content": [{"type": "input_text", "text": "u"}]});
    let got = edited(Api::Responses, &json!({"input": [user]}), &edits);
    assert_eq!(got["input"][0]["content"][1], note);
    let got = edited(Api::Responses, &json!({"previous_response_id": "r"}), &edits);
    assert_eq!(got["input"], "Finish.");
}

fn events(events: &[Value]) -> String {
    let numbered = events.iter().enumerate().map(|(number, event)| {
        let mut event = event.clone();
        event["sequence_number"] = json!(number);
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    });
    numbered.collect()
}

fn response_of(status: &str, usage: Value) -> Value {
    json!({"id": "resp_1", "object": "response", "model": "gpt-5", "status": status, "output": [],
        "instructions": "be good", "usage": usage})
}

fn tool_stream() -> String {
    let message = |content: Value| json!({"id": "msg_1", "type": "message", "role": "assistant", "content": content});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let call = |arguments: &str| json!({"id": "fc_1", "type": "function_call", "call_id": "1", "name": "look", "arguments": arguments});
    let thought = json!({"id": "rs_1", "type": "reasoning", "summary": []});
    events(&[
        json!({"type": "response.created", "response": response_of("in_progress", Value::Null)}),
        json!({"type": "response.in_progress", "response": response_of("in_progress", Value::Null)}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": thought}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hmm"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": thought}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": message(json!([]))}),
        json!({"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": part("")}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Hé"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": " you"}),
        json!({"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "Hé you"}),
        json!({"type": "response.content_part.done", "output_index": 1, "content_index": 0, "part": part("Hé you")}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message(json!([part("Hé you")]))}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": call("")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"a\":"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "1}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"a\":1}"}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": call("{\"a\":1}")}),
        json!({"type": "response.completed", "response": response_of("completed", json!({"input_tokens": 10,
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15}))}),
    ])
}

#[test]
fn a_stream_is_assembled() {
    let response = streamed(Api::Responses, tool_stream().as_bytes());
    assert_eq!(
        (response.text.as_str(), response.finish.as_deref(), response.is_whole),
        ("Hé you", Some("completed"), true)
    );
    let [call] = &response.tool_calls[..] else { panic!("{response:?}") };
    assert_eq!(
        (call.id.as_str(), call.tool.as_str(), call.arguments.as_str()),
        ("1", "look", "{\"a\":1}")
    );
    let usage = response.usage.unwrap();
    assert_eq!((usage.tokens.total(), usage.reasoning), (15, Some(2)));
    assert_eq!(response.output_bytes, 3 + 7 + 7);
    assert_eq!(response.model.as_deref(), Some("gpt-5"));
}

#[test]
fn a_stream_can_be_ended_between_blocks_only() {
    // From the beginning of the call to its last piece.
    assert_eq!(check_ends(Api::Responses, &tool_stream(), 1), 19 - 4);
}

/// The events of a stream whose first `count` events are of upstream.
fn ended(count: usize) -> Vec<Value> {
    let stream = tool_stream();
    let at = stream.match_indices("\n\n").nth(count - 1).unwrap().0 + 2;
    let mut reader = dialect(Api::Responses).stream(&CallRequest::default());
    feed(&mut *reader, &stream.as_bytes()[..at]);
    let all = stream[..at].to_owned() + std::str::from_utf8(&reader.end(&stop())).unwrap();
    let data = all.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn an_end_goes_on_with_the_response() {
    for count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 17] {
        let events = ended(count);
        let numbers: Vec<u64> =
            events.iter().map(|it| it["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>(), "{count}");
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed");
        let response = &last["response"];
        assert_eq!(
            (&response["id"], &response["instructions"]),
            (&json!("resp_1"), &json!("be good"))
        );
        assert_eq!(response["status"], "completed");
        let done: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .map(|event| &event["item"])
            .collect();
        let begun =
            events.iter().filter(|event| event["type"] == "response.output_item.added").count();
        assert_eq!(
            response["output"].as_array().unwrap().iter().collect::<Vec<_>>(),
            done,
            "{count}"
        );
        assert_eq!(begun, done.len(), "{count}");
    }
}

#[test]
fn every_delta_of_a_stop_is_in_its_items() {
    let parsed = CallRequest { is_stream: true, model: "m".to_owned(), ..CallRequest::default() };
    let body = dialect(Api::Responses).stop(&parsed, &stop()).body;
    let body = String::from_utf8(body).unwrap();
    let kinds: Vec<&str> =
        body.lines().filter_map(|line| line.strip_prefix("event: response.")).collect();
    let want = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds, want);
}

#[test]
fn errors_inside_a_stream_are_seen() {
    for error in [
        json!({"type": "error", "code": "x", "message": "bad"}),
        json!({"type": "error", "error": {"message": "bad"}}),
        json!({"type": "response.failed", "response": {"status": "failed", "error": {"message": "bad"}}}),
    ] {
        let response = streamed(Api::Responses, events(&[error]).as_bytes());
        assert_eq!(response.error.as_deref(), Some("bad"));
    }
}

#[test]
fn a_whole_answer_is_read() {
    let mut answer = response_of("completed", json!({"input_tokens": 3, "output_tokens": 4}));
    answer["output"] = json!([
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
    ]);
    let response = dialect(Api::Responses).answer(answer.to_string().as_bytes()).unwrap();
    assert_eq!(
        (response.text.as_str(), response.output_bytes, response.is_whole),
        ("x", 2 + 1 + 2, true)
    );
    assert_eq!(
        (response.tool_calls[0].tool.as_str(), response.usage.unwrap().tokens.total()),
        ("look", 7)
    );
    answer["status"] = json!("incomplete");
    answer["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let response = dialect(Api::Responses).answer(answer.to_string().as_bytes()).unwrap();
    assert_eq!(response.finish.as_deref(), Some("max_output_tokens"));
    let queued = response_of("queued", Value::Null).to_string();
    assert!(!dialect(Api::Responses).answer(queued.as_bytes()).unwrap().is_whole);
}

#[test]
fn an_event_begins_a_call() {
    let item = json!({"type": "function_call", "name": "look", "call_id": "1"});
    let data =
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}).to_string();
    let mut reader = dialect(Api::Responses).stream(&CallRequest::default());
    assert_eq!(
        reader.event(&SseEvent { name: "", data: &data }).begins_call.as_deref(),
        Some("look")
    );
}

#[test]
fn calls_of_the_interfaces_own_tools_that_the_client_runs_are_calls() {
    let items = [
        json!({"type": "local_shell_call", "id": "i", "call_id": "1", "action": {"command": ["ls"]}}),
        json!({"type": "apply_patch_call", "id": "j", "call_id": "2", "operation": {"type": "x"}}),
        json!({"type": "computer_call", "id": "k", "call_id": "3", "action": {"type": "click"}}),
        json!({"type": "mcp_call", "id": "l", "name": "remote", "arguments": "{}"}),
    ];
    let mut answer = response_of("completed", json!({"input_tokens": 3, "output_tokens": 4}));
    answer["output"] = json!(items);
    let whole = dialect(Api::Responses).answer(answer.to_string().as_bytes()).unwrap();
    let pieces = items.iter().enumerate().flat_map(|(index, item)| {
        ["added", "done"].map(|kind| {
            json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
        })
    });
    let streamed = streamed(Api::Responses, events(&pieces.collect::<Vec<_>>()).as_bytes());
    for response in [whole, streamed] {
        let calls = response.tool_calls.iter();
        let calls: Vec<_> = calls.map(|it| [&*it.id, &*it.tool, &*it.arguments]).collect();
        let want = [
            ["1", "local_shell", r#"{"command":["ls"]}"#],
            ["2", "apply_patch", r#"{"type":"x"}"#],
            ["3", "computer", r#"{"type":"click"}"#],
        ];
        assert_eq!(calls, want);
    }
}
