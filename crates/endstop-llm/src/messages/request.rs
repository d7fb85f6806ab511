//! Requests, as they are read.

use std::borrow::Cow;

use crate::ambiguous_keys::{DecidingKey, FALLBACK_KEYS, TOOL_KEYS, check_request, truth};
use crate::json::{List, Raw, ReadEntry, fields};
use crate::limits::MAX_CALLS;
use crate::output_contract::{Offer, ToolRequirement, output_contract};
use crate::parts::{
    Formatted, Kind, Noted, ToolChoice, arguments_of, complete, fixed_marks_with, read_noting,
    read_object, text_of,
};
use crate::price_fields;
use crate::provider_tools::{ProviderTools, is_of_client};
use crate::token_bound::{TokenBound, tool_instructions};
use crate::{Api, CallRequest, ReadError, ToolResult};

/// The beginning of text that programs add to the results of tools in the user's name.
const REMINDER: &str = "<system-reminder>";

/// The keys that decide the cost of a response, and who gives it.
pub(crate) const KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["model"]),
    DecidingKey::of(&["stream"]),
    DecidingKey::of(&["max_tokens"]),
    DecidingKey::of(&["service_tier"]),
    DecidingKey::of(&["speed"]),
    DecidingKey::of(&["thread"])
        .with(&[DecidingKey::of(&["type"]), DecidingKey::of(&["previous_message_id"])]),
    DecidingKey::of(&["models"]).with(FALLBACK_KEYS),
    DecidingKey::of(&["fallbacks"]).with(FALLBACK_KEYS),
    DecidingKey::of(&["messages"]),
    DecidingKey::of(&["system"]),
    DecidingKey::of(&["tools"]).with(TOOL_KEYS),
    DecidingKey::of(&["mcp_servers"]),
    DecidingKey::of(&["container"]).with(&[DecidingKey::of(&["skills"])]),
    DecidingKey::of(&["context_management"])
        .with(&[DecidingKey::of(&["edits"]).with(&[DecidingKey::of(&["type"])])]),
    DecidingKey::of(&["inference_geo"]),
    DecidingKey::of(&["compaction"]),
];

fields! {
    Request<'j> {
        model: Raw<'j> = "model",
        stream: Raw<'j> = "stream",
        servers: List<Raw<'j>> = "mcp_servers",
        tools: List<ReadEntry<'j, Tool<'j>>> = "tools",
        tool_choice: ToolChoice<'j> = "tool_choice",
        format: Kind<'j> = "output_format",
        config: Formatted<'j> = "output_config",
        messages: List<Raw<'j>> = "messages",
    }
}

fields! {
    Tool<'j> {
        kind: Raw<'j> = "type",
        name: Raw<'j> = "name",
        most: Raw<'j> = "max_uses",
        model: Raw<'j> = "model",
        schema: Raw<'j> = "input_schema",
    }
}

fields! {
    Message<'j> {
        role: Raw<'j> = "role",
        content: Raw<'j> = "content",
    }
}

fields! {
    Block<'j> {
        kind: Raw<'j> = "type",
        text: Raw<'j> = "text",
        id: Raw<'j> = "id",
        name: Raw<'j> = "name",
        input: Raw<'j> = "input",
        use_id: Raw<'j> = "tool_use_id",
        content: Raw<'j> = "content",
        is_error: Raw<'j> = "is_error",
    }
}

/// Reads a request.
pub(crate) fn read(body: &[u8]) -> Result<CallRequest, ReadError> {
    let Noted { value: request, members, .. } = read_noting::<Request<'_>>(body)?;
    check_request(&members, KEYS, &request.tools.0)?;
    let model = request.model.text().unwrap_or_default();
    let mut bound = TokenBound::of_model(&model);
    let offers = request.offers();
    let formats = [request.format.kind, request.config.format.kind];
    let wants_json = formats.iter().any(|kind| kind.json() == "\"json_schema\"");
    let mut parsed = CallRequest {
        model: model.into_owned(),
        is_stream: truth(request.stream, "stream")?,
        wants_usage: true,
        contract: output_contract(&offers, &requirement(&request.tool_choice), wants_json),
        tools: offers.into_iter().map(|offer| offer.name.into_owned()).collect(),
        fixed: fixed_marks_with(
            &members,
            "messages",
            Some(request.tools.0.as_slice()),
            &mut bound,
        )?,
        ..price_fields::read(Api::Messages, body, &members)?
    };
    request.add_models_of_tools(&mut parsed);
    request.add_provider_tools(&mut parsed);
    if !parsed.tools.is_empty() {
        parsed.fixed.push(tool_instructions());
    }
    conversation(&request.messages.0, &mut bound, &mut parsed)?;
    Ok(complete(parsed, Api::Messages, &members, bound))
}

/// Whether the API takes the request without its tools.
pub(crate) fn may_remove_tools(body: &[u8]) -> bool {
    read_object::<Request<'_>>(body).is_ok_and(|request| {
        let messages = request.messages.0.iter().map(|raw| raw.read::<Message<'_>>());
        let mut blocks = messages.flat_map(|message| message.content.read::<List<Block<'_>>>().0);
        let is_of_tool = |kind: &str| kind.ends_with("tool_use") || kind.ends_with("tool_result");
        !blocks.any(|block| block.kind.text().is_some_and(|kind| is_of_tool(&kind)))
    })
}

impl<'j> Request<'j> {
    fn offers(&self) -> Vec<Offer<'j>> {
        let offers = self.tools.0.iter().map(|it| &it.value);
        offers.filter_map(|it| Some(Offer { name: it.name.text()?, schema: it.schema })).collect()
    }

    /// Adds the tools that run at the provider, and the kinds of those that have no bound.
    fn add_provider_tools(&self, parsed: &mut CallRequest) {
        let mut tools = ProviderTools::default();
        for ReadEntry { value: tool, .. } in &self.tools.0 {
            let kind = tool.kind.text().unwrap_or_default();
            if kind.is_empty() {
                continue;
            }
            if let Some(unknown) = tools.offer(Api::Messages, &kind, tool.most.count()) {
                parsed.note_unbounded(unknown.to_owned());
            }
        }
        if !self.servers.0.is_empty() {
            tools.offer(Api::Messages, "mcp_servers", None);
        }
        let has_others = self.tools.0.iter().any(|tool| !tool.value.runs_there());
        tools.are_removable = has_others
            && matches!(
                requirement(&self.tool_choice),
                ToolRequirement::Free | ToolRequirement::Never
            );
        parsed.provider_tools = tools;
    }

    /// Adds the models that tools ask: a call may be charged at their prices.
    fn add_models_of_tools(&self, parsed: &mut CallRequest) {
        let of_tools = self.tools.0.iter().filter(|tool| tool.value.runs_there());
        let models = of_tools.filter_map(|tool| tool.value.model.text()).map(Cow::into_owned);
        parsed.fallbacks.extend(models);
    }
}

impl Tool<'_> {
    /// Whether the provider runs it.
    fn runs_there(&self) -> bool {
        let kind = self.kind.text().unwrap_or_default();
        !kind.is_empty() && !is_of_client(Api::Messages, &kind)
    }
}

/// The requirement in a choice of tools.
fn requirement(choice: &ToolChoice<'_>) -> ToolRequirement {
    match choice.kind.text().as_deref() {
        Some("none") => ToolRequirement::Never,
        Some("any") => ToolRequirement::Any,
        Some("tool") => {
            let name = choice.name.text();
            name.map_or(ToolRequirement::Any, |name| ToolRequirement::On(name.into_owned()))
        }
        _ => ToolRequirement::Free,
    }
}

/// Reads the messages, and what came after the model's last one.
fn conversation(
    messages: &[Raw<'_>],
    bound: &mut TokenBound,
    parsed: &mut CallRequest,
) -> Result<(), ReadError> {
    let mut calls: Vec<Block<'_>> = Vec::new();
    let mut was_model = false;
    for raw in messages {
        let message: Message<'_> = raw.read();
        let is_model = message.role.json() == "\"assistant\"";
        let blocks: List<Block<'_>> = message.content.read();
        let is_user = message.role.json() == "\"user\"" && is_of_user(message.content, &blocks.0);
        parsed.messages.push(bound.mark(*raw, is_user)?);
        if is_model {
            if !was_model {
                calls.clear();
            }
            parsed.results.clear();
            parsed.has_user_message = false;
            let used = blocks.0.into_iter().filter(|it| it.kind.json() == "\"tool_use\"");
            calls.extend(used.take(MAX_CALLS));
        } else {
            parsed.has_user_message |= is_user;
            let results = blocks.0.iter().filter(|it| it.kind.json() == "\"tool_result\"");
            parsed.results.extend(results.map(|block| result(block, &calls)));
        }
        was_model = is_model;
    }
    Ok(())
}

/// Whether the user wrote a message: not where it has only results of tools, and what programs add to them.
fn is_of_user(content: Raw<'_>, blocks: &[Block<'_>]) -> bool {
    if !content.is_list() {
        return true;
    }
    let has_results = blocks.iter().any(|it| it.kind.json() == "\"tool_result\"");
    blocks.iter().any(|block| match block.kind.text().as_deref() {
        Some("tool_result") => false,
        Some("text") if has_results => {
            !block.text.text().unwrap_or_default().trim_start().starts_with(REMINDER)
        }
        _ => true,
    })
}

fn result(block: &Block<'_>, calls: &[Block<'_>]) -> ToolResult {
    let id = block.use_id.text().unwrap_or_default();
    let call = calls.iter().find(|call| call.id.text().as_ref() == Some(&id));
    let of_call = |part: fn(&Block<'_>) -> String| call.map(part).unwrap_or_default();
    ToolResult {
        tool: of_call(|call| call.name.text().unwrap_or_default().into_owned()),
        arguments: of_call(|call| arguments_of(call.input).into_owned()),
        content: text_of(block.content).into_owned(),
        failed: block.is_error.is_true(),
        id: Cow::into_owned(id),
    }
}
