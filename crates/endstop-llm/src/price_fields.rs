//! Fields of a request that change its price: their holds, and the values that are refused.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::ambiguous_keys::whole;
use crate::dialect::Api;
use crate::json::{Entry, Key, List, Raw, parse};
use crate::limits::MAX_FALLBACKS;
use crate::output_kinds::OutputKinds;
use crate::response_outline::word;
use crate::{CallRequest, ReadError, Thread};

/// The name in `allow_unmetered` of a conversation that the upstream keeps.
pub const STORED_CONVERSATION: &str = "stored_conversation";
/// The name in `allow_unmetered` of responses that are made later.
pub const BACKGROUND: &str = "background";

/// A field of a request that changes its price.
///
/// ```
/// use endstop_llm::{FieldRule, PRICE_FIELDS};
///
/// let geo = PRICE_FIELDS.iter().find(|field| field.path == "inference_geo");
/// assert!(geo.is_some_and(|field| matches!(field.rule, FieldRule::Only { .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceField {
    /// The API.
    pub api: Api,
    /// The keys that lead to it, with dots between them; brackets stand for each element of a list. Gemini takes each key
    /// in the spelling with underscores too.
    pub path: &'static str,
    /// How it is held.
    pub rule: FieldRule,
}

/// How a field that changes the price is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRule {
    /// A whole number: the output of each response. The largest of several such fields counts.
    OutputCap,
    /// A whole number from 1: so many responses, each with the output cap. The largest of several such fields counts.
    Choices,
    /// The outputs that the response may have. See [`OUTPUT_KINDS`](crate::OUTPUT_KINDS).
    Modalities,
    /// A tier of service: the higher of its price and the usual one. `auto` has the price of `priority`.
    Tier,
    /// A speed: the higher of its price and the usual one.
    Speed,
    /// Models that may answer in the model's stead: the most expensive of them.
    Fallbacks,
    /// `1h` anywhere in the request: all input at the price of a cache for an hour, if that is higher.
    CacheHour,
    /// A word that begins so: the provider makes a summary first, so the input and the output count twice.
    Compaction(&'static str),
    /// A response that the upstream keeps: the tokens that were counted for it. Refused where they are not known.
    StoredResponse,
    /// Input that the upstream keeps: refused.
    StoredInput,
    /// A thread that the upstream keeps: refused in the way in which the API asks for the whole conversation.
    StoredThread,
    /// The response is made later: refused.
    Background,
    /// Only these values are admitted: any other is refused by this name.
    Only {
        /// The name in `allow_unmetered`.
        name: &'static str,
        /// The values that have the usual price, or another row of the tables.
        values: &'static [&'static str],
    },
    /// Refused by this name if it has anything.
    Refused(&'static str),
    /// Any value: it does not change the price.
    Free,
}

impl FieldRule {
    /// The name in `allow_unmetered` by which it may be refused.
    #[must_use]
    pub const fn refusal(self) -> Option<&'static str> {
        match self {
            Self::StoredResponse | Self::StoredInput | Self::StoredThread => {
                Some(STORED_CONVERSATION)
            }
            Self::Background => Some(BACKGROUND),
            Self::Only { name, .. } | Self::Refused(name) => Some(name),
            Self::OutputCap
            | Self::Choices
            | Self::Modalities
            | Self::Tier
            | Self::Speed
            | Self::Fallbacks
            | Self::CacheHour
            | Self::Compaction(_)
            | Self::Free => None,
        }
    }
}

const fn field(api: Api, path: &'static str, rule: FieldRule) -> PriceField {
    PriceField { api, path, rule }
}

/// OpenRouter's plugin that searches the web, which is a tool at the provider.
pub(crate) const SEARCH_PLUGIN: &str = "web";

/// The fields that change the price. [`TOOL_KINDS`](crate::TOOL_KINDS) has those that stand for tools at the provider, and
/// [`HEADERS`] has the headers.
///
/// Sources: the API references of OpenAI ("Create chat completion", "Create a model response"), Anthropic ("Create a
/// message") and Google ("GenerateContentRequest"), and OpenRouter's documentation ("Model Fallbacks", "Plugins": those that
/// heal responses and compress contexts are free, others have fees that no price list has). Anthropic's documentation:
/// "Service tiers", "Prompt caching", "Compaction", "Data residency" (`inference_geo: us` costs a tenth more).
pub const PRICE_FIELDS: &[PriceField] = {
    use Api::{Chat, Gemini, Messages, Responses};
    use FieldRule::{
        Background, CacheHour, Choices, Compaction, Fallbacks, Free, Modalities, Only, OutputCap,
        Refused, Speed, StoredInput, StoredResponse, StoredThread, Tier,
    };
    &[
        field(Chat, "max_tokens", OutputCap),
        field(Chat, "max_completion_tokens", OutputCap),
        field(Chat, "n", Choices),
        field(Chat, "best_of", Choices),
        field(Chat, "modalities", Modalities),
        field(Chat, "service_tier", Tier),
        field(Chat, "models", Fallbacks),
        field(Chat, "fallbacks", Fallbacks),
        field(Chat, "cache_control.ttl", CacheHour),
        field(
            Chat,
            "plugins[].id",
            Only {
                name: "plugins",
                values: &[SEARCH_PLUGIN, "response-healing", "context-compression"],
            },
        ),
        field(Chat, "store", Free),
        field(Responses, "max_output_tokens", OutputCap),
        field(Responses, "service_tier", Tier),
        field(Responses, "models", Fallbacks),
        field(Responses, "fallbacks", Fallbacks),
        field(Responses, "cache_control.ttl", CacheHour),
        field(Responses, "previous_response_id", StoredResponse),
        field(Responses, "conversation", StoredInput),
        field(Responses, "prompt", StoredInput),
        field(Responses, "background", Background),
        field(Responses, "store", Free),
        field(Messages, "max_tokens", OutputCap),
        field(Messages, "service_tier", Tier),
        field(Messages, "speed", Speed),
        field(Messages, "models", Fallbacks),
        field(Messages, "fallbacks", Fallbacks),
        field(Messages, "cache_control.ttl", CacheHour),
        field(Messages, "context_management.edits[].type", Compaction("compact")),
        field(Messages, "thread", StoredThread),
        field(Messages, "container.skills", Refused("container.skills")),
        field(
            Messages,
            "inference_geo",
            Only { name: "inference_geo", values: &["global", "not_available"] },
        ),
        field(Gemini, "generationConfig.maxOutputTokens", OutputCap),
        field(Gemini, "generationConfig.candidateCount", Choices),
        field(Gemini, "generationConfig.responseModalities", Modalities),
        field(Gemini, "serviceTier", Tier),
        field(Gemini, "cachedContent", StoredInput),
    ]
};

/// A value in a header of a request that changes its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceHeader {
    /// The API.
    pub api: Api,
    /// The header.
    pub name: &'static str,
    /// A text that is anywhere in its value.
    pub value: &'static str,
    /// The context window that it asks for, in tokens.
    pub window: u64,
}

/// The headers that change the price.
///
/// Source: Anthropic's documentation, "Context windows": a million tokens in beta.
pub const HEADERS: &[PriceHeader] = &[PriceHeader {
    api: Api::Messages,
    name: "anthropic-beta",
    value: "context-1m",
    window: 1_000_000,
}];

/// Reads the fields of a request that change its price, and nothing else.
///
/// # Errors
/// Where a number is none, a list is too long, or more models are named than are priced.
pub(crate) fn read(
    api: Api,
    body: &[u8],
    members: &[(Key<'_>, Raw<'_>)],
) -> Result<CallRequest, ReadError> {
    let mut request = CallRequest {
        choices: 1,
        outputs: OutputKinds::of(api, &[""; 0]),
        ..CallRequest::default()
    };
    for field in PRICE_FIELDS.iter().filter(|field| field.api == api) {
        if field.rule == FieldRule::CacheHour {
            request.may_write_1h = may_write_1h(body);
            continue;
        }
        let mut values = Vec::new();
        find(api, members, field.path, &mut values)?;
        for value in values {
            field.apply(value, &mut request)?;
        }
    }
    if request.fallbacks.len() > MAX_FALLBACKS {
        return Err(ReadError::TooManyFallbacks);
    }
    Ok(request)
}

impl PriceField {
    /// Its last key.
    fn key(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Notes what a value of the field means for a request.
    fn apply(&self, value: Raw<'_>, request: &mut CallRequest) -> Result<(), ReadError> {
        match self.rule {
            FieldRule::OutputCap => {
                request.output_cap = request.output_cap.max(whole(value, self.key(), 0)?);
            }
            FieldRule::Choices => {
                request.choices = request.choices.max(whole(value, self.key(), 1)?.unwrap_or(1));
            }
            FieldRule::Modalities => {
                let words: Vec<_> = list(value)?.iter().filter_map(|word| word.text()).collect();
                request.outputs = OutputKinds::of(self.api, &words);
            }
            FieldRule::Tier => request.context.service_tier = word(value),
            FieldRule::Speed => request.context.speed = word(value),
            FieldRule::Fallbacks => request.fallbacks.extend(list(value)?.into_iter().map(model)),
            FieldRule::Compaction(begin) => {
                if value.text().is_some_and(|kind| kind.starts_with(begin)) {
                    request.may_compact = true;
                    // A summary is as long as the cap allows, and so is the answer.
                    request.choices = request.choices.max(2);
                }
            }
            FieldRule::StoredResponse if value.is_some() => {
                request.thread = Thread::Continues;
                request.continues = value.text().map(Into::into);
            }
            FieldRule::StoredInput if value.is_some() => {
                request.thread = Thread::Continues;
                // The response before does not tell the size of this.
                request.continues = None;
            }
            FieldRule::StoredThread => {
                let thread = Entry::of(value);
                let continues = thread.get("type").text().as_deref() == Some("continue");
                if continues || thread.get("previous_message_id").is_some() {
                    request.thread = Thread::CanResend;
                }
            }
            FieldRule::Background => request.is_background = value.is_truthy(),
            FieldRule::Only { name, values } if value.json() != "null" => {
                let text = value.text();
                if !text.as_deref().is_some_and(|text| values.contains(&text)) {
                    let shown = if value.is_some() { value.json() } else { "?" };
                    request.note_unbounded(format!("{name}: {}", text.as_deref().unwrap_or(shown)));
                }
            }
            FieldRule::Refused(name) => {
                if list(value)?.iter().any(|item| item.is_some()) {
                    request.note_unbounded(name.to_owned());
                }
            }
            // `null` is nothing.
            FieldRule::StoredResponse | FieldRule::StoredInput | FieldRule::Only { .. } => {}
            FieldRule::CacheHour | FieldRule::Free => {}
        }
        Ok(())
    }
}

/// The values that a path leads to, below these members. An element of a list that lacks the key has an empty one.
fn find<'j>(
    api: Api,
    members: &[(Key<'j>, Raw<'j>)],
    path: &str,
    found: &mut Vec<Raw<'j>>,
) -> Result<(), ReadError> {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    let (key, is_list) = key.strip_suffix("[]").map_or((key, false), |key| (key, true));
    let value = members.iter().rev().find(|(name, _)| is_spelled(api, name.as_str(), key));
    let Some((_, value)) = value else { return Ok(()) };
    if rest.is_empty() {
        found.push(*value);
        return Ok(());
    }
    if !is_list {
        return find(api, &value.members(), rest, found);
    }
    for item in list(*value)? {
        let before = found.len();
        find(api, &item.members(), rest, found)?;
        found.truncate(before.saturating_add(1));
        match found.get_mut(before) {
            Some(value) if value.is_some() => {}
            Some(value) => *value = Raw::default(),
            None => found.push(Raw::default()),
        }
    }
    Ok(())
}

/// An hour, even if a letter of it is an escape.
static FIND_1H: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| [r#""1h""#, r"\u0031", r"\u0068"].map(Finder::new));

/// Whether a request may ask for a cache for an hour.
fn may_write_1h(body: &[u8]) -> bool {
    FIND_1H.iter().any(|it| it.find(body).is_some())
}

/// Whether a key is this one, which Gemini takes with underscores too.
fn is_spelled(api: Api, name: &str, key: &str) -> bool {
    name == key || api == Api::Gemini && name.contains('_') && name == with_underscores(key)
}

fn with_underscores(key: &str) -> String {
    let mut spelled = String::with_capacity(key.len().saturating_add(4));
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_lowercase());
    }
    spelled
}

/// The elements of a list; of anything else none.
///
/// # Errors
/// Where it has more than are read.
fn list(value: Raw<'_>) -> Result<Vec<Raw<'_>>, ReadError> {
    if !value.is_list() {
        return Ok(Vec::new());
    }
    Ok(parse::<List<Raw<'_>>>(value.json())?.0)
}

/// A model that may answer in another's stead: its name, or an object that has it. One that cannot be read has no price.
fn model(fallback: Raw<'_>) -> String {
    let inner = || Entry::of(fallback).get("model").text();
    fallback.text().or_else(inner).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests;
