//! OpenHands: lines of an evaluation's output, one run a line, and exported trajectories, a list of events
//! or an object with one under `history`.
//!
//! - Actions of the agent with the same `model_response` are one model call; each with a call of its own.
//!   Actions without one, as in old files and for plain messages, are a call each.
//! - A call's usage is that of its response, priced by the table. Old files have only `metrics.costs`, what
//!   OpenHands computed for each call: it counts where there are as many as there are calls, and no usage.
//! - Messages of source `user` are turns of the user; states, recalls and other notes are none. In old files
//!   without sources the user speaks first and after each message of the agent.
//! - A tool failed if its observation is an `error`, or its exit code is above 0, or without one `success` is
//!   false. An action that the user rejected is refused. `finish` has no observation: it is done when said.
//! - An error that is of no action is a reply that could not be used: a failed attempt of the next step.
//! - Between the action `delegate` and its observation it is a sub-agent that acts.
//! - A run succeeded if its report says `resolved`, or its test result is or says so in one word. What a
//!   model thinks of it (`success` of the resolver) is not read.
//! - Times have no zone; they are taken for UTC.

mod gather;
mod record;

use endstop_core::Event;
use endstop_core::units::Money;
use serde_json::Value;
use serde_json::value::RawValue;

use self::gather::Gather;
use self::record::Line;
use super::document::{Element, Wanted, each_element, holds_several, look_for};
use super::lines::JsonLines;
use super::part::Part;
use super::player::Player;
use super::warning::{Warning, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunFooter, RunHeader, RunSink, Source, Supplies};

/// How many lines tell whether a file is one of lines.
const SAMPLE_LINES: usize = 2;

/// The words by which benchmarks name their verdict.
const VERDICTS: [&str; 4] = ["resolved", "correct", "score", "result"];

/// The format.
pub(super) struct OpenHands;

impl Format for OpenHands {
    fn id(&self) -> &'static str {
        "openhands"
    }

    fn describe(&self) -> &'static str {
        "OpenHands evaluations, `output.jsonl`, and exported trajectories"
    }

    fn kept(&self) -> &'static str {
        "`evaluation_outputs/` of an evaluation; exports where you save them"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let Some(keys) = head.document() else { return false };
        if keys.in_list {
            let is_event = keys.have(&["action"]) || keys.have(&["observation"]);
            return is_event && keys.have(&["source", "timestamp"]);
        }
        // SWE-agent has a `history`, too, beside its `trajectory`.
        if keys.have(&["trajectory"]) {
            return false;
        }
        let has_task = keys.have(&["instance_id"]) || keys.have(&["issue"]);
        let lines =
            [["instruction", "metadata"], ["instruction", "history"], ["history", "metrics"]];
        let is_line = has_task && lines.iter().any(|names| keys.have(names));
        let has_events = head.mentions("\"action\"") && head.mentions("\"source\"");
        is_line || (keys.have(&["history"]) && has_events)
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            finish: true,
            subagents: true,
            ..Supplies::default()
        }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        match is_lines(source.main) {
            true => read_lines(source, sink, &mut warnings),
            false => read_export(source, sink, &mut warnings),
        }
        warnings.send(sink);
    }
}

/// Whether the file is more than one document; where the first is damaged, whether one of the first lines is
/// a whole run.
fn is_lines(part: &Part) -> bool {
    holds_several(part).unwrap_or_else(|| begins_with_line(part))
}

fn begins_with_line(part: &Part) -> bool {
    // The reading itself gives the warnings.
    let mut unheard = Warnings::default();
    let mut lines = JsonLines::open(part, &mut unheard);
    for _ in 0..SAMPLE_LINES {
        if !lines.advance(&mut unheard) {
            return false;
        }
        if lines.parse::<Line<'_>>(&mut unheard).is_some_and(|line| line.history.is_some()) {
            return true;
        }
    }
    false
}

/// Takes an event.
type TakeEvent<'t> = dyn FnMut(&RawValue, &mut Warnings) + 't;

/// What is known of a run beside its events.
struct Facts {
    name: Option<String>,
    costs: Vec<Money>,
    outcome: Option<bool>,
    line: Option<u64>,
}

impl Facts {
    fn of(run: &Line<'_>, line: Option<u64>) -> Self {
        Self { name: run.name(), costs: run.costs(), outcome: outcome_of(run), line }
    }
}

fn read_lines(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let mut lines = JsonLines::open(source.main, warnings);
    while lines.advance(warnings) {
        let Some(line) = lines.parse::<Line<'_>>(warnings) else { continue };
        let each = |take: &mut TakeEvent<'_>, warnings: &mut Warnings| {
            line.history.iter().flatten().for_each(|event| take(event, warnings));
        };
        let facts = Facts::of(&line, Some(lines.number()));
        read_run(facts, &each, source, sink, warnings);
    }
}

fn read_export(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let mut beside: Vec<(String, Box<RawValue>)> = Vec::new();
    look_for(source.main, &Line::FIELDS, &mut |key, value| {
        beside.push((key.to_owned(), value.to_owned()));
    });
    let facts = Facts::of(&Line::of(&beside), None);
    drop(beside);
    let each = |take: &mut TakeEvent<'_>, warnings: &mut Warnings| {
        let wanted = Wanted { list: &["history"], beside: &[] };
        each_element(source.main, wanted, warnings, &mut |element, warnings| {
            if let Element::Item(event) = element {
                take(event, warnings);
            }
        });
    };
    read_run(facts, &each, source, sink, warnings);
}

/// Plays a run. Whether its costs count is known behind its last event: they are counted before.
fn read_run(
    facts: Facts,
    each: &dyn Fn(&mut TakeEvent<'_>, &mut Warnings),
    source: &Source<'_>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    let id = facts.name.as_deref().unwrap_or(source.main.stem());
    let header = RunHeader { id, format: OpenHands.id(), file: source.main.name(), model: None };
    let mut costs = facts.costs;
    if !costs.is_empty() {
        let mut unheard = Warnings::default();
        let mut deaf = Deaf;
        let mut gather =
            Gather::new(source, facts.line, Vec::new(), Player::new(&mut deaf, header));
        each(&mut |event, warnings| gather.take(event, warnings), &mut unheard);
        if !gather.finish(Closing::default(), &mut unheard).takes(costs.len()) {
            costs = Vec::new();
        }
    }
    let mut gather = Gather::new(source, facts.line, costs, Player::new(sink, header));
    each(&mut |event, warnings| gather.take(event, warnings), warnings);
    let closing = Closing { outcome: facts.outcome, has_money: true, ..Closing::default() };
    gather.finish(closing, warnings);
}

/// Takes a run that is only counted.
struct Deaf;

impl RunSink for Deaf {
    fn begin(&mut self, _: &RunHeader<'_>) {}
    fn event(&mut self, _: &Event<'_>) {}
    fn end(&mut self, _: &RunFooter<'_>) {}
    fn warn(&mut self, _: Warning) {}
}

fn outcome_of(line: &Line<'_>) -> Option<bool> {
    let read = |raw: Option<&RawValue>| serde_json::from_str::<Value>(raw?.get()).ok();
    let (report, result) = (read(line.report), read(line.test_result));
    let resolved = |value: &Value| value.get("resolved")?.as_bool();
    let verdict = |result: &Value| {
        let said = || VERDICTS.iter().find_map(|word| result.get(word)?.as_bool());
        result.get("report").and_then(resolved).or_else(|| result.as_bool()).or_else(said)
    };
    report.as_ref().and_then(resolved).or_else(|| result.as_ref().and_then(verdict))
}

#[cfg(test)]
#[path = "openhands_tests.rs"]
mod tests;
