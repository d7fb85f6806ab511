//! Tests of what a refusal of an upstream is about.

use super::*;

#[test]
fn the_number_that_the_words_name_is_tried_and_then_halves() {
    let openai =
        "max_tokens is too large: 32000. This model supports at most 16384 completion tokens";
    assert_eq!(next_cap(openai, 32_000, 1), Some(16_384));
    let context = "This model's maximum context length is 8192 tokens. However, you requested 32100 tokens \
        (100 in the messages, 32000 in the completion)";
    assert_eq!(next_cap(context, 32_000, 1), Some(8_192));
    let again =
        "maximum context length is 8192 tokens: 100 in the messages, 8192 in the completion";
    assert_eq!(next_cap(again, 8_192, 2), Some(4_096));
    assert_eq!(next_cap("too many tokens", 32_000, 1), Some(16_000));
    assert_eq!(next_cap("messages[0].role is 100 wrong", 32_000, 1), None);
    assert_eq!(next_cap("tokens", 17, 1), None);
}

#[test]
fn a_refusal_of_a_field_is_told_from_one_of_its_size() {
    for field in [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"max_completion_tokens\"]}",
        "Unrecognized request argument supplied: max_completion_tokens",
    ] {
        assert!(names_cap_field(field), "{field}");
    }
    for other in [
        "max_tokens is too large: 32000. This model supports at most 16384 completion tokens",
        "`max_tokens` must be less than or equal to 8192, the maximum value; larger is not supported",
        "Unknown parameter: 'foo'",
    ] {
        assert!(!names_cap_field(other), "{other}");
    }
    assert!(names_usage("body.stream_options: Extra inputs are not permitted"));
    assert!(!names_usage("usage is forbidden"));
}

#[test]
fn a_refusal_names_the_choice_of_tools_in_any_spelling() {
    for words in [
        "Unsupported parameter: 'tool_choice'",
        "tool choice \"none\" is not supported",
        "Unknown name \"toolConfig\"",
        "function_calling_config.mode: invalid",
        "function_call: not permitted",
    ] {
        assert!(names_tool_choice(words), "{words}");
    }
    for words in ["tools[0] is wrong", "messages: required", ""] {
        assert!(!names_tool_choice(words), "{words}");
    }
}
