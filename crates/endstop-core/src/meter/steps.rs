//! The step that is open, or was the last.

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventKind, Source};

/// Attempts of an open step, the run's own or a descendant's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct OpenStep {
    open: bool,
    attempts: u64,
}

/// The known facts about the own step that is open, or was the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Steps {
    own: OpenStep,
    descendant: OpenStep,
    /// Own steps begun and closed.
    begun: u64,
    closed: u64,
    /// Whether the own step dispatched a tool call.
    called_tool: bool,
    /// Whether the last response asked for tool calls.
    asked_for_tools: bool,
    has_reply: bool,
    /// Whether an own step was reported that was not admitted, and none has begun or ended since. It may have begun
    /// anyway: the recorded run had another policy, or a dry run stops nothing.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    refused: bool,
}

impl Steps {
    /// Whether an own step is open.
    #[inline]
    pub(crate) const fn is_open(&self) -> bool {
        self.own.open
    }

    /// Whether a step of the run or of a descendant is open.
    pub(crate) const fn is_anything_open(&self) -> bool {
        self.own.open || self.descendant.open
    }

    /// Whether the event ends the own step that is open. An end without a beginning ends nothing.
    pub(crate) const fn is_closed_by(&self, event: &Event<'_>) -> bool {
        let ends = matches!((event.source, &event.kind), (Source::Own, EventKind::StepEnd));
        ends && self.is_open()
    }

    /// Whether a reserve is that of the next own step and the wrap-up after it.
    pub(crate) const fn is_reserve_ahead(&self, event: &Event<'_>) -> bool {
        let reserves =
            matches!((event.source, &event.kind), (Source::Own, EventKind::Reserve { .. }));
        reserves && !self.is_open()
    }

    /// Whether the run itself has a response outside a step: its driver does not report steps, or not all.
    pub(crate) const fn is_missed_by(&self, event: &Event<'_>) -> bool {
        let replies = matches!((event.source, &event.kind), (Source::Own, EventKind::Reply { .. }));
        replies && !self.own.open && !self.refused
    }

    /// Own steps begun.
    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Own steps closed.
    pub(crate) const fn closed(&self) -> u64 {
        self.closed
    }

    pub(crate) const fn called_tool(&self) -> bool {
        self.called_tool
    }

    /// Whether the model has answered without asking for tools: the step is ending, or ended, naturally.
    pub(crate) const fn ends_naturally(&self) -> bool {
        self.has_reply && !self.asked_for_tools
    }

    pub(crate) const fn own_attempts(&self) -> u64 {
        self.own.attempts
    }

    pub(crate) const fn begin(&mut self, own: bool) {
        let step = if own { &mut self.own } else { &mut self.descendant };
        *step = OpenStep { open: true, attempts: 0 };
        if own {
            self.refused = false;
            self.begun = self.begun.saturating_add(1);
            self.called_tool = false;
            self.asked_for_tools = false;
            self.has_reply = false;
        }
    }

    /// An own step was reported, and is not admitted.
    pub(crate) const fn refuse(&mut self) {
        self.refused = true;
    }

    /// The end of an own step that was not admitted.
    pub(crate) const fn end_refused(&mut self) {
        self.refused = false;
    }

    pub(crate) const fn begin_attempt(&mut self, own: bool) {
        let step = if own { &mut self.own } else { &mut self.descendant };
        step.attempts = step.attempts.saturating_add(1);
        if own {
            // The response before, if there was one, is not the step's answer.
            self.has_reply = false;
        }
    }

    pub(crate) const fn begin_tool(&mut self, own: bool) {
        self.called_tool |= own;
    }

    pub(crate) const fn reply(&mut self, asks_for_tools: bool) {
        self.asked_for_tools = asks_for_tools;
        self.has_reply = true;
    }

    /// The last answer no longer ends anything.
    pub(crate) const fn forget_reply(&mut self) {
        self.has_reply = false;
    }

    pub(crate) const fn end(&mut self, own: bool) {
        if own {
            self.own.open = false;
            self.refused = false;
            self.closed = self.closed.saturating_add(1);
        } else {
            self.descendant.open = false;
        }
    }
}
