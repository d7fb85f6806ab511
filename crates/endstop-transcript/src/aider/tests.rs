//! Tests of `aider`.

use super::*;

#[test]
fn counts_are_read_in_the_forms_that_they_are_rounded_to() {
    for (text, number) in [("180", 180), ("3,015", 3_015), ("2.1k", 2_100), ("15k", 15_000)] {
        assert_eq!(number_in(text), json!(number));
    }
    for text in ["", "k", "-1", "1.2345k", "9999999999999999999k", "many"] {
        assert!(number_in(text).as_u64().is_none(), "{text}");
    }
}
