//! Gathers the messages of a session to acts.

use std::collections::VecDeque;

use endstop_core::units::Cost;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::TakeAct;
use super::record::{Record, Tokens, ToolCall, compact, is_turn, result_of, words};
use crate::act::{Act, Full, Reply, Step, Time, parse_time};
use crate::bill::{ModelCall, bill};
use crate::part::Part;
use crate::recent::{Recent, digest};
use crate::warning::{WarningKind, Warnings};
use endstop_price::{PriceTable, UsageShape};

/// Whose price list the models are on.
const PROVIDER: &str = "google";

/// The states in which a tool call is over, and whether it then failed.
const ENDINGS: [(&str, bool); 3] = [("success", false), ("error", true), ("cancelled", true)];

pub(super) struct Gather<'s> {
    part: &'s Part,
    prices: &'s PriceTable,
    session: Option<String>,
    /// Messages that are over.
    seen: Recent,
    open: Option<Open>,
    first: Time,
    last: Time,
    ready: VecDeque<Act>,
}

/// A model's message as it was last written.
struct Open {
    id: u64,
    begun: Time,
    message: Message,
}

struct Message {
    time: Time,
    model: Option<String>,
    tokens: Option<String>,
    text: String,
    calls: Vec<Call>,
    line: Option<u64>,
}

struct Call {
    tool: String,
    arguments: String,
    /// The result, whether it is a failure, and when it was there.
    answer: Option<(String, bool, Time)>,
}

impl<'s> Gather<'s> {
    pub(super) fn new(part: &'s Part, prices: &'s PriceTable) -> Self {
        let (session, seen, open, ready) = (None, Recent::default(), None, VecDeque::new());
        Self { part, prices, session, seen, open, first: None, last: None, ready }
    }

    pub(super) fn session(&mut self, id: &RawValue) {
        self.session = serde_json::from_str(id.get()).ok();
    }

    pub(super) fn drain(&mut self, take: &mut TakeAct<'_>) {
        while let Some(act) = self.ready.pop_front() {
            take(act, self.session.as_deref(), self.first);
        }
    }

    pub(super) fn record(
        &mut self,
        record: Record<'_>,
        line: Option<u64>,
        warnings: &mut Warnings,
    ) {
        if let Some(id) = record.session_id {
            self.session.get_or_insert_with(|| id.into_owned());
            return;
        }
        let Some(kind) = record.kind.as_deref() else { return };
        let time = record.timestamp.as_deref().and_then(parse_time);
        let id = digest(record.id.as_deref().unwrap_or_default());
        match kind {
            "user" => {
                let is_new = record.id.is_none() || self.seen.insert(id);
                if is_new && is_turn(record.content) {
                    self.close(warnings);
                    self.note(time);
                    self.ready.push_back(Act::User(time));
                }
            }
            "gemini" => {
                let calls = record.tool_calls.iter().flatten().map(Call::of).collect();
                let tokens = record.tokens.map(RawValue::get).filter(|tokens| *tokens != "null");
                let message = Message {
                    time,
                    model: record.model.map(Into::into),
                    tokens: tokens.map(str::to_owned),
                    text: words(record.content),
                    calls,
                    line,
                };
                self.reply(id, record.id.is_some(), message, warnings);
            }
            _ => {}
        }
    }

    fn reply(&mut self, id: u64, has_id: bool, message: Message, warnings: &mut Warnings) {
        // A summary that the tool put in the model's mouth.
        if message.model.is_none() && message.tokens.is_none() && message.calls.is_empty() {
            return;
        }
        if let Some(open) = self.open.as_mut().filter(|open| has_id && open.id == id) {
            open.message = message;
            return;
        }
        self.close(warnings);
        if has_id && !self.seen.insert(id) {
            let say = || "a message is written again after the next one".to_owned();
            return warnings.add(WarningKind::LateLine, self.part.name(), message.line, say);
        }
        let begun = self.last.or(message.time);
        self.note(message.time);
        self.open = Some(Open { id, begun, message });
    }

    fn note(&mut self, time: Time) {
        self.first = self.first.or(time);
        self.last = time.or(self.last);
    }

    pub(super) fn finish(&mut self, warnings: &mut Warnings) {
        self.close(warnings);
    }

    fn close(&mut self, warnings: &mut Warnings) {
        let Some(Open { begun, message, .. }) = self.open.take() else { return };
        let answered = message.calls.iter().filter_map(|call| call.answer.as_ref()?.2);
        // A message without words is written when its tools are done.
        let time = answered.clone().min().into_iter().chain(message.time).min();
        self.last = answered.max().max(self.last);
        let mut step = Step::begin(begun);
        let mut reply =
            Reply { model: message.model, cost: Some(Cost::Unpriced), ..Reply::default() };
        if let Some(problem) = fill(&mut reply, message.tokens.as_deref(), time, self.prices) {
            let say = || format!("tokens: {problem}");
            warnings.add(WarningKind::BadNumber, self.part.name(), message.line, say);
        }
        step.answer(time, reply);
        if add(&mut step, time, message.text, message.calls) == Err(Full) {
            warnings.add(WarningKind::TooLarge, self.part.name(), message.line, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
        self.ready.push_back(Act::Step(Box::new(step)));
    }
}

impl Call {
    fn of(call: &ToolCall<'_>) -> Self {
        let status = call.status.as_deref();
        let ending = ENDINGS.iter().find(|(ending, _)| Some(*ending) == status);
        let time = call.timestamp.as_deref().and_then(parse_time);
        Self {
            tool: call.name.as_deref().unwrap_or_default().to_owned(),
            arguments: compact(call.args),
            answer: ending.map(|(_, failed)| (result_of(call.result), *failed, time)),
        }
    }
}

fn add(step: &mut Step, time: Time, text: String, calls: Vec<Call>) -> Result<(), Full> {
    if !text.is_empty() {
        step.say(time, text)?;
    }
    // Ids may repeat, so places stand for them.
    let mut answers = Vec::new();
    for (place, call) in calls.into_iter().enumerate() {
        step.call(None, Some(place.to_string()), call.tool, call.arguments)?;
        answers.extend(call.answer.map(|answer| (place, answer)));
    }
    answers.sort_by_key(|(_, (_, _, time))| *time);
    for (place, (result, failed, time)) in answers {
        step.result_of(&place.to_string(), time, result, failed)?;
    }
    Ok(())
}

/// Sets usage and cost from the counts of a message; what is wrong with them is returned.
fn fill(
    reply: &mut Reply,
    tokens: Option<&str>,
    time: Time,
    prices: &PriceTable,
) -> Option<String> {
    let tokens: Tokens = match serde_json::from_str(tokens?) {
        Ok(tokens) => tokens,
        Err(error) => return Some(error.to_string()),
    };
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
    let call = ModelCall {
        providers: &[Some(PROVIDER)],
        model: reply.model.as_deref(),
        shape: UsageShape::Gemini,
        usage: &Value::Object(usage),
        service_tier: None,
        time,
    };
    let bill = bill(&call, prices);
    (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
    bill.problem
}
