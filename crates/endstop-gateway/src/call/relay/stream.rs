//! Responses that are passed on as they arrive.
//!
//! A stream whose run has stopped ends between two blocks with a stop response, or its connection is cut
//! (`docs/semantics.md` sections 6 and 9).

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_llm::StreamSplitter;
use endstop_llm::sse::SseEvent;
use endstop_llm::{Api, CallResponse, EventContent, OutputContract, StreamReader, is_done};
use endstop_runtime::CancelOn;
use endstop_runtime::observe::Detail;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use tokio::time::Instant;

use super::super::parse::ParsedCall;
use super::super::respond::stop_text;
use super::super::secrets::Secrets;
use super::super::settle::InFlightCall;
use crate::body::{BodyError, BodyPart};
use crate::decode::Decoder;
use crate::limits::MAX_DECODED_PART;
use crate::upstream::UpstreamBody;

/// The mark by which the clients of an API recognize the end of a stream, besides the end of the connection. By then
/// the call has to be settled: the client may send its next request immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndMark {
    /// `[DONE]`; usage comes after the finish reason.
    Done,
    /// The last event of the response.
    LastEvent,
    /// Nothing else.
    Nothing,
}

impl EndMark {
    const fn of(api: Api) -> Self {
        match api {
            Api::Messages | Api::Responses => Self::LastEvent,
            Api::Gemini => Self::Nothing,
            Api::Chat => Self::Done,
        }
    }
}

/// Resolves with the directive that ends a stream, when its run is aborted or a time limit stops it.
type RunEnd = Pin<Box<dyn Future<Output = Directive> + Send>>;

/// The phase of a stream.
enum StreamPhase {
    /// Its call is in flight.
    InFlight { call: Box<InFlightCall>, end: RunEnd, upstream: UpstreamBody },
    /// Its call is settled; the rest is passed on.
    Settled { upstream: UpstreamBody },
    /// Its connection is cut with the next part.
    Cut,
    /// Nothing more comes.
    Ended,
}

impl StreamPhase {
    fn call(&self) -> Option<&InFlightCall> {
        match self {
            Self::InFlight { call, .. } => Some(call),
            Self::Settled { .. } | Self::Cut | Self::Ended => None,
        }
    }

    /// Closes the upstream, and takes the call out if it is in flight.
    fn end(&mut self) -> Option<Box<InFlightCall>> {
        match std::mem::replace(self, Self::Ended) {
            Self::InFlight { call, .. } => Some(call),
            Self::Settled { .. } | Self::Cut | Self::Ended => None,
        }
    }

    /// Takes the call out to be settled; the rest of the stream is passed on.
    fn settle(&mut self) -> Option<Box<InFlightCall>> {
        match std::mem::replace(self, Self::Ended) {
            Self::InFlight { call, upstream, .. } => {
                *self = Self::Settled { upstream };
                Some(call)
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

/// A part of a stream that was read.
struct ReadPart {
    /// The bytes that are passed on.
    passed: PassedBytes,
    /// The model's text in them.
    text: String,
    /// Whether the mark of the end is in them.
    has_end: bool,
    /// A tool call that the run does not admit; the stream ends before it.
    refused: Option<RefusedToolCall>,
}

impl ReadPart {
    fn copied(bytes: BytesMut, text: String, has_end: bool) -> Self {
        Self { passed: PassedBytes::Copied(bytes), text, has_end, refused: None }
    }
}

/// The bytes of a part that are passed on.
enum PassedBytes {
    /// Unchanged.
    Same(Bytes),
    /// Without those that the client does not get.
    Copied(BytesMut),
}

impl PassedBytes {
    fn freeze(self) -> Bytes {
        match self {
            Self::Same(bytes) => bytes,
            Self::Copied(bytes) => bytes.freeze(),
        }
    }

    fn into_mut(self) -> BytesMut {
        match self {
            Self::Same(bytes) => BytesMut::from(bytes),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A tool call in a stream that the run does not admit.
struct RefusedToolCall {
    /// The response received before it began, and with it.
    seen: CallResponse,
    /// The part of the event that it began with which is passed on.
    rest: Vec<u8>,
}

/// The replacement for an event that is not passed on: nothing, or an error without keys.
fn instead_of(
    raw: &[u8],
    is_stripped: bool,
    has_error: bool,
    secrets: &Secrets,
) -> Option<Vec<u8>> {
    if is_stripped {
        return Some(Vec::new());
    }
    match has_error.then(|| secrets.redact(raw)) {
        Some(Cow::Owned(redacted)) => Some(redacted),
        _ => None,
    }
}

/// A stream of events on its way to the client.
pub(super) struct StreamRelay {
    phase: StreamPhase,
    decoder: Option<Decoder>,
    splitter: StreamSplitter,
    reader: Box<dyn StreamReader>,
    end_mark: EndMark,
    strips_usage: bool,
    /// The request demands a tool call or JSON of some schema: text cannot end it.
    needs_structure: bool,
    /// Whether something of the stream is passed on.
    has_passed: bool,
    /// Bytes of an incomplete event in the splitter.
    incomplete: usize,
    /// Bytes forwarded unparsed, after an event was too long or because the encoding is unknown.
    unread: Option<u64>,
    /// Tool calls that are passed on, and the one that is not.
    passed_calls: usize,
    secrets: Secrets,
}

/// The part of a response that its client did not receive, and that is read anyway.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unreceived {
    /// None.
    Nothing,
    /// The usage report after the output.
    Usage,
    /// Output; with the time of the disconnect.
    Output(Instant),
}

impl StreamRelay {
    pub(super) fn new(
        call: Box<InFlightCall>,
        parsed: &ParsedCall,
        headers: &mut HeaderMap,
        upstream: UpstreamBody,
        max_event: usize,
    ) -> Self {
        let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let decoder = encoding.map(|encoding| Decoder::new(encoding, MAX_DECODED_PART));
        let (decoder, unread) = match decoder {
            None => (None, None),
            Some(Ok(decoder)) => {
                headers.remove(CONTENT_ENCODING);
                (Some(decoder).filter(|decoder| !decoder.is_identity()), None)
            }
            Some(Err(_)) => (None, Some(0)),
        };
        let (run, request) = (call.run().clone(), parsed.request());
        let end: RunEnd = Box::pin(async move { run.stopped(CancelOn::Abort).await });
        Self {
            decoder,
            splitter: StreamSplitter::new(request.is_list, max_event),
            reader: parsed.dialect().stream(request),
            end_mark: EndMark::of(parsed.api()),
            strips_usage: call.negotiation().forces_usage(),
            needs_structure: request.contract != OutputContract::Text,
            has_passed: false,
            incomplete: 0,
            unread,
            passed_calls: 0,
            secrets: call.secrets().clone(),
            phase: StreamPhase::InFlight { call, end, upstream },
        }
    }

    pub(super) const fn is_in_flight(&self) -> bool {
        matches!(self.phase, StreamPhase::InFlight { .. })
    }

    /// Whether nothing more comes.
    pub(super) const fn is_ended(&self) -> bool {
        matches!(self.phase, StreamPhase::Ended)
    }

    /// The part of the response that its client, which disconnects, does not receive. If that is more than its usage,
    /// the call has lost its client.
    pub(super) fn leave(&mut self, reads_to_end: bool) -> Unreceived {
        let seen = self.reader.response();
        let is_finished = seen.is_whole || seen.finish.is_some();
        let has_usage = seen.usage.as_ref().is_some_and(|usage| usage.is_whole(seen.output_bytes));
        match self.phase.call() {
            Some(_) if is_finished && !has_usage => Unreceived::Usage,
            Some(call) if !is_finished && reads_to_end => Unreceived::Output(call.client().leave()),
            _ => Unreceived::Nothing,
        }
    }

    /// Ends the call without its client, which does not read: the run has stopped.
    pub(super) fn cut_unread(&mut self) {
        if self.is_in_flight() {
            let _ = self.end_here(BytesMut::new(), Directive::Abort);
            self.phase = StreamPhase::Cut;
        }
    }

    /// The next part for the client.
    pub(super) fn next_part(&mut self, cx: &mut Context<'_>) -> BodyPart {
        loop {
            let upstream = match &mut self.phase {
                StreamPhase::Ended => return Poll::Ready(None),
                StreamPhase::Cut => {
                    self.phase = StreamPhase::Ended;
                    return Poll::Ready(Some(Err(BodyError::Cut)));
                }
                StreamPhase::InFlight { end, upstream, .. } => {
                    if let Poll::Ready(directive) = end.as_mut().poll(cx) {
                        return self.end_here(BytesMut::new(), directive);
                    }
                    upstream
                }
                StreamPhase::Settled { upstream } => upstream,
            };
            match upstream.poll_data(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return self.finish(),
                Poll::Ready(Some(Err(error))) => return self.broken(&error.to_string()),
                Poll::Ready(Some(Ok(bytes))) => {
                    if let Some(part) = self.take(bytes) {
                        return part;
                    }
                }
            }
        }
    }

    /// The known part of the response. Bytes forwarded unparsed count by their number.
    fn seen(&self) -> CallResponse {
        self.with_unread(self.reader.response())
    }

    fn with_unread(&self, seen: &CallResponse) -> CallResponse {
        let output_bytes = seen.output_bytes.saturating_add(self.unread.unwrap_or(0));
        CallResponse { output_bytes, ..seen.clone() }
    }

    /// Records data from the upstream. Returns `None` if nothing of it is passed on yet.
    fn take(&mut self, bytes: Bytes) -> Option<BodyPart> {
        let bytes = match self.decoder.as_mut().map(|decoder| decoder.push(&bytes)) {
            None => bytes,
            Some(Ok(decoded)) => decoded,
            Some(Err(_)) => return Some(self.broken("the upstream's encoding is broken")),
        };
        if let Some(unread) = &mut self.unread {
            *unread += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Some(Poll::Ready(Some(Ok(bytes))));
        }
        let part = self.read(&bytes);
        if let StreamPhase::InFlight { call, .. } = &mut self.phase {
            call.note_text();
            // A run that stopped earlier lets calls in flight finish.
            let was_over = call.run().is_over();
            let directive = call.run().record(&EventKind::Piece { text: &part.text }, Detail::None);
            if let Some(refused) = part.refused {
                return Some(self.end_refused(part.passed.into_mut(), refused));
            }
            let stops = directive.stops() && !was_over;
            if stops {
                return Some(self.end_here(part.passed.into_mut(), directive));
            }
            // Before the client can send its next request.
            if part.has_end
                && let Some(call) = self.phase.settle()
            {
                call.delivered(self.reader.response());
            }
        }
        let passed = part.passed.freeze();
        (!passed.is_empty()).then_some(Poll::Ready(Some(Ok(passed))))
    }

    /// Reads the received data, up to a tool call that the run does not admit.
    fn read(&mut self, bytes: &Bytes) -> ReadPart {
        let (mut left, mut text, mut has_end) = (&**bytes, String::new(), false);
        let mut out = BytesMut::new();
        let (incomplete_before, mut passed) = (self.incomplete, 0usize);
        let mut is_as_it_came = incomplete_before == 0;
        loop {
            let frame = match self.splitter.next_frame(&mut left) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    self.unread.get_or_insert(0);
                    out.extend_from_slice(&self.splitter.take_rest());
                    out.extend_from_slice(left);
                    self.incomplete = 0;
                    return ReadPart::copied(out, text, has_end);
                }
            };
            let event = frame.event();
            let content = event
                .as_ref()
                .map(|event| read_event(&mut *self.reader, self.phase.call(), event, &mut text));
            let has_only_words = matches!(content, Some(None));
            let brought = content.flatten().unwrap_or_default();
            has_end |= match self.end_mark {
                EndMark::Done => event.is_some_and(|event| is_done(event.data)),
                EndMark::LastEvent => self.reader.response().is_whole,
                EndMark::Nothing => false,
            };
            if !has_only_words
                && let Some(event) = &event
                && let Some(refused) = refused_tool_call(
                    &mut *self.reader,
                    self.phase.call(),
                    event,
                    &brought,
                    &mut self.passed_calls,
                )
            {
                if is_as_it_came {
                    out.extend_from_slice(bytes.get(..passed).unwrap_or_default());
                }
                self.incomplete = 0;
                return ReadPart { refused: Some(refused), ..ReadPart::copied(out, text, has_end) };
            }
            self.has_passed = true;
            let is_stripped = brought.is_only_usage && self.strips_usage;
            let has_error = !has_only_words && self.reader.response().error.is_some();
            if let Some(instead) = instead_of(frame.raw, is_stripped, has_error, &self.secrets) {
                if std::mem::take(&mut is_as_it_came) {
                    out.extend_from_slice(bytes.get(..passed).unwrap_or_default());
                }
                out.extend_from_slice(&instead);
            } else if !is_as_it_came {
                out.extend_from_slice(frame.raw);
            }
            passed = passed.saturating_add(frame.raw.len());
        }
        self.incomplete = incomplete_before.saturating_add(bytes.len()).saturating_sub(passed);
        if is_as_it_came {
            // Not copied, and written immediately.
            let passed = PassedBytes::Same(bytes.slice(..passed.min(bytes.len())));
            return ReadPart { passed, text, has_end, refused: None };
        }
        ReadPart::copied(out, text, has_end)
    }

    /// Ends the stream after `passed`, because the run has stopped: in order, unless a tool call has begun.
    fn end_here(&mut self, mut passed: BytesMut, directive: Directive) -> BodyPart {
        let Some(call) = self.phase.end() else { return Poll::Ready(None) };
        let seen = self.seen();
        call.run().checkpoint();
        let settled = call.cut_short(&seen);
        let signal = settled.entry().stop_or("the call was aborted");
        drop(settled);
        let is_by_user =
            directive == Directive::Abort && signal.reason != StopReason::TimeLimitReached;
        if is_by_user
            || self.unread.is_some()
            || self.needs_structure
            || !self.reader.is_between_blocks()
        {
            return self.cut_after(passed);
        }
        self.write_end(&mut passed, &signal);
        Poll::Ready(Some(Ok(passed.freeze())))
    }

    /// Ends the stream after `out`, which is all before the event with the refused tool call: in order, so that the client
    /// runs the tool calls that it has and comes back, unless one of them is incomplete.
    fn end_refused(&mut self, mut out: BytesMut, refused: RefusedToolCall) -> BodyPart {
        let Some(call) = self.phase.end() else { return Poll::Ready(None) };
        let rest = self.splitter.written(refused.rest, &mut self.has_passed);
        out.extend_from_slice(&rest);
        let settled = call.refused_tool_call(&self.with_unread(&refused.seen));
        let signal = settled.stop();
        let signal = signal.unwrap_or_else(|| settled.entry().stop_or("no tool can be called now"));
        drop(settled);
        let has_structure = !self.needs_structure || !self.reader.response().tool_calls.is_empty();
        if !has_structure || !self.reader.is_between_blocks() {
            return self.cut_after(out);
        }
        self.write_end(&mut out, &signal);
        Poll::Ready(Some(Ok(out.freeze())))
    }

    /// Cuts the connection after these bytes.
    fn cut_after(&mut self, passed: BytesMut) -> BodyPart {
        if passed.is_empty() {
            return Poll::Ready(Some(Err(BodyError::Cut)));
        }
        self.phase = StreamPhase::Cut;
        Poll::Ready(Some(Ok(passed.freeze())))
    }

    /// Writes what ends the stream for its client.
    fn write_end(&mut self, out: &mut BytesMut, signal: &StopSignal) {
        let events = self.reader.end(&stop_text(signal));
        out.extend_from_slice(&self.splitter.written(events, &mut self.has_passed));
        out.extend_from_slice(self.splitter.end(self.has_passed).as_bytes());
    }

    /// The upstream's stream is complete.
    fn finish(&mut self) -> BodyPart {
        let mut last = match self.decoder.as_mut().map(Decoder::finish) {
            None => Bytes::new(),
            Some(Ok(last)) => last,
            Some(Err(_)) => return self.broken("the upstream's encoding is broken"),
        };
        let mut refused = None;
        if !last.is_empty() {
            let part = self.read(&last);
            last = part.passed.freeze();
            refused = part.refused;
        }
        if refused.is_none()
            && let Some(frame) = self.splitter.last_frame()
            && let Some(event) = frame.event()
        {
            let brought = self.reader.event(&event);
            let (reader, passed_calls) = (&mut *self.reader, &mut self.passed_calls);
            refused = refused_tool_call(reader, self.phase.call(), &event, &brought, passed_calls);
        }
        if let Some(refused) = refused {
            return self.end_refused(last.into(), refused);
        }
        let rest = self.splitter.take_rest();
        if let Some(call) = self.phase.end() {
            let seen = self.seen();
            // Some upstreams leave out the mark of the end.
            if seen.is_whole || seen.finish.is_some() || self.unread.is_some() {
                call.delivered(&seen);
            } else {
                call.broken(&seen, "the stream ended without its end");
            }
        }
        let bytes =
            if last.is_empty() { Bytes::from(rest) } else { [last, rest.into()].concat().into() };
        if bytes.is_empty() { Poll::Ready(None) } else { Poll::Ready(Some(Ok(bytes))) }
    }

    fn broken(&mut self, why: &str) -> BodyPart {
        if let Some(call) = self.phase.end() {
            call.broken(&self.seen(), why);
        }
        Poll::Ready(Some(Err(BodyError::Cut)))
    }
}

impl Drop for StreamRelay {
    fn drop(&mut self) {
        let Some(call) = self.phase.end() else { return };
        let seen = self.seen();
        if seen.is_whole || seen.finish.is_some() {
            // The client has everything that it waits for.
            call.delivered(&seen);
        } else if let Ok(call) = call.failed_inside(&seen) {
            call.abandoned(&seen);
        }
    }
}

/// Returns the content of an event, and adds its text to `text`. `None` if it has only words.
fn read_event(
    reader: &mut dyn StreamReader,
    call: Option<&InFlightCall>,
    event: &SseEvent<'_>,
    text: &mut String,
) -> Option<EventContent> {
    if let Some(words) = reader.words(event) {
        text.push_str(words);
        return None;
    }
    let content = reader.event(event);
    text.push_str(&content.text);
    if let Some(call) = call {
        content.windows.iter().for_each(|it| call.entry().report_quota(it));
    }
    Some(content)
}

/// Checks the tool calls that begin with an event, before it is passed on. `passed` counts those that are.
fn refused_tool_call(
    reader: &mut dyn StreamReader,
    call: Option<&InFlightCall>,
    event: &SseEvent<'_>,
    brought: &EventContent,
    passed: &mut usize,
) -> Option<RefusedToolCall> {
    let call = call.filter(|_| brought.begins_call.is_some())?;
    let calls = &reader.response().tool_calls;
    *passed = call.admits(calls, *passed);
    if *passed == calls.len() {
        return None;
    }
    let seen = reader.response().clone();
    Some(RefusedToolCall { seen, rest: reader.refuse(event, *passed) })
}
