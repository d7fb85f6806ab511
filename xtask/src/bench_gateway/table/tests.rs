//! Tests of `table`.

use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let rows = [vec!["a".to_owned(), "µs".to_owned()], vec!["long".to_owned()]];
    assert_eq!(table(&rows), "| a    | µs |\n|------|----|\n| long |    |\n");
}
