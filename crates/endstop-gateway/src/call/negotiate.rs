//! Additions of the gateway to a request that an upstream refuses, and their replacements.
//!
//! A call without an output cap gets one if tokens or money are limited. Models differ in how much they take and in
//! which field, and no list of them stays right. A stream is asked to report its usage, which some servers do not know.
//! A wrap-up (`docs/semantics.md` section 10) forbids tools by a choice that some servers do not take. The gateway sends a refused request again as the
//! upstream would take it, and remembers that: of the model for caps and usage, of the API for the choice of tools.

mod refusal;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_llm::{Api, Edits, ToolLimit, ToolsOff};
use endstop_runtime::WRAP_UP_NOTE;
use http::StatusCode;

use super::parse::ParsedCall;
use crate::limits::{MAX_CACHED_MODELS, MAX_CACHED_NAME, MAX_CAP_RETRIES};
use refusal::{names_cap_field, names_tool_choice, names_tools, names_usage, next_cap};

/// The warning for a client if its tools stay in a wrap-up.
const TOOLS_STAY: &str = "the upstream takes no choice of no tools, and the conversation needs its tools: they stay in this \
    last call";

/// How a model wants what the gateway adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestVariant {
    /// The output cap is in the other field than the model's name suggests.
    other_cap_field: bool,
    /// Usage is not asked for in streams.
    no_usage: bool,
}

/// The known quirks of a model.
#[derive(Clone, Copy, Debug, Default)]
struct ModelQuirks {
    /// The largest output cap, if a larger one was refused.
    max_cap: Option<u64>,
    variant: RequestVariant,
}

/// The known quirks of upstreams.
#[derive(Debug, Default)]
pub(super) struct QuirkCache {
    /// By provider and model.
    models: Mutex<HashMap<(&'static str, String), ModelQuirks>>,
    /// By API: each has one upstream.
    tools: Mutex<Vec<(Api, ToolsOff)>>,
}

impl QuirkCache {
    fn models(&self) -> MutexGuard<'_, HashMap<(&'static str, String), ModelQuirks>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tools(&self) -> MutexGuard<'_, Vec<(Api, ToolsOff)>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_model(&self, provider: &'static str, model: &str) -> ModelQuirks {
        let models = self.models();
        if models.is_empty() {
            return ModelQuirks::default();
        }
        models.get(&(provider, model.to_owned())).copied().unwrap_or_default()
    }

    /// Returns the output cap for a call that has none: `default`, or what the model is known to take.
    pub(super) fn output_cap(&self, provider: &'static str, model: &str, default: u64) -> u64 {
        self.of_model(provider, model).max_cap.map_or(default, |cap| default.min(cap))
    }

    /// The model has taken a request of this variant, with this cap if it has refused a larger one.
    fn remember_model(
        &self,
        provider: &'static str,
        model: &str,
        cap: Option<u64>,
        variant: RequestVariant,
    ) {
        if model.len() > MAX_CACHED_NAME {
            return;
        }
        let mut models = self.models();
        if models.len() >= MAX_CACHED_MODELS {
            models.clear();
        }
        let quirks = models.entry((provider, model.to_owned())).or_default();
        (quirks.max_cap, quirks.variant) = (cap.or(quirks.max_cap), variant);
    }

    fn tools_off(&self, api: Api) -> ToolsOff {
        let tools = self.tools();
        tools.iter().find(|(of, _)| *of == api).map_or(ToolsOff::Forbid, |(_, off)| *off)
    }

    fn remember_tools_off(&self, api: Api, off: ToolsOff) {
        let mut tools = self.tools();
        tools.retain(|(of, _)| *of != api);
        tools.push((api, off));
    }
}

/// The next step after an upstream's refusal.
#[derive(Debug)]
pub(super) enum NegotiationStep<'p> {
    /// The request is sent again with these edits.
    Retry(Edits<'p>),
    /// The refusal is about something else, or nothing is left to try.
    Final,
}

/// The gateway's additions to one request that the upstream has accepted so far.
#[derive(Debug)]
pub(super) struct Negotiation {
    /// The output cap that is reserved, of all choices; `None` if the call has none.
    reserved_output: Option<u64>,
    /// The client's own output cap, of each choice.
    client_cap: Option<u64>,
    choices: u64,
    /// Whether it is a stream without a request for its usage.
    lacks_usage: bool,
    is_wrap_up: bool,
    /// How tools that run at the provider are limited.
    provider_tools: ToolLimit,
    /// The variant that the model was known to take, and the one that is sent now.
    first_variant: RequestVariant,
    variant: RequestVariant,
    tools_off: ToolsOff,
    /// How often the upstream refused the size of the cap.
    refused_caps: u32,
}

impl Negotiation {
    /// Begins with what the upstream is known to take. `reserved_output` is the output cap of all choices together.
    pub(super) fn new(
        quirks: &QuirkCache,
        provider: &'static str,
        parsed: &ParsedCall,
        reserved_output: Option<u64>,
        is_wrap_up: bool,
    ) -> Self {
        let request = parsed.request();
        let variant = quirks.of_model(provider, &request.model).variant;
        let tools_off = if is_wrap_up {
            or_ask(parsed, quirks.tools_off(parsed.api()))
        } else {
            ToolsOff::Forbid
        };
        Self {
            reserved_output,
            client_cap: request.output_cap,
            choices: request.choices.max(1),
            lacks_usage: request.is_stream && !request.wants_usage,
            is_wrap_up,
            provider_tools: ToolLimit::AsSent,
            first_variant: variant,
            variant,
            tools_off,
            refused_caps: 0,
        }
    }

    /// With this limit of the tools that run at the provider.
    pub(super) fn with_tools(self, provider_tools: ToolLimit) -> Self {
        Self { provider_tools, ..self }
    }

    /// The output cap that the upstream was sent last, of all choices.
    pub(super) const fn output_cap(&self) -> Option<u64> {
        self.reserved_output
    }

    /// Whether the stream reports its usage although its client does not ask for it.
    pub(super) const fn forces_usage(&self) -> bool {
        self.lacks_usage && !self.variant.no_usage
    }

    /// A note for the client.
    pub(super) fn notice(&self) -> Option<&'static str> {
        (self.tools_off == ToolsOff::Ask).then_some(TOOLS_STAY)
    }

    /// The changes to the client's request.
    pub(super) fn edits<'p>(&self, parsed: &'p ParsedCall) -> Edits<'p> {
        Edits {
            output_cap: self.cap_to_send(),
            other_cap_field: self.variant.other_cap_field,
            force_usage: self.forces_usage(),
            finish: self.is_wrap_up.then_some(WRAP_UP_NOTE),
            tools_off: self.tools_off,
            provider_tools: self.provider_tools,
            note: parsed.note(),
            request: Some(parsed.request()),
        }
    }

    /// The output cap to send, of each choice; `None` if it is the client's own.
    fn cap_to_send(&self) -> Option<u64> {
        let of_each = self.reserved_output?.checked_div(self.choices)?;
        (self.client_cap != Some(of_each)).then_some(of_each)
    }

    /// Whether a response with this status may refuse what the gateway added.
    pub(super) fn is_concerned(&self, status: StatusCode) -> bool {
        let is_refusal =
            [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&status);
        let has_tools_choice = self.is_wrap_up && self.tools_off < ToolsOff::Ask;
        is_refusal && (self.may_lower_cap() || has_tools_choice || self.forces_usage())
    }

    /// Finds another form of the request that these words of a refusal do not concern.
    pub(super) fn refused<'p>(
        &mut self,
        words: &str,
        parsed: &'p ParsedCall,
    ) -> NegotiationStep<'p> {
        if self.change_tools_off(words, parsed)
            || self.change_variant(words)
            || self.lower_cap(words)
        {
            NegotiationStep::Retry(self.edits(parsed))
        } else {
            NegotiationStep::Final
        }
    }

    /// Remembers what the upstream has taken, if it refused something else before.
    pub(super) fn accepted(
        &self,
        quirks: &QuirkCache,
        provider: &'static str,
        parsed: &ParsedCall,
    ) {
        if self.refused_caps > 0 || self.variant != self.first_variant {
            let cap = self.reserved_output.filter(|_| self.refused_caps > 0);
            let cap = cap.map(|cap| cap / self.choices);
            quirks.remember_model(provider, &parsed.request().model, cap, self.variant);
        }
        if self.is_wrap_up && self.tools_off != ToolsOff::Forbid {
            let is_removable = parsed.dialect().may_remove_tools(parsed.body());
            let off = if is_removable { self.tools_off } else { ToolsOff::Remove };
            quirks.remember_tools_off(parsed.api(), off);
        }
    }

    /// Whether the cap that was sent is the gateway's own, and a lower one can be tried.
    const fn may_lower_cap(&self) -> bool {
        self.client_cap.is_none()
            && self.reserved_output.is_some()
            && self.refused_caps < MAX_CAP_RETRIES
    }

    /// Keeps the model from tools in another way, if these words refuse the one that was sent.
    fn change_tools_off(&mut self, words: &str, parsed: &ParsedCall) -> bool {
        if !self.is_wrap_up {
            return false;
        }
        self.tools_off = match self.tools_off {
            ToolsOff::Forbid if names_tool_choice(words) => or_ask(parsed, ToolsOff::Remove),
            ToolsOff::Remove if names_tools(words) => ToolsOff::Ask,
            _ => return false,
        };
        true
    }

    /// Writes what the gateway has added differently, if these words refuse how it was written.
    fn change_variant(&mut self, words: &str) -> bool {
        let has_swapped = self.variant.other_cap_field != self.first_variant.other_cap_field;
        if self.forces_usage() && names_usage(words) {
            self.variant.no_usage = true;
        } else if self.may_lower_cap() && !has_swapped && names_cap_field(words) {
            self.variant.other_cap_field = !self.variant.other_cap_field;
        } else {
            return false;
        }
        true
    }

    /// Lowers the output cap, if these words refuse its size.
    fn lower_cap(&mut self, words: &str) -> bool {
        let reserved = self.reserved_output.filter(|_| self.may_lower_cap());
        let Some(reserved) = reserved else { return false };
        let sent = reserved / self.choices;
        self.refused_caps += 1;
        let next = next_cap(words, sent, self.refused_caps);
        if let Some(cap) = next {
            self.reserved_output = Some(cap.saturating_mul(self.choices));
        }
        next.is_some()
    }
}

/// Returns `off`, or [`ToolsOff::Ask`] if the request is not taken without its tools.
fn or_ask(parsed: &ParsedCall, off: ToolsOff) -> ToolsOff {
    let stays = off == ToolsOff::Remove && !parsed.dialect().may_remove_tools(parsed.body());
    if stays { ToolsOff::Ask } else { off }
}

#[cfg(test)]
mod tests;
