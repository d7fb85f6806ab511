//! Qwen Code sessions: JSON lines, one file for a session and one for each of its sub-agents.
//!
//! - A line of type `assistant` is one model call, in the form of Gemini's API: words, thoughts and tool calls are
//!   `parts`, and `usageMetadata` is what it used.
//! - Most models are reached in the form of OpenAI, whose output includes the thoughts. Where prompt and output alone
//!   make the total, the thoughts are in the output.
//! - A line of type `tool_result` answers a call by its id; it failed if its status is `error` or `cancelled`.
//! - `system` lines are telemetry. An API error among them is a failed attempt of the next call.
//! - Input for the tool itself, such as `/compress`, does not count as a turn.

use std::path::{Path, PathBuf};

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::agent_file::{AgentFile, read_session};
use super::call_charge::ModelCall;
use super::gemini_cli::output_in;
use super::paths::directory_named;
use super::reading::Reading;
use super::step::{Failures, Full};
use super::text::{Text, compact};
use super::time::{Time, parse_time};
use super::timeline::AgentTimeline;
use super::{Head, RunSink};

/// The directories of a project's sessions and of their sub-agents.
const CHATS: &str = "chats";
const SUBAGENTS: &str = "subagents";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut lines = head.lines();
    // Claude Code has the first three, too.
    let is_line = lines.any(|keys| {
        keys.have(&["uuid", "sessionId", "type", "cwd"])
            && !keys.have(&["isSidechain"])
            && !keys.have(&["userType"])
    });
    is_line && (head.mentions("\"parts\"") || head.mentions("\"systemPayload\""))
}

/// `<project>/subagents/<session>/agent-*.jsonl` is of `<project>/chats/<session>.jsonl`.
pub(crate) fn parent(path: &Path, _: &Head<'_>) -> Option<PathBuf> {
    let session = path.parent()?;
    let subagents = directory_named(session, SUBAGENTS)?;
    let name = format!("{}.jsonl", session.file_name()?.to_str()?);
    Some(subagents.with_file_name(CHATS).join(name))
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    let project = path.parent().and_then(Path::parent);
    let session = path.file_stem();
    let found = project.zip(session).map(|(project, name)| project.join(SUBAGENTS).join(name));
    found.into_iter().collect()
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    read_session(reading, sink, |file, after| {
        QwenFile { file, failures: Failures::default() }.read(after)
    });
}

/// A line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct QwenLine<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    subtype: Option<Text<'a>>,
    session_id: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    model: Option<Text<'a>>,
    message: Option<QwenMessage<'a>>,
    usage_metadata: Option<&'a RawValue>,
    tool_call_result: Option<ToolCallResult<'a>>,
    system_payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct QwenMessage<'a> {
    parts: Option<Vec<QwenPart<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct QwenPart<'a> {
    text: Option<Text<'a>>,
    thought: Option<bool>,
    function_call: Option<FunctionCall<'a>>,
    function_response: Option<FunctionResponse>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct FunctionCall<'a> {
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionResponse {
    id: Option<String>,
    response: Option<Value>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ToolCallResult<'a> {
    status: Option<Text<'a>>,
}

/// One file while it is read.
struct QwenFile<'s> {
    file: AgentFile<'s>,
    /// Requests that failed since the last response.
    failures: Failures,
}

impl QwenFile<'_> {
    /// Reads the file. Its entries so far may be taken after each line.
    fn read(mut self, after: &mut dyn FnMut(&mut AgentFile<'_>)) -> AgentTimeline {
        let mut lines = self.file.reading.lines();
        while lines.advance() {
            if let Some(line) = lines.parse::<QwenLine<'_>>() {
                self.file.reading.line = Some(lines.number());
                let added = self.line(line);
                self.file.reading.check(added);
                after(&mut self.file);
            }
        }
        self.file.agent.close();
        after(&mut self.file);
        self.file.agent
    }

    fn line(&mut self, line: QwenLine<'_>) -> Result<(), Full> {
        if let Some(id) = &line.session_id {
            self.file.id.get_or_insert_with(|| id.clone().into_owned());
        }
        let time = line.timestamp.as_deref().and_then(parse_time);
        match line.kind.as_deref() {
            Some("user") if line.subtype.is_none() => self.user(&line, time),
            Some("assistant") => return self.reply(line, time),
            Some("tool_result") => return self.result(line, time),
            Some("system") if is_api_error(&line) => self.failures.add(time),
            _ => {}
        }
        Ok(())
    }

    fn user(&mut self, line: &QwenLine<'_>, time: Time) {
        let parts = line.message.iter().flat_map(|message| message.parts.iter().flatten());
        let mut words = parts.filter_map(|part| part.text.as_deref());
        if words.any(|text| !text.trim().is_empty()) {
            self.file.begin(time);
            self.file.agent.user(time);
        }
    }

    fn reply(&mut self, line: QwenLine<'_>, time: Time) -> Result<(), Full> {
        const USAGE: &str = "usageMetadata";
        let parts = line.message.and_then(|message| message.parts).unwrap_or_default();
        // A turn that was abandoned before the model said anything has no usage either.
        if parts.is_empty() && line.usage_metadata.is_none() {
            return Ok(());
        }
        let reading = self.file.reading;
        let usage = reading.usage(line.usage_metadata, USAGE).map(without_counted_thoughts);
        let call = usage.as_ref().map(|usage| ModelCall::new(UsageShape::Gemini, usage).at(time));
        let reply = reading.reply(line.model, call, USAGE);
        self.file.begin(self.file.agent.last().or(time));
        let step = self.file.agent.reply(time, reply);
        step.fail_as(&mut self.failures)?;
        for part in parts {
            match (part.function_call, part.text) {
                (Some(call), _) => {
                    step.call(time, call.id, call.name.unwrap_or_default(), compact(call.args))?;
                }
                (None, Some(text)) if part.thought != Some(true) => step.say(time, text)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn result(&mut self, line: QwenLine<'_>, time: Time) -> Result<(), Full> {
        let status = line.tool_call_result.and_then(|result| result.status);
        let failed = matches!(status.as_deref(), Some("error" | "cancelled"));
        let parts = line.message.and_then(|message| message.parts).into_iter().flatten();
        let Some(step) = self.file.agent.step() else { return Ok(()) };
        for response in parts.filter_map(|part| part.function_response) {
            let result = response.response.map_or_else(String::new, |it| output_in(&it));
            step.result(response.id.as_deref(), time, result, failed)?;
        }
        self.file.agent.seen(time);
        Ok(())
    }
}

fn is_api_error(line: &QwenLine<'_>) -> bool {
    let is_error = |payload: &&RawValue| payload.get().contains("qwen-code.api_error");
    line.subtype.as_deref() == Some("ui_telemetry")
        && line.system_payload.as_ref().is_some_and(is_error)
}

/// The usage with its thoughts left out where the output includes them.
fn without_counted_thoughts(mut usage: Value) -> Value {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let sum = count("promptTokenCount")
        .zip(count("candidatesTokenCount"))
        .and_then(|(input, output)| input.checked_add(output));
    if sum.is_some()
        && sum == count("totalTokenCount")
        && let Some(usage) = usage.as_object_mut()
    {
        usage.remove("thoughtsTokenCount");
    }
    usage
}
