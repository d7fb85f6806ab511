//! Made-up values satisfy their schemas, and differ from step to step.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::example;

fn assert_valid(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let wrong = validator.iter_errors(value).next().map(|error| error.to_string());
    assert_eq!(wrong, None, "{value} for {schema}");
}

#[test]
fn every_kind_of_schema_is_satisfied_at_every_step() {
    let schemas = [
        json!({ "type": "object", "properties": { "step": { "type": "integer" } }, "required": ["step"] }),
        json!({ "type": "object", "required": ["a", "b", "c"], "properties": {
            "a": { "enum": ["x", "y"] }, "b": { "const": 7 }, "c": { "type": ["null", "boolean"] } } }),
        json!({ "type": "array", "items": { "type": "string" }, "minItems": 3, "uniqueItems": true }),
        json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "number" }], "maxItems": 2 }),
        json!({ "anyOf": [{ "type": "null" }, { "type": "object", "required": ["q"],
            "properties": { "q": { "type": "string", "minLength": 30, "maxLength": 31 } } }] }),
        json!({ "allOf": [
            { "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } },
            { "type": "object", "required": ["b"], "properties": { "b": { "type": "number" } } } ],
            "properties": { "c": { "type": "integer" } }, "required": ["c"] }),
        json!({ "oneOf": [{ "type": "integer", "minimum": 100 }, { "type": "string" }] }),
        json!({ "$ref": "#/$defs/tree", "$defs": { "tree": { "type": "object", "required": ["name"],
            "properties": { "name": { "type": "string" },
                "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } } } } } }),
        json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 }),
        json!({ "type": "integer", "minimum": -5, "maximum": -3 }),
        json!({ "type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 50 }),
        json!({ "type": "number", "maximum": 0 }),
        json!({ "type": "string", "maxLength": 2 }),
        json!({ "type": "object" }),
        json!({}),
        json!(true),
    ];
    for schema in &schemas {
        for step in (0..40).chain([u64::from(u32::MAX), u64::MAX]) {
            assert_valid(schema, &example(schema, step));
        }
    }
}

#[test]
fn formats_are_those_that_are_asked_for() {
    for format in ["date-time", "date", "time", "email", "uri", "uuid", "ipv4", "duration"] {
        let schema = json!({ "type": "string", "format": format });
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for step in [1, 29, 60, 1_000_000] {
            let value = example(&schema, step);
            assert!(validator.is_valid(&value), "{format}: {value}");
        }
    }
}

#[test]
fn each_step_is_different_where_a_text_or_number_is_in_the_arguments() {
    for kind in [json!({ "type": "string" }), json!({ "type": "integer", "minimum": 1 })] {
        let schema = json!({ "type": "object", "properties": { "x": kind }, "required": ["x"] });
        let made: BTreeSet<String> =
            (1..=100).map(|step| example(&schema, step).to_string()).collect();
        assert_eq!(made.len(), 100, "{schema}");
    }
    // Even if nothing is required.
    let schema = json!({ "type": "object", "properties": { "x": { "type": "string" } } });
    assert_ne!(example(&schema, 1), example(&schema, 2));
}

#[test]
fn a_schema_of_gemini_is_read_in_its_capitals() {
    let schema = json!({ "type": "OBJECT", "required": ["n", "l"], "properties": {
        "n": { "type": "INTEGER" }, "l": { "type": "ARRAY", "items": { "type": "BOOLEAN" }, "minItems": "2" } } });
    assert_eq!(example(&schema, 3), json!({ "n": 3, "l": [true, true] }));
}

#[test]
fn hostile_schemas_end_with_something_small() {
    let circle = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } });
    let endless = json!({ "$ref": "#/$defs/a", "$defs": { "a": {
        "type": "object", "required": ["x"], "properties": { "x": { "$ref": "#/$defs/a" } } } } });
    let element = json!({ "const": "x".repeat(10_000) });
    let wide = json!({ "type": "array", "minItems": u64::MAX, "items": {
        "type": "array", "minItems": 1e9, "items": { "type": "array", "minItems": 300, "items": element } } });
    let wrong = json!({ "type": 7, "required": "x", "enum": [], "minLength": -1 });
    for schema in [circle, endless, wide, wrong] {
        let made = example(&schema, 1).to_string();
        assert!(made.len() < 1_000_000, "{} bytes for {schema:.80}", made.len());
    }
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (-20i64..20, 0i64..20).prop_map(|(least, more)| {
            json!({ "type": "integer", "minimum": least, "maximum": least + more })
        }),
        (-20i64..20).prop_map(|most| json!({ "type": "number", "exclusiveMaximum": most })),
        (0u8..20, 0u8..20).prop_map(|(least, more)| {
            json!({ "type": "string", "minLength": least, "maxLength": least + more })
        }),
        Just(json!({ "type": "boolean" })),
        Just(json!({ "enum": ["a", 1, null] })),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|properties| {
                let required: Vec<&String> = properties.keys().collect();
                json!({ "type": "object", "properties": properties, "required": required,
                    "additionalProperties": false })
            }),
            (inner.clone(), 0u8..4).prop_map(
                |(items, least)| json!({ "type": "array", "items": items, "minItems": least })
            ),
            prop::collection::vec(inner, 1..3).prop_map(|variants| json!({ "anyOf": variants })),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_is_satisfied(schema in any_schema(), step in any::<u64>()) {
        let value = example(&schema, step);
        prop_assert!(jsonschema::is_valid(&schema, &value), "{value} for {schema}");
    }
}
