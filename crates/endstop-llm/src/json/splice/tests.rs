//! Tests of changes of single values.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Changes, Object};

fn changed(text: &str, change: impl FnOnce(&mut Changes<'_>, &Object)) -> String {
    let (mut changes, root) = Changes::of(text.as_bytes()).unwrap();
    change(&mut changes, &root);
    String::from_utf8(changes.apply()).unwrap()
}

#[test]
fn a_value_is_set_and_nothing_else_changes() {
    for (text, want) in [
        (r#"{"n":1}"#, r#"{"n":9}"#),
        (r#" { "b" : 1.50e1 , "n" : [1, {"n":2}] } "#, r#" { "b" : 1.50e1 , "n" : 9 } "#),
        (r#"{"n":null,"x":"\u0041"}"#, r#"{"n":9,"x":"\u0041"}"#),
        (r#"{"n":1,"n":"}","\u006e":2}"#, r#"{"n":9,"n":9,"\u006e":9}"#),
        (r#"{"x":{"n":1}}"#, r#"{"x":{"n":1},"n":9}"#),
        ("{ \"x\":1\n}", "{ \"x\":1\n,\"n\":9}"),
        ("{}", r#"{"n":9}"#),
        ("{ \n }", "{ \n \"n\":9}"),
    ] {
        assert_eq!(changed(text, |changes, root| changes.set(root, "n", "9")), want);
    }
}

#[test]
fn a_value_one_level_down_is_set() {
    for (text, want) in [
        (r#"{"o":{"k":false,"m":1}}"#, r#"{"o":{"k":true,"m":1}}"#),
        (r#"{"o":{}}"#, r#"{"o":{"k":true}}"#),
        (r#"{"o":null,"z":1}"#, r#"{"o":{"k":true},"z":1}"#),
        (r#"{"o":{"m":1},"o":3}"#, r#"{"o":{"m":1,"k":true},"o":{"k":true}}"#),
        (r#"{"z":1}"#, r#"{"z":1,"o":{"k":true}}"#),
    ] {
        assert_eq!(changed(text, |changes, root| changes.set_inner(root, "o", "k", "true")), want);
    }
}

#[test]
fn several_changes_are_made_together() {
    let got = changed(r#"{"l":[ ],"t":"a","n":1}"#, |changes, root| {
        changes.add(root, "y", "1");
        changes.set(root, "n", "22");
        changes.add(root, "z", "2");
        let list = root.get("l").unwrap();
        assert!(changes.push(&list, "3") && changes.push(&list, "4"));
        assert!(changes.extend_text(&root.get("t").unwrap(), "\n\"é"));
        assert!(!changes.extend_text(&root.get("n").unwrap(), "x"));
        assert!(!changes.push(&root.get("n").unwrap(), "x"));
    });
    assert_eq!(got, r#"{"l":[ 3,4],"t":"a\n\"é","n":22,"y":1,"z":2}"#);
    let two = changed("{}", |changes, root| {
        changes.add(root, "a", "1");
        changes.add(root, "b", "2");
    });
    assert_eq!(two, r#"{"a":1,"b":2}"#);
    let list = changed(r#"{"l":[[1]]}"#, |changes, root| {
        assert!(changes.push(&root.get("l").unwrap(), "2"));
    });
    assert_eq!(list, r#"{"l":[[1],2]}"#);
}

#[test]
fn what_is_no_object_cannot_be_changed() {
    for body in [&b""[..], b"[]", b"{", b"null", b"{}x", b"{\"a\":1,}", b"\xff", b"\"{\""] {
        assert!(Changes::of(body).is_err(), "{body:?}");
    }
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(changed(&deep, |changes, root| changes.set(root, "a", "1")), r#"{"a":1}"#);
}

proptest! {
    #[test]
    fn changes_are_those_of_the_value(json in crate::garbage::json(), key in "[a-c]{1}") {
        let text = serde_json::to_string_pretty(&json).unwrap();
        let Ok((mut changes, root)) = Changes::of(text.as_bytes()) else {
            prop_assert!(!json.is_object());
            return Ok(());
        };
        let mut without = changes.clone();
        changes.set(&root, &key, "[1]");
        let got: Value = serde_json::from_slice(&changes.apply()).unwrap();
        without.remove(without.whole(), &[&key]);
        let left: Value = serde_json::from_slice(&without.apply()).unwrap();
        let mut want = json;
        want[&key] = json!([1]);
        prop_assert_eq!(&got, &want);
        want.as_object_mut().unwrap().remove(&key);
        prop_assert!(left == want || want == json!({}), "{left} {want}");
    }
}

#[test]
fn members_are_removed_and_nothing_else_changes() {
    for (text, want) in [
        (r#"{"a":1,"n":[2],"b":3}"#, r#"{"a":1,"b":3}"#),
        (r#"{ "n" : 1 , "a":2 }"#, r#"{ "a":2 }"#),
        (r#"{"n":1,"m":"},","n":2, "a":2}"#, r#"{ "a":2}"#),
        (r#"{"a":2 , "n":1}"#, r#"{"a":2}"#),
        (r#"{"a":2,"n":1,"m":{},"b":[],"m":0 }"#, r#"{"a":2,"b":[] }"#),
        (r#"{"a":2}"#, r#"{"a":2}"#),
        (r#"{"n":2}"#, r#"{"n":2}"#),
        ("{}", "{}"),
    ] {
        assert_eq!(changed(text, |changes, _| changes.remove(changes.whole(), &["n", "m"])), want);
    }
    let both = changed(r#"{"n":1,"a":[],"m":2}"#, |changes, root| {
        changes.remove(changes.whole(), &["n", "m"]);
        changes.add(root, "z", "9");
    });
    assert_eq!(both, r#"{"a":[],"z":9}"#);
}
