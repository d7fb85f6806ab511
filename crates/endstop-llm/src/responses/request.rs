//! Requests, as they are read.

use std::borrow::Cow;

use crate::ambiguous_keys::{DecidingKey, FALLBACK_KEYS, TOOL_KEYS, check_members, truth};
use crate::chat::required_by_word;
use crate::content_kinds::{ContentHold, PartMarks, hold_of};
use crate::json::{List, Raw, fields};
use crate::limits::MAX_CALLS;
use crate::output_contract::{Offer, ToolRequirement, output_contract};
use crate::parts::{
    Formatted, Noted, ToolChoice, arguments_of, complete, fixed_marks, read_noting, text_of,
};
use crate::price_fields;
use crate::provider_tools::{ProviderTools, is_of_client};
use crate::token_bound::{TokenBound, tool_instructions};
use crate::{Api, CallRequest, ReadError, Thread, ToolResult};

/// The keys that decide the cost of a response, and who gives it.
pub(crate) const KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["model"]),
    DecidingKey::of(&["stream"]),
    DecidingKey::of(&["max_output_tokens"]),
    DecidingKey::of(&["background"]),
    DecidingKey::of(&["previous_response_id"]),
    DecidingKey::of(&["conversation"]),
    DecidingKey::of(&["prompt"]),
    DecidingKey::of(&["service_tier"]),
    DecidingKey::of(&["max_tool_calls"]),
    DecidingKey::of(&["models"]).with(FALLBACK_KEYS),
    DecidingKey::of(&["fallbacks"]).with(FALLBACK_KEYS),
    DecidingKey::of(&["input"]),
    DecidingKey::of(&["instructions"]),
    DecidingKey::of(&["context_management"]).with(&[DecidingKey::of(&["type"])]),
    DecidingKey::of(&["tools"]).with(TOOL_KEYS),
];

fields! {
    Request<'j> {
        model: Raw<'j> = "model",
        stream: Raw<'j> = "stream",
        tools: List<Tool<'j>> = "tools",
        tool_choice: Raw<'j> = "tool_choice",
        text: Formatted<'j> = "text",
        input: Raw<'j> = "input",
        most_runs: Raw<'j> = "max_tool_calls",
    }
}

fields! {
    Tool<'j> {
        kind: Raw<'j> = "type",
        name: Raw<'j> = "name",
        parameters: Raw<'j> = "parameters",
    }
}

fields! {
    ItemTools<'j> {
        tools: List<Tool<'j>> = "tools",
    }
}

fields! {
    Item<'j> {
        kind: Raw<'j> = "type",
        role: Raw<'j> = "role",
        call_id: Raw<'j> = "call_id",
        id: Raw<'j> = "id",
        name: Raw<'j> = "name",
        arguments: Raw<'j> = "arguments" | "input" | "action" | "operation",
        output: Raw<'j> = "output",
        content: Raw<'j> = "content",
    }
}

/// The item that asks for a summary of the conversation.
const SUMMARY: &str = "compaction_trigger";

/// Kinds of items that are from neither the model nor the user, and have no role that shows it.
const CONTROLS: [&str; 3] = [SUMMARY, "configuration_update", "agent_message"];

/// Who an item is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemSource {
    Model,
    User,
    Tool,
    /// Instructions, or what only names another item.
    Other,
}

impl Item<'_> {
    pub(super) fn from(&self) -> ItemSource {
        let kind = self.kind.text().unwrap_or_default();
        if self.names_item() {
            return ItemSource::Other;
        }
        match self.role.text().as_deref() {
            Some("assistant") => ItemSource::Model,
            Some("user") => ItemSource::User,
            Some(_) => ItemSource::Other,
            None if kind.ends_with("_output") => ItemSource::Tool,
            None if kind == "mcp_approval_response" => ItemSource::User,
            None if matches!(&*kind, "message" | "") || CONTROLS.contains(&&*kind) => {
                ItemSource::Other
            }
            None => ItemSource::Model,
        }
    }

    /// Whether it stands for an item that the upstream keeps. The API takes the kind for granted where there is only
    /// an id.
    fn names_item(&self) -> bool {
        match self.kind.text().as_deref() {
            Some(kind) => {
                let marks = PartMarks { kind: Some(kind), ..PartMarks::default() };
                hold_of(&marks) == ContentHold::KeptItem
            }
            None => self.id.is_some() && !self.role.is_some() && !self.content.is_some(),
        }
    }
}

fn read_list(input: Raw<'_>) -> Result<List<Raw<'_>>, ReadError> {
    Ok(crate::json::parse(input.json())?)
}

/// Reads a request.
pub(crate) fn read(body: &[u8]) -> Result<CallRequest, ReadError> {
    let Noted { value: mut request, members, .. } = read_noting::<Request<'_>>(body)?;
    check_members(&members, KEYS)?;
    let model = request.model.text().unwrap_or_default();
    let mut bound = TokenBound::of_model(&model);
    let items: List<Raw<'_>> =
        if request.input.is_list() { read_list(request.input)? } else { List::default() };
    let of_items = tools_of_items(&items.0);
    // Tools in the conversation cannot be removed.
    let has_tools_in_items = !of_items.is_empty();
    request.tools.0.extend(of_items);
    let offers = request.offers();
    let mut parsed = CallRequest {
        model: model.into_owned(),
        is_stream: truth(request.stream, "stream")?,
        wants_usage: true,
        contract: output_contract(&offers, &requirement(request.tool_choice), request.wants_json()),
        tools: offers.into_iter().map(|offer| offer.name.into_owned()).collect(),
        fixed: fixed_marks(&members, "input", &mut bound)?,
        ..price_fields::read(Api::Responses, body, &members)?
    };
    request.add_provider_tools(has_tools_in_items, &mut parsed);
    if !request.tools.0.is_empty() {
        parsed.fixed.push(tool_instructions());
    }
    if request.input.is_list() {
        conversation(&items.0, &mut bound, &mut parsed)?;
    } else if request.input.is_some() {
        parsed.messages.push(bound.mark(request.input, true)?);
        parsed.has_user_message = true;
    }
    Ok(complete(parsed, Api::Responses, &members, bound))
}

/// The tools that items of a conversation add to those of the request.
fn tools_of_items<'j>(items: &[Raw<'j>]) -> Vec<Tool<'j>> {
    let lists = items.iter().map(|item| item.read::<ItemTools<'j>>().tools.0);
    lists.flatten().take(MAX_CALLS).collect()
}

impl<'j> Request<'j> {
    /// The tools that have a name. Tools of the provider have only a kind, and run there.
    fn offers(&self) -> Vec<Offer<'j>> {
        let offers = self.tools.0.iter();
        offers
            .filter_map(|tool| Some(Offer { name: tool.name.text()?, schema: tool.parameters }))
            .collect()
    }

    /// Adds the tools that run at the provider, and the kinds of those that have no bound.
    fn add_provider_tools(&self, are_in_items: bool, parsed: &mut CallRequest) {
        let mut tools = ProviderTools::default();
        let kinds = || self.tools.0.iter().filter_map(|tool| tool.kind.text());
        for kind in kinds() {
            if let Some(unknown) = tools.offer(Api::Responses, &kind, None) {
                parsed.note_unbounded(unknown.to_owned());
            }
        }
        tools.limit_together(self.most_runs.count());
        let has_others = kinds().any(|kind| is_of_client(Api::Responses, &kind));
        tools.are_removable = has_others
            && !are_in_items
            && matches!(
                requirement(self.tool_choice),
                ToolRequirement::Free | ToolRequirement::Never
            );
        parsed.provider_tools = tools;
    }

    fn wants_json(&self) -> bool {
        let kind = self.text.format.kind.text();
        matches!(kind.as_deref(), Some("json_schema" | "json_object"))
    }
}

fn requirement(choice: Raw<'_>) -> ToolRequirement {
    if let Some(word) = choice.text() {
        return required_by_word(&word);
    }
    if !choice.is_object() {
        return ToolRequirement::Free;
    }
    let choice: ToolChoice<'_> = choice.read();
    match choice.mode.text() {
        Some(mode) => required_by_word(&mode),
        None => choice
            .name
            .text()
            .map_or(ToolRequirement::Any, |name| ToolRequirement::On(name.into_owned())),
    }
}

/// Reads the items, and what came after the model's last one.
fn conversation(
    items: &[Raw<'_>],
    bound: &mut TokenBound,
    parsed: &mut CallRequest,
) -> Result<(), ReadError> {
    let mut calls: Vec<Item<'_>> = Vec::new();
    for raw in items {
        let item: Item<'_> = raw.read();
        let from = item.from();
        if item.kind.text().as_deref() == Some(SUMMARY) {
            parsed.more_reads = parsed.more_reads.saturating_add(1);
        }
        parsed.messages.push(bound.mark(*raw, from == ItemSource::User)?);
        match from {
            ItemSource::Model => {
                parsed.results.clear();
                parsed.has_user_message = false;
                if item.call_id.is_some() && calls.len() < MAX_CALLS.saturating_mul(16) {
                    calls.push(item);
                }
            }
            ItemSource::User => parsed.has_user_message = true,
            ItemSource::Tool => parsed.results.push(result(&item, &calls)),
            ItemSource::Other => {
                if item.names_item() {
                    parsed.thread = Thread::Continues;
                    // The response before does not tell its size.
                    if let Some(mark) = parsed.messages.last_mut() {
                        mark.is_open = true;
                    }
                }
            }
        }
    }
    Ok(())
}

fn result(item: &Item<'_>, calls: &[Item<'_>]) -> ToolResult {
    let id = item.call_id.text().unwrap_or_default();
    let call = calls.iter().rev().find(|call| call.call_id.text().as_ref() == Some(&id));
    let of_call = |part: fn(&Item<'_>) -> String| call.map(part).unwrap_or_default();
    let output = text_of(item.output);
    let is_text = item.output.is_list() || item.output.text().is_some();
    ToolResult {
        tool: of_call(|call| {
            let name = call.name.text().or_else(|| call.kind.text());
            name.unwrap_or_default().trim_end_matches("_call").to_owned()
        }),
        arguments: of_call(|call| arguments_of(call.arguments).into_owned()),
        content: if is_text { output.into_owned() } else { item.output.json().to_owned() },
        failed: false,
        id: Cow::into_owned(id),
    }
}
