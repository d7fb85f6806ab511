//! Tests of reading JSON of any shape.

use proptest::prelude::*;
use serde_json::Value;

use super::{List, Raw};

fields! {
    Some_<'j> {
        first: Raw<'j> = "first" | "erste",
        inner: Inner<'j> = "inner",
        list: List<Inner<'j>> = "list",
    }
}

fields! {
    Inner<'j> {
        word: Raw<'j> = "word",
    }
}

fn read(json: &str) -> Some_<'_> {
    serde_json::from_str(json).unwrap()
}

#[test]
fn fields_of_the_wrong_kind_are_absent() {
    for json in [
        "null",
        "3",
        "-3",
        "1e400",
        "true",
        "\"x\"",
        "[]",
        "[[{}],3]",
        "{}",
        r#"{"inner":3,"list":"x"}"#,
        r#"{"inner":[{"word":1}],"list":{"word":1}}"#,
    ] {
        if let Ok(got) = serde_json::from_str::<Some_<'_>>(json) {
            assert!(!got.inner.word.is_some() && got.list.0.is_empty(), "{json}");
        }
    }
    let got = read(r#"{"list":[1,{"word":"a"},null]}"#);
    assert_eq!(got.list.0.len(), 3);
    assert_eq!(got.list.0[1].word.text().unwrap(), "a");
}

#[test]
fn the_last_of_several_values_counts_under_any_of_the_names() {
    let got = read(r#"{"first":1,"erste":2,"f\u0069rst":3}"#);
    assert_eq!(got.first.count(), Some(3));
}

#[test]
fn text_is_unescaped_and_half_characters_are_replaced() {
    assert_eq!(Raw::of(r#""plain""#).text().unwrap(), "plain");
    assert_eq!(Raw::of(r#""a\"b\u00e9""#).text().unwrap(), "a\"bé");
    assert!(Raw::of(r#""x\ud83dy""#).text().unwrap().starts_with("x\u{fffd}"));
    assert_eq!(Raw::of("3").text(), None);
    assert_eq!(Raw::default().text(), None);
    assert!(read(r#"{"\ud83d":1,"first":"\ud83d"}"#).first.text().is_some());
}

#[test]
fn counts_are_whole_and_not_negative() {
    let counts = ["7", "7.0", "7e0", "-7", "7.5", "\"7\"", "null", "true", "1e300", "{}"];
    let counts = counts.map(|json| Raw::of(json).count());
    assert_eq!(counts[..3], [Some(7); 3]);
    assert_eq!(counts[3..], [None; 7]);
    assert_eq!(Raw::of("18446744073709551615").count(), Some(u64::MAX));
}

#[test]
fn depth_is_skipped_without_recursion() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let json = format!(r#"{{"other":{deep},"first":{deep},"inner":{{"word":{deep}}}}}"#);
    let got = read(&json);
    assert_eq!(got.first.json().len(), 400_000);
    assert_eq!(got.inner.word.json().len(), 400_000);
    assert_eq!(got.first.items().len(), 1);
}

proptest! {
    #[test]
    fn members_are_those_of_any_parser(json in crate::api::garbage::json()) {
        let text = json.to_string();
        let members = Raw::of(&text).members();
        match &json {
            Value::Object(map) => {
                prop_assert_eq!(members.len(), map.len());
                for (key, value) in members {
                    let value: Value = serde_json::from_str(value.json()).unwrap();
                    prop_assert_eq!(&map[key.as_str()], &value);
                }
            }
            _ => prop_assert!(members.is_empty()),
        }
    }
}
