//! The shapes of usage reports, distinguished by their fields.
//!
//! This is their only home: `endstop-llm` and `endstop-transcript` read reports through it. It stands here and not with
//! the APIs in `endstop-llm`, because the price data brings the rules to read a report, and a report has a price wherever
//! it was found: in a response, in a file, in the attributes of a span.

use serde_json::Value;

use super::unit::Unit;
use super::usage::{UsageCounts, UsageError, read_count};
use super::{CallContext, PriceTable};

/// The shape of a usage report. All but the last are read by the extractors of the price data.
///
/// ```
/// use endstop_price::{UsageShape, detect_shape, read_usage};
///
/// let report = serde_json::json!({ "promptTokenCount": 900, "candidatesTokenCount": 100 });
/// let shape = detect_shape(&report).unwrap();
/// assert_eq!(shape, UsageShape::Gemini);
/// assert_eq!(read_usage(shape, &report)?.token_usage().total(), 1_000);
/// # Ok::<(), endstop_price::UsageError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageShape {
    /// `prompt_tokens`, `completion_tokens`: chat completions of OpenAI and all who copy it.
    OpenAiChat,
    /// `input_tokens` with the cached ones inside: OpenAI responses, Codex.
    OpenAiResponses,
    /// `input_tokens` without the cached ones.
    Anthropic,
    /// `promptTokenCount`.
    Gemini,
    /// `inputTokens`: Converse.
    Bedrock,
    /// Attributes `gen_ai.usage.*` of a span.
    Otel,
}

/// A field that other programs add to a shape: read only where the shape's own field said nothing.
type Fallback = (&'static str, &'static str);

/// LiteLLM writes the names of Anthropic in addition to those of OpenAI; DeepSeek has a special name.
const CHAT_FALLBACKS: [Fallback; 3] = [
    ("cache_read_input_tokens", "cache_read_tokens"),
    ("prompt_cache_hit_tokens", "cache_read_tokens"),
    ("cache_creation_input_tokens", "cache_write_tokens"),
];

/// Codex flattens the details.
const RESPONSES_FALLBACKS: [Fallback; 3] = [
    ("cached_input_tokens", "cache_read_tokens"),
    ("cache_write_input_tokens", "cache_write_tokens"),
    ("reasoning_output_tokens", "output_reasoning_tokens"),
];

/// Attribute, unit. The first of a unit that is present counts; the later ones are older names.
const OTEL_ATTRIBUTES: [(&str, &str); 7] = [
    ("gen_ai.usage.input_tokens", "input_tokens"),
    ("gen_ai.usage.prompt_tokens", "input_tokens"),
    ("gen_ai.usage.output_tokens", "output_tokens"),
    ("gen_ai.usage.completion_tokens", "output_tokens"),
    ("gen_ai.usage.cache_read.input_tokens", "cache_read_tokens"),
    ("gen_ai.usage.cache_creation.input_tokens", "cache_write_tokens"),
    ("gen_ai.usage.reasoning.output_tokens", "output_reasoning_tokens"),
];

/// Keys that only Anthropic's report has.
const ANTHROPIC_MARKS: [&str; 4] =
    ["cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation", "server_tool_use"];

/// Keys that only the report of OpenAI's responses, or Codex's, has.
const RESPONSES_MARKS: [&str; 5] = [
    "input_tokens_details",
    "output_tokens_details",
    "cached_input_tokens",
    "reasoning_output_tokens",
    "total_tokens",
];

impl UsageShape {
    /// The provider and flavor whose extractor reads it.
    const fn extractor(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::OpenAiChat => Some(("openai", "chat")),
            Self::OpenAiResponses => Some(("openai", "responses")),
            Self::Anthropic => Some(("anthropic", "default")),
            Self::Gemini => Some(("google", "default")),
            Self::Bedrock => Some(("aws", "default")),
            Self::Otel => None,
        }
    }

    const fn fallbacks(self) -> &'static [Fallback] {
        match self {
            Self::OpenAiChat => &CHAT_FALLBACKS,
            Self::OpenAiResponses => &RESPONSES_FALLBACKS,
            _ => &[],
        }
    }
}

/// Reads a usage object (for [`UsageShape::Otel`] the attributes as one object) of a known shape.
///
/// # Errors
///
/// Returns [`UsageError`] with the field that is missing or not a count. The usage is then unknown, not zero.
pub fn read_usage(shape: UsageShape, usage: &Value) -> Result<UsageCounts, UsageError> {
    let Some((provider, flavor)) = shape.extractor() else {
        return read_otel(usage);
    };
    let provider = PriceTable::embedded().provider(provider).ok_or(UsageError::UnknownShape)?;
    let mut counts = provider.extractor(flavor)?.read_usage(usage)?;
    for (field, key) in shape.fallbacks() {
        set_if_absent(&mut counts, key, usage, field)?;
    }
    Ok(counts)
}

/// Returns the shape of a usage object, or `None` if no field shows it.
#[must_use]
pub fn detect_shape(usage: &Value) -> Option<UsageShape> {
    let fields = usage.as_object()?;
    let has = |key: &&str| fields.get(*key).is_some_and(|value| !value.is_null());
    if has(&"promptTokenCount") || has(&"candidatesTokenCount") {
        Some(UsageShape::Gemini)
    } else if has(&"inputTokens") {
        Some(UsageShape::Bedrock)
    } else if has(&"prompt_tokens") {
        Some(UsageShape::OpenAiChat)
    } else if OTEL_ATTRIBUTES.iter().any(|(attribute, _)| has(attribute)) {
        Some(UsageShape::Otel)
    } else if !has(&"input_tokens") {
        None
    } else if !ANTHROPIC_MARKS.iter().any(has) && RESPONSES_MARKS.iter().any(has) {
        Some(UsageShape::OpenAiResponses)
    } else {
        // With nothing cached the two read alike.
        Some(UsageShape::Anthropic)
    }
}

/// Reads a whole response body: the model that it names, if any, and its usage.
///
/// Provider and flavor are names of the price data; without a provider the shape of the usage decides how it is read.
/// See [`PriceTable::read_response`].
///
/// # Errors
///
/// Returns [`UsageError`]: provider or flavor unknown, or the body is not such a response.
pub fn read_response(
    provider: Option<&str>,
    flavor: Option<&str>,
    body: &Value,
) -> Result<(Option<String>, UsageCounts), UsageError> {
    if let Some(provider) = provider {
        return PriceTable::embedded().read_response(provider, flavor, body);
    }
    let usage = usage_of(body).ok_or(UsageError::UnknownShape)?;
    let shape = detect_shape(usage).ok_or(UsageError::UnknownShape)?;
    Ok((model_of(body), read_usage(shape, usage)?))
}

/// Returns the usage object inside a response body of a known shape.
#[must_use]
pub fn usage_of(body: &Value) -> Option<&Value> {
    let inner = body.get("response").or_else(|| body.get("message"));
    [Some(body), inner]
        .into_iter()
        .flatten()
        .flat_map(|body| [body.get("usage"), body.get("usageMetadata")])
        .flatten()
        .find(|usage| usage.is_object())
}

/// Returns the model that a response body names.
#[must_use]
pub fn model_of(body: &Value) -> Option<String> {
    let inner = body.get("response").or_else(|| body.get("message"));
    let names = [Some(body), inner].into_iter().flatten();
    let mut names = names.flat_map(|body| [body.get("model"), body.get("modelVersion")]).flatten();
    names.find_map(Value::as_str).map(str::to_owned)
}

/// Returns the kind of request that a response names: its `service_tier`, `speed`, and batch.
#[must_use]
pub fn context_of(body: &Value) -> CallContext {
    let usage = usage_of(body);
    let text = |key: &str| {
        let places = [Some(body), usage, body.get("response")].into_iter().flatten();
        places.filter_map(|place| place.get(key)).find_map(Value::as_str).map(str::to_owned)
    };
    let service_tier = text("service_tier");
    let is_batch = service_tier.as_deref() == Some("batch");
    CallContext {
        processing: is_batch.then(|| "batch".to_owned()),
        service_tier,
        speed: text("speed"),
        ..CallContext::default()
    }
}

fn read_otel(attributes: &Value) -> Result<UsageCounts, UsageError> {
    let mut counts = UsageCounts::default();
    for (attribute, key) in OTEL_ATTRIBUTES {
        set_if_absent(&mut counts, key, attributes, attribute)?;
    }
    let get = |key| Unit::named(key).and_then(|unit| counts.get(unit));
    let (Some(input), Some(_)) = (get("input_tokens"), get("output_tokens")) else {
        let absent = if get("input_tokens").is_none() { "input" } else { "output" };
        return Err(UsageError::Missing { path: format!("gen_ai.usage.{absent}_tokens") });
    };
    let cached = get("cache_read_tokens").unwrap_or(0) + get("cache_write_tokens").unwrap_or(0);
    if cached > input {
        // The convention is input with the cached tokens; many exporters pass on input without them.
        if let Some(unit) = Unit::named("input_tokens") {
            counts.add(unit, cached)?;
        }
        counts.was_exclusive = true;
    }
    Ok(counts)
}

fn set_if_absent(
    counts: &mut UsageCounts,
    key: &str,
    usage: &Value,
    field: &str,
) -> Result<(), UsageError> {
    let value = usage.get(field).filter(|value| !value.is_null());
    let (Some(unit), Some(value)) = (Unit::named(key), value) else { return Ok(()) };
    if counts.get(unit).is_some() {
        return Ok(());
    }
    counts.set(unit, read_count(unit, value, || field.to_owned())?)
}
