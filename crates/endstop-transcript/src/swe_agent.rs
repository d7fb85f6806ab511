//! SWE-agent trajectories (`<instance>.traj`): one JSON document per run.
//!
//! - An entry of `trajectory` is one model call; a file that has none is read from its `history`. The model's
//!   proposals that were not executed have entries too. If it has `attempts`, each is a run, and the chosen one,
//!   which the file repeats at its top, is not read again.
//! - In the text form the tool is the first word of `action` and its arguments are the rest; in the
//!   function-calling form they are those of the function, which only `history` tells.
//! - An action that left neither a result nor a state was blocked or no valid shell: one refused call. An
//!   entry without an action is a response that asked for nothing.
//! - The entry with which the harness closes a run (`Exit due to cost limit`) is not a model call.
//! - Tokens and money are recorded for the run as a whole and not for its calls, and a submission may be wrong, so
//!   there is no outcome. Failures of commands are not recorded either.
//!
//! More than 250 lines because it has a text form and function calls, a history with what the steps leave out, and
//! several attempts in one file.

mod history;

use std::cell::Cell;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::history::{Functions, HISTORY, HistoryItem, item_of};
use super::builder::RunBuilder;
use super::document::{Element, Wanted, each_element};
use super::head::Keys;
use super::reading::Reading;
use super::step::{Full, ModelResponse, Step};
use super::text::{Text, text_of};
use super::warning::Warnings;
use super::{Head, RunSink};

/// The warning about an entry that cannot be read.
const WRONG: &str = "an entry is not of this format";

/// How the words begin with which the harness, not the model, ends a run.
const CLOSING_WORDS: [&str; 2] = ["Exit due to ", "Exiting due to "];

/// How the actions begin with which old versions ended a run.
const CLOSING_ACTION: &str = "exit_";

/// Names in place of a model's if no model or a person answered.
const NO_MODELS: [&str; 4] = ["replay", "human", "human_thought", "instant_empty_submit"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.object() else { return false };
    let mentions = |keys: &[&str]| keys.iter().all(|key| head.mentions(&format!("\"{key}\"")));
    has_entries(keys) && mentions(&["action", "observation", "thought"])
        || is_history(keys) && mentions(&["role", "agent", "message_type"])
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let (mut model, mut attempts) = (None, 0u64);
    let first_look = Warnings::default();
    let wanted = Wanted { list: &["attempts"], beside: &["replay_config"] };
    each_element(reading.part, wanted, &first_look, &mut |element| match element {
        Element::Item(attempt) => {
            let id = format!("{}/{attempts}", reading.part.stem());
            attempts += 1;
            let attempt = reading.telling(&first_look).parse::<Attempt<'_>>(attempt, WRONG);
            if let Some(attempt) = attempt {
                let model = attempt.replay_config.and_then(model_of);
                let lists =
                    Lists { attempt: Some(attempt), ..Lists::of(reading.telling(&first_look)) };
                read_run(&lists, Some(id), model, sink);
            }
        }
        Element::Beside(_, config) => model = model_of(config),
    });
    if attempts == 0 {
        read_run(&Lists::of(reading), None, model, sink);
    }
    reading.warnings.join(first_look);
}

/// Attempts come first, and may fill the head.
fn has_entries(keys: &Keys) -> bool {
    keys.have(&["trajectory"]) || keys.have(&["attempts"])
}

/// Others keep a `history` next to the name of the task.
fn is_history(keys: &Keys) -> bool {
    keys.have(&["history"]) && !keys.have(&["instance_id"])
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Entry<'a> {
    action: Option<Text<'a>>,
    observation: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    thought: Option<&'a RawValue>,
    state: Option<&'a RawValue>,
    execution_time: Option<f64>,
}

/// A model call, whichever list it is from.
#[derive(Default)]
struct Turn {
    words: String,
    action: String,
    /// The function's name and arguments.
    function: Option<(String, String)>,
    result: Option<String>,
    is_refused: bool,
    is_closing: bool,
}

/// The lists that a run is read from: those of the file, or of an attempt in it.
struct Lists<'r> {
    reading: Reading<'r>,
    attempt: Option<Attempt<'r>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Attempt<'a> {
    trajectory: Option<Vec<&'a RawValue>>,
    history: Option<Vec<&'a RawValue>>,
    replay_config: Option<&'a RawValue>,
}

impl<'r> Lists<'r> {
    const fn of(reading: Reading<'r>) -> Self {
        Self { reading, attempt: None }
    }

    /// Hands over the elements of the list under this key.
    fn each_telling(&self, warnings: &Warnings, key: &str, take: &mut dyn FnMut(&RawValue)) {
        let Some(attempt) = &self.attempt else {
            let wanted = Wanted { list: &[key], beside: &[] };
            return each_element(self.reading.part, wanted, warnings, &mut |element| {
                if let Element::Item(item) = element {
                    take(item);
                }
            });
        };
        let list = if key == HISTORY { &attempt.history } else { &attempt.trajectory };
        list.iter().flatten().for_each(|item| take(item));
    }
}

fn read_run(lists: &Lists<'_>, id: Option<String>, model: Option<String>, sink: &mut dyn RunSink) {
    let reading = lists.reading;
    let mut run = RunBuilder::new(reading, sink).named(id).with_model(model);
    let has_begun = Cell::new(false);
    let mut play = |turn: Turn| {
        if !has_begun.replace(true) {
            // Every run begins with its task; whatever else the environment says is a result.
            run.user(None);
        }
        if !turn.is_closing {
            let reply = ModelResponse::of_model(run.model());
            let added = turn.fill(run.reply(None, reply));
            run.check(added);
        }
    };
    let mut functions = Functions::of(lists);
    lists.each_telling(reading.warnings, "trajectory", &mut |item| {
        if let Some(mut turn) = reading.parse(item, WRONG).map(Turn::of_entry) {
            functions.name(&mut turn);
            play(turn);
        }
    });
    reading.warnings.join(functions.into_warnings());
    if !has_begun.get() {
        read_history(lists, &mut play);
    }
    run.end();
}

/// Reads a run that has only a history.
fn read_history(lists: &Lists<'_>, play: &mut dyn FnMut(Turn)) {
    let (again, mut open) = (Warnings::default(), None::<Turn>);
    let reading = lists.reading.telling(&again);
    lists.each_telling(&again, HISTORY, &mut |item| match (item_of(item, reading), &mut open) {
        (Some(HistoryItem::Turn(turn)), _) => {
            open.replace(turn).into_iter().for_each(&mut *play);
        }
        (Some(HistoryItem::Result(result)), Some(turn)) => {
            turn.result.get_or_insert(result);
        }
        _ => {}
    });
    open.into_iter().for_each(play);
    lists.reading.warnings.join(again);
}

impl Turn {
    fn of_entry(entry: Entry<'_>) -> Self {
        let words = text_of(entry.response).unwrap_or_default();
        let thought = text_of(entry.thought).unwrap_or_default();
        let action = entry.action.unwrap_or_default();
        let result = text_of(entry.observation).unwrap_or_default();
        let has_no_state = entry.state.is_some_and(|state| is_empty_object(state.get()));
        let took_no_time = entry.execution_time.is_some_and(|seconds| seconds <= 0.0);
        let mut turn = Self {
            is_refused: result.is_empty() && has_no_state && took_no_time,
            is_closing: false,
            function: None,
            result: Some(result),
            action: action.trim().to_owned(),
            words,
        };
        let is_harness = CLOSING_WORDS.iter().any(|words| thought.starts_with(words));
        if is_harness && (turn.action.is_empty() || turn.action.starts_with(CLOSING_ACTION)) {
            // The model's last response may be recorded with it.
            turn.is_closing = turn.words.is_empty() || turn.words == thought;
            turn.action.clear();
        }
        turn
    }

    fn fill(self, step: &mut Step) -> Result<(), Full> {
        let (tool, arguments) = match self.function {
            Some(function) => function,
            None => split_action(&self.action),
        };
        step.say(None, self.words)?;
        if tool.is_empty() {
            return Ok(());
        }
        if self.is_refused {
            return step.refuse(None, tool);
        }
        step.call(None, None::<String>, tool, arguments)?;
        if let Some(result) = self.result {
            step.next_result(None, result, false)?;
        }
        Ok(())
    }
}

fn is_empty_object(json: &str) -> bool {
    let inside = json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

/// The first word, and what is after it.
fn split_action(action: &str) -> (String, String) {
    let (tool, rest) = action.split_once(char::is_whitespace).unwrap_or((action, ""));
    (tool.to_owned(), rest.trim_start().to_owned())
}

/// The model that the run was set up with. Newer versions write their settings as a text of JSON.
fn model_of(config: &RawValue) -> Option<String> {
    let mut config: Value = serde_json::from_str(config.get()).ok()?;
    if let Value::String(text) = &config {
        config = serde_json::from_str(text).ok()?;
    }
    let name = config.pointer("/agent/model/name")?.as_str()?;
    (!name.is_empty() && !NO_MODELS.contains(&name)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
