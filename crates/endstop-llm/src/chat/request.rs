//! Requests, as they are read.

use std::borrow::Cow;

use super::edit;
use crate::ambiguous_keys::{DecidingKey, FALLBACK_KEYS, TOOL_KEYS, check_request, truth};
use crate::json::{Entry, List, Object, Raw, ReadEntry, fields};
use crate::limits::MAX_CALLS;
use crate::output_contract::{Offer, ToolRequirement, output_contract};
use crate::parts::{Kind, Noted, arguments_of, complete, fixed_marks_with, read_noting, text_of};
use crate::price_fields::{self, SEARCH_PLUGIN};
use crate::provider_tools::ProviderTools;
use crate::token_bound::{TokenBound, tool_instructions};
use crate::{Api, CallRequest, ReadError, ToolResult};

/// The keys that decide the cost of a response, and who gives it.
pub(crate) const KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["model"]),
    DecidingKey::of(&["stream"]),
    DecidingKey::of(&["stream_options"]).with(&[DecidingKey::of(&["include_usage"])]),
    DecidingKey::of(&["max_tokens"]),
    DecidingKey::of(&["max_completion_tokens"]),
    DecidingKey::of(&["n"]),
    DecidingKey::of(&["best_of"]),
    DecidingKey::of(&["service_tier"]),
    DecidingKey::of(&["models"]).with(FALLBACK_KEYS),
    DecidingKey::of(&["fallbacks"]).with(FALLBACK_KEYS),
    DecidingKey::of(&["messages"]),
    DecidingKey::of(&["tools"]).with(TOOL_KEYS),
    DecidingKey::of(&["functions"]),
    DecidingKey::of(&["modalities"]),
    DecidingKey::of(&["web_search_options"]),
    DecidingKey::of(&["search_parameters"]),
    DecidingKey::of(&["plugins"]).with(&[DecidingKey::of(&["id"])]),
];

fields! {
    Request<'j> {
        model: Raw<'j> = "model",
        stream: Raw<'j> = "stream",
        stream_options: StreamOptions<'j> = "stream_options",
        web_search: Raw<'j> = "web_search_options",
        live_search: Raw<'j> = "search_parameters",
        plugins: Raw<'j> = "plugins",
        tools: List<ReadEntry<'j, Tool<'j>>> = "tools",
        tool_choice: Raw<'j> = "tool_choice",
        functions: List<Function<'j>> = "functions",
        function_call: Raw<'j> = "function_call",
        format: Kind<'j> = "response_format",
        messages: List<Entry<'j>> = "messages",
    }
}

fields! {
    Messages<'j> {
        messages: Raw<'j> = "messages",
    }
}

fields! {
    StreamOptions<'j> {
        include_usage: Raw<'j> = "include_usage",
    }
}

fields! {
    Tool<'j> {
        kind: Raw<'j> = "type",
        function: Function<'j> = "function" | "custom",
    }
}

fields! {
    Function<'j> {
        name: Raw<'j> = "name",
        parameters: Raw<'j> = "parameters",
        arguments: Raw<'j> = "arguments" | "input",
    }
}

fields! {
    Plugin<'j> {
        id: Raw<'j> = "id",
    }
}

fields! {
    Choice<'j> {
        name: Raw<'j> = "name",
        function: Function<'j> = "function" | "custom",
        allowed: Allowed<'j> = "allowed_tools",
    }
}

fields! {
    Allowed<'j> {
        mode: Raw<'j> = "mode",
    }
}

fields! {
    Call<'j> {
        id: Raw<'j> = "id",
        function: Function<'j> = "function" | "custom",
    }
}

/// The JSON of the messages.
pub(crate) fn messages(body: &[u8]) -> Option<&str> {
    let messages = read_noting::<Messages<'_>>(body).ok()?.value.messages;
    messages.is_some().then(|| messages.json())
}

/// Reads a request.
pub(crate) fn read(body: &[u8]) -> Result<CallRequest, ReadError> {
    let Noted { text, value: request, members } = read_noting::<Request<'_>>(body)?;
    check_request(&members, KEYS, &request.tools.0)?;
    let model = request.model.text().unwrap_or_default();
    let mut bound = TokenBound::of_model(&model);
    let offers = request.offers();
    let mut parsed = CallRequest {
        model: model.into_owned(),
        is_stream: truth(request.stream, "stream")?,
        wants_usage: request.stream_options.include_usage.is_true(),
        contract: request.output_contract(&offers),
        tools: offers.into_iter().map(|offer| offer.name.into_owned()).collect(),
        fixed: fixed_marks_with(
            &members,
            "messages",
            Some(request.tools.0.as_slice()),
            &mut bound,
        )?,
        root: Object::known(text, &members, edit::KEYS),
        ..price_fields::read(Api::Chat, body, &members)?
    };
    request.add_provider_tools(&mut parsed);
    if !parsed.tools.is_empty() {
        parsed.fixed.push(tool_instructions());
    }
    conversation(&request.messages.0, &mut bound, &mut parsed)?;
    Ok(complete(parsed, Api::Chat, &members, bound))
}

impl<'j> Request<'j> {
    fn offers(&self) -> Vec<Offer<'j>> {
        let tools = self.tools.0.iter().map(|tool| &tool.value.function);
        let functions = tools.chain(&self.functions.0);
        functions
            .filter_map(|it| Some(Offer { name: it.name.text()?, schema: it.parameters }))
            .collect()
    }

    /// Adds the tools that run at the provider, and the kinds of those that have no bound.
    fn add_provider_tools(&self, parsed: &mut CallRequest) {
        let mut tools = ProviderTools::default();
        for kind in self.tools.0.iter().filter_map(|tool| tool.value.kind.text()) {
            if let Some(unknown) = tools.offer(Api::Chat, &kind, None) {
                parsed.note_unbounded(unknown.to_owned());
            }
        }
        for (value, name) in
            [(self.web_search, "web_search_options"), (self.live_search, "search_parameters")]
        {
            if value.is_some() {
                tools.offer(Api::Chat, name, None);
            }
        }
        for plugin in self.plugins.items().into_iter().take(MAX_CALLS) {
            if plugin.read::<Plugin<'_>>().id.text().as_deref() == Some(SEARCH_PLUGIN) {
                tools.offer(Api::Chat, "plugins", None);
            }
        }
        parsed.provider_tools = tools;
    }

    fn output_contract(&self, offers: &[Offer<'_>]) -> crate::OutputContract {
        let format = self.format.kind.text();
        let wants_json = matches!(format.as_deref(), Some("json_schema" | "json_object"));
        let choice = if self.tool_choice.is_some() { self.tool_choice } else { self.function_call };
        output_contract(offers, &requirement(choice), wants_json)
    }
}

/// The requirement in a `tool_choice`. Some servers call `required` `any`.
fn requirement(choice: Raw<'_>) -> ToolRequirement {
    if let Some(word) = choice.text() {
        return required_by_word(&word);
    }
    if !choice.is_object() {
        return ToolRequirement::Free;
    }
    let choice: Choice<'_> = choice.read();
    if let Some(mode) = choice.allowed.mode.text() {
        return required_by_word(&mode);
    }
    let name = choice.function.name.text().or_else(|| choice.name.text());
    name.map_or(ToolRequirement::Any, |name| ToolRequirement::On(name.into_owned()))
}

/// The requirement in a word.
pub(crate) fn required_by_word(word: &str) -> ToolRequirement {
    match word {
        "none" => ToolRequirement::Never,
        "required" | "any" => ToolRequirement::Any,
        _ => ToolRequirement::Free,
    }
}

/// Reads the messages, and what came after the model's last one.
fn conversation(
    messages: &[Entry<'_>],
    bound: &mut TokenBound,
    parsed: &mut CallRequest,
) -> Result<(), ReadError> {
    let mut calls: Vec<(Cow<'_, str>, Function<'_>)> = Vec::new();
    let mut was_model = false;
    for message in messages {
        let role = message.get("role").text().unwrap_or_default();
        let is_model = role == "assistant";
        parsed.messages.push(bound.mark_entry(message, role == "user")?);
        match &*role {
            "assistant" => {
                if !was_model {
                    calls.clear();
                }
                parsed.results.clear();
                parsed.has_user_message = false;
                let legacy: Function<'_> = message.get("function_call").read();
                let legacy = Some(legacy).filter(|call| call.name.is_some());
                let ids = message.get("tool_calls").read::<List<Call<'_>>>().0.into_iter();
                let named = ids.map(|call| (call.id.text().unwrap_or_default(), call.function));
                let all = named.chain(legacy.map(|function| (Cow::Borrowed(""), function)));
                calls.extend(all.take(MAX_CALLS));
            }
            "user" => parsed.has_user_message = true,
            "tool" | "function" => parsed.results.push(result(message, &calls)),
            _ => {}
        }
        was_model = is_model;
    }
    Ok(())
}

fn result(message: &Entry<'_>, calls: &[(Cow<'_, str>, Function<'_>)]) -> ToolResult {
    let id = message.get("tool_call_id").text().unwrap_or_default();
    let name = message.get("name").text().unwrap_or_default();
    let is_it = |(known, function): &&(Cow<'_, str>, Function<'_>)| {
        *known == id && (!id.is_empty() || function.name.text().as_ref() == Some(&name))
    };
    let call = calls.iter().find(is_it).map(|(_, function)| function);
    let tool = call.and_then(|function| function.name.text()).unwrap_or(name);
    ToolResult {
        id: id.into_owned(),
        tool: tool.into_owned(),
        arguments: call.map_or(Cow::Borrowed(""), |it| arguments_of(it.arguments)).into_owned(),
        content: text_of(message.get("content")).into_owned(),
        failed: false,
    }
}
