//! A call in flight: whatever happens to it, it is settled once.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::driver::{DrivenRun, OpenCall, Pricing};
use endstop::core::units::TokenUsage;
use endstop::model::{ModelError, ModelErrorKind};

use super::cap::Form;
use super::take::Taken;
use crate::run::{Identity, Prices, Seat, count};
use endstop_llm::{Api, CallResponse, ToolsOff};

/// Bytes that a token of an estimate has: a byte bound is three to four times too high.
pub(super) const BYTES_OF_A_TOKEN: u64 = 3;

/// A call that has begun.
pub(super) struct Begun {
    pub(super) open: OpenCall,
    pub(super) is_wrap_up: bool,
    pub(super) pricing: Pricing,
    pub(super) driven: DrivenRun,
}

/// What is kept of a request.
pub(super) struct Sent {
    pub(super) identity: Identity,
    pub(super) choices: u64,
    /// What the client asks for, of each choice.
    pub(super) output_cap: Option<u64>,
    /// It is a stream, and the client does not ask for its usage.
    pub(super) lacks_usage: bool,
    /// A later request may go on from its answer by naming that.
    pub(super) may_be_continued: bool,
}

/// A call in flight. One that is dropped, because its client went away, is settled with what came of it.
pub(crate) struct Flight {
    pub(super) open: Option<OpenCall>,
    pub(super) driven: DrivenRun,
    pub(super) pricing: Pricing,
    pub(super) is_wrap_up: bool,
    /// What a rule warns of, for the client.
    pub(super) warning: Option<String>,
    pub(super) first_piece_after: Option<Duration>,
    pub(super) sent: Sent,
    /// The output cap of the reservation, of all choices.
    pub(super) cap: Option<u64>,
    /// How often an upstream refused a cap that the client did not ask for.
    pub(super) lowered: u32,
    /// How what the gateway adds is written, and whether an upstream's refusal has changed that; the field of the cap
    /// once at most.
    pub(super) form: Form,
    pub(super) is_reformed: bool,
    pub(super) has_swapped: bool,
    /// How the wrap-up is kept from tools.
    pub(super) tools_off: ToolsOff,
    /// Bytes of an answer that is read as a whole.
    pub(super) came: u64,
    pub(super) prices: Arc<Prices>,
    /// Given back last.
    pub(super) seat: Seat,
}

impl Flight {
    pub(super) fn new(
        seat: Seat,
        taken: &Taken,
        begun: Begun,
        warning: Option<String>,
        prices: Arc<Prices>,
    ) -> Self {
        let asked = &taken.asked;
        let sent = Sent {
            identity: asked.into(),
            choices: asked.choices.max(1),
            output_cap: asked.output_cap,
            lacks_usage: asked.is_stream && !asked.wants_usage,
            may_be_continued: taken.route.api == Api::Responses,
        };
        Self {
            cap: begun.open.output_cap(),
            open: Some(begun.open),
            driven: begun.driven,
            pricing: begun.pricing,
            is_wrap_up: begun.is_wrap_up,
            warning,
            first_piece_after: None,
            lowered: 0,
            form: Form::default(),
            is_reformed: false,
            has_swapped: false,
            tools_off: ToolsOff::Forbid,
            came: 0,
            prices,
            sent,
            seat,
        }
    }

    /// The output cap to send, of each choice; none where what the client asks for stands.
    pub(super) fn cap_to_send(&self) -> Option<u64> {
        let of_each = self.cap?.checked_div(self.sent.choices)?;
        (self.sent.output_cap != Some(of_each)).then_some(of_each)
    }

    /// The first words have come.
    pub(super) fn has_piece(&mut self) {
        if self.first_piece_after.is_none() {
            self.first_piece_after = self.open.as_ref().map(|open| open.begun().elapsed());
        }
    }

    /// What came of an answer that did not come to its end, or did not say what it used: what was told, and at
    /// least what was counted here.
    pub(super) fn estimate(&self, open: &OpenCall, seen: &CallResponse) -> TokenUsage {
        let counted = seen.output_bytes.div_ceil(BYTES_OF_A_TOKEN);
        let output = self.cap.map_or(counted, |cap| counted.min(cap));
        match &seen.usage {
            Some(told) if told.tokens.total_input() > 0 => {
                TokenUsage { output: told.tokens.output.max(output), ..told.tokens }
            }
            // The output alone was told.
            Some(told) => TokenUsage {
                input: open.estimated_input(),
                output: told.tokens.output.max(output),
                ..TokenUsage::default()
            },
            None => TokenUsage { input: open.estimated_input(), output, ..TokenUsage::default() },
        }
    }

    /// The call failed. `seen` is what is charged; nothing where failing costs nothing.
    pub(super) fn failed(&mut self, error: &ModelError, seen: Option<&CallResponse>) {
        let Some(open) = self.open.take() else { return };
        count(&self.seat.run.counters.failed_calls);
        let usage = seen.map(|seen| self.estimate(&open, seen));
        open.failed(error, usage);
    }

    /// What has come of an answer that is read as a whole, by its length.
    pub(super) fn unread(&self) -> CallResponse {
        CallResponse { output_bytes: self.came, ..CallResponse::default() }
    }

    /// The client has gone away.
    pub(super) fn abandoned(&mut self, seen: &CallResponse) {
        if self.open.is_some() {
            count(&self.seat.run.counters.client_disconnects);
            let error = ModelError::new(ModelErrorKind::Truncated, "the client went away");
            self.failed(&error, Some(seen));
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.abandoned(&self.unread());
    }
}

impl std::fmt::Debug for Flight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flight").field("seat", &self.seat).finish_non_exhaustive()
    }
}
