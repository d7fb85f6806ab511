//! Tests of `table`.

use super::*;

#[test]
fn a_run_that_told_nothing_has_a_row_as_well() {
    let row = Ended { client: "x", api: "chat", ..Ended::default() };
    assert!(page(&[row]).ends_with("| x |  | chat | no | ? | ? | ? | none | not on its own |\n"));
}
