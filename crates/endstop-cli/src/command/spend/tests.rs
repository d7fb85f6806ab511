//! Tests of `spend`.

use super::*;

#[test]
fn a_bar_shows_that_something_was_spent() {
    assert_eq!((bar(0, 9), bar(1, 900), bar(9, 9)), (String::new(), "#".into(), "#".repeat(20)));
}
