//! Tests of `table`.

use super::*;

#[test]
fn a_run_that_told_nothing_has_a_row_as_well() {
    let row = Ended { client: "x", api: "chat", ..Ended::default() };
    assert!(page(&[row]).ends_with("| x |  | chat | no | ? | ? | ? | none | not on its own |\n"));
}

#[test]
fn rows_of_some_names_are_replaced_in_their_order() {
    let old = "| n | v |\n| - | - |\n| a | 1 |\n| gone | 1 |\n| c | 1 |\n| c | 2 |";
    let new = "| n | v |\n| - | - |\n| c | 3 |\n| b | 3 |\n";
    let expected = "| n | v |\n| - | - |\n| a | 1 |\n| b | 3 |\n| c | 3 |\n";
    assert_eq!(merged(old, new, &["a", "b", "c"]), expected);
    assert_eq!(merged("", new, &["b", "c"]).lines().count(), 4);
}
