//! Tool calls in a stream that the run does not let begin: the stream ends before the first of them.

use std::task::Poll;

use bytes::BytesMut;
use endstop::core::signal::{StopReason, StopSignal};

use super::{Part, SseBody};
use crate::body::BodyError;
use crate::call::flight::Flight;
use endstop_llm::sse::SseEvent;
use endstop_llm::{CallResponse, EventContent, StreamReader};

/// A call that is refused.
pub(super) struct Refused {
    /// What had come when it began, with it.
    seen: CallResponse,
    /// What is passed on of the event that it began with.
    rest: Vec<u8>,
}

/// Looks at the calls that begin with an event, before it is passed on. `passed` counts those that are.
pub(super) fn refused(
    reader: &mut dyn StreamReader,
    flight: Option<&Flight>,
    event: &SseEvent<'_>,
    brought: &EventContent,
    passed: &mut usize,
) -> Option<Refused> {
    let flight = flight.filter(|_| brought.begins_call.is_some())?;
    let calls = &reader.seen().tool_calls;
    *passed = flight.admits(calls, *passed);
    if *passed == calls.len() {
        return None;
    }
    let seen = reader.seen().clone();
    Some(Refused { seen, rest: reader.refuse(event, *passed) })
}

impl SseBody {
    /// Ends the stream after `out`, which is all before the event with the refused call: properly, so that the client runs the
    /// calls that it has and comes back, unless one of them is not whole.
    pub(super) fn end_refused(&mut self, mut out: BytesMut, refused: Refused) -> Part {
        self.upstream = None;
        let Some((mut flight, _)) = self.open.take() else { return Poll::Ready(None) };
        let rest = self.splitter.written(refused.rest, &mut self.has_passed);
        out.extend_from_slice(&rest);
        let seen = &refused.seen;
        let output_bytes = seen.output_bytes.saturating_add(self.unread_bytes);
        flight.refused(&CallResponse { output_bytes, ..seen.clone() });
        let signal = flight.stop().unwrap_or_else(|| {
            StopSignal::new(StopReason::StopRequested).with_message("no tool can be called now")
        });
        drop(flight);
        let has_structure = !self.needs_structure || !self.reader.seen().tool_calls.is_empty();
        if has_structure && self.reader.is_between_blocks() {
            self.write_end(&mut out, &signal);
        } else {
            self.is_cut = true;
            if out.is_empty() {
                return Poll::Ready(Some(Err(BodyError::Cut)));
            }
        }
        Poll::Ready(Some(Ok(out.freeze())))
    }
}
