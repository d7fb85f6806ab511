//! Arguments of tools fit a schema if a whole validator says so. These tests are not those of `endstop`, which are built
//! twice, because the validator would be built twice with them.
#![expect(clippy::unwrap_used, reason = "a strategy of these tests fails as they do")]

use endstop::tool::ArgumentSchema;
use proptest::prelude::*;
use serde_json::{Value, json};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4_i64..12).prop_map(Value::from),
        (-8_i64..24).prop_map(|tenths| json!(f64::from(i32::try_from(tenths).unwrap()) / 10.0)),
        "[ab1é_ -]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abcd]", inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

const fn count() -> std::ops::Range<u8> {
    0..4
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![(-3_i64..9).prop_map(Value::from), Just(json!(0.5)), Just(json!(2.0))]
}

/// Schemas of every keyword that is checked. The schemas of `$defs` use no references, so that nothing is endless.
fn any_schema() -> impl Strategy<Value = Value> {
    let kinds = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let patterns = [r"^a", r"\d", r"^[\w-]+$", r"[^\d]b", r"\W", r"[[a]"];
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop::sample::subsequence(kinds.to_vec(), 1..3).prop_map(|kinds| json!({ "type": kinds })),
        prop::collection::vec(any_value(), 0..3).prop_map(|values| json!({ "enum": values })),
        any_value().prop_map(|value| json!({ "const": value })),
        (number(), number()).prop_map(|(a, b)| json!({ "minimum": a, "maximum": b })),
        (number(), number())
            .prop_map(|(a, b)| json!({ "exclusiveMinimum": a, "exclusiveMaximum": b })),
        prop_oneof![Just(0.1), Just(2.0), Just(0.3), Just(1.5)]
            .prop_map(|of| json!({ "type": "number", "multipleOf": of })),
        (count(), count()).prop_map(|(a, b)| json!({ "minLength": a, "maxLength": b })),
        (count(), count()).prop_map(|(a, b)| json!({ "minItems": a, "maxItems": b })),
        (count(), count()).prop_map(|(a, b)| json!({ "minProperties": a, "maxProperties": b })),
        prop::sample::select(patterns.to_vec()).prop_map(|pattern| json!({ "pattern": pattern })),
        any::<bool>().prop_map(|unique| json!({ "uniqueItems": unique })),
        prop::collection::btree_set("[abcd]", 1..3).prop_map(|names| json!({ "required": names })),
        ("[abcd]", "[abcd]").prop_map(|(a, b)| json!({ "dependentRequired": { a: [b] } })),
        Just(json!({ "$ref": "#/$defs/x" })),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let some = || prop::collection::vec(inner.clone(), 1..4);
        let named = || prop::collection::btree_map("[abcd]", inner.clone(), 0..4);
        prop_oneof![
            some().prop_map(|schemas| json!({ "anyOf": schemas })),
            some().prop_map(|schemas| json!({ "oneOf": schemas })),
            some().prop_map(|schemas| json!({ "allOf": schemas })),
            inner.clone().prop_map(|schema| json!({ "not": schema })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            (some(), inner.clone()).prop_map(|(a, b)| json!({ "prefixItems": a, "items": b })),
            (inner.clone(), count(), count())
                .prop_map(|(a, b, c)| json!({ "contains": a, "minContains": b, "maxContains": c })),
            inner.clone().prop_map(|schema| json!({ "contains": schema })),
            (named(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({
                "properties": a, "patternProperties": { "^[cd]$": b }, "additionalProperties": c })),
            inner.clone().prop_map(|schema| json!({ "propertyNames": schema })),
            ("[abcd]", inner.clone()).prop_map(|(a, b)| json!({ "dependentSchemas": { a: b } })),
            (named(), named(), some(), inner.clone()).prop_map(|(a, b, c, d)| json!({
                "properties": a, "allOf": [{ "properties": b }], "anyOf": c,
                "unevaluatedProperties": d })),
        ]
    })
}

#[test]
fn older_drafts_are_read() {
    let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "definitions": { "n": { "type": "number" } },
        "dependencies": { "a": ["b"], "c": { "required": ["d"] } },
        "properties": { "pair": { "type": "array", "items": [{ "$ref": "#/definitions/n" }],
            "additionalItems": false } } });
    let oracle = jsonschema::validator_for(&schema).unwrap();
    let ours = ArgumentSchema::new(&schema).unwrap();
    for arguments in [
        json!({}),
        json!({ "a": 1 }),
        json!({ "a": 1, "b": 1 }),
        json!({ "c": 1 }),
        json!({ "c": 1, "d": 1 }),
        json!({ "pair": [1] }),
        json!({ "pair": ["x"] }),
        json!({ "pair": [1, 2] }),
    ] {
        let fits = ours.check(&arguments.to_string()).is_ok();
        assert_eq!(fits, oracle.is_valid(&arguments), "{arguments}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn a_whole_validator_says_the_same(
        (schema, named) in (any_schema(), any_schema()),
        values in prop::collection::vec(any_value(), 8),
    ) {
        let without_references = named.to_string().replace("\"#/$defs/x\"", "\"#/$defs/y\"");
        let schema = json!({
            "type": "object", "properties": { "value": schema },
            "$defs": {
                "x": serde_json::from_str::<Value>(&without_references).unwrap(),
                "y": { "type": "integer" },
            },
        });
        let ours = ArgumentSchema::new(&schema).unwrap();
        let oracle = jsonschema::validator_for(&schema).unwrap();
        for value in values {
            let arguments = json!({ "value": value });
            let told = ours.check(&arguments.to_string());
            prop_assert_eq!(told.is_ok(), oracle.is_valid(&arguments), "{} for {}: {:?}", arguments, schema, told);
        }
    }
}
