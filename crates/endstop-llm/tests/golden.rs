//! Responses that the gateway makes, byte for byte, for each API: stop responses, ends of streams that are cut short, and
//! errors.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../tests/support/golden.rs"]
mod file;

use endstop_llm::sse::SseSplitter;
use endstop_llm::{Api, CallRequest, ErrorKind, OutputContract, StopText, WrittenResponse};
use file::golden;
use http::StatusCode;
use serde_json::{Value, json};

/// An API with a request, and with the beginning of a stream.
struct Case {
    name: &'static str,
    api: Api,
    path: &'static str,
    request: Value,
    begun: &'static str,
}

fn cases() -> [Case; 4] {
    let messages = json!([{ "role": "user", "content": "Go." }]);
    [
        Case {
            name: "chat",
            api: Api::Chat,
            path: "/v1/chat/completions",
            request: json!({ "model": "gpt-4o-mini", "messages": messages }),
            begun: "data: {\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\",\"created\":7,\
                \"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\
                \"delta\":{\"role\":\"assistant\",\"content\":\"I look\"},\"finish_reason\":null}]}\n\n",
        },
        Case {
            name: "responses",
            api: Api::Responses,
            path: "/v1/responses",
            request: json!({ "model": "gpt-4o-mini", "input": "Go." }),
            begun: "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":\
                {\"id\":\"resp_7\",\"model\":\"gpt-4o-mini\",\"status\":\"in_progress\",\"output\":[]}}\n\n\
                data: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\
                \"item\":{\"id\":\"msg_7\",\"type\":\"message\",\"role\":\"assistant\",\
                \"status\":\"in_progress\",\"content\":[]}}\n\n\
                data: {\"type\":\"response.content_part.added\",\"sequence_number\":2,\"item_id\":\"msg_7\",\
                \"output_index\":0,\"content_index\":0,\
                \"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]}}\n\n\
                data: {\"type\":\"response.output_text.delta\",\"sequence_number\":3,\"item_id\":\"msg_7\",\
                \"output_index\":0,\"content_index\":0,\"delta\":\"I look\"}\n\n",
        },
        Case {
            name: "messages",
            api: Api::Messages,
            path: "/v1/messages",
            request: json!({ "model": "claude-sonnet-4-5", "max_tokens": 99, "messages": messages }),
            begun: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_7\",\
                \"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\"content\":[],\
                \"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
                event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\
                \"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
                event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                \"delta\":{\"type\":\"text_delta\",\"text\":\"I look\"}}\n\n",
        },
        Case {
            name: "gemini",
            api: Api::Gemini,
            path: "/v1beta/models/gemini-2.5-flash:generateContent",
            request: json!({ "contents": [{ "role": "user", "parts": [{ "text": "Go." }] }] }),
            begun: "data: {\"candidates\":[{\"index\":0,\
                \"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"I look\"}]}}],\
                \"modelVersion\":\"gemini-2.5-flash\",\"responseId\":\"r7\"}\n\n",
        },
    ]
}

fn stop() -> StopText {
    let text = "Endstop stopped this run: cost_limit: cost is $2.00 (limit $2.00).".to_owned();
    StopText { reason: "cost_limit".to_owned(), text }
}

fn part(title: &str, answer: &WrittenResponse) -> String {
    let WrittenResponse { status, content_type, body } = answer;
    let body = String::from_utf8(body.clone()).unwrap();
    format!("== {title}: {} {content_type}\n{body}\n", status.as_u16())
}

/// The end that a reader writes for a stream that began like this.
fn end(case: &Case, parsed: &CallRequest, begun: &str) -> String {
    let mut reader = case.api.dialect().stream(parsed);
    let mut splitter = SseSplitter::new(1 << 20);
    let mut left = begun.as_bytes();
    while let Some(frame) = splitter.next_frame(&mut left).unwrap() {
        reader.event(&frame.event().unwrap());
    }
    assert!(reader.is_between_blocks());
    String::from_utf8(reader.end(&stop())).unwrap()
}

#[test]
fn stop_responses() {
    for case in cases() {
        let dialect = case.api.dialect();
        let parsed = dialect.read(case.path, case.request.to_string().as_bytes()).unwrap();
        let mut text = String::new();
        for (contract, name) in [
            (OutputContract::Text, "stop"),
            (OutputContract::FinalAnswer { argument: "answer".to_owned() }, "stop by final_answer"),
        ] {
            let mut parsed = parsed.clone();
            parsed.contract = contract;
            parsed.choices = 2;
            text.push_str(&part(name, &dialect.stop(&parsed, &stop())));
            parsed.is_stream = true;
            parsed.wants_usage = true;
            text.push_str(&part(&format!("{name}, streaming"), &dialect.stop(&parsed, &stop())));
        }
        if case.api == Api::Gemini {
            let mut parsed = parsed.clone();
            parsed.is_list = true;
            text.push_str(&part("stop, as a list", &dialect.stop(&parsed, &stop())));
        }
        let mut parsed = parsed.clone();
        parsed.is_stream = true;
        parsed.wants_usage = true;
        for (name, begun) in [("before its first event", ""), ("after words", case.begun)] {
            let end = end(&case, &parsed, begun);
            text.push_str(&format!("== end of a stream {name}\n{end}\n"));
        }
        for kind in [
            ErrorKind::Stopped,
            ErrorKind::Invalid,
            ErrorKind::Thread,
            ErrorKind::Upstream,
            ErrorKind::Overloaded,
        ] {
            let answer = dialect.error(StatusCode::PAYMENT_REQUIRED, kind, &stop().text);
            text.push_str(&part(&format!("error, {kind:?}"), &answer));
        }
        golden(&format!("{}.txt", case.name), &text, &[]);
    }
}
