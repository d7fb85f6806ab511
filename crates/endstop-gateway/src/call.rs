//! One call, from the request to its settlement.
//!
//! Each phase owns what it needs and hands on the next:
//!
//! 1. [`parse`]: the request is read. [`ParsedCall`](parse::ParsedCall)
//! 2. [`admit`]: the run records tool results, and admits the call: its worst case is reserved. Where the
//!    bytes of its input do not fit, the upstream counts them first ([`count`]).
//!    [`AdmittedCall`](admit::AdmittedCall)
//! 3. [`send`]: the request is sent with its output cap. What the upstream refuses of the gateway's additions is
//!    negotiated ([`negotiate`]). [`InFlightCall`](settle::InFlightCall)
//! 4. [`relay`]: the response is passed on, as a whole or while it comes.
//! 5. [`settle`]: whatever happens, the call is settled once. [`SettledCall`](settle::SettledCall)
//!
//! A client may disconnect at any time; [`outliving`] decides how its call ends then.
//!
//! Requests that are no model calls pass through ([`pass_through`]).

mod admit;
mod context;
mod count;
mod drain;
mod negotiate;
mod outliving;
mod parse;
mod pass_through;
mod relay;
mod respond;
mod send;
mod settle;
mod tools;
mod uncounted;
mod upstream_response;

use std::sync::Arc;

use endstop_llm::{Api, ErrorKind};
use http::{Request, Response, StatusCode, request};
use hyper::body::Incoming;

use crate::body::Body;
use crate::config::Config;
use crate::route::{self, Endpoint, Route};
use crate::run::Registry;
use crate::upstream::HttpClient;
use context::CallContext;
pub(crate) use drain::Drains;
use parse::ParsedCall;

/// Answers the calls of clients.
#[derive(Debug)]
pub(crate) struct CallService {
    context: Arc<CallContext>,
}

impl CallService {
    pub(crate) fn new(config: Arc<Config>, client: HttpClient, registry: Arc<Registry>) -> Self {
        Self { context: Arc::new(CallContext::new(config, client, registry)) }
    }

    /// The calls that continue without their clients.
    pub(crate) fn drains(&self) -> Arc<Drains> {
        Arc::clone(self.context.drains())
    }

    /// Answers a request.
    ///
    /// # Cancel safety
    /// Dropped when the client disconnects: the call in flight is settled, now or after its response has arrived ([`outliving`]).
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, incoming) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        if route::is_websocket(&head.headers) {
            let family = route::api_family(&head.method, target, &head.headers);
            return respond::no_websocket(respond::dialect_for(family));
        }
        let route = match route::route(self.context.config(), &head.method, target, &head.headers) {
            Ok(route) => route,
            Err(error) => {
                let family = route::api_family(&head.method, target, &head.headers);
                let status = if error.is_of_key() {
                    StatusCode::UNAUTHORIZED
                } else {
                    StatusCode::BAD_REQUEST
                };
                let (dialect, text) = (respond::dialect_for(family), error.to_string());
                return respond::error(dialect, status, ErrorKind::Invalid, &text);
            }
        };
        let is_unread = matches!(route.endpoint, Endpoint::Other | Endpoint::Cloud(_));
        if route.has_issued_key && is_unread {
            let path = route.rest.split('?').next().unwrap_or("");
            let text = format!(
                "a key that this gateway has issued is for model calls, counts of tokens and lists of models: {} {path} is \
                 none of these",
                head.method
            );
            let dialect = respond::dialect_for(route.family);
            return respond::error(dialect, StatusCode::FORBIDDEN, ErrorKind::Invalid, &text);
        }
        match route.endpoint {
            Endpoint::ModelCall(api) => self.model_call(route, head, incoming, api).await,
            Endpoint::CountTokens | Endpoint::Models | Endpoint::Cloud(_) | Endpoint::Other => {
                pass_through::pass_through(&self.context, route, &head, incoming).await
            }
        }
    }

    async fn model_call(
        &self,
        route: Route,
        head: request::Parts,
        incoming: Incoming,
        api: Api,
    ) -> Response<Body> {
        let context = &self.context;
        let read = ParsedCall::read(context.config(), route, head, incoming, api);
        let parsed = match read.await {
            Ok(parsed) => Arc::new(parsed),
            Err(refused) => return *refused,
        };
        let route = parsed.route();
        let mut takes_share = context.config().fair_shares;
        loop {
            let run = match context.run(route, &parsed.request().model).await {
                Ok(run) => run,
                Err(why) => return respond::no_run(api.dialect(), &route.run, &why),
            };
            let admitted = match admit::admit(context, &run, &parsed, takes_share).await {
                Ok(admitted) => admitted,
                Err(refused) => return *refused,
            };
            match outliving::send(context, admitted, &parsed).await {
                Ok(response) => return response,
                // The conversation is free for the next attempt.
                Err(settled) => takes_share &= !settled.is_cut_by_share(),
            }
        }
    }
}
