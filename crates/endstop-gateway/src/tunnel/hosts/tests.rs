//! Tests of `hosts`.

use std::io::Read as _;

use regex::Regex;
use serde_json::Value;

use super::*;

/// An address of each provider of the price data, by its name there.
const SAMPLES: &[(&str, &str)] = &[
    ("anthropic", "https://api.anthropic.com/v1/messages"),
    ("arcee", "https://api.arcee.ai/v1"),
    ("avian", "https://api.avian.io/v1"),
    ("aws", "https://bedrock-runtime.eu-west-1.amazonaws.com/model/x/invoke"),
    ("azure", "https://mine.openai.azure.com/openai"),
    ("azure", "https://mine.cognitiveservices.azure.com/openai"),
    ("azure", "https://mine.services.ai.azure.com/models"),
    ("baseten", "https://inference.baseten.co/v1"),
    ("cerebras", "https://api.cerebras.ai/v1"),
    ("cohere", "https://api.cohere.ai/v1"),
    ("cohere", "https://api.cohere.com/v2"),
    ("cursor", "https://api.cursor.com/v0"),
    ("deepseek", "https://api.deepseek.com/v1"),
    ("doubleword", "https://api.doubleword.ai/v1"),
    ("elevenlabs", "https://api.elevenlabs.io/v1"),
    ("elevenlabs", "https://api.us.elevenlabs.io/v1"),
    ("elevenlabs", "https://api.eu.residency.elevenlabs.io/v1"),
    ("elevenlabs", "https://api.in.residency.elevenlabs.io/v1"),
    ("elevenlabs", "https://api.sg.residency.elevenlabs.io/v1"),
    ("fireworks", "https://api.fireworks.ai/inference/v1"),
    ("github-copilot", "https://api.githubcopilot.com/chat/completions"),
    ("google", "https://generativelanguage.googleapis.com/v1beta"),
    ("google", "https://us-central1-aiplatform.googleapis.com/v1"),
    ("groq", "https://api.groq.com/openai/v1"),
    ("meta", "https://api.meta.ai/v1"),
    ("minimax", "https://api.minimax.io/v1"),
    ("minimax", "https://api.minimaxi.com/v1"),
    ("mistral", "https://api.mistral.ai/v1"),
    ("moonshotai", "https://api.moonshot.ai/v1"),
    ("moonshotai", "https://api.moonshot.cn/v1"),
    ("novita", "https://api.novita.ai/v3/openai"),
    ("openai", "https://api.openai.com/v1"),
    ("openai-decisions", "https://api.openai.com/v1"),
    ("openrouter", "https://openrouter.ai/api/v1"),
    ("openrouter", "https://api.openrouter.ai/v1"),
    ("ovhcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1"),
    ("perplexity", "https://api.perplexity.ai/chat/completions"),
    ("quicksilverpro", "https://api.quicksilverpro.io/v1"),
    ("together", "https://api.together.xyz/v1"),
    ("typesafe", "https://api.typesafe.ai/v1"),
    ("voyageai", "https://api.voyageai.com/v1"),
    ("x-ai", "https://api.x.ai/v1"),
    ("zai", "https://api.z.ai/api/paas/v4"),
    ("zhipuai", "https://open.bigmodel.cn/api/paas/v4"),
];

/// Providers of the price data whose hosts are not listed, each with such a host and the reason.
const NOT_LISTED: &[(&str, &str, &str)] = &[
    (
        "cloudflare",
        "https://api.cloudflare.com/client/v4/accounts/x/ai/v1",
        "it serves the whole API",
    ),
    (
        "databricks",
        "https://x.cloud.databricks.com/serving-endpoints",
        "workspaces with data and jobs",
    ),
    ("modal", "https://x--y.modal.run/v1", "apps of anyone"),
];

fn host_of(address: &str) -> &str {
    address.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap()
}

/// The providers of the price data: name, and the pattern of their addresses.
fn priced() -> Vec<(String, Regex)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../endstop-price/data/genai-prices.json.gz");
    let mut text = String::new();
    let mut packed = flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap());
    packed.read_to_string(&mut text).unwrap();
    let data: Value = serde_json::from_str(&text).unwrap();
    let providers = data["providers"].as_array().unwrap().iter();
    let providers = providers.map(|provider| {
        let pattern = provider["api_pattern"].as_str().unwrap();
        let pattern = Regex::new(&format!("^(?:{pattern})")).unwrap();
        (provider["id"].as_str().unwrap().to_owned(), pattern)
    });
    providers.collect()
}

#[test]
fn each_provider_of_the_price_data_has_a_listed_host_or_a_reason() {
    let priced = priced();
    assert!(priced.len() > 40, "{}", priced.len());
    for (id, pattern) in &priced {
        // The router of Hugging Face has a path for each of them.
        let router = id.strip_prefix("huggingface_");
        let router = router.map(|name| format!("https://router.huggingface.co/{name}"));
        let samples = SAMPLES.iter().filter(|(known, _)| known == id).map(|(_, it)| *it);
        let samples: Vec<&str> = samples.chain(router.as_deref()).collect();
        for address in &samples {
            assert!(pattern.is_match(address), "{id}: {address} is none of its addresses");
            let host = host_of(address);
            assert!(provider(host).is_some(), "{id}: the host {host} is not listed");
        }
        let reason = NOT_LISTED.iter().find(|(known, ..)| known == id);
        if let Some((_, address, reason)) = reason {
            assert!(pattern.is_match(address) && !reason.is_empty(), "{id}: {address}");
            assert_eq!(provider(host_of(address)), None, "{id}");
        }
        assert_ne!(
            samples.is_empty(),
            reason.is_none(),
            "{id} needs a listed host in SAMPLES, or a reason in NOT_LISTED"
        );
    }
    let is_priced = |id: &&str| priced.iter().any(|(known, _)| known == id);
    let named = SAMPLES.iter().map(|(id, _)| *id);
    let gone: Vec<&str> =
        named.chain(NOT_LISTED.iter().map(|(id, ..)| *id)).filter(|id| !is_priced(id)).collect();
    assert!(gone.is_empty(), "not in the price data: {gone:?}");
}

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
        ("api.eu.residency.elevenlabs.io", "ElevenLabs"),
        ("dashscope-intl.aliyuncs.com", "Alibaba Cloud"),
        ("coding.dashscope.aliyuncs.com", "Alibaba Cloud"),
        ("api5.cursor.sh", "Cursor"),
        ("api.cline.bot", "Cline"),
        ("api.kimi.com", "Kimi"),
        ("portal.qwen.ai", "Qwen"),
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
        "authenticator.cursor.sh",
        "api2.cursor.sh",
        "opencode.ai",
        "app.cline.bot",
        "chat.qwen.ai",
        "oss.aliyuncs.com",
        "company.azure-api.net",
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
