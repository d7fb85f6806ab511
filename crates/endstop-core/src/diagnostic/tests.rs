//! Tests of `diagnostic`.

use super::*;

#[test]
fn suggestions_are_near_names_only() {
    let known = ["steps", "cost", "tokens"];
    assert_eq!(did_you_mean("stesp", known).as_deref(), Some("did you mean `steps`?"));
    assert_eq!(did_you_mean("token", known).as_deref(), Some("did you mean `tokens`?"));
    assert_eq!(did_you_mean("weather", known), None);
}

#[test]
fn a_span_outside_the_text_still_renders() {
    let diagnostic = Diagnostic::new("broken", 90..99);
    assert!(diagnostic.render("é", "here", false).contains("broken"));
}

#[test]
fn distances_are_those_of_the_textbook() {
    let distance = |a: &str, b: &str| {
        let letters = |text: &str| text.chars().collect::<alloc::vec::Vec<_>>();
        edit_distance(&letters(a), &letters(b))
    };
    assert_eq!(distance("kitten", "sitting"), 3);
    assert_eq!(distance("raed", "read"), 1);
    assert_eq!(distance("gtp-5", "gpt-5"), 1);
    assert_eq!(distance("", "abc"), 3);
    assert_eq!(distance("abc", ""), 3);
    assert_eq!(distance("abc", "abc"), 0);
}
