//! One call, from the request to its settlement.
//!
//! Each phase owns what it needs and hands on the next:
//!
//! 1. [`parse`]: the request is read. [`ParsedCall`](parse::ParsedCall)
//! 2. [`admit`]: the run records tool results, and admits the call: its worst case is reserved. Where the
//!    bytes of its input do not fit, the upstream counts them first ([`count`]).
//!    [`AdmittedCall`](admit::AdmittedCall)
//! 3. [`send`]: the request is sent with its output cap. Additions of the gateway that the upstream refuses are
//!    negotiated ([`negotiate`]). [`InFlightCall`](settle::InFlightCall)
//! 4. [`relay`]: the response is passed on, complete or streamed.
//! 5. [`settle`]: whatever happens, the call is settled once. [`SettledCall`](settle::SettledCall)
//!
//! A client may disconnect at any time; [`outliving`] decides how its call ends then.
//!
//! Requests other than model calls pass through ([`pass_through`]).

mod admit;
mod context;
mod count;
mod drain;
mod key;
mod negotiate;
mod outliving;
mod parse;
mod pass_through;
mod relay;
mod respond;
mod secrets;
mod send;
mod settle;
mod tools;
mod uncounted;
mod upstream_response;

use std::sync::Arc;

use endstop_llm::{Api, ErrorKind};
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, request};
use hyper::body::Incoming;

use crate::body::Body;
use crate::config::{Config, IssuedTo};
use crate::limits::MAX_LOGGED_MODEL;
use crate::refused_call::{CallRefusal, RefusedCall};
use crate::route::{self, Endpoint, Route};
use crate::run::Registry;
use crate::server::PeerInfo;
use crate::tunnel::InterceptedHost;
use crate::upstream::HttpClient;
use admit::NotAdmitted;
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

    /// Answers a request; with `host`, one in a connection to this host that the gateway intercepts.
    ///
    /// # Cancel safety
    /// Dropped when the client disconnects: the call in flight is settled, now or after its response has arrived ([`outliving`]).
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: PeerInfo,
        host: Option<Arc<InterceptedHost>>,
    ) -> Response<Body> {
        let (head, incoming) = request.into_parts();
        let config = self.context.config();
        let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        if route::is_websocket(&head.headers) {
            let family = route::family_and_endpoint(&head.method, target, &head.headers).0;
            return respond::no_websocket(respond::dialect_for(family));
        }
        let keys = config.runs.look_at_keys().await;
        let route = match route::route(config, &keys, &head.method, target, &head.headers, host) {
            Ok(route) => route,
            Err(error) => {
                let (family, endpoint) =
                    route::family_and_endpoint(&head.method, target, &head.headers);
                let response = respond::no_route(respond::dialect_for(family), &error);
                let (_, run) = error.reason();
                self.tell(&response, || RefusedCall {
                    run: run.cloned(),
                    client: peer.ip(),
                    api: endpoint.api_name(),
                    ..with_key(route::issued_to(&keys, target, &head.headers).as_ref())
                });
                return response;
            }
        };
        drop(keys);
        let of_call = RefusedCall {
            run: config.refusals.as_ref().map(|_| route.run.clone()),
            client: peer.ip(),
            api: route.endpoint.api_name(),
            ..with_key(route.issued.as_ref())
        };
        let (response, model) = self.answer_for(route, peer, head, incoming).await;
        self.tell(&response, || RefusedCall { model, ..of_call });
        response
    }

    /// Reports the refusal of a request that no program of this machine has sent.
    pub(crate) fn tell_foreign(
        &self,
        mut response: Response<Body>,
        peer: &PeerInfo,
    ) -> Response<Body> {
        response.extensions_mut().insert(CallRefusal::new("foreign_request"));
        self.tell(&response, || RefusedCall { client: peer.ip(), ..RefusedCall::default() });
        response
    }

    /// Reports a response that refuses its call to the observer of refusals.
    fn tell(&self, response: &Response<Body>, of_call: impl FnOnce() -> RefusedCall) {
        let Some(observer) = &self.context.config().refusals else { return };
        let Some(refusal) = response.extensions().get::<CallRefusal>() else { return };
        let refused = of_call();
        let RefusedCall { reason, rule, limit, observed, detail, status, .. } =
            refusal.call(response.status().as_u16());
        observer.refused(&RefusedCall { reason, rule, limit, observed, detail, status, ..refused });
    }

    /// Answers a request that has a route. Returns the model that it asks for besides, if that was read.
    async fn answer_for(
        &self,
        route: Route,
        peer: PeerInfo,
        head: request::Parts,
        incoming: Incoming,
    ) -> (Response<Body>, Option<String>) {
        if let Some(issued) = &route.issued
            && !peer.hold(
                self.context.connections(),
                issued.key.hash.number(),
                &self.context.config().bounds,
            )
        {
            let text = "too many connections with this key";
            let mut refused = respond::too_many(respond::dialect_for(route.family), text);
            refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return (refused, None);
        }
        let is_unread = matches!(route.endpoint, Endpoint::Other | Endpoint::Cloud(_));
        if route.has_issued_key() && is_unread {
            let path = route.rest.split('?').next().unwrap_or("");
            let text = format!(
                "a key that this gateway has issued is for model calls, counts of tokens and lists of models: {} {path} is \
                 none of these",
                head.method
            );
            let dialect = respond::dialect_for(route.family);
            let status = StatusCode::FORBIDDEN;
            return (respond::error(dialect, status, ErrorKind::Invalid, &text), None);
        }
        match route.endpoint {
            Endpoint::ModelCall(api) => self.model_call(route, peer, head, incoming, api).await,
            Endpoint::CountTokens
            | Endpoint::Models
            | Endpoint::Cloud(_)
            | Endpoint::Free
            | Endpoint::Other => {
                let passed =
                    pass_through::pass_through(&self.context, route, &peer, &head, incoming);
                // Boxed: the future of each model call would have room for it.
                (Box::pin(passed).await, None)
            }
        }
    }

    async fn model_call(
        &self,
        route: Route,
        peer: PeerInfo,
        head: request::Parts,
        incoming: Incoming,
        api: Api,
    ) -> (Response<Body>, Option<String>) {
        let context = &self.context;
        let read = ParsedCall::read(context.config(), route, head, incoming, api);
        let parsed = match read.await {
            Ok(parsed) => parsed,
            Err(refused) => return (*refused, None),
        };
        let model = || Some(parsed.request().model.chars().take(MAX_LOGGED_MODEL).collect());
        let model = context.config().refusals.as_ref().and_then(|_| model());
        let route = parsed.route();
        let key = route.issued.as_ref().map(|issued| &*issued.key);
        if let Some(refused) = key.and_then(|key| key::refused_model(&parsed, key)) {
            return (refused, model);
        }
        let mut takes_share = context.config().fair_shares;
        loop {
            let run = match context.run(route, &peer, &parsed.request().model).await {
                Ok(run) => run,
                Err(why) => return (respond::no_run(api.dialect(), &route.run, &why), model),
            };
            let admitted = match admit::admit(context, &run, &parsed, takes_share).await {
                Ok(admitted) => admitted,
                Err(NotAdmitted::Answered(answer)) => return (*answer, model),
                Err(NotAdmitted::Moved) => continue,
            };
            match outliving::send(context, admitted, &parsed).await {
                Ok(response) => return (response, model),
                // The conversation is free for the next attempt.
                Err(settled) => takes_share &= !settled.is_cut_by_share(),
            }
        }
    }
}

/// A report of a call with an issued key.
fn with_key(issued: Option<&IssuedTo>) -> RefusedCall {
    RefusedCall {
        key: issued.map(|issued| issued.place),
        key_name: issued.map(|issued| issued.key.name.clone()),
        key_runs: issued.map(|issued| issued.key.runs.to_string()),
        ..RefusedCall::default()
    }
}
