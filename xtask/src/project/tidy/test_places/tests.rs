//! Tests of `test_places`.

use super::*;

#[test]
fn unit_tests_have_a_file_of_their_own() {
    let lines = |text: &str| {
        check_file("a.rs", text).iter().map(|finding| finding.line).collect::<Vec<_>>()
    };
    assert_eq!(lines("fn f() {}\n#[cfg(test)]\nmod tests { fn t() {} }"), [3]);
    assert_eq!(lines("mod a {\n#[cfg(all(test, unix))]\nmod tests {} }"), [3]);
    assert!(lines("#[cfg(test)]\nmod tests;\nmod samples {}\nmod tests {}").is_empty());
}
