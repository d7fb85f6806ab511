//! The place of a problem in the text of a file.

use super::*;

#[test]
fn a_problem_is_at_the_value_of_its_key() {
    let text = "# budgets\n[budget.me]\nlimit = \"$5 per day\"\nwarn = \"200%\"\n";
    let at = |name: &str, key: &str| span_of(text, name, key).and_then(|span| text.get(span));
    assert_eq!(at("me", "warn"), Some("\"200%\""));
    assert_eq!(at("me", "limit"), Some("\"$5 per day\""));
    assert_eq!(at("me", "parent"), Some("me"), "a key that is absent: the table");
    assert_eq!(at("team", "limit"), None);
    assert_eq!(span_of("[budget", "me", "limit"), None);
}
