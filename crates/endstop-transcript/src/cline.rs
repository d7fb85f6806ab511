//! Tasks of Cline and of the extensions made from it (Roo Code, Kilo Code): a directory with `ui_messages.json`, and
//! in the same directory the conversation, `api_conversation_history.json`.
//!
//! - `api_req_started` is one model call. Its text says what the call used and cost, once that is known.
//! - The model's text and its tool calls are the messages up to the next call. The next call's request, or the
//!   conversation, holds their results.
//! - A call that was abandoned before the model said anything is a failed attempt of the next one.
//! - `cost` is the extension's own figure. It writes 0 if it knows no price, so the price table computes that. Calls
//!   that were deleted from the task, those of sub-agents and those that condensed the conversation were paid for
//!   anyway: each such message is one call.
//! - Without `ui_messages.json` the conversation is a list of messages like any other, without usage.
//!
//! More than 250 lines because usage and the conversation lie in two files, results in the next request, and calls of
//! deleted messages are paid.

mod results;

use std::path::{Path, PathBuf};

use endstop_core::units::Cost;
use endstop_price::{UsageShape, billed_cost};
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};

use self::results::{History, results_in};
use super::builder::RunBuilder;
use super::call_charge::{ModelCall, as_anthropic, as_anthropic_without_cached, with_cost};
use super::paths::directory_of;
use super::reading::Reading;
use super::step::{CostSource, Failures, Full, ModelResponse};
use super::text::Text;
use super::time::Time;
use super::{Head, RunSink};

/// The file of the messages with the costs, and that of the conversation.
const MESSAGES: &str = "ui_messages.json";
const CONVERSATION: &str = "api_conversation_history.json";

/// Messages that are a call of a tool: their kind, and the tool if their text does not name it.
const TOOLS: [(&str, &str); 5] = [
    ("tool", "tool"),
    ("command", "execute_command"),
    ("use_mcp_server", "use_mcp_tool"),
    ("browser_action_launch", "browser_action"),
    ("browser_action", "browser_action"),
];

/// Messages with words of the model.
const WORDS: [&str; 4] = ["text", "completion_result", "plan_mode_respond", "followup"];

/// Messages that sum up calls without other messages.
const SUMMED_UP: [&str; 2] = ["deleted_api_reqs", "subagent_usage"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let keys = head.list();
    keys.is_some_and(|keys| {
        keys.have(&["ts", "type"]) && (keys.have(&["say"]) || keys.have(&["ask"]))
    })
}

/// The messages with the costs next to a conversation.
pub(crate) fn bill_beside(path: &Path, _: &Head<'_>) -> Option<PathBuf> {
    path.file_name().filter(|name| *name == CONVERSATION)?;
    Some(path.with_file_name(MESSAGES)).filter(|messages| messages.is_file())
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    vec![path.with_file_name(CONVERSATION)]
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let history = reading.child_files().next().map(History::of).unwrap_or_default();
    let run = RunBuilder::new(reading, sink).named(directory_of(reading.part.name()));
    let model = history.model.clone();
    let mut task = ClineTask { run, history, model, open: None, failures: Failures::default() };
    reading.each_item(&["messages"], &mut |item| {
        if let Some(message) =
            reading.parse::<ClineMessage<'_>>(item, "not a message of this format")
        {
            let added = task.message(&message);
            task.run.check(added);
        }
    });
    let closed = task.close();
    task.run.check(closed);
    task.run.end();
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ClineMessage<'a> {
    ts: Option<Number>,
    say: Option<Text<'a>>,
    ask: Option<Text<'a>>,
    text: Option<Text<'a>>,
    /// It is still being written: what it became follows, or nothing did.
    partial: Option<bool>,
    model_info: Option<ModelInfo>,
    context_condense: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelInfo {
    model_id: Option<String>,
}

/// The text of `api_req_started`, and of the messages that sum up calls.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ClineRequest<'a> {
    request: Option<Text<'a>>,
    tokens_in: Option<Value>,
    tokens_out: Option<Value>,
    cache_writes: Option<Value>,
    cache_reads: Option<Value>,
    cost: Option<Value>,
    api_protocol: Option<Text<'a>>,
}

/// A model call whose messages are read.
struct ClineOpenCall {
    reply: ModelResponse,
    begun: Time,
    /// The last message about it.
    last: Time,
    /// The model said something or called a tool.
    has_content: bool,
    has_usage: bool,
}

struct ClineTask<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    history: History,
    model: Option<String>,
    open: Option<ClineOpenCall>,
    /// Calls that were abandoned since the last one that was answered.
    failures: Failures,
}

impl ClineTask<'_, '_> {
    fn message(&mut self, message: &ClineMessage<'_>) -> Result<(), Full> {
        let time = message.ts.as_ref().and_then(Number::as_u64);
        if let Some(model) = message.model_info.as_ref().and_then(|info| info.model_id.as_ref()) {
            self.model = Some(model.clone());
        }
        let kind = message.say.as_deref().or(message.ask.as_deref()).unwrap_or_default();
        let text = message.text.as_deref().unwrap_or_default();
        let is_said = message.say.is_some();
        match kind {
            _ if message.partial == Some(true) => Ok(()),
            "api_req_started" => self.begin(text, time),
            "condense_context" => self.condensed(message.context_condense.as_ref(), time),
            kind if SUMMED_UP.contains(&kind) => self.summed_up(text, time),
            "task" | "user_feedback" | "user_feedback_diff" if is_said => self.user(time),
            // The task itself, in earlier versions.
            "text" if is_said && self.open.is_none() => self.user(time),
            kind if WORDS.contains(&kind) && !text.is_empty() => self.say(text, time),
            kind => match TOOLS.iter().find(|(tool, _)| *tool == kind) {
                Some((_, tool)) => self.call(tool, text, time),
                None => Ok(()),
            },
        }
    }

    fn user(&mut self, time: Time) -> Result<(), Full> {
        let closed = self.close();
        self.run.user(time);
        closed
    }

    fn begin(&mut self, text: &str, time: Time) -> Result<(), Full> {
        let wrong = "not a request of this format";
        let request: ClineRequest<'_> =
            self.run.reading.parse_text(text, wrong).unwrap_or_default();
        self.settle(&request, time)?;
        self.close()?;
        if let Some(model) = request.request.as_deref().and_then(results::model_in) {
            self.model = Some(model.to_owned());
        }
        let (reply, has_usage) = self.reply_of(&request, time);
        // The step began with the first request for it.
        let (begun, last) = (self.failures.first().or(time), None);
        self.run.step_at(begun);
        self.open = Some(ClineOpenCall { reply, begun, last, has_content: false, has_usage });
        Ok(())
    }

    /// Ends the open call.
    fn close(&mut self) -> Result<(), Full> {
        let Some(ClineOpenCall { reply, begun, last, has_content, has_usage }) = self.open.take()
        else {
            return Ok(());
        };
        if !has_content && !has_usage {
            self.run.own().give_up();
            self.failures.add(begun);
            return Ok(());
        }
        let step = self.run.step_or_begin(begun);
        step.fail_as(&mut self.failures)?;
        step.answer(last.or(begun), reply);
        self.run.close();
        Ok(())
    }

    /// The tools that the open call asked for have their results in the next request.
    fn settle(&mut self, request: &ClineRequest<'_>, time: Time) -> Result<(), Full> {
        let mut results = request.request.as_deref().map(results_in).unwrap_or_default();
        if results.is_empty() {
            results = self.history.results_at(time);
        }
        let Some(step) = self.run.step() else { return Ok(()) };
        for result in results {
            if !step.next_result(time, result, false)? {
                break;
            }
        }
        Ok(())
    }

    fn say(&mut self, text: &str, time: Time) -> Result<(), Full> {
        let Some(open) = &mut self.open else { return Ok(()) };
        (open.last, open.has_content) = (time, true);
        self.run.step_or_begin(time).say(time, text)
    }

    fn call(&mut self, otherwise: &str, text: &str, time: Time) -> Result<(), Full> {
        let Some(open) = &mut self.open else { return Ok(()) };
        (open.last, open.has_content) = (open.last.or(time), true);
        let fields: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let name = ["toolName", "tool"].iter().find_map(|key| fields.get(*key)?.as_str());
        let (tool, arguments) = (name.unwrap_or(otherwise), text.to_owned());
        self.run.step_or_begin(time).call(time, None::<String>, tool, arguments)
    }

    /// Calls that are recorded as a sum.
    fn summed_up(&mut self, text: &str, time: Time) -> Result<(), Full> {
        let wrong = "not a sum of calls of this format";
        let sum: Option<ClineRequest<'_>> = self.run.reading.parse_text(text, wrong);
        let Some((reply, true)) = sum.map(|sum| self.reply_of(&sum, time)) else { return Ok(()) };
        self.close()?;
        self.run.reply(time, reply);
        self.run.close();
        Ok(())
    }

    fn condensed(&mut self, condense: Option<&Map<String, Value>>, time: Time) -> Result<(), Full> {
        let cost = condense.and_then(|condense| condense.get("cost"));
        let cost = cost.and_then(|cost| billed_cost(&json!({ "cost": cost })));
        let Some(cost) = cost.filter(|cost| cost.picos() > 0) else { return Ok(()) };
        self.close()?;
        let (cost, source) = (Some(Cost::Known(cost)), CostSource::Billed);
        self.run.reply(
            time,
            ModelResponse { model: self.model.clone(), cost, source, ..ModelResponse::default() },
        );
        self.run.close();
        Ok(())
    }

    /// The usage and the cost of a call, and whether the file records any.
    fn reply_of(&self, request: &ClineRequest<'_>, time: Time) -> (ModelResponse, bool) {
        let counts =
            [&request.tokens_in, &request.tokens_out, &request.cache_writes, &request.cache_reads];
        let is_none =
            |count: &Option<Value>| count.as_ref().is_none_or(|it| it.as_f64() == Some(0.0));
        let is_told = !counts.into_iter().chain([&request.cost]).all(is_none);
        let usage = usage_of(request);
        let call = ModelCall::new(UsageShape::Anthropic, &usage).at(time);
        let call = is_told.then_some(call);
        (self.run.reading.reply(self.model.as_deref(), call, "usage of a request"), is_told)
    }
}

/// The counts in the form of Anthropic's API, whose input excludes what was cached, as it does here. In the protocol of
/// OpenAI the input includes it.
fn usage_of(request: &ClineRequest<'_>) -> Value {
    let count = |value: &Option<Value>| value.clone().unwrap_or_else(|| json!(0));
    let counts =
        [&request.tokens_in, &request.tokens_out, &request.cache_reads, &request.cache_writes];
    let counts = match request.api_protocol.as_deref() {
        Some("openai") => as_anthropic_without_cached(counts.map(count)),
        _ => as_anthropic(counts.map(count)),
    };
    with_cost(counts, request.cost.clone())
}

#[cfg(test)]
mod tests;
