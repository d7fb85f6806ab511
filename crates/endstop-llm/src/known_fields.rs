//! Fields of requests that do not change the price, so that unknown ones can be reported.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use crate::api::Api;
use crate::json::{Key, Raw};
use crate::limits::MAX_UNKNOWN_KINDS;
use crate::price_fields::{PRICE_FIELDS, with_underscores};
use crate::provider_tools::TOOL_KINDS;
use crate::token_bound::shown;

/// The fields of requests that do not change the price of a token, by API. The tables of
/// [fields that change the price](crate::PRICE_FIELDS) and of [tools](crate::TOOL_KINDS) have the others. Any
/// further field passes, and [`CallRequest::unknown_fields`](crate::CallRequest::unknown_fields) names it.
///
/// Sources: those of [`PRICE_FIELDS`](crate::PRICE_FIELDS), and the documentation of OpenRouter ("Parameters"), vLLM
/// ("OpenAI-Compatible Server"), Ollama ("OpenAI compatibility"), Mistral, Groq and DeepSeek ("Create chat completion").
pub const KNOWN_FIELDS: &[(Api, &[&str])] = &[
    (
        Api::Chat,
        &[
            "messages",
            "model",
            "stream",
            "stream_options",
            "tools",
            "tool_choice",
            "functions",
            "function_call",
            "parallel_tool_calls",
            "audio",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "metadata",
            "prediction",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "reasoning_effort",
            "reasoning_format",
            "include_reasoning",
            "response_format",
            "safety_identifier",
            "seed",
            "random_seed",
            "stop",
            "temperature",
            "top_p",
            "top_k",
            "top_a",
            "min_p",
            "user",
            "verbosity",
            "provider",
            "route",
            "transforms",
            "usage",
            "session_id",
            "trace",
            "cache_control",
            "safe_prompt",
            "prompt_mode",
            "thinking",
            "enable_thinking",
            "chat_template_kwargs",
            "options",
            "keep_alive",
            "think",
            "format",
            "guided_json",
            "guided_regex",
            "guided_choice",
            "guided_grammar",
            "ignore_eos",
            "min_tokens",
            "stop_token_ids",
            "skip_special_tokens",
            "echo",
            "add_generation_prompt",
            "continue_final_message",
            "cache_prompt",
            "tool_stream",
        ],
    ),
    (
        Api::Responses,
        &[
            "input",
            "model",
            "stream",
            "stream_options",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "max_tool_calls",
            "include",
            "instructions",
            "metadata",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "safety_identifier",
            "temperature",
            "text",
            "top_logprobs",
            "top_p",
            "truncation",
            "user",
            "client_metadata",
            "provider",
            "session_id",
            "trace",
            "cache_control",
            "frequency_penalty",
            "presence_penalty",
            "top_k",
        ],
    ),
    (
        Api::Messages,
        &[
            "messages",
            "model",
            "stream",
            "system",
            "tools",
            "tool_choice",
            "metadata",
            "stop_sequences",
            "temperature",
            "top_k",
            "top_p",
            "thinking",
            "output_config",
            "output_format",
            "container",
            "context_management",
            "cache_control",
            "diagnostics",
            "fallback_credit_token",
            "provider",
            "anthropic_beta",
            "anthropic_version",
        ],
    ),
    (
        Api::Gemini,
        &[
            "contents",
            "model",
            "tools",
            "toolConfig",
            "safetySettings",
            "systemInstruction",
            "generationConfig",
            "labels",
        ],
    ),
];

/// The fields of a request that no table has, up to the number that is shown.
pub(crate) fn unknown_fields(api: Api, members: &[(Key<'_>, Raw<'_>)]) -> Vec<String> {
    let unknown = members.iter().map(|(key, _)| key.as_str()).filter(|key| !is_known(api, key));
    unknown.take(MAX_UNKNOWN_KINDS).map(shown).collect()
}

/// The fields of all tables: each member of each request is looked up. Gemini takes its fields with underscores too.
static FIELDS: LazyLock<HashSet<(Api, Cow<'static, str>)>> = LazyLock::new(|| {
    let free = KNOWN_FIELDS.iter().flat_map(|(api, keys)| keys.iter().map(move |key| (*api, *key)));
    let priced = PRICE_FIELDS.iter().map(|field| (field.api, field.first_key()));
    let tools = TOOL_KINDS.iter().map(|kind| (kind.api, kind.pattern));
    let all = free.chain(priced).chain(tools);
    let spelled = all.clone().filter(|(api, _)| *api == Api::Gemini);
    let spelled =
        spelled.map(|(api, key)| (api, Cow::<'static, str>::Owned(with_underscores(key))));
    all.map(|(api, key)| (api, Cow::Borrowed(key))).chain(spelled).collect()
});

fn is_known(api: Api, own: &str) -> bool {
    let fields: &HashSet<(Api, Cow<'_, str>)> = &FIELDS;
    fields.contains(&(api, Cow::Borrowed(own)))
}

#[cfg(test)]
mod tests;
