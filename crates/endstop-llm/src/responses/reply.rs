//! Responses: the records of an output, and non-streaming ones.

use std::borrow::Cow;

use endstop_price::UsageShape;

use crate::json::{List, Raw, fields};
use crate::parts::{arguments_of, read_object, text_of};
use crate::response_builder::ResponseBuilder;
use crate::{CallResponse, EventContent, ReadError};

/// Kinds of calls that the client runs.
const CLIENT_CALLS: [&str; 5] =
    ["function_call", "custom_tool_call", "local_shell_call", "apply_patch_call", "computer_call"];

fields! {
    Response<'j> {
        kind: Raw<'j> = "object",
        id: Raw<'j> = "id",
        model: Raw<'j> = "model",
        status: Raw<'j> = "status",
        output: List<Output<'j>> = "output",
        usage: Raw<'j> = "usage",
        service_tier: Raw<'j> = "service_tier",
        error: Raw<'j> = "error",
        incomplete: Incomplete<'j> = "incomplete_details",
    }
}

fields! {
    Incomplete<'j> {
        reason: Raw<'j> = "reason",
    }
}

fields! {
    Output<'j> {
        kind: Raw<'j> = "type",
        id: Raw<'j> = "id",
        call_id: Raw<'j> = "call_id",
        name: Raw<'j> = "name",
        arguments: Raw<'j> = "arguments" | "input",
        content: Raw<'j> = "content",
        summary: Raw<'j> = "summary",
        action: Raw<'j> = "action" | "operation",
    }
}

fields! {
    Action<'j> {
        kind: Raw<'j> = "type",
        queries: List<Raw<'j>> = "queries",
    }
}

impl Output<'_> {
    /// Whether the client is to run it. Other calls run at the provider.
    pub(crate) fn is_call(&self) -> bool {
        self.kind.text().is_some_and(|kind| CLIENT_CALLS.contains(&&*kind))
    }

    /// The tool that is called: those of the API's own have no other name than their kind.
    fn tool(&self) -> Cow<'_, str> {
        let kind = || self.kind.text().unwrap_or_default();
        let own = || Cow::Owned(kind().trim_end_matches("_call").to_owned());
        self.name.text().unwrap_or_else(own)
    }

    pub(crate) fn arguments(&self) -> Cow<'_, str> {
        arguments_of(if self.arguments.is_some() { self.arguments } else { self.action })
    }

    /// The unit of the cost of a tool's run at the provider, and how many. Pages that a search opens are free;
    /// several queries of one search are billed as several.
    fn runs(&self) -> Option<(&'static str, u64)> {
        match self.kind.text().as_deref()? {
            "web_search_call" => {
                let action: Action<'_> = self.action.read();
                let is_search = matches!(action.kind.text().as_deref(), None | Some("search"));
                let queries = u64::try_from(action.queries.0.len()).unwrap_or(1);
                is_search.then_some(("web_searches", queries.max(1)))
            }
            "file_search_call" => Some(("storage_searches", 1)),
            "code_interpreter_call" => Some(("code_executions", 1)),
            _ => None,
        }
    }
}

/// Records a response's data about itself, without its output.
pub(crate) fn take_response(progress: &mut ResponseBuilder, response: &Response<'_>) {
    progress.names(response.id, response.model);
    progress.usage(response.usage, response.service_tier);
    progress.error(response.error);
    let status = response.status.word();
    if status.as_deref() == Some("failed") {
        progress.response.error.get_or_insert_with(|| "the response has failed".to_owned());
    }
    // One that runs in the background is only queued.
    if let Some(status) = status.filter(|status| is_end(status)) {
        progress.response.is_whole = true;
        progress.response.finish = Some(response.incomplete.reason.word().unwrap_or(status));
    }
}

/// Counts a complete item, if it has a separate cost.
pub(crate) fn count_runs(progress: &mut ResponseBuilder, item: &Output<'_>) {
    if let Some((unit, more)) = item.runs() {
        progress.runs(unit, |runs| runs.saturating_add(more));
    }
}

/// Adds a call, without its arguments.
pub(crate) fn begin_call(progress: &mut ResponseBuilder, item: &Output<'_>) -> Option<String> {
    let id = if item.call_id.is_some() { item.call_id } else { item.id };
    progress.begin_call(id, &item.tool())
}

fn take_item(progress: &mut ResponseBuilder, item: &Output<'_>) {
    count_runs(progress, item);
    if item.is_call() {
        let arguments = item.arguments();
        progress.count(&arguments);
        if begin_call(progress, item).is_some() {
            progress.arguments(None, &arguments);
        }
        return;
    }
    let text = text_of(item.content);
    if item.kind.json() == "\"message\"" {
        progress.words(&text, &mut EventContent::default());
    } else {
        for part in [&*text, &*text_of(item.summary), item.arguments.json()] {
            progress.count(part);
        }
    }
}

fn is_end(status: &str) -> bool {
    matches!(status, "completed" | "incomplete" | "failed" | "cancelled")
}

/// Reads a complete response.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let response: Response<'_> = read_object(body)?;
    let is_one = response.kind.json() == "\"response\"" || response.usage.is_some();
    if !is_one && !response.error.is_some() {
        return Err(ReadError::NotAResponse("responses"));
    }
    let mut progress = ResponseBuilder::new(UsageShape::OpenAiResponses);
    response.output.0.iter().for_each(|item| take_item(&mut progress, item));
    take_response(&mut progress, &response);
    Ok(progress.response)
}
