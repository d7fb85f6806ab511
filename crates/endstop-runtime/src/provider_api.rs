//! The providers of models, each a row: its hosts, its own API, which of its error responses it charges for, and how fast
//! it makes output.
//!
//! Read in November 2026. Google's billing page says that requests with status 400 or 500 are not charged, and
//! OpenRouter's page "Zero Completion Insurance" that it charges for no response without output, whatever the provider
//! behind it charges. The FAQ of Azure OpenAI says that it charges for requests that were processed, such as one that its
//! content filter refused with status 400. The others publish nothing about errors: they are taken to charge for output
//! and what led to it.
//!
//! The rates of output bound what a stream can have made when it is closed. They are twice the fastest that is published,
//! because published rates are averages. Cerebras names about 3,000 tokens a second for gpt-oss-120b (its model catalog),
//! OpenAI more than 1,000 for GPT-5.3-Codex-Spark (its announcement), Groq 1,000 for gpt-oss-20b (its list of models).
//! Artificial Analysis measures at most 350 for models of Anthropic and Google. OpenRouter passes requests on to Cerebras
//! too.

use crate::model_error::{ErrorBilling, FAILED_STATUSES};

/// A provider of models.
///
/// ```
/// use endstop_runtime::MODEL_PROVIDERS;
///
/// let provider_at = |host| MODEL_PROVIDERS.iter().find(|it| it.hosts.contains(&host));
/// assert_eq!(provider_at("chatgpt.com").map(|it| it.name), Some("OpenAI"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelProvider {
    /// The name that people know it by.
    pub name: &'static str,
    /// Patterns of the hosts that serve model calls, and little else that an agent needs. `*` stands for one label, or a
    /// part of one, never for a dot.
    pub hosts: &'static [&'static str],
    /// The provider's own API. `None` if nothing more is known of it than its hosts.
    pub api: Option<ProviderApi>,
}

/// The signs of a provider's own API, and which of its error responses are free.
///
/// ```
/// use endstop_runtime::{ErrorBilling, ProviderApi};
///
/// let openai = ProviderApi::at("eu.api.openai.com").unwrap();
/// assert_eq!((openai.provider, openai.server), ("openai", Some("https://api.openai.com/v1/")));
/// assert_eq!(openai.billing(503, true, b""), ErrorBilling::Free);
/// // A proxy of the provider's, in no shape of the API.
/// assert_eq!(openai.billing(503, false, b"<html>"), ErrorBilling::Unknown);
/// assert!(ProviderApi::at("llm.example.com").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderApi {
    /// The provider, as prices name it.
    pub provider: &'static str,
    /// Hosts, and the ends of other hosts after a dot. Empty for a provider on the user's machine.
    pub domains: &'static [&'static str],
    /// The address of its server, up to where the paths of the API begin. `None` if each customer has another one.
    pub server: Option<&'static str>,
    /// The most output tokens that it makes in a second.
    pub fastest_output: u64,
    /// Statuses of error responses in the shape of the API that are free, other than those of refused requests.
    pub free: &'static [u16],
    /// Statuses of refused requests that are charged if the response has the text.
    pub charged: Option<(u16, &'static str)>,
    /// The statement of the provider; empty if there is none.
    pub source: &'static str,
}

/// The status assumed for an error without one.
const FAILED_STATUS: u16 = 500;

/// Output tokens a second of a provider for which no rate is known: above what GPUs make of any large model.
const USUAL_OUTPUT: u64 = 1_000;

/// A provider of which only hosts are known.
const fn at(name: &'static str, hosts: &'static [&'static str]) -> ModelProvider {
    ModelProvider { name, hosts, api: None }
}

impl ModelProvider {
    /// The row with a separate API.
    const fn with(self, api: ProviderApi) -> Self {
        Self { api: Some(api), ..self }
    }
}

const fn own(provider: &'static str, domains: &'static [&'static str]) -> ProviderApi {
    ProviderApi {
        provider,
        domains,
        server: None,
        fastest_output: USUAL_OUTPUT,
        free: FAILED_STATUSES,
        charged: None,
        source: "",
    }
}

impl ProviderApi {
    const fn served_at(self, server: &'static str) -> Self {
        Self { server: Some(server), ..self }
    }

    const fn makes(self, fastest_output: u64) -> Self {
        Self { fastest_output, ..self }
    }
}

/// The providers that are known. Hosts that serve much besides are left out: `api.cloudflare.com`, workspaces of
/// Databricks, apps on Modal, and `*.azure-api.net`, behind which companies publish any API of theirs. So are hosts of agent
/// programs that their web pages or logins need too: `opencode.ai` and `api2.cursor.sh`. `api.cline.bot` is listed although
/// it is Cline's login, because its model calls have no other host.
pub static MODEL_PROVIDERS: &[ModelProvider] = &[
    at("OpenAI", &["api.openai.com", "*.api.openai.com", "chatgpt.com"]).with(own("openai", &["api.openai.com"]).served_at("https://api.openai.com/v1/").makes(2_000)),
    at("Azure OpenAI", &["*.openai.azure.com"]).with(ProviderApi {
        free: &[],
        charged: Some((400, "content_filter")),
        source: "Azure OpenAI, \"FAQ\": a charge for each request that was processed, whatever its status",
        ..own("azure", &["openai.azure.com"])
    }),
    at("Azure AI Foundry", &["*.services.ai.azure.com"]),
    at("Azure AI", &["*.cognitiveservices.azure.com"]),
    at("Anthropic", &["api.anthropic.com"]).with(own("anthropic", &["api.anthropic.com"]).served_at("https://api.anthropic.com/v1/")),
    at("Google", &["generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "daily-cloudcode-pa.googleapis.com"]).with(ProviderApi {
        source: "Gemini API, \"Billing\": no charge for status 400 and 500",
        ..own("google", &["generativelanguage.googleapis.com"])
            .served_at("https://generativelanguage.googleapis.com/v1beta/")
    }),
    at("Google Vertex AI", &["aiplatform.googleapis.com", "*-aiplatform.googleapis.com", "aiplatform.*.rep.googleapis.com"]),
    at("Amazon Bedrock", &["bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com", "bedrock-mantle.*.api.aws"]),
    at("GitHub Copilot", &["api.githubcopilot.com", "api.*.githubcopilot.com"]),
    at("OpenRouter", &["openrouter.ai", "api.openrouter.ai"]).with(ProviderApi {
        free: &[500, 502, 503, 504, 529],
        source: "OpenRouter, \"Zero Completion Insurance\": no charge for an error without output",
        ..own("openrouter", &["openrouter.ai"])
            .served_at("https://openrouter.ai/api/v1/")
            .makes(6_000)
    }),
    at("Arcee", &["api.arcee.ai"]),
    at("Alibaba Cloud", &["dashscope.aliyuncs.com", "dashscope-*.aliyuncs.com", "*.dashscope.aliyuncs.com"]),
    at("Avian", &["api.avian.io"]),
    at("Baseten", &["inference.baseten.co"]),
    at("Cerebras", &["api.cerebras.ai"]).with(own("cerebras", &["cerebras.ai"]).makes(6_000)),
    at("Cline", &["api.cline.bot"]),
    at("Cohere", &["api.cohere.ai", "api.cohere.com"]),
    at("Cursor", &["api.cursor.com", "api5.cursor.sh", "*.api5.cursor.sh"]),
    at("DeepSeek", &["api.deepseek.com"]).with(own("deepseek", &["deepseek.com"]).served_at("https://api.deepseek.com/v1/")),
    at("Doubleword", &["api.doubleword.ai"]),
    at("Fireworks", &["api.fireworks.ai"]).with(own("fireworks", &["fireworks.ai"])),
    at("Groq", &["api.groq.com"]).with(own("groq", &["groq.com"]).served_at("https://api.groq.com/openai/v1/").makes(2_000)),
    at("Hugging Face", &["router.huggingface.co"]),
    at("Kimi", &["api.kimi.com"]),
    at("Meta", &["api.meta.ai"]),
    at("MiniMax", &["api.minimax.io", "api.minimaxi.com"]),
    at("Mistral", &["api.mistral.ai", "codestral.mistral.ai"]).with(own("mistral", &["mistral.ai"]).served_at("https://api.mistral.ai/v1/")),
    at("Moonshot", &["api.moonshot.ai", "api.moonshot.cn"]).with(own("moonshotai", &["moonshot.cn", "moonshot.ai"]).served_at("https://api.moonshot.cn/v1/")),
    at("Novita", &["api.novita.ai"]),
    at("OVHcloud", &["oai.endpoints.kepler.ai.cloud.ovh.net"]),
    at("Perplexity", &["api.perplexity.ai"]),
    at("QuickSilver Pro", &["api.quicksilverpro.io"]),
    at("Qwen", &["portal.qwen.ai"]),
    at("Together", &["api.together.xyz"]).with(own("together", &["together.xyz"]).served_at("https://api.together.xyz/v1/")),
    at("Typesafe", &["api.typesafe.ai"]),
    at("Voyage AI", &["api.voyageai.com"]),
    at("xAI", &["api.x.ai", "*.api.x.ai"]).with(own("x-ai", &["x.ai"]).served_at("https://api.x.ai/v1/")),
    at("Z.ai", &["api.z.ai"]),
    at("Zhipu AI", &["open.bigmodel.cn"]),
    at("ElevenLabs", &["api.elevenlabs.io", "api.us.elevenlabs.io", "api.*.residency.elevenlabs.io"]),
    at("Ollama", &[]).with(own("ollama", &[]).served_at("http://localhost:11434/")),
];

impl ProviderApi {
    /// Returns the APIs that are known.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        MODEL_PROVIDERS.iter().filter_map(|it| it.api.as_ref())
    }

    /// Returns the API at a host. O(rows).
    #[must_use]
    pub fn at(host: &str) -> Option<&'static Self> {
        let host = host.to_ascii_lowercase();
        let is_it = |known: &str| {
            let before = host.strip_suffix(known);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        Self::all().find(|api| api.domains.iter().any(|domain| is_it(domain)))
    }

    /// Returns the API of a provider, by the name that prices have for it. O(rows).
    #[must_use]
    pub fn of(provider: &str) -> Option<&'static Self> {
        Self::all().find(|api| api.provider == provider)
    }

    /// Returns the most output tokens that a provider makes in a second, by the name that prices have for it. O(rows).
    #[must_use]
    pub fn fastest_output_of(provider: &str) -> u64 {
        Self::of(provider).map_or(USUAL_OUTPUT, |api| api.fastest_output)
    }

    /// Returns the charge for an error response, if known. `is_in_shape` says whether it is in the shape of the API.
    #[must_use]
    pub fn billing(&self, status: u16, is_in_shape: bool, body: &[u8]) -> ErrorBilling {
        let has = |text: &str| body.windows(text.len()).any(|part| part == text.as_bytes());
        match self.charged {
            Some((charged, text)) if charged == status && has(text) => ErrorBilling::Charged,
            _ if is_in_shape && self.free.contains(&status) => ErrorBilling::Free,
            _ => ErrorBilling::Unknown,
        }
    }

    /// Returns the charge for an error response of `api`, or of an upstream that is not a known provider's API.
    #[must_use]
    pub fn billing_of(
        api: Option<&Self>,
        status: u16,
        is_in_shape: bool,
        body: &[u8],
    ) -> ErrorBilling {
        match api {
            Some(api) => api.billing(status, is_in_shape, body),
            None if is_in_shape => ErrorBilling::OfApi,
            None => ErrorBilling::Unknown,
        }
    }

    /// Returns the charge for an error that a response of `api` carries instead of output. `status` is the one that the
    /// error names.
    #[must_use]
    pub fn billing_inside(api: Option<&Self>, status: Option<u16>) -> ErrorBilling {
        match Self::billing_of(api, status.unwrap_or(FAILED_STATUS), true, &[]) {
            ErrorBilling::Unknown if status.is_none() => ErrorBilling::Charged,
            known => known,
        }
    }
}

#[cfg(test)]
mod tests;
