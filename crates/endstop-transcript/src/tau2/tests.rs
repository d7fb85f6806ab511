//! Costs, times and outcomes of tau2 results.

use super::*;

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_cost_of_nothing_is_no_cost() {
    let cost = |json: &str| stated_cost(Some(raw(json))).map_err(drop);
    let known = |text: &str| Ok(Some(Cost::Known(text.parse().unwrap())));
    assert_eq!(cost("0.0011210999999999999"), known("0.0011211"));
    assert_eq!(cost("2"), known("2"));
    assert_eq!((cost("0.0"), cost("0"), cost("null")), (Ok(None), Ok(None), Ok(None)));
    assert_eq!(stated_cost(None), Ok(None));
    for wrong in ["-1", "\"0.1\"", "1e400", "[]", "true"] {
        assert!(cost(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn times_without_a_zone_are_of_utc() {
    assert_eq!(parse_civil("1970-01-01T00:00:01.530398"), Some(1_530));
    assert_eq!(parse_civil("1970-01-01T01:00:01+01:00"), Some(1_000));
    assert_eq!(parse_civil("1969-12-31T00:00:00"), None);
    assert_eq!(parse_civil("yesterday"), None);
}

#[test]
fn only_a_whole_reward_is_a_success() {
    let outcome = |json: &str| outcome_of(Some(raw(json)));
    assert_eq!(outcome(r#"{"reward":1}"#), Some(true));
    assert_eq!(outcome(r#"{"reward":0.5,"info":{}}"#), Some(false));
    assert_eq!(outcome(r#"{"reward":null}"#), None);
    assert_eq!((outcome("null"), outcome("3"), outcome_of(None)), (None, None, None));
}

#[test]
fn the_finish_reason_is_in_the_choice_or_the_reply() {
    let finish = |json: &str| finish_of(serde_json::from_str(json).unwrap());
    assert_eq!(finish(r#"{"finish_reason":"stop","index":0}"#).as_deref(), Some("stop"));
    assert_eq!(finish(r#"{"choices":[{"finish_reason":"length"}]}"#).as_deref(), Some("length"));
    assert_eq!(finish("{\"choices\":[]}"), None);
}

#[test]
fn results_are_recognized_before_their_simulations() {
    let detects = |text: &str| detect(&Head::new(text.as_bytes(), b""));
    assert!(detects(r#"{"timestamp":"x","info":{"agent_info":{"llm":"a"}},"tasks":[{"id":"1"#));
    assert!(detects(r#"{"info":{},"simulations":[{"reward_info":{}}]}"#));
    assert!(!detects(r#"{"info":{},"tasks":[]}"#));
    assert!(!detects(r#"{"info":{"agent_info":{}},"messages":[]}"#));
    assert!(!detects(r#"[{"info":{"agent_info":{}},"tasks":[]}]"#));
}
