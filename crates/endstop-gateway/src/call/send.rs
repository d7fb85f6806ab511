//! The third phase: the call is sent, in the form that its upstream takes.

use std::pin::pin;

use bytes::Bytes;
use endstop_llm::{CallResponse, Edits, ErrorKind, PlanWindow, ReadError};
use endstop_runtime::account::BudgetStoreError;
use endstop_runtime::{CancelOn, ErrorBilling, ModelError, ModelErrorKind, Waited};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use thiserror::Error;

use super::admit::AdmittedCall;
use super::context::{CallContext, UpstreamStop};
use super::drain::ClientPresence;
use super::parse::ParsedCall;
use super::relay::raw_body::{RawBody, error_response};
use super::relay::{cut, cut_off, relay};
use super::respond;
use super::secrets::Secrets;
use super::settle::{InFlightCall, SettledCall};
use super::upstream_response::{WholeBody, error_of, plain, read_error, read_whole, with_head};
use crate::body::Body;
use crate::limits::{ERROR_WITHIN, MAX_REFUSAL};
use crate::upstream::{UpstreamBody, UpstreamError};

/// The outcome of one attempt.
enum AttemptOutcome<'p> {
    /// The client gets this response.
    Respond(Response<Body>),
    /// A retry rule trips: the call is sent again.
    RetryCall(SettledCall),
    /// The upstream refused what the gateway added: the same call is sent again with other edits.
    RetryRequest(Box<InFlightCall>, Edits<'p>),
}

/// Why an admitted call cannot be sent as it has to be.
#[derive(Debug, Error)]
enum RequestError {
    /// Its body cannot be changed.
    #[error(transparent)]
    Edit(#[from] ReadError),
    /// Its path is not one of an upstream.
    #[error("the path of the request is not valid")]
    Path,
}

/// One call on its way to its upstream.
struct Sending<'p> {
    context: &'p CallContext,
    parsed: &'p ParsedCall,
    /// Warnings for the client.
    warning: Option<String>,
}

/// Sends an admitted call until its upstream takes its form, and relays the response.
///
/// # Errors
/// The settled call, if a retry rule wants another response.
pub(super) async fn send(
    context: &CallContext,
    admitted: AdmittedCall,
    parsed: &ParsedCall,
    client: ClientPresence,
) -> Result<Response<Body>, SettledCall> {
    let (mut call, warning) = admitted.into_in_flight(context, parsed, client);
    let sending = Sending { context, parsed, warning };
    let mut edits = call.negotiation().edits(parsed);
    loop {
        let request = match sending.request(&edits) {
            Ok(request) => request,
            Err(error) => {
                let kind = ModelErrorKind::Rejected;
                call.failed(&ModelError::new(kind, error.to_string()), &CallResponse::default());
                let text = format!("the request cannot be changed: {error}");
                let (dialect, status) = (parsed.dialect(), StatusCode::BAD_REQUEST);
                return Ok(respond::error(dialect, status, ErrorKind::Invalid, &text));
            }
        };
        match sending.attempt(call, request).await {
            AttemptOutcome::Respond(response) => return Ok(response),
            AttemptOutcome::RetryCall(settled) => return Err(settled),
            AttemptOutcome::RetryRequest(same, others) => (call, edits) = (same, others),
        }
    }
}

impl<'p> Sending<'p> {
    fn request(&self, edits: &Edits<'_>) -> Result<Request<Bytes>, RequestError> {
        let parsed = self.parsed;
        let body = if edits.is_empty() {
            parsed.body().clone()
        } else {
            Bytes::from(parsed.dialect().edit(parsed.body(), edits)?)
        };
        let mut headers = self.context.forwarded(parsed.route(), &parsed.head().headers);
        headers.remove(CONTENT_ENCODING);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut request = Request::new(body);
        *request.method_mut() = parsed.head().method.clone();
        *request.uri_mut() = parsed.route().rest.parse().map_err(|_| RequestError::Path)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    // The futures after an error are boxed: otherwise each call would have room for them.
    async fn attempt(
        &self,
        call: Box<InFlightCall>,
        request: Request<Bytes>,
    ) -> AttemptOutcome<'p> {
        use AttemptOutcome::Respond;
        let (context, parsed) = (self.context, self.parsed);
        if let Err(why) = call.run().check_store() {
            return Respond(self.not_sent(call, &why));
        }
        // Counted first: the client may disconnect while it waits.
        call.entry().counters().upstream_call();
        let sent = {
            // Dropped before the call is settled: a cut call must not continue at its upstream.
            let mut sending = pin!(context.send(parsed.route(), request));
            call.run().wait(&mut sending, CancelOn::Abort).await
        };
        let response = match sent {
            Waited::Aborted => return Respond(self.cut(call)),
            Waited::Done(Err(error)) => return Respond(self.unreachable(call, &error)),
            Waited::Done(Ok(response)) => response,
        };
        let (parts, body) = response.into_parts();
        for window in PlanWindow::of_headers(&parts.headers) {
            call.entry().report_quota(&window);
        }
        let stop = context.stop_of(parsed.route(), &parts.headers);
        let mut headers = context.returned(parsed.route(), parts.headers, call.secrets());
        if let Some(warning) = self.warning(&call).as_deref().and_then(respond::header_text) {
            headers.insert(respond::WARNING_HEADER, warning);
        }
        let secrets = call.secrets().clone();
        if stop == Some(UpstreamStop::Free) {
            let settled = call.stopped_upstream();
            if !parts.status.is_success() {
                let head = (parts.status, headers);
                let response = self.error_response(&secrets, &settled, head, Bytes::new(), body);
                return Respond(Box::pin(response).await);
            }
            let body = RawBody::new(body).into_body_of(settled.run());
            return Respond(with_head(parts.status, headers, body));
        }
        if call.negotiation().is_concerned(parts.status) {
            return Box::pin(self.refused(call, parts.status, headers, body)).await;
        }
        if !parts.status.is_success() {
            let failed = self.failed(call, (parts.status, headers), body, stop);
            return Respond(Box::pin(failed).await);
        }
        let provider = context.provider(parsed.route());
        call.negotiation().accepted(context.quirks(), provider, parsed);
        match relay(context, parsed, call, parts.status, headers, body).await {
            Ok(response) => Respond(response),
            Err(settled) => AttemptOutcome::RetryCall(settled),
        }
    }

    /// Settles a call that the upstream answered with an error, and passes that on.
    async fn failed(
        &self,
        mut call: Box<InFlightCall>,
        head: (StatusCode, HeaderMap),
        body: UpstreamBody,
        stop: Option<UpstreamStop>,
    ) -> Response<Body> {
        let (status, headers) = head;
        let mut error = error_of(status, &headers, &[]);
        let may_cost = error.may_be_charged(false)
            || self.context.may_charge_refused(self.parsed.route(), status);
        let is_vague = stop.is_none() && ModelErrorKind::depends_on_body(status.as_u16());
        if may_cost || is_vague {
            if !may_cost {
                call.answered_free(error);
            }
            return self.broke(call, status, headers, body, may_cost).await;
        }
        if stop == Some(UpstreamStop::Charged) {
            error.billing = ErrorBilling::Charged;
        }
        let secrets = call.secrets().clone();
        let settled = call.failed(&error, &CallResponse::default());
        self.error_response(&secrets, &settled, (status, headers), Bytes::new(), body).await
    }

    /// Passes on an error whose body shows whether it may be charged, or whether another attempt helps. Such errors are short.
    async fn broke(
        &self,
        call: Box<InFlightCall>,
        status: StatusCode,
        headers: HeaderMap,
        mut body: UpstreamBody,
        may_cost: bool,
    ) -> Response<Body> {
        // A body that decides nothing of money is not worth a longer wait.
        let reading = read_error(&mut body, (!may_cost).then_some(ERROR_WITHIN));
        let begun = match call.run().wait(&mut pin!(reading), CancelOn::Abort).await {
            Waited::Aborted if may_cost => return self.cut(call),
            Waited::Aborted => {
                let error = error_of(status, &headers, &[]);
                let settled = call.failed(&error, &CallResponse::default());
                return cut_off(self.context, self.parsed, &settled);
            }
            Waited::Done(begun) => begun,
        };
        let text = plain(&headers, &begun, MAX_REFUSAL);
        let error = self.error(status, &headers, text.as_deref().unwrap_or_default());
        let secrets = call.secrets().clone();
        let settled = call.failed(&error, &CallResponse::default());
        self.error_response(&secrets, &settled, (status, headers), begun, body).await
    }

    /// The client's response to an upstream's error.
    async fn error_response(
        &self,
        secrets: &Secrets,
        settled: &SettledCall,
        head: (StatusCode, HeaderMap),
        begun: Bytes,
        body: UpstreamBody,
    ) -> Response<Body> {
        let (dialect, run) = (self.parsed.dialect(), Some(settled.run()));
        error_response(dialect, secrets, run, head, begun, body).await
    }

    /// Reads what an upstream says that may have refused what the gateway added. Nothing is charged for it, and the call
    /// keeps its reservation.
    async fn refused(
        &self,
        mut call: Box<InFlightCall>,
        status: StatusCode,
        headers: HeaderMap,
        mut body: UpstreamBody,
    ) -> AttemptOutcome<'p> {
        use AttemptOutcome::Respond;
        let mut received = 0;
        let reading = read_whole(&mut body, MAX_REFUSAL, &mut received);
        let read = call.run().wait(&mut pin!(reading), CancelOn::Abort).await;
        let bytes = match read {
            Waited::Aborted => return Respond(self.cut(call)),
            Waited::Done(Ok(WholeBody::Complete(bytes))) => bytes,
            Waited::Done(Ok(WholeBody::TooLong(begun))) => {
                let secrets = call.secrets().clone();
                let settled =
                    call.failed(&self.error(status, &headers, &begun), &CallResponse::default());
                let head = (status, headers);
                return Respond(self.error_response(&secrets, &settled, head, begun, body).await);
            }
            Waited::Done(Err(_)) => Bytes::new(),
        };
        let text = plain(&headers, &bytes, MAX_REFUSAL);
        let words = String::from_utf8_lossy(text.as_deref().unwrap_or_default()).into_owned();
        // Without its client, no further request is sent for it.
        if !call.client().is_gone()
            && let Some(edits) = call.negotiate(&words, self.parsed)
        {
            return AttemptOutcome::RetryRequest(call, edits);
        }
        let error = self.error(status, &headers, text.as_deref().unwrap_or_default());
        let secrets = call.secrets().clone();
        let settled = call.failed(&error, &CallResponse::default());
        Respond(self.error_response(&secrets, &settled, (status, headers), bytes, body).await)
    }

    /// The error of a response with this status and body.
    fn error(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ModelError {
        let is_in_shape = self.parsed.dialect().is_error(body);
        let route = self.parsed.route();
        let billing = self.context.billing(route, status, is_in_shape, body);
        ModelError { billing, ..error_of(status, headers, body) }
    }

    /// The warnings of rules and of the gateway.
    fn warning(&self, call: &InFlightCall) -> Option<String> {
        match (&self.warning, call.negotiation().notice()) {
            (Some(warning), Some(notice)) => Some(format!("{warning}; {notice}")),
            (Some(warning), None) => Some(warning.clone()),
            (None, notice) => notice.map(str::to_owned),
        }
    }

    /// The response to a call that the run has cut.
    fn cut(&self, call: Box<InFlightCall>) -> Response<Body> {
        cut(self.context, self.parsed, call)
    }

    /// The response to a call that the store of the budgets has admitted too long ago.
    fn not_sent(&self, call: Box<InFlightCall>, why: &BudgetStoreError) -> Response<Body> {
        let error = ModelError::new(ModelErrorKind::Rejected, "it was not sent");
        let settled = call.failed(&error, &CallResponse::default());
        respond::uncounted(settled.entry(), self.parsed.dialect(), &why.to_string())
    }

    fn unreachable(&self, call: Box<InFlightCall>, error: &UpstreamError) -> Response<Body> {
        let text = error.to_string();
        let kind = match error {
            UpstreamError::Silent { .. } => ModelErrorKind::TimedOut,
            error if error.may_have_arrived() => ModelErrorKind::Truncated,
            _ => ModelErrorKind::Connection,
        };
        if kind == ModelErrorKind::Connection {
            call.entry().counters().upstream_call_not_made();
        }
        call.failed(&ModelError::new(kind, text.clone()), &CallResponse::default());
        respond::error(self.parsed.dialect(), error.status(), ErrorKind::Upstream, &text)
    }
}
