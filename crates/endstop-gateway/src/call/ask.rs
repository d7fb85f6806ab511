//! Sending a call, and reading an answer that comes as a whole.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use endstop::agent::driver::DrivenRun;
use endstop::cancel::Urgency;
use endstop::core::event::EventKind;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::model::{ModelError, ModelErrorKind};
use endstop::observe::Detail;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, request};

use super::flight::Flight;
use super::raw::RawBody;
use super::settle::Settled;
use super::stream::{SseBody, Watched};
use super::take::{Taken, decoded};
use super::{Gate, answer};
use crate::body::Body;
use crate::run::{RunEntry, count, uncount};
use crate::upstream::{UpstreamBody, UpstreamError, only_forwardable};
use endstop_llm::{Api, CallRequest, CallResponse, Dialect, Edits, ErrorKind, ReadError};

/// What the model is told at the beginning of a wrap-up.
const WRAP_UP_NOTE: &str = "This is your last turn: a limit of this run is near, and no tools can be called \
    any more. Answer now, as well as you can, with what you have. Say what is missing.";
/// How soon a rule in time that holds already is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What became of asking once.
pub(super) enum Asked {
    Answered(Response<Body>),
    /// The run wants another answer.
    Again(Box<Flight>),
    /// The upstream refuses what the gateway put into it: the same call in another form.
    Otherwise(Box<Flight>),
}

/// The body of an answer, read.
pub(super) enum Whole {
    All(Bytes),
    /// It is longer than what is read; this much has come.
    TooLong(Bytes),
}

/// The run has stopped, and what was waited for with it.
pub(super) struct Cut;

impl Gate {
    /// Sends a call that has begun, and answers it.
    pub(super) async fn ask(
        &self,
        flight: Box<Flight>,
        taken: Taken,
        head: &request::Parts,
    ) -> Response<Body> {
        let mut flight = flight;
        self.choose(&mut flight, &taken);
        loop {
            let request = match self.request(&flight, &taken, head) {
                Ok(request) => request,
                Err(error) => {
                    let kind = ModelErrorKind::Rejected;
                    flight.failed(&ModelError::new(kind, error.to_string()), None);
                    let text = format!("the request cannot be changed: {error}");
                    let status = StatusCode::BAD_REQUEST;
                    return answer::error(taken.dialect, status, ErrorKind::Invalid, &text);
                }
            };
            match self.ask_once(flight, &taken, request).await {
                Asked::Answered(response) => return response,
                Asked::Otherwise(changed) => flight = changed,
                Asked::Again(again) => {
                    drop(again);
                    let (provider, model) = (self.provider(taken.route.side), &taken.asked.model);
                    let run = match self.registry.take(&taken.route.run, model, provider).await {
                        Ok(run) => run,
                        Err(why) => {
                            return answer::no_run(taken.dialect, &taken.route.run, &why);
                        }
                    };
                    match self.begin(&run, &taken).await {
                        Ok(next) => flight = next,
                        Err(answered) => return *answered,
                    }
                    self.choose(&mut flight, &taken);
                }
            }
        }
    }

    fn request(
        &self,
        flight: &Flight,
        taken: &Taken,
        head: &request::Parts,
    ) -> Result<Request<Bytes>, ReadError> {
        let edits = Edits {
            output_cap: flight.cap_to_send(),
            other_cap_field: flight.form.other_field,
            force_usage: flight.forces_usage(),
            finish: flight.is_wrap_up.then_some(WRAP_UP_NOTE),
            tools_off: flight.tools_off,
            note: None,
            request: Some(&taken.asked),
        };
        let is_changed = edits.output_cap.is_some() || edits.force_usage || edits.finish.is_some();
        let body = if is_changed {
            Bytes::from(taken.dialect.edit(&taken.body, &edits)?)
        } else {
            taken.body.clone()
        };
        let mut headers = self.forwarded(&taken.route, &head.headers);
        headers.remove(CONTENT_ENCODING);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut request = Request::new(body);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = taken
            .route
            .rest
            .parse()
            .map_err(|_| ReadError("the path of the request is not valid".to_owned()))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn ask_once(
        &self,
        mut flight: Box<Flight>,
        taken: &Taken,
        request: Request<Bytes>,
    ) -> Asked {
        let base = self.base(taken.route.side);
        // Before: whoever waits for the answer may go away.
        count(&flight.seat.run.counters.upstream_calls);
        let sent = guarded(&flight.driven, self.client.send(base, request)).await;
        let response = match sent {
            Err(Cut) => return Asked::Answered(self.cut(flight, taken)),
            Ok(Err(error)) => return Asked::Answered(unreachable(&mut flight, taken, &error)),
            Ok(Ok(response)) => response,
        };
        let (parts, body) = response.into_parts();
        let is_stopped = parts.headers.contains_key(answer::REASON_HEADER);
        let mut headers = only_forwardable(parts.headers, &[]);
        if let Some(warning) = flight.warning.as_deref().and_then(answer::header_text) {
            headers.insert(answer::WARNING_HEADER, warning);
        }
        if is_stopped {
            flight.stopped_before();
            let body = RawBody::new(body).into_body_of(&flight.driven);
            return Asked::Answered(respond(parts.status, headers, body));
        }
        if flight.may_change(parts.status) {
            return self.refused(flight, taken, parts.status, headers, body).await;
        }
        if !parts.status.is_success() {
            flight.failed(&error_of(parts.status), None);
            let body = RawBody::new(body).into_body_of(&flight.driven);
            return Asked::Answered(respond(parts.status, headers, body));
        }
        self.keep_form(&flight, taken);
        self.keep_choice(&flight, taken);
        if is_event_stream(&headers) || taken.asked.is_list && is_json(&headers) {
            let (driven, run) = (flight.driven.clone(), Arc::clone(&flight.seat.run));
            let stream = SseBody::new(flight, taken, &mut headers, body, self.config.bounds.event);
            let stream = Watched::new(stream, &driven, &run);
            return Asked::Answered(respond(parts.status, headers, Body::stream(stream)));
        }
        self.whole(flight, taken, parts.status, headers, body).await
    }

    async fn whole(
        &self,
        mut flight: Box<Flight>,
        taken: &Taken,
        status: StatusCode,
        mut headers: HeaderMap,
        mut body: UpstreamBody,
    ) -> Asked {
        let max = self.config.bounds.answer;
        let sized = &mut *flight;
        let read = read_whole(&mut body, max, &mut sized.came);
        let read = guarded(&sized.driven, read).await;
        let bytes = match read {
            Err(Cut) => return Asked::Answered(self.cut(flight, taken)),
            Ok(Err(error)) => {
                let kind = ModelErrorKind::Truncated;
                let (text, seen) = (error.to_string(), flight.unread());
                flight.failed(&ModelError::new(kind, text.clone()), Some(&seen));
                let status = StatusCode::BAD_GATEWAY;
                let answer = answer::error(taken.dialect, status, ErrorKind::Upstream, &text);
                return Asked::Answered(answer);
            }
            Ok(Ok(Whole::TooLong(begun))) => {
                let output_bytes = u64::try_from(begun.len()).unwrap_or(u64::MAX);
                flight.passed(&CallResponse { output_bytes, ..CallResponse::default() });
                let body = RawBody::after(begun, body).into_body_of(&flight.driven);
                return Asked::Answered(respond(status, headers, body));
            }
            Ok(Ok(Whole::All(bytes))) => bytes,
        };
        let seen = read_answer(taken, &headers, &bytes, max);
        if taken.route.api == Api::Responses && is_only_begun(&seen, &bytes) {
            flight.only_begun(&seen);
        }
        if flight.erred(&seen) {
            return Asked::Answered(respond(status, headers, Body::full(bytes)));
        }
        if !seen.text.is_empty() {
            flight.driven.tell(&EventKind::Piece { text: &seen.text }, Detail::None);
        }
        match flight.replied(&seen) {
            Settled::Again => return Asked::Again(flight),
            Settled::Refused => {
                if let Some(signal) = flight.stop() {
                    let (run, asked) = (&flight.seat.run, Some(&taken.asked));
                    let (with, said) = (self.config.stop_with, &seen.text);
                    let answer = answer::stop_after(run, taken.dialect, asked, &signal, with, said);
                    return Asked::Answered(answer);
                }
            }
            Settled::Keep(keep) => {
                let kept = plain(&headers, &bytes, max)
                    .and_then(|plain| taken.dialect.keep_calls(&plain, keep).ok());
                if let Some(kept) = kept {
                    headers.remove(CONTENT_ENCODING);
                    return Asked::Answered(respond(status, headers, Body::full(kept.into())));
                }
            }
            Settled::Pass => {}
        }
        Asked::Answered(respond(status, headers, Body::full(bytes)))
    }

    /// The answer to a call that the run has cut: an error where it was cut by hand.
    pub(super) fn cut(&self, mut flight: Box<Flight>, taken: &Taken) -> Response<Body> {
        let seen = flight.unread();
        flight.cut_short(&seen);
        flight.driven.checkpoint();
        self.cut_answer(&flight.seat.run, &flight.driven, taken.dialect, Some(&taken.asked))
    }

    /// As [`Gate::cut`], for what is not settled; `asked` is none where it was not read.
    pub(super) fn cut_answer(
        &self,
        run: &RunEntry,
        driven: &DrivenRun,
        dialect: &dyn Dialect,
        asked: Option<&CallRequest>,
    ) -> Response<Body> {
        let signal = run.stop().unwrap_or_else(|| {
            StopSignal::new(StopReason::StopRequested).with_message("the call was cut")
        });
        let is_by_hand = signal.reason == StopReason::UserRequested
            && driven.token().urgency() == Some(Urgency::Now);
        let with = if is_by_hand { crate::StopWith::Error } else { self.config.stop_with };
        answer::stop(run, dialect, asked, &signal, with)
    }
}

/// Waits for `future`, unless the run is cut first, or a limit in time is reached.
pub(super) async fn guarded<F: Future>(driven: &DrivenRun, future: F) -> Result<F::Output, Cut> {
    let mut future = std::pin::pin!(future);
    let token = driven.in_flight();
    loop {
        let limit = async {
            match driven.next_limit_in_time() {
                None => std::future::pending().await,
                Some(left) if left.0 == 0 => tokio::time::sleep(LOOK_AGAIN).await,
                Some(left) => tokio::time::sleep(Duration::from_millis(left.0)).await,
            }
        };
        tokio::select! {
            biased;
            () = token.cut() => return Err(Cut),
            output = &mut future => return Ok(output),
            () = limit => {
                if driven.tick().stops() {
                    return Err(Cut);
                }
            }
        }
    }
}

fn unreachable(flight: &mut Flight, taken: &Taken, error: &UpstreamError) -> Response<Body> {
    let text = error.to_string();
    let nothing = CallResponse::default();
    let charged = error.may_have_arrived().then_some(&nothing);
    if charged.is_none() {
        uncount(&flight.seat.run.counters.upstream_calls);
    }
    let kind = match error {
        UpstreamError::Silent { .. } => ModelErrorKind::TimedOut,
        _ => ModelErrorKind::Connection,
    };
    flight.failed(&ModelError::new(kind, text.clone()), charged);
    answer::error(taken.dialect, error.status(), ErrorKind::Upstream, &text)
}

/// What an upstream's refusal is for the run.
pub(super) fn error_of(status: StatusCode) -> ModelError {
    let kind = match status.as_u16() {
        429 => ModelErrorKind::RateLimited,
        408 | 504 => ModelErrorKind::TimedOut,
        500.. => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Rejected,
    };
    let mut error = ModelError::new(kind, format!("the upstream answered {status}"));
    error.status = Some(status.as_u16());
    error
}

/// Reads an answer, and counts in `came` how much of it has come so far.
pub(super) async fn read_whole(
    body: &mut UpstreamBody,
    max: usize,
    came: &mut u64,
) -> Result<Whole, UpstreamError> {
    let Some(first) = body.data().await.transpose()? else { return Ok(Whole::All(Bytes::new())) };
    *came = bytes_of(&first);
    if first.len() > max {
        return Ok(Whole::TooLong(first));
    }
    let Some(second) = body.data().await.transpose()? else { return Ok(Whole::All(first)) };
    let mut all = BytesMut::with_capacity(first.len().saturating_add(second.len()));
    all.extend_from_slice(&first);
    all.extend_from_slice(&second);
    *came = bytes_of(&all);
    while all.len() <= max {
        match body.data().await.transpose()? {
            Some(next) => {
                all.extend_from_slice(&next);
                *came = bytes_of(&all);
            }
            None => return Ok(Whole::All(all.freeze())),
        }
    }
    Ok(Whole::TooLong(all.freeze()))
}

fn bytes_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// An answer without its encoding.
fn plain(headers: &HeaderMap, bytes: &Bytes, max: usize) -> Option<Bytes> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::to_str) {
        None => Some(bytes.clone()),
        Some(encoding) => encoding.ok().and_then(|encoding| decoded(bytes, encoding, max)),
    }
}

/// What an answer says. One that cannot be read counts by its length.
fn read_answer(taken: &Taken, headers: &HeaderMap, bytes: &Bytes, max: usize) -> CallResponse {
    let plain = plain(headers, bytes, max);
    let output_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let unread = || CallResponse { output_bytes, ..CallResponse::default() };
    plain.and_then(|plain| taken.dialect.answer(&plain).ok()).unwrap_or_else(unread)
}

/// Whether the model has not answered yet, and what it uses will be told elsewhere.
const fn is_only_begun(seen: &CallResponse, bytes: &Bytes) -> bool {
    let says_nothing = seen.output_bytes == 0 && seen.usage.is_none();
    !seen.is_whole && says_nothing && !bytes.is_empty()
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    is_of(headers, "text/event-stream")
}

fn is_json(headers: &HeaderMap) -> bool {
    is_of(headers, "application/json")
}

fn is_of(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.map(|value| value.split(';').next().unwrap_or("").trim());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(wanted))
}

/// A response with an upstream's head.
pub(super) fn respond(status: StatusCode, mut headers: HeaderMap, body: Body) -> Response<Body> {
    headers.remove(CONTENT_LENGTH);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
