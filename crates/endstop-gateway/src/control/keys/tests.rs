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

#[test]
fn a_kind_of_error_has_a_status_and_its_hint() {
    for (kind, status) in [
        (KeyProblem::Invalid, 400),
        (KeyProblem::Unknown, 404),
        (KeyProblem::Conflict, 409),
        (KeyProblem::Unavailable, 503),
    ] {
        let error = KeyDeskError::new(kind, "no").with_hint("yes");
        assert_eq!(refused(error).status().as_u16(), status);
    }
}
