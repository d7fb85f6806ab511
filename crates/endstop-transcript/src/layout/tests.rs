//! Tests of `layout`.

use super::*;

#[test]
fn lines_are_told_from_documents() {
    for (text, layout) in [
        ("", Layout::Document),
        ("{\"a\":[1", Layout::Document),
        ("{\n \"a\": [\n  {\"b\":1}\n ]\n}\n", Layout::Document),
        ("[\n{\"a\":1},\n{\"a\":2}\n]", Layout::Document),
        ("\n[{\"a\":1}]\n", Layout::Document),
        ("{\"a\":[1]}", Layout::OneLine),
        ("{\"a\":[1]} \n{", Layout::Lines),
        ("{\n\"a\":1}\n{\n\"a\":2}", Layout::Document),
        ("\u{feff}{\"a\":[1]}\n\n", Layout::OneLine),
        ("{\"a\":1}\n{\"a\":", Layout::Lines),
        ("{\"a\":\n\n{\"a\":2}\n", Layout::Lines),
        ("{\"a\":[1,\n2]}\n", Layout::Document),
        ("{\"a\":[\n{\"a\":1}", Layout::Document),
        ("no\n{}", Layout::Lines),
        ("{\"a\":1", Layout::Document),
        ("{\"a\n{}", Layout::Lines),
    ] {
        let part = Part::bytes("x", text.as_bytes().to_vec());
        assert_eq!(Layout::of(&part), layout, "{text}");
    }
}

#[test]
fn a_line_longer_than_any_line_may_be_is_a_document() {
    let open = || -> std::io::Result<Box<dyn Read>> {
        let middle = std::io::repeat(b'1').take(crate::MAX_LINE_BYTES as u64 + 1);
        Ok(Box::new((&b"{\"a\":\""[..]).chain(middle).chain(&b"\"}"[..])))
    };
    assert_eq!(Layout::of(&Part::stream("x", open)), Layout::OneLine);
}
