//! Requests that pass without being read, counted.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, StatusCode, request};
use hyper::body::{Body as _, Incoming};

use super::ask::respond;
use super::raw::RawBody;
use super::{Gate, answer, take};
use crate::api::{Api, ErrorKind};
use crate::body::Body;
use crate::route::Route;
use crate::run::count;
use crate::upstream::forwardable;

impl Gate {
    /// Passes a request on whose usage cannot be read, or that costs nothing.
    pub(super) async fn pass(
        &self,
        route: Route,
        head: &request::Parts,
        incoming: Incoming,
    ) -> Response<Body> {
        let dialect = answer::dialect_for(route.side);
        let provider = self.provider(route.side);
        let run = match self.registry.take(&route.run, "", provider).await {
            Ok(run) => run,
            Err(why) => return answer::no_run(dialect, &route.run, &why),
        };
        run.driven.checkpoint();
        // What a browser asks before a request tells it nothing and costs nothing.
        let is_preflight = head.method == Method::OPTIONS;
        if let Some(signal) = run.stop().filter(|_| !is_preflight) {
            run.ring();
            return answer::stop(&run, dialect, None, &signal, self.config.stop_with);
        }
        let is_free = is_free(&head.method) && incoming.is_end_stream();
        let costs = route.api == Api::Other && !is_free;
        if costs && self.is_metered(&run) {
            let text = format!(
                "run `{}` limits money or tokens, and what {} {} uses cannot be read: not admitted",
                route.run,
                head.method,
                route.rest.split('?').next().unwrap_or("")
            );
            return answer::refused(&run, dialect, &text);
        }
        let body = match take::raw_body(&self.config, incoming, dialect).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        };
        count(&run.counters.unmetered);
        let request = match self.passed(&route, head, body) {
            Ok(request) => request,
            Err(error) => {
                let text = format!("the path of the request is not valid: {error}");
                let status = StatusCode::BAD_REQUEST;
                return answer::error(dialect, status, ErrorKind::Invalid, &text);
            }
        };
        match self.client.send(self.base(route.side), request).await {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let headers = forwardable(&parts.headers);
                let raw = RawBody::new(body).into_body();
                let mut answer = respond(parts.status, headers, raw);
                if head.method == Method::HEAD || parts.status == StatusCode::NOT_MODIFIED {
                    // It is of the body that is not sent.
                    let length = parts.headers.get(CONTENT_LENGTH).cloned();
                    answer.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, length)));
                }
                answer
            }
            Err(error) => {
                let (status, text) = (StatusCode::BAD_GATEWAY, error.to_string());
                answer::error(dialect, status, ErrorKind::Upstream, &text)
            }
        }
    }

    fn passed(
        &self,
        route: &Route,
        head: &request::Parts,
        body: Bytes,
    ) -> Result<Request<Bytes>, http::uri::InvalidUri> {
        let mut request = Request::new(body);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = route.rest.parse()?;
        *request.headers_mut() = self.forwarded(route, &head.headers);
        Ok(request)
    }
}

/// Whether requests of this method cost nothing at any provider.
fn is_free(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE)
}
