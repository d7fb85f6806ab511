//! The last phase: a call in flight is settled exactly once, whatever happens to it.
//!
//! Tool calls that the run does not admit are not passed on; those before them are. So a limit of 3 lets 3 tool calls
//! of a response with 5 run, and the client's next request gets the stop. The gateway refuses tool calls over a limit
//! on them, and every tool call in a wrap-up. A run that stopped earlier lets the steps in flight finish, with their
//! tools; a pause holds the next request.
//!
//! `docs/semantics.md` section 2 defines the charge if a provider reports no usage.

use std::sync::Arc;
use std::time::Duration;

use endstop_core::run::{Directive, Status};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Money, TokenUsage};
use endstop_llm::{Api, CallResponse, Edits};
use endstop_runtime::ToolCall;
use endstop_runtime::observe::Detail;
use endstop_runtime::{
    BYTES_PER_TOKEN, ErrorBilling, OpenCall, Outcome, Received, ResponseReport, RunHandle,
};
use endstop_runtime::{ModelError, ModelErrorKind};
use tokio::time::Instant;

use super::drain::ClientPresence;
use super::negotiate::{Negotiation, NegotiationStep};
use super::parse::ParsedCall;
use super::secrets::Secrets;
use crate::limits::MAX_TOOL_CALLS;
use crate::run::{ConversationPermit, ConversationState, RequestIdentity, RunEntry, stop_of};

/// How a response reached its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// It is complete, and the client has nothing of it yet.
    Withheld,
    /// It is complete, and the client has it.
    Delivered,
    /// It is incomplete.
    Cut,
    /// Up to a tool call that the run does not admit, which is the last one that was seen.
    UpToToolCall,
}

/// The handling of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// It is forwarded.
    Forward,
    /// A retry rule trips: the call is sent again.
    Retry,
    /// The call's share cut it off: the call is repeated without a share.
    RetryWithoutShare,
    /// It is forwarded with this number of its tool calls, at least one.
    ForwardToolCalls(usize),
    /// It asks for tools, and not even the first may be called: the run has stopped.
    Stop,
}

/// How a call is paid for.
#[derive(Debug)]
pub(super) struct CallTerms {
    /// The run of the conversation.
    pub(super) run: RunHandle,
    pub(super) is_wrap_up: bool,
    /// The charge for an error that a success carries instead of output, if known.
    pub(super) inner_error: ErrorBilling,
}

/// The parts of a request that settlement needs.
#[derive(Debug)]
struct SentRequest {
    identity: RequestIdentity,
    /// Whether a later request may continue the response by its id.
    may_be_continued: bool,
}

/// A call that is sent. One that is dropped, because its client disconnected, is settled with the received part.
pub(super) struct InFlightCall {
    reservation: Reservation,
    terms: CallTerms,
    request: SentRequest,
    negotiation: Negotiation,
    secrets: Secrets,
    first_text_at: Option<Instant>,
    client: ClientPresence,
    /// Released last.
    permit: ConversationPermit,
}

/// A call that is settled. Its conversation takes the next call when this is dropped.
#[derive(Debug)]
pub(super) struct SettledCall {
    disposition: Disposition,
    run: RunHandle,
    permit: ConversationPermit,
}

/// The reservation of a call in flight. Settles as abandoned by the client if it is dropped.
struct Reservation {
    /// `None` once it is taken out to be settled.
    open: Option<OpenCall>,
    run: Arc<RunEntry>,
    /// The output cap that was sent, of all choices.
    output_cap: Option<u64>,
    /// Bytes of a response that is read as a whole.
    received: u64,
    /// Whether a closed connection ends the making of the response: of a stream.
    is_stream: bool,
    choices: u64,
    /// The error that the upstream answered with, if it costs nothing whatever its body says.
    free_error: Option<ModelError>,
}

impl Reservation {
    /// The received part of an incomplete response.
    fn of(&self, seen: &CallResponse) -> Received {
        Received {
            usage: seen.usage.as_ref().map(|report| report.tokens),
            output_bytes: seen.output_bytes,
            is_stream: self.is_stream,
            choices: self.choices,
        }
    }

    /// Takes the open call out, to settle it in another way.
    #[expect(clippy::unreachable, reason = "only `drop` leaves it empty, and this takes `self`")]
    fn disarm(mut self) -> OpenCall {
        match self.open.take() {
            Some(open) => open,
            None => unreachable!("a reservation is taken out once"),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.run.counters().client_disconnect();
        self.run.counters().failed_call();
        let error = self.free_error.take().unwrap_or_else(client_went_away);
        open.failed(&error, &self.of(&unread(self.received)));
    }
}

impl InFlightCall {
    /// The secrets of its request.
    pub(super) const fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn new(
        open: OpenCall,
        terms: CallTerms,
        permit: ConversationPermit,
        parsed: &ParsedCall,
        negotiation: Negotiation,
        secrets: Secrets,
        client: ClientPresence,
    ) -> Box<Self> {
        let reservation = Reservation {
            open: Some(open),
            run: Arc::clone(permit.run()),
            output_cap: negotiation.output_cap(),
            received: 0,
            is_stream: parsed.request().is_stream || parsed.request().is_list,
            choices: parsed.request().choices,
            free_error: None,
        };
        let request = SentRequest {
            identity: parsed.request().into(),
            may_be_continued: parsed.api() == Api::Responses,
        };
        Box::new(Self {
            reservation,
            terms,
            request,
            negotiation,
            secrets,
            first_text_at: None,
            client,
            permit,
        })
    }

    /// The run of the conversation.
    pub(super) const fn run(&self) -> &RunHandle {
        &self.terms.run
    }

    /// The run that pays.
    pub(super) const fn entry(&self) -> &Arc<RunEntry> {
        self.permit.run()
    }

    pub(super) const fn client(&self) -> &ClientPresence {
        &self.client
    }

    pub(super) const fn negotiation(&self) -> &Negotiation {
        &self.negotiation
    }

    /// Finds another form of the request that these words of a refusal do not concern. The call keeps its reservation.
    pub(super) fn negotiate<'p>(
        &mut self,
        words: &str,
        parsed: &'p ParsedCall,
    ) -> Option<Edits<'p>> {
        let step = self.negotiation.refused(words, parsed);
        self.reservation.output_cap = self.negotiation.output_cap();
        match step {
            NegotiationStep::Retry(edits) => Some(edits),
            NegotiationStep::Final => None,
        }
    }

    /// The run, and the counter of the bytes received of a non-streaming response.
    pub(super) const fn reading(&mut self) -> (&RunHandle, &mut u64) {
        (&self.terms.run, &mut self.reservation.received)
    }

    /// Notes an error that costs nothing before its body is read: then neither an abort nor a lost client makes it cost something.
    pub(super) fn answered_free(&mut self, error: ModelError) {
        self.reservation.free_error = Some(error);
    }

    /// Notes that a part of the response has arrived.
    pub(super) fn note_text(&mut self) {
        if self.first_text_at.is_none() {
            self.first_text_at = Some(Instant::now());
        }
    }

    /// Returns how many of these tool calls may be passed on, the first `passed` of which are already.
    pub(super) fn admits(&self, calls: &[endstop_llm::ToolCall], passed: usize) -> usize {
        if stop_of_call(self.entry(), self.run()).is_some() {
            return calls.len();
        }
        let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        let is_refused = |at: &usize| {
            let before = names.get(..*at).unwrap_or_default();
            let directive = names.get(*at).map(|tool| self.run().would_call(before, tool));
            directive.is_some_and(|it| !it.admits() && it != Directive::Pause)
        };
        (passed..calls.len()).find(is_refused).unwrap_or(calls.len())
    }

    /// Settles a failed call, of which `seen` was received.
    pub(super) fn failed(self: Box<Self>, error: &ModelError, seen: &CallResponse) -> SettledCall {
        let Self { reservation, terms, permit, client, .. } = *self;
        let received = reservation.of(seen);
        let open = reservation.disarm();
        permit.run().counters().failed_call();
        open.failed(error, &received);
        if client.is_gone() {
            permit.run().counters().client_disconnect();
            permit.conversation().state().leave_to_others();
        }
        SettledCall { disposition: Disposition::Forward, run: terms.run, permit }
    }

    /// Settles a failed call with the bytes received of a non-streaming response.
    pub(super) fn failed_after_part(self: Box<Self>, error: &ModelError) -> SettledCall {
        let seen = unread(self.reservation.received);
        self.failed(error, &seen)
    }

    /// Settles a call after its client disconnected.
    pub(super) fn abandoned(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        self.client.leave();
        self.failed(&client_went_away(), seen)
    }

    /// Settles a complete response that lost its client.
    fn drained(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        self.entry().counters().client_disconnect();
        let settled = self.unused(seen, &client_went_away(), Disposition::Forward);
        settled.permit.conversation().state().leave_to_others();
        settled
    }

    /// Settles a complete response that the share of its call cut off: the client gets another one.
    fn cut_by_share(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        let error = ModelError::new(ModelErrorKind::Truncated, "a fair share cut the response off");
        self.unused(seen, &error, Disposition::RetryWithoutShare)
    }

    /// Settles a complete response that no client uses: its usage is spent, but the conversation gets none.
    fn unused(
        self: Box<Self>,
        seen: &CallResponse,
        error: &ModelError,
        disposition: Disposition,
    ) -> SettledCall {
        let Self { reservation, terms, permit, .. } = *self;
        let received = reservation.of(seen);
        let open = reservation.disarm();
        permit.run().counters().failed_call();
        let charge = open.charge(&received, &report_of(seen, true));
        open.failed_at(error, charge);
        SettledCall { disposition, run: terms.run, permit }
    }

    /// Settles a complete response that its client does not have yet.
    pub(super) fn replied(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        let open = self.reservation.open.as_ref();
        let is_cut = open.is_some_and(|open| {
            open.is_cut_by_share(seen.finish.as_deref()) && open.can_be_repeated()
        });
        let is_wanted = !self.client.is_gone() && stop_of_call(self.entry(), self.run()).is_none();
        if is_cut && is_wanted {
            return self.cut_by_share(seen);
        }
        self.settle(seen, Delivery::Withheld)
    }

    /// Settles a complete response that its client has. A retry rule that trips shows in the events only.
    pub(super) fn delivered(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        match self.failed_inside(seen) {
            Ok(call) => call.settle(seen, Delivery::Delivered),
            Err(settled) => settled,
        }
    }

    /// Settles a response that begins as a success and is an error, as a failed attempt. Returns the call if it is none.
    pub(super) fn failed_inside(
        self: Box<Self>,
        seen: &CallResponse,
    ) -> Result<Box<Self>, SettledCall> {
        let Some(words) = seen.error.as_deref() else { return Ok(self) };
        let billing = self.terms.inner_error;
        let words = self.secrets.redact_words(words);
        let error = ModelError { billing, ..ModelError::new(ModelErrorKind::Unavailable, words) };
        Err(self.failed(&error, seen))
    }

    /// Settles an incomplete response: by the error that it carries, or else for this reason.
    pub(super) fn broken(self: Box<Self>, seen: &CallResponse, why: &str) -> SettledCall {
        match self.failed_inside(seen) {
            Ok(call) => call.failed(&ModelError::new(ModelErrorKind::Truncated, why), seen),
            Err(settled) => settled,
        }
    }

    /// Settles a response that the provider produces elsewhere and whose usage is never reported here. Its output
    /// counts as the whole reservation, or as none if nothing is reserved.
    pub(super) fn only_begun(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        let cap = self.reservation.output_cap;
        let output_bytes = cap.map_or(0, |cap| cap.saturating_mul(BYTES_PER_TOKEN));
        self.settle(&CallResponse { output_bytes, ..seen.clone() }, Delivery::Delivered)
    }

    /// Settles a call whose run has stopped in the middle of the response.
    pub(super) fn cut_short(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        self.settle(seen, Delivery::Cut)
    }

    /// Settles a call whose run has stopped while its response was read as a whole.
    pub(super) fn cut_after_part(self: Box<Self>) -> SettledCall {
        let seen = unread(self.reservation.received);
        self.cut_short(&seen)
    }

    /// Settles a response up to a tool call that the run does not admit. It has stopped then.
    pub(super) fn refused_tool_call(self: Box<Self>, seen: &CallResponse) -> SettledCall {
        self.settle(seen, Delivery::UpToToolCall)
    }

    /// Settles a call that a gateway before the upstream has stopped: it was not made, and costs nothing.
    pub(super) fn stopped_upstream(self: Box<Self>) -> SettledCall {
        let Self { reservation, terms, permit, client, .. } = *self;
        let open = reservation.disarm();
        permit.run().counters().upstream_call_not_made();
        if client.is_gone() {
            permit.run().counters().client_disconnect();
        }
        let mut state = permit.conversation().state();
        open.replied(&Outcome { cost: Some(Cost::Known(Money::ZERO)), ..Outcome::default() });
        state.close_step();
        drop(state);
        SettledCall { disposition: Disposition::Forward, run: terms.run, permit }
    }

    fn settle(self: Box<Self>, seen: &CallResponse, delivery: Delivery) -> SettledCall {
        let is_complete =
            delivery != Delivery::Cut && (delivery != Delivery::UpToToolCall || seen.is_whole);
        if self.client.is_gone() {
            return if is_complete { self.drained(seen) } else { self.abandoned(seen) };
        }
        let Self { reservation, terms, request, first_text_at, permit, .. } = *self;
        let received = reservation.of(seen);
        let open = reservation.disarm();
        let charge = open.charge(&received, &report_of(seen, is_complete));
        // The usage report, if it is complete.
        let counted = seen.usage.as_ref().filter(|_| !charge.is_estimate);
        let calls = if delivery == Delivery::Cut { &[] } else { &*seen.tool_calls };
        let calls: Vec<ToolCall> = calls.iter().take(MAX_TOOL_CALLS).map(tool_call).collect();
        let lowered_by = open.lowered_by();
        let first_piece_after: Option<Duration> =
            first_text_at.map(|at| at.saturating_duration_since(open.begun()));
        let outcome = Outcome {
            model: seen.model.as_deref(),
            usage: charge.usage,
            cost: Some(charge.cost).filter(|cost| *cost != Cost::Unpriced),
            is_estimate: charge.is_estimate,
            unconfirmed: charge.unconfirmed,
            finish: seen.finish.as_deref(),
            tool_calls: &calls,
            text: &seen.text,
            reasoning_tokens: counted.and_then(|report| report.reasoning),
            first_piece_after,
        };
        let closing = Closing { terms: &terms, request: &request, entry: permit.run() };
        let mut state = permit.conversation().state();
        let retries = open.replied(&outcome) == Directive::Retry && delivery == Delivery::Withheld;
        let disposition = if retries {
            Disposition::Retry
        } else {
            let counted = counted.is_some().then_some(&charge.usage);
            closing.close(&mut state, seen, calls, counted, lowered_by)
        };
        drop(state);
        SettledCall { disposition, run: terms.run, permit }
    }
}

impl std::fmt::Debug for InFlightCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlightCall").field("permit", &self.permit).finish_non_exhaustive()
    }
}

impl SettledCall {
    pub(super) const fn disposition(&self) -> Disposition {
        self.disposition
    }

    /// Whether its share cut the response off.
    pub(super) fn is_cut_by_share(&self) -> bool {
        self.disposition == Disposition::RetryWithoutShare
    }

    /// The run of the conversation.
    pub(super) const fn run(&self) -> &RunHandle {
        &self.run
    }

    /// The run that pays.
    pub(super) const fn entry(&self) -> &Arc<RunEntry> {
        self.permit.run()
    }

    /// Returns why nothing more begins.
    pub(super) fn stop(&self) -> Option<StopSignal> {
        stop_of_call(self.entry(), &self.run)
    }
}

/// The report on a response, for its charge.
fn report_of(seen: &CallResponse, is_complete: bool) -> ResponseReport<'_> {
    ResponseReport { usage: seen.usage.as_ref(), model: seen.model.as_deref(), is_complete }
}

/// The end of a step, or its wait for the results of tools.
struct Closing<'c> {
    terms: &'c CallTerms,
    request: &'c SentRequest,
    entry: &'c RunEntry,
}

impl Closing<'_> {
    /// Ends the step, or leaves it open until the tools have run.
    fn close(
        &self,
        state: &mut ConversationState,
        seen: &CallResponse,
        calls: Vec<ToolCall>,
        counted: Option<&TokenUsage>,
        lowered_by: Option<StopReason>,
    ) -> Disposition {
        let (run, identity, id) =
            (&self.terms.run, self.request.identity.clone(), seen.id.as_deref());
        if let (Some(id), Some(counted), true) = (id, counted, self.request.may_be_continued) {
            self.entry.responses().remember(id, counted.total());
        }
        let was_stopped = stop_of_call(self.entry, run).is_some();
        if calls.is_empty() {
            if !self.terms.is_wrap_up {
                self.terms.run.end_by_cap(lowered_by, seen.finish.as_deref());
            }
            state.memory_mut().remember_response(identity, counted, id, Vec::new());
            state.close_step();
            return Disposition::Forward;
        }
        let asked = calls.len();
        let admitted: Vec<ToolCall> =
            calls.into_iter().filter(|call| self.begin_tool(call)).collect();
        let (admitted_calls, is_paused) = (admitted.len(), run.status() == Status::Paused);
        state.memory_mut().remember_response(identity, counted, id, admitted);
        state.await_results();
        match admitted_calls {
            _ if was_stopped || is_paused || admitted_calls == asked => Disposition::Forward,
            0 => {
                // No result can come.
                state.close_step();
                Disposition::Stop
            }
            admitted => Disposition::ForwardToolCalls(admitted),
        }
    }

    fn begin_tool(&self, call: &ToolCall) -> bool {
        let detail = Detail::Tool { call, outcome: None, took: Duration::ZERO };
        self.terms.run.begin_forwarded_tool_call(&call.tool, detail)
    }
}

fn tool_call(call: &endstop_llm::ToolCall) -> ToolCall {
    let endstop_llm::ToolCall { id, tool, arguments } = call.clone();
    ToolCall { id, tool, arguments }
}

/// Returns why nothing more begins: for the run that pays first.
fn stop_of_call(entry: &RunEntry, run: &RunHandle) -> Option<StopSignal> {
    entry.stop().or_else(|| stop_of(run))
}

fn client_went_away() -> ModelError {
    ModelError::new(ModelErrorKind::ClientLeft, "the client disconnected")
}

/// A response that was not parsed, by its length.
fn unread(bytes: u64) -> CallResponse {
    CallResponse { output_bytes: bytes, ..CallResponse::default() }
}
