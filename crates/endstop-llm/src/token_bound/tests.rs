//! Tests of digests and bounds of messages.

use serde_json::{Value, json};

use super::{MAX_PART_DEPTH, MEDIA_WORDS, TokenBound, Weight, may_have_media};
use crate::content_kinds::{FILE_TOKENS, IMAGE_TOKENS};
use crate::json::Raw;

fn weigh(value: Raw<'_>) -> Weight {
    TokenBound::of_model("m").weigh(value, None, false).unwrap()
}

fn bound(value: Raw<'_>) -> u64 {
    weigh(value).tokens
}

fn digest(json: &str) -> u64 {
    TokenBound::of_model("m").mark(Raw::of(json), false).unwrap().digest
}

#[test]
fn marks_for_caches_change_no_digest() {
    let plain = digest(r#"{"role":"user","content":"hi"}"#);
    for same in [
        r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}"#,
        r#"{"role":"user","content":"hi","cache_control":{"type":"ephemeral"}}"#,
        r#"{"cache_control":{"type":"ephemeral"},"role":"user","content":"hi"}"#,
    ] {
        assert_eq!(digest(same), plain, "{same}");
    }
    let result = |mark: &str, inner: &str| {
        let text = format!(
            r#"{{"role":"user","content":[{{"type":"tool_result", "tool_use_id":"1", "content":[{{{inner}"type":"text","text":"r"}}]{mark}}}]}}"#
        );
        digest(&text)
    };
    let mark = r#", "cache_control": {"type": "ephemeral", "ttl": "1h"}"#;
    let first = r#""cache_control":{}, "#;
    assert_eq!(result(mark, ""), result("", ""));
    assert_eq!(result("", first), result("", ""));
    assert_eq!(result(mark, first), result("", ""));
}

#[test]
fn everything_else_changes_the_digest() {
    let texts = [
        r#"{"role":"user","content":"hi"}"#,
        r#"{"role":"assistant","content":"hi"}"#,
        r#"{"role":"user","content":"ho"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"hi","more":1}]}"#,
        r#"{"role":"user","content":[{"type":"other","text":"hi"}]}"#,
        r#"{"role":"user","content":null}"#,
        r#"{"role":"user"}"#,
        r#"{"role":"user","content":"cache_control"}"#,
        "3",
        "\"hi\"",
    ];
    let mut digests: Vec<u64> = texts.iter().map(|text| digest(text)).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), texts.len());
}

#[test]
fn a_message_is_at_most_its_bytes() {
    let text = r#"{"role":"user","content":"the image of a file"}"#;
    assert_eq!(bound(Raw::of(text)), text.len() as u64);
}

#[test]
fn an_image_is_at_most_what_images_cost() {
    let data = "A".repeat(1_000_000);
    let url = format!("data:image/png;base64,{data}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    for message in [
        json!({"content": [{"type": "image_url", "image_url": {"url": url}}]}),
        json!({"content": [{"type": "input_image", "image_url": url}]}),
        json!({"content": [{"type": "image", "source": source}]}),
        json!({"content": [{"type": "tool_result", "content": [{"type": "image", "source": source}]}]}),
        json!({"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": url}}),
        json!({"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}),
        json!({"parts": [{"inline_data": {"mime_type": "image/png", "data": data}}]}),
        json!({"content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}),
    ] {
        let got = bound(Raw::of(&message.to_string()));
        assert!((IMAGE_TOKENS..IMAGE_TOKENS + 300).contains(&got), "{got}");
    }
}

#[test]
fn a_word_for_media_is_found_wherever_it_is() {
    for word in MEDIA_WORDS.into_iter().chain(["\\u"]) {
        for before in 0..80 {
            let (before, after) = ("i_".repeat(before), "f".repeat(80 - before));
            assert!(may_have_media(&format!("{before}{word}{after}")), "{before} {word}");
            assert!(may_have_media(&format!("{before}{word}")), "{before} {word}");
            let mut cut = word.to_owned();
            cut.pop();
            assert!(!may_have_media(&format!("{before}{cut}{after}")), "{before} {cut}");
        }
    }
}

#[test]
fn long_text_is_never_taken_for_an_image() {
    let data = "A".repeat(100_000);
    for message in [
        json!({"content": [{"type": "text", "text": format!("image_url data:image/png;base64,{data}")}]}),
        json!({"content": [{"type": "image", "text": data}]}),
        json!({"content": [{"type": "image_url", "image_url": {"url": ["data:", data]}}]}),
        json!({"parts": [{"inlineData": {"mimeType": "text/plain", "data": data}}]}),
        json!({"content": [{"type": "image", "source": {"data": [data]}}]}),
    ] {
        assert!(bound(Raw::of(&message.to_string())) > 100_000);
    }
}

#[test]
fn a_file_counts_as_a_window_that_is_only_named_or_has_pages() {
    for message in [
        json!({"content": [{"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}]}),
        json!({"content": [{"type": "input_file", "file_id": "file-1"}]}),
        json!({"content": [{"type": "file", "file": {"file_id": "file-1"}}]}),
        json!({"content": [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}]}),
        json!({"content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}]}),
        json!({"parts": [{"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}]}),
        json!({"parts": [{"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}, "videoMetadata": {"fps": 24}}]}),
        json!({"parts": [{"fileData": {"fileUri": "https://example.com/a.mp4"}}]}),
    ] {
        let got = weigh(Raw::of(&message.to_string()));
        assert!((FILE_TOKENS..FILE_TOKENS + 300).contains(&got.tokens), "{message}");
        assert!(got.is_open, "{message}");
    }
}

#[test]
fn what_is_elsewhere_is_told_from_what_is_inside() {
    let part = |kind: &str, media: Value| json!({"content": [{"type": kind, kind: media}]});
    let far = "https://example.com/a.mp4";
    for open in [
        part("video_url", json!({"url": far})),
        part("video_url", json!({"url": "https:\\/\\/example.com"})),
        part("audio_url", json!(far)),
        part("document_url", json!(far)),
        part("video", json!([far, far])),
        part("input_audio", json!({"data": far, "format": "wav"})),
        part("file", json!({"file_data": far})),
        // How long a video is, and how many pages a document has, its bytes do not tell.
        part("video_url", json!({"url": "data:video/mp4;base64,AAAA"})),
        part("file", json!({"file_data": "data:application/pdf;base64,AAAA"})),
        json!({"content": [{"type": "input_file", "file_url": far}]}),
    ] {
        assert!(weigh(Raw::of(&open.to_string())).is_open, "{open}");
    }
    for known in [
        part("audio_url", json!({"url": "data:audio/wav;base64,AAAA"})),
        part("input_audio", json!({"data": "UklGRiQAAABXQVZF", "format": "wav"})),
        part("image_url", json!({"url": far})),
        json!({"content": [{"type": "text", "text": "the video_url is https://example.com"}]}),
        json!({"content": "an audio file"}),
    ] {
        assert!(!weigh(Raw::of(&known.to_string())).is_open, "{known}");
    }
}

#[test]
fn what_is_too_deep_or_too_much_to_be_read_has_an_unknown_size() {
    let image = r#"{"type":"document","source":{"type":"url"}}"#;
    let many = format!(r#"{{"content":[{}{image}]}}"#, "1,".repeat(crate::limits::MAX_ITEMS));
    let mut deep = image.to_owned();
    for _ in 0..MAX_PART_DEPTH {
        deep = format!(r#"{{"content":{deep}}}"#);
    }
    let members: Vec<String> =
        (0..=crate::limits::MAX_ITEMS).map(|at| format!(r#""{at}":1"#)).collect();
    let wide = format!(r#"{{"content":{{{},"content":{image}}}}}"#, members.join(","));
    for message in [many, deep, wide] {
        assert!(weigh(Raw::of(&message)).is_open, "{} bytes", message.len());
    }
    let text = format!(r#"{{"content":[{}"image"]}}"#, "1,".repeat(1_000));
    assert!(!weigh(Raw::of(&text)).is_open);
}

#[test]
fn depth_is_no_danger() {
    let deep = format!("{}\"image cache_control\"{}", "[".repeat(50_000), "]".repeat(50_000));
    let text = format!(r#"{{"content":[{{"content":{deep},"cache_control":1}}]}}"#);
    assert_eq!(bound(Raw::of(&text)), text.len() as u64 + FILE_TOKENS);
    assert_ne!(digest(&text), 0);
}

#[test]
fn only_an_image_inside_an_address_is_not_counted_by_its_bytes() {
    let data = "A".repeat(100_000);
    let with = |url: &str| {
        let part = json!([{"type": "image_url", "image_url": {"url": format!("{url}{data}")}}]);
        bound(Raw::of(&part.to_string()))
    };
    for image in ["data:image/png;base64,", "DATA:Image/jpeg;base64,", "https://a/"] {
        assert!(with(image) < IMAGE_TOKENS + 100_200, "{image}");
    }
    assert!(with("data:image/png;base64,") < IMAGE_TOKENS + 200);
    for document in ["data:application/pdf;base64,", "data:text/plain,", "data:,", ""] {
        assert!(with(document) >= IMAGE_TOKENS + 100_000, "{document}");
    }
}

#[test]
fn images_inside_a_document_count_as_images() {
    let image =
        json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}});
    let document = json!({"content": [{"type": "document", "source": {"type": "content", "content": vec![image; 100]}}]});
    let got = weigh(Raw::of(&document.to_string()));
    assert!(got.tokens > 100 * IMAGE_TOKENS && !got.is_open);
}

#[test]
fn images_of_a_model_that_charges_more_for_them_count_more() {
    let message = r#"{"content":[{"type":"image_url","image_url":{"url":"https://a/b.png"}}]}"#;
    let of = |model: &str| {
        TokenBound::of_model(model).mark(Raw::of(message), true).unwrap().bound
            - message.len() as u64
    };
    assert_eq!(of("openai/gpt-4o-mini-2024-07-18"), 48_169);
    assert_eq!(of("gpt-4o"), IMAGE_TOKENS);
}

#[test]
fn what_two_readers_could_read_in_two_ways_is_refused() {
    for message in [
        r#"{"role":"user","content":"a","content":[{"type":"image_url"}]}"#,
        r#"{"role":"user","content":"a","Content":"b"}"#,
        r#"{"role":"user","content":[{"type":"text","Type":"document"}]}"#,
        r#"{"role":"user","content":[{"type":"document","source":{"type":"text"},"source":{"type":"url"}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","SOURCE":{}}]}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","type":"text"}]}]}"#,
        r#"{"role":"user","content":[{"type":"document","source":{"type":"url","type":"text"}}]}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,","URL":"data:image/png;base64,A"}}]}"#,
        r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"A","data":"https://a/b"}}]}"#,
        r#"{"role":"user","parts":[{"inlineData":{"mime_type":"video/mp4","mimeType":"text/plain"}}]}"#,
        r#"{"role":"assistant","audio":{"id":"audio_1"},"audio":{}}"#,
        r#"{"role":"assistant","audio":{"id":"audio_1","id":null}}"#,
    ] {
        let marked = TokenBound::of_model("m").mark(Raw::of(message), true);
        assert!(marked.is_err(), "{message}");
    }
    // Content that the client's own tools read is its own.
    let own = r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{"Type":1,"type":2}}]}"#;
    assert!(TokenBound::of_model("m").mark(Raw::of(own), true).is_ok());
}

#[test]
fn output_that_the_upstream_keeps_is_told() {
    let names = |message: &str| {
        TokenBound::of_model("m").mark(Raw::of(message), false).unwrap().names_output
    };
    assert!(names(r#"{"type":"reasoning","id":"rs_1","summary":[]}"#));
    assert!(names(r#"{"role":"assistant","audio":{"id":"audio_1"}}"#));
    assert!(!names(r#"{"type":"reasoning","id":"rs_1","encrypted_content":"gAAAA"}"#));
    assert!(!names(r#"{"role":"assistant","content":"a"}"#));
}
