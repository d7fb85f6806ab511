//! Tests of `intercode`.

use super::*;

fn outcome(task: &str) -> Option<bool> {
    outcome_of(&serde_json::from_str(task).unwrap())
}

#[test]
fn the_best_reward_decides() {
    let of = |rest: &str| outcome(&format!("{{\"turn_history\":{{\"actions\":[]{rest}"));
    assert_eq!(of("},\"summary\":{\"max_reward\":1}}"), Some(true));
    assert_eq!(of("},\"summary\":{\"max_reward\":0.99}}"), Some(false));
    assert_eq!(of(",\"rewards\":[0,1.0,0.5]}}"), Some(true));
    assert_eq!(of(",\"rewards\":[0,0.5]},\"summary\":{}}"), Some(false));
    assert_eq!(of(",\"rewards\":[null]}}"), None);
    assert_eq!(of("}}"), None);
}

#[test]
fn the_first_value_tells_the_format() {
    let detects = |text: &str| detect(&Head::new(text.as_bytes(), b""));
    assert!(detects(" { \"12\" : {\"query\":\"q\",\"turn_history\":{\"actions\":[\"a"));
    assert!(!detects("{\"turn_history\":{\"actions\":[]}}"));
    assert!(!detects("[{\"0\":{\"turn_history\":{}}}]"));
    assert!(!detects("{\"0\":{\"log\":{\"turn_history\":{}}}}"));
    assert!(!detects("{}"));
}
