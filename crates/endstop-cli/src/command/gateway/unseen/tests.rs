//! Tests of `unseen`.

use super::*;

#[test]
fn rules_that_a_gateway_cannot_see_are_named() {
    let of = |text: &str| unseen(&Policy::from_toml(text).unwrap());
    let all = of(
        "[stop]\na = \"steps >= 9\"\nb = \"tool_errors >= 2 or steps >= 8\"\nc = 'tool_failed(\"x\")'\n[retry]\nd = 'said(\"x\")'\n",
    );
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].starts_with("rules `b`, `c`: ") && all[1].starts_with("rule `d`: "), "{all:?}");
    assert!(of("[stop]\na = \"steps >= 9 or errors >= 3\"\n").is_empty());
}
