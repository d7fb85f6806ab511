//! ATIF, the Agent Trajectory Interchange Format of Harbor (`ATIF-v1.0` to `-v1.8`): one JSON document a run.
//!
//! - A step of the source `agent` is one model call; one with `llm_call_count` 0 is a dispatch without a
//!   model, whose tool calls belong to the step before. Steps of copied context were counted where they
//!   were made.
//! - `prompt_tokens` holds the cached ones. `cost_usd` is the truth where it is there; the price table
//!   computes the rest. `final_metrics` are sums, and not read.
//! - Embedded sub-agents are played where an observation refers to them, others at the end. Files that are
//!   referred to by path are runs of their own.
//! - The format has no place for failed attempts, refused calls, outcomes and finish reasons. `endstop
//!   convert` keeps them under `extra.endstop`, and this reader takes them from there; `extra.is_error` of a
//!   result and `extra.finish_reason` of a step are read from anyone.

mod step;

use std::collections::BTreeMap;

use endstop_core::event::Source as Origin;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::act::{Act, Beat, CostSource, Step, Time};
use super::document::{Element, Wanted, each_element, look_for};
use super::part::Part;
use super::warning::{WarningKind, Warnings};
use super::writer::{Closing, RunWriter};
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};
use step::{Context, Kind, Record};

/// How deep embedded sub-agents may nest.
const MAX_NESTING: u32 = 16;

/// How many steps are held until one tells a time.
const MAX_HELD: usize = 16;

/// The format.
pub(super) struct Atif;

impl Format for Atif {
    fn id(&self) -> &'static str {
        "atif"
    }

    fn describe(&self) -> &'static str {
        "ATIF trajectories (Harbor), `trajectory.json`"
    }

    fn kept(&self) -> &'static str {
        "`jobs/<job>/<trial>/agent/trajectory.json`"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let keys = head.document().filter(|keys| !keys.in_list);
        let has_place =
            keys.is_some_and(|keys| keys.have(&["schema_version"]) || keys.have(&["steps"]));
        has_place && head.mentions("\"ATIF-v")
    }

    fn supplies(&self) -> Supplies {
        Supplies { tokens: true, money: true, time: true, subagents: true, ..Supplies::default() }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        read_run(source, sink, &mut warnings);
        warnings.send(sink);
    }
}

/// What stands beside the steps.
#[derive(Debug, Default)]
struct Beside {
    session: Option<String>,
    trajectory: Option<String>,
    model: Option<String>,
    extra: Extra,
    /// Embedded trajectories by id, those without one by their place.
    children: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
struct Agent {
    model_name: Option<String>,
}

/// What `endstop convert` keeps of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Extra {
    endstop: Kept,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kept {
    outcome: Option<bool>,
    cost_is: Option<String>,
    depth: Option<u32>,
}

/// An embedded trajectory.
#[derive(Deserialize)]
struct Embedded<'a> {
    trajectory_id: Option<String>,
    session_id: Option<String>,
    agent: Option<Agent>,
    #[serde(borrow)]
    extra: Option<&'a RawValue>,
    #[serde(borrow, default)]
    steps: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    subagent_trajectories: Vec<&'a RawValue>,
}

impl Beside {
    fn set(&mut self, key: &str, value: &RawValue) {
        match key {
            "session_id" => self.session = parse(value),
            "trajectory_id" => self.trajectory = parse(value),
            "agent" => self.model = parse(value).and_then(|agent: Agent| agent.model_name),
            "extra" => self.extra = parse(value).unwrap_or_default(),
            _ => self.children = by_id(&parse::<Vec<&RawValue>>(value).unwrap_or_default()),
        }
    }
}

/// The value, where it is what the format says. What matters of it is checked where it is used.
fn parse<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

fn by_id(children: &[&RawValue]) -> BTreeMap<String, Box<RawValue>> {
    let named = children.iter().enumerate().map(|(place, child)| {
        let id = parse::<Embedded<'_>>(child).and_then(|c| c.trajectory_id.or(c.session_id));
        (id.unwrap_or_else(|| format!("#{place:06}")), (*child).to_owned())
    });
    named.collect()
}

fn read_run(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let part = source.main;
    let mut beside = Beside::default();
    let keys = ["session_id", "trajectory_id", "agent", "extra", "subagent_trajectories"];
    look_for(part, &keys, &mut |key, value| beside.set(key, value));
    let name = beside.session.as_deref().or(beside.trajectory.as_deref());
    let header = RunHeader {
        id: name.filter(|name| !name.is_empty()).unwrap_or(part.stem()),
        format: Atif.id(),
        file: part.name(),
        model: beside.model.as_deref(),
    };
    let kept = &beside.extra.endstop;
    let closing = Closing {
        outcome: kept.outcome,
        has_money: kept.cost_is.as_deref() != Some("unknown"),
        is_lower_bound: kept.cost_is.as_deref() == Some("lower_bound"),
    };
    let mut run = Run::new(source, sink, header, &beside);
    let wanted = Wanted { list: &["steps"], beside: &[] };
    each_element(part, wanted, warnings, &mut |element, warnings| {
        if let Element::Item(step) = element {
            run.step(step, warnings);
        }
    });
    run.end(closing, warnings);
}

/// A run, or a sub-agent, while it is read.
struct Run<'s, 'w> {
    part: &'s Part,
    context: Context<'s>,
    state: State<'w, 's>,
    children: BTreeMap<String, Box<RawValue>>,
    open: Option<Opened>,
}

/// A step that may still get tool calls.
struct Opened {
    step: Step,
    /// Sub-agents that its observation refers to.
    refers: Vec<String>,
}

enum State<'w, 'h> {
    Waiting(&'w mut dyn RunSink, RunHeader<'h>, Vec<(Act, Vec<String>)>),
    Playing(RunWriter<'w>),
    /// Only while one of the others becomes the next.
    Between,
}

impl<'s, 'w> Run<'s, 'w> {
    fn new(
        source: &Source<'s>,
        sink: &'w mut dyn RunSink,
        header: RunHeader<'s>,
        beside: &'s Beside,
    ) -> Self {
        Self {
            part: source.main,
            context: Context {
                part: source.main,
                prices: source.prices,
                model: beside.model.as_deref(),
                source: source_of(&beside.extra),
            },
            state: State::Waiting(sink, header, Vec::new()),
            children: beside.children.clone(),
            open: None,
        }
    }

    fn step(&mut self, raw: &RawValue, warnings: &mut Warnings) {
        let record = match serde_json::from_str::<Record<'_>>(raw.get()) {
            Ok(record) => record,
            Err(error) => {
                let message = || format!("not a step: {error}");
                return warnings.add(WarningKind::Malformed, self.part.name(), None, message);
            }
        };
        if record.is_copied_context == Some(true) {
            return;
        }
        let time = record.time();
        match record.kind() {
            Kind::User => {
                self.close(warnings);
                self.act(Act::User(time), Vec::new(), warnings);
            }
            Kind::Agent => {
                self.close(warnings);
                let refers = record.refers();
                let step = step::read(record, &self.context, warnings);
                self.open = Some(Opened { step, refers });
            }
            Kind::Dispatch => {
                if let Some(open) = &mut self.open {
                    open.refers.extend(record.refers());
                    step::dispatch(&mut open.step, record, &self.context, warnings);
                }
            }
            Kind::Other => {
                let refers = record.refers();
                if !refers.is_empty() {
                    self.close(warnings);
                    self.begin(time, warnings);
                    self.children(&refers, warnings);
                }
            }
        }
    }

    fn close(&mut self, warnings: &mut Warnings) {
        if let Some(Opened { step, refers }) = self.open.take() {
            self.act(Act::Step(Box::new(step)), refers, warnings);
        }
    }

    fn act(&mut self, act: Act, refers: Vec<String>, warnings: &mut Warnings) {
        if let State::Waiting(_, _, held) = &mut self.state {
            let time = act.first_time();
            held.push((act, refers));
            if time.is_some() || held.len() >= MAX_HELD {
                self.begin(time, warnings);
            }
            return;
        }
        self.play(&act, &refers, warnings);
    }

    fn begin(&mut self, first: Time, warnings: &mut Warnings) {
        match std::mem::replace(&mut self.state, State::Between) {
            State::Waiting(sink, header, held) => {
                self.state = State::Playing(RunWriter::begin(sink, &header, first));
                for (act, refers) in held {
                    self.play(&act, &refers, warnings);
                }
            }
            other => self.state = other,
        }
    }

    /// Plays an act; the sub-agents it refers to run before its first tool result, or its end.
    fn play(&mut self, act: &Act, refers: &[String], warnings: &mut Warnings) {
        let mut refers = Some(refers);
        for (time, beat) in act.beats() {
            if matches!(beat, Beat::ToolEnd(_) | Beat::StepEnd)
                && let Some(refers) = refers.take()
            {
                self.children(refers, warnings);
            }
            if let State::Playing(writer) = &mut self.state {
                writer.beat(Origin::Own, act, time, beat);
            }
        }
    }

    fn children(&mut self, refers: &[String], warnings: &mut Warnings) {
        for id in refers {
            let Some(child) = self.children.remove(id) else { continue };
            if let State::Playing(writer) = &mut self.state {
                play_child(&child, 1, &self.context, writer, warnings);
            }
        }
    }

    fn end(mut self, closing: Closing, warnings: &mut Warnings) {
        self.close(warnings);
        if matches!(&self.state, State::Waiting(_, _, held) if !held.is_empty()) {
            self.begin(None, warnings);
        }
        let rest: Vec<String> = self.children.keys().cloned().collect();
        self.children(&rest, warnings);
        if let State::Playing(writer) = self.state {
            writer.end(closing);
        }
    }
}

/// Where the costs of a run come from, as far as it says so.
fn source_of(extra: &Extra) -> CostSource {
    match extra.endstop.cost_is.as_deref() {
        None | Some("billed") => CostSource::Billed,
        Some(_) => CostSource::Computed,
    }
}

fn play_child(
    raw: &RawValue,
    depth: u32,
    context: &Context<'_>,
    writer: &mut RunWriter<'_>,
    warnings: &mut Warnings,
) {
    let child: Embedded<'_> = match serde_json::from_str(raw.get()) {
        Ok(child) if depth <= MAX_NESTING => child,
        Ok(_) => {
            let message = || format!("sub-agents nest deeper than {MAX_NESTING}; skipped");
            return warnings.add(WarningKind::TooLarge, context.part.name(), None, message);
        }
        Err(error) => return super::document::warn_of(&error, context.part, warnings),
    };
    let model = child.agent.and_then(|agent| agent.model_name);
    let extra: Extra = child.extra.and_then(parse).unwrap_or_default();
    let kept = extra.endstop;
    let context = Context { model: model.as_deref(), ..*context };
    let records: Vec<Record<'_>> = child.steps.iter().filter_map(|step| parse(step)).collect();
    if records.len() < child.steps.len() {
        let message = || "a step of a sub-agent is not of this format".to_owned();
        warnings.add(WarningKind::Malformed, context.part.name(), None, message);
    }
    let first = records.iter().find_map(Record::time);
    let begin = Act::ChildBeginAt(first, kept.depth.unwrap_or(depth));
    writer.beat(Origin::Own, &begin, first, Beat::ChildBegin);
    for record in records.into_iter().filter(|record| record.is_copied_context != Some(true)) {
        let act = match record.kind() {
            Kind::User => Act::User(record.time()),
            Kind::Agent => Act::Step(Box::new(step::read(record, &context, warnings))),
            Kind::Dispatch | Kind::Other => continue,
        };
        for (time, beat) in act.beats() {
            writer.beat(Origin::Descendant, &act, time, beat);
        }
    }
    for grandchild in child.subagent_trajectories {
        play_child(grandchild, depth + 1, &context, writer, warnings);
    }
    writer.beat(Origin::Own, &Act::ChildEnd(None), None, Beat::ChildEnd);
}
