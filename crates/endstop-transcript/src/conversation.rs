//! What one agent did, from records that tell model calls and tool calls apart: spans, or rows of a log. A call
//! is completed from wherever it is told: what the model asked for, the record of the tool, the messages of
//! the next model call.

use super::limits::MAX_STEP_ITEMS;
use super::messages::{Asked, Said, Told};
use super::step::{Full, Reply, Step, ToolAnswer};
use super::time::Time;
use super::timeline::{AgentTimeline, TimelineEntry};

/// What one agent did so far.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    timeline: AgentTimeline,
    open: Option<OpenStep>,
    asking: Option<Asking>,
    /// User turns so far.
    turns: usize,
}

/// A step that was answered and is not over.
#[derive(Debug)]
struct OpenStep {
    step: Step,
    calls: Vec<AskedCall>,
}

/// A model call that is not answered. The step before stays open: a retry may still tell its results.
#[derive(Debug)]
struct Asking {
    begun: Time,
    turns: usize,
    failures: Vec<Time>,
}

#[derive(Debug)]
struct AskedCall {
    asked: Asked,
    begun: Time,
    /// The tool's own record was seen.
    has_record: bool,
    result: Option<ToolAnswer>,
}

impl Conversation {
    /// Adds an entry that is no step.
    pub(super) fn push(&mut self, entry: TimelineEntry) {
        self.timeline.push(entry);
    }

    /// There have been this many user turns: those that are new are added.
    pub(super) fn hear(&mut self, turns: usize, time: Time) {
        let new = turns.saturating_sub(self.turns).min(MAX_STEP_ITEMS);
        (0..new).for_each(|_| self.timeline.user(time));
        self.turns = self.turns.max(turns);
    }

    /// A model call begins. One that follows a failed one is its retry.
    pub(super) fn ask(&mut self, told: &Told, time: Time) {
        // A call is made for somebody, also where messages are not recorded.
        let turns = told.turns.max(1);
        let asking = self.asking.get_or_insert(Asking { begun: time, turns, failures: Vec::new() });
        asking.turns = asking.turns.max(turns);
        // What a retry tells was there when the call was first made.
        let time = asking.begun;
        for (id, result) in &told.results {
            self.told(id, result, time);
        }
    }

    /// The model call failed.
    pub(super) fn fail(&mut self, time: Time) {
        let failures = self.asking.iter_mut().map(|asking| &mut asking.failures);
        for failures in failures.filter(|failures| failures.len() < MAX_STEP_ITEMS) {
            failures.push(time);
        }
    }

    /// The model call was answered.
    pub(super) fn answer(&mut self, time: Time, reply: Reply, said: &Said) -> Result<(), Full> {
        let closed = self.close_open();
        let Some(asking) = self.asking.take() else { return closed };
        let mut step = self.begin(asking)?;
        step.answer(time, reply);
        let said_whole =
            if said.text.is_empty() { Ok(()) } else { step.say(time, said.text.clone()) };
        let calls = said.calls.iter().map(|asked| AskedCall {
            asked: asked.clone(),
            begun: time,
            has_record: false,
            result: None,
        });
        self.open = Some(OpenStep { step, calls: calls.collect() });
        closed.and(said_whole)
    }

    fn begin(&mut self, asking: Asking) -> Result<Step, Full> {
        self.hear(asking.turns, asking.begun);
        let mut step = Step::begin(asking.begun);
        for failure in asking.failures {
            step.fail(failure)?;
        }
        Ok(step)
    }

    /// A tool ran. One that runs without a model call is not a step of a model.
    pub(super) fn tool(&mut self, asked: &Asked, begun: Time, ended: ToolAnswer) {
        let Some(open) = &mut self.open else { return };
        let is_it = |call: &&mut AskedCall| {
            let is_same = match (&asked.id, &call.asked.id) {
                (Some(id), Some(other)) => id == other,
                _ => call.asked.tool == asked.tool,
            };
            is_same && !call.has_record
        };
        match open.calls.iter_mut().find(is_it) {
            Some(call) => {
                if !asked.arguments.is_empty() {
                    call.asked.arguments.clone_from(&asked.arguments);
                }
                (call.begun, call.has_record, call.result) = (begun, true, Some(ended));
            }
            None => {
                let asked = asked.clone();
                open.calls.push(AskedCall { asked, begun, has_record: true, result: Some(ended) });
            }
        }
    }

    /// A result that stands in what a later call was told.
    fn told(&mut self, id: &str, result: &str, time: Time) {
        let mut calls = self.open.iter_mut().flat_map(|open| &mut open.calls);
        let call = calls.find(|call| call.asked.id.as_deref() == Some(id) && !call.has_record);
        if let Some(call) = call {
            let ended = || ToolAnswer { time, result: result.to_owned(), failed: false };
            call.result.get_or_insert_with(ended);
        }
    }

    /// Ends the last step.
    pub(super) fn close(&mut self) -> Result<(), Full> {
        let closed = self.close_open();
        if let Some(asking) = self.asking.take() {
            let step = self.begin(asking)?;
            self.timeline.push(TimelineEntry::Step(Box::new(step)));
        }
        closed
    }

    fn close_open(&mut self) -> Result<(), Full> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let added = settle(&mut open.step, open.calls);
        self.timeline.push(TimelineEntry::Step(Box::new(open.step)));
        added
    }

    /// What was done; the last step has to be closed.
    pub(super) fn into_timeline(self) -> AgentTimeline {
        self.timeline
    }
}

/// Adds the calls to their step, and the results in the order of their times.
fn settle(step: &mut Step, calls: Vec<AskedCall>) -> Result<(), Full> {
    let mut results = Vec::new();
    for (index, call) in calls.into_iter().enumerate() {
        let id = index.to_string();
        step.call(call.begun, Some(id.clone()), call.asked.tool, call.asked.arguments)?;
        results.extend(call.result.map(|ended| (id, ended)));
    }
    results.sort_by_key(|(_, ended)| ended.time);
    for (id, ended) in results {
        step.result_of(&id, ended.time, ended.result, ended.failed)?;
    }
    Ok(())
}
