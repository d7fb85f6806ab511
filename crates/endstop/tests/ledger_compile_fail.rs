//! What the types of the ledger rule out: it does not compile.
#![cfg(not(any(endstop_loom, endstop_shuttle)))]

#[test]
fn a_hold_ends_once_and_amounts_are_integers() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
