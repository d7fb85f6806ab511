//! Answers of the gateway's own.

use bytes::Bytes;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::store::RunId;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use crate::body::Body;
use crate::config::StopWith;
use crate::route::{RUN_HEADER, Side};
use crate::run::{NoRun, RunEntry, count};
use crate::stop::stop_text;
use endstop_llm::{CallRequest, Dialect, ErrorKind, OutputContract, WrittenResponse};

/// Why a call was answered by the gateway.
pub(super) const REASON_HEADER: &str = "x-endstop-reason";
/// What a rule warns of.
pub(super) const WARNING_HEADER: &str = "x-endstop-warning";
/// Clients of OpenAI and Anthropic heed it.
const SHOULD_RETRY_HEADER: &str = "x-should-retry";

/// What helps against a refusal of what cannot be bounded.
const REMEDY: &str = "to let it through uncounted use `--allow-unmetered`, or a policy without rules of money or \
    tokens";

/// The shape of errors of a side, for requests that are not read.
pub(super) fn dialect_for(side: Side) -> &'static dyn Dialect {
    match side {
        Side::OpenAi => endstop_llm::CHAT,
        Side::Anthropic => endstop_llm::MESSAGES,
        Side::Gemini => endstop_llm::GEMINI,
    }
}

fn response(answer: WrittenResponse) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response
}

/// An error that says what it is about.
pub(super) fn error(
    dialect: &dyn Dialect,
    status: StatusCode,
    kind: ErrorKind,
    message: &str,
) -> Response<Body> {
    response(dialect.error(status, kind, message))
}

/// Too much at once; a client may try again.
pub(super) fn overloaded(dialect: &dyn Dialect, message: &str) -> Response<Body> {
    error(dialect, StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Overloaded, message)
}

/// There is no run for a call.
pub(super) fn no_run(dialect: &dyn Dialect, id: &RunId, why: &NoRun) -> Response<Body> {
    match why {
        NoRun::Full => overloaded(
            dialect,
            "there are too many runs, and those that have not ended are not forgotten",
        ),
        NoRun::Unreadable(why) => {
            let text =
                format!("run `{id}` cannot go on, for what is kept of it cannot be read: {why}");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let mut answer = error(dialect, status, ErrorKind::Upstream, &text);
            answer.headers_mut().insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
            answer
        }
    }
}

/// What cannot be admitted although the run goes on: not to be tried again.
pub(super) fn refused(run: &RunEntry, dialect: &dyn Dialect, message: &str) -> Response<Body> {
    not_admitted(run, dialect, &format!("{message}; {REMEDY}"))
}

/// What waits for others of its run that do not go on.
pub(super) fn stuck(run: &RunEntry, dialect: &dyn Dialect) -> Response<Body> {
    let id = &run.driven.info().id;
    let text = format!(
        "all that run `{id}` has left is held for streams of its own whose client does not read on, so this call would \
         wait for ever: read those to their end or close them, then ask again; or lower their output caps, so that \
         they hold less"
    );
    not_admitted(run, dialect, &text)
}

fn not_admitted(run: &RunEntry, dialect: &dyn Dialect, message: &str) -> Response<Body> {
    count(&run.counters.refused);
    let mut answer = error(dialect, StatusCode::PAYMENT_REQUIRED, ErrorKind::Stopped, message);
    answer.headers_mut().insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    answer
}

/// The answer to a request whose run has stopped; `asked` is none where it was not read.
pub(super) fn stop(
    run: &RunEntry,
    dialect: &dyn Dialect,
    asked: Option<&CallRequest>,
    signal: &StopSignal,
    with: StopWith,
) -> Response<Body> {
    stop_after(run, dialect, asked, signal, with, "")
}

/// As [`stop`], in the place of an answer of the model that said something: it comes first.
pub(super) fn stop_after(
    run: &RunEntry,
    dialect: &dyn Dialect,
    asked: Option<&CallRequest>,
    signal: &StopSignal,
    with: StopWith,
    said: &str,
) -> Response<Body> {
    run.keep();
    count(&run.counters.stop_answers);
    let mut text = stop_text(signal);
    if !said.is_empty() {
        text.text = format!("{said}\n\n{}", text.text);
    }
    let own = match asked {
        Some(asked) if with == StopWith::Answer && asked.demands != OutputContract::Structure => {
            dialect.stop(asked, &text)
        }
        _ => dialect.error(StatusCode::PAYMENT_REQUIRED, ErrorKind::Stopped, &text.text),
    };
    let mut answer = response(own);
    let headers = answer.headers_mut();
    headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    if let Some(reason) = header_text(&text.reason) {
        headers.insert(REASON_HEADER, reason);
    }
    if let Some(id) = header_text(run.driven.info().id.as_str()) {
        headers.insert(RUN_HEADER, id);
    }
    answer
}

/// What a call is answered with that was held too long.
pub(super) fn paused(run: &RunEntry) -> StopSignal {
    let id = &run.driven.info().id;
    StopSignal::new(StopReason::StopRequested).with_message(format!(
        "run `{id}` is paused and waits for the approval of a person; ask again once it is approved"
    ))
}

/// Text as a header's value: what does not fit there is left out.
pub(super) fn header_text(text: &str) -> Option<HeaderValue> {
    let plain: String = text.chars().filter(|c| matches!(c, ' '..='~')).take(1_024).collect();
    HeaderValue::from_str(&plain).ok()
}
