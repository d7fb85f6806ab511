//! A sink that keeps everything, and a checker of what a reader may say.

use endstop_core::Event;
use endstop_core::event::{EventKind, Source as Origin};
use endstop_core::units::{Cost, Money};
use endstop_core::wire::v1::trace::{Header, Line, VERSION};
use endstop_price::PriceTable;
use endstop_transcript::{CostIs, RunFooter, RunHeader, RunSink, Transcript, Warning};

/// One run as it was read.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) id: String,
    /// The events as trace lines.
    pub(crate) lines: Vec<String>,
    pub(crate) steps: u64,
    pub(crate) own_steps: u64,
    pub(crate) calls_billed_or_priced: u64,
    pub(crate) cost: Money,
    pub(crate) tokens: u64,
    pub(crate) output: u64,
    pub(crate) tools: u64,
    pub(crate) results: u64,
    pub(crate) refused: u64,
    pub(crate) failed_tools: u64,
    pub(crate) turns: u64,
    pub(crate) children: u64,
    pub(crate) outcome: Option<bool>,
    pub(crate) cost_is: Option<CostIs>,
    pub(crate) model: Option<String>,
    pub(crate) faults: Vec<String>,
    check: Check,
}

/// Everything that a reader said.
#[derive(Debug, Default)]
pub(crate) struct Keep {
    pub(crate) runs: Vec<Seen>,
    pub(crate) warnings: Vec<Warning>,
}

impl Keep {
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let mut keep = Self::default();
        transcript.read(PriceTable::embedded(), &mut keep);
        keep
    }

    pub(crate) fn all(transcripts: &[Transcript], prices: &PriceTable) -> Self {
        let mut keep = Self::default();
        for transcript in transcripts {
            transcript.read(prices, &mut keep);
        }
        keep
    }

    pub(crate) fn steps(&self) -> u64 {
        self.runs.iter().map(|run| run.steps).sum()
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.runs.iter().map(|run| run.tokens).sum()
    }

    pub(crate) fn cost(&self) -> Money {
        self.runs.iter().fold(Money::ZERO, |sum, run| sum.checked_add(run.cost).unwrap())
    }

    pub(crate) fn faults(&self) -> Vec<&String> {
        self.runs.iter().flat_map(|run| &run.faults).collect()
    }

    /// All runs as one trace, with the warnings after them.
    pub(crate) fn as_trace(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            let header = Header {
                endstop_trace: VERSION,
                run: run.id.as_str().into(),
                model: run.model.as_deref().map(Into::into),
                cost_is: run.cost_is.map(|is| is.value().into()),
                prices: None,
            };
            text.push_str(&serde_json::to_string(&header).unwrap());
            text.push('\n');
            for line in &run.lines {
                text.push_str(line);
                text.push('\n');
            }
        }
        for warning in &self.warnings {
            text.push_str(&format!("# {}: {warning}\n", warning.kind.value()));
        }
        text
    }
}

impl RunSink for Keep {
    fn begin(&mut self, run: &RunHeader<'_>) {
        self.runs.push(Seen { id: run.id.to_owned(), ..Seen::default() });
    }

    fn event(&mut self, event: &Event<'_>) {
        let run = self.runs.last_mut().expect("an event before its run");
        run.lines.push(serde_json::to_string(&Line::from_event(event)).unwrap());
        run.count(event);
        if let Err(fault) = run.check.event(event) {
            run.faults.push(format!("event {}: {fault}", run.lines.len()));
        }
    }

    fn end(&mut self, end: &RunFooter<'_>) {
        let run = self.runs.last_mut().expect("an end before its run");
        (run.outcome, run.cost_is) = (end.outcome, Some(end.cost_is));
        run.model = end.model.map(str::to_owned);
        if !run.check.is_over {
            run.faults.push("no end".to_owned());
        }
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}

impl Seen {
    fn count(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::StepBegin => {
                self.steps += 1;
                self.own_steps += u64::from(event.source == Origin::Own);
            }
            EventKind::Reply { usage, cost, .. } => {
                if let Some(usage) = usage {
                    self.tokens += usage.total();
                    self.output += usage.output;
                }
                if let Some(Cost::Known(money)) = cost {
                    self.calls_billed_or_priced += 1;
                    self.cost = self.cost.checked_add(*money).unwrap();
                }
            }
            EventKind::ToolBegin { .. } => self.tools += 1,
            EventKind::ToolRefused { .. } => self.refused += 1,
            EventKind::ToolEnd { failed, .. } => {
                self.results += 1;
                self.failed_tools += u64::from(*failed);
            }
            EventKind::UserMessage => self.turns += 1,
            EventKind::ChildBegin { .. } => self.children += 1,
            _ => {}
        }
    }
}

/// The order that events must have.
#[derive(Debug, Default)]
struct Check {
    has_begun: bool,
    is_over: bool,
    at: u64,
    step_is_open: bool,
    attempt_is_open: bool,
    /// Calls that the reply asked for and that have neither begun nor been refused.
    owed: u32,
    has_replied: bool,
    running: Vec<String>,
    children: i64,
    child_steps: i64,
}

impl Check {
    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        let kind = &event.kind;
        ensure(event.at.0 >= self.at, "time goes back")?;
        self.at = event.at.0;
        ensure(!self.is_over, "an event after the end")?;
        let begins = matches!(kind, EventKind::RunBegin { .. });
        ensure(begins != self.has_begun, "the run does not begin once, first")?;
        self.has_begun = true;
        if let EventKind::RunEnd { .. } = kind {
            self.is_over = true;
            let closed = !self.step_is_open && self.children == 0 && self.child_steps == 0;
            return ensure(closed, "something is open at the end");
        }
        match (event.source, kind) {
            (Origin::Own, EventKind::ChildBegin { .. }) => self.children += 1,
            (Origin::Own, EventKind::ChildEnd) => self.children -= 1,
            (Origin::Own, _) => return self.own(kind),
            (Origin::Descendant, EventKind::StepBegin) => self.child_steps += 1,
            (Origin::Descendant, EventKind::StepEnd) => self.child_steps -= 1,
            _ => {}
        }
        ensure(self.children >= 0 && self.child_steps >= 0, "an end without a beginning")
    }

    fn own(&mut self, kind: &EventKind<'_>) -> Result<(), String> {
        match kind {
            EventKind::UserMessage => ensure(!self.step_is_open, "a user turn inside a step"),
            EventKind::StepBegin => {
                let was_open = std::mem::replace(&mut self.step_is_open, true);
                self.has_replied = false;
                ensure(!was_open, "a step inside a step")
            }
            EventKind::AttemptBegin { .. } => {
                let was_open = std::mem::replace(&mut self.attempt_is_open, true);
                ensure(self.step_is_open && !was_open, "an attempt outside a step")
            }
            EventKind::Piece { .. } => ensure(self.attempt_is_open, "words outside an attempt"),
            EventKind::AttemptFailed { .. } => {
                ensure(std::mem::take(&mut self.attempt_is_open), "a failure outside an attempt")
            }
            EventKind::Reply { tool_calls, .. } => {
                (self.owed, self.has_replied) = (*tool_calls, true);
                ensure(std::mem::take(&mut self.attempt_is_open), "a reply outside an attempt")
            }
            EventKind::ToolBegin { tool } => {
                self.running.push((*tool).to_owned());
                self.owe()
            }
            EventKind::ToolRefused { .. } => self.owe(),
            EventKind::ToolEnd { tool, .. } => {
                let place = self.running.iter().position(|running| running == tool);
                place
                    .map(|place| drop(self.running.remove(place)))
                    .ok_or("a result without its call".to_owned())
            }
            EventKind::StepEnd => {
                self.running.clear();
                let was_open = std::mem::take(&mut self.step_is_open);
                ensure(was_open && !self.attempt_is_open, "a step ends that is not open")?;
                ensure(std::mem::take(&mut self.owed) == 0, "a call neither begun nor refused")
            }
            _ => Ok(()),
        }
    }

    fn owe(&mut self) -> Result<(), String> {
        let owed = self.owed.checked_sub(1);
        self.owed = owed.unwrap_or(0);
        ensure(
            self.step_is_open && self.has_replied && owed.is_some(),
            "a call that was not asked for",
        )
    }
}

fn ensure(holds: bool, fault: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault.to_owned()) }
}
