//! Answers that are passed on while they come.

mod guard;
mod refuse;
mod watch;

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use endstop::core::event::EventKind;
use endstop::core::run::Directive;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::model::{ModelError, ModelErrorKind};
use endstop::observe::Detail;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::flight::Flight;
use super::take::Taken;
use crate::body::BodyError;
use crate::decode::Decoder;
use crate::stop::stop_text;
use crate::upstream::UpstreamBody;
use endstop_llm::StreamSplitter;
use endstop_llm::{Api, CallResponse, EventContent, OutputContract, StreamReader, is_done};
use guard::Guard;
use refuse::{Refused, refused};
pub(super) use watch::Watched;

/// Most bytes that a part of an encoded stream may become.
const MAX_DECODED_PART: usize = 64 << 20;
pub(super) type Part = Poll<Option<Result<Bytes, BodyError>>>;

/// What tells the end of an interface's stream to its clients, beside the end of the connection. By then the
/// call has to be settled: the client may ask again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndsBy {
    /// `[DONE]`; usage comes after the finish reason.
    Done,
    /// The answer's last event.
    Event,
    /// Nothing else.
    Nothing,
}

impl EndsBy {
    const fn of(api: Api) -> Self {
        match api {
            Api::Messages | Api::Responses => Self::Event,
            Api::Gemini => Self::Nothing,
            Api::Chat | Api::CountTokens | Api::Models | Api::Other => Self::Done,
        }
    }
}

/// A stream of events on its way to the client.
pub(super) struct SseBody {
    /// Until the call is settled.
    open: Option<(Box<Flight>, Guard)>,
    upstream: Option<UpstreamBody>,
    decoder: Option<Decoder>,
    splitter: StreamSplitter,
    /// Something of it is passed on.
    has_passed: bool,
    reader: Box<dyn StreamReader>,
    /// Bytes of an event that is not whole, in the splitter.
    kept: usize,
    strips_usage: bool,
    ends_by: EndsBy,
    /// The mark of the end has come.
    is_ended: bool,
    /// An event was too long: the rest passes unread.
    is_unread: bool,
    unread_bytes: u64,
    /// The connection is to be cut.
    is_cut: bool,
    /// Tool calls that are passed on, and the one that is not.
    passed_calls: usize,
    refused: Option<Box<Refused>>,
    /// The request demands a tool call or JSON of some schema: text cannot end it.
    needs_structure: bool,
}

impl SseBody {
    pub(super) fn new(
        flight: Box<Flight>,
        taken: &Taken,
        headers: &mut HeaderMap,
        upstream: UpstreamBody,
        max_event: usize,
    ) -> Self {
        let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let decoder = encoding.map(|encoding| Decoder::new(encoding, MAX_DECODED_PART));
        let (decoder, is_unread) = match decoder {
            None => (None, false),
            Some(Ok(decoder)) => {
                headers.remove(CONTENT_ENCODING);
                (Some(decoder).filter(|decoder| !decoder.is_identity()), false)
            }
            Some(Err(_)) => (None, true),
        };
        let guard = Guard::new(&flight.driven);
        let strips_usage = flight.forces_usage();
        Self {
            open: Some((flight, guard)),
            upstream: Some(upstream),
            decoder,
            splitter: StreamSplitter::new(taken.asked.is_list, max_event),
            has_passed: false,
            reader: taken.dialect.stream(&taken.asked),
            kept: 0,
            strips_usage,
            ends_by: EndsBy::of(taken.route.api),
            is_ended: false,
            is_unread,
            unread_bytes: 0,
            is_cut: false,
            passed_calls: 0,
            refused: None,
            needs_structure: taken.asked.demands != OutputContract::Text,
        }
    }

    /// What is known of the answer; what passed unread counts by its length.
    fn seen(&self) -> CallResponse {
        let seen = self.reader.seen();
        let output_bytes = seen.output_bytes.saturating_add(self.unread_bytes);
        CallResponse { output_bytes, ..seen.clone() }
    }

    /// The run has stopped: the stream ends here, after `passed`; properly, unless a tool call has begun.
    fn end_here(&mut self, mut passed: BytesMut, directive: Directive) -> Part {
        self.upstream = None;
        let Some((mut flight, _)) = self.open.take() else { return Poll::Ready(None) };
        let mut seen = self.reader.seen().clone();
        seen.output_bytes = seen.output_bytes.saturating_add(self.unread_bytes);
        flight.driven.checkpoint();
        flight.cut_short(&seen);
        let signal = flight.seat.run.stop().unwrap_or_else(|| {
            StopSignal::new(StopReason::StopRequested).with_message("the call was cut")
        });
        drop(flight);
        let is_by_hand =
            directive == Directive::CancelNow && signal.reason != StopReason::TimeLimitReached;
        if is_by_hand || self.is_unread || self.needs_structure || !self.reader.is_between_blocks()
        {
            self.is_cut = true;
            if passed.is_empty() {
                return Poll::Ready(Some(Err(BodyError::Cut)));
            }
        } else {
            self.write_end(&mut passed, &signal);
        }
        Poll::Ready(Some(Ok(passed.freeze())))
    }

    /// What ends the stream for its client.
    fn write_end(&mut self, out: &mut BytesMut, signal: &StopSignal) {
        let events = self.reader.end(&stop_text(signal));
        out.extend_from_slice(&self.splitter.written(events, &mut self.has_passed));
        out.extend_from_slice(self.splitter.end(self.has_passed).as_bytes());
    }

    /// The upstream's stream has come to its end.
    fn finish(&mut self) -> Part {
        self.upstream = None;
        let mut last = match self.decoder.as_mut().map(Decoder::finish) {
            None => Bytes::new(),
            Some(Ok(last)) => last,
            Some(Err(_)) => return self.broken("the upstream's encoding is broken"),
        };
        if !last.is_empty() {
            last = self.read(&last).map_or(last, |(bytes, _)| bytes);
        }
        if self.refused.is_none()
            && let Some(frame) = self.splitter.last_frame()
            && let Some(event) = frame.event()
        {
            let brought = self.reader.event(&event);
            let flight = self.open.as_ref().map(|(flight, _)| &**flight);
            let refused =
                refused(&mut *self.reader, flight, &event, &brought, &mut self.passed_calls);
            self.refused = refused.map(Box::new);
        }
        if let Some(refused) = self.refused.take() {
            return self.end_refused(last.into(), *refused);
        }
        let rest = self.splitter.take_rest();
        if let Some((mut flight, _)) = self.open.take() {
            let seen = self.seen();
            // Some upstreams leave out the mark of the end.
            if seen.is_whole || seen.finish.is_some() || self.is_unread {
                flight.passed(&seen);
            } else {
                let text = seen.error.as_deref().unwrap_or("the stream ended without its end");
                flight.failed(&ModelError::new(ModelErrorKind::Truncated, text), Some(&seen));
            }
        }
        let bytes =
            if last.is_empty() { Bytes::from(rest) } else { [last, rest.into()].concat().into() };
        if bytes.is_empty() { Poll::Ready(None) } else { Poll::Ready(Some(Ok(bytes))) }
    }

    fn broken(&mut self, why: &str) -> Part {
        self.upstream = None;
        self.is_cut = true;
        if let Some((mut flight, _)) = self.open.take() {
            let seen = self.seen();
            flight.failed(&ModelError::new(ModelErrorKind::Truncated, why), Some(&seen));
        }
        Poll::Ready(Some(Err(BodyError::Cut)))
    }

    /// Reads what has come; gives what is passed on of it, and the words in it.
    fn read(&mut self, bytes: &Bytes) -> Option<(Bytes, String)> {
        let (mut left, mut text) = (&**bytes, String::new());
        let mut out = BytesMut::new();
        let (kept_before, mut passed) = (self.kept, 0usize);
        let mut is_as_it_came = kept_before == 0;
        loop {
            let frame = match self.splitter.next_frame(&mut left) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    self.is_unread = true;
                    out.extend_from_slice(&self.splitter.take_rest());
                    out.extend_from_slice(left);
                    self.kept = 0;
                    return Some((out.freeze(), text));
                }
            };
            let event = frame.event();
            let (mut seen, mut has_only_words) = (EventContent::default(), false);
            if let Some(event) = &event {
                if let Some(words) = self.reader.words(event) {
                    text.push_str(words);
                    has_only_words = true;
                } else {
                    seen = self.reader.event(event);
                    text.push_str(&seen.text);
                }
            }
            self.is_ended |= match self.ends_by {
                EndsBy::Done => event.is_some_and(|event| is_done(event.data)),
                EndsBy::Event => self.reader.seen().is_whole,
                EndsBy::Nothing => false,
            };
            if !has_only_words
                && let Some(event) = &event
                && let Some(refused) = {
                    let flight = self.open.as_ref().map(|(flight, _)| &**flight);
                    refused(&mut *self.reader, flight, event, &seen, &mut self.passed_calls)
                }
            {
                if is_as_it_came {
                    out.extend_from_slice(bytes.get(..passed).unwrap_or_default());
                }
                self.refused = Some(Box::new(refused));
                self.kept = 0;
                return Some((out.freeze(), text));
            }
            passed = passed.saturating_add(frame.raw.len());
            self.has_passed = true;
            if seen.is_only_usage && self.strips_usage {
                if is_as_it_came {
                    let before = passed.saturating_sub(frame.raw.len());
                    out.extend_from_slice(bytes.get(..before).unwrap_or_default());
                }
                is_as_it_came = false;
            } else if !is_as_it_came {
                out.extend_from_slice(frame.raw);
            }
        }
        self.kept = kept_before.saturating_add(bytes.len()).saturating_sub(passed);
        if is_as_it_came {
            // Not copied, and written at once.
            return Some((bytes.slice(..passed.min(bytes.len())), text));
        }
        Some((out.freeze(), text))
    }

    /// Takes in what the upstream has sent; none where nothing of it is passed on yet.
    fn take(&mut self, bytes: Bytes) -> Option<Part> {
        let bytes = match self.decoder.as_mut().map(|decoder| decoder.push(&bytes)) {
            None => bytes,
            Some(Ok(decoded)) => decoded,
            Some(Err(_)) => return Some(self.broken("the upstream's encoding is broken")),
        };
        if self.is_unread {
            self.unread_bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Some(Poll::Ready(Some(Ok(bytes))));
        }
        let (out, text) = self.read(&bytes)?;
        if let Some((flight, _)) = &mut self.open {
            flight.has_piece();
            // What stopped the run before lets what is in flight end by itself.
            let was_over = flight.driven.is_over();
            let directive = flight.driven.tell(&EventKind::Piece { text: &text }, Detail::None);
            if let Some(refused) = self.refused.take() {
                return Some(self.end_refused(BytesMut::from(out), *refused));
            }
            let stops = directive.stops() && !was_over;
            if self.is_ended && !stops {
                // Before its client can ask again.
                if let Some((mut flight, _)) = self.open.take() {
                    flight.passed(self.reader.seen());
                }
            } else if stops {
                return Some(self.end_here(BytesMut::from(out), directive));
            }
        }
        (!out.is_empty()).then_some(Poll::Ready(Some(Ok(out))))
    }
}

impl SseBody {
    /// The run has stopped, and the client does not read: the call ends without it.
    fn cut_unread(&mut self) {
        if self.open.is_some() {
            let _ = self.end_here(BytesMut::new(), Directive::CancelNow);
            self.is_cut = true;
        }
    }

    fn next_part(&mut self, cx: &mut Context<'_>) -> Part {
        let this = self;
        if std::mem::take(&mut this.is_cut) {
            return Poll::Ready(Some(Err(BodyError::Cut)));
        }
        loop {
            if let Some((_, guard)) = &mut this.open
                && let Some(directive) = guard.poll(cx)
            {
                return this.end_here(BytesMut::new(), directive);
            }
            let Some(upstream) = &mut this.upstream else { return Poll::Ready(None) };
            match upstream.poll_data(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return this.finish(),
                Poll::Ready(Some(Err(error))) => return this.broken(&error.to_string()),
                Poll::Ready(Some(Ok(bytes))) => {
                    if let Some(part) = this.take(bytes) {
                        return part;
                    }
                }
            }
        }
    }
}

impl Drop for SseBody {
    fn drop(&mut self) {
        let Some((mut flight, _)) = self.open.take() else { return };
        let seen = self.seen();
        if seen.is_whole || seen.finish.is_some() {
            // It has all that it waits for.
            flight.passed(&seen);
        } else {
            flight.abandoned(&seen);
        }
    }
}
