//! Fields of a request that change its price: their holds, and the values that are refused.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::ambiguous_keys::whole;
use crate::api::Api;
use crate::json::{Entry, Key, List, Raw, parse};
use crate::limits::MAX_FALLBACKS;
use crate::output_kinds::OutputKinds;
use crate::{CallRequest, ReadError, Thread};

/// The name in `allow_unmetered` of a conversation that the upstream keeps.
pub const STORED_CONVERSATION: &str = "stored_conversation";
/// The name in `allow_unmetered` of a cache with a life of unknown price.
const CACHE_LIFE: &str = "cache_control.ttl";
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
    /// The rule by which its price is reserved.
    pub rule: FieldRule,
}

/// The rule by which a field that changes the price is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRule {
    /// A whole number: the output of each response. The largest of several such fields counts.
    OutputCap,
    /// A whole number from 1: so many responses, each with the output cap. The largest of several such fields counts.
    Choices,
    /// The outputs that the response may have. See [`OUTPUT_KINDS`](crate::OUTPUT_KINDS).
    Modalities,
    /// A tier of service out of these, in any case: the higher of its price and the usual one. `auto` has the price of
    /// `priority`. Any other is refused by the name of the field.
    Tier(&'static [&'static str]),
    /// A speed out of these: the higher of its price and the usual one. Any other is refused by the name of the field.
    Speed(&'static [&'static str]),
    /// Models that may answer instead: the most expensive of them. A value that is not a list of models, and a model
    /// with a separate output cap or speed, is refused by the name of the field.
    Fallbacks(Attempts),
    /// How long a cache lives, anywhere in the request. `1h`: all input at the price of that, if it is higher. Anything but
    /// that and `5m` is refused by this name.
    CacheLife(&'static str),
    /// Each change that the provider makes to the conversation first. One that begins so is a summary: a separate
    /// request, so the input and the output count once more. Others out of the list are free, and any other is
    /// refused by the first key of the path.
    Changes {
        /// The beginning of the name of a summary.
        summary: &'static str,
        /// The beginnings of the names of free changes.
        free: &'static [&'static str],
    },
    /// If it has anything, the provider makes a summary: a separate request, so the input and the output count once
    /// more.
    Summary,
    /// A response that the upstream keeps: the tokens that were counted for it. Refused if they are not known.
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

/// The billed attempts of a request that may fall back to other models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// Only the attempt of the model that answers.
    Last,
    /// Each: the input and the output count once more for each model.
    All,
}

impl FieldRule {
    /// Its special name in `allow_unmetered`.
    const fn refusal(self) -> Option<&'static str> {
        match self {
            Self::StoredResponse | Self::StoredInput | Self::StoredThread => {
                Some(STORED_CONVERSATION)
            }
            Self::Background => Some(BACKGROUND),
            Self::Only { name, .. } | Self::Refused(name) | Self::CacheLife(name) => Some(name),
            Self::OutputCap
            | Self::Choices
            | Self::Modalities
            | Self::Tier(_)
            | Self::Speed(_)
            | Self::Fallbacks(_)
            | Self::Changes { .. }
            | Self::Summary
            | Self::Free => None,
        }
    }
}

const fn field(api: Api, path: &'static str, rule: FieldRule) -> PriceField {
    PriceField { api, path, rule }
}

/// OpenRouter's plugin that searches the web, which is a tool at the provider.
pub(crate) const SEARCH_PLUGIN: &str = "web";

/// Tiers of OpenAI and of those who copy its API: of Groq `on_demand`, which is the usual one.
const OPENAI_TIERS: &[&str] =
    &["auto", "default", "flex", "priority", "fast", "scale", "standard", "on_demand"];

/// The fields that change the price. [`TOOL_KINDS`](crate::TOOL_KINDS) has those that stand for tools at the provider, and
/// [`HEADERS`] has the headers.
///
/// Sources: the API references of OpenAI ("Create chat completion", "Create a model response"), Anthropic ("Create a
/// message") and Google ("GenerateContentRequest"), and OpenRouter's documentation ("Model Fallbacks", "Plugins": those that
/// heal responses and compress contexts are free, others have fees that no price list has; of several models the one that
/// answers is billed). Anthropic's documentation: "Service tiers", "Prompt caching", "Compaction", "Refusals and fallback"
/// (`usage.iterations` has each attempt), "Data residency" (`inference_geo: us` costs a tenth more). OpenAI's documentation:
/// "Fast mode" (`fast` is served as `priority`), "Compaction". For `ultrafast` no price is published.
pub const PRICE_FIELDS: &[PriceField] = {
    use Api::{Chat, Gemini, Messages, Responses};
    use FieldRule::{
        Background, CacheLife, Changes, Choices, Fallbacks, Free, Modalities, Only, OutputCap,
        Refused, Speed, StoredInput, StoredResponse, StoredThread, Summary, Tier,
    };
    &[
        field(Chat, "max_tokens", OutputCap),
        field(Chat, "max_completion_tokens", OutputCap),
        field(Chat, "n", Choices),
        field(Chat, "best_of", Choices),
        field(Chat, "modalities", Modalities),
        field(Chat, "service_tier", Tier(OPENAI_TIERS)),
        field(Chat, "models", Fallbacks(Attempts::Last)),
        field(Chat, "fallbacks", Fallbacks(Attempts::Last)),
        field(Chat, "cache_control.ttl", CacheLife(CACHE_LIFE)),
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
        field(Responses, "service_tier", Tier(OPENAI_TIERS)),
        field(Responses, "models", Fallbacks(Attempts::Last)),
        field(Responses, "fallbacks", Fallbacks(Attempts::Last)),
        field(Responses, "cache_control.ttl", CacheLife(CACHE_LIFE)),
        field(Responses, "context_management[].type", Changes { summary: "compaction", free: &[] }),
        field(Responses, "previous_response_id", StoredResponse),
        field(Responses, "conversation", StoredInput),
        field(Responses, "prompt", StoredInput),
        field(Responses, "background", Background),
        field(Responses, "store", Free),
        field(Messages, "max_tokens", OutputCap),
        field(Messages, "service_tier", Tier(&["auto", "standard_only", "standard", "priority"])),
        field(Messages, "speed", Speed(&["standard", "fast"])),
        field(Messages, "models", Fallbacks(Attempts::Last)),
        field(Messages, "fallbacks", Fallbacks(Attempts::All)),
        field(Messages, "cache_control.ttl", CacheLife(CACHE_LIFE)),
        field(
            Messages,
            "context_management.edits[].type",
            Changes { summary: "compact", free: &["clear_tool_uses_", "clear_thinking_"] },
        ),
        field(Messages, "compaction", Summary),
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
        field(Gemini, "serviceTier", Tier(&["unspecified", "standard", "flex", "priority"])),
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
/// Returns an error if a number is none, a list is too long, or more models are named than are priced.
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
        if let FieldRule::CacheLife(name) = field.rule {
            request.may_write_1h = may_write_1h(body);
            if let Some(life) = unknown_cache_life(body) {
                request.note_unbounded(format!("{name}: {life}"));
            }
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

    /// Its first key, which is its name in `allow_unmetered` if its rule has no special one.
    pub(crate) fn first_key(&self) -> &'static str {
        let first = self.path.split('.').next().unwrap_or(self.path);
        first.trim_end_matches("[]")
    }

    /// Returns the name in `allow_unmetered` by which it may be refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        match self.rule {
            FieldRule::Tier(_) | FieldRule::Speed(_) => Some(self.key()),
            FieldRule::Fallbacks(_) | FieldRule::Changes { .. } | FieldRule::Modalities => {
                Some(self.first_key())
            }
            rule => rule.refusal(),
        }
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
                if let Some(unknown) = words.iter().find(|word| !OutputKinds::has_word(word)) {
                    self.refuse(unknown, request);
                }
            }
            FieldRule::Tier(known) => {
                request.context.service_tier = self.known_word(value, known, request);
            }
            FieldRule::Speed(known) => {
                request.context.speed = self.known_word(value, known, request);
            }
            FieldRule::Fallbacks(billed) => self.add_fallbacks(value, billed, request)?,
            FieldRule::Changes { summary, free } => {
                let kind = value.text().unwrap_or_default();
                if kind.starts_with(summary) {
                    request.more_reads = request.more_reads.saturating_add(1);
                } else if !free.iter().any(|begin| kind.starts_with(begin)) {
                    self.refuse_value(value, request);
                }
            }
            FieldRule::Summary if value.is_some() => {
                request.more_reads = request.more_reads.saturating_add(1);
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
            FieldRule::StoredThread if continues_thread(value) => {
                request.thread = Thread::CanResend;
            }
            FieldRule::Background => request.is_background = value.is_truthy(),
            FieldRule::Only { values, .. } if value.json() != "null" => {
                let text = value.text();
                if !text.as_deref().is_some_and(|text| values.contains(&text)) {
                    self.refuse_value(value, request);
                }
            }
            FieldRule::Refused(name) => {
                if list(value)?.iter().any(|item| item.is_some()) {
                    request.note_unbounded(name.to_owned());
                }
            }
            // `null` is nothing.
            FieldRule::StoredResponse | FieldRule::StoredInput | FieldRule::Only { .. } => {}
            FieldRule::StoredThread | FieldRule::Summary => {}
            FieldRule::CacheLife(_) | FieldRule::Free => {}
        }
        Ok(())
    }

    /// A word in small letters, which has to be one of these.
    fn known_word(
        &self,
        value: Raw<'_>,
        known: &[&str],
        request: &mut CallRequest,
    ) -> Option<String> {
        let lower = value.word().map(|word| word.to_ascii_lowercase());
        let is_known = lower.as_deref().is_some_and(|word| known.contains(&word));
        if value.json() != "null" && !is_known {
            self.refuse_value(value, request);
        }
        lower
    }

    fn add_fallbacks(
        &self,
        value: Raw<'_>,
        billed: Attempts,
        request: &mut CallRequest,
    ) -> Result<(), ReadError> {
        if value.is_some() && !value.is_list() {
            self.refuse_value(value, request);
        }
        let others = list(value)?;
        if let Some(key) = others.iter().find_map(|other| own_terms(*other)) {
            self.refuse(key, request);
        }
        if billed == Attempts::All {
            let more = u64::try_from(others.len()).unwrap_or(u64::MAX);
            request.more_reads = request.more_reads.saturating_add(more);
        }
        request.fallbacks.extend(others.into_iter().map(model));
        Ok(())
    }

    fn refuse_value(&self, value: Raw<'_>, request: &mut CallRequest) {
        let shown = if value.is_some() { value.json() } else { "?" };
        self.refuse(value.text().as_deref().unwrap_or(shown), request);
    }

    fn refuse(&self, what: &str, request: &mut CallRequest) {
        let name = self.refusal().unwrap_or(self.path);
        request.note_unbounded(format!("{name}: {what}"));
    }
}

/// Whether a thread continues one that the upstream keeps.
fn continues_thread(value: Raw<'_>) -> bool {
    let thread = Entry::of(value);
    let continues = thread.get("type").text().as_deref() == Some("continue");
    continues || thread.get("previous_message_id").is_some()
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

const MARK: &str = r#""cache_control""#;
static FIND_CACHE_MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MARK));

/// A life of a cache whose price is not known.
fn unknown_cache_life(body: &[u8]) -> Option<String> {
    FIND_CACHE_MARK.find_iter(body).find_map(|at| {
        let after = body.get(at..)?.get(MARK.len()..)?.trim_ascii_start();
        let after = after.strip_prefix(b":")?.trim_ascii_start();
        // The object is flat: it ends at its first brace.
        let end = memchr::memchr(b'}', after).filter(|_| after.starts_with(b"{"))?;
        let object = std::str::from_utf8(after.get(..=end)?).ok()?;
        let life = Entry::of(Raw::of(object)).get("ttl");
        let is_known = matches!(life.json(), "" | "null" | r#""5m""# | r#""1h""#);
        (!is_known).then(|| life.text().unwrap_or_default().into_owned())
    })
}

/// Whether a key is this one, which Gemini takes with underscores too.
fn is_spelled(api: Api, name: &str, key: &str) -> bool {
    name == key || api == Api::Gemini && name.contains('_') && name == with_underscores(key)
}

pub(crate) fn with_underscores(key: &str) -> String {
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
/// Returns an error if it has more than are read.
fn list(value: Raw<'_>) -> Result<Vec<Raw<'_>>, ReadError> {
    if !value.is_list() {
        return Ok(Vec::new());
    }
    Ok(parse::<List<Raw<'_>>>(value.json())?.0)
}

/// The terms of a model that may answer instead, beyond the bounds of the request's fields.
fn own_terms(fallback: Raw<'_>) -> Option<&'static str> {
    let own = Entry::of(fallback);
    ["max_tokens", "speed"].into_iter().find(|key| own.get(key).is_some())
}

/// A model that may answer in another's stead: its name, or an object that has it. One that cannot be read has no price.
fn model(fallback: Raw<'_>) -> String {
    let inner = || Entry::of(fallback).get("model").text();
    fallback.text().or_else(inner).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests;
