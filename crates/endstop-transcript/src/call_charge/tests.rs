//! Tests of `call_charge`.

use super::*;

#[test]
fn cached_tokens_are_taken_from_an_input_that_can_hold_them() {
    for (input, expected) in [
        (json!(100), json!(30)),
        (json!(70), json!(0)),
        (json!(69), json!(69)),
        (json!("x"), json!("x")),
    ] {
        let counts = [input, json!(7), json!(60), json!(10)];
        let usage = as_anthropic_without_cached(counts);
        assert_eq!(usage.get("input_tokens"), Some(&expected));
        assert_eq!(usage.get("cache_read_input_tokens"), Some(&json!(60)));
    }
}

#[test]
fn a_cost_of_zero_is_no_cost() {
    for (cost, expected) in [
        (None, None),
        (Some(json!(0)), None),
        (Some(json!(0.0)), None),
        (Some(json!(0.25)), Some(json!(0.25))),
    ] {
        assert_eq!(with_cost(json!({}), cost).get("cost"), expected.as_ref());
    }
}
