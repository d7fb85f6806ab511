//! How fast providers make output: the bound of what a stream can have made when it is closed.
//!
//! The rates are twice the fastest that is published, because they are averages. Sources, as of November 2026: Cerebras
//! names about 3,000 tokens a second for gpt-oss-120b (its model catalog), OpenAI more than 1,000 for GPT-5.3-Codex-Spark
//! (its announcement), Groq 1,000 for gpt-oss-20b (its list of models). Artificial Analysis measures at most 350 for
//! models of Anthropic and Google. OpenRouter passes requests on to Cerebras too.
//!
//! A file of its own because it is data with sources, which changes when providers get faster.

/// Output tokens a second, by provider.
const FASTEST: &[(&str, u64)] =
    &[("cerebras", 6_000), ("openrouter", 6_000), ("openai", 2_000), ("groq", 2_000)];

/// Output tokens a second of a provider for which no rate is known: above what GPUs make of any large model.
const USUAL: u64 = 1_000;

/// The most output tokens that a provider makes in a second.
pub(super) fn fastest_output(provider: &str) -> u64 {
    FASTEST.iter().find(|(name, _)| *name == provider).map_or(USUAL, |(_, rate)| *rate)
}

#[cfg(test)]
mod tests;
