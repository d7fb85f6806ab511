//! Input that is not in the request, or is not what it was when it was counted.

use serde_json::{Value, json};

use super::bodies::{self, CHAT, GEMINI, MESSAGES, RESPONSES, honest};
use super::{Client, Expected, Row, TOO_LARGE};
use crate::project::attack::assumption::Assumption;
use crate::project::attack::bill::Arrival;
use crate::project::attack::reply;
use crate::project::attack::upstream::Serving;

/// Tokens of the text at a name or an address.
const BEHIND: u64 = 190_000;

/// The same conversation, longer by a turn for each request before.
fn turns(number: u64) -> Vec<Value> {
    let mut messages = vec![json!({ "role": "user", "content": "Begin." })];
    for turn in 0..number {
        messages.push(json!({ "role": "assistant", "content": "Done." }));
        messages.push(json!({ "role": "user", "content": format!("More {turn}.") }));
    }
    messages
}

/// Words first, and then denser text of the same length.
fn denser(number: u64) -> String {
    if number == 0 { "abcd".repeat(10_000) } else { "Q".repeat(40_000) }
}

/// The text at a name is long each time.
fn stored(make: fn(u64, u64) -> Value, arrival: &Arrival, marks: &str) -> Serving {
    honest(make, arrival.tokens() + arrival.count_of(marks).min(1) * BEHIND, 10)
}

fn tool(text: &str) -> Value {
    json!({ "name": "look", "description": text, "input_schema": { "type": "object" } })
}

fn counted_low(messages: &[Value]) -> String {
    let text = format!("{} {}", reply::COUNTED_AS_NOTHING, "Q".repeat(50_000));
    bodies::messages(json!({ "system": text, "messages": messages })).to_string()
}

const BASE: Row = Row {
    name: "",
    what: "",
    limit: 5,
    tries: 10,
    client: Client::Reads,
    frees_errors: false,
    path: MESSAGES,
    request: |_| String::new(),
    serve: |arrival, _| honest(reply::messages, arrival.tokens(), 10),
    expected: Expected::Bounded,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "growing-file",
        what: "a file at an address is counted small once, and has 900,000 tokens later",
        limit: 800,
        path: GEMINI,
        request: |number| {
            let file = json!({ "fileData": { "mimeType": "text/plain",
                "fileUri": "https://example.com/a.txt" } });
            let mut contents = vec![json!({ "role": "user", "parts": [file] })];
            for turn in 0..number {
                contents.push(json!({ "role": "model", "parts": [{ "text": "Done." }] }));
                contents.push(
                    json!({ "role": "user", "parts": [{ "text": format!("More {turn}.") }] }),
                );
            }
            bodies::gemini(json!({ "contents": contents })).to_string()
        },
        serve: |_, number| honest(reply::gemini, if number == 0 { 500 } else { 900_000 }, 10),
        ..BASE
    },
    Row {
        name: "growing-image",
        what: "images at an address are counted small once, and are large later",
        limit: 20,
        path: CHAT,
        request: |number| {
            let image =
                json!({ "type": "image_url", "image_url": { "url": "https://example.com/a.png" } });
            let mut messages = turns(number);
            if let Some(first) = messages.first_mut() {
                reply::put(first, &["content"], json!(vec![image; 20]));
            }
            bodies::chat(json!({ "model": "gpt-4o-mini", "max_completion_tokens": 100,
                "messages": messages }))
            .to_string()
        },
        serve: |arrival, number| {
            let images = arrival.count_of("a.png");
            honest(reply::chat, if number == 0 { 500 } else { images * 48_169 }, 10)
        },
        ..BASE
    },
    Row {
        name: "denser-system",
        what: "instructions are replaced by denser text of the same length",
        limit: 20,
        request: |number| {
            bodies::messages(json!({ "system": denser(number), "messages": turns(number) }))
                .to_string()
        },
        ..BASE
    },
    Row {
        name: "denser-tools",
        what: "tools are replaced by denser text of the same length",
        limit: 20,
        request: |number| {
            bodies::messages(json!({ "tools": [tool(&denser(number))], "messages": turns(number) }))
                .to_string()
        },
        ..BASE
    },
    Row {
        name: "false-count",
        what: "its count of the input says 100 tokens, it bills 50,000",
        limit: 10,
        request: |number| counted_low(&turns(number)),
        expected: Expected::RestsOn(Assumption::CountsAreTrue),
        ..BASE
    },
    Row {
        name: "reasoning-by-id",
        what: "reasoning that the upstream keeps, by its id",
        path: RESPONSES,
        request: |_| {
            bodies::responses(json!({ "input": [
                { "type": "reasoning", "id": "rs_1", "summary": [] },
                { "role": "user", "content": "Go on." }] }))
            .to_string()
        },
        serve: |arrival, _| stored(reply::responses, arrival, "rs_1"),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "item-by-reference",
        what: "an item that the upstream keeps, by its id",
        path: RESPONSES,
        request: |_| {
            bodies::responses(json!({ "input": [{ "type": "item_reference", "id": "msg_1" },
                { "role": "user", "content": "Go on." }] }))
            .to_string()
        },
        serve: |arrival, _| stored(reply::responses, arrival, "msg_1"),
        expected: Expected::Refused(402, "--allow-unmetered=stored_conversation`"),
        ..BASE
    },
    Row {
        name: "item-without-type",
        what: "an item that the upstream keeps, by an id and nothing else",
        path: RESPONSES,
        request: |_| {
            bodies::responses(json!({ "input": [{ "id": "msg_1" },
                { "role": "user", "content": "Go on." }] }))
            .to_string()
        },
        serve: |arrival, _| stored(reply::responses, arrival, "msg_1"),
        expected: Expected::Refused(402, "--allow-unmetered=stored_conversation`"),
        ..BASE
    },
    Row {
        name: "item-after-response",
        what: "an item that the upstream keeps, by its id, after a response whose size is known",
        path: RESPONSES,
        request: |number| {
            let more = match number {
                0 => json!({ "store": true }),
                _ => json!({ "store": true, "previous_response_id": "resp_1",
                    "input": [{ "type": "item_reference", "id": "msg_1" }] }),
            };
            bodies::responses(more).to_string()
        },
        serve: |arrival, _| stored(reply::responses, arrival, "msg_1"),
        ..BASE
    },
    Row {
        name: "stored-prompt",
        what: "a prompt that the upstream keeps, by its id",
        path: RESPONSES,
        request: |_| bodies::responses(json!({ "prompt": { "id": "pmpt_1" } })).to_string(),
        serve: |arrival, _| stored(reply::responses, arrival, "pmpt_1"),
        expected: Expected::Refused(402, "--allow-unmetered=stored_conversation`"),
        ..BASE
    },
    Row {
        name: "speech-by-id",
        what: "earlier speech, by its id (`audio.id`)",
        path: CHAT,
        request: |_| {
            bodies::chat(json!({ "messages": [{ "role": "user", "content": "Hi." },
                { "role": "assistant", "audio": { "id": "audio_1" } },
                { "role": "user", "content": "Go on." }] }))
            .to_string()
        },
        serve: |arrival, _| stored(reply::chat, arrival, "audio_1"),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "file-in-instructions",
        what: "a file at an address in the instructions (`fileData`)",
        path: GEMINI,
        request: |_| {
            let file = json!({ "fileData": { "fileUri": "https://example.com/a.txt" } });
            bodies::gemini(json!({ "systemInstruction": { "parts": [file] } })).to_string()
        },
        serve: |arrival, _| stored(reply::gemini, arrival, "a.txt"),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "file-in-tool-result",
        what: "a file at an address in the result of a tool",
        path: GEMINI,
        request: |_| {
            let file = json!({ "fileData": { "mimeType": "text/plain",
                "fileUri": "https://example.com/a.txt" } });
            let result = json!({ "functionResponse": { "name": "look", "response": { "ok": true },
                "parts": [file] } });
            let contents = json!([{ "role": "user", "parts": [{ "text": "Go." }] },
                { "role": "model", "parts": [{ "functionCall": { "name": "look", "args": {} } }] },
                { "role": "user", "parts": [result] }]);
            bodies::gemini(json!({ "contents": contents })).to_string()
        },
        serve: |arrival, _| stored(reply::gemini, arrival, "a.txt"),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "cached-content",
        what: "content that the upstream keeps, by its name",
        path: GEMINI,
        request: |_| bodies::gemini(json!({ "cachedContent": "cachedContents/1" })).to_string(),
        serve: |arrival, _| stored(reply::gemini, arrival, "cachedContents/1"),
        expected: Expected::Refused(402, "--allow-unmetered=stored_conversation`"),
        ..BASE
    },
    Row {
        name: "file-by-id",
        what: "a file that the upstream keeps, in the result of a tool",
        request: |_| {
            let file =
                json!({ "type": "document", "source": { "type": "file", "file_id": "file_1" } });
            let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": [file] });
            let messages = json!([{ "role": "user", "content": "Go." },
                { "role": "assistant", "content": [
                    { "type": "tool_use", "id": "t", "name": "look", "input": {} }] },
                { "role": "user", "content": [result] }]);
            bodies::messages(json!({ "messages": messages, "tools": [tool("Look.")] })).to_string()
        },
        serve: |arrival, _| stored(reply::messages, arrival, "file_1"),
        expected: TOO_LARGE,
        ..BASE
    },
];
