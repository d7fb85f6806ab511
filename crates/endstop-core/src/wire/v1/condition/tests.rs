//! Tests of `condition`.

use super::*;

#[test]
fn the_tree_reads_back_as_an_equal_condition() {
    for text in [
        "steps >= 25 or cost >= $2.00 or max_tokens(50k)",
        "not (called(\"a\") and said(\"x\", from=\"b\"))",
        "streak(no_tool_calls) >= 3 or count(errored, 5m) >= 2 or count(errored) > 1",
        "ever(matches(/a\\/b/)) or called(\"a\") within 10 steps",
        "(called(\"a\") then called(\"b\") then errored) or now >= \"2026-11-30T12:00:00Z\"",
        "tool_calls(\"x\") >= 3 and own.steps < 5",
    ] {
        let condition = parse(text).unwrap();
        let json = serde_json::to_string(&condition).unwrap();
        assert_eq!(serde_json::from_str::<Condition>(&json).unwrap(), condition, "{json}");
        let quoted = serde_json::to_string(text).unwrap();
        assert_eq!(serde_json::from_str::<Condition>(&quoted).unwrap(), condition);
    }
}

#[test]
fn the_json_is_stable() {
    let condition = parse("max_steps(25) | cost >= 2.00usd").unwrap();
    assert_eq!(
        serde_json::to_string(&condition).unwrap(),
        r#"{"or":[{"named":"max_steps(25)"},{"gauge":"cost","op":">=","value":"$2.00"}]}"#
    );
    assert!(
        serde_json::from_str::<Condition>(r#"{"gauge":"cost","op":">=","value":"5"}"#).is_err()
    );
}
