//! `endstop price` as a user calls it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn price(arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_endstop"))
        .arg("price")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A child that reads nothing may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code())
}

#[test]
fn a_call_is_priced_from_counts() {
    let arguments =
        ["gpt-5", "--batch", "--input=12000", "--cached=40000", "--output=800", "--at=2026-11-01"];
    let (out, error, code) = price(&arguments, "");
    assert_eq!((error.as_str(), code), ("", Some(0)));
    assert_eq!(
        out,
        "\
model   openai/gpt-5
prices  genai-prices 0.2.3, at 2026-11-01T00:00:00Z
kind    processing batch

class               count                 rate   amount
input_tokens       12,000   $0.625 / 1,000,000  $0.0075
cache_read_tokens  40,000  $0.0625 / 1,000,000  $0.0025
output_tokens         800       $5 / 1,000,000   $0.004

input   $0.01
output  $0.004
total   $0.014  (unrounded $0.014)
"
    );
}

#[test]
fn a_response_names_its_model_tier_and_bill() {
    let body = r#"{"model":"gpt-5","service_tier":"priority",
        "usage":{"prompt_tokens":1000,"completion_tokens":500,"cost":0.0125}}"#;
    let (out, _, code) = price(&["--usage=-", "--at=2026-11-01T12:00:00Z", "--json"], body);
    assert_eq!(code, Some(0));
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["total_usd"], "0.0125");
    assert_eq!(answer["billed_usd"], "0.0125");
    assert_eq!(answer["context"]["service_tier"], "priority");
    assert_eq!(answer["lines"][0]["rate_usd"], "2.5");
}

#[test]
fn a_usage_object_needs_the_model_only() {
    let usage = r#"{"input_tokens":3,"cache_read_input_tokens":17842,"cache_creation_input_tokens":8037,
        "cache_creation":{"ephemeral_5m_input_tokens":2000,"ephemeral_1h_input_tokens":6037},
        "output_tokens":412}"#;
    let (out, _, code) = price(&["claude-sonnet-4-5", "--usage=-", "--at=2026-02-11"], usage);
    assert_eq!(code, Some(0));
    assert!(out.contains("total   $0.0552636  (unrounded $0.0552636)"), "{out}");
}

#[test]
fn an_unknown_model_is_an_error_and_not_free() {
    let (out, error, code) = price(&["claude-sonet-4-5", "--input=5"], "");
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(error.starts_with("error: no price for model `claude-sonet-4-5`\nhint: "));
    assert!(error.contains("`anthropic/claude-sonnet-4-5`"), "{error}");
}

#[test]
fn input_that_cannot_be_read_says_why() {
    for (arguments, input, message) in [
        (
            &["x", "--usage=-"][..],
            "{\"a\":",
            "error: `-`: EOF while parsing a value at line 1 column 5\n",
        ),
        (&["x", "--usage=-"], "{}", "error: not a usage report of a known shape\n"),
        (&["--usage=-"], "{\"prompt_tokens\":1}", "error: `completion_tokens` is missing\n"),
        (&[], "", "error: missing model\n"),
        (&["gpt-5", "--prices=-"], "[]", "error: `-`: the price file names no model\n"),
        (
            &["gpt-5", "--usage=-"],
            "{\"prompt_tokens\":1,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":2}}",
            "error: the parts of `input_tokens` are 2, more than its 1\n",
        ),
    ] {
        let (out, error, code) = price(arguments, input);
        assert_eq!((out.as_str(), code), ("", Some(2)), "{arguments:?}");
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn prices_of_a_file_win() {
    let table = r#"{"version":"ours 1","providers":[{"id":"ours","models":[
        {"id":"m","match":{"equals":"m"},"prices":{"input_mtok":"0.1","output_mtok":0.2}}]}]}"#;
    let (out, error, code) = price(&["ours/m", "--prices=-", "--input=10", "--output=10"], table);
    assert_eq!((error.as_str(), code), ("", Some(0)));
    assert!(out.contains("prices  ours 1, at "), "{out}");
    assert!(out.contains("total   $0.000003  "), "{out}");
}
