//! Tests of reading JSON of any shape.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{FromMembers, List, Members, Raw, parse};

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
    parse(json).unwrap()
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
        if let Ok(got) = parse::<Some_<'_>>(json) {
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
fn fields_are_the_same_if_the_members_are_known() {
    for json in [
        "{}",
        "3",
        r#"{"first":1,"other":{},"erste":[2]}"#,
        r#"{"inner":{"word":"a","word":"b"},"list":[{"word":1},3,null,{"w\u006frd":2}]}"#,
        r#"{"inner":3,"list":"x","first":null}"#,
        r#"{"inner":{"word":1},"inner":{},"list":[{}],"list":null}"#,
    ] {
        let got = Some_::of_members(&Raw::of(json).members());
        assert_eq!(format!("{got:?}"), format!("{:?}", read(json)), "{json}");
    }
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

/// Texts that are nearly JSON: one that is, with some characters taken out, put in or doubled.
fn nearly_json() -> impl Strategy<Value = String> {
    let marks = [
        "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e+", "1", "\n", "\u{1}", "\\u12",
        "\\ud83d", "null", "t", "é", " ",
    ];
    let change = (any::<prop::sample::Index>(), 0_usize..3, prop::sample::select(marks.to_vec()));
    let json = crate::garbage::json();
    (json, any::<bool>(), prop::collection::vec(change, 0..3)).prop_map(
        |(json, is_long, changes)| {
            let text = if is_long { format!("{json:#}") } else { json.to_string() };
            let mut characters: Vec<char> = text.chars().collect();
            for (at, taken, mark) in changes {
                let at = at.index(characters.len() + 1);
                let end = (at + taken).min(characters.len());
                characters.splice(at..end, mark.chars());
            }
            characters.into_iter().collect()
        },
    )
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "[1 2]",
        "1 2",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "nul",
        "nulll",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\u{1f}\"",
        "[1}",
        "{\"a\":[1}]",
        "[[]",
        "\"a\"b",
        "NaN",
    ] {
        assert!(parse::<Raw<'_>>(text).is_err(), "{text}");
        assert!(parse::<Members<'_>>(text).is_err(), "{text}");
        assert!(serde_json::from_str::<IgnoredAny>(text).is_err(), "{text}");
    }
}

/// That a value, and each one in it, is read in the same way whether or not its text is checked again.
fn reads_alike(value: Raw<'_>) {
    let Ok(List(items)) = parse::<List<Raw<'_>>>(value.json()) else {
        assert_eq!(value, Raw::default());
        return;
    };
    let Members(members) = parse(value.json()).unwrap();
    assert_eq!(value.items(), items);
    assert_eq!(value.members(), members);
    items.into_iter().for_each(reads_alike);
    members.into_iter().for_each(|(_, inner)| reads_alike(inner));
}

#[test]
fn a_value_that_is_read_again_is_the_same() {
    for text in [
        r#" [ 1 , -2.5e+3,true , null,"a]\\" , {"k" : [ { } , [ ] ] },[[],[[{}]]]] "#,
        r#"{ "a\"}" : "{[" , "b":{"c":{},"d":[ 0 ],"e":false}, "f" :"\ud83d","g":12 }"#,
        "[\n\t1\r,\n{\t\"a\"\n:\r1\n}\n]",
        "12",
        " \"x\" ",
        "{}",
        "[]",
    ] {
        assert!(Raw::of(text).is_some(), "{text}");
        reads_alike(Raw::of(text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_json_is_what_it_is_for_any_parser(text in nearly_json()) {
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(parse::<Raw<'_>>(&text).is_ok(), is_json);
        prop_assert_eq!(parse::<Members<'_>>(&text).is_ok(), is_json);
        prop_assert_eq!(parse::<List<Raw<'_>>>(&text).is_ok(), is_json);
        prop_assert_eq!(parse::<Some_<'_>>(&text).is_ok(), is_json);
        prop_assert_eq!(Raw::of(&text).json().is_empty(), !is_json);
        reads_alike(Raw::of(&text));
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let raw = parse::<Raw<'_>>(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(raw.json()).unwrap(), value);
        }
    }

    #[test]
    fn strings_end_where_they_end(start in "[a-z\"\\\\\u{0}-\u{1f}é]{0,20}", more in ".{0,20}", at in 0_usize..80) {
        let string = Value::from(format!("{}{start}{more}", "x".repeat(at))).to_string();
        prop_assert_eq!(parse::<Raw<'_>>(&string).unwrap().json(), &string);
        let list = format!("[{string},{string}]");
        prop_assert_eq!(Raw::of(&list).items(), vec![Raw::of(&string); 2]);
        let broken = format!("\"{}\u{1f}{more}\"", "x".repeat(at));
        prop_assert!(parse::<Raw<'_>>(&broken).is_err());
    }

    #[test]
    fn elements_are_those_of_any_parser(json in crate::garbage::json()) {
        let text = json.to_string();
        let items = Raw::of(&text).items().into_iter();
        let items: Vec<Value> = items.map(|it| serde_json::from_str(it.json()).unwrap()).collect();
        prop_assert_eq!(items, json.as_array().cloned().unwrap_or_default());
    }

    #[test]
    fn members_are_those_of_any_parser(json in crate::garbage::json()) {
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
