//! What one agent did next: a user turn, or a whole step. Readers gather these; the writer plays them.

use endstop_core::EventKind;
use endstop_core::units::{Cost, TokenUsage};

/// The most text of one step that is kept, in bytes: two of the longest lines. A step gathers its lines
/// until the next one begins, so a file that never begins one must not fill the memory.
pub(super) const MAX_STEP_BYTES: usize = 2 * super::MAX_LINE_BYTES;

/// The most tool calls, pieces and failed attempts of one step, each; far beyond any provider's limit.
pub(super) const MAX_STEP_ITEMS: usize = 4_096;

/// Wall time in epoch milliseconds, where the record tells it.
pub(super) type Time = Option<u64>;

/// The next thing that an agent did.
#[derive(Debug)]
pub(super) enum Act {
    /// A user turn.
    User(Time),
    /// A sub-agent begins, one level below the run.
    ChildBegin(Time),
    /// A sub-agent begins at this depth, where the root's is 0.
    ChildBeginAt(Time, u32),
    /// A sub-agent ended.
    ChildEnd(Time),
    /// A model call with its tools.
    Step(Box<Step>),
}

/// A model call with its tools, gathered until it is over.
#[derive(Debug, Default)]
pub(super) struct Step {
    begun: Time,
    failures: Vec<Time>,
    pieces: Vec<(Time, String)>,
    reply: Option<(Time, Reply)>,
    calls: Vec<Call>,
    /// Indices of calls, in the order of their results.
    answered: Vec<usize>,
    bytes: usize,
}

/// What the model answered, besides its words.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) model: Option<String>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) cost: Option<Cost>,
    pub(super) source: CostSource,
    pub(super) finish: Option<String>,
}

/// Where the cost of a call comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CostSource {
    Billed,
    Computed,
    #[default]
    Unknown,
}

/// A tool call.
#[derive(Debug)]
struct Call {
    id: Option<String>,
    tool: String,
    arguments: String,
    time: Time,
    refused: bool,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    result: String,
    failed: bool,
    time: Time,
}

/// A step holds more than [`MAX_STEP_BYTES`] or [`MAX_STEP_ITEMS`]; what was to be added is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// An event of an act, by place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beat {
    User,
    ChildBegin,
    ChildEnd,
    StepBegin,
    AttemptBegin,
    AttemptFailed,
    Piece(usize),
    Reply,
    ToolBegin(usize),
    ToolRefused(usize),
    ToolEnd(usize),
    StepEnd,
}

impl Step {
    /// A step whose request was made at `begun`.
    pub(super) fn begin(begun: Time) -> Self {
        Self { begun, ..Self::default() }
    }

    /// When the request was made.
    pub(super) const fn begun(&self) -> Time {
        self.begun
    }

    /// Adds a request that failed.
    pub(super) fn fail(&mut self, time: Time) -> Result<(), Full> {
        push(&mut self.failures, time)
    }

    /// Adds words of the model.
    pub(super) fn say(&mut self, time: Time, text: String) -> Result<(), Full> {
        self.weigh(text.len())?;
        push(&mut self.pieces, (time, text))
    }

    /// Sets what the model answered.
    pub(super) fn answer(&mut self, time: Time, reply: Reply) {
        self.reply = Some((time, reply));
    }

    /// Adds a tool call that was made.
    pub(super) fn call(
        &mut self,
        time: Time,
        id: Option<String>,
        tool: String,
        arguments: String,
    ) -> Result<(), Full> {
        self.weigh(tool.len().saturating_add(arguments.len()))?;
        push(&mut self.calls, Call { id, tool, arguments, time, refused: false, answer: None })
    }

    /// Adds a tool call that was asked for and not made.
    pub(super) fn refuse(&mut self, time: Time, tool: String) -> Result<(), Full> {
        self.weigh(tool.len())?;
        let (id, arguments) = (None, String::new());
        push(&mut self.calls, Call { id, tool, arguments, time, refused: true, answer: None })
    }

    /// Adds the result of the call with this id. False where no such call waits for one.
    pub(super) fn result_of(
        &mut self,
        id: &str,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<bool, Full> {
        let waits = |call: &Call| call.waits() && call.id.as_deref() == Some(id);
        let place = self.calls.iter().position(waits);
        self.settle(place, time, result, failed)
    }

    /// Adds the result of the first call that waits for one. False where none does.
    pub(super) fn next_result(
        &mut self,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<bool, Full> {
        let place = self.calls.iter().position(Call::waits);
        self.settle(place, time, result, failed)
    }

    /// Whether a call waits for its result.
    pub(super) fn waits(&self) -> bool {
        self.calls.iter().any(Call::waits)
    }

    /// Whether a call was asked for and not made.
    pub(super) fn has_refused(&self) -> bool {
        self.calls.iter().any(|call| call.refused)
    }

    /// Whether a call has its result.
    pub(super) fn has_result(&self) -> bool {
        !self.answered.is_empty()
    }

    fn settle(
        &mut self,
        place: Option<usize>,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<bool, Full> {
        let Some(place) = place else { return Ok(false) };
        self.weigh(result.len())?;
        if let Some(call) = self.calls.get_mut(place) {
            call.answer = Some(Answer { result, failed, time });
            self.answered.push(place);
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

    fn beats(&self) -> Vec<(Time, Beat)> {
        let mut beats = vec![(self.begun, Beat::StepBegin)];
        for failed in &self.failures {
            beats.push((None, Beat::AttemptBegin));
            beats.push((*failed, Beat::AttemptFailed));
        }
        if let Some((time, _)) = &self.reply {
            // A tool may begin while the rest of the reply still streams; for the order of a run the reply
            // is there once it does.
            let first_call = self.calls.iter().filter_map(|call| call.time).min();
            let time = first_call.map_or(*time, |first| Some(time.unwrap_or(first).min(first)));
            beats.push((None, Beat::AttemptBegin));
            let pieces = self.pieces.iter().enumerate();
            beats.extend(pieces.map(|(index, (time, _))| (*time, Beat::Piece(index))));
            beats.push((time, Beat::Reply));
            beats.extend(self.calls.iter().enumerate().map(|(index, call)| {
                let beat = if call.refused { Beat::ToolRefused } else { Beat::ToolBegin };
                (call.time, beat(index))
            }));
            beats.extend(self.answered.iter().filter_map(|&index| {
                let answer = self.calls.get(index)?.answer.as_ref()?;
                Some((answer.time, Beat::ToolEnd(index)))
            }));
        }
        beats.push((None, Beat::StepEnd));
        beats
    }

    fn event(&self, beat: Beat) -> Option<EventKind<'_>> {
        Some(match beat {
            Beat::StepBegin => EventKind::StepBegin,
            Beat::AttemptBegin => EventKind::AttemptBegin { next_cost: None },
            // What a failed request cost is not in any of the formats.
            Beat::AttemptFailed => EventKind::AttemptFailed { usage: None, cost: None },
            Beat::Piece(index) => EventKind::Piece { text: &self.pieces.get(index)?.1 },
            Beat::Reply => {
                let (_, reply) = self.reply.as_ref()?;
                EventKind::Reply {
                    model: reply.model.as_deref(),
                    usage: reply.usage,
                    cost: reply.cost,
                    finish: reply.finish.as_deref(),
                    tool_calls: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
                }
            }
            Beat::ToolBegin(index) => EventKind::ToolBegin { tool: &self.calls.get(index)?.tool },
            Beat::ToolRefused(index) => {
                EventKind::ToolRefused { tool: &self.calls.get(index)?.tool }
            }
            Beat::ToolEnd(index) => {
                let call = self.calls.get(index)?;
                let answer = call.answer.as_ref()?;
                EventKind::ToolEnd {
                    tool: &call.tool,
                    arguments: &call.arguments,
                    result: &answer.result,
                    failed: answer.failed,
                }
            }
            Beat::StepEnd => EventKind::StepEnd,
            Beat::User | Beat::ChildBegin | Beat::ChildEnd => return None,
        })
    }
}

impl Call {
    const fn waits(&self) -> bool {
        !self.refused && self.answer.is_none()
    }
}

impl Act {
    /// Its events in order, with their times.
    pub(super) fn beats(&self) -> Vec<(Time, Beat)> {
        match self {
            Self::User(time) => vec![(*time, Beat::User)],
            Self::ChildBegin(time) | Self::ChildBeginAt(time, _) => {
                vec![(*time, Beat::ChildBegin)]
            }
            Self::ChildEnd(time) => vec![(*time, Beat::ChildEnd)],
            Self::Step(step) => step.beats(),
        }
    }

    /// The first time that it tells.
    pub(super) fn first_time(&self) -> Time {
        self.beats().into_iter().find_map(|(time, _)| time)
    }

    /// The event at that place.
    pub(super) fn event(&self, beat: Beat) -> Option<EventKind<'_>> {
        match (self, beat) {
            (Self::User(_), Beat::User) => Some(EventKind::UserMessage),
            (Self::ChildBegin(_), Beat::ChildBegin) => Some(EventKind::ChildBegin { depth: 1 }),
            (Self::ChildBeginAt(_, depth), Beat::ChildBegin) => {
                Some(EventKind::ChildBegin { depth: *depth })
            }
            (Self::ChildEnd(_), Beat::ChildEnd) => Some(EventKind::ChildEnd),
            (Self::Step(step), beat) => step.event(beat),
            _ => None,
        }
    }

    /// The reply whose event is at that place.
    pub(super) fn reply(&self, beat: Beat) -> Option<&Reply> {
        match (self, beat) {
            (Self::Step(step), Beat::Reply) => step.reply.as_ref().map(|(_, reply)| reply),
            _ => None,
        }
    }
}

/// Reads an RFC 3339 time; anything else is no time.
pub(super) fn parse_time(text: &str) -> Time {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

fn push<T>(items: &mut Vec<T>, item: T) -> Result<(), Full> {
    if items.len() >= MAX_STEP_ITEMS {
        return Err(Full);
    }
    items.push(item);
    Ok(())
}
