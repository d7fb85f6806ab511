//! The fourth phase: the response is passed on, complete or streamed.

pub(super) mod raw_body;
mod stream;
mod watched;

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use endstop_core::event::EventKind;
use endstop_core::policy::OnClientGone;
use endstop_llm::{Api, CallResponse, ErrorKind};
use endstop_runtime::observe::Detail;
use endstop_runtime::{CancelOn, ModelError, ModelErrorKind, Waited};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode};

use super::context::CallContext;
use super::parse::ParsedCall;
use super::respond;
use super::settle::{Disposition, InFlightCall, SettledCall};
use super::upstream_response::{
    WholeBody, bytes_of, is_event_stream, is_json, plain, read_whole, with_head,
};
use crate::body::Body;
use crate::upstream::UpstreamBody;
use raw_body::RawBody;
use stream::StreamRelay;
use watched::WatchedStream;

/// Passes a successful response on, and settles its call.
///
/// # Errors
/// The settled call, if a retry rule wants another response.
pub(super) async fn relay(
    context: &CallContext,
    parsed: &ParsedCall,
    call: Box<InFlightCall>,
    status: StatusCode,
    mut headers: HeaderMap,
    body: UpstreamBody,
) -> Result<Response<Body>, SettledCall> {
    if is_event_stream(&headers) || parsed.request().is_list && is_json(&headers) {
        let (run, progress) = (call.run().clone(), call.entry().read_progress());
        let max_event = context.config().bounds.event;
        let stream = StreamRelay::new(call, parsed, &mut headers, body, max_event);
        let on_client_gone = context.on_client_gone();
        let drains = (on_client_gone != OnClientGone::Close).then(|| Arc::clone(context.drains()));
        let reads_to_end = on_client_gone == OnClientGone::Drain;
        let stream = WatchedStream::new(stream, run, progress, drains, reads_to_end);
        return Ok(with_head(status, headers, Body::stream(stream)));
    }
    relay_whole(context, parsed, call, status, headers, body).await
}

async fn relay_whole(
    context: &CallContext,
    parsed: &ParsedCall,
    mut call: Box<InFlightCall>,
    status: StatusCode,
    mut headers: HeaderMap,
    mut body: UpstreamBody,
) -> Result<Response<Body>, SettledCall> {
    let config = context.config();
    let max = config.bounds.answer;
    let (run, received) = call.reading();
    let reading = read_whole(&mut body, max, received);
    let read = run.wait(&mut pin!(reading), CancelOn::Abort).await;
    let bytes = match read {
        Waited::Aborted => return Ok(cut(context, parsed, call)),
        Waited::Done(Err(error)) => {
            let text = error.to_string();
            call.failed_after_part(&ModelError::new(ModelErrorKind::Truncated, text.clone()));
            let (dialect, status) = (parsed.dialect(), StatusCode::BAD_GATEWAY);
            return Ok(respond::error(dialect, status, ErrorKind::Upstream, &text));
        }
        Waited::Done(Ok(WholeBody::TooLong(begun))) => {
            let output_bytes = bytes_of(&begun);
            let settled = call.delivered(&CallResponse { output_bytes, ..CallResponse::default() });
            let body = RawBody::after(begun, body).into_body_of(settled.run());
            return Ok(with_head(status, headers, body));
        }
        Waited::Done(Ok(WholeBody::Complete(bytes))) => bytes,
    };
    let seen = read_response(parsed, &headers, &bytes, max);
    if parsed.api() == Api::Responses && is_only_begun(&seen, &bytes) {
        call.only_begun(&seen);
        return Ok(with_head(status, headers, Body::full(bytes)));
    }
    let secrets = call.secrets().clone();
    let Ok(call) = call.failed_inside(&seen) else {
        // An error, though its status does not say so.
        let text = plain(&headers, &bytes, max).unwrap_or_default();
        headers.remove(CONTENT_ENCODING);
        let text = Bytes::from(secrets.redact(&text).into_owned());
        return Ok(with_head(status, headers, Body::full(text)));
    };
    if !seen.text.is_empty() {
        call.run().record(&EventKind::Piece { text: &seen.text }, Detail::None);
    }
    let settled = call.replied(&seen);
    match settled.disposition() {
        Disposition::Retry | Disposition::RetryWithoutShare => return Err(settled),
        Disposition::Stop => {
            if let Some(signal) = settled.stop() {
                let (run, request) = (settled.entry(), Some(parsed.request()));
                let (dialect, with, said) = (parsed.dialect(), config.stop_with, &seen.text);
                return Ok(respond::stop_after(run, dialect, request, &signal, with, said));
            }
        }
        Disposition::ForwardToolCalls(keep) => {
            let kept = plain(&headers, &bytes, max)
                .and_then(|plain| parsed.dialect().keep_calls(&plain, keep).ok());
            if let Some(kept) = kept {
                headers.remove(CONTENT_ENCODING);
                return Ok(with_head(status, headers, Body::full(kept.into())));
            }
        }
        Disposition::Forward => {}
    }
    Ok(with_head(status, headers, Body::full(bytes)))
}

/// Settles a call that the run has cut before its response was complete, and returns the client's response.
pub(super) fn cut(
    context: &CallContext,
    parsed: &ParsedCall,
    call: Box<InFlightCall>,
) -> Response<Body> {
    cut_off(context, parsed, &call.cut_after_part())
}

/// The response to a client whose call was aborted and is settled.
pub(super) fn cut_off(
    context: &CallContext,
    parsed: &ParsedCall,
    settled: &SettledCall,
) -> Response<Body> {
    settled.run().checkpoint();
    let (dialect, request) = (parsed.dialect(), Some(parsed.request()));
    let stop_with = context.config().stop_with;
    respond::cut(settled.entry(), settled.run(), dialect, request, stop_with)
}

/// Reads a response. One that cannot be read counts by its length.
fn read_response(
    parsed: &ParsedCall,
    headers: &HeaderMap,
    bytes: &Bytes,
    max: usize,
) -> CallResponse {
    let plain = plain(headers, bytes, max);
    let unread = || CallResponse { output_bytes: bytes_of(bytes), ..CallResponse::default() };
    plain.and_then(|plain| parsed.dialect().answer(&plain).ok()).unwrap_or_else(unread)
}

/// Whether the model has not responded yet, and its usage will be reported elsewhere.
const fn is_only_begun(seen: &CallResponse, bytes: &Bytes) -> bool {
    let says_nothing = seen.output_bytes == 0 && seen.usage.is_none();
    !seen.is_whole && says_nothing && !bytes.is_empty()
}
