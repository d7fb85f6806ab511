//! The gateway's own responses: stop responses (`docs/semantics.md` section 6) and errors.

use bytes::Bytes;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_llm::{
    Api, CallRequest, Dialect, ErrorKind, OutputContract, StopText, WrittenResponse,
};
use endstop_runtime::RunHandle;
use endstop_runtime::cancel::Urgency;
use endstop_runtime::observe::Remedy;
use endstop_runtime::store::RunId;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, UPGRADE};
use http::{HeaderValue, Response, StatusCode};

use crate::body::Body;
use crate::config::StopWith;
use crate::limits::HEADER_TEXT_CHARS;
use crate::refused_call::CallRefusal;
use crate::route::{ApiFamily, RUN_HEADER, RouteError};
use crate::run::{NoRun, RunEntry};

/// The stop reason, in the gateway's own responses.
pub(super) const REASON_HEADER: &str = "x-endstop-reason";
/// Sent with [`REASON_HEADER`]: the call was made before it was stopped, so that it has a cost.
pub(super) const CHARGED_HEADER: &str = "x-endstop-charged";
/// The texts of warn rules that tripped.
pub(super) const WARNING_HEADER: &str = "x-endstop-warning";
/// The SDKs of OpenAI and Anthropic follow it.
const SHOULD_RETRY_HEADER: &str = "x-should-retry";

/// The API in whose shape a request gets errors that was not read.
pub(super) fn dialect_for(family: ApiFamily) -> &'static dyn Dialect {
    let api = match family {
        ApiFamily::OpenAi => Api::Chat,
        ApiFamily::Anthropic => Api::Messages,
        ApiFamily::Gemini => Api::Gemini,
    };
    api.dialect()
}

fn own(answer: WrittenResponse) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response
}

/// Returns the text of the stop signal that a run ended by.
pub(super) fn stop_text(signal: &StopSignal) -> StopText {
    StopText {
        reason: signal.reason.to_string(),
        text: format!("Endstop stopped this run: {signal}.{}", next_step(signal)),
    }
}

/// Sentences, each after a space, that say how to continue after a stop. Empty for other reasons.
fn next_step(signal: &StopSignal) -> String {
    Remedy::of(signal).map_or_else(String::new, |remedy| {
        format!(" This run makes no further model calls. To continue, {remedy}.")
    })
}

/// Whether the run ended by a cost or token limit.
const fn is_of_amounts(reason: StopReason) -> bool {
    matches!(reason, StopReason::CostLimitReached | StopReason::TokenLimitReached)
}

/// The text as a sentence begins.
fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(rest).collect()
}

/// An error in the shape of the API.
pub(super) fn error(
    dialect: &dyn Dialect,
    status: StatusCode,
    kind: ErrorKind,
    message: &str,
) -> Response<Body> {
    let response = own(dialect.error(status, kind, message));
    let reason = match status {
        // A failure of the upstream is no refusal.
        _ if kind == ErrorKind::Upstream => return response,
        StatusCode::PAYMENT_REQUIRED => "not_bounded",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::TOO_MANY_REQUESTS => "client_share",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded",
        _ => "invalid_request",
    };
    refusing(response, CallRefusal::new(reason))
}

/// Marks a response as one that refuses its call.
pub(super) fn refusing(mut response: Response<Body>, refusal: CallRefusal) -> Response<Body> {
    response.extensions_mut().insert(refusal);
    response
}

/// 429: this client has too much of something, and may try again once it has less.
pub(super) fn too_many(dialect: &dyn Dialect, message: &str) -> Response<Body> {
    error(dialect, StatusCode::TOO_MANY_REQUESTS, ErrorKind::Overloaded, message)
}

/// 503: a client may try again.
pub(super) fn overloaded(dialect: &dyn Dialect, message: &str) -> Response<Body> {
    error(dialect, StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Overloaded, message)
}

/// 503: a client is asked to try again soon.
fn later(dialect: &dyn Dialect, message: &str) -> Response<Body> {
    let mut answer = overloaded(dialect, message);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// The error for a request that is not taken.
pub(super) fn no_route(dialect: &dyn Dialect, why: &RouteError) -> Response<Body> {
    let (text, (reason, _)) = (why.to_string(), why.reason());
    match why {
        RouteError::KeysAway(detail) => {
            let refusal = CallRefusal::with_detail(reason, detail.clone());
            refusing(later(dialect, &text), refusal)
        }
        _ => {
            let answer = error(dialect, why.status(), ErrorKind::Invalid, &text);
            refusing(answer, CallRefusal::new(reason))
        }
    }
}

/// The error for a call that has no run.
pub(super) fn no_run(dialect: &dyn Dialect, id: &RunId, why: &NoRun) -> Response<Body> {
    match why {
        NoRun::Full => overloaded(dialect, &why.to_string()),
        NoRun::FullOfClient => too_many(dialect, &why.to_string()),
        NoRun::Held { by } => {
            // Which one is no concern of clients.
            let text = "another gateway serves the run, and has calls of it in flight: try again";
            refusing(later(dialect, text), CallRefusal::with_detail("run_elsewhere", by.clone()))
        }
        NoRun::Away(why) => {
            let answer = later(dialect, "the store of runs is away: try again");
            refusing(answer, CallRefusal::with_detail("store_away", why.clone()))
        }
        NoRun::ReadError(why) => {
            let text = format!("the stored run `{id}` cannot be read: {}", why.without_paths());
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let mut answer = error(dialect, status, ErrorKind::Upstream, &text);
            answer.headers_mut().insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
            refusing(answer, CallRefusal::with_detail("unreadable_run", why.to_string()))
        }
    }
}

/// The refusal of a call with something of unbounded cost, which `name` names. The run continues, but a retry is of no
/// use.
pub(super) fn refused(
    run: &RunEntry,
    dialect: &dyn Dialect,
    name: &str,
    message: &str,
) -> Response<Body> {
    let text = format!(
        "{message}; to let it through without a bound use `--allow-unmetered={name}`, or a policy without rules of money or \
         tokens"
    );
    not_admitted(run, dialect, &text)
}

/// The answer to a request for a WebSocket. Its messages would be model calls that are not read; clients that offer one make the
/// same calls as requests.
pub(super) fn no_websocket(dialect: &dyn Dialect) -> Response<Body> {
    let text = "this gateway speaks no WebSocket: send a POST request for each model call";
    let mut answer = error(dialect, StatusCode::UPGRADE_REQUIRED, ErrorKind::Invalid, text);
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    answer
}

/// The refusal of a call that waits for other calls of its run which make no progress.
pub(super) fn deadlocked(run: &RunEntry, dialect: &dyn Dialect) -> Response<Body> {
    let id = run.id();
    let text = format!(
        "run `{id}` holds its remaining budget for streams that their client does not read, so this call would \
         wait forever: read those streams in full or close them, then send the call again; or lower their output \
         caps, so that they hold less"
    );
    refusing(not_admitted(run, dialect, &text), CallRefusal::new("deadlock"))
}

/// 503: the store of the budgets cannot count the call now. The run continues, and a client may send the call again. The
/// error names a server, so only the log has it.
pub(super) fn uncounted(run: &RunEntry, dialect: &dyn Dialect, why: &str) -> Response<Body> {
    run.counters().refused();
    let text = "the store of the budgets is away, so this call was not sent: send it again";
    refusing(later(dialect, text), CallRefusal::with_detail("store_away", why.to_owned()))
}

fn not_admitted(run: &RunEntry, dialect: &dyn Dialect, message: &str) -> Response<Body> {
    run.counters().refused();
    let mut answer = error(dialect, StatusCode::PAYMENT_REQUIRED, ErrorKind::Stopped, message);
    answer.headers_mut().insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    answer
}

/// The stop response. `request` is `None` if it was not parsed.
pub(super) fn stop(
    run: &RunEntry,
    dialect: &dyn Dialect,
    request: Option<&CallRequest>,
    signal: &StopSignal,
    with: StopWith,
) -> Response<Body> {
    stop_response(run, dialect, request, signal, with, "")
}

/// Like [`stop`], instead of a model response with this text, which comes first.
pub(super) fn stop_after(
    run: &RunEntry,
    dialect: &dyn Dialect,
    request: Option<&CallRequest>,
    signal: &StopSignal,
    with: StopWith,
    said: &str,
) -> Response<Body> {
    let mut response = stop_response(run, dialect, request, signal, with, said);
    response.headers_mut().insert(CHARGED_HEADER, HeaderValue::from_static("true"));
    response
}

fn stop_response(
    run: &RunEntry,
    dialect: &dyn Dialect,
    request: Option<&CallRequest>,
    signal: &StopSignal,
    with: StopWith,
    said: &str,
) -> Response<Body> {
    run.flush_log();
    run.counters().stop_response();
    let mut text = stop_text(signal);
    let is_of_amounts = is_of_amounts(signal.reason);
    let unconfirmed = is_of_amounts.then(|| run.handle().report().spend.unconfirmed()).flatten();
    if let Some(unconfirmed) = unconfirmed {
        text.text = format!("{} Of what counts, {unconfirmed}.", text.text);
    }
    if let Some(refused) = run.handle().refused_call().filter(|_| is_of_amounts) {
        text.text = format!("{} {}.", text.text, capitalized(&refused.to_string()));
    }
    if !said.is_empty() {
        text.text = format!("{said}\n\n{}", text.text);
    }
    let own = match request {
        Some(request)
            if with == StopWith::Answer && request.contract != OutputContract::Structure =>
        {
            dialect.stop(request, &text)
        }
        _ => dialect.error(StatusCode::PAYMENT_REQUIRED, ErrorKind::Stopped, &text.text),
    };
    let mut response = self::own(own);
    let headers = response.headers_mut();
    headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    if let Some(reason) = header_text(&text.reason) {
        headers.insert(REASON_HEADER, reason);
    }
    if let Some(id) = header_text(run.id().as_str()) {
        headers.insert(RUN_HEADER, id);
    }
    let refusal = run.handle().look(|run| CallRefusal::of_stop(run, signal));
    refusing(response, refusal)
}

/// The response to a call that the run has cut; an error if a user cut it. `request` is `None` if it was not parsed.
pub(super) fn cut(
    run: &RunEntry,
    handle: &RunHandle,
    dialect: &dyn Dialect,
    request: Option<&CallRequest>,
    stop_with: StopWith,
) -> Response<Body> {
    let signal = run.stop_or("the call was aborted");
    let is_by_user = signal.reason == StopReason::UserRequested
        && handle.token().urgency() == Some(Urgency::Now);
    let with = if is_by_user { StopWith::Error } else { stop_with };
    stop_after(run, dialect, request, &signal, with, "")
}

/// The signal for a call that has waited for an approval as long as it may.
pub(super) fn paused(run: &RunEntry) -> StopSignal {
    let id = run.id();
    let message = match run.handle().pause_request() {
        Some(pause) => format!("run `{id}` is {pause}; ask again once it is resumed"),
        None => format!(
            "run `{id}` is paused and waits for the approval of a person (`endstop approve {id}`); ask again once it is \
             approved"
        ),
    };
    StopSignal::new(StopReason::StopRequested).with_message(message)
}

/// Text as a header's value, without the characters that do not fit there.
pub(super) fn header_text(text: &str) -> Option<HeaderValue> {
    let plain: String =
        text.chars().filter(|c| matches!(c, ' '..='~')).take(HEADER_TEXT_CHARS).collect();
    HeaderValue::from_str(&plain).ok()
}
