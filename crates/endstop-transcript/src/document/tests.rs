//! The parts handed over of a document, and the reports of its faults.

use std::io::{self, Read};

use super::*;

/// Elements, keys next to them, and warnings with their lines.
type Handed = (Vec<String>, Vec<(WarningKind, Option<u64>)>);

fn handed(text: &str, limit: usize) -> Handed {
    handed_at(&["list"], text, limit)
}

fn handed_at(list: &[&str], text: &str, limit: usize) -> Handed {
    let part = Part::bytes("x.json", text.as_bytes().to_vec());
    let warnings = Warnings::default();
    let mut elements = Vec::new();
    let wanted = Wanted { list, beside: &["a", "b"] };
    read(&part, wanted, limit, &warnings, &mut |element| {
        elements.push(match element {
            Element::Item(item) => item.get().to_owned(),
            Element::Beside(key, value) => format!("{key}={}", value.get()),
        });
    });
    let warnings = warnings.into_list();
    (elements, warnings.iter().map(|warning| (warning.kind, warning.line)).collect())
}

#[test]
fn elements_and_wanted_keys_are_handed_over_in_order() {
    let text = r#" { "x": {"list": ["\"]"], "a": 0}, "b" : [1, "]"], "list": [ {"y": "}\\"} , 1.5,"z",null ],
        "a":true, "a":false, "empty":[], "c": -1 } "#;
    let elements = ["b=[1, \"]\"]", "{\"y\": \"}\\\\\"}", "1.5", "\"z\"", "null", "a=true"];
    assert_eq!(handed(text, 1_000), (elements.map(str::to_owned).to_vec(), Vec::new()));
    let bare = handed("\u{feff}[[],\n{}]\n", 1_000);
    assert_eq!(bare, (vec!["[]".to_owned(), "{}".to_owned()], Vec::new()));
    for nothing in ["[]", "{}", "{\"list\":[]}"] {
        assert_eq!(handed(nothing, 1_000), (Vec::new(), Vec::new()), "{nothing}");
    }
}

#[test]
fn a_path_leads_through_lists_of_objects() {
    let document = r#"{"l":[{"a":7,"m":[1,2],"l":[8]},{},9,{"m":{"m":[8]}},{"m":[[3]]}],"a":0}"#;
    let elements = ["1", "2", "[3]", "a=0"].map(str::to_owned).to_vec();
    assert_eq!(handed_at(&["l", "m"], document, 1_000), (elements, Vec::new()));
    let several = r#"[{"l":[{"m":[1]}]},2,{"l":[{"m":[3]},{"m":[4]}]}]"#;
    let elements = ["1", "3", "4"].map(str::to_owned).to_vec();
    assert_eq!(handed_at(&["l", "m"], several, 1_000), (elements, Vec::new()));
}

#[test]
fn a_first_look_ends_where_all_is_found() {
    let found = |text: &'static str| {
        let mut found = Vec::new();
        let part = Part::bytes("x.json", text.as_bytes());
        look_for(&part, &["a", "b"], &mut |key, value| {
            found.push(format!("{key}={}", value.get()))
        });
        found
    };
    assert_eq!(found(r#"{"list":[{"a":0}],"b":1,"a":2,"a":3}"#), ["b=1", "a=2"]);
    assert_eq!(found(r#"{"a":1,"b":2,"#), ["a=1", "b=2"]);
    assert!(found(r#"[{"a":1}]"#).is_empty());
}

#[test]
fn every_key_of_an_object_is_handed_over() {
    let members = |text: &str| {
        let part = Part::bytes("x.json", text.as_bytes().to_vec());
        let (warnings, mut members) = (Warnings::default(), Vec::new());
        each_member(&part, &warnings, &mut |element| {
            if let Element::Beside(key, value) = element {
                members.push(format!("{key}={}", value.get()));
            }
        });
        (members, warnings.into_list().iter().map(|warning| warning.kind).collect::<Vec<_>>())
    };
    let all = ["a=[1]", "\"=2", "a={}"].map(str::to_owned).to_vec();
    assert_eq!(members(r#"{"a":[1], "\"":2,"a" : {}}"#), (all.clone(), vec![]));
    assert_eq!(
        members(r#"{"a":[1],"\"":2,"a":{},"b":[3"#),
        (all.clone(), vec![WarningKind::Truncated])
    );
    let damaged = members(r#"{"a":[1],"\x":0,"\"":2,"c":{"d" 3},"a":{}}"#);
    assert_eq!(damaged, (all, vec![WarningKind::Malformed]));
    assert_eq!(members("{}"), (vec![], vec![]));
    for other in ["[{\"a\":1}]", "{\"a\":1,}", "{1:2}", "{\"a\":1}}"] {
        assert_eq!(members(other).1, [WarningKind::Malformed], "{other}");
    }
}

#[test]
fn every_cut_is_told_from_damage() {
    let text = "{\"a\": [1, {\"k\": \"v}\"}],\n \"list\": [{\"n\": [1]}, tru, 2, \"s\\\"\"]}";
    for cut in 0..text.len() {
        let (_, warnings) = handed(&text[..cut], 1_000);
        assert_eq!(warnings.last().map(|w| w.0), Some(WarningKind::Truncated), "{cut}");
    }
    for damaged in ["{\"list\": [1}", "[1 2]", "{\"a\" 1}", "[1]]", "[1],[]", "{,}", "[1:]"] {
        let (_, warnings) = handed(damaged, 1_000);
        assert_eq!(warnings, [(WarningKind::Malformed, Some(1))], "{damaged}");
    }
    assert_eq!(handed("[\"x\n\"]", 1_000).1, [(WarningKind::Malformed, Some(2))]);
    let (_, warnings) = handed("[1,\n2 3, 4", 1_000);
    assert_eq!(warnings, [(WarningKind::Truncated, Some(2))]);
    assert_eq!(handed("7", 1_000).1, [(WarningKind::Truncated, Some(1))]);
}

#[test]
fn an_element_that_is_no_json_costs_no_other() {
    let (elements, warnings) = handed("[1,\n{\"a\" \"b\"},\n2]", 1_000);
    assert_eq!(elements, ["1", "2"]);
    assert_eq!(warnings, [(WarningKind::Malformed, Some(2))]);
}

#[test]
fn an_element_beyond_the_limit_is_skipped() {
    let large = format!("[1,\"{}\",2]", "x".repeat(2_000_000));
    let (elements, warnings) = handed(&large, 1_000_000);
    assert_eq!(elements, ["1", "2"]);
    assert_eq!(warnings, [(WarningKind::TooLarge, Some(1))]);
    assert_eq!(handed(&large, 4_000_000).0.len(), 3);
}

#[test]
fn pieces_of_any_size_read_the_same() {
    /// Returns a byte at a time.
    struct Slowly<'b>(&'b [u8]);
    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }
    let text = b"\xef\xbb\xbf {\"list\":[{\"a\":\"\\\\\\\"}\"},12.5]}\n";
    let mut scanner = Scanner::new(Box::new(Slowly(text)), 100).unwrap();
    scanner.expect(b'{').unwrap();
    assert_eq!(scanner.keep().unwrap(), Value::Kept(b"\"list\""));
    scanner.expect(b':').unwrap();
    scanner.expect(b'[').unwrap();
    assert_eq!(scanner.keep().unwrap(), Value::Kept(b"{\"a\":\"\\\\\\\"}\"}"));
    scanner.expect(b',').unwrap();
    assert_eq!(scanner.keep().unwrap(), Value::Kept(b"12.5"));
    scanner.expect(b']').unwrap();
    scanner.expect(b'}').unwrap();
    scanner.end().unwrap();
    assert_eq!((scanner.last_byte(), scanner.line()), (Some(b'}'), 2));
}
