//! The entries of one Claude Code file, in order.
//!
//! One message of the model is several lines with the same message and request id, one block each. Its
//! usage is repeated on each line while it grows, so the last line counts. Tool results may come between
//! the lines of one message, so a step is gathered until the next one begins.

use std::collections::{HashSet, VecDeque};

use endstop_price::UsageShape;
use serde_json::Value;
use serde_json::value::RawValue;

use super::record::{ClaudeRecord, is_note};
use crate::anthropic::message::{AnthropicMessage, ContentBlock, MessageContent};
use crate::call_charge::ModelCall;
use crate::lines::JsonLines;
use crate::reading::Reading;
use crate::recent::digest;
use crate::step::{Full, ModelResponse};
use crate::text::{Text, whole_text};
use crate::time::{Time, parse_time};
use crate::timeline::{AgentTimeline, TimelineEntry};
use crate::warning::{WarningKind, Warnings};

/// The model of lines that the tool itself wrote in the model's place.
const SYNTHETIC: &str = "<synthetic>";

/// Which lines of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFilter {
    /// All: the file of one agent.
    All,
    /// Lines of the session itself.
    Main,
    /// Lines of its sub-agents, which old versions kept in the session's file.
    Side,
}

/// The agent of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentRole {
    /// The run itself.
    Run,
    /// A sub-agent.
    Child,
    /// The call that sums up a conversation: charged, but no agent, and no person speaks in it.
    Compaction,
}

/// Reads one file as entries.
pub(super) struct ClaudeStream<'s> {
    lines: JsonLines<'s>,
    agent: ClaudeAgent<'s>,
    ready: VecDeque<TimelineEntry>,
    is_over: bool,
}

struct ClaudeAgent<'s> {
    reading: Reading<'s>,
    filter: LineFilter,
    role: AgentRole,
    /// Digests of the ids of messages that belong to the session and are only repeated here.
    elsewhere: Option<&'s HashSet<u64>>,
    seen: HashSet<u64>,
    timeline: AgentTimeline,
    open: Option<ClaudeOpenMessage>,
}

/// The message whose step is open.
struct ClaudeOpenMessage {
    /// Its digest; `None` while its requests have only failed.
    key: Option<u64>,
    time: Time,
    model: Option<String>,
    finish: Option<String>,
    /// The last usage report, with its line.
    usage: Option<(u64, Box<RawValue>)>,
}

impl<'s> ClaudeStream<'s> {
    pub(super) fn open(
        reading: Reading<'s>,
        (filter, role): (LineFilter, AgentRole),
        elsewhere: Option<&'s HashSet<u64>>,
        discarded: &'s Warnings,
    ) -> Self {
        // The stream of the session itself reads the same lines, and says which are damaged.
        let is_second = filter == LineFilter::Side;
        let warnings = if is_second { discarded } else { reading.warnings };
        let lines = reading.telling(warnings).lines();
        let agent = ClaudeAgent {
            reading,
            filter,
            role,
            elsewhere,
            seen: HashSet::new(),
            timeline: AgentTimeline::default(),
            open: None,
        };
        Self { lines, agent, ready: VecDeque::new(), is_over: false }
    }
}

impl Iterator for ClaudeStream<'_> {
    type Item = TimelineEntry;

    fn next(&mut self) -> Option<TimelineEntry> {
        while self.ready.is_empty() && !self.is_over {
            if !self.lines.advance() {
                self.agent.close();
                self.agent.timeline.end_child();
                self.is_over = true;
            } else if let Some(record) = self.lines.parse() {
                self.agent.reading.line = Some(self.lines.number());
                self.agent.take(&record, &self.lines);
            }
            self.ready.extend(self.agent.timeline.take());
        }
        self.ready.pop_front()
    }
}

impl ClaudeAgent<'_> {
    fn take(&mut self, record: &ClaudeRecord<'_>, lines: &JsonLines<'_>) {
        let is_side = record.is_sidechain == Some(true);
        let is_other = match self.filter {
            LineFilter::All => false,
            LineFilter::Main => is_side,
            LineFilter::Side => !is_side,
        };
        if is_other {
            return;
        }
        let time = record.timestamp.as_deref().and_then(parse_time);
        let taken = match record.kind.as_deref() {
            Some("assistant") => self.assistant(record, time),
            Some("user") => self.user(record, time),
            Some("system") if record.subtype.as_deref() == Some("api_error") => self.failed(time),
            _ => return,
        };
        match taken {
            Ok(()) => {}
            Err(Refused::Full) => self.reading.warn_full(),
            Err(Refused::Json(error)) => lines.warn_of_in(self.reading.warnings, &error),
            Err(Refused::Late) => self.reading.warn(WarningKind::LateLine, || {
                "a message continues after the next one began; not counted again".to_owned()
            }),
        }
        self.timeline.seen(time);
    }

    fn assistant(&mut self, record: &ClaudeRecord<'_>, time: Time) -> Result<(), Refused> {
        if record.is_api_error_message == Some(true) {
            return self.failed(time);
        }
        let message = message_of(record)?;
        let id = message.id.as_ref().or(record.uuid.as_ref());
        let is_elsewhere =
            id.is_some_and(|id| self.elsewhere.is_some_and(|ids| ids.contains(&digest(id))));
        if is_elsewhere || message.model.as_deref() == Some(SYNTHETIC) {
            return Ok(());
        }
        let content = MessageContent::read(message.content)?;
        let line = self.reading.line.unwrap_or(0);
        let key = key_of(id, record.request_id.as_ref(), line);
        if self.open.as_ref().is_none_or(|open| open.key != Some(key)) {
            if !self.seen.insert(key) {
                return Err(Refused::Late);
            }
            match &mut self.open {
                Some(open) if open.key.is_none() => open.key = Some(key),
                _ => self.begin(Some(key), time),
            }
        }
        let (Some(open), Some(step)) = (&mut self.open, self.timeline.step()) else {
            return Ok(());
        };
        open.time = time.or(open.time);
        replace(&mut open.model, message.model);
        replace(&mut open.finish, message.stop_reason);
        if let Some(usage) = message.usage.filter(|usage| usage.get() != "null") {
            open.usage = Some((line, usage.to_owned()));
        }
        Ok(content.add_to(step, time)?)
    }

    fn user(&mut self, record: &ClaudeRecord<'_>, time: Time) -> Result<(), Refused> {
        let is_turn = match MessageContent::read(message_of(record)?.content)? {
            MessageContent::Text(text) => !is_note(&text),
            MessageContent::Blocks(blocks) if blocks.iter().any(ContentBlock::is_result) => {
                return Ok(self.results(&blocks, time)?);
            }
            MessageContent::Blocks(blocks) => {
                let is_note = |block: &ContentBlock<'_>| block.text.as_deref().is_some_and(is_note);
                !blocks.is_empty() && !blocks.iter().any(is_note)
            }
        };
        let is_harness = record.is_meta == Some(true) || record.is_compact_summary == Some(true);
        if is_turn && !is_harness && self.role != AgentRole::Compaction {
            self.close();
            if self.filter == LineFilter::Side && record.parent_uuid.is_none() {
                self.timeline.end_child();
            }
            self.begin_child(time);
            self.timeline.user(time);
        }
        Ok(())
    }

    fn results(&mut self, blocks: &[ContentBlock<'_>], time: Time) -> Result<(), Full> {
        let Some(step) = self.timeline.step() else { return Ok(()) };
        for block in blocks {
            if let Some(id) = block.tool_use_id.as_deref() {
                let failed = block.is_error == Some(true);
                step.result_of(id, time, whole_text(block.content), failed)?;
            }
        }
        Ok(())
    }

    /// A request failed; the next response answers the same step.
    fn failed(&mut self, time: Time) -> Result<(), Refused> {
        if self.open.as_ref().is_none_or(|open| open.key.is_some()) {
            self.begin(None, time);
        }
        Ok(self.timeline.step().map_or(Ok(()), |step| step.fail(time))?)
    }

    fn begin(&mut self, key: Option<u64>, time: Time) {
        self.close();
        let begun = self.timeline.last().or(time);
        self.begin_child(begun);
        self.timeline.begin(begun);
        self.open =
            Some(ClaudeOpenMessage { key, time: begun, model: None, finish: None, usage: None });
    }

    fn close(&mut self) {
        if let (Some(open), Some(step)) = (self.open.take(), self.timeline.step())
            && open.key.is_some()
        {
            let time = open.time;
            step.answer(time, open.reply(self.reading));
        }
        self.timeline.close();
    }

    fn begin_child(&mut self, time: Time) {
        if self.role == AgentRole::Child {
            self.timeline.begin_child(time, 1);
        }
    }
}

/// The reason why a line is not read.
enum Refused {
    Json(serde_json::Error),
    Late,
    Full,
}

impl From<Full> for Refused {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl ClaudeOpenMessage {
    fn reply(self, reading: Reading<'_>) -> ModelResponse {
        let mut reply =
            ModelResponse { model: self.model, finish: self.finish, ..ModelResponse::default() };
        if let Some((line, usage)) = self.usage {
            let usage: Value = serde_json::from_str(usage.get()).unwrap_or_default();
            let call = ModelCall {
                providers: &[Some("anthropic"), None],
                time: self.time,
                ..ModelCall::new(UsageShape::Anthropic, &usage)
            };
            reading.at(Some(line)).price(&mut reply, &call, "usage");
        }
        reply
    }
}

fn message_of<'a>(record: &ClaudeRecord<'a>) -> Result<AnthropicMessage<'a>, serde_json::Error> {
    serde_json::from_str(record.message.map_or("{}", RawValue::get))
}

fn replace(kept: &mut Option<String>, found: Option<Text<'_>>) {
    if let Some(found) = found {
        *kept = Some(found.into_owned());
    }
}

/// The key of a model call. A line without any id is a separate call.
fn key_of(id: Option<&Text<'_>>, request: Option<&Text<'_>>, line: u64) -> u64 {
    match (id, request) {
        (None, None) => digest(&format!("line {line}")),
        (id, request) => {
            let (id, request) = (id.map_or("", |id| &**id), request.map_or("", |id| &**id));
            digest(&format!("{id}\n{request}"))
        }
    }
}
