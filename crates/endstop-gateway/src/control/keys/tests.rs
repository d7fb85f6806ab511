//! Tests of `keys`.

use super::*;

#[test]
fn paths_below_that_of_the_keys_are_its_own_and_others_are_not() {
    assert_eq!(below("/endstop/v1/keys"), Some(""));
    assert_eq!(below("/endstop/v1/keys/"), Some("/"));
    assert_eq!(below("/endstop/v1/keys/alice/revoke"), Some("/alice/revoke"));
    for path in ["/endstop/v1/keyset", "/endstop/v1/runs", "/v1/keys"] {
        assert_eq!(below(path), None, "{path}");
    }
}
