//! Models by the names that the command takes.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use endstop::model::{OpenModelError, OpenOptions, PROVIDERS, open};

fn without_keys() -> OpenOptions {
    OpenOptions { variable: |_| None, ..OpenOptions::default() }
}

fn error(name: &str) -> String {
    open(name, without_keys()).expect_err("an error").to_string()
}

#[test]
fn names_that_need_no_provider_are_opened_by_every_build() {
    assert_eq!(open("scripted", without_keys()).expect("a model").name(), "scripted");
}

#[cfg(feature = "transcripts")]
#[test]
fn a_transcript_answers_where_the_readers_are_built_in() {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../endstop-transcript/data/sample/claude-code-session.jsonl"
    );
    let replay = open(&format!("replay:{sample}"), without_keys()).expect("a model");
    assert!(replay.name().starts_with("claude"), "{}", replay.name());
    assert!(error("replay:no-such-file").starts_with("no-such-file: cannot be read: "));
}

#[cfg(not(feature = "transcripts"))]
#[test]
fn a_build_without_readers_says_so() {
    assert!(error("replay:file").contains("--features transcripts"));
}

#[test]
fn an_unknown_provider_is_told_with_the_nearest() {
    let text = error("antropic/claude-x");
    let start = "unknown provider `antropic`, did you mean `anthropic`?; known are `openai`, ";
    assert!(text.starts_with(start), "{text}");
    assert!(error("meta-llama/llama").starts_with("unknown provider `meta-llama`; known are"));
}

#[test]
fn a_name_without_a_model_says_what_a_name_is() {
    for name in ["", " ", "openai/", "openai/ "] {
        let text = error(name);
        assert!(text.contains("names no model; write `provider/model`"), "{text}");
    }
}

#[test]
fn every_provider_says_what_it_is_and_where() {
    for row in PROVIDERS {
        assert!(!row.about.is_empty() && row.server().ends_with('/'), "{}", row.name);
    }
}

#[test]
fn the_page_of_names_has_every_provider() {
    let page = include_str!("../../../docs/models.md");
    for row in PROVIDERS {
        let names = |names: &[&str]| {
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            if quoted.is_empty() { String::new() } else { format!("{} ", quoted.join(", ")) }
        };
        let keys = if row.keys.is_empty() { "none ".to_owned() } else { names(row.keys) };
        let (name, aliases) = (names(&[row.name]), names(row.aliases));
        let elsewhere = row.base_url.map(|url| names(&[url])).unwrap_or_default();
        let line = format!("| {name}| {aliases}| {keys}| {elsewhere}|");
        assert!(page.contains(&line), "{line}");
    }
}

#[cfg(not(feature = "models"))]
#[test]
fn a_build_without_drivers_says_how_to_build_them() {
    let error = open("openai/gpt-5.2", without_keys()).expect_err("an error");
    assert!(matches!(error, OpenModelError::WithoutDrivers { .. }));
    assert!(error.to_string().contains("build with `--features models`"));
}

#[cfg(feature = "models")]
mod with_drivers {
    use super::*;

    #[test]
    fn a_missing_key_names_its_variables() {
        assert_eq!(error("openai/gpt-5.2"), "no key for `openai`: set `OPENAI_API_KEY`");
        let gemini = error("gemini-2.5-pro");
        assert_eq!(gemini, "no key for `google`: set `GEMINI_API_KEY` or `GOOGLE_API_KEY`");
        let missing = open("claude-sonnet-4-5", without_keys()).expect_err("an error");
        assert!(
            matches!(missing, OpenModelError::MissingKey { provider, .. } if provider == "anthropic")
        );
    }

    #[test]
    fn names_tell_their_provider() {
        for (name, provider, model) in [
            ("openai/gpt-5.2", "openai", "gpt-5.2"),
            ("gpt-4o-mini", "openai", "gpt-4o-mini"),
            ("openai-chat/gpt-5.2", "openai", "gpt-5.2"),
            ("anthropic/claude-x", "anthropic", "claude-x"),
            ("Claude/claude-x", "anthropic", "claude-x"),
            ("gemini/gemini-3-pro", "google", "gemini-3-pro"),
            ("openrouter/openai/gpt-5.2", "openrouter", "openai/gpt-5.2"),
            ("xai/grok-4", "x-ai", "grok-4"),
            ("grok-4", "x-ai", "grok-4"),
            ("ollama/qwen3:8b", "ollama", "qwen3:8b"),
            ("qwen3", "ollama", "qwen3"),
        ] {
            let options = OpenOptions {
                variable: |name| name.ends_with("_KEY").then(|| "sk".to_owned()),
                ..OpenOptions::default()
            };
            let opened = open(name, options).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((opened.provider(), opened.name()), (provider, model), "{name}");
        }
        assert!(open("ollama/qwen3", without_keys()).is_ok(), "it needs no key");
    }

    #[test]
    fn base_urls_are_checked_and_not_shown() {
        let opened = |url: &str| {
            let options = OpenOptions { base_url: Some(url.to_owned()), ..without_keys() };
            open("openai/m", options).map(|model| model.name().to_owned())
        };
        assert_eq!(opened("http://localhost:8000/v1").expect("a model"), "m", "without a key");
        for (url, problem) in [
            ("localhost:8000", "has to begin with"),
            ("http://", "names no host"),
            ("https://user:secret@host/v1", "holds a password"),
            ("https://host/v1?key=secret", "has a query"),
        ] {
            let text = opened(url).expect_err("an error").to_string();
            assert!(text.contains(problem) && !text.contains("secret"), "{text}");
        }
    }
}
