//! Settling a call whose answer came, or was cut by the run itself.
//!
//! Tool calls that the run does not let begin are not passed on: those before them are, so that a limit of 3 lets 3
//! calls of a batch of 5 run, and the client's next request gets the stop. Refused are calls beyond a limit on them,
//! and those of a wrap-up. What stopped the run before lets the steps in flight end whole, with their tools; a pause
//! holds the next request.

use std::borrow::Cow;
use std::time::Duration;

use endstop::agent::driver::Outcome;
use endstop::core::condition::fact::normalised_finish;
use endstop::core::event::EventKind;
use endstop::core::run::{Directive, Status};
use endstop::core::signal::{StopReason, StopSignal};
use endstop::core::units::{Cost, Money, TokenUsage, WallTime};
use endstop::ledger::Amounts;
use endstop::message::ToolCall;
use endstop::model::{ModelError, ModelErrorKind};
use endstop::observe::Detail;

use super::flight::{BYTES_OF_A_TOKEN, Flight};
use crate::run::{LaneState, Step, close_step, stop_of, uncount};
use endstop_llm::{CallResponse, ReportedUsage};

/// Most calls of one reply that are told apart.
const MAX_CALLS: usize = 1_024;

/// How an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// Whole; nobody has it yet.
    Held,
    /// Whole; its client has it.
    Passed,
    /// Not to its end.
    Cut,
    /// Up to a tool call that the run does not let begin, which is the last one that was seen.
    Refused,
}

/// What the run makes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is passed on.
    Pass,
    /// A retry rule dislikes it.
    Again,
    /// Only so many of its tool calls, at least one, are passed on.
    Keep(usize),
    /// It asks for tools, and not even the first may be called: the run has stopped.
    Refused,
}

impl Flight {
    /// The answer came to its end, and is not passed on yet.
    pub(super) fn replied(&mut self, seen: &CallResponse) -> Settled {
        self.settle(seen, Came::Held)
    }

    /// The answer came to its end, and its client has it. It cannot be dropped any more: a retry rule that
    /// dislikes it shows in the events alone.
    pub(super) fn passed(&mut self, seen: &CallResponse) {
        if !self.erred(seen) {
            self.settle(seen, Came::Passed);
        }
    }

    /// An answer that begins as a success and is an error is a failed attempt. False where it is none, or the call
    /// is settled already.
    pub(super) fn erred(&mut self, seen: &CallResponse) -> bool {
        let Some(words) = seen.error.as_deref().filter(|_| self.open.is_some()) else {
            return false;
        };
        // An error that nothing came of, and that tells no usage, costs nothing.
        let is_charged = seen.usage.is_some() || seen.output_bytes > 0;
        let error = ModelError::new(ModelErrorKind::Unavailable, words);
        self.failed(&error, is_charged.then_some(seen));
        true
    }

    /// The answer is made elsewhere, and what it uses is never told here: its output counts as all that is held for
    /// it, or as none where nothing is.
    pub(super) fn only_begun(&mut self, seen: &CallResponse) {
        let output_bytes = self.cap.map_or(0, |cap| cap.saturating_mul(BYTES_OF_A_TOKEN));
        self.settle(&CallResponse { output_bytes, ..seen.clone() }, Came::Passed);
    }

    /// The run has stopped in the middle of the answer, or before it.
    pub(super) fn cut_short(&mut self, seen: &CallResponse) {
        self.settle(seen, Came::Cut);
    }

    /// The answer has come up to a tool call that the run does not let begin. It has stopped then.
    pub(super) fn refused(&mut self, seen: &CallResponse) {
        self.settle(seen, Came::Refused);
    }

    /// How many of these calls may be passed on, the first `passed` of which are already.
    pub(super) fn admits(&self, calls: &[endstop_llm::ToolCall], passed: usize) -> usize {
        if self.stop().is_some() {
            return calls.len();
        }
        let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        let is_refused = |at: &usize| {
            let before = names.get(..*at).unwrap_or_default();
            let directive = names.get(*at).map(|tool| self.driven.would_call(before, tool));
            directive.is_some_and(|it| !it.admits() && it != Directive::Pause)
        };
        (passed..calls.len()).find(is_refused).unwrap_or(calls.len())
    }

    /// Why nothing more begins.
    pub(super) fn stop(&self) -> Option<StopSignal> {
        self.seat.run.stop().or_else(|| stop_of(&self.driven))
    }

    /// A gateway before the upstream has stopped the call: it was not made. The stop is passed on.
    pub(super) fn stopped_before(&mut self) {
        let Some(open) = self.open.take() else { return };
        uncount(&self.seat.run.counters.upstream_calls);
        let mut state = self.seat.lane.state();
        open.replied(&Outcome { cost: Some(Cost::Known(Money::ZERO)), ..Outcome::default() });
        close_step(&mut state);
    }

    /// What a call costs: as the provider billed it; else for the model that was asked for, or for the one that
    /// answered where that is dearer.
    fn price(&self, told: &ReportedUsage, answered: Option<&str>, at: WallTime) -> Cost {
        if let Some(billed) = told.billed {
            return Cost::Known(billed);
        }
        let asked = self.pricing.exact(&told.counts, at, &told.context);
        let Some(name) = answered.filter(|name| *name != self.pricing.model()) else {
            return asked;
        };
        let pricing = self.prices.of_answered(self.pricing.provider(), name);
        match (asked, pricing.exact(&told.counts, at, &told.context)) {
            (Cost::Known(asked), Cost::Known(answered)) => Cost::Known(asked.max(answered)),
            (Cost::Unpriced, answered) => answered,
            (asked, _) => asked,
        }
    }

    fn settle(&mut self, seen: &CallResponse, came: Came) -> Settled {
        let is_whole = came != Came::Cut && (came != Came::Refused || seen.is_whole);
        let Some(open) = self.open.take() else { return Settled::Pass };
        let reported = seen.usage.as_ref().filter(|_| is_whole);
        // No output for an answer with words is no count.
        let told = reported.filter(|told| told.is_whole(seen.output_bytes));
        let usage = match (told, reported) {
            (Some(told), _) => told.tokens,
            (None, Some(half)) if half.tokens.output > 0 && !half.is_preliminary => TokenUsage {
                input: open.estimated_input(),
                output: half.tokens.output,
                ..TokenUsage::default()
            },
            _ => self.estimate(&open, seen),
        };
        let priced = reported.map(|report| match told {
            Some(told) => Cow::Borrowed(told),
            None => Cow::Owned(report.with_tokens(&usage)),
        });
        let cost = priced.map(|told| self.price(&told, seen.model.as_deref(), open.at()));
        let calls = if came == Came::Cut { &[] } else { &*seen.tool_calls };
        let calls: Vec<ToolCall> = calls.iter().take(MAX_CALLS).map(tool_call).collect();
        let lowered_by = open.lowered_by();
        let outcome = Outcome {
            model: seen.model.as_deref(),
            usage,
            cost: cost.filter(|cost| *cost != Cost::Unpriced),
            is_estimate: told.is_none(),
            finish: seen.finish.as_deref(),
            tool_calls: &calls,
            text: &seen.text,
            reasoning_tokens: told.and_then(|told| told.reasoning),
            first_piece_after: self.first_piece_after,
        };
        let is_told = told.is_some();
        let mut state = self.seat.lane.state();
        if open.replied(&outcome) == Directive::Retry && came == Came::Held {
            return Settled::Again;
        }
        self.close(&mut state, seen, &calls, is_told.then_some(&usage), lowered_by)
    }

    /// Ends the step, or leaves it open until the tools have run.
    fn close(
        &self,
        state: &mut LaneState,
        seen: &CallResponse,
        calls: &[ToolCall],
        told: Option<&TokenUsage>,
        lowered_by: Option<StopReason>,
    ) -> Settled {
        let id = seen.id.as_deref();
        if let (Some(id), Some(told), true) = (id, told, self.sent.may_be_continued) {
            self.seat.run.answers.keep(id, told.total());
        }
        let was_stopped = self.stop().is_some();
        if calls.is_empty() {
            self.end_by_cap(seen, lowered_by);
            state.memory.keep_reply(self.sent.identity, told, id, Vec::new());
            close_step(state);
            return Settled::Pass;
        }
        let admitted: Vec<ToolCall> =
            calls.iter().filter(|call| self.begin_tool(call)).cloned().collect();
        let (admitted_calls, is_paused) = (admitted.len(), self.driven.status() == Status::Paused);
        state.memory.keep_reply(self.sent.identity, told, id, admitted);
        state.step = Step::Replied;
        match admitted_calls {
            _ if was_stopped || is_paused || admitted_calls == calls.len() => Settled::Pass,
            0 => {
                // Nothing is waited for.
                close_step(state);
                Settled::Refused
            }
            keep => Settled::Keep(keep),
        }
    }

    fn begin_tool(&self, call: &ToolCall) -> bool {
        let detail = Detail::Tool { call, outcome: None, took: Duration::ZERO };
        let begins = self.driven.intend(&EventKind::ToolBegin { tool: &call.tool }, detail);
        if begins.admits() {
            let one = Amounts { tool_calls: 1, ..Amounts::default() };
            self.driven.budget().charge(one);
            return true;
        }
        self.driven.tell(&EventKind::ToolRefused { tool: &call.tool }, detail);
        false
    }

    /// A reply that a lowered output cap cut short is no end of the model's own.
    fn end_by_cap(&self, seen: &CallResponse, lowered_by: Option<StopReason>) {
        let Some(reason) = lowered_by.filter(|_| !self.is_wrap_up) else { return };
        if seen.finish.as_deref().map(normalised_finish).as_deref() == Some("length") {
            let signal = StopSignal::new(reason)
                .with_message("the reply was cut at what the limit left for it")
                .with_source("gateway");
            self.driven.raise(&signal);
        }
    }
}

fn tool_call(call: &endstop_llm::ToolCall) -> ToolCall {
    let endstop_llm::ToolCall { id, tool, arguments } = call.clone();
    ToolCall { id, tool, arguments }
}
