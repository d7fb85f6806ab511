//! Requests that pass without being read, counted.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, StatusCode, request};
use hyper::body::{Body as _, Incoming};

use super::ask::{Cut, guarded, respond};
use super::raw::RawBody;
use super::{Gate, answer, take};
use crate::body::Body;
use crate::route::Route;
use crate::run::{RunEntry, count};
use crate::upstream::{UpstreamBody, forwardable};
use endstop_llm::{Api, Dialect, ErrorKind};

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
        // What passes a stopped run is not cut by it.
        let driven = (!is_preflight).then_some(&run.driven);
        let asking = self.pass_on(&route, head, incoming, dialect, &run);
        let answered = match driven {
            Some(driven) => guarded(driven, asking).await,
            None => Ok(asking.await),
        };
        let (parts, body) = match answered {
            Err(Cut) => {
                run.driven.checkpoint();
                return self.cut_answer(&run, &run.driven, dialect, None);
            }
            Ok(Err(answered)) => return *answered,
            Ok(Ok(response)) => response.into_parts(),
        };
        let headers = forwardable(&parts.headers);
        let raw = RawBody::new(body);
        let raw = match driven {
            Some(driven) => raw.into_body_of(driven),
            None => raw.into_body(),
        };
        let mut answer = respond(parts.status, headers, raw);
        if head.method == Method::HEAD || parts.status == StatusCode::NOT_MODIFIED {
            // It is of the body that is not sent.
            let length = parts.headers.get(CONTENT_LENGTH).cloned();
            answer.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, length)));
        }
        answer
    }

    /// Reads a request as it is and sends it; the answer to the client where there is none from upstream.
    async fn pass_on(
        &self,
        route: &Route,
        head: &request::Parts,
        incoming: Incoming,
        dialect: &dyn Dialect,
        run: &RunEntry,
    ) -> Result<Response<UpstreamBody>, Box<Response<Body>>> {
        let body = take::raw_body(&self.config, incoming, dialect).await?;
        count(&run.counters.unmetered);
        let request = self.passed(route, head, body).map_err(|error| {
            let text = format!("the path of the request is not valid: {error}");
            let status = StatusCode::BAD_REQUEST;
            Box::new(answer::error(dialect, status, ErrorKind::Invalid, &text))
        })?;
        self.client.send(self.base(route.side), request).await.map_err(|error| {
            let (status, text) = (error.status(), error.to_string());
            Box::new(answer::error(dialect, status, ErrorKind::Upstream, &text))
        })
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
