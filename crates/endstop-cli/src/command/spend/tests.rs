//! Tests of `spend`.

use super::*;

#[test]
fn a_bar_shows_that_something_was_spent() {
    let bars = [(0, 9), (1, 900), (9, 9)].map(|(part, whole)| bar(part, whole, 20));
    assert_eq!(bars, [String::new(), "#".to_owned(), "#".repeat(20)]);
}

#[test]
fn bars_leave_room_for_the_numbers_of_a_narrow_terminal() {
    assert_eq!([0, 20, 40, 80, 120, 300].map(bar_room), [4, 4, 6, 13, 20, 20]);
}
