//! Tests of `clause`.

use super::*;

fn clause(json: &str) -> Clause {
    serde_json::from_str::<Clause>(json).unwrap().lowered()
}

#[test]
fn each_rule_matches_as_its_name_says() {
    for (json, yes, no) in [
        (r#"{"starts_with":"GPT-5"}"#, "gpt-5-mini", "x-gpt-5"),
        (r#"{"ends_with":":free"}"#, "a/b:free", "free"),
        (r#"{"contains":"claude"}"#, "anthropic.claude-3", "clause"),
        (r#"{"equals":"meta"}"#, "meta", "meta-llama"),
        (r#"{"regex":"^o[134]"}"#, "o3-mini", "to3"),
        (r#"{"or":[{"equals":"a"},{"equals":"b"}]}"#, "b", "c"),
        (r#"{"and":[{"starts_with":"a"},{"ends_with":"z"}]}"#, "a-z", "a-y"),
        (r#"{"regex":"^(?![^/]+/)(?:labs-)?(?:mi|code)stral"}"#, "labs-mistral", "x/mistral"),
        (r#"{"regex":"^(?!.*-[tT][tT][sS](?:$|-))"}"#, "gemini-flash", "gemini-tts"),
    ] {
        assert!(clause(json).is_match(yes), "{json} {yes}");
        assert!(!clause(json).is_match(no), "{json} {no}");
    }
}

#[test]
fn a_pattern_that_cannot_be_compiled_is_named_and_matches_nothing() {
    let clause = clause(r#"{"or":[{"equals":"a"},{"regex":"(?<=x)y"}]}"#);
    assert_eq!(clause.bad_pattern(), Some("(?<=x)y"));
    assert!(!clause.is_match("xy"));
}
