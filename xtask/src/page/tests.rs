//! Tests of `page`.

use super::*;

#[test]
fn only_what_is_between_the_marks_of_the_task_is_replaced() {
    let page = format!("a\n{}old\n{END}b\n", begin("it"));
    let once = insert(&page, "it", "new").unwrap();
    assert_eq!(once, format!("a\n{}\nnew\n{END}b\n", begin("it")));
    assert_eq!(insert(&once, "it", "new").unwrap(), once);
    assert_eq!(insert(&page, "other", "new"), None);
}
