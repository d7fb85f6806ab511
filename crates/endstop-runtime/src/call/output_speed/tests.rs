//! Tests of `output_speed`.

use super::*;

#[test]
fn fast_providers_are_held_to_more_and_nobody_to_less() {
    let rates = ["cerebras", "openai", "anthropic", "", "cerebras.ai"].map(fastest_output);
    assert_eq!(rates, [6_000, 2_000, USUAL, USUAL, USUAL]);
    assert!(FASTEST.iter().all(|(_, rate)| *rate > USUAL));
}
