//! Work that a trace leaves open: what a dead process had begun and not ended.

use endstop_core::event::{Event, EventKind, Source};
use endstop_core::run::{Directive, Run};
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};

/// Attempts in flight, and the most that they hold together: tokens and pico-dollars.
#[derive(Debug, Default)]
struct InFlight {
    count: u64,
    held: [u64; 2],
    /// The least that single ones hold, in each amount separately.
    each: [Vec<u64>; 2],
    /// Output among the tokens of the last one.
    output: u64,
    is_unpriced: bool,
    /// The amounts that the next one and those in flight hold together.
    announced: Option<([u64; 2], u64, Option<Cost>)>,
}

impl InFlight {
    fn announce(&mut self, input: u64, output: u64, cost: Option<Cost>) {
        self.announced = Some(([input.saturating_add(output), picos(cost)], output, cost));
    }

    fn begin(&mut self, next_cost: Option<Cost>) {
        self.count = self.count.saturating_add(1);
        let (together, output, cost) = self.announced.take().unwrap_or_else(|| {
            let [tokens, held] = self.held;
            ([tokens, held.saturating_add(picos(next_cost))], 0, next_cost)
        });
        self.output = output;
        self.is_unpriced |= !matches!(cost, Some(Cost::Known(_)));
        for ((held, each), together) in self.held.iter_mut().zip(&mut self.each).zip(together) {
            each.push(together.saturating_sub(*held));
            *held = together;
        }
    }

    /// One of them has ended. The trace does not say which one: the least of them is released.
    fn end(&mut self) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            *self = Self::default();
            return;
        }
        for (held, each) in self.held.iter_mut().zip(&mut self.each) {
            let least = each.iter().enumerate().min_by_key(|(_, amount)| **amount);
            if let Some((place, amount)) = least.map(|(place, amount)| (place, *amount)) {
                each.swap_remove(place);
                *held = held.saturating_sub(amount);
            }
        }
    }

    /// The worst case of them all.
    fn worst(&self) -> (TokenUsage, Cost) {
        let [tokens, picos] = self.held;
        let output = self.output.min(tokens);
        let input = tokens.saturating_sub(output);
        let usage = TokenUsage { input, output, ..TokenUsage::default() };
        let cost = Cost::Known(Money::from_picos(picos));
        (usage, if self.is_unpriced { Cost::Unpriced } else { cost })
    }
}

const fn picos(cost: Option<Cost>) -> u64 {
    match cost {
        Some(Cost::Known(money)) => money.picos(),
        _ => 0,
    }
}

fn times(usage: TokenUsage, count: u64) -> TokenUsage {
    TokenUsage {
        input: usage.total_input().saturating_mul(count),
        output: usage.output.saturating_mul(count),
        ..TokenUsage::default()
    }
}

/// The most that a tool call can cost.
#[derive(Debug)]
struct ToolHold {
    source: Source,
    tool: String,
    cost: Money,
    /// Announced, and not begun.
    is_ahead: bool,
}

/// Tools that have begun, or are about to, and have not been charged.
#[derive(Debug, Default)]
struct ToolHolds(Vec<ToolHold>);

impl ToolHolds {
    fn note(&mut self, event: &Event<'_>, was_refused: bool) {
        let source = event.source;
        let is_of = |hold: &ToolHold, tool: &str| hold.source == source && hold.tool == tool;
        match event.kind {
            EventKind::ToolReserve { tool, cost, .. } if !was_refused => {
                let hold = ToolHold { source, tool: tool.to_owned(), cost, is_ahead: true };
                self.0.push(hold);
                return;
            }
            EventKind::ToolBegin { tool } if !was_refused => {
                let begun = self.0.iter_mut().rfind(|hold| is_of(hold, tool) && hold.is_ahead);
                begun.into_iter().for_each(|hold| hold.is_ahead = false);
            }
            EventKind::ToolCost { tool, cost } => {
                // A load before this one has charged a call without its name.
                let is_charged = |hold: &ToolHold| {
                    let is_of_load = tool.is_empty() && hold.source == source && hold.cost == cost;
                    is_of(hold, tool) || is_of_load
                };
                if let Some(place) = self.0.iter().position(is_charged) {
                    self.0.swap_remove(place);
                }
            }
            _ => {}
        }
        // The event after the announcement admits the call, or the call was refused.
        self.0.retain(|hold| !hold.is_ahead);
    }

    fn picos(&self) -> u64 {
        self.0.iter().map(|hold| hold.cost.picos()).fold(0, u64::saturating_add)
    }
}

/// Work that is open after the events so far.
#[derive(Debug, Default)]
pub(super) struct OpenWork {
    last: Option<(Millis, WallTime)>,
    own: InFlight,
    descendants: InFlight,
    tool_holds: ToolHolds,
    /// Tools of the run itself that have begun.
    tools: Vec<String>,
    children: u64,
    is_step_open: bool,
    pub(super) usage: TokenUsage,
    pub(super) is_estimate: bool,
    /// Stands for the tokens of an attempt that reserved none.
    pub(super) last_usage: Option<TokenUsage>,
}

impl OpenWork {
    /// Nothing is open, but a step perhaps.
    pub(super) fn new(is_step_open: bool) -> Self {
        Self { is_step_open, ..Self::default() }
    }

    /// `was_refused` says that the run refused it when it was recorded.
    pub(super) fn note(&mut self, event: &Event<'_>, directive: Directive, was_refused: bool) {
        self.last = Some((event.at, event.wall));
        let is_own = event.source == Source::Own;
        // An act that waited for approval, or was refused while the run continued, did not begin.
        if matches!(directive, Directive::Pause | Directive::Refuse) && event.kind.is_intention() {
            return;
        }
        self.tool_holds.note(event, was_refused);
        let out = if is_own { &mut self.own } else { &mut self.descendants };
        match &event.kind {
            EventKind::StepBegin if is_own => self.is_step_open = true,
            EventKind::StepEnd if is_own => {
                self.is_step_open = false;
                // A request that is open still was refused: it was never sent.
                self.own = InFlight::default();
            }
            EventKind::Reserve { input_tokens, output_tokens, cost } => {
                // Together with the holds for tools, which are charged separately.
                let of_tools = Money::from_picos(self.tool_holds.picos());
                let cost = match *cost {
                    Some(Cost::Known(cost)) => Some(Cost::Known(cost.saturating_sub(of_tools))),
                    other => other,
                };
                out.announce(*input_tokens, *output_tokens, cost);
            }
            EventKind::AttemptBegin { next_cost } => out.begin(*next_cost),
            EventKind::Reply { usage, .. } | EventKind::AttemptFailed { usage, .. } => {
                out.end();
                let sum = usage.and_then(|usage| self.usage.checked_add(&usage));
                self.usage = sum.unwrap_or(self.usage);
            }
            EventKind::ToolBegin { tool } if is_own => self.tools.push((*tool).to_owned()),
            EventKind::ToolEnd { tool, .. } if is_own => {
                if let Some(place) = self.tools.iter().position(|begun| begun == tool) {
                    self.tools.remove(place);
                }
            }
            // As a load before this one closed it.
            EventKind::ToolRefused { tool: "" } if is_own => drop(self.tools.pop()),
            EventKind::ChildBegin { .. } if is_own => {
                self.children = self.children.saturating_add(1);
            }
            EventKind::ChildEnd if is_own => self.children = self.children.saturating_sub(1),
            _ => {}
        }
    }

    /// When the last event was.
    pub(super) fn last_time(&self, run: &Run) -> (Millis, WallTime) {
        self.last.unwrap_or((run.at(), WallTime(0)))
    }

    /// Ends what is open; gives the events for the trace.
    pub(super) fn close(&mut self, run: &mut Run) -> Vec<Event<'static>> {
        let (at, wall) = self.last_time(run);
        let mut added = Vec::new();
        let mut tell = |source, kind| {
            let event = Event { at, wall, source, kind };
            run.observe(&event);
            added.push(event);
        };
        let outs = [(Source::Descendant, &self.descendants), (Source::Own, &self.own)];
        for (source, out) in outs.into_iter().filter(|(_, out)| out.count > 0) {
            let (usage, cost) = out.worst();
            let usage = match self.last_usage {
                Some(last) if usage.total() == 0 => times(last, out.count),
                _ => usage,
            };
            self.usage = self.usage.checked_add(&usage).unwrap_or(self.usage);
            self.is_estimate = true;
            tell(source, EventKind::AttemptFailed { usage: Some(usage), cost: Some(cost) });
            for _ in 1..out.count {
                tell(source, EventKind::AttemptFailed { usage: None, cost: None });
            }
        }
        for hold in self.tool_holds.0.drain(..).filter(|hold| !hold.is_ahead) {
            tell(hold.source, EventKind::ToolCost { tool: "", cost: hold.cost });
        }
        for _ in 0..self.children {
            tell(Source::Own, EventKind::ChildEnd);
        }
        for _ in &self.tools {
            tell(Source::Own, EventKind::ToolRefused { tool: "" });
        }
        if self.is_step_open {
            tell(Source::Own, EventKind::StepEnd);
        }
        added
    }
}
