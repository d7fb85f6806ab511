//! ATIF, the Agent Trajectory Interchange Format of Harbor (`ATIF-v1.0` to `-v1.8`): one JSON document per run.
//!
//! - A step of the source `agent` is one model call; one with `llm_call_count` 0 is a dispatch without a
//!   model, whose tool calls belong to the step before. Steps of copied context were counted where they
//!   were made.
//! - `prompt_tokens` includes the cached ones. `cost_usd` is authoritative if present; the price table computes the
//!   rest. `final_metrics` are sums, and not read.
//! - Embedded sub-agents are played where an observation refers to them, others at the end. Files that are referred
//!   to by path are separate runs.
//! - The format has no place for failed attempts, refused calls, outcomes and finish reasons. `endstop
//!   convert` keeps them under `extra.endstop`, and this reader takes them from there; `extra.is_error` of a
//!   result and `extra.finish_reason` of a step are read from anyone.
//!
//! More than 250 lines because it has eight versions, embedded sub-agents, and what `convert` keeps under `extra`.

pub(crate) mod record;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::record::{AtifAgent, RunExtra, lenient};
use self::step::{AtifStep, StepContext, StepKind};
use super::builder::RunBuilder;
use super::document::warn_of;
use super::limits::MAX_NESTING;
use super::reading::Reading;
use super::step::CostSource;
use super::time::Time;
use super::timeline::{AgentTimeline, TimelineEntry};
use super::warning::WarningKind;
use super::{CostIs, Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let keys = head.object();
    let has_place =
        keys.is_some_and(|keys| keys.have(&["schema_version"]) || keys.have(&["steps"]));
    has_place && head.mentions("\"ATIF-v")
}

/// The parts outside the steps.
#[derive(Debug, Default)]
struct Beside {
    session: Option<String>,
    trajectory: Option<String>,
    model: Option<String>,
    extra: RunExtra,
    /// Embedded trajectories by id, those without one by their place.
    children: BTreeMap<String, Box<RawValue>>,
}

/// An embedded trajectory.
#[derive(Deserialize)]
struct Embedded<'a> {
    trajectory_id: Option<String>,
    session_id: Option<String>,
    agent: Option<AtifAgent>,
    #[serde(default, deserialize_with = "lenient")]
    extra: Option<RunExtra>,
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
            "agent" => self.model = parse(value).and_then(|agent: AtifAgent| agent.model_name),
            "extra" => self.extra = parse(value).unwrap_or_default(),
            _ => self.children = by_id(&parse::<Vec<&RawValue>>(value).unwrap_or_default()),
        }
    }
}

/// The value, if it has the form of the format. Its relevant parts are checked by the code that uses them.
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

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut beside = Beside::default();
    let keys = ["session_id", "trajectory_id", "agent", "extra", "subagent_trajectories"];
    reading.look_for(&keys, &mut |key, value| beside.set(key, value));
    let name = beside.session.or(beside.trajectory).filter(|name| !name.is_empty());
    let kept = &beside.extra.endstop;
    let mut run = RunBuilder::new(reading, sink).named(name).with_model(beside.model.clone());
    run.outcome(kept.outcome);
    let cost_is = CostIs::declared(kept.cost_is.as_deref());
    run.has_money(cost_is != Some(CostIs::Unknown));
    run.is_lower_bound(cost_is == Some(CostIs::LowerBound));
    let model = beside.model.as_deref();
    let context = StepContext { reading, model, source: source_of(&beside.extra) };
    let mut trajectory = Trajectory { run, context, children: beside.children };
    reading.each_item(&["steps"], &mut |step| trajectory.step(step));
    trajectory.end();
}

/// A run while it is read.
struct Trajectory<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    context: StepContext<'s>,
    children: BTreeMap<String, Box<RawValue>>,
}

impl Trajectory<'_, '_> {
    fn step(&mut self, raw: &RawValue) {
        let Some(record) = self.context.reading.parse::<AtifStep<'_>>(raw, "not a step") else {
            return;
        };
        if record.is_copied_context == Some(true) {
            return;
        }
        let time = record.time();
        let refers = record.refers();
        match record.kind() {
            StepKind::User => self.run.user(time),
            StepKind::Agent => {
                let added = step::read(record, &self.context, self.run.step_at(time));
                self.run.check(added);
                self.refer(&refers);
            }
            StepKind::Dispatch => {
                let Some(step) = self.run.step() else { return };
                let added = step::dispatch(step, record);
                self.run.check(added);
                self.refer(&refers);
            }
            StepKind::Other if refers.is_empty() => {}
            StepKind::Other => {
                self.run.close();
                self.run.begin(time);
                for id in refers {
                    self.write_child(&id);
                }
            }
        }
    }

    /// The open step refers to these sub-agents.
    fn refer(&mut self, ids: &[String]) {
        for id in ids {
            if let (Some(child), Some(step)) = (self.child(id), self.run.step()) {
                step.child(child);
            }
        }
    }

    /// The embedded sub-agent with this id, which is there once.
    fn child(&mut self, id: &str) -> Option<AgentTimeline> {
        let child = self.children.remove(id)?;
        let mut timeline = AgentTimeline::default();
        add_child(&child, 1, &self.context, &mut timeline);
        Some(timeline)
    }

    fn write_child(&mut self, id: &str) {
        if let Some(child) = self.child(id) {
            self.run.write_child(&child);
        }
    }

    fn end(mut self) {
        self.run.flush();
        let rest: Vec<String> = self.children.keys().cloned().collect();
        for id in rest {
            self.write_child(&id);
        }
        self.run.end();
    }
}

/// The source of a run's costs, if the file names it.
fn source_of(extra: &RunExtra) -> CostSource {
    match CostIs::declared(extra.endstop.cost_is.as_deref()) {
        None | Some(CostIs::Billed) => CostSource::Billed,
        Some(_) => CostSource::Computed,
    }
}

/// Adds what an embedded sub-agent did, and those that are embedded in it.
fn add_child(raw: &RawValue, depth: u32, context: &StepContext<'_>, timeline: &mut AgentTimeline) {
    let reading = context.reading;
    let child: Embedded<'_> = match serde_json::from_str(raw.get()) {
        Ok(child) if depth <= MAX_NESTING => child,
        Ok(_) => {
            return reading.warn(WarningKind::TooLarge, || {
                format!("sub-agents nest deeper than {MAX_NESTING}; skipped")
            });
        }
        Err(error) => return warn_of(&error, reading.part, reading.warnings),
    };
    let model = child.agent.and_then(|agent| agent.model_name);
    let extra = child.extra.unwrap_or_default();
    let context = StepContext { model: model.as_deref(), ..*context };
    let records: Vec<AtifStep<'_>> = child.steps.iter().filter_map(|step| parse(step)).collect();
    if records.len() < child.steps.len() {
        let message = || "a step of a sub-agent is not of this format".to_owned();
        reading.warn(WarningKind::Malformed, message);
    }
    let first: Time = records.iter().find_map(AtifStep::time);
    timeline.push(TimelineEntry::ChildBegin(first, extra.endstop.depth.unwrap_or(depth)));
    for record in records.into_iter().filter(|record| record.is_copied_context != Some(true)) {
        match record.kind() {
            StepKind::User => timeline.user(record.time()),
            StepKind::Agent => {
                let step = timeline.begin(record.time());
                if step::read(record, &context, step).is_err() {
                    reading.warn_full();
                }
            }
            StepKind::Dispatch | StepKind::Other => {}
        }
    }
    for grandchild in child.subagent_trajectories {
        timeline.close();
        add_child(grandchild, depth + 1, &context, timeline);
    }
    timeline.push(TimelineEntry::ChildEnd(None));
}
