//! OpenAI chat completions, and all who copy them.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::json;

use super::demand::{Insists, Offer, demands};
use super::parts::{
    Kind, Noted, arguments_of, beside, context, fallbacks, may_write_1h, read_noting, searches,
    text_of,
};
use super::reply::{MAX_CALLS, Reply};
use super::strict::{Key, check_members, truth, whole};
use super::weigh::{TOOL_INSTRUCTIONS, mark_entry};
use super::{
    Asked, Dialect, Edits, ErrorKind, OwnAnswer, Seen, StreamReader, Thread, ToolResult, Unreadable,
};
use crate::json::{Entry, List, Object, Raw, fields};
use crate::stop::StopText;

mod answer;
mod edit;
mod write;

/// The dialect.
#[derive(Debug)]
pub(super) struct Chat;

/// What decides the cost of an answer, and who gives it.
const KEYS: &[Key] = &[
    Key::of(&["model"]),
    Key::of(&["stream"]),
    Key::of(&["stream_options"]).with(&[Key::of(&["include_usage"])]),
    Key::of(&["max_tokens"]),
    Key::of(&["max_completion_tokens"]),
    Key::of(&["n"]),
    Key::of(&["best_of"]),
    Key::of(&["service_tier"]),
    Key::of(&["models"]),
    Key::of(&["fallbacks"]),
];

fields! {
    Request<'j> {
        model: Raw<'j> = "model",
        stream: Raw<'j> = "stream",
        stream_options: StreamOptions<'j> = "stream_options",
        max_tokens: Raw<'j> = "max_tokens",
        max_completion_tokens: Raw<'j> = "max_completion_tokens",
        n: Raw<'j> = "n",
        best_of: Raw<'j> = "best_of",
        tier: Raw<'j> = "service_tier",
        search: Raw<'j> = "web_search_options" | "search_parameters" | "plugins",
        models: Raw<'j> = "models",
        fallbacks: Raw<'j> = "fallbacks",
        tools: List<Tool<'j>> = "tools",
        tool_choice: Raw<'j> = "tool_choice",
        functions: List<Function<'j>> = "functions",
        function_call: Raw<'j> = "function_call",
        format: Kind<'j> = "response_format",
        messages: List<Entry<'j>> = "messages",
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
        most: Raw<'j> = "max_uses",
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

impl Dialect for Chat {
    fn read(&self, _: &str, body: &[u8]) -> Result<Asked, Unreadable> {
        let Noted { text, value: request, members } = read_noting::<Request<'_>>(body)?;
        check_members(&members, KEYS)?;
        let [old_cap, cap] = [
            whole(request.max_tokens, "max_tokens", 0)?,
            whole(request.max_completion_tokens, "max_completion_tokens", 0)?,
        ];
        let [choices, best_of] = [whole(request.n, "n", 1)?, whole(request.best_of, "best_of", 1)?];
        let mut asked = Asked {
            model: request.model.text().unwrap_or_default().into_owned(),
            is_stream: truth(request.stream, "stream")?,
            wants_usage: request.stream_options.include_usage.is_true(),
            // Servers differ in which of the two counts.
            output_cap: old_cap.max(cap),
            // The best of several are all paid.
            choices: choices.max(best_of).unwrap_or(1),
            fallbacks: fallbacks([request.models, request.fallbacks])?,
            has_server_tools: request.has_server_tools(),
            searches: request.searches(),
            may_write_1h: may_write_1h(body),
            context: context(request.tier, Raw::default()),
            demands: request.demands(),
            tools: request.offers().into_iter().map(|offer| offer.name.into_owned()).collect(),
            thread: Thread::Whole,
            fixed_bound: beside(body, request.messages.0.iter().map(Entry::raw)),
            root: Object::known(text, &members, edit::KEYS),
            ..Asked::default()
        };
        if !asked.tools.is_empty() {
            asked.fixed_bound = asked.fixed_bound.saturating_add(TOOL_INSTRUCTIONS);
        }
        conversation(&request.messages.0, &mut asked);
        Ok(asked)
    }

    fn edit(&self, body: &[u8], edits: &Edits<'_>) -> Result<Vec<u8>, Unreadable> {
        edit::edit(body, edits)
    }

    fn keep_calls(&self, body: &[u8], keep: usize) -> Result<Vec<u8>, Unreadable> {
        edit::keep_calls(body, keep)
    }

    fn answer(&self, body: &[u8]) -> Result<Seen, Unreadable> {
        answer::read(body)
    }

    fn stream(&self, asked: &Asked) -> Box<dyn StreamReader> {
        Box::new(answer::Reader::new(Reply::to(asked)))
    }

    fn stop(&self, asked: &Asked, stop: &StopText) -> OwnAnswer {
        write::stop(&Reply::to(asked), stop)
    }

    fn error(&self, status: StatusCode, kind: ErrorKind, message: &str) -> OwnAnswer {
        openai_error(status, kind, message)
    }
}

/// An error as OpenAI writes it.
pub(super) fn openai_error(status: StatusCode, kind: ErrorKind, message: &str) -> OwnAnswer {
    let (kind, code) = match kind {
        ErrorKind::Stopped => ("insufficient_quota", Some("insufficient_quota")),
        ErrorKind::Invalid | ErrorKind::Thread => ("invalid_request_error", None),
        ErrorKind::Upstream => ("api_error", None),
        ErrorKind::Overloaded => ("server_error", Some("overloaded")),
    };
    let error = json!({ "message": message, "type": kind, "param": null, "code": code });
    super::reply::json_answer(status, &json!({ "error": error }))
}

impl<'j> Request<'j> {
    fn offers(&self) -> Vec<Offer<'j>> {
        let tools = self.tools.0.iter().map(|tool| &tool.function);
        let functions = tools.chain(&self.functions.0);
        functions
            .filter_map(|it| Some(Offer { name: it.name.text()?, schema: it.parameters }))
            .collect()
    }

    fn searches(&self) -> u64 {
        let by_tools =
            self.tools.0.iter().map(|it| searches(&it.kind.text().unwrap_or_default(), it.most));
        let by_option = if self.search.is_some() { searches("search", Raw::default()) } else { 0 };
        by_tools.fold(by_option, u64::saturating_add)
    }

    /// Other kinds of tools run at the provider.
    fn has_server_tools(&self) -> bool {
        let runs_there = |tool: &Tool<'_>| {
            !matches!(tool.kind.text().as_deref(), None | Some("function" | "custom"))
        };
        self.search.is_some() || self.tools.0.iter().any(runs_there)
    }

    fn demands(&self) -> super::Demands {
        let format = self.format.kind.text();
        let wants_json = matches!(format.as_deref(), Some("json_schema" | "json_object"));
        let choice = if self.tool_choice.is_some() { self.tool_choice } else { self.function_call };
        demands(&self.offers(), &insists(choice), wants_json)
    }
}

/// What a `tool_choice` insists on. Some servers call `required` `any`.
fn insists(choice: Raw<'_>) -> Insists {
    if let Some(word) = choice.text() {
        return insists_by_word(&word);
    }
    if !choice.is_object() {
        return Insists::Free;
    }
    let choice: Choice<'_> = choice.read();
    if let Some(mode) = choice.allowed.mode.text() {
        return insists_by_word(&mode);
    }
    let name = choice.function.name.text().or_else(|| choice.name.text());
    name.map_or(Insists::Any, |name| Insists::On(name.into_owned()))
}

/// What a word insists on.
pub(super) fn insists_by_word(word: &str) -> Insists {
    match word {
        "none" => Insists::Never,
        "required" | "any" => Insists::Any,
        _ => Insists::Free,
    }
}

/// Reads the messages, and what came after the model's last one.
fn conversation(messages: &[Entry<'_>], asked: &mut Asked) {
    let mut calls: Vec<(Cow<'_, str>, Function<'_>)> = Vec::new();
    let mut was_model = false;
    for message in messages {
        let role = message.get("role").text().unwrap_or_default();
        let is_model = role == "assistant";
        asked.messages.push(mark_entry(message, role == "user"));
        match &*role {
            "assistant" => {
                if !was_model {
                    calls.clear();
                }
                asked.results.clear();
                asked.has_user_message = false;
                let legacy: Function<'_> = message.get("function_call").read();
                let legacy = Some(legacy).filter(|call| call.name.is_some());
                let ids = message.get("tool_calls").read::<List<Call<'_>>>().0.into_iter();
                let named = ids.map(|call| (call.id.text().unwrap_or_default(), call.function));
                let all = named.chain(legacy.map(|function| (Cow::Borrowed(""), function)));
                calls.extend(all.take(MAX_CALLS));
            }
            "user" => asked.has_user_message = true,
            "tool" | "function" => asked.results.push(result(message, &calls)),
            _ => {}
        }
        was_model = is_model;
    }
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

#[cfg(test)]
mod chat_tests;
