//! Arguments against schemas: what fits, and what a model reads where it does not. `argument_schemas` of `endstop-cli` compares
//! them with a whole validator.

use std::time::{Duration, Instant};

use endstop::tool::{
    ArgumentSchema, MAX_ARGUMENTS_BYTES, MAX_ARGUMENTS_DEPTH, MAX_PROBLEM_BYTES, MAX_PROBLEMS,
    MAX_SCHEMA_BYTES, SchemaError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn schema() -> ArgumentSchema {
    ArgumentSchema::new(&json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z/]+$" },
            "count": { "type": "integer", "minimum": 1, "maximum": 9 },
            "mode": { "type": "string", "enum": ["fast", "slow"] },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 2 },
            "limit": { "type": ["number", "null"] },
            "sort/by~": { "type": "boolean" },
        },
        "required": ["path"],
        "additionalProperties": false,
    }))
    .unwrap()
}

fn told(arguments: &str) -> String {
    schema().check(arguments).unwrap_err().to_string()
}

#[test]
fn what_fits_is_returned_as_a_value() {
    let arguments = r#"{"path": "src", "count": 3.0, "limit": null, "tags": ["a"]}"#;
    let value = schema().check(arguments).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(arguments).unwrap());
}

#[test]
fn no_text_is_an_object_without_fields() {
    let open = ArgumentSchema::new(&json!({ "type": "object" })).unwrap();
    for text in ["", "  \n", "{}"] {
        assert_eq!(open.check(text).unwrap(), json!({}), "{text:?}");
    }
    assert_eq!(told(""), "/path: missing, expected a string");
}

#[test]
fn a_problem_names_place_expectation_and_finding() {
    for (arguments, text) in [
        (r#"{"path": 3}"#, "/path: expected a string, found the number 3"),
        (
            r#"{"path": ""}"#,
            "/path: expected at least 1 character, found the string \"\"\n\
             /path: expected a string that matches /^[a-z/]+$/, found the string \"\"",
        ),
        (
            r#"{"path": "A"}"#,
            "/path: expected a string that matches /^[a-z/]+$/, found the string \"A\"",
        ),
        (
            r#"{"path": "abcdefghi"}"#,
            "/path: expected at most 8 characters, found the string \"abcdefghi\"",
        ),
        (r#"{"path": "a", "count": 0}"#, "/count: expected at least 1, found the number 0"),
        (r#"{"path": "a", "count": 10}"#, "/count: expected at most 9, found the number 10"),
        (r#"{"path": "a", "count": 1.5}"#, "/count: expected an integer, found the number 1.5"),
        (
            r#"{"path": "a", "mode": "quick"}"#,
            "/mode: expected one of \"fast\", \"slow\", found the string \"quick\"",
        ),
        (
            r#"{"path": "a", "tags": ["a", {"b": 1}]}"#,
            "/tags/1: expected a string, found an object with the field `b`",
        ),
        (
            r#"{"path": "a", "tags": ["a", "b", "c"]}"#,
            "/tags: expected at most 2 items, found an array of length 3",
        ),
        (
            r#"{"path": "a", "sort/by~": "no"}"#,
            "/sort~1by~0: expected a boolean, found the string \"no\"",
        ),
        (
            r#"{"path": "a", "cuont": 1}"#,
            "the arguments: unknown field `cuont`; `count` may be meant",
        ),
    ] {
        assert_eq!(told(arguments), text, "{arguments}");
    }
    let limit = told(r#"{"path": "a", "limit": []}"#);
    assert!(
        limit.starts_with("/limit: expected ") && limit.ends_with("found an empty array"),
        "{limit}"
    );
    assert!(limit.contains("null") && limit.contains("a number"), "{limit}");
}

#[test]
fn unknown_fields_are_told_with_those_there_are() {
    let text = told(r#"{"path": "a", "weather": 1, "wind": 2}"#);
    assert!(text.contains("`weather`, `wind`") && text.contains("`count`"), "{text}");
}

#[test]
fn text_that_is_no_json_object_is_explained() {
    assert!(told("{\"path\": \"a").starts_with("the arguments end in the middle, after 11 bytes"));
    assert!(told("path=a").starts_with("the arguments are not JSON"));
    assert!(told("{} {}").starts_with("the arguments are not JSON"));
    assert!(told(r#""{\"path\":\"a\"}""#).contains("give the JSON object itself"));
    assert!(told("[1]").ends_with("found an array of length 1"));
    assert!(told("null").ends_with("found null"));
}

#[test]
fn of_several_forms_the_nearest_is_told() {
    let forms = ArgumentSchema::new(&json!({
        "type": "object",
        "properties": {
            "order": { "oneOf": [
                { "type": "object", "required": ["kind", "pieces"], "properties": {
                    "kind": { "type": "string", "const": "buy" }, "pieces": { "type": "integer" } } },
                { "type": "object", "required": ["kind"], "properties": {
                    "kind": { "type": "string", "const": "wait" } } },
            ] },
            "size": { "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "null" }] },
        },
    }))
    .unwrap();
    for (arguments, text) in [
        (r#"{"order": {"kind": "buy"}}"#, "/order/pieces: missing, expected an integer"),
        (
            r#"{"order": {"kind": "sell"}}"#,
            "/order/kind: expected one of \"buy\", \"wait\", found the string \"sell\"",
        ),
        (
            r#"{"order": {"pieces": 1}}"#,
            "/order/kind: expected one of \"buy\", \"wait\", found nothing",
        ),
        (r#"{"order": 7}"#, "/order: expected an object, found the number 7"),
        (r#"{"size": 0}"#, "/size: expected at least 1, found the number 0"),
        (r#"{"size": "x"}"#, "/size: expected an integer or null, found the string \"x\""),
    ] {
        assert_eq!(forms.check(arguments).unwrap_err().to_string(), text, "{arguments}");
    }
}

#[test]
fn problems_are_bounded_in_number_and_length() {
    let strings = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let strings = ArgumentSchema::new(&strings).unwrap();
    let long = "é".repeat(5000);
    let many: Vec<String> = (0..40).map(|n| format!("\"{n}{long}\": [{n}]")).collect();
    let text = strings.check(&format!("{{{}}}", many.join(","))).unwrap_err().to_string();
    assert!(text.len() <= MAX_PROBLEM_BYTES, "{}", text.len());
    assert_eq!(text.lines().count(), MAX_PROBLEMS + 1, "{text}");
    assert!(text.ends_with("and 35 more"), "{text}");
}

#[test]
fn arguments_are_bounded_in_size_and_depth() {
    let open = ArgumentSchema::new(&json!({ "type": "object" })).unwrap();
    let sized = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    assert!(open.check(&sized(MAX_ARGUMENTS_BYTES)).is_ok());
    assert!(
        open.check(&sized(MAX_ARGUMENTS_BYTES + 1))
            .unwrap_err()
            .to_string()
            .contains("1048577 bytes")
    );
    let nested =
        |depth: usize| format!("{}{}", "{\"a\":".repeat(depth - 1) + "{", "}".repeat(depth));
    assert!(open.check(&nested(MAX_ARGUMENTS_DEPTH)).is_ok());
    assert!(
        open.check(&nested(MAX_ARGUMENTS_DEPTH + 1))
            .unwrap_err()
            .to_string()
            .contains("nested deeper")
    );
    assert!(open.check(&nested(100_000)).unwrap_err().to_string().contains("nested deeper"));
    // Brackets in strings are no nesting.
    assert!(open.check(&format!("{{\"a\":\"\\\"{}\"}}", "[".repeat(200))).is_ok());
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_the_reason() {
    let refused = |schema: Value| ArgumentSchema::new(&schema).unwrap_err();
    assert_eq!(refused(json!({ "type": "string" })), SchemaError::NotAnObject);
    assert_eq!(refused(json!(true)), SchemaError::NotAnObject);
    let long = json!({ "type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES) });
    assert!(matches!(refused(long), SchemaError::TooLong { .. }));
    let wrong = json!({ "type": "object", "properties": { "a": { "type": "text" } } });
    assert!(refused(wrong).to_string().contains("/properties/a/type"));
}

#[test]
fn nothing_is_fetched() {
    for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/hostname"] {
        let schema = json!({ "type": "object", "properties": { "a": { "$ref": reference } } });
        let error = ArgumentSchema::new(&schema).unwrap_err().to_string();
        assert!(error.contains("nothing is fetched"), "{reference}: {error}");
    }
    let other = json!({ "type": "object", "properties": { "a": { "$ref": "other.json" } } });
    assert!(matches!(ArgumentSchema::new(&other), Err(SchemaError::Invalid(_))));
}

#[test]
fn patterns_take_linear_time_or_are_refused() {
    let pattern = |pattern: &str| {
        let property = json!({ "type": "string", "pattern": pattern });
        ArgumentSchema::new(&json!({ "type": "object", "properties": { "a": property } }))
    };
    assert!(matches!(pattern(r"^(?=.*x)y"), Err(SchemaError::Invalid(_))));
    assert!(matches!(pattern(r"(a)\1"), Err(SchemaError::Invalid(_))));
    assert!(matches!(pattern(r"(\p{L}{100}){100}"), Err(SchemaError::Invalid(_))));
    // Backtracking would take 2 to the power of 100,000 attempts here.
    let evil = pattern("^(a|a|aa)+$").unwrap();
    assert!(evil.check(&format!("{{\"a\":\"{}b\"}}", "a".repeat(100_000))).is_err());
}

#[test]
fn what_is_not_checked_is_refused_and_not_passed_over() {
    for (keyword, value) in [
        ("unevaluatedItems", json!(false)),
        ("$dynamicRef", json!("#a")),
        ("$anchor", json!("a")),
        ("$id", json!("https://example.com/a")),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": { keyword: value } } });
        let error = ArgumentSchema::new(&schema).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "at `/properties/a/{keyword}`: `{keyword}` is not checked; take it out, or check it in the tool"
            )
        );
    }
    // At the root an identifier names the whole, and a field may have any name.
    let schema = json!({ "$id": "https://example.com/a", "type": "object",
        "properties": { "$anchor": { "type": "string" } } });
    assert!(ArgumentSchema::new(&schema).is_ok());
}

#[test]
fn a_schema_that_never_ends_is_refused_and_one_that_descends_is_not() {
    let endless = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } },
        "$defs": { "a": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }] } } });
    assert!(matches!(ArgumentSchema::new(&endless), Err(SchemaError::Invalid(_))));
    let tree = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } } });
    let tree = ArgumentSchema::new(&tree).unwrap();
    assert!(tree.check(r#"{"name": "a", "children": [{"name": "b", "children": []}]}"#).is_ok());
    assert_eq!(
        tree.check(r#"{"name": "a", "children": [{"name": "b"}, {}]}"#).unwrap_err().to_string(),
        "/children/1/name: missing, expected a string"
    );
}

/// Printed, not asserted: the time of a machine is no property of the code.
#[test]
fn the_cost_of_compiling_and_of_checks_is_shown() {
    let source = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1 }, "offset": { "type": "integer", "minimum": 1 },
            "limit": { "type": ["integer", "null"] }, "mode": { "enum": ["a", "b"] },
        },
        "required": ["path"],
    });
    let begun = Instant::now();
    for _ in 0..100 {
        std::hint::black_box(ArgumentSchema::new(&source).unwrap());
    }
    let compile = begun.elapsed() / 100;
    let schema = ArgumentSchema::new(&source).unwrap();
    let (good, bad) =
        (r#"{"path":"src/lib.rs","offset":20,"mode":"a"}"#, r#"{"path":7,"mode":"c"}"#);
    let mean = |arguments: &str, fits: bool| -> Duration {
        let begun = Instant::now();
        for _ in 0..10_000 {
            assert_eq!(std::hint::black_box(schema.check(arguments)).is_ok(), fits);
        }
        begun.elapsed() / 10_000
    };
    println!("compile {compile:?}, fits {:?}, does not {:?}", mean(good, true), mean(bad, false));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_an_answer_within_bounds(text in any::<String>(), inner in ".{0,40}") {
        let made = format!("{{\"path\": {inner}, \"{text}\": [");
        for arguments in [text.as_str(), inner.as_str(), made.as_str()] {
            if let Err(problem) = schema().check(arguments).map_err(|error| error.to_string()) {
                prop_assert!(!problem.is_empty() && problem.len() <= MAX_PROBLEM_BYTES);
            }
        }
    }
}
