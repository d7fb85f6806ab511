//! Requests that are forwarded unparsed. They are counted.

use std::pin::pin;

use bytes::Bytes;
use endstop_llm::{Dialect, ErrorKind};
use endstop_runtime::{CancelOn, Waited};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, StatusCode, request};
use hyper::body::{Body as _, Incoming};

use super::context::CallContext;
use super::parse::raw_body;
use super::relay::raw_body::{RawBody, error_response};
use super::respond;
use super::upstream_response::with_head;
use crate::body::Body;
use crate::route::{Endpoint, Route};
use crate::run::{NoRun, RunEntry};
use crate::server::PeerInfo;
use crate::upstream::UpstreamBody;

/// Passes a request on whose usage cannot be read, or that costs nothing.
pub(super) async fn pass_through(
    context: &CallContext,
    route: Route,
    peer: &PeerInfo,
    head: &request::Parts,
    incoming: Incoming,
) -> Response<Body> {
    let dialect = respond::dialect_for(route.family);
    let run = match context.run(&route, peer, "").await {
        Ok(run) => run,
        Err(why) => return respond::no_run(dialect, &route.run, &why),
    };
    run.handle().checkpoint();
    // A browser's preflight reveals nothing to it and costs nothing. The same applies to settings and telemetry of an
    // intercepted host.
    let costs_nothing = head.method == Method::OPTIONS || route.endpoint == Endpoint::Free;
    let stop_with = context.config().stop_with;
    if let Some(signal) = run.stop().filter(|_| !costs_nothing) {
        if run.has_moved() {
            let why = NoRun::Held { by: String::new() };
            return respond::no_run(dialect, &route.run, &why);
        }
        run.notify();
        return respond::stop(&run, dialect, None, &signal, stop_with);
    }
    let is_free = is_free(&head.method) && incoming.is_end_stream();
    if let Some(refused) = refusal(context, &route, &run, &head.method, is_free) {
        return refused;
    }
    // A stopped run does not abort requests that it lets pass.
    let guard = (!costs_nothing).then(|| run.handle());
    let forwarding = forward(context, &route, head, incoming, dialect, &run);
    let forwarded = match guard {
        Some(handle) => handle.wait(&mut pin!(forwarding), CancelOn::Abort).await,
        None => Waited::Done(forwarding.await),
    };
    let (parts, body) = match forwarded {
        Waited::Aborted => {
            run.handle().checkpoint();
            return respond::cut(&run, run.handle(), dialect, None, stop_with);
        }
        Waited::Done(Err(refused)) => return *refused,
        Waited::Done(Ok(response)) => response.into_parts(),
    };
    let secrets = context.secrets(&route, head);
    let headers = context.returned(&route, parts.headers.clone(), &secrets);
    let has_body = head.method != Method::HEAD && parts.status != StatusCode::NOT_MODIFIED;
    if !parts.status.is_success() && has_body {
        let head = (parts.status, headers);
        return error_response(dialect, &secrets, guard, head, Bytes::new(), body).await;
    }
    let raw = RawBody::new(body);
    let raw = match guard {
        Some(handle) => raw.into_body_of(handle),
        None => raw.into_body(),
    };
    let mut response = with_head(parts.status, headers, raw);
    if !has_body {
        // It is of the body that is not sent.
        let length = parts.headers.get(CONTENT_LENGTH).cloned();
        response.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, length)));
    }
    response
}

/// Returns the refusal of a request whose usage cannot be read, if tokens or money are limited.
fn refusal(
    context: &CallContext,
    route: &Route,
    run: &RunEntry,
    method: &Method,
    is_free: bool,
) -> Option<Response<Body>> {
    let path = route.rest.split('?').next().unwrap_or("");
    let (name, text) = match route.endpoint {
        Endpoint::Cloud(platform) => {
            let (title, instead) = (platform.title(), platform.instead());
            (platform.name(), format!("calls of {title} cannot be read: not admitted; {instead}"))
        }
        Endpoint::Other if !is_free => {
            (path, format!("what {method} {path} uses cannot be read: not admitted"))
        }
        _ => return None,
    };
    context.refuses(run, name).then(|| {
        let text = format!("run `{}` limits money or tokens, and {text}", route.run);
        respond::refused(run, respond::dialect_for(route.family), name, &text)
    })
}

/// Reads a request as it is and sends it. Returns the client's response if there is none from the upstream.
async fn forward(
    context: &CallContext,
    route: &Route,
    head: &request::Parts,
    incoming: Incoming,
    dialect: &dyn Dialect,
    run: &RunEntry,
) -> Result<Response<UpstreamBody>, Box<Response<Body>>> {
    let body = raw_body(context.config(), incoming, dialect).await?;
    // The body may have taken long.
    let key = context.key_now(route).await;
    key.map_err(|why| Box::new(respond::no_route(dialect, &why)))?;
    if route.endpoint != Endpoint::Free {
        run.counters().unmetered();
    }
    let request = request_of(context, route, head, body).map_err(|error| {
        let text = format!("the path of the request is not valid: {error}");
        let status = StatusCode::BAD_REQUEST;
        Box::new(respond::error(dialect, status, ErrorKind::Invalid, &text))
    })?;
    context.send(route, request).await.map_err(|error| {
        let (status, text) = (error.status(), error.to_string());
        Box::new(respond::error(dialect, status, ErrorKind::Upstream, &text))
    })
}

fn request_of(
    context: &CallContext,
    route: &Route,
    head: &request::Parts,
    body: Bytes,
) -> Result<Request<Bytes>, http::uri::InvalidUri> {
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = route.rest.parse()?;
    *request.headers_mut() = context.forwarded(route, &head.headers);
    Ok(request)
}

/// Whether requests of this method cost nothing at any provider.
fn is_free(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE)
}
