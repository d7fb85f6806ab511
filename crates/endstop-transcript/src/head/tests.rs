//! Tests of `head`.

use super::*;

fn names(text: &str) -> (bool, Vec<String>) {
    let keys = keys_of(text.as_bytes());
    (keys.in_list, keys.names.into_iter().collect())
}

#[test]
fn only_the_keys_at_the_top_are_seen() {
    let (in_list, keys) = names(r#"{"a":{"b":1},"c":["d",{"e":2}],"f\"":"g"}{"h":1}"#);
    assert!(!in_list);
    assert_eq!(keys, ["a", "c", "f\\\""]);
    assert_eq!(names(r#" [{"role":"user","content":"{\"x\":1}"},{"y":1}]"#).1, ["content", "role"]);
    assert_eq!(names(r#"{"a":1,"b":{"c":"cut he"#).1, ["a", "b"]);
    for nothing in ["", "x", "[1,2]", "[[{\"a\":1}]]", "\"a\":1", "}{"] {
        assert!(names(nothing).1.is_empty(), "{nothing}");
    }
}
