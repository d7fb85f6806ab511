//! Tests of `hosts`.

use super::*;

fn provider(host: &str) -> Option<&'static str> {
    row_of(&normalized(host)).map(|(_, provider)| provider)
}

#[test]
fn hosts_of_model_providers_are_found_however_they_are_written() {
    for (host, name) in [
        ("api.openai.com", "OpenAI"),
        ("API.OpenAI.com", "OpenAI"),
        ("api.openai.com.", "OpenAI"),
        ("api.openai.com..", "OpenAI"),
        ("eu.api.openai.com", "OpenAI"),
        ("chatgpt.com", "OpenAI"),
        ("api.anthropic.com", "Anthropic"),
        ("generativelanguage.googleapis.com", "Google"),
        ("cloudcode-pa.googleapis.com", "Google"),
        ("us-central1-aiplatform.googleapis.com", "Google Vertex AI"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "Amazon Bedrock"),
        ("api.githubcopilot.com", "GitHub Copilot"),
        ("api.business.githubcopilot.com", "GitHub Copilot"),
        ("openrouter.ai", "OpenRouter"),
        ("mine.openai.azure.com", "Azure OpenAI"),
    ] {
        assert_eq!(provider(host), Some(name), "{host}");
    }
}

#[test]
fn other_hosts_are_not() {
    for host in [
        "",
        "openai.com",
        "auth.openai.com",
        "console.anthropic.com",
        "xapi.openai.com",
        "api.openai.com.example",
        "-aiplatform.googleapis.com",
        "storage.googleapis.com",
        "bedrock-runtime..amazonaws.com",
        "bedrock-runtime.a.b.amazonaws.com",
        "s3.eu-west-1.amazonaws.com",
        "github.com",
        "127.0.0.1",
        "[::1]",
        "localhost",
    ] {
        assert_eq!(provider(host), None, "{host}");
    }
}

#[test]
fn each_row_is_one_pattern_as_it_is_compared() {
    let mut seen = std::collections::BTreeSet::new();
    for (pattern, provider) in model_hosts() {
        assert!(seen.insert(pattern), "`{pattern}` is listed twice");
        assert_eq!(normalized(pattern), pattern);
        assert!(pattern.matches('*').count() <= 1 && !provider.is_empty(), "{pattern}");
        let sample = pattern.replace('*', "x");
        assert!(matches(pattern, &sample), "{pattern}");
    }
}
