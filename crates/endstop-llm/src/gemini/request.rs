//! Requests, as they are read.

use crate::ambiguous_keys::{DecidingKey, check_members};
use crate::json::{List, Raw, fields};
use crate::limits::MAX_CALLS;
use crate::output_contract::{Offer, ToolRequirement, output_contract};
use crate::parts::{Noted, complete, fixed_marks, read_noting};
use crate::price_fields;
use crate::provider_tools::ProviderTools;
use crate::response_outline::FINAL_ANSWER;
use crate::token_bound::{TokenBound, tool_instructions};
use crate::{Api, CallRequest, ReadError, ToolResult};

/// The keys that decide the cost of a response.
pub(crate) const KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["generationConfig", "generation_config"]).with(&[
        DecidingKey::of(&["maxOutputTokens", "max_output_tokens"]),
        DecidingKey::of(&["candidateCount", "candidate_count"]),
        DecidingKey::of(&["responseModalities", "response_modalities"]),
    ]),
    DecidingKey::of(&["cachedContent", "cached_content"]),
    DecidingKey::of(&["model"]),
    DecidingKey::of(&["contents"]),
    DecidingKey::of(&["tools"]),
    DecidingKey::of(&["systemInstruction", "system_instruction"]),
    DecidingKey::of(&["serviceTier", "service_tier"]),
];

fields! {
    Request<'j> {
        contents: Raw<'j> = "contents",
        tools: Raw<'j> = "tools",
        tool_config: ToolConfig<'j> = "toolConfig" | "tool_config",
        config: Config<'j> = "generationConfig" | "generation_config",
    }
}

fields! {
    ToolConfig<'j> {
        calling: Calling<'j> = "functionCallingConfig" | "function_calling_config",
    }
}

fields! {
    Calling<'j> {
        mode: Raw<'j> = "mode",
        names: List<Raw<'j>> = "allowedFunctionNames" | "allowed_function_names",
    }
}

fields! {
    Config<'j> {
        schema: Raw<'j> = "responseSchema" | "response_schema",
        json_schema: Raw<'j> =
            "responseJsonSchema" | "response_json_schema" | "_responseJsonSchema",
        mime: Raw<'j> = "responseMimeType" | "response_mime_type",
    }
}

fields! {
    Tool<'j> {
        functions: Raw<'j> = "functionDeclarations" | "function_declarations",
    }
}

fields! {
    Declared<'j> {
        name: Raw<'j> = "name",
        schema: Raw<'j> = "parameters" | "parametersJsonSchema" | "parameters_json_schema",
    }
}

fields! {
    Content<'j> {
        role: Raw<'j> = "role",
        parts: Raw<'j> = "parts",
    }
}

fields! {
    Part<'j> {
        text: Raw<'j> = "text",
        thought: Raw<'j> = "thought",
        call: Call<'j> = "functionCall" | "function_call",
        response: Response<'j> = "functionResponse" | "function_response",
    }
}

fields! {
    Call<'j> {
        id: Raw<'j> = "id",
        name: Raw<'j> = "name",
        args: Raw<'j> = "args",
        partial: Raw<'j> = "partialArgs" | "partial_args",
        continues: Raw<'j> = "willContinue" | "will_continue",
    }
}

fields! {
    Response<'j> {
        id: Raw<'j> = "id",
        name: Raw<'j> = "name",
        response: Raw<'j> = "response",
    }
}

fields! {
    Outcome<'j> {
        error: Raw<'j> = "error",
    }
}

/// A list; a single element may appear without it.
pub(super) fn listed(value: Raw<'_>) -> Vec<Raw<'_>> {
    if value.is_list() {
        return value.items();
    }
    if value.is_some() { vec![value] } else { Vec::new() }
}

/// Whether searches of a model are billed by the request that had any, and not by the query: those before the third
/// generation.
pub(super) fn bills_by_request(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gemini-1", "gemini-2"].iter().any(|begin| name.starts_with(begin))
}

/// The model of a path such as `/v1beta/models/gemini-pro:generateContent`.
fn model_in(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    let name = last.rsplit_once(':').map_or(last, |(name, _)| name);
    name.replace("%3A", ":").replace("%3a", ":")
}

/// Reads a request.
pub(crate) fn read(path: &str, body: &[u8]) -> Result<CallRequest, ReadError> {
    let Noted { value: request, members, .. } = read_noting::<Request<'_>>(body)?;
    check_members(&members, KEYS)?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_streamed = path.ends_with(":streamGenerateContent");
    let is_events = query.split('&').any(|pair| pair.eq_ignore_ascii_case("alt=sse"));
    let contents = listed(request.contents);
    let offers = request.offers();
    let mut bound = TokenBound::of_model(&model_in(path));
    let mut parsed = CallRequest {
        model: model_in(path),
        is_stream: is_streamed && is_events,
        is_list: is_streamed && !is_events,
        wants_usage: true,
        contract: output_contract(&offers, &request.requirement(), request.wants_json()),
        tools: offers.into_iter().map(|offer| offer.name.into_owned()).collect(),
        fixed: fixed_marks(&members, "contents", &mut bound)?,
        ..price_fields::read(Api::Gemini, body, &members)?
    };
    request.add_provider_tools(&mut parsed);
    if request.tools.is_some() {
        parsed.fixed.push(tool_instructions());
    }
    let mut bound = bound.reading_all();
    for (key, value) in &members {
        if matches!(key.as_str(), "systemInstruction" | "system_instruction") {
            bound.mark_fixed(key.as_str(), *value)?;
        }
    }
    conversation(&contents, &mut bound, &mut parsed)?;
    Ok(complete(parsed, Api::Gemini, &members, bound))
}

impl<'j> Request<'j> {
    fn offers(&self) -> Vec<Offer<'j>> {
        let tools = listed(self.tools).into_iter();
        let functions = tools.flat_map(|tool| listed(tool.read::<Tool<'j>>().functions));
        functions
            .filter_map(|declared| {
                let declared: Declared<'j> = declared.read();
                Some(Offer { name: declared.name.text()?, schema: declared.schema })
            })
            .collect()
    }

    /// Adds the tools that run at the provider, and the keys of those that have no bound.
    fn add_provider_tools(&self, parsed: &mut CallRequest) {
        let mut tools = ProviderTools::default();
        for (key, _) in listed(self.tools).into_iter().flat_map(Raw::members) {
            if let Some(unknown) = tools.offer(Api::Gemini, key.as_str(), None) {
                parsed.note_unbounded(unknown.to_owned());
            }
        }
        if bills_by_request(&parsed.model) {
            tools.limit_searches(1);
        }
        parsed.provider_tools = tools;
    }

    fn requirement(&self) -> ToolRequirement {
        let calling = &self.tool_config.calling;
        let names: Vec<_> = calling.names.0.iter().filter_map(|name| name.text()).collect();
        match calling.mode.text().map(|mode| mode.to_ascii_uppercase()).as_deref() {
            Some("NONE") => ToolRequirement::Never,
            Some("ANY") if names.is_empty() || names.iter().any(|name| name == FINAL_ANSWER) => {
                ToolRequirement::Any
            }
            Some("ANY") => ToolRequirement::On(names.concat()),
            _ => ToolRequirement::Free,
        }
    }

    fn wants_json(&self) -> bool {
        let config = &self.config;
        let mime = config.mime.text();
        config.schema.is_some()
            || config.json_schema.is_some()
            || mime.is_some_and(|mime| mime != "text/plain" && !mime.is_empty())
    }
}

/// Reads the contents, and what came after the model's last one. Results of calls name the function, and an id
/// only lately: without one, the first result of a name is that to the first call.
fn conversation(
    contents: &[Raw<'_>],
    bound: &mut TokenBound,
    parsed: &mut CallRequest,
) -> Result<(), ReadError> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut was_model = false;
    for raw in contents {
        let content: Content<'_> = raw.read();
        let parts: Vec<Part<'_>> =
            listed(content.parts).into_iter().map(|part| part.read()).collect();
        let is_model = content.role.json() == "\"model\"";
        let is_user = !is_model && parts.iter().any(|part| !part.response.name.is_some());
        parsed.messages.push(bound.mark(*raw, is_user)?);
        if is_model {
            if !was_model {
                calls.clear();
            }
            parsed.results.clear();
            parsed.has_user_message = false;
            let made = parts.into_iter().map(|part| part.call).filter(|call| call.name.is_some());
            calls.extend(made.take(MAX_CALLS));
        } else {
            parsed.has_user_message |= is_user;
            let responses = parts.into_iter().map(|part| part.response);
            for response in responses.filter(|response| response.name.is_some()) {
                parsed.results.push(result(&response, &mut calls));
            }
        }
        was_model = is_model;
    }
    Ok(())
}

fn result(response: &Response<'_>, calls: &mut Vec<Call<'_>>) -> ToolResult {
    let is_it = |call: &Call<'_>| match (response.id.text(), call.id.text()) {
        (Some(id), Some(known)) => id == known,
        _ => call.name.text() == response.name.text(),
    };
    let at = calls.iter().position(is_it);
    let call = at.map(|at| calls.remove(at)).unwrap_or_default();
    let outcome: Outcome<'_> = response.response.read();
    ToolResult {
        id: response.id.text().unwrap_or_default().into_owned(),
        tool: response.name.text().unwrap_or_default().into_owned(),
        arguments: call.args.json().to_owned(),
        content: response.response.json().to_owned(),
        failed: outcome.error.is_some(),
    }
}
