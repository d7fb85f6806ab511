//! SWE-agent trajectories (`<instance>.traj`): one JSON document a run.
//!
//! - An entry of `trajectory` is one model call; a file that has none is read from its `history`. The
//!   model's proposals that were not executed have entries too. Where there are `attempts`, each is a run,
//!   and the chosen one, which the file repeats at its top, is not read again.
//! - In the text form the tool is the first word of `action` and its arguments are the rest; in the
//!   function-calling form they are those of the function, which only `history` tells.
//! - An action that left neither a result nor a state was blocked or no valid shell: one refused call. An
//!   entry without an action is a reply that asked for nothing.
//! - The entry with which the harness closes a run (`Exit due to cost limit`) is no model call.
//! - Tokens and money are told for the run as a whole and not for its calls, and what was submitted may be
//!   wrong, so there is no outcome. Whether a command failed is not told either.

mod history;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::history::{Functions, HISTORY, Told, told_by};
use super::act::{Act, Full, Reply, Step};
use super::document::{Element, Wanted, each_element};
use super::head::Keys;
use super::part::Part;
use super::player::Player;
use super::text::text_of;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};

/// How the words begin with which the harness, not the model, ends a run.
const CLOSING_WORDS: [&str; 2] = ["Exit due to ", "Exiting due to "];

/// How the actions begin with which old versions ended a run.
const CLOSING_ACTION: &str = "exit_";

/// Names in place of a model's where nobody or a person was asked.
const NO_MODELS: [&str; 4] = ["replay", "human", "human_thought", "instant_empty_submit"];

/// The format.
pub(super) struct SweAgent;

impl Format for SweAgent {
    fn id(&self) -> &'static str {
        "swe-agent"
    }

    fn describe(&self) -> &'static str {
        "SWE-agent trajectories, `<instance>.traj`"
    }

    fn kept(&self) -> &'static str {
        "`trajectories/` of the checkout, by user and run"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let Some(keys) = head.document().filter(|keys| !keys.in_list) else { return false };
        let mentions = |keys: &[&str]| keys.iter().all(|key| head.mentions(&format!("\"{key}\"")));
        has_entries(keys) && mentions(&["action", "observation", "thought"])
            || is_history(keys) && mentions(&["role", "agent", "message_type"])
    }

    fn supplies(&self) -> Supplies {
        Supplies::default()
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        read_file(source.main, sink, &mut warnings);
        warnings.send(sink);
    }
}

/// Attempts come first, and may fill the head.
fn has_entries(keys: &Keys) -> bool {
    keys.have(&["trajectory"]) || keys.have(&["attempts"])
}

/// Others keep a `history` beside the name of the task.
fn is_history(keys: &Keys) -> bool {
    keys.have(&["history"]) && !keys.have(&["instance_id"])
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    #[serde(borrow)]
    observation: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    thought: Option<&'a RawValue>,
    #[serde(borrow)]
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
    part: &'r Part,
    attempt: Option<Attempt<'r>>,
}

#[derive(Deserialize)]
struct Attempt<'a> {
    #[serde(borrow)]
    trajectory: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    history: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    replay_config: Option<&'a RawValue>,
}

impl Lists<'_> {
    /// Hands over what the list under this key holds.
    fn each(
        &self,
        key: &str,
        warnings: &mut Warnings,
        take: &mut dyn FnMut(&RawValue, &mut Warnings),
    ) {
        let Some(attempt) = &self.attempt else {
            let wanted = Wanted { list: &[key], beside: &[] };
            return each_element(self.part, wanted, warnings, &mut |element, warnings| {
                if let Element::Item(item) = element {
                    take(item, warnings);
                }
            });
        };
        let list = if key == HISTORY { &attempt.history } else { &attempt.trajectory };
        list.iter().flatten().for_each(|item| take(item, warnings));
    }
}

fn read_file(part: &Part, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let (mut model, mut attempts) = (None, 0u64);
    let mut first_look = Warnings::default();
    let wanted = Wanted { list: &["attempts"], beside: &["replay_config"] };
    each_element(part, wanted, &mut first_look, &mut |element, warnings| match element {
        Element::Item(attempt) => {
            let id = format!("{}/{attempts}", part.stem());
            attempts += 1;
            if let Some(attempt) = parse::<Attempt<'_>>(attempt, part, warnings) {
                let model = attempt.replay_config.and_then(model_of);
                let lists = Lists { part, attempt: Some(attempt) };
                read_run(&lists, &id, model.as_deref(), sink, warnings);
            }
        }
        Element::Beside(_, config) => model = model_of(config),
    });
    if attempts == 0 {
        let lists = Lists { part, attempt: None };
        read_run(&lists, part.stem(), model.as_deref(), sink, warnings);
    }
    warnings.join(first_look);
}

fn read_run(
    lists: &Lists<'_>,
    id: &str,
    model: Option<&str>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    let part = lists.part;
    let header = RunHeader { id, format: SweAgent.id(), file: part.name(), model };
    let mut run = Run { part, model, player: Player::new(sink, header), has_begun: false };
    let mut functions = Functions::of(lists);
    lists.each("trajectory", warnings, &mut |item, warnings| {
        if let Some(mut turn) = parse(item, part, warnings).map(Turn::of_entry) {
            functions.name(&mut turn);
            run.play(turn, warnings);
        }
    });
    warnings.join(functions.into_warnings());
    if !run.has_begun {
        let (mut again, mut open) = (Warnings::default(), None::<Turn>);
        lists.each(HISTORY, &mut again, &mut |item, warnings| match (
            told_by(item, part, warnings),
            &mut open,
        ) {
            (Some(Told::Turn(turn)), _) => {
                open.replace(turn).into_iter().for_each(|turn| run.play(turn, warnings));
            }
            (Some(Told::Result(result)), Some(turn)) => {
                turn.result.get_or_insert(result);
            }
            _ => {}
        });
        open.into_iter().for_each(|turn| run.play(turn, &mut again));
        warnings.join(again);
    }
    run.player.end(Closing::default());
}

fn parse<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    part: &Part,
    warnings: &mut Warnings,
) -> Option<T> {
    let tell = |error: serde_json::Error| {
        let message = || format!("an entry is not of this format: {error}");
        warnings.add(WarningKind::Malformed, part.name(), None, message);
    };
    serde_json::from_str(raw.get()).map_err(tell).ok()
}

/// A run, played while it is read.
struct Run<'s, 'h> {
    part: &'h Part,
    model: Option<&'h str>,
    player: Player<'s, 'h>,
    has_begun: bool,
}

impl Run<'_, '_> {
    fn play(&mut self, turn: Turn, warnings: &mut Warnings) {
        if !self.has_begun {
            // Every run begins with its task; whatever else the environment says is a result.
            self.player.act(Act::User(None));
            self.has_begun = true;
        }
        if turn.is_closing {
            return;
        }
        let mut step = Step::begin(None);
        step.answer(None, Reply { model: self.model.map(str::to_owned), ..Reply::default() });
        if turn.fill(&mut step) == Err(Full) {
            warnings.add(WarningKind::TooLarge, self.part.name(), None, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
        self.player.act(Act::Step(Box::new(step)));
    }
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
            // The model's last reply may be told with it.
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
        if !self.words.is_empty() {
            step.say(None, self.words)?;
        }
        if tool.is_empty() {
            return Ok(());
        }
        if self.is_refused {
            return step.refuse(None, tool);
        }
        step.call(None, None, tool, arguments)?;
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
#[path = "swe_agent_tests.rs"]
mod tests;
