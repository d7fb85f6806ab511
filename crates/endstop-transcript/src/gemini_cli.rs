//! Gemini CLI sessions: one JSON document, or since 2026 JSON lines of the same messages.
//!
//! - A message of type `gemini` with a model, tokens or tool calls is one model call. In lines it is written
//!   again whenever it grows; the last writing counts.
//! - `$rewindTo` takes messages out of the conversation; their calls were made and paid for anyway. `$set` repeats
//!   known values. Neither is an event.
//! - `tokens.input` includes the cached ones, `output` excludes the thoughts.
//! - A message is stamped when it is first written. For a message without text that is when its tools are done: the
//!   time of a response is then the latest possible.
//! - A tool failed if its status is `error` or `cancelled`.
//! - A sub-agent has a separate file, in a directory named by its parent's session.
//!
//! More than 250 lines because it is a document, or a stream that writes messages again as they grow.

mod record;

use std::path::{Path, PathBuf};

use endstop_price::UsageShape;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) use self::record::output_in;
use self::record::{GeminiRecord, GeminiToolCall, Tokens, is_turn, result_of, words};
use super::agent_file::{AgentFile, read_session};
use super::call_charge::ModelCall;
use super::layout::Layout;
use super::paths::{directory_named, entries_of, name_of};
use super::reading::Reading;
use super::recent::{Recent, digest};
use super::step::{Full, Step, ToolAnswer};
use super::text::compact;
use super::time::{Time, parse_time};
use super::timeline::{AgentTimeline, TimelineEntry};
use super::warning::WarningKind;
use super::{Head, RunSink};

/// Whose price list the models are on.
const PROVIDER: &str = "google";

/// The states in which a tool call is over, and whether it then failed.
const ENDINGS: [(&str, bool); 3] = [("success", false), ("error", true), ("cancelled", true)];

/// The directory of a project's sessions.
const CHATS: &str = "chats";

/// How many characters of its session's id a file's name ends with.
const SHORT_ID: usize = 8;

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let keys = head.object();
    keys.is_some_and(|keys| keys.have(&["sessionId", "projectHash"]))
}

pub(crate) fn parent(path: &Path, _: &Head<'_>) -> Option<PathBuf> {
    let directory = path.parent()?;
    let chats = directory_named(directory, CHATS)?;
    let short: String = directory.file_name()?.to_str()?.chars().take(SHORT_ID).collect();
    let is_session = |path: &PathBuf| short_id(path) == Some(&short) && path.is_file();
    entries_of(Some(chats)).filter(is_session).max()
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    let Some(short) = short_id(path) else { return Vec::new() };
    let is_child = |path: &PathBuf| path.is_dir() && name_of(path).starts_with(short);
    entries_of(path.parent()).filter(is_child).collect()
}

/// The short id of a session that the name of its file ends with.
fn short_id(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()?.rsplit_once('-').map(|(_, short)| short)
}

pub(crate) fn shadowed_by(path: &Path) -> Option<PathBuf> {
    // A session that is resumed is copied to lines and continues there.
    path.extension().filter(|ending| *ending == "json").map(|_| path.with_extension("jsonl"))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    read_session(reading, sink, |file, after| {
        GeminiSession { file, seen: Recent::default(), open: None }.read(after)
    });
}

/// One file while it is read.
struct GeminiSession<'s> {
    file: AgentFile<'s>,
    /// Messages that are over.
    seen: Recent,
    open: Option<GeminiOpenMessage<'s>>,
}

/// A model's message as it was last written.
struct GeminiOpenMessage<'s> {
    id: u64,
    begun: Time,
    message: ModelMessage<'s>,
}

struct ModelMessage<'s> {
    time: Time,
    model: Option<String>,
    tokens: Option<Box<RawValue>>,
    text: String,
    calls: Vec<EndedCall>,
    /// With the line where it was written.
    reading: Reading<'s>,
}

struct EndedCall {
    tool: String,
    arguments: String,
    answer: Option<ToolAnswer>,
}

impl<'s> GeminiSession<'s> {
    /// Reads the file. Its entries so far may be taken after each record.
    fn read(mut self, after: &mut dyn FnMut(&mut AgentFile<'_>)) -> AgentTimeline {
        let reading = self.file.reading;
        if Layout::of(reading.part) == Layout::Lines {
            let mut lines = reading.lines();
            while lines.advance() {
                if let Some(record) = lines.parse::<GeminiRecord<'_>>() {
                    self.file.reading.line = Some(lines.number());
                    self.record(record);
                    after(&mut self.file);
                }
            }
        } else {
            reading.look_for(&["sessionId"], &mut |_, id| {
                self.file.id = serde_json::from_str(id.get()).ok();
            });
            reading.each_item(&["messages"], &mut |item| {
                let wrong = "not a message of this format";
                if let Some(record) = reading.parse::<GeminiRecord<'_>>(item, wrong) {
                    self.record(record);
                    after(&mut self.file);
                }
            });
        }
        self.close();
        let agent = &mut self.file.agent;
        agent.seen(agent.entries().iter().rev().find_map(TimelineEntry::last_time));
        after(&mut self.file);
        self.file.agent
    }

    fn record(&mut self, record: GeminiRecord<'_>) {
        if let Some(id) = record.session_id {
            self.file.id.get_or_insert_with(|| id.into_owned());
            return;
        }
        let time = record.timestamp.as_deref().and_then(parse_time);
        let id = digest(record.id.as_deref().unwrap_or_default());
        match record.kind.as_deref() {
            Some("user") => {
                let is_new = record.id.is_none() || self.seen.insert(id);
                if is_new && is_turn(record.content) {
                    self.close();
                    self.file.begin(time);
                    self.file.agent.user(time);
                }
            }
            Some("gemini") => {
                let message = ModelMessage {
                    time,
                    model: record.model.map(Into::into),
                    tokens: record.tokens.filter(|raw| raw.get() != "null").map(ToOwned::to_owned),
                    text: words(record.content),
                    calls: record.tool_calls.iter().flatten().map(EndedCall::of).collect(),
                    reading: self.file.reading,
                };
                self.reply(id, record.id.is_some(), message);
            }
            _ => {}
        }
    }

    fn reply(&mut self, id: u64, has_id: bool, message: ModelMessage<'s>) {
        // A summary that the tool put in the model's mouth.
        if message.model.is_none() && message.tokens.is_none() && message.calls.is_empty() {
            return;
        }
        if let Some(open) = self.open.as_mut().filter(|open| has_id && open.id == id) {
            open.message = message;
            return;
        }
        self.close();
        if has_id && !self.seen.insert(id) {
            return message.reading.warn(WarningKind::LateLine, || {
                "a message is written again after the next one".to_owned()
            });
        }
        let begun = self.file.agent.last().or(message.time);
        self.file.agent.seen(message.time);
        self.open = Some(GeminiOpenMessage { id, begun, message });
    }

    fn close(&mut self) {
        let Some(GeminiOpenMessage { begun, message, .. }) = self.open.take() else { return };
        let answered = message.calls.iter().filter_map(|call| call.answer.as_ref()?.time);
        // A message with no text is written when its tools are done.
        let time = answered.clone().min().into_iter().chain(message.time).min();
        self.file.agent.seen(answered.max().max(self.file.agent.last()));
        let reading = message.reading;
        let usage = reading.usage(message.tokens.as_deref(), "tokens").map(usage_of);
        let call = usage.as_ref().map(|usage| ModelCall::new(UsageShape::Gemini, usage));
        let call = call.map(|call| call.of(&[Some(PROVIDER)]).at(time));
        let reply = reading.reply(message.model, call, "tokens");
        self.file.begin(begun);
        let step = self.file.agent.begin(begun);
        step.answer(time, reply);
        reading.check(add(step, time, message.text, message.calls));
        self.file.agent.close();
    }
}

impl EndedCall {
    fn of(call: &GeminiToolCall<'_>) -> Self {
        let status = call.status.as_deref();
        let ending = ENDINGS.iter().find(|(ending, _)| Some(*ending) == status);
        let time = call.timestamp.as_deref().and_then(parse_time);
        let answer = |failed| ToolAnswer { result: result_of(call.result), failed, time };
        Self {
            tool: call.name.as_deref().unwrap_or_default().to_owned(),
            arguments: compact(call.args),
            answer: ending.map(|(_, failed)| answer(*failed)),
        }
    }
}

fn add(step: &mut Step, time: Time, text: String, calls: Vec<EndedCall>) -> Result<(), Full> {
    step.say(time, text)?;
    // Ids may repeat, so places stand for them.
    let mut answers = Vec::new();
    for (place, call) in calls.into_iter().enumerate() {
        step.call(None, Some(place.to_string()), call.tool, call.arguments)?;
        answers.extend(call.answer.map(|answer| (place, answer)));
    }
    answers.sort_by_key(|(_, answer)| answer.time);
    for (place, answer) in answers {
        step.end_call(&place.to_string(), answer)?;
    }
    Ok(())
}

/// The counts of a message as the API reports them.
fn usage_of(tokens: Tokens) -> Value {
    let mut usage = Map::new();
    usage.insert("promptTokenCount".to_owned(), tokens.input);
    for (key, count) in [
        ("candidatesTokenCount", tokens.output),
        ("cachedContentTokenCount", tokens.cached),
        ("thoughtsTokenCount", tokens.thoughts),
        ("toolUsePromptTokenCount", tokens.tool),
    ] {
        if let Some(count) = count.filter(|count| !count.is_null()) {
            usage.insert(key.to_owned(), count);
        }
    }
    Value::Object(usage)
}

#[cfg(test)]
mod tests;
