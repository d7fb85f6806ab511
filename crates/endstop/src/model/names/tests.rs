//! Tests of `names`.

use super::*;
use crate::model::ProviderApi;

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

/// [`ProviderApi`] also lists the hosts of these servers, by which errors are charged.
#[test]
fn each_server_is_the_providers_own_api() {
    for row in PROVIDERS.iter().filter(|row| row.name != "ollama") {
        let host = row.server.strip_prefix("https://").and_then(|rest| rest.split('/').next());
        let api = ProviderApi::at(host.unwrap()).map(|api| api.provider);
        let name = if row.name.starts_with("openai") { "openai" } else { row.name };
        assert_eq!(api, Some(name), "{}", row.server);
    }
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
    assert_eq!(distance("kitten", "sitting"), 3);
    assert_eq!(distance("", "abc"), 3);
}
