//! Lists of OpenAI chat messages, bare, under `messages`, or one such object per line, and tau-bench results, which
//! hold one list for each run under `traj`.
//!
//! There is no usage and no time in them. An assistant message is one model call; tool messages answer it. Failures
//! of tools are not recorded. A tau-bench run succeeded if its reward is 1.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::document::warn_of;
use super::head::first_keys;
use super::layout::{Layout, ListLine, Names, are_of_anthropic, is_of_another_format};
use super::reading::Reading;
use super::step::{Full, ModelResponse, Step};
use super::text::{Text, is_full_reward, text_of};
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.document().filter(|_| !are_of_anthropic(head)) else {
        return false;
    };
    if keys.in_list {
        return keys.have(&["traj"])
            || (keys.have(&["role"]) && (keys.have(&["content"]) || keys.have(&["tool_calls"])));
    }
    keys.have(&["messages"]) && !is_of_another_format(keys)
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    if Layout::of(reading.part) == Layout::Lines {
        read_lines(reading, sink);
    } else if first_keys(reading.part).is_some_and(|keys| keys.in_list && keys.have(&["traj"])) {
        reading.each_item(&["messages"], &mut |trial| read_trial(trial, reading, sink));
    } else {
        read_messages(reading, sink);
    }
}

/// A run of tau-bench.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Trial<'a> {
    task_id: Option<Value>,
    trial: Option<Value>,
    reward: Option<f64>,
    traj: Vec<&'a RawValue>,
}

/// A message of a conversation. `endstop-llm` reads such messages in requests and responses of the API and sums them
/// up: how large they are, the first choice's text up to a bound. A replay needs all texts, arguments and results,
/// and lists in files have messages that no API would send. So this is a separate form.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ChatMessage<'a> {
    role: Text<'a>,
    content: Option<&'a RawValue>,
    tool_calls: Option<Vec<ChatToolCall<'a>>>,
    /// How calls were made before there were several at once.
    function_call: Option<CalledFunction<'a>>,
    tool_call_id: Option<Text<'a>>,
}

/// A tool call as the model asked for it.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct ChatToolCall<'a> {
    pub(crate) id: Option<Text<'a>>,
    pub(crate) function: Option<CalledFunction<'a>>,
}

/// The tool that is called, and with what.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct CalledFunction<'a> {
    pub(crate) name: Option<Text<'a>>,
    pub(crate) arguments: Option<&'a RawValue>,
}

/// A choice of a response, of which only its end is read.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct ChatChoice<'a> {
    pub(crate) finish_reason: Option<Text<'a>>,
}

/// Why the first choice of a response ended.
pub(crate) fn finish_of_first(choices: Option<Vec<ChatChoice<'_>>>) -> Option<String> {
    choices?.into_iter().next()?.finish_reason.map(Text::into_owned)
}

/// A list a line, as models are trained on; each is a run.
fn read_lines(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut lines = reading.lines();
    while lines.advance() {
        let Some(line) = lines.parse::<ListLine<'_>>() else { continue };
        let names = line.names();
        let stem = || format!("{}/{}", reading.part.stem(), lines.number());
        let id = names.id.unwrap_or_else(stem);
        let mut run = RunBuilder::new(reading, &mut *sink).named(Some(id)).with_model(names.model);
        line.messages.into_iter().flatten().for_each(|message| take(&mut run, message));
        run.end();
    }
}

fn read_messages(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let names = Names::of(reading.part);
    let mut run = RunBuilder::new(reading, sink).named(names.id).with_model(names.model);
    reading.each_item(&["messages"], &mut |message| take(&mut run, message));
    run.end();
}

fn read_trial(item: &RawValue, reading: Reading<'_>, sink: &mut dyn RunSink) {
    let trial: Trial<'_> = match serde_json::from_str(item.get()) {
        Ok(trial) => trial,
        Err(error) => return warn_of(&error, reading.part, reading.warnings),
    };
    let name = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let id = format!("{}/{}", name(&trial.task_id), name(&trial.trial));
    let mut run = RunBuilder::new(reading, sink).named(Some(id));
    trial.traj.iter().for_each(|message| take(&mut run, message));
    run.outcome(trial.reward.map(is_full_reward));
    run.end();
}

fn take(run: &mut RunBuilder<'_, '_>, message: &RawValue) {
    if let Some(message) = run.reading.parse::<ChatMessage<'_>>(message, "not a chat message") {
        let added = match &*message.role {
            "user" => {
                run.user(None);
                Ok(())
            }
            "assistant" => answer(run.reply(None, ModelResponse::default()), message),
            "tool" | "function" => {
                let result = text_of(message.content).unwrap_or_default();
                run.result(message.tool_call_id.as_deref(), None, result, false)
            }
            _ => Ok(()),
        };
        run.check(added);
    }
}

fn answer(step: &mut Step, message: ChatMessage<'_>) -> Result<(), Full> {
    step.say(None, text_of(message.content).unwrap_or_default())?;
    let calls = message.tool_calls.into_iter().flatten();
    let calls = calls.filter_map(|call| Some((call.id, call.function?)));
    for (id, function) in calls.chain(message.function_call.map(|function| (None, function))) {
        let arguments = text_of(function.arguments).unwrap_or_default();
        step.call(None, id, function.name.unwrap_or_default(), arguments)?;
    }
    Ok(())
}
