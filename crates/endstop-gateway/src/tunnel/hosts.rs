//! The hosts of model providers, each a row. A host here serves model calls, and little else that an agent needs.
//!
//! Hosts that serve much besides are left out (`api.cloudflare.com`, workspaces of Databricks, apps on Modal).

use std::net::IpAddr;

/// A pattern, and the provider it belongs to. `*` stands for one label, or a part of one, never for a dot.
pub(super) const MODEL_HOSTS: [(&str, &str); 50] = [
    ("api.openai.com", "OpenAI"),
    ("*.api.openai.com", "OpenAI"),
    ("chatgpt.com", "OpenAI"),
    ("*.openai.azure.com", "Azure OpenAI"),
    ("*.services.ai.azure.com", "Azure AI Foundry"),
    ("*.cognitiveservices.azure.com", "Azure AI"),
    ("api.anthropic.com", "Anthropic"),
    ("generativelanguage.googleapis.com", "Google"),
    ("cloudcode-pa.googleapis.com", "Google"),
    ("daily-cloudcode-pa.googleapis.com", "Google"),
    ("aiplatform.googleapis.com", "Google Vertex AI"),
    ("*-aiplatform.googleapis.com", "Google Vertex AI"),
    ("aiplatform.*.rep.googleapis.com", "Google Vertex AI"),
    ("bedrock-runtime.*.amazonaws.com", "Amazon Bedrock"),
    ("bedrock-runtime-fips.*.amazonaws.com", "Amazon Bedrock"),
    ("bedrock-mantle.*.api.aws", "Amazon Bedrock"),
    ("api.githubcopilot.com", "GitHub Copilot"),
    ("api.*.githubcopilot.com", "GitHub Copilot"),
    ("openrouter.ai", "OpenRouter"),
    ("api.openrouter.ai", "OpenRouter"),
    ("api.arcee.ai", "Arcee"),
    ("api.avian.io", "Avian"),
    ("inference.baseten.co", "Baseten"),
    ("api.cerebras.ai", "Cerebras"),
    ("api.cohere.ai", "Cohere"),
    ("api.cohere.com", "Cohere"),
    ("api.deepseek.com", "DeepSeek"),
    ("api.doubleword.ai", "Doubleword"),
    ("api.fireworks.ai", "Fireworks"),
    ("api.groq.com", "Groq"),
    ("router.huggingface.co", "Hugging Face"),
    ("api.meta.ai", "Meta"),
    ("api.minimax.io", "MiniMax"),
    ("api.minimaxi.com", "MiniMax"),
    ("api.mistral.ai", "Mistral"),
    ("codestral.mistral.ai", "Mistral"),
    ("api.moonshot.ai", "Moonshot"),
    ("api.moonshot.cn", "Moonshot"),
    ("api.novita.ai", "Novita"),
    ("oai.endpoints.kepler.ai.cloud.ovh.net", "OVHcloud"),
    ("api.perplexity.ai", "Perplexity"),
    ("api.quicksilverpro.io", "QuickSilver Pro"),
    ("api.together.xyz", "Together"),
    ("api.typesafe.ai", "Typesafe"),
    ("api.voyageai.com", "Voyage AI"),
    ("api.x.ai", "xAI"),
    ("*.api.x.ai", "xAI"),
    ("api.z.ai", "Z.ai"),
    ("open.bigmodel.cn", "Zhipu AI"),
    ("api.elevenlabs.io", "ElevenLabs"),
];

/// Returns the patterns of model providers' hosts, each with its provider. `*` stands for one label, or a part of one.
///
/// ```
/// assert!(endstop_gateway::model_hosts().any(|(host, _)| host == "api.anthropic.com"));
/// ```
pub fn model_hosts() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODEL_HOSTS.into_iter()
}

/// Returns the provider of a host, if that is one of [`model_hosts`].
///
/// ```
/// assert_eq!(endstop_gateway::model_provider("API.OpenAI.com."), Some("OpenAI"));
/// assert_eq!(endstop_gateway::model_provider("127.0.0.1"), None);
/// ```
#[must_use]
pub fn model_provider(host: &str) -> Option<&'static str> {
    row_of(&normalized(host)).map(|(_, provider)| provider)
}

/// Returns a host as it is compared: in lower case, without brackets and the dots at its end.
pub(super) fn normalized(host: &str) -> String {
    let host = host.trim_end_matches('.');
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.to_ascii_lowercase()
}

/// Returns the row of a [normalized] host. An IP address has none.
pub(super) fn row_of(host: &str) -> Option<(&'static str, &'static str)> {
    if host.parse::<IpAddr>().is_ok() {
        return None;
    }
    MODEL_HOSTS.into_iter().find(|(pattern, _)| matches(pattern, host))
}

/// Whether a [normalized] host is one of a pattern.
pub(super) fn matches(pattern: &str, host: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == host };
    let rest = host.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    rest.is_some_and(|middle| !middle.is_empty() && !middle.contains('.'))
}

#[cfg(test)]
mod tests;
