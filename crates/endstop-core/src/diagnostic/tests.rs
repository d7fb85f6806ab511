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
