//! The acts of one Claude Code file, in order.
//!
//! One message of the model is several lines with the same message and request id, one block each. Its
//! usage is repeated on each line while it grows, so the last line counts. Tool results may come between
//! the lines of one message, so a step is gathered until the next one begins.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::record::{Block, Content, Message, Record, is_note, result_text};
use crate::act::{Act, Full, Reply, Step, Time, parse_time};
use crate::bill::{ModelCall, bill};
use crate::lines::JsonLines;
use crate::part::Part;
use crate::warning::{WarningKind, Warnings};
use endstop_price::{PriceTable, UsageShape};

/// The model of lines that the tool itself wrote in the model's place.
const SYNTHETIC: &str = "<synthetic>";

/// Which lines of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// All: the file of one agent.
    All,
    /// Those of the session itself.
    Main,
    /// Those of its sub-agents, which old versions kept in the session's file.
    Side,
}

/// What a stream is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The run itself.
    Run,
    /// A sub-agent.
    Child,
    /// The call that sums up a conversation: charged, but no agent, and no person speaks in it.
    Compaction,
}

/// Reads one file as acts.
pub(super) struct Stream<'s> {
    lines: JsonLines<'s>,
    gather: Gather<'s>,
    is_over: bool,
}

/// Gathers lines to acts.
struct Gather<'s> {
    prices: &'s PriceTable,
    lane: Lane,
    role: Role,
    /// Digests of the ids of messages that belong to the session and are only repeated here.
    elsewhere: &'s HashSet<u64>,
    seen: HashSet<u64>,
    open: Option<Open>,
    last: Time,
    child_is_open: bool,
    ready: VecDeque<Act>,
}

/// The step that is being gathered.
struct Open {
    /// The digest of its message; `None` while its requests have only failed.
    key: Option<u64>,
    step: Step,
    time: Time,
    model: Option<String>,
    finish: Option<String>,
    /// The last usage report, with its line.
    usage: Option<(u64, String)>,
}

impl<'s> Stream<'s> {
    pub(super) fn open(
        part: &'s Part,
        (lane, role): (Lane, Role),
        elsewhere: &'s HashSet<u64>,
        prices: &'s PriceTable,
        warnings: &mut Warnings,
    ) -> Self {
        let gather = Gather {
            prices,
            lane,
            role,
            elsewhere,
            seen: HashSet::new(),
            open: None,
            last: None,
            child_is_open: false,
            ready: VecDeque::new(),
        };
        Self { lines: JsonLines::open(part, warnings), gather, is_over: false }
    }

    /// The next act, or `None` at the end.
    pub(super) fn next(&mut self, warnings: &mut Warnings) -> Option<Act> {
        while self.gather.ready.is_empty() && !self.is_over {
            // The lane of the session itself has read the same lines, and says which are damaged.
            let mut unheard = Warnings::default();
            let is_second = self.gather.lane == Lane::Side;
            let heard = if is_second { &mut unheard } else { &mut *warnings };
            if !self.lines.advance(heard) {
                self.gather.close(&self.lines, warnings);
                self.gather.close_child();
                self.is_over = true;
            } else if let Some(record) = self.lines.parse(heard) {
                self.gather.take(&record, &self.lines, warnings);
            }
        }
        self.gather.ready.pop_front()
    }
}

impl Gather<'_> {
    fn take(&mut self, record: &Record<'_>, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        let is_side = record.is_sidechain == Some(true);
        if (self.lane == Lane::Main && is_side) || (self.lane == Lane::Side && !is_side) {
            return;
        }
        let time = record.timestamp.as_deref().and_then(parse_time);
        let taken = match record.kind.as_deref() {
            Some("assistant") => self.assistant(record, time, lines, warnings),
            Some("user") => self.user(record, time, lines, warnings),
            Some("system") if record.subtype.as_deref() == Some("api_error") => {
                self.failed(time, lines, warnings)
            }
            _ => return,
        };
        match taken {
            Ok(()) => {}
            Err(Refused::Full) => lines.warn(WarningKind::TooLarge, warnings, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            }),
            Err(Refused::Json(error)) => lines.warn_of(&error, warnings),
            Err(Refused::Late) => lines.warn(WarningKind::LateLine, warnings, || {
                "a message goes on after the next one began; not counted again".to_owned()
            }),
        }
        self.last = time.or(self.last);
    }

    fn assistant(
        &mut self,
        record: &Record<'_>,
        time: Time,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> Result<(), Refused> {
        if record.is_api_error_message == Some(true) {
            return self.failed(time, lines, warnings);
        }
        let message = message_of(record)?;
        let id = message.id.as_ref().or(record.uuid.as_ref());
        let is_elsewhere = id.is_some_and(|id| self.elsewhere.contains(&digest(id)));
        if is_elsewhere || message.model.as_deref() == Some(SYNTHETIC) {
            return Ok(());
        }
        let content = Content::read(message.content)?;
        let key = key_of(id, record.request_id.as_ref(), lines.number());
        if self.open.as_ref().is_none_or(|open| open.key != Some(key)) {
            if !self.seen.insert(key) {
                return Err(Refused::Late);
            }
            self.begin(key, time, lines, warnings);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.time = time.or(open.time);
        replace(&mut open.model, message.model);
        replace(&mut open.finish, message.stop_reason);
        if let Some(usage) = message.usage.filter(|usage| usage.get() != "null") {
            open.usage = Some((lines.number(), usage.get().to_owned()));
        }
        Ok(add_content(&mut open.step, content, time)?)
    }

    fn user(
        &mut self,
        record: &Record<'_>,
        time: Time,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> Result<(), Refused> {
        let is_turn = match Content::read(message_of(record)?.content)? {
            Content::Text(text) => !is_note(&text),
            Content::Blocks(blocks) if blocks.iter().any(|block| block.kind == "tool_result") => {
                return Ok(self.results(&blocks, time)?);
            }
            Content::Blocks(blocks) => {
                let is_note = |block: &Block<'_>| block.text.as_deref().is_some_and(is_note);
                !blocks.is_empty() && !blocks.iter().any(is_note)
            }
        };
        let is_harness = record.is_meta == Some(true) || record.is_compact_summary == Some(true);
        if is_turn && !is_harness && self.role != Role::Compaction {
            self.close(lines, warnings);
            if self.lane == Lane::Side && record.parent_uuid.is_none() {
                self.close_child();
            }
            self.begin_child(time);
            self.ready.push_back(Act::User(time));
        }
        Ok(())
    }

    fn results(&mut self, blocks: &[Block<'_>], time: Time) -> Result<(), Full> {
        let Some(open) = &mut self.open else { return Ok(()) };
        for block in blocks {
            if let Some(id) = block.tool_use_id.as_deref() {
                let failed = block.is_error == Some(true);
                open.step.result_of(id, time, result_text(block.content), failed)?;
            }
        }
        Ok(())
    }

    /// A request failed; the next reply answers the same step.
    fn failed(
        &mut self,
        time: Time,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> Result<(), Refused> {
        if self.open.as_ref().is_none_or(|open| open.key.is_some()) {
            self.close(lines, warnings);
            self.open = Some(Open::new(None, self.last.or(time)));
        }
        Ok(self.open.as_mut().map_or(Ok(()), |open| open.step.fail(time))?)
    }

    fn begin(&mut self, key: u64, time: Time, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        match &mut self.open {
            Some(open) if open.key.is_none() => open.key = Some(key),
            _ => {
                self.close(lines, warnings);
                self.open = Some(Open::new(Some(key), self.last.or(time)));
            }
        }
    }

    fn close(&mut self, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        let Some(open) = self.open.take() else { return };
        self.begin_child(open.step.begun());
        self.ready.push_back(Act::Step(Box::new(open.finish(self.prices, lines, warnings))));
    }

    fn begin_child(&mut self, time: Time) {
        if self.role == Role::Child && !self.child_is_open {
            self.child_is_open = true;
            self.ready.push_back(Act::ChildBegin(time));
        }
    }

    fn close_child(&mut self) {
        if self.child_is_open {
            self.child_is_open = false;
            self.ready.push_back(Act::ChildEnd(self.last));
        }
    }
}

/// Why a line is not taken in.
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

impl Open {
    fn new(key: Option<u64>, begun: Time) -> Self {
        let step = Step::begin(begun);
        Self { key, step, time: begun, model: None, finish: None, usage: None }
    }

    fn finish(
        mut self,
        prices: &PriceTable,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> Step {
        if self.key.is_none() {
            return self.step;
        }
        let mut reply = Reply { model: self.model, finish: self.finish, ..Reply::default() };
        if let Some((line, usage)) = self.usage {
            let usage: Value = serde_json::from_str(&usage).unwrap_or_default();
            let call = ModelCall {
                providers: &[Some("anthropic"), None],
                model: reply.model.as_deref(),
                shape: UsageShape::Anthropic,
                usage: &usage,
                service_tier: None,
                time: self.time,
            };
            let bill = bill(&call, prices);
            if let Some(problem) = bill.problem {
                lines.warn_at(line, WarningKind::BadNumber, warnings, || {
                    format!("usage: {problem}")
                });
            }
            (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
        }
        self.step.answer(self.time, reply);
        self.step
    }
}

fn add_content(step: &mut Step, content: Content<'_>, time: Time) -> Result<(), Full> {
    let blocks = match content {
        Content::Text(text) => return step.say(time, text.into_owned()),
        Content::Blocks(blocks) => blocks,
    };
    for block in blocks {
        match (&*block.kind, block.text, block.name) {
            ("text", Some(text), _) => step.say(time, text.into_owned())?,
            ("tool_use", _, Some(name)) => {
                let arguments = block.input.map(|input| input.get().to_owned()).unwrap_or_default();
                let id = block.id.map(Cow::into_owned);
                step.call(time, id, name.into_owned(), arguments)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn message_of<'a>(record: &Record<'a>) -> Result<Message<'a>, serde_json::Error> {
    serde_json::from_str(record.message.map_or("{}", RawValue::get))
}

fn replace(kept: &mut Option<String>, found: Option<Cow<'_, str>>) {
    if let Some(found) = found {
        *kept = Some(found.into_owned());
    }
}

/// The digest of an id.
pub(super) fn digest(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// What tells one model call from another. A line without any id is a call of its own.
fn key_of(id: Option<&Cow<'_, str>>, request: Option<&Cow<'_, str>>, line: u64) -> u64 {
    match (id, request) {
        (None, None) => digest(&format!("line {line}")),
        (id, request) => {
            let (id, request) = (id.map_or("", |id| &**id), request.map_or("", |id| &**id));
            digest(&format!("{id}\n{request}"))
        }
    }
}
