//! Tests that hold for every API.

use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::StopText;
use crate::sse::SseSplitter;
use crate::{
    Api, CallRequest, CallResponse, Dialect, Edits, ErrorKind, OutputContract, ReadError,
    StreamReader, ToolsOff,
};

mod cost;

pub(crate) const ALL: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

pub(crate) fn dialect(api: Api) -> &'static dyn Dialect {
    api.dialect()
}

pub(crate) fn stop() -> StopText {
    StopText { reason: "cost_limit".to_owned(), text: "Stopped: $2 of \"$2\" spent\n.".to_owned() }
}

/// A request as it is read.
pub(crate) fn read(api: Api, request: &Value) -> CallRequest {
    let path = "/v1beta/models/gemini-pro:streamGenerateContent?alt=sse";
    dialect(api).read(path, request.to_string().as_bytes()).unwrap()
}

/// A request as it is sent, with changes.
pub(crate) fn edited(api: Api, request: &Value, edits: &Edits<'_>) -> Value {
    let body = dialect(api).edit(request.to_string().as_bytes(), edits).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Feeds a stream to a reader.
pub(crate) fn feed(reader: &mut dyn StreamReader, stream: &[u8]) -> String {
    let mut splitter = SseSplitter::new(1 << 20);
    let mut text = String::new();
    let mut left = stream;
    while let Some(frame) = splitter.next_frame(&mut left).unwrap() {
        if let Some(event) = frame.event() {
            text.push_str(&reader.event(&event).text);
        }
    }
    assert!(splitter.take_rest().is_empty(), "the stream ends with an event");
    text
}

/// The response in a stream.
pub(crate) fn streamed(api: Api, stream: &[u8]) -> CallResponse {
    let mut reader = dialect(api).stream(&CallRequest::default());
    feed(&mut *reader, stream);
    reader.response().clone()
}

/// The places in a stream where an event has ended.
fn borders(stream: &str) -> Vec<usize> {
    stream.match_indices("\n\n").map(|(at, _)| at + 2).collect()
}

/// A stream that is split anywhere on its way reads the same.
fn check_cuts(api: Api, stream: &[u8]) {
    let whole = streamed(api, stream);
    for cut in 0..=stream.len() {
        let mut reader = dialect(api).stream(&CallRequest::default());
        let mut splitter = SseSplitter::new(1 << 20);
        let (head, tail) = stream.split_at(cut);
        for mut left in [head, tail] {
            while let Some(frame) = splitter.next_frame(&mut left).unwrap() {
                frame.event().map(|event| reader.event(&event));
            }
        }
        assert_eq!(reader.response(), &whole, "cut at {cut}");
    }
}

/// For every border of a stream: its first part with the end that the reader writes for it, if it may end there. For
/// any border, the result is complete, and has the stop or the calls that were passed on.
pub(crate) fn check_ends(api: Api, stream: &str, calls: usize) -> usize {
    let mut ends = 0;
    check_cuts(api, stream.as_bytes());
    for border in [0].into_iter().chain(borders(stream)) {
        let head = &stream.as_bytes()[..border];
        let mut reader =
            dialect(api).stream(&CallRequest { wants_usage: true, ..CallRequest::default() });
        feed(&mut *reader, head);
        if !reader.is_between_blocks() {
            continue;
        }
        ends += 1;
        let was_whole = reader.response().is_whole;
        let tail = reader.end(&stop());
        assert!(reader.end(&stop()).is_empty(), "a stream ends once");
        let response = streamed(api, &[head, &tail].concat());
        assert!(response.is_whole, "at {border}: {}", String::from_utf8_lossy(&tail));
        let says_it = response.text.ends_with(&stop().text);
        assert!(
            was_whole || says_it == response.tool_calls.is_empty(),
            "at {border}: {response:?}"
        );
        assert!(response.tool_calls.len() <= calls);
        for call in &response.tool_calls {
            serde_json::from_str::<Value>(&call.arguments).unwrap();
        }
    }
    ends
}

fn parsed(contract: OutputContract, [is_stream, is_list]: [bool; 2]) -> CallRequest {
    CallRequest {
        model: "some-model".to_owned(),
        is_stream,
        is_list,
        wants_usage: true,
        choices: 1,
        contract,
        ..CallRequest::default()
    }
}

#[test]
fn a_stop_reads_as_an_answer_that_ends_the_loop() {
    let argument = "answer".to_owned();
    for api in ALL {
        for shape in [[false, false], [true, false], [false, true]] {
            for contract in [
                OutputContract::Text,
                OutputContract::Structure,
                OutputContract::FinalAnswer { argument: argument.clone() },
            ] {
                let parsed = parsed(contract.clone(), shape);
                let answer = dialect(api).stop(&parsed, &stop());
                assert_eq!(answer.status, StatusCode::OK);
                let response = if parsed.is_stream {
                    assert_eq!(answer.content_type, "text/event-stream");
                    streamed(api, &answer.body)
                } else {
                    assert_eq!(answer.content_type, "application/json");
                    dialect(api).answer(&answer.body).unwrap()
                };
                assert!(response.is_whole && response.error.is_none(), "{api:?}");
                assert_eq!(response.model.as_deref(), Some("some-model"), "{api:?}");
                assert_eq!(response.usage.as_ref().unwrap().tokens.total(), 0, "{api:?}");
                let is_final = matches!(contract, OutputContract::FinalAnswer { .. });
                let finish = match (api, is_final) {
                    (Api::Chat, false) => "stop",
                    (Api::Chat, true) => "tool_calls",
                    (Api::Messages, false) => "end_turn",
                    (Api::Messages, true) => "tool_use",
                    (Api::Responses, _) => "completed",
                    _ => "STOP",
                };
                assert_eq!(response.finish.as_deref(), Some(finish), "{api:?}");
                if is_final {
                    assert_eq!(response.text, "");
                    let [call] = &response.tool_calls[..] else { panic!("{response:?}") };
                    assert_eq!(call.tool, "final_answer");
                    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                    assert_eq!(arguments, json!({ "answer": stop().text }));
                } else {
                    assert_eq!((response.text, response.tool_calls), (stop().text, vec![]));
                }
            }
        }
    }
}

#[test]
fn a_stop_without_words_still_has_some() {
    let silent = StopText { reason: String::new(), text: " ".to_owned() };
    for api in ALL {
        let answer = dialect(api).stop(&parsed(OutputContract::Text, [true, false]), &silent);
        assert!(!streamed(api, &answer.body).text.trim().is_empty());
    }
}

#[test]
fn ids_of_stops_differ_where_conversations_do() {
    for api in ALL {
        let key = match api {
            Api::Responses => "input",
            Api::Gemini => "contents",
            _ => "messages",
        };
        let stop_of = |word: &str| {
            let request = json!({ "model": "m", key: [{ "role": "user", "content": word }] });
            dialect(api).stop(&read(api, &request), &stop()).body
        };
        assert_eq!(stop_of("a"), stop_of("a"), "{api:?}");
        assert_ne!(stop_of("a"), stop_of("b"), "{api:?}");
    }
}

#[test]
fn errors_have_the_shape_of_the_interface() {
    let kinds = [
        ErrorKind::Stopped,
        ErrorKind::Invalid,
        ErrorKind::Thread,
        ErrorKind::Upstream,
        ErrorKind::Overloaded,
    ];
    let found = ALL.map(|api| {
        kinds.map(|kind| {
            let answer = dialect(api).error(StatusCode::PAYMENT_REQUIRED, kind, "why \"so\"");
            assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED);
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(body["error"]["message"], "why \"so\"");
            let response = dialect(api).answer(&answer.body).unwrap();
            assert_eq!(response.error.as_deref(), Some("why \"so\""), "{api:?}");
            assert!(!response.is_whole);
            body
        })
    });
    let [chat, responses, messages, gemini] = &found;
    assert_eq!(chat[0]["error"]["type"], "insufficient_quota");
    assert_eq!(chat, responses);
    assert_eq!(messages[0]["type"], "error");
    let names = messages.each_ref().map(|body| body["error"]["type"].as_str().unwrap().to_owned());
    let want = [
        "billing_error",
        "invalid_request_error",
        "invalid_request_error",
        "api_error",
        "overloaded_error",
    ];
    assert_eq!(names, want);
    assert_eq!(messages[2]["error"]["details"]["error_code"], "thread_unsupported_request");
    assert_eq!(gemini[0]["error"]["code"], 402);
    assert_eq!(gemini[1]["error"]["status"], "INVALID_ARGUMENT");
}

#[test]
fn what_is_no_request_is_refused() {
    for api in ALL {
        for body in [&b""[..], b"[]", b"null", b"{", b"\xff", b"{\"a\":1}}", b"\"{}\""] {
            assert!(dialect(api).read("/", body).is_err(), "{api:?} {body:?}");
            let edits = Edits { output_cap: Some(1), ..Edits::default() };
            assert!(dialect(api).edit(body, &edits).is_err(), "{api:?} {body:?}");
        }
        assert!(dialect(api).answer(b"<html>").is_err());
        assert!(dialect(api).answer(b"{\"detail\":\"Not Found\"}").is_err(), "{api:?}");
    }
}

#[test]
fn tools_and_others_that_two_readers_could_read_in_two_ways_are_refused() {
    let tool = r#""tools":[{"type":"custom","name":"a"},{"type":"web_search","type":"custom","name":"b"}]"#;
    let capital = r#""tools":[{"Type":"web_search","name":"b"}]"#;
    let uses = r#""tools":[{"type":"web_search","max_uses":1,"max_uses":100}]"#;
    let model = r#""fallbacks":[{"model":"dear","model":"cheap"}]"#;
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        for members in [tool, capital, uses, model] {
            let body = format!(r#"{{"model":"m",{members}}}"#);
            let read = dialect(api).read("/v1", body.as_bytes());
            assert!(
                matches!(read, Err(ReadError::Duplicate(_) | ReadError::Misspelled { .. })),
                "{api:?}: {body}: {read:?}"
            );
        }
    }
    for members in [
        r#""container":{"skills":[{"skill_id":"pptx"}],"skills":[]}"#,
        r#""context_management":{"edits":[{"type":"compact_20260112"}],"edits":[]}"#,
        r#""context_management":{"edits":[{"type":"compact_20260112","type":"clear_thinking"}]}"#,
    ] {
        let body = format!(r#"{{"model":"m",{members}}}"#);
        let read = dialect(Api::Messages).read("/v1/messages", body.as_bytes());
        assert!(matches!(read, Err(ReadError::Duplicate(_))), "{body}: {read:?}");
    }
}

#[test]
fn depth_does_not_overflow_the_stack() {
    let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(30_000));
    let deep = format!("{open}{close}");
    let objects = format!("{}1{}", "{\"content\":".repeat(20_000), "}".repeat(20_000));
    for deep in [deep, objects] {
        for key in [
            "messages", "input", "contents", "tools", "usage", "choices", "error", "model",
            "output",
        ] {
            for body in [format!(r#"{{"{key}":{deep}}}"#), format!(r#"{{"{key}":[{deep}]}}"#)] {
                for api in ALL {
                    let _ = dialect(api).read("/", body.as_bytes());
                    let _ = dialect(api).answer(body.as_bytes());
                    let mut reader = dialect(api).stream(&CallRequest::default());
                    reader.event(&crate::sse::SseEvent { name: "", data: &body });
                    let edits =
                        Edits { output_cap: Some(1), finish: Some("x"), ..Edits::default() };
                    dialect(api).edit(body.as_bytes(), &edits).unwrap();
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn reading_is_total(json in crate::garbage::json(), more in crate::garbage::json()) {
        for api in ALL {
            let dialect = dialect(api);
            let body = json.to_string();
            let parsed = dialect.read(&body, body.as_bytes());
            prop_assert!(json.is_object() || parsed.is_err());
            let _ = dialect.answer(body.as_bytes());
            let mut reader = dialect.stream(&parsed.clone().unwrap_or_default());
            for json in [&json, &more, &json] {
                let data = json.to_string();
                reader.event(&crate::sse::SseEvent { name: "x", data: &data });
            }
            let _ = reader.is_between_blocks();
            let _ = reader.end(&stop());
            if let Ok(parsed) = parsed {
                prop_assert!(dialect.stop(&parsed, &stop()).body.len() > 10);
                prop_assert!(parsed.choices >= 1);
            }
        }
    }

    #[test]
    fn no_edits_change_nothing_and_any_edits_keep_it_json(json in crate::garbage::json(), cap in 1_u64..5_000) {
        for api in ALL {
            let dialect = dialect(api);
            let body = json.to_string();
            prop_assert_eq!(&dialect.edit(body.as_bytes(), &Edits::default()).unwrap(), body.as_bytes());
            let edits = Edits {
                provider_tools: if cap % 3 == 0 { crate::ToolLimit::Remove } else { crate::ToolLimit::Runs(cap) },
                output_cap: Some(cap),
                other_cap_field: cap % 3 == 0,
                force_usage: true,
                finish: Some("finish \"now\""),
                note: Some("note"),
                request: None,
                tools_off: if cap % 2 == 0 { ToolsOff::Remove } else { ToolsOff::Forbid },
            };
            let Ok(edited) = dialect.edit(body.as_bytes(), &edits) else {
                prop_assert!(!json.is_object());
                continue;
            };
            // An unreadable request is never edited.
            let Ok(before) = dialect.read("/", body.as_bytes()) else { continue };
            let value: Value = serde_json::from_slice(&edited).unwrap();
            let parsed = dialect.read("/", &edited).unwrap();
            prop_assert!(parsed.output_cap.is_some_and(|own| own <= cap), "{api:?} {value}");
            if let Some(before) = before.output_cap {
                prop_assert!(parsed.output_cap.unwrap() <= before, "{api:?} {value}");
            }
        }
    }
}

#[test]
fn a_wrap_up_forbids_tools_or_has_none_or_only_asks() {
    let chat = json!({"tools": [{"type": "function", "function": {"name": "a"}}], "functions": [{"name": "b"}],
        "tool_choice": "auto", "parallel_tool_calls": true, "messages": []});
    let responses =
        json!({"tools": [{"type": "function", "name": "a"}], "tool_choice": "auto", "input": "x"});
    let messages =
        json!({"tools": [{"name": "a"}], "tool_choice": {"type": "auto"}, "messages": []});
    let gemini = json!({"tools": [{"functionDeclarations": [{"name": "a"}]}], "contents": [],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}});
    for (api, request) in [
        (Api::Chat, chat),
        (Api::Responses, responses),
        (Api::Messages, messages),
        (Api::Gemini, gemini),
    ] {
        let sent = |tools_off| {
            let edits = Edits { finish: Some("Finish."), tools_off, ..Edits::default() };
            let sent = edited(api, &request, &edits);
            assert!(sent.to_string().contains("Finish."), "{api:?}");
            sent
        };
        let of_tools = ["tools", "tool_choice", "toolConfig", "functions", "parallel_tool_calls"];
        let kept = |sent: &Value| of_tools.map(|key| sent[key].clone());
        assert!(sent(ToolsOff::Forbid).to_string().to_lowercase().contains("\"none\""), "{api:?}");
        assert_eq!(kept(&sent(ToolsOff::Remove)), [const { Value::Null }; 5], "{api:?}");
        assert_eq!(kept(&sent(ToolsOff::Ask)), kept(&request), "{api:?}");
    }
}
