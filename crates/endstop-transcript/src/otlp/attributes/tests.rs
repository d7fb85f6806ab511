//! Tests of the values of attributes.

use serde_json::json;

use super::*;

#[test]
fn integers_are_read_from_their_strings_and_nothing_is_guessed() {
    let read = |text: &str| serde_json::from_str::<AnyValue>(text).unwrap().plain();
    assert_eq!(read(r#"{"intValue":"12"}"#), json!(12));
    assert_eq!(read(r#"{"intValue":12}"#), json!(12));
    assert_eq!(read(r#"{"intValue":"twelve"}"#), json!("twelve"));
    let list = r#"{"arrayValue":{"values":[{"kvlistValue":{"values":[{"key":"a","value":{"boolValue":true}}]}}]}}"#;
    assert_eq!(read(list), json!([{"a": true}]));
}
