//! Tests of `names`.

use super::*;

#[test]
fn names_are_unique_and_found_in_any_case() {
    let all = PROVIDERS.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases));
    let mut names: Vec<&str> = all.copied().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(known_provider("Gemini").map(|row| row.name), Some("google"));
    assert_eq!(known_provider("gem"), None);
}

#[test]
fn the_nearest_name_is_near() {
    for (typed, nearest) in [
        ("openia", Some("openai")),
        ("antropic", Some("anthropic")),
        ("open-router", Some("openrouter")),
        ("groqq", Some("groq")),
        ("meta-llama", None),
        ("", None),
    ] {
        assert_eq!(nearest_provider(typed), nearest, "{typed}");
    }
}
