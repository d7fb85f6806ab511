//! A test for each kind of content.

use serde_json::{Value, json};

use super::{
    CONTENT_KINDS, ContentHold, ContentKind, ContentMark, FILE_TOKENS, IMAGE_TOKENS, ImageData,
    PartMarks, hold_in_table, hold_of,
};
use crate::{Api, MessageMark};

const FAR: &str = "https://example.com/a";

/// Some data of 4,000 bytes.
fn data() -> String {
    "A".repeat(4_000)
}

/// A name that a pattern stands for.
fn named(pattern: &str) -> String {
    pattern.replace('*', "other")
}

/// The kinds of content by the references of the APIs, each as a part or an item of a request has it.
const DOCUMENTED: &[(Api, &[&str])] = &[
    (
        Api::Chat,
        &["text", "refusal", "image_url", "input_audio", "file", "function", "custom", "video_url"],
    ),
    (
        Api::Responses,
        &[
            "additional_tools",
            "apply_patch_call",
            "apply_patch_call_output",
            "code_interpreter_call",
            "compaction",
            "compaction_trigger",
            "computer_call",
            "computer_call_output",
            "computer_screenshot",
            "custom_tool_call",
            "custom_tool_call_output",
            "file_search_call",
            "function_call",
            "function_call_output",
            "image_generation_call",
            "input_file",
            "input_image",
            "input_text",
            "item_reference",
            "local_shell_call",
            "local_shell_call_output",
            "mcp_approval_request",
            "mcp_approval_response",
            "mcp_call",
            "mcp_list_tools",
            "message",
            "output_text",
            "program",
            "program_output",
            "reasoning",
            "reasoning_text",
            "refusal",
            "shell_call",
            "shell_call_output",
            "summary_text",
            "tool_search_call",
            "tool_search_output",
            "web_search_call",
        ],
    ),
    (
        Api::Messages,
        &[
            "advisor_redacted_result",
            "advisor_result",
            "advisor_tool_result",
            "advisor_tool_result_error",
            "bash_code_execution_output",
            "bash_code_execution_result",
            "bash_code_execution_tool_result",
            "code_execution_output",
            "code_execution_result",
            "code_execution_tool_result",
            "compaction",
            "container_upload",
            "document",
            "encrypted_code_execution_result",
            "fallback",
            "image",
            "mcp_tool_result",
            "mcp_tool_use",
            "mid_conv_system",
            "redacted_thinking",
            "search_result",
            "server_tool_use",
            "text",
            "text_editor_code_execution_tool_result",
            "thinking",
            "tool_addition",
            "tool_reference",
            "tool_removal",
            "tool_result",
            "tool_search_tool_result",
            "tool_use",
            "web_fetch_tool_result",
            "web_fetch_tool_result_error",
            "web_search_result",
            "web_search_tool_result",
        ],
    ),
    (
        Api::Gemini,
        &[
            "codeExecutionResult",
            "executableCode",
            "fileData",
            "functionCall",
            "functionResponse",
            "inlineData",
            "mediaResolution",
            "partMetadata",
            "text",
            "thought",
            "thoughtSignature",
            "toolCall",
            "toolResponse",
            "videoMetadata",
        ],
    ),
];

/// A part of a kind, as small as it can be; its content is elsewhere if `is_far`.
fn sample(kind: &ContentKind, is_far: bool) -> Value {
    match (kind.mark, kind.hold) {
        (ContentMark::IdIn(key), _) => json!({ "role": "assistant", key: { "id": "audio_1" } }),
        (ContentMark::Inline(media), _) => {
            json!({ "inlineData": { "mimeType": named(media), "data": data() } })
        }
        (ContentMark::Object(key), _) => json!({ key: { "fileUri": FAR } }),
        (ContentMark::Key(key), _) => json!({ key: { "name": "a" } }),
        (ContentMark::Source(own, source), ContentHold::SourceParts) => {
            let image = json!({ "type": "image", "source": { "type": "url", "url": FAR } });
            json!({ "type": own, "source": { "type": source, "content": [image, image] } })
        }
        (ContentMark::Source(own, source), _) => {
            json!({ "type": own, "source": { "type": named(source), "data": data() } })
        }
        (ContentMark::Type(own), ContentHold::Image(ImageData::Source)) if is_far => {
            json!({ "type": own, "source": { "type": "url", "url": FAR } })
        }
        (ContentMark::Type(own), ContentHold::Image(ImageData::Source)) => {
            json!({ "type": own, "source": { "type": "base64", "data": data() } })
        }
        (ContentMark::Type(own), ContentHold::Image(_)) => {
            let inside = format!("data:image/png;base64,{}", data());
            json!({ "type": own, "image_url": if is_far { FAR } else { &*inside } })
        }
        (ContentMark::Type(own), ContentHold::Recording) => {
            json!({ "type": own, own: { "data": if is_far { FAR } else { "AAAA" } } })
        }
        (ContentMark::Type(own), _) => json!({ "type": named(own), "id": "a_1" }),
    }
}

/// The key of the messages of an API, and one with a part.
fn message_of(api: Api, part: &Value) -> (&'static str, Value) {
    let is_item = part.get("role").is_some() || api == Api::Responses;
    let message = match api {
        _ if is_item => part.clone(),
        Api::Gemini => json!({ "role": "user", "parts": [part] }),
        _ => json!({ "role": "user", "content": [part] }),
    };
    let key = match api {
        Api::Gemini => "contents",
        Api::Responses => "input",
        Api::Chat | Api::Messages => "messages",
    };
    (key, message)
}

/// The mark of a message of an API with a part.
fn read(api: Api, part: &Value) -> (MessageMark, u64) {
    let (key, message) = message_of(api, part);
    let body = json!({ "model": "m", key: [message] }).to_string();
    let request = api.dialect().read("/v1beta/models/m:generateContent", body.as_bytes()).unwrap();
    let bytes = message.to_string().len() as u64;
    (*request.messages.first().expect("one message"), bytes)
}

#[test]
fn each_kind_of_content_is_held_as_its_row_says() {
    for kind in CONTENT_KINDS {
        for api in kind.apis {
            let (near, near_bytes) = read(*api, &sample(kind, false));
            let (far, far_bytes) = read(*api, &sample(kind, true));
            let what = format!("{kind:?} {api:?} {near:?} {far:?}");
            let is_kept = matches!(kind.hold, ContentHold::KeptOutput | ContentHold::KeptSpeech);
            assert_eq!(near.names_output, is_kept, "{what}");
            let media = near.has_media;
            assert_eq!(media, kind.hold.is_media() || kind.hold == ContentHold::SourceParts);
            match kind.hold {
                ContentHold::Parts
                | ContentHold::Bytes
                | ContentHold::RecordingBytes
                | ContentHold::KeptOutput
                | ContentHold::KeptSpeech => {
                    assert_eq!((near.bound, near.is_open), (near_bytes, false), "{what}");
                }
                ContentHold::SourceParts => {
                    assert_eq!(near.bound, near_bytes + 2 * IMAGE_TOKENS, "{what}");
                }
                ContentHold::MadeImage => {
                    let expected = (near_bytes + IMAGE_TOKENS, false);
                    assert_eq!((near.bound, near.is_open), expected, "{what}");
                }
                ContentHold::Image(_) => {
                    assert!((IMAGE_TOKENS..IMAGE_TOKENS + 200).contains(&near.bound), "{what}");
                    assert_eq!((near.is_open, near.elsewhere), (false, 0), "{what}");
                    let is_inline = kind.hold == ContentHold::Image(ImageData::Inline);
                    let elsewhere = if is_inline { 0 } else { IMAGE_TOKENS };
                    assert_eq!((far.is_open, far.elsewhere), (false, elsewhere), "{what}");
                }
                ContentHold::Recording => {
                    let inside = (near_bytes + IMAGE_TOKENS, false);
                    assert_eq!((near.bound, near.is_open), inside, "{what}");
                    assert_eq!((far.bound, far.is_open), (far_bytes + FILE_TOKENS, true), "{what}");
                }
                ContentHold::Window | ContentHold::KeptItem => {
                    assert_eq!((near.bound, near.is_open), (near_bytes + FILE_TOKENS, true));
                }
            }
        }
    }
}

#[test]
fn what_is_inside_a_kind_of_content_is_held_too() {
    let image = json!([{ "type": "image", "source": { "type": "url", "url": FAR } }]);
    let is_container = |kind: &&ContentKind| kind.hold == ContentHold::Parts;
    for kind in CONTENT_KINDS.iter().filter(is_container) {
        let ContentMark::Type(own) = kind.mark else { continue };
        for key in ["content", "output"] {
            let part = json!({ "type": named(own), key: image });
            for api in kind.apis {
                let (mark, bytes) = read(*api, &part);
                assert_eq!(mark.bound, bytes + IMAGE_TOKENS, "{part} {api:?}");
            }
        }
    }
    let result = json!({ "functionResponse": { "name": "a", "parts": [{ "fileData": {} }] } });
    assert!(read(Api::Gemini, &result).0.is_open);
}

#[test]
fn all_that_is_inside_is_held_where_several_keys_have_parts() {
    let file = json!([{ "type": "input_file", "file_id": "file_1" }]);
    for keys in [["output", "content"], ["content", "output"], ["parts", "output"]] {
        let [first, second] = keys;
        for (first_value, second_value) in [(&file, &json!("")), (&json!(""), &file)] {
            let item = format!(
                r#"{{"type":"function_call_output","call_id":"1","{first}":{first_value},"{second}":{second_value}}}"#
            );
            let body = format!(r#"{{"model":"m","input":[{item}]}}"#);
            let request = Api::Responses.dialect().read("/v1/responses", body.as_bytes()).unwrap();
            assert!(request.messages.iter().all(|mark| mark.is_open), "{item}");
        }
    }
}

#[test]
fn an_item_that_is_only_named_has_an_unknown_size_beside_a_response_that_is_known() {
    for item in [json!({ "type": "item_reference", "id": "msg_1" }), json!({ "id": "msg_1" })] {
        let body = json!({ "model": "m", "previous_response_id": "resp_1", "input": [item] });
        let body = body.to_string();
        let request = Api::Responses.dialect().read("/v1/responses", body.as_bytes()).unwrap();
        assert!(request.messages.iter().all(|mark| mark.is_open), "{body}");
    }
}

#[test]
fn every_documented_kind_of_content_has_a_row() {
    for (api, names) in DOCUMENTED {
        for name in *names {
            let is_it = |kind: &&ContentKind| {
                kind.apis.contains(api)
                    && match kind.mark {
                        ContentMark::Type(pattern) => super::matches(pattern, name),
                        ContentMark::Source(own, _) => own == *name,
                        ContentMark::Inline(_) => *name == "inlineData",
                        ContentMark::Object(key) | ContentMark::Key(key) => key == *name,
                        ContentMark::IdIn(_) => false,
                    }
            };
            assert!(CONTENT_KINDS.iter().any(|kind| is_it(&kind)), "{api:?} {name}");
        }
    }
}

#[test]
fn a_row_that_an_earlier_one_hides_has_the_same_hold() {
    for (at, kind) in CONTENT_KINDS.iter().enumerate() {
        let ContentMark::Type(own) = kind.mark else { continue };
        let first = CONTENT_KINDS.iter().take(at).find(|earlier| match earlier.mark {
            ContentMark::Type(pattern) => super::matches(pattern, own),
            _ => false,
        });
        assert!(first.is_none_or(|first| first.hold == kind.hold), "{kind:?} is hidden");
    }
}

/// The refusal of a part by a request of an API.
fn refused(api: Api, part: &Value) -> Vec<String> {
    let (key, message) = message_of(api, part);
    let body = json!({ "model": "m", key: [message] }).to_string();
    api.dialect().read("/v1beta/models/m:generateContent", body.as_bytes()).unwrap().unbounded
}

#[test]
fn content_of_an_unknown_kind_is_refused_by_its_name_and_held_as_its_bytes() {
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        let part = json!({ "type": "hologram", "depth": data() });
        let (mark, bytes) = read(api, &part);
        assert_eq!((mark.bound, mark.is_open, mark.has_media), (bytes, false, false), "{api:?}");
        assert_eq!(refused(api, &part), ["hologram"], "{api:?}");
        let inside = json!({ "type": "tool_result", "content": [part, { "type": 3 }] });
        assert_eq!(refused(api, &inside), ["hologram", "3"], "{api:?}");
        let of_model = json!({ "type": "tool_use", "input": { "content": [part], "type": "x" } });
        assert!(refused(api, &of_model).is_empty(), "arguments are no content");
    }
    let body = json!({ "model": "m", "messages": [], "system": [{ "type": "hologram" }],
        "thinking": { "type": "enabled" }, "tool_choice": { "type": "auto" } });
    let request =
        Api::Messages.dialect().read("/v1/messages", body.to_string().as_bytes()).unwrap();
    assert_eq!(request.unbounded, ["hologram"]);
    let escaped = r#"{"messages":[{"role":"user","content":[{"t\u0079pe":"hologr\u0061m"}]}]}"#;
    let request = Api::Chat.dialect().read("/v1/chat/completions", escaped.as_bytes()).unwrap();
    assert_eq!(request.unbounded, ["hologram"]);
}

#[test]
fn a_part_of_gemini_is_refused_by_a_key_that_no_row_has() {
    assert_eq!(refused(Api::Gemini, &json!({ "text": "a", "hologram": {} })), ["hologram"]);
    let result = json!({ "functionResponse": { "name": "a", "response": { "x": 1 }, "parts": [{ "odd": {} }] } });
    assert_eq!(refused(Api::Gemini, &result), ["odd"]);
    for part in [
        json!({ "inline_data": { "mime_type": "text/plain" } }),
        json!({ "thought_signature": "a" }),
    ] {
        assert!(refused(Api::Gemini, &part).is_empty(), "{part}");
    }
}

#[test]
fn no_documented_kind_of_content_is_refused() {
    for (api, names) in DOCUMENTED {
        for name in *names {
            let part =
                if *api == Api::Gemini { json!({ *name: {} }) } else { json!({ "type": name }) };
            assert!(refused(*api, &part).is_empty(), "{api:?} {name}");
        }
    }
    for kind in CONTENT_KINDS {
        for api in kind.apis {
            assert!(refused(*api, &sample(kind, false)).is_empty(), "{kind:?}");
        }
    }
}

#[test]
fn a_hold_that_is_looked_up_is_the_one_of_the_table() {
    for kind in CONTENT_KINDS {
        let (ContentMark::Type(name) | ContentMark::Source(name, _)) = kind.mark else { continue };
        for source in [None, Some("text"), Some("content"), Some("url")] {
            for inline in [None, Some("image/png"), Some("")] {
                for has_file in [false, true] {
                    let name = named(name);
                    let part = PartMarks { kind: Some(&name), source, inline, has_file };
                    assert_eq!(hold_of(&part), hold_in_table(&part), "{part:?}");
                }
            }
        }
    }
}
