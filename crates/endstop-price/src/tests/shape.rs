//! Reading usage reports.

use endstop_core::units::{Money, TokenUsage};
use serde_json::{Value, json};

use crate::*;

#[test]
fn each_shape_is_told_and_read() {
    let tokens = |input, cache_read, cache_write, cache_write_1h, output| TokenUsage {
        input,
        cache_read,
        cache_write,
        cache_write_1h,
        output,
    };
    for (usage, shape, expected) in [
        (
            json!({"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10}}),
            UsageShape::OpenAiChat,
            tokens(30, 60, 10, 0, 9),
        ),
        (
            json!({"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":null,"cache_read_input_tokens":60,"cache_creation_input_tokens":10}),
            UsageShape::OpenAiChat,
            tokens(30, 60, 10, 0, 9),
        ),
        (
            json!({"input_tokens":100,"output_tokens":9,"input_tokens_details":{"cached_tokens":60}}),
            UsageShape::OpenAiResponses,
            tokens(40, 60, 0, 0, 9),
        ),
        (
            json!({"input_tokens":100,"cached_input_tokens":60,"output_tokens":9,"reasoning_output_tokens":4,"total_tokens":109}),
            UsageShape::OpenAiResponses,
            tokens(40, 60, 0, 0, 9),
        ),
        (
            json!({"input_tokens":3,"cache_read_input_tokens":60,"cache_creation_input_tokens":10,"output_tokens":9}),
            UsageShape::Anthropic,
            tokens(3, 60, 10, 0, 9),
        ),
        (json!({"input_tokens":3,"output_tokens":9}), UsageShape::Anthropic, tokens(3, 0, 0, 0, 9)),
        (
            json!({"promptTokenCount":100,"toolUsePromptTokenCount":5,"cachedContentTokenCount":60,"candidatesTokenCount":9,"thoughtsTokenCount":20}),
            UsageShape::Gemini,
            tokens(45, 60, 0, 0, 29),
        ),
        (
            json!({"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":60,"cacheWriteInputTokens":10}),
            UsageShape::Bedrock,
            tokens(3, 60, 10, 0, 9),
        ),
        (
            json!({"gen_ai.usage.input_tokens":100,"gen_ai.usage.output_tokens":9,"gen_ai.usage.cache_read.input_tokens":60,"gen_ai.usage.cache_creation.input_tokens":10}),
            UsageShape::Otel,
            tokens(30, 60, 10, 0, 9),
        ),
        (
            json!({"gen_ai.usage.prompt_tokens":100,"gen_ai.usage.completion_tokens":9}),
            UsageShape::Otel,
            tokens(100, 0, 0, 0, 9),
        ),
    ] {
        assert_eq!(detect_shape(&usage), Some(shape), "{usage}");
        let counts = read_usage(shape, &usage).unwrap();
        assert_eq!(counts.token_usage(), expected, "{usage}");
        assert!(!counts.was_exclusive());
    }
}

#[test]
fn of_several_interfaces_the_one_that_recognizes_most_is_taken() {
    let claude = json!({"model": "claude-sonnet-4-5", "usage":
        {"input_tokens": 3, "cache_read_input_tokens": 60, "output_tokens": 9}});
    let gpt = json!({"model": "gpt-5", "usage":
        {"input_tokens": 63, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 9}});
    for body in [claude, gpt] {
        for provider in [Some("azure"), None] {
            let tokens = read_response(provider, None, &body).unwrap().1.token_usage();
            assert_eq!((tokens.input, tokens.cache_read, tokens.output), (3, 60, 9), "{body}");
        }
    }
    let error = |provider, flavor| {
        read_response(Some(provider), flavor, &json!({})).unwrap_err().to_string()
    };
    assert_eq!(error("nobody", None), "unknown provider `nobody`");
    assert_eq!(error("openai", None), "`usage` is missing");
    assert!(error("anthropic", Some("x")).ends_with("flavor `x`; known are default, chat"));
}

#[test]
fn otel_input_without_its_cached_tokens_is_noticed() {
    let usage = json!({"gen_ai.usage.input_tokens":3,"gen_ai.usage.output_tokens":9,"gen_ai.usage.cache_read.input_tokens":60});
    let counts = read_usage(UsageShape::Otel, &usage).unwrap();
    assert!(counts.was_exclusive());
    let tokens = counts.token_usage();
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (3, 60, 9));
}

#[test]
fn bad_usage_is_an_error_that_names_the_field() {
    for (usage, message) in [
        (json!({"prompt_tokens":1}), "`completion_tokens` is missing"),
        (json!({"prompt_tokens":-1,"completion_tokens":1}), "`prompt_tokens` is not a count: `-1`"),
        (
            json!({"prompt_tokens":1.5,"completion_tokens":1}),
            "`prompt_tokens` is not a count: `1.5`",
        ),
        (
            json!({"prompt_tokens":1e300,"completion_tokens":1}),
            "`prompt_tokens` is not a count: `1e+300`",
        ),
        (
            json!({"prompt_tokens":u64::MAX,"completion_tokens":1}),
            "`prompt_tokens` is not a count: `18446744073709551615`",
        ),
        (json!({"prompt_tokens":"1","completion_tokens":1}), "`prompt_tokens` is not a number"),
        (
            json!({"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":[]}}),
            "`prompt_tokens_details.cached_tokens` is not a number",
        ),
        (json!([]), "`prompt_tokens` is missing"),
    ] {
        let error = read_usage(UsageShape::OpenAiChat, &usage).unwrap_err();
        assert_eq!(error.to_string(), message, "{usage}");
    }
    for usage in [json!(null), json!({}), json!({"tokens": 1}), json!("x")] {
        assert_eq!(detect_shape(&usage), None);
    }
}

#[test]
fn the_billed_amount_is_read_exactly() {
    let billed = |text: &str| {
        let usage = serde_json::from_str(&format!(r#"{{"cost":{text}}}"#)).unwrap();
        billed_cost(&usage).map(Money::picos)
    };
    assert_eq!(billed("0.0052318"), Some(5_231_800_000));
    assert_eq!(billed("1e-05"), Some(10_000_000));
    assert_eq!(billed("0.0000000000001"), Some(1));
    assert_eq!(billed("0"), Some(0));
    assert_eq!(billed("9000000"), Some(9_000_000_000_000_000_000));
    for none in ["9000001", "-1", "null", "\"1\"", "true", "1e300"] {
        assert_eq!(billed(none), None, "{none}");
    }
    assert_eq!(billed_cost(&json!({})), None);
}

#[test]
fn a_call_by_a_key_of_the_callers_own_is_billed_by_the_vendor_too() {
    let billed = |is_byok: Value, upstream: Value| {
        let usage = json!({"cost": 0.001, "is_byok": is_byok,
            "cost_details": {"upstream_inference_cost": upstream}});
        billed_cost(&usage).map(Money::picos)
    };
    assert_eq!(billed(json!(true), json!(0.02)), Some(21_000_000_000));
    assert_eq!(billed(Value::Null, json!(0.02)), Some(21_000_000_000));
    // There it is a part of what is billed.
    assert_eq!(billed(json!(false), json!(0.02)), Some(1_000_000_000));
    assert_eq!(billed(Value::Null, Value::Null), Some(1_000_000_000));
    // The fee alone says nothing of the whole.
    assert_eq!(billed(json!(true), Value::Null), None);
}

#[test]
fn a_response_tells_its_kind() {
    let context = context_of(&json!({"service_tier":"priority","usage":{"prompt_tokens":1}}));
    assert_eq!(context.service_tier.as_deref(), Some("priority"));
    let context = context_of(&json!({"usage":{"service_tier":"batch","speed":"fast"}}));
    assert_eq!(context.processing.as_deref(), Some("batch"));
    assert_eq!(context.speed.as_deref(), Some("fast"));
}
