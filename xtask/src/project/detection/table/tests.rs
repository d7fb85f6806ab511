//! Tests of `table`.

use super::*;

#[test]
fn a_share_of_nothing_is_not_a_number() {
    assert_eq!(cell(0, 0), "none");
    assert_eq!(cell(0, 762), "0 (at most 0.50%)");
    assert_eq!(cell(133, 272), "133: 49% (43 to 55)");
}
