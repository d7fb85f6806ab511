//! Members that appear twice in a request, or in letters of another case: which of them counts is for each server to
//! say, and here it is the more expensive one.

use serde_json::json;

use super::bodies::{CHAT, GEMINI, MESSAGES, RESPONSES, honest};
use super::{Client, Expected, Row, TOO_LARGE};
use crate::project::attack::bill::Arrival;
use crate::project::attack::reply;
use crate::project::attack::upstream::Serving;

/// Tokens of what the second reading leads to.
const LARGE: u64 = 190_000;

/// A request is large in the reading that has this word.
fn dearest(make: fn(u64, u64) -> serde_json::Value, arrival: &Arrival) -> Serving {
    let large = arrival.count_of("large").min(1) * LARGE;
    honest(make, arrival.tokens() + large, arrival.cap())
}

/// The body of Anthropic's API with these members as well.
fn messages(more: &str) -> String {
    format!(r#"{{"model":"claude-sonnet-4-5","max_tokens":1000,{more}}}"#)
}

/// A message with this content.
fn user(content: &str) -> String {
    messages(&format!(r#""messages":[{{"role":"user",{content}}}]"#))
}

const SMALL: &str = r#"[{"role":"user","content":"Hi."}]"#;
/// A document elsewhere, of which any size can be billed.
const DOCUMENT: &str =
    r#"{"type":"document","source":{"type":"url","url":"https://example.com/large"}}"#;

const BASE: Row = Row {
    name: "",
    what: "",
    limit: 5,
    tries: 10,
    client: Client::Reads,
    frees_errors: false,
    path: MESSAGES,
    request: |_| String::new(),
    serve: |arrival, _| dearest(reply::messages, arrival),
    expected: Expected::Bounded,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "cap-twice",
        what: "`max_tokens` twice",
        request: |_| messages(&format!(r#""max_tokens":50000,"max_tokens":10,"messages":{SMALL}"#)),
        expected: Expected::Refused(400, "`max_tokens` appears twice"),
        ..BASE
    },
    Row {
        name: "cap-in-capitals",
        what: "`MAX_TOKENS` and `max_tokens`",
        request: |_| messages(&format!(r#""MAX_TOKENS":50000,"messages":{SMALL}"#)),
        expected: Expected::Refused(400, "`MAX_TOKENS` has to be written as `max_tokens`"),
        ..BASE
    },
    Row {
        name: "messages-twice",
        what: "`messages` twice",
        request: |_| {
            messages(&format!(
                r#""messages":[{{"role":"user","content":[{DOCUMENT}]}}],"messages":{SMALL}"#
            ))
        },
        expected: Expected::Refused(400, "`messages` appears twice"),
        ..BASE
    },
    Row {
        name: "messages-in-capitals",
        what: "`Messages` and `messages`",
        request: |_| {
            messages(&format!(
                r#""messages":{SMALL},"Messages":[{{"role":"user","content":[{DOCUMENT}]}}]"#
            ))
        },
        expected: Expected::Refused(400, "`Messages` has to be written as `messages`"),
        ..BASE
    },
    Row {
        name: "messages-in-escapes",
        what: "`messages` twice, once with an escape",
        request: |_| {
            messages(&format!(
                r#""\u006dessages":[{{"role":"user","content":[{DOCUMENT}]}}],"messages":{SMALL}"#
            ))
        },
        expected: Expected::Refused(400, "`messages` appears twice"),
        ..BASE
    },
    Row {
        name: "content-twice",
        what: "`content` twice",
        request: |_| user(&format!(r#""content":[{DOCUMENT}],"content":"Hi.""#)),
        expected: Expected::Refused(400, "`content` appears twice"),
        ..BASE
    },
    Row {
        name: "content-in-capitals",
        what: "`Content` and `content`",
        request: |_| user(&format!(r#""content":"Hi.","Content":[{DOCUMENT}]"#)),
        expected: Expected::Refused(400, "`Content` has to be written as `content`"),
        ..BASE
    },
    Row {
        name: "type-twice",
        what: "`type` twice in a part",
        request: |_| {
            let part = DOCUMENT.replacen('{', r#"{"type":"text","text":"Hi.","#, 1);
            user(&format!(r#""content":[{part}]"#))
        },
        expected: Expected::Refused(400, "`type` appears twice"),
        ..BASE
    },
    Row {
        name: "type-in-escapes",
        what: "the kind of a part in escapes",
        request: |_| {
            let part = DOCUMENT.replacen("\"document\"", r#""d\u006fcument""#, 1);
            user(&format!(r#""content":[{part}]"#))
        },
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "type-in-capitals",
        what: "`Type` and `type` in a part",
        request: |_| {
            let part = DOCUMENT.replacen('{', r#"{"Type":"text","text":"Hi.","#, 1);
            user(&format!(r#""content":[{part}]"#))
        },
        expected: Expected::Refused(400, "`Type` has to be written as `type`"),
        ..BASE
    },
    Row {
        name: "source-twice",
        what: "`source` twice in a part",
        request: |_| {
            user(concat!(
                r#""content":[{"type":"document","source":{"type":"url","url":"https://example.com/large"},"#,
                r#""source":{"type":"text","media_type":"text/plain","data":"Hi."}}]"#
            ))
        },
        expected: Expected::Refused(400, "`source` appears twice"),
        ..BASE
    },
    Row {
        name: "source-type-twice",
        what: "`type` twice in a source",
        request: |_| {
            user(concat!(
                r#""content":[{"type":"document","source":{"type":"url","url":"https://example.com/large","#,
                r#""type":"text","media_type":"text/plain","data":"Hi."}}]"#
            ))
        },
        expected: Expected::Refused(400, "`type` appears twice"),
        ..BASE
    },
    Row {
        name: "tools-twice",
        what: "`tools` twice",
        request: |_| {
            messages(&format!(
                r#""tools":[{{"type":"code_execution_20250825","name":"large"}}],"tools":[],"messages":{SMALL}"#
            ))
        },
        expected: Expected::Refused(400, "`tools` appears twice"),
        ..BASE
    },
    Row {
        name: "tool-type-twice",
        what: "`type` twice in a tool",
        request: |_| {
            messages(&format!(
                concat!(
                    r#""tools":[{{"type":"code_execution_20250825","type":"custom","name":"large","#,
                    r#""input_schema":{{"type":"object"}}}}],"messages":{}"#
                ),
                SMALL
            ))
        },
        expected: Expected::Refused(400, "`type` appears twice"),
        ..BASE
    },
    Row {
        name: "tool-type-in-capitals",
        what: "`Type` in a tool",
        request: |_| {
            messages(&format!(
                r#""tools":[{{"Type":"code_execution_20250825","name":"large"}}],"messages":{SMALL}"#
            ))
        },
        expected: Expected::Refused(400, "`Type` has to be written as `type`"),
        ..BASE
    },
    Row {
        name: "skills-twice",
        what: "`skills` twice in a container",
        request: |_| {
            messages(&format!(
                r#""container":{{"skills":[{{"type":"anthropic","skill_id":"large"}}],"skills":[]}},"messages":{SMALL}"#
            ))
        },
        expected: Expected::Refused(400, "`skills` appears twice"),
        ..BASE
    },
    Row {
        name: "speech-twice",
        what: "`audio` twice in a message, one with an id",
        path: CHAT,
        request: |_| {
            let message = r#"{"role":"assistant","audio":{"id":"large"},"audio":{}}"#;
            format!(
                r#"{{"model":"gpt-5","max_completion_tokens":1000,"messages":[{message},{{"role":"user","content":"Hi."}}]}}"#
            )
        },
        serve: |arrival, _| dearest(reply::chat, arrival),
        expected: Expected::Refused(400, "`audio` appears twice"),
        ..BASE
    },
    Row {
        name: "kind-twice",
        what: "`mimeType` and `mime_type` in a part for Gemini",
        path: GEMINI,
        request: |_| {
            let data = r#"{"mime_type":"video/mp4","mimeType":"text/plain","data":"large"}"#;
            format!(
                r#"{{"generationConfig":{{"maxOutputTokens":1000}},"contents":[{{"role":"user","parts":[{{"inlineData":{data}}}]}}]}}"#
            )
        },
        serve: |arrival, _| dearest(reply::gemini, arrival),
        expected: Expected::Refused(400, "`mimeType` appears twice"),
        ..BASE
    },
    Row {
        name: "too-deep",
        what: "a document inside parts inside parts",
        request: |_| {
            let mut part = DOCUMENT.to_owned();
            for _ in 0..8 {
                part = format!(r#"{{"type":"tool_result","content":[{part}]}}"#);
            }
            user(&format!(r#""content":[{part}]"#))
        },
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "too-many",
        what: "a document behind more parts than are read",
        limit: 50,
        tries: 2,
        request: |_| user(&format!(r#""content":[{}{DOCUMENT}]"#, "1,".repeat(70_000))),
        serve: |arrival, _| honest(reply::messages, 900_000, arrival.cap()),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "input-twice",
        what: "`input` twice in OpenAI's responses",
        path: RESPONSES,
        request: |_| {
            concat!(
                r#"{"model":"gpt-5","max_output_tokens":1000,"#,
                r#""input":[{"role":"user","content":[{"type":"input_file","file_id":"large"}]}],"input":"Hi."}"#
            )
            .to_owned()
        },
        serve: |arrival, _| dearest(reply::responses, arrival),
        expected: Expected::Refused(400, "`input` appears twice"),
        ..BASE
    },
    Row {
        name: "parts-under-two-keys",
        what: "a file in the `output` of a tool's result that has `content` too",
        path: RESPONSES,
        request: |_| {
            json!({ "model": "gpt-5", "max_output_tokens": 1_000, "input": "item" })
                .to_string()
                .replace(
                    "\"item\"",
                    concat!(
                        r#"[{"type":"function_call_output","call_id":"1","#,
                        r#""output":[{"type":"input_file","file_id":"large"}],"content":""}]"#
                    ),
                )
        },
        serve: |arrival, _| dearest(reply::responses, arrival),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "responses-tool-twice",
        what: "`type` twice in a tool of OpenAI's responses",
        path: RESPONSES,
        request: |_| {
            concat!(
                r#"{"model":"gpt-5","max_output_tokens":1000,"input":"Hi.","tools":["#,
                r#"{"type":"code_interpreter","type":"function","name":"large","parameters":{}}]}"#
            )
            .to_owned()
        },
        serve: |arrival, _| dearest(reply::responses, arrival),
        expected: Expected::Refused(400, "`type` appears twice"),
        ..BASE
    },
    Row {
        name: "chat-file-twice",
        what: "`type` twice in a part of a chat",
        path: CHAT,
        request: |_| {
            let part = r#"{"type":"file","file":{"file_id":"large"},"type":"text","text":"Hi."}"#;
            format!(
                r#"{{"model":"gpt-5","max_completion_tokens":1000,"messages":[{{"role":"user","content":[{part}]}}]}}"#
            )
        },
        serve: |arrival, _| dearest(reply::chat, arrival),
        expected: Expected::Refused(400, "`type` appears twice"),
        ..BASE
    },
    Row {
        name: "parts-twice",
        what: "`parts` twice for Gemini",
        path: GEMINI,
        request: |_| {
            json!({ "generationConfig": { "maxOutputTokens": 1_000 },
                "contents": [{ "role": "user", "other": [{ "fileData": { "fileUri": "https://example.com/large" } }],
                    "parts": [{ "text": "Hi." }] }] })
            .to_string()
            .replace("\"other\"", "\"parts\"")
        },
        serve: |arrival, _| dearest(reply::gemini, arrival),
        expected: Expected::Refused(400, "`parts` appears twice"),
        ..BASE
    },
    Row {
        name: "file-in-both-spellings",
        what: "`fileData` and `file_data` in a part for Gemini",
        path: GEMINI,
        request: |_| {
            json!({ "generationConfig": { "maxOutputTokens": 1_000 },
                "contents": [{ "role": "user", "parts": [
                    { "file_data": null, "fileData": { "fileUri": "https://example.com/large" } }] }] })
            .to_string()
        },
        serve: |arrival, _| dearest(reply::gemini, arrival),
        expected: Expected::Refused(400, "`file_data` appears twice"),
        ..BASE
    },
    Row {
        name: "file-in-another-case",
        what: "`FileData` in a part for Gemini",
        path: GEMINI,
        request: |_| {
            json!({ "generationConfig": { "maxOutputTokens": 1_000 },
                "contents": [{ "role": "user", "parts": [
                    { "FileData": { "FileUri": "https://example.com/large" } }] }] })
            .to_string()
        },
        serve: |arrival, _| dearest(reply::gemini, arrival),
        expected: Expected::Refused(400, "`FileData`"),
        ..BASE
    },
    Row {
        name: "plugin-twice",
        what: "`id` twice in a plugin of a chat",
        path: CHAT,
        request: |_| {
            r#"{"model":"gpt-5","max_completion_tokens":1000,"plugins":[{"id":"file-parser","engine":"large","id":"web"}],"messages":[{"role":"user","content":"hello"}]}"#.to_owned()
        },
        serve: |arrival, _| dearest(reply::chat, arrival),
        expected: Expected::Refused(400, "`id` appears twice"),
        ..BASE
    },
];
