//! One call, from the request to its settlement.
//!
//! 1. [`take`]: the request is read: route, body, what it asks for.
//! 2. [`admit`]: the run is told what came back from tools, and asked whether the call may begin.
//! 3. [`ask`]: the request is sent with its output cap, and its answer read: as a whole, or
//! 4. [`stream`]: event by event while it is passed on.
//! 5. [`flight`]: whatever happens, the call is settled once.

mod admit;
mod answer;
mod ask;
mod cap;
mod choice;
mod flight;
mod pass;
mod raw;
mod settle;
mod stream;
mod take;

use std::sync::Arc;

use http::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;

use crate::body::Body;
use crate::config::Config;
use crate::control;
use crate::route::{self, Side};
use crate::run::{Prices, Registry, RunEntry};
use crate::server::PeerInfo;
use crate::upstream::Client;
use cap::Caps;
use choice::Choices;
use endstop_llm::{Dialect, ErrorKind};

/// All that calls share.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) config: Arc<Config>,
    pub(crate) registry: Arc<Registry>,
    prices: Arc<Prices>,
    caps: Caps,
    choices: Choices,
    client: Client,
    /// Whose prices hold, of each side.
    providers: [&'static str; 3],
}

impl Gate {
    pub(crate) fn new(config: Arc<Config>, client: Client, registry: Registry) -> Self {
        let registry = Arc::new(registry);
        let prices = Arc::new(Prices::new(config.prices));
        let at = &config.upstreams;
        let providers = [
            provider_of(&at.openai, "openai"),
            provider_of(&at.anthropic, "anthropic"),
            provider_of(&at.gemini, "google"),
        ];
        let (caps, choices) = (Caps::default(), Choices::default());
        Self { config, registry, prices, caps, choices, client, providers }
    }

    /// Answers a request.
    ///
    /// # Cancellation safety
    /// Dropped when the client goes away: what is in flight is closed and settled.
    pub(crate) async fn answer(&self, request: Request<Incoming>, _: PeerInfo) -> Response<Body> {
        let (head, incoming) = request.into_parts();
        if head.uri.path().starts_with("/endstop/") {
            return control::answer(self, &head, incoming).await;
        }
        let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let route = match route::route(&self.config, &head.method, target, &head.headers) {
            Ok(route) => route,
            Err(error) => {
                let side = route::side(&head.method, target, &head.headers);
                let status = if error.is_of_key() {
                    StatusCode::UNAUTHORIZED
                } else {
                    StatusCode::BAD_REQUEST
                };
                let (dialect, text) = (answer::dialect_for(side), error.to_string());
                return answer::error(dialect, status, ErrorKind::Invalid, &text);
            }
        };
        match route.api.dialect() {
            Some(dialect) => self.model_call(route, &head, incoming, dialect).await,
            None => self.pass(route, &head, incoming).await,
        }
    }

    async fn model_call(
        &self,
        route: route::Route,
        head: &http::request::Parts,
        incoming: Incoming,
        dialect: &'static dyn Dialect,
    ) -> Response<Body> {
        let taken = match take::take(&self.config, route, &head.headers, incoming, dialect).await {
            Ok(taken) => taken,
            Err(refused) => return *refused,
        };
        let provider = self.provider(taken.route.side);
        let model = &taken.asked.model;
        let run = match self.registry.take(&taken.route.run, model, provider).await {
            Ok(run) => run,
            Err(why) => return answer::no_run(dialect, &taken.route.run, &why),
        };
        match self.begin(&run, &taken).await {
            Ok(flight) => self.ask(flight, taken, head).await,
            Err(answered) => *answered,
        }
    }

    /// The upstream of a side.
    fn base(&self, side: Side) -> &Uri {
        let upstreams = &self.config.upstreams;
        match side {
            Side::OpenAi => &upstreams.openai,
            Side::Anthropic => &upstreams.anthropic,
            Side::Gemini => &upstreams.gemini,
        }
    }

    /// Whose prices hold at the upstream of a side.
    const fn provider(&self, side: Side) -> &'static str {
        let [openai, anthropic, gemini] = self.providers;
        match side {
            Side::OpenAi => openai,
            Side::Anthropic => anthropic,
            Side::Gemini => gemini,
        }
    }

    fn is_metered(&self, run: &RunEntry) -> bool {
        run.driven.is_metered() && !self.config.allow_unmetered
    }

    /// What is sent upstream of a request's head.
    fn forwarded(&self, route: &route::Route, headers: &HeaderMap) -> HeaderMap {
        let mut sent = crate::upstream::only_forwardable(headers.clone(), OWN_HEADERS);
        if route.has_issued_key {
            route::strip_keys(&mut sent);
            route::use_key(&mut sent, route.side, &self.config.upstream_keys);
        }
        sent
    }
}

/// They are for the gateway, or make another method of a request than the one that was looked at.
const OWN_HEADERS: &[&str] = &[
    route::RUN_HEADER,
    route::CHILD_HEADER,
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// Providers whose prices differ from those of the vendors whose interface they speak.
const HOSTS: &[(&str, &str)] = &[
    ("openrouter.ai", "openrouter"),
    ("groq.com", "groq"),
    ("deepseek.com", "deepseek"),
    ("mistral.ai", "mistral"),
    ("together.xyz", "together"),
    ("x.ai", "x-ai"),
    ("fireworks.ai", "fireworks"),
    ("openai.azure.com", "azure"),
];

fn provider_of(base: &Uri, default: &'static str) -> &'static str {
    let host = base.host().unwrap_or("");
    let is_it = |name: &str| {
        host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    HOSTS.iter().find(|(name, _)| is_it(name)).map_or(default, |(_, provider)| provider)
}
