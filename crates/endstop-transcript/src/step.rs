//! A model call with its tools, gathered until it is over.

use std::collections::{BTreeMap, BTreeSet};

use endstop_core::EventKind;
use endstop_core::units::{Cost, TokenUsage};

use super::limits::{MAX_STEP_BYTES, MAX_STEP_ITEMS};
use super::messages::RequestedCall;
use super::time::Time;
use super::timeline::{AgentTimeline, EntryEvent};

/// A model call with its tools.
#[derive(Debug, Default)]
pub(crate) struct Step {
    begun: Time,
    failures: Vec<Time>,
    pieces: Vec<(Time, String)>,
    reply: Option<(Time, ModelResponse)>,
    calls: Vec<ToolCall>,
    /// Indices of calls, in the order of their results.
    answered: Vec<usize>,
    /// Sub-agents that ran before the first result.
    children: Vec<AgentTimeline>,
    bytes: usize,
}

/// Requests that failed since the last response, for formats that report them before the step that they belong to.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<Time>);

impl Failures {
    /// Adds one, up to the most that a step has.
    pub(crate) fn add(&mut self, time: Time) {
        if self.0.len() < MAX_STEP_ITEMS {
            self.0.push(time);
        }
    }

    /// When the first of them was made.
    pub(crate) fn first(&self) -> Time {
        self.0.first().copied().flatten()
    }
}

/// The model's response, without its text.
#[derive(Debug, Default)]
pub(crate) struct ModelResponse {
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) cost: Option<Cost>,
    pub(crate) source: CostSource,
    pub(crate) finish: Option<String>,
}

/// Where the cost of a call comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CostSource {
    Billed,
    Computed,
    #[default]
    Unknown,
}

#[derive(Debug)]
struct ToolCall {
    id: Option<String>,
    tool: String,
    arguments: String,
    time: Time,
    refused: bool,
    /// The tool's own record was seen.
    has_record: bool,
    answer: Option<ToolAnswer>,
}

/// The result of a tool call.
#[derive(Clone, Debug)]
pub(crate) struct ToolAnswer {
    pub(crate) result: String,
    pub(crate) failed: bool,
    pub(crate) time: Time,
}

/// A step holds more than [`MAX_STEP_BYTES`] or [`MAX_STEP_ITEMS`]; the addition is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl ModelResponse {
    /// A response whose cost is unknown until a report has it.
    pub(crate) fn unpriced(model: Option<impl Into<String>>) -> Self {
        Self { cost: Some(Cost::Unpriced), ..Self::of_model(model) }
    }

    /// A response of a format without tokens and money.
    pub(crate) fn of_model(model: Option<impl Into<String>>) -> Self {
        Self { model: model.map(Into::into), ..Self::default() }
    }
}

impl Step {
    /// A step whose request was made at `begun`.
    pub(crate) fn begin(begun: Time) -> Self {
        Self { begun, ..Self::default() }
    }

    /// Adds a request that failed.
    pub(crate) fn fail(&mut self, time: Time) -> Result<(), Full> {
        push(&mut self.failures, time)
    }

    /// Adds the requests that failed before this one.
    pub(crate) fn fail_as(&mut self, failures: &mut Failures) -> Result<(), Full> {
        std::mem::take(&mut failures.0).into_iter().try_for_each(|time| self.fail(time))
    }

    /// Adds words of the model; an empty text is none.
    pub(crate) fn say(&mut self, time: Time, text: impl Into<String>) -> Result<(), Full> {
        let text = text.into();
        if text.is_empty() { Ok(()) } else { self.piece(time, text) }
    }

    /// Adds words of the model in a format that counts empty ones, too.
    pub(crate) fn piece(&mut self, time: Time, text: String) -> Result<(), Full> {
        self.weigh(text.len())?;
        push(&mut self.pieces, (time, text))
    }

    /// Sets the model's response.
    pub(crate) fn answer(&mut self, time: Time, reply: ModelResponse) {
        self.reply = Some((time, reply));
    }

    /// Adds a tool call that was made.
    pub(crate) fn call(
        &mut self,
        time: Time,
        id: Option<impl Into<String>>,
        tool: impl Into<String>,
        arguments: String,
    ) -> Result<(), Full> {
        let (id, tool) = (id.map(Into::into), tool.into());
        self.weigh(tool.len().saturating_add(arguments.len()))?;
        push(&mut self.calls, ToolCall::new(id, tool, arguments, time))
    }

    /// Adds a tool call that was requested and not made.
    pub(crate) fn refuse(&mut self, time: Time, tool: impl Into<String>) -> Result<(), Full> {
        let tool = tool.into();
        self.weigh(tool.len())?;
        let call = ToolCall::new(None, tool, String::new(), time);
        push(&mut self.calls, ToolCall { refused: true, ..call })
    }

    /// Adds the result of the call with this id. False if no such call waits for one.
    pub(crate) fn result_of(
        &mut self,
        id: &str,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<bool, Full> {
        let waits = |call: &ToolCall| call.waits() && call.id.as_deref() == Some(id);
        let place = self.calls.iter().position(waits);
        self.settle(place, ToolAnswer { result, failed, time })
    }

    /// Adds the result of the call with this id, or without one of the first that waits. False if none does.
    pub(crate) fn result(
        &mut self,
        id: Option<&str>,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<bool, Full> {
        match id {
            Some(id) => self.result_of(id, time, result, failed),
            None => self.next_result(time, result, failed),
        }
    }

    /// Adds the result of the first call that waits for one. False if none does.
    pub(crate) fn next_result(
        &mut self,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<bool, Full> {
        let place = self.calls.iter().position(ToolCall::waits);
        self.settle(place, ToolAnswer { result, failed, time })
    }

    /// Late facts about the first call with this id that has no result: when it began, and whether it was made at
    /// all. Returns `false` if there is none.
    pub(crate) fn set_call(&mut self, id: &str, begun: Time, refused: bool) -> bool {
        let place = self.unanswered(id);
        let Some(call) = place.and_then(|place| self.calls.get_mut(place)) else { return false };
        (call.time, call.refused) = (begun, refused);
        true
    }

    /// Ends the first call with this id that has no result; a refused one ends without.
    pub(crate) fn end_call(&mut self, id: &str, answer: ToolAnswer) -> Result<bool, Full> {
        self.settle(self.unanswered(id), answer)
    }

    /// Ends calls without a result by the facts recorded elsewhere.
    pub(crate) fn end_calls(
        &mut self,
        elsewhere: &BTreeMap<String, ToolAnswer>,
    ) -> Result<(), Full> {
        let answered = self.calls.iter().filter(|call| call.answer.is_some());
        let mut over: BTreeSet<String> = answered.filter_map(|call| call.id.clone()).collect();
        for place in 0..self.calls.len() {
            let Some(id) = self.calls.get(place).and_then(|call| call.id.clone()) else { continue };
            if let (Some(answer), true) = (elsewhere.get(&id), over.insert(id)) {
                self.settle(Some(place), answer.clone())?;
            }
        }
        Ok(())
    }

    /// A tool ran: its own record of a call wins. A record without a request is a call too.
    pub(crate) fn ran(
        &mut self,
        asked: &RequestedCall,
        begun: Time,
        answer: ToolAnswer,
    ) -> Result<(), Full> {
        let place = match self.calls.iter().position(|call| call.is_of(asked)) {
            Some(place) => place,
            None => {
                let RequestedCall { id, tool, arguments } = asked.clone();
                self.call(begun, id, tool, arguments)?;
                self.calls.len() - 1
            }
        };
        self.weigh(asked.arguments.len())?;
        if let Some(call) = self.calls.get_mut(place) {
            if !asked.arguments.is_empty() {
                call.arguments.clone_from(&asked.arguments);
            }
            (call.time, call.has_record) = (begun, true);
        }
        self.settle_in_time(place, answer)
    }

    /// A result in the input of a later call, for a call without a result and a record.
    pub(crate) fn told_result(&mut self, id: &str, time: Time, result: &str) -> Result<(), Full> {
        let is_it = |call: &ToolCall| call.id.as_deref() == Some(id) && !call.has_record;
        let place = self.calls.iter().position(is_it);
        let answered = |place: &usize| self.calls.get(*place).is_some_and(|it| it.answer.is_some());
        let Some(place) = place.filter(|place| !answered(place)) else { return Ok(()) };
        self.settle_in_time(place, ToolAnswer { result: result.to_owned(), failed: false, time })
    }

    /// Sets a result whose record came in any order: results are in the order of their times, then of their calls.
    fn settle_in_time(&mut self, place: usize, answer: ToolAnswer) -> Result<(), Full> {
        self.weigh(answer.result.len())?;
        self.answered.retain(|answered| *answered != place);
        let when = |place: usize| self.calls.get(place)?.answer.as_ref()?.time;
        let before = |answered: &usize| (when(*answered), *answered) < (answer.time, place);
        let at = self.answered.partition_point(before);
        self.answered.insert(at, place);
        if let Some(call) = self.calls.get_mut(place) {
            call.answer = Some(answer);
        }
        Ok(())
    }

    /// The id of the first call without a result.
    pub(crate) fn waiting(&self) -> Option<&str> {
        self.calls.iter().find(|call| call.answer.is_none())?.id.as_deref()
    }

    /// Whether a call with this id has no result.
    pub(crate) fn awaits(&self, id: &str) -> bool {
        self.unanswered(id).is_some()
    }

    /// Adds a sub-agent that ran before the first result.
    pub(crate) fn child(&mut self, child: AgentTimeline) {
        self.children.push(child);
    }

    /// Sub-agents that ran before the first result.
    pub(crate) fn children(&self) -> &[AgentTimeline] {
        &self.children
    }

    /// Whether a call waits for its result.
    pub(crate) fn waits(&self) -> bool {
        self.calls.iter().any(ToolCall::waits)
    }

    /// Whether a call was requested and not made.
    pub(crate) fn has_refused(&self) -> bool {
        self.calls.iter().any(|call| call.refused)
    }

    /// Whether a call has its result.
    pub(crate) fn has_result(&self) -> bool {
        !self.answered.is_empty()
    }

    /// The model's response.
    pub(crate) fn reply(&self) -> Option<&ModelResponse> {
        self.reply.as_ref().map(|(_, reply)| reply)
    }

    fn unanswered(&self, id: &str) -> Option<usize> {
        let is_it = |call: &ToolCall| call.answer.is_none() && call.id.as_deref() == Some(id);
        self.calls.iter().position(is_it)
    }

    fn settle(&mut self, place: Option<usize>, answer: ToolAnswer) -> Result<bool, Full> {
        let Some(place) = place else { return Ok(false) };
        self.weigh(answer.result.len())?;
        if let Some(call) = self.calls.get_mut(place) {
            call.answer = Some(answer);
            if !call.refused {
                self.answered.push(place);
            }
        }
        Ok(true)
    }

    fn weigh(&mut self, bytes: usize) -> Result<(), Full> {
        let total = self.bytes.saturating_add(bytes);
        if total > MAX_STEP_BYTES {
            return Err(Full);
        }
        self.bytes = total;
        Ok(())
    }

    /// Its events in order, with their times.
    pub(crate) fn events(&self) -> Vec<(Time, EntryEvent)> {
        let mut events = vec![(self.begun, EntryEvent::StepBegin)];
        for failed in &self.failures {
            events.push((None, EntryEvent::AttemptBegin));
            events.push((*failed, EntryEvent::AttemptFailed));
        }
        if let Some((time, _)) = &self.reply {
            // A tool may begin while the rest of the response still streams; for the order of a run the response
            // is there once it does.
            let first_call = self.calls.iter().filter_map(|call| call.time).min();
            let time = first_call.map_or(*time, |first| Some(time.unwrap_or(first).min(first)));
            events.push((None, EntryEvent::AttemptBegin));
            let pieces = self.pieces.iter().enumerate();
            events.extend(pieces.map(|(index, (time, _))| (*time, EntryEvent::Piece(index))));
            events.push((time, EntryEvent::Reply));
            events.extend(self.calls.iter().enumerate().map(|(index, call)| {
                let event =
                    if call.refused { EntryEvent::ToolRefused } else { EntryEvent::ToolBegin };
                (call.time, event(index))
            }));
            events.extend(self.answered.iter().filter_map(|&index| {
                let answer = self.calls.get(index)?.answer.as_ref()?;
                Some((answer.time, EntryEvent::ToolEnd(index)))
            }));
        }
        events.push((None, EntryEvent::StepEnd));
        events
    }

    /// The event at that place.
    pub(crate) fn event(&self, event: EntryEvent) -> Option<EventKind<'_>> {
        Some(match event {
            EntryEvent::StepBegin => EventKind::StepBegin,
            EntryEvent::AttemptBegin => EventKind::AttemptBegin { next_cost: None },
            // None of the formats has the cost of a failed request.
            EntryEvent::AttemptFailed => EventKind::AttemptFailed { usage: None, cost: None },
            EntryEvent::Piece(index) => EventKind::Piece { text: &self.pieces.get(index)?.1 },
            EntryEvent::Reply => {
                let (_, reply) = self.reply.as_ref()?;
                EventKind::Reply {
                    model: reply.model.as_deref(),
                    usage: reply.usage,
                    cost: reply.cost,
                    finish: reply.finish.as_deref(),
                    tool_calls: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
                }
            }
            EntryEvent::ToolBegin(index) => {
                EventKind::ToolBegin { tool: &self.calls.get(index)?.tool }
            }
            EntryEvent::ToolRefused(index) => {
                EventKind::ToolRefused { tool: &self.calls.get(index)?.tool }
            }
            EntryEvent::ToolEnd(index) => {
                let call = self.calls.get(index)?;
                let answer = call.answer.as_ref()?;
                EventKind::ToolEnd {
                    tool: &call.tool,
                    arguments: &call.arguments,
                    result: &answer.result,
                    failed: answer.failed,
                }
            }
            EntryEvent::StepEnd => EventKind::StepEnd,
            EntryEvent::User | EntryEvent::ChildBegin | EntryEvent::ChildEnd => return None,
        })
    }
}

impl ToolCall {
    const fn new(id: Option<String>, tool: String, arguments: String, time: Time) -> Self {
        Self { id, tool, arguments, time, refused: false, has_record: false, answer: None }
    }

    /// Whether a record of a tool is of this call.
    fn is_of(&self, asked: &RequestedCall) -> bool {
        let is_same = match (&asked.id, &self.id) {
            (Some(id), Some(other)) => id == other,
            _ => asked.tool == self.tool,
        };
        is_same && !self.has_record
    }

    const fn waits(&self) -> bool {
        !self.refused && self.answer.is_none()
    }
}

fn push<T>(items: &mut Vec<T>, item: T) -> Result<(), Full> {
    if items.len() >= MAX_STEP_ITEMS {
        return Err(Full);
    }
    items.push(item);
    Ok(())
}
