//! A request in the words of `genai`, as each protocol can take it.

use std::collections::BTreeSet;

use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ContentPart, CustomPart, MessageContent, Tool,
    ToolCall as WireCall, ToolChoice as WireChoice, ToolResponse,
};
use serde_json::{Value, json};

use super::ProviderModel;
use super::facts::is_chat;
use crate::message::{Message, ToolCall, ToolOutcome};
use crate::model::{ModelRequest, ToolChoice};

/// The type of an opaque value that holds a thought signature of a response.
const SIGNATURE: &str = "thought_signature";

/// The type of an opaque value that holds the thought signatures of one tool call.
pub(super) const CALL_SIGNATURES: &str = "tool_call_signatures";

/// The type of an opaque value that holds reasoning which is signed by the value before it. It is gone once
/// the two are joined.
const SIGNED: &str = "signed_reasoning";

pub(super) fn build(
    model: &ProviderModel,
    request: &ModelRequest<'_>,
) -> (ChatRequest, ChatOptions) {
    let chat = chat_request(model, request);
    let cap = request.max_output_tokens.or(model.max_output_tokens);
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        // Tool calls of a chat are gathered from the frames: `genai` loses calls without an index, and makes room for
        // as many as a large index says.
        .with_capture_tool_calls(!is_chat(model.kind))
        .with_capture_content(false)
        // Only Anthropic's thinking is rebuilt from what is captured; elsewhere it would ask for summaries.
        .with_capture_reasoning_content(model.kind == AdapterKind::Anthropic);
    if let Some(cap) = cap {
        options = options.with_max_tokens(u32::try_from(cap).unwrap_or(u32::MAX));
    }
    let has_tools = chat.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    let choice = match request.tool_choice {
        _ if !has_tools => None,
        // The tools are only there because the conversation speaks of them.
        _ if request.tools.is_empty() => Some(WireChoice::None),
        ToolChoice::Auto => None,
        ToolChoice::None => Some(WireChoice::None),
        ToolChoice::Required => Some(WireChoice::Required),
    };
    if let Some(choice) = choice {
        options = options.with_tool_choice(choice);
    }
    if let Some(body) = extra_body(model) {
        options = options.with_extra_body(body);
    }
    (chat, options)
}

/// Further options of the request.
fn extra_body(model: &ProviderModel) -> Option<Value> {
    match model.kind {
        AdapterKind::OpenRouter => Some(json!({ "usage": { "include": true } })),
        // Refused by models that do not reason.
        AdapterKind::OpenAIResp if reasons(&model.name) => {
            Some(json!({ "include": ["reasoning.encrypted_content"] }))
        }
        _ => None,
    }
}

/// Whether a model of OpenAI reasons, by its name.
fn reasons(name: &str) -> bool {
    let starts =
        ["gpt-5", "gpt-6", "o1", "o3", "o4", "codex"].iter().any(|start| name.starts_with(start));
    starts && !name.contains("chat")
}

fn chat_request(model: &ProviderModel, request: &ModelRequest<'_>) -> ChatRequest {
    let is_head = |message: &&Message| matches!(message, Message::System { .. });
    let head = request.messages.iter().take_while(is_head);
    let texts = std::iter::once(request.system).chain(head.clone().map(Message::text));
    let system: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    let mut chat = ChatRequest::new(Vec::new());
    if !system.is_empty() {
        chat.system = Some(system.join("\n\n"));
    }
    let mut results = Vec::new();
    for message in request.messages.iter().skip(head.count()) {
        if let Message::Tool { id, tool, outcome, text } = message {
            results.push(result(model.kind, id, tool, *outcome, text));
            continue;
        }
        flush(&mut chat, &mut results);
        match message {
            Message::Assistant { text, tool_calls, opaque } => {
                let parts = reply(model.kind, text, tool_calls, opaque);
                // No protocol takes a response that says nothing.
                if !parts.is_empty() {
                    chat.messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                }
            }
            Message::System { text } => chat.messages.push(note(model, text)),
            other => chat.messages.push(ChatMessage::user(other.text())),
        }
    }
    flush(&mut chat, &mut results);
    let tools = tools(model.kind, request);
    if !tools.is_empty() {
        chat.tools = Some(tools);
    }
    chat
}

/// The results of the calls of one response go together: Anthropic and Gemini want them in one message.
fn flush(chat: &mut ChatRequest, results: &mut Vec<ContentPart>) {
    if !results.is_empty() {
        let parts = std::mem::take(results);
        chat.messages.push(ChatMessage::tool(MessageContent::from_parts(parts)));
    }
}

fn note(model: &ProviderModel, text: &str) -> ChatMessage {
    let is_openai = matches!(model.kind, AdapterKind::OpenAI | AdapterKind::OpenAIResp);
    if is_openai && model.is_own_server {
        ChatMessage::system(text)
    } else {
        ChatMessage::user(format!("[{text}]"))
    }
}

fn result(
    kind: AdapterKind,
    id: &str,
    tool: &str,
    outcome: ToolOutcome,
    text: &str,
) -> ContentPart {
    if kind == AdapterKind::Anthropic && outcome.is_error() {
        // `genai` has no word for a result that is an error.
        let block = json!({
            "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true,
        });
        return custom(block);
    }
    ContentPart::ToolResponse(ToolResponse::new(id, text).with_fn_name(tool))
}

fn custom(data: Value) -> ContentPart {
    ContentPart::Custom(CustomPart { model_iden: None, data })
}

fn reply(
    kind: AdapterKind,
    text: &str,
    tool_calls: &[ToolCall],
    opaque: &[Value],
) -> Vec<ContentPart> {
    let mut parts: Vec<ContentPart> =
        opaque.iter().filter_map(|value| given_back(kind, value)).collect();
    if !text.is_empty() {
        parts.push(ContentPart::Text(text.to_owned()));
    }
    if parts
        .iter()
        .all(|part| matches!(part, ContentPart::Custom(_) | ContentPart::ThoughtSignature(_)))
        && tool_calls.is_empty()
    {
        return Vec::new();
    }
    parts.extend(tool_calls.iter().map(|call| {
        ContentPart::ToolCall(WireCall {
            call_id: call.id.clone(),
            fn_name: call.tool.clone(),
            fn_arguments: arguments(kind, &call.arguments),
            thought_signatures: call_signatures(kind, &call.id, opaque),
        })
    }));
    parts
}

/// Arguments of a response have to go back in any case: unchanged if the protocol takes a text, and otherwise as an
/// object.
fn arguments(kind: AdapterKind, text: &str) -> Value {
    let read = serde_json::from_str(text);
    let takes_text =
        !matches!(kind, AdapterKind::Anthropic | AdapterKind::Gemini | AdapterKind::Ollama);
    match read {
        Ok(value @ Value::Object(_)) => value,
        Ok(value) if takes_text => value,
        _ if text.trim().is_empty() => json!({}),
        _ if takes_text => Value::String(text.to_owned()),
        _ => json!({ "arguments": text }),
    }
}

fn type_of(value: &Value) -> Option<&str> {
    value.get("type").and_then(Value::as_str)
}

/// The part of a response that gives this back, if it came from this kind of provider.
fn given_back(kind: AdapterKind, value: &Value) -> Option<ContentPart> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match (kind, type_of(value)?) {
        (AdapterKind::Anthropic, "thinking" | "redacted_thinking") => Some(custom(value.clone())),
        (AdapterKind::Gemini, SIGNATURE) => Some(ContentPart::ThoughtSignature(text("signature")?)),
        (AdapterKind::OpenAIResp, "reasoning") => {
            Some(ContentPart::ThoughtSignature(text("encrypted_content")?))
        }
        (AdapterKind::OpenRouter, kind) if kind.starts_with("reasoning.") => {
            Some(custom(value.clone()))
        }
        _ => None,
    }
}

fn call_signatures(kind: AdapterKind, id: &str, opaque: &[Value]) -> Option<Vec<String>> {
    let is_it = |value: &&Value| {
        type_of(value) == Some(CALL_SIGNATURES)
            && value.get("id").and_then(Value::as_str) == Some(id)
    };
    let found = opaque.iter().filter(|_| kind == AdapterKind::Gemini).find(is_it)?;
    let signatures = found.get("signatures")?.as_array()?;
    Some(signatures.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The part of an answer to keep that is neither text nor a tool call.
pub(super) fn kept(kind: AdapterKind, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::ThoughtSignature(signature)
            if matches!(kind, AdapterKind::Gemini | AdapterKind::Anthropic) =>
        {
            Some(json!({ "type": SIGNATURE, "signature": signature }))
        }
        ContentPart::ReasoningContent(text) if kind == AdapterKind::Anthropic => {
            Some(json!({ "type": SIGNED, "text": text }))
        }
        ContentPart::Custom(part) => Some(part.data.clone()),
        _ => None,
    }
}

/// Makes blocks of thinking, as Anthropic writes them, of signatures and the reasoning that follows each.
pub(super) fn pair_thinking(opaque: &mut Vec<Value>) {
    let mut blocks: Vec<Value> = Vec::with_capacity(opaque.len());
    for value in opaque.drain(..) {
        match type_of(&value) {
            Some(SIGNATURE) => {
                let signature = value.get("signature").cloned();
                blocks.push(json!({ "type": "thinking", "thinking": "", "signature": signature }));
            }
            Some(SIGNED) => {
                if let Some(Value::Object(block)) = blocks.last_mut()
                    && let Some(text) = value.get("text")
                {
                    block.insert("thinking".to_owned(), text.clone());
                }
            }
            _ => blocks.push(value),
        }
    }
    *opaque = blocks;
}

fn tools(kind: AdapterKind, request: &ModelRequest<'_>) -> Vec<Tool> {
    if request.tools.is_empty() && kind == AdapterKind::Anthropic {
        // It refuses a conversation with tool calls where no tool is declared.
        let calls = request.messages.iter().flat_map(Message::tool_calls);
        let names: BTreeSet<&str> = calls.map(|call| call.tool.as_str()).collect();
        let schema = json!({ "type": "object" });
        return names.into_iter().map(|name| Tool::new(name).with_schema(schema.clone())).collect();
    }
    let tools = request.tools.iter().map(|tool| {
        Tool::new(tool.name.as_str())
            .with_description(tool.description.as_str())
            .with_schema(tool.parameters.clone())
    });
    tools.collect()
}
