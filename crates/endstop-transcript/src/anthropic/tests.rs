//! Which messages are Anthropic's, and what their blocks are.

use super::*;

/// The formats that recognize a text.
fn found(text: &str) -> Vec<&'static str> {
    let head = Head::new(text.as_bytes(), b"");
    let formats = ["anthropic-messages", "anthropic-responses", "openai-chat"];
    formats.into_iter().filter(|id| crate::format(id).unwrap().detect(&head)).collect()
}

#[test]
fn blocks_tell_the_two_providers_apart() {
    let message = |content: &str| format!("{{\"role\":\"assistant\",\"content\":{content}}}");
    let call = message("[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\",\"input\":{}}]");
    let answer = message("[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"}]");
    let thought = message("[{\"type\":\"thinking\",\"thinking\":\"x\",\"signature\":\"s\"}]");
    let response = "{\"role\":\"assistant\",\"content\":[],\"stop_reason\":\"end_turn\",\
        \"usage\":{\"input_tokens\":1,\"output_tokens\":1}}";
    let plain = message("\"tool_use\"");
    let theirs = "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\"}]}";
    for ours in [&call, &answer, &thought] {
        assert_eq!(found(&format!("[{ours}]")), ["anthropic-messages"], "{ours}");
        assert_eq!(found(&format!("{{\"messages\":[{ours}]}}")), ["anthropic-messages"], "{ours}");
        assert_eq!(found(&format!("{plain}\n{ours}\n")), ["anthropic-messages"], "{ours}");
        assert_eq!(found(&format!("[{ours},{response}]")), ["anthropic-responses"], "{ours}");
    }
    assert_eq!(found(&format!("{response}\n{response}\n")), ["anthropic-responses"]);
    let request = "{\"model\":\"m\",\"tools\":[{\"input_schema\":{}}],\"messages\":[]}";
    assert_eq!(found(request), ["anthropic-messages"]);
    assert_eq!(found(&format!("[{theirs}]")), ["openai-chat"]);
    let plain = message("\"hello\"");
    assert_eq!(found(&format!("[{plain}]")), ["openai-chat"]);
    // Some servers in the form of OpenAI name a stop reason too.
    let mixed =
        "{\"role\":\"assistant\",\"content\":\"\",\"finish_reason\":\"stop\",\"stop_reason\":null}";
    assert_eq!(found(&format!("[{mixed}]")), ["openai-chat"]);
    assert_eq!(found(&format!("[{theirs},{mixed}]")), ["openai-chat"]);
    assert_eq!(found(&format!("{{\"sessionId\":\"s\",\"messages\":[{call}]}}")), [""; 0]);
    assert_eq!(found(&format!("{{\"type\":\"user\",\"message\":{call}}}")), [""; 0]);
}

#[test]
fn a_result_with_images_stays_what_it_is() {
    let text = |json: &str| whole_text(serde_json::from_str::<&RawValue>(json).ok());
    assert_eq!(text("\"a\\nb\""), "a\nb");
    assert_eq!(
        text("[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]"),
        "a\nb"
    );
    let image =
        "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\",\"source\":{\"data\":\"x\"}}]";
    assert_eq!(text(image), image);
    assert_eq!((text("null"), text("[]")), (String::new(), String::new()));
    assert_eq!(whole_text(None), "");
}

#[test]
fn content_is_a_text_or_blocks() {
    let count = |json: &str| {
        let content = MessageContent::read(serde_json::from_str::<&RawValue>(json).ok())?;
        Ok::<_, serde_json::Error>(match content {
            MessageContent::Text(text) => usize::from(!text.is_empty()),
            MessageContent::Blocks(blocks) => blocks.len(),
        })
    };
    for (json, blocks) in
        [("null", 0), ("\"\"", 0), ("\"a\"", 1), ("[]", 0), ("[{\"type\":\"x\"}]", 1)]
    {
        assert_eq!(count(json).ok(), Some(blocks), "{json}");
    }
    assert!(count("3").is_err() && count("[3]").is_err());
}
