//! Tests of `response_history`.

use super::*;

#[test]
fn the_latest_answers_are_known_with_their_tokens() {
    let history = ResponseHistory::default();
    (0..300).for_each(|n| history.remember(&n.to_string(), n));
    history.remember("299", 7);
    history.remember(&"a".repeat(600), 1);
    assert_eq!([0, 43].map(|n: u64| history.tokens(&n.to_string())), [None; 2]);
    assert_eq!([44, 299].map(|n: u64| history.tokens(&n.to_string())), [Some(44), Some(7)]);
}
