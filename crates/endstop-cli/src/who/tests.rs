//! Tests of `who`.

use super::*;

#[test]
fn a_blank_name_is_no_name() {
    for (by, who) in
        [(Some("ann"), "ann"), (Some(""), SOMEONE), (Some(" "), SOMEONE), (None, SOMEONE)]
    {
        assert_eq!(acting(by), who, "{by:?}");
    }
}
