//! Lists of OpenAI chat messages, bare, under `messages`, or one such object a line, and tau-bench results,
//! which hold one list for each run under `traj`.
//!
//! There is no usage and no time in them. An assistant message is one model call; tool messages answer it.
//! Whether a tool failed is not told. A tau-bench run succeeded if its reward is 1.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::act::{Act, Full, Reply, Step};
use super::anthropic;
use super::document::{Element, Wanted, each_element, warn_of};
use super::head::ends_of;
use super::layout::{Layout, ListLine, Names};
use super::lines::JsonLines;
use super::part::Part;
use super::player::Player;
use super::text::text_of;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};

/// The least reward that is a success: 1, but for the rounding of the benchmark's own arithmetic.
const FULL_REWARD: f64 = 1.0 - 1e-6;

/// Keys of formats that keep messages under `messages` and name themselves.
pub(super) const OTHERS: [&str; 5] =
    ["sessionId", "projectHash", "trajectory_format", "simulations", "info"];

/// The format.
pub(super) struct OpenAiChat;

impl Format for OpenAiChat {
    fn id(&self) -> &'static str {
        "openai-chat"
    }

    fn describe(&self) -> &'static str {
        "lists of OpenAI chat messages, bare or as {\"messages\": [...]}, also one a line; tau-bench results"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let Some(keys) = head.document().filter(|_| !anthropic::is_ours(head)) else {
            return false;
        };
        if keys.in_list {
            return keys.have(&["traj"])
                || (keys.have(&["role"])
                    && (keys.have(&["content"]) || keys.have(&["tool_calls"])));
        }
        keys.have(&["messages"]) && !OTHERS.iter().any(|other| keys.have(&[other]))
    }

    fn supplies(&self) -> Supplies {
        Supplies::default()
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        if Layout::of(source.main) == Layout::Lines {
            read_lines(source.main, sink, &mut warnings);
        } else if holds_trials(source.main) {
            read_trials(source.main, sink, &mut warnings);
        } else {
            read_messages(source.main, sink, &mut warnings);
        }
        warnings.send(sink);
    }
}

/// A run of tau-bench.
#[derive(Deserialize)]
struct Trial<'a> {
    task_id: Option<Value>,
    trial: Option<Value>,
    reward: Option<f64>,
    #[serde(borrow)]
    traj: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    /// How calls were made before there were several at once.
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
    #[serde(borrow)]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A list a line, as models are trained on; each is a run.
fn read_lines(part: &Part, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let mut lines = JsonLines::open(part, warnings);
    while lines.advance(warnings) {
        let Some(line) = lines.parse::<ListLine<'_>>(warnings) else { continue };
        let names = line.names();
        let stem = || format!("{}/{}", part.stem(), lines.number());
        let id = names.id.clone().unwrap_or_else(stem);
        let mut player = Player::new(sink, header(&id, names.model.as_deref(), part));
        let mut list = List::default();
        for message in line.messages.into_iter().flatten() {
            list.take(message, part, &mut player, warnings);
        }
        list.close(&mut player);
        player.end(Closing::default());
    }
}

fn header<'a>(id: &'a str, model: Option<&'a str>, part: &'a Part) -> RunHeader<'a> {
    RunHeader { id, format: OpenAiChat.id(), file: part.name(), model }
}

fn holds_trials(part: &Part) -> bool {
    // A file that cannot be opened is told of when it is read.
    let (head, _) = ends_of(part).unwrap_or_default();
    Head::new(&head, b"").document().is_some_and(|keys| keys.in_list && keys.have(&["traj"]))
}

fn read_messages(part: &Part, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let names = Names::of(part);
    let id = names.id.as_deref().unwrap_or(part.stem());
    let mut player = Player::new(sink, header(id, names.model.as_deref(), part));
    let mut list = List::default();
    let wanted = Wanted { list: &["messages"], beside: &[] };
    each_element(part, wanted, warnings, &mut |element, warnings| {
        if let Element::Item(message) = element {
            list.take(message, part, &mut player, warnings);
        }
    });
    list.close(&mut player);
    player.end(Closing::default());
}

fn read_trials(part: &Part, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let wanted = Wanted { list: &["messages"], beside: &[] };
    each_element(part, wanted, warnings, &mut |element, warnings| {
        if let Element::Item(trial) = element {
            read_trial(trial, part, sink, warnings);
        }
    });
}

fn read_trial(item: &RawValue, part: &Part, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let trial: Trial<'_> = match serde_json::from_str(item.get()) {
        Ok(trial) => trial,
        Err(error) => return warn_of(&error, part, warnings),
    };
    let name = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let id = format!("{}/{}", name(&trial.task_id), name(&trial.trial));
    let mut player = Player::new(sink, header(&id, None, part));
    let mut list = List::default();
    for message in &trial.traj {
        list.take(message, part, &mut player, warnings);
    }
    list.close(&mut player);
    let outcome = trial.reward.map(|reward| reward >= FULL_REWARD);
    player.end(Closing { outcome, ..Closing::default() });
}

/// Plays one list of messages.
#[derive(Default)]
struct List {
    open: Option<Step>,
}

impl List {
    fn take(
        &mut self,
        message: &RawValue,
        part: &Part,
        player: &mut Player<'_, '_>,
        warnings: &mut Warnings,
    ) {
        match serde_json::from_str::<Message<'_>>(message.get()) {
            Ok(message) => {
                if self.message(message, player) == Err(Full) {
                    warnings.add(WarningKind::TooLarge, part.name(), None, || {
                        "a step holds more than is kept; the rest of it is dropped".to_owned()
                    });
                }
            }
            Err(error) => {
                let message = || format!("not a chat message: {error}");
                warnings.add(WarningKind::Malformed, part.name(), None, message);
            }
        }
    }

    fn message(&mut self, message: Message<'_>, player: &mut Player<'_, '_>) -> Result<(), Full> {
        match &*message.role {
            "user" => {
                self.close(player);
                player.act(Act::User(None));
                Ok(())
            }
            "assistant" => {
                self.close(player);
                let step = self.open.insert(Step::begin(None));
                step.answer(None, Reply::default());
                answer(step, message)
            }
            "tool" | "function" => {
                let Some(step) = &mut self.open else { return Ok(()) };
                let result = text_of(message.content).unwrap_or_default();
                match message.tool_call_id.as_deref() {
                    Some(id) => step.result_of(id, None, result, false)?,
                    None => step.next_result(None, result, false)?,
                };
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, player: &mut Player<'_, '_>) {
        if let Some(step) = self.open.take() {
            player.act(Act::Step(Box::new(step)));
        }
    }
}

fn answer(step: &mut Step, message: Message<'_>) -> Result<(), Full> {
    if let Some(text) = text_of(message.content).filter(|text| !text.is_empty()) {
        step.say(None, text)?;
    }
    for call in message.tool_calls.into_iter().flatten() {
        if let Some(function) = call.function {
            let arguments = text_of(function.arguments).unwrap_or_default();
            let id = call.id.map(Cow::into_owned);
            step.call(None, id, function.name.unwrap_or_default().into_owned(), arguments)?;
        }
    }
    if let Some(function) = message.function_call {
        let arguments = text_of(function.arguments).unwrap_or_default();
        step.call(None, None, function.name.unwrap_or_default().into_owned(), arguments)?;
    }
    Ok(())
}
