//! Tests of `report`.

use super::*;
use crate::part::Part;
use crate::warning::Warnings;

fn filled(model: &str, name: &str, report: &str) -> ModelResponse {
    let (part, warnings) = (Part::bytes("x", b"".as_slice()), Warnings::default());
    let mut reply = ModelResponse { model: Some(model.to_owned()), ..ModelResponse::default() };
    let usage: &RawValue = serde_json::from_str(report).unwrap();
    fill(Reading::of_part(&part, &warnings), &mut reply, name, Some(usage), None);
    assert!(warnings.into_list().is_empty());
    reply
}

fn tokens(report: &str) -> (TokenUsage, Cost) {
    let reply = filled("gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini", report);
    (reply.usage.unwrap(), reply.cost.unwrap())
}

#[test]
fn the_total_tells_whether_cached_tokens_are_inside_the_input() {
    let (old, old_cost) = tokens(
        r#"{"input_tokens":1568,"output_tokens":17,"total_tokens":1585,"input_tokens_cache_read":1024}"#,
    );
    assert_eq!((old.input, old.cache_read, old.output), (544, 1_024, 17));
    let (new, new_cost) = tokens(
        r#"{"input_tokens":544,"output_tokens":17,"total_tokens":1585,"input_tokens_cache_read":1024}"#,
    );
    assert_eq!(new, old);
    assert_eq!(new_cost, old_cost);
    // 544 at $0.15, 1024 at $0.075, 17 at $0.60, each for a million.
    assert_eq!(new_cost, Cost::Known("0.0001686".parse().unwrap()));
}

#[test]
fn a_model_of_no_list_costs_what_inspect_says_or_nothing_that_is_known() {
    for (report, cost) in [
        (r#"{"input_tokens":10,"output_tokens":1}"#, Cost::Unpriced),
        (
            r#"{"input_tokens":10,"output_tokens":1,"total_cost":0.25}"#,
            Cost::Known("0.25".parse().unwrap()),
        ),
    ] {
        assert_eq!(filled("gpt-4o", "vllm/gpt-4o", report).cost, Some(cost), "{report}");
    }
}

#[test]
fn providers_are_found_behind_inspects_names() {
    for (name, names) in [
        ("openai/gpt-4o", ("openai", "gpt-4o")),
        ("anthropic/bedrock/anthropic.claude-x", ("bedrock", "anthropic.claude-x")),
        ("openrouter/anthropic/claude-x", ("openrouter", "anthropic/claude-x")),
        ("grok/grok-4", ("grok", "grok-4")),
        ("gpt-4o", ("", "gpt-4o")),
    ] {
        assert_eq!(names_of(name), names);
    }
}
