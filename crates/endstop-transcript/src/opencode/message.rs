//! Messages of OpenCode and their parts, wherever they are stored.

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};

use crate::builder::RunBuilder;
use crate::call_charge::{ModelCall, as_anthropic, with_cost};
use crate::reading::Reading;
use crate::step::{Failures, Full, ModelResponse, Step};
use crate::text::{Text, compact, present, text_or_json, value_of};
use crate::time::Time;
use crate::timeline::AgentTimeline;

/// A message.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct OpencodeInfo<'a> {
    role: Option<Text<'a>>,
    time: Option<Times>,
    #[serde(rename = "modelID")]
    model_id: Option<String>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    finish: Option<String>,
    cost: Option<&'a RawValue>,
    tokens: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Times {
    created: Option<Number>,
    completed: Option<Number>,
    start: Option<Number>,
    end: Option<Number>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct OpencodePart<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
    synthetic: Option<bool>,
    time: Option<Times>,
    tool: Option<String>,
    #[serde(rename = "callID")]
    call_id: Option<String>,
    state: Option<ToolState<'a>>,
    reason: Option<String>,
    cost: Option<&'a RawValue>,
    tokens: Option<&'a RawValue>,
}

/// How far a tool call is.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ToolState<'a> {
    status: Option<Text<'a>>,
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    time: Option<Times>,
}

/// A message whose parts are read.
enum OpencodeMessage {
    User { created: Time, parts: usize, is_turn: bool },
    Assistant(Box<Answer>),
}

/// A message of the assistant.
struct Answer {
    model: Option<String>,
    provider: Option<String>,
    created: Time,
    completed: Time,
    failed: bool,
    /// The usage and the cost of the message as a whole, and why it ended: of its last call, if it has parts for
    /// calls.
    usage: Option<Value>,
    finish: Option<String>,
    /// A call that no `step-finish` has ended.
    is_open: bool,
    has_content: bool,
    was_answered: bool,
    /// When the model last said something in the open call.
    last: Time,
}

/// A session while its messages are read.
pub(in super::super) struct Conversation<'s> {
    pub(in super::super) reading: Reading<'s>,
    timeline: AgentTimeline,
    /// How far it is below the run.
    depth: u32,
    open: Option<OpencodeMessage>,
    /// Calls that failed since the last one that was answered.
    failures: Failures,
}

impl<'s> Conversation<'s> {
    pub(in super::super) fn new(reading: Reading<'s>, depth: u32) -> Self {
        let timeline = AgentTimeline::default();
        Self { reading, timeline, depth, open: None, failures: Failures::default() }
    }

    /// A message begins.
    pub(in super::super) fn message(&mut self, raw: &RawValue) {
        self.finish();
        let info = self.reading.parse::<OpencodeInfo<'_>>(raw, "not a message of this format");
        let Some(info) = info else { return };
        let times = info.time.unwrap_or_default();
        let (created, completed) = (of(times.created.as_ref()), of(times.completed.as_ref()));
        self.open = match info.role.as_deref() {
            Some("user") => Some(OpencodeMessage::User { created, parts: 0, is_turn: false }),
            Some("assistant") => Some(OpencodeMessage::Assistant(Box::new(Answer {
                usage: usage_of(self.reading, info.tokens, info.cost, info.provider_id.as_deref()),
                model: info.model_id,
                provider: info.provider_id,
                created,
                completed,
                failed: present(info.error).is_some(),
                finish: info.finish,
                is_open: false,
                has_content: false,
                was_answered: false,
                last: None,
            }))),
            _ => None,
        };
        if self.depth > 0 {
            self.timeline.begin_child(created, self.depth);
        }
    }

    /// A part of the message that began last.
    pub(in super::super) fn part(&mut self, raw: &RawValue) {
        let wrong = "not a part of this format";
        let Some(part) = self.reading.parse::<OpencodePart<'_>>(raw, wrong) else { return };
        let added = match self.open.take() {
            Some(OpencodeMessage::User { created, parts, is_turn }) => {
                let is_said = match part.kind.as_deref() {
                    Some("text") => part.synthetic != Some(true),
                    kind => matches!(kind, Some("file" | "agent" | "subtask")),
                };
                self.open = Some(OpencodeMessage::User {
                    created,
                    parts: parts + 1,
                    is_turn: is_turn || is_said,
                });
                Ok(())
            }
            Some(OpencodeMessage::Assistant(mut answer)) => {
                let added = self.part_of(&mut answer, part);
                self.open = Some(OpencodeMessage::Assistant(answer));
                added
            }
            None => Ok(()),
        };
        self.check(added);
    }

    fn part_of(&mut self, answer: &mut Answer, part: OpencodePart<'_>) -> Result<(), Full> {
        let times = part.time.unwrap_or_default();
        let ended = of(times.end.as_ref()).or_else(|| of(times.start.as_ref()));
        match part.kind.as_deref() {
            Some("step-start") => {
                if answer.has_content {
                    // The usage of the previous call is not recorded: the message has only that of its last call.
                    self.answer(answer, None, None);
                }
                self.step(answer);
                Ok(())
            }
            Some("reasoning") => {
                self.step(answer);
                (answer.has_content, answer.last) = (true, ended.or(answer.last));
                Ok(())
            }
            Some("text") => {
                let text =
                    part.text.filter(|text| !text.is_empty() && part.synthetic != Some(true));
                let Some(text) = text else { return Ok(()) };
                (answer.has_content, answer.last) = (true, ended.or(answer.last));
                let step = self.step(answer);
                step.say(ended, text)
            }
            Some("tool") => {
                let state = part.state.as_ref();
                let times = state.and_then(|state| state.time.as_ref());
                let begun = times.and_then(|times| of(times.start.as_ref()));
                let ended = times.and_then(|times| of(times.end.as_ref()));
                answer.has_content = true;
                let step = self.step(answer);
                let arguments = compact(state.and_then(|state| state.input));
                step.call(begun, part.call_id.clone(), part.tool.unwrap_or_default(), arguments)?;
                let result = match state.and_then(|state| state.status.as_deref()) {
                    Some("completed") => Some((state.and_then(|state| state.output), false)),
                    Some("error") => Some((state.and_then(|state| state.error), true)),
                    _ => None,
                };
                let Some((result, failed)) = result else { return Ok(()) };
                let result = text_or_json(result);
                step.result(part.call_id.as_deref(), ended, result, failed)?;
                self.timeline.seen(ended);
                Ok(())
            }
            Some("retry") => {
                let created = of(times.created.as_ref());
                self.step(answer).fail(created)
            }
            Some("step-finish") => {
                let provider = answer.provider.as_deref();
                let usage = usage_of(self.reading, part.tokens, part.cost, provider);
                self.answer(answer, usage, part.reason);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The step of the open call.
    fn step(&mut self, answer: &mut Answer) -> &mut Step {
        let begun = match answer.was_answered {
            true => self.timeline.last().or(answer.created),
            false => answer.created.or(self.timeline.last()),
        };
        if !std::mem::replace(&mut answer.is_open, true) {
            self.timeline.begin(begun);
        }
        self.timeline.step_or_begin(begun)
    }

    fn answer(&mut self, answer: &mut Answer, usage: Option<Value>, finish: Option<String>) {
        let time = answer.last.take().or(answer.completed).or(answer.created);
        let providers = &[answer.provider.as_deref(), None];
        let call = usage.as_ref().map(|usage| ModelCall::new(UsageShape::Anthropic, usage));
        let call = call.map(|call| call.of(providers).at(time));
        let reply = self.reading.reply(answer.model.as_deref(), call, "tokens of a message");
        let reply = ModelResponse { finish, ..reply };
        let mut failures = std::mem::take(&mut self.failures);
        let step = self.step(answer);
        let added = step.fail_as(&mut failures);
        step.answer(time, reply);
        (answer.is_open, answer.has_content, answer.was_answered) = (false, false, true);
        self.check(added);
    }

    /// Ends the open call, if no record of its end was found.
    fn settle(&mut self, answer: &mut Answer) {
        // The usage of the message is that of its last call: counted already, if it has parts for calls.
        let usage = answer.usage.take_if(|_| !answer.was_answered);
        let finish = answer.finish.take_if(|_| !answer.was_answered);
        if answer.has_content || usage.is_some() {
            self.answer(answer, usage, finish);
        } else if answer.is_open || (answer.failed && !answer.was_answered) {
            if std::mem::take(&mut answer.is_open) {
                self.timeline.give_up();
            }
            if answer.failed {
                self.failures.add(answer.completed.or(answer.created));
            }
        }
    }

    /// Ends the message that began last.
    pub(in super::super) fn finish(&mut self) {
        match self.open.take() {
            Some(OpencodeMessage::User { created, parts, is_turn }) if is_turn || parts == 0 => {
                self.timeline.user(created);
            }
            Some(OpencodeMessage::Assistant(mut answer)) => {
                self.settle(&mut answer);
                self.timeline.seen_by(answer.completed);
            }
            _ => {}
        }
    }

    /// Hands what was done so far to the run, which writes it.
    pub(in super::super) fn hand_over(&mut self, run: &mut RunBuilder<'_, '_>) {
        if self.open.is_none() {
            self.timeline.close();
        }
        self.timeline.take().into_iter().for_each(|entry| run.own().push(entry));
    }

    /// The acts of a sub-agent.
    pub(in super::super) fn into_timeline(mut self) -> AgentTimeline {
        self.finish();
        self.timeline.close();
        self.timeline.end_child();
        self.timeline
    }

    fn check(&self, added: Result<(), Full>) {
        if added == Err(Full) {
            self.reading.warn_full();
        }
    }
}

fn of(time: Option<&Number>) -> Time {
    time.and_then(Number::as_u64)
}

/// Counts in the form of Anthropic's API, whose input excludes cached tokens, as it does here, with the cost. `None`
/// if nothing is recorded for a call, which includes zeros.
fn usage_of(
    reading: Reading<'_>,
    tokens: Option<&RawValue>,
    cost: Option<&RawValue>,
    provider: Option<&str>,
) -> Option<Value> {
    let tokens = reading.usage::<Value>(tokens, "tokens")?;
    let count = |name: &str| tokens.get(name).cloned().unwrap_or_else(|| json!(0));
    let cached = |name: &str| {
        let count = tokens.get("cache").and_then(|cache| cache.get(name));
        count.cloned().unwrap_or_else(|| json!(0))
    };
    let counts = ["input", "output"].map(count);
    let caches = ["read", "write"].map(cached);
    let cost = value_of(cost).filter(|cost| cost.as_f64() != Some(0.0));
    if cost.is_none() && counts.iter().chain(&caches).all(|count| count.as_u64() == Some(0)) {
        return None;
    }
    let [input, mut output] = counts;
    let [read, write] = caches;
    let known: Option<Vec<u64>> =
        [&input, &output, &read, &write].into_iter().map(Value::as_u64).collect();
    let sum = known.map(|counts| counts.into_iter().fold(0, u64::saturating_add));
    let reasoning = tokens.get("reasoning").and_then(Value::as_u64).unwrap_or(0);
    let is_separate = match (sum, tokens.get("total").and_then(Value::as_u64)) {
        (Some(sum), Some(total)) => total > sum,
        _ => provider.is_some_and(|provider| provider.starts_with("google")),
    };
    if let (true, Some(said)) = (is_separate, output.as_u64()) {
        output = json!(said.saturating_add(reasoning));
    }
    Some(with_cost(as_anthropic([input, output, read, write]), cost))
}
