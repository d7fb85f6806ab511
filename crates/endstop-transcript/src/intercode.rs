//! InterCode results: one JSON object whose values are the tasks, each of them a run.
//!
//! An action is one model call that calls the environment, which is named without its `ic_`; the
//! observation is its result. A call that was not a valid action failed. There is no usage and no time. A
//! run succeeded if its best reward is 1.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::document::{Element, each_member};
use super::reading::Reading;
use super::step::{Full, ModelResponse, Step};
use super::text::{Text, is_full_reward, name_of, text_of};
use super::{Head, RunSink};

/// How the names of the benchmark's environments begin.
const PREFIX: &str = "ic_";

/// The environment if the file names none.
const ENVIRONMENT: &str = "environment";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    head.mentions("\"turn_history\"")
        && head.object().is_some()
        && first_value(head.bytes()).is_some_and(|value| {
            Head::new(value, b"").document().is_some_and(|keys| keys.have(&["turn_history"]))
        })
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    each_member(reading.part, reading.warnings, &mut |element| {
        if let Element::Beside(key, task) = element {
            read_task(key, task, reading, sink);
        }
    });
}

/// The text after the first key of an object.
fn first_value(object: &[u8]) -> Option<&[u8]> {
    let object = object.strip_prefix(b"\xef\xbb\xbf").unwrap_or(object).trim_ascii_start();
    let key = object.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', key)?;
    let value = key.get(end + 1..)?.trim_ascii_start().strip_prefix(b":")?;
    Some(value.trim_ascii_start())
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct IntercodeTask<'a> {
    environment: Option<Text<'a>>,
    task_id: Option<Value>,
    turn_history: Turns<'a>,
    summary: Option<Summary>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Turns<'a> {
    actions: Vec<&'a RawValue>,
    /// One fewer than there are actions if the last response could not be read.
    #[serde(default)]
    observations: Vec<&'a RawValue>,
    #[serde(default)]
    rewards: Vec<Value>,
    #[serde(default)]
    valid_action: Vec<Value>,
}

#[derive(Deserialize)]
struct Summary {
    max_reward: Option<Value>,
}

/// Distinguishes a task from a key that a later version may put next to the tasks.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct IntercodeMark<'a> {
    turn_history: Option<&'a RawValue>,
}

fn read_task(key: &str, task: &RawValue, reading: Reading<'_>, sink: &mut dyn RunSink) {
    let is_task =
        serde_json::from_str(task.get()).is_ok_and(|m: IntercodeMark<'_>| m.turn_history.is_some());
    if !is_task {
        return;
    }
    let wrong = format_args!("task {key} is not of this format");
    let Some(task) = reading.parse::<IntercodeTask<'_>>(task, wrong) else { return };
    let name = name_of(task.task_id.as_ref());
    let id = format!("{}/{}", reading.part.stem(), name.as_deref().unwrap_or(key));
    let mut run = RunBuilder::new(reading, sink).named(Some(id));
    run.begin(None);
    run.user(None);
    let environment = task.environment.as_deref().unwrap_or(ENVIRONMENT);
    let tool = environment.strip_prefix(PREFIX).unwrap_or(environment);
    for (index, action) in task.turn_history.actions.iter().enumerate() {
        let step = run.reply(None, ModelResponse::default());
        let added = fill(step, tool, action, index, &task.turn_history);
        run.check(added);
    }
    run.outcome(outcome_of(&task));
    run.end();
}

fn fill(
    step: &mut Step,
    tool: &str,
    action: &RawValue,
    index: usize,
    turns: &Turns<'_>,
) -> Result<(), Full> {
    let action = text_of(Some(action)).unwrap_or_default();
    let Some(observation) = turns.observations.get(index) else {
        return step.refuse(None, tool);
    };
    step.say(None, &*action)?;
    step.call(None, None::<String>, tool, action)?;
    let is_invalid = turns.valid_action.get(index).and_then(Value::as_bool) == Some(false);
    let result = text_of(Some(observation)).unwrap_or_default();
    step.next_result(None, result, is_invalid)?;
    Ok(())
}

fn outcome_of(task: &IntercodeTask<'_>) -> Option<bool> {
    let stated = task.summary.as_ref().and_then(|summary| summary.max_reward.as_ref()?.as_f64());
    let mut rewards = task.turn_history.rewards.iter().filter_map(Value::as_f64);
    let best = stated.or_else(|| rewards.by_ref().reduce(f64::max))?;
    Some(is_full_reward(best))
}

#[cfg(test)]
mod tests;
