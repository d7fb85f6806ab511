//! Tests of `label`.

use super::*;

#[test]
fn a_label_is_found_and_made_printable() {
    let long = format!("{{\"label\":\"{}\"}}", "ä".repeat(300));
    let cut = format!("{{\"label\":\"kept\",\"rest\":\"{}\"}}", "ü".repeat(MAX_LABEL_SEARCH_BYTES));
    let late =
        format!("{{\"rest\":\"{}\",\"label\":\"late\"}}", "x".repeat(MAX_LABEL_SEARCH_BYTES));
    let cases: [(&str, &str); 9] = [
        (r#"{"label":"count to 3"}"#, "count to 3"),
        (r#"{"a":{"label":"inner"},"label":"outer","b":1}"#, "outer"),
        (r#"{"label":"a\nb\u001b[2J"}"#, "a b [2J"),
        (r#"{"label":7}"#, ""),
        (r#"["label"]"#, ""),
        ("not JSON", ""),
        ("", ""),
        (&cut, "kept"),
        (&late, ""),
    ];
    for (state, expected) in cases {
        assert_eq!(of_state(state), expected, "{state:.60}");
    }
    assert_eq!(of_state(&long), "ä".repeat(MAX_LABEL_CHARS));
}
