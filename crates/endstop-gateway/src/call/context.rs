//! Everything that calls share.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use endstop_core::policy::{Accounting, OnClientGone};
use endstop_runtime::{ErrorBilling, ProviderApi};
use http::header::SET_COOKIE;
use http::{HeaderMap, Request, Response, StatusCode, Uri, request};

use super::drain::Drains;
use super::negotiate::QuirkCache;
use super::respond::{CHARGED_HEADER, REASON_HEADER};
use super::secrets::Secrets;
use super::uncounted::NoCounting;
use crate::client::{ClientId, Shares};
use crate::config::{Config, IssuedKey, Runs};
use crate::reachability::Reachability;
use crate::route::{self, ApiFamily, Route, RouteError};
use crate::run::{NoRun, Prices, Registry, RunEntry, RunOrigin};
use crate::server::PeerInfo;
use crate::upstream::{HttpClient, UpstreamBody, UpstreamError, forwardable};

/// Headers that are for the gateway, or that make another method of a request than the one that was checked.
const OWN_HEADERS: &[&str] = &[
    route::RUN_HEADER,
    route::CHILD_HEADER,
    REASON_HEADER,
    CHARGED_HEADER,
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// A stop of an upstream that is an Endstop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpstreamStop {
    /// Instead of the call: it was not made.
    Free,
    /// After the call was made.
    Charged,
}

/// Everything that calls share: configuration, runs, prices, the client for upstreams and what they refused before.
#[derive(Debug)]
pub(super) struct CallContext {
    config: Arc<Config>,
    registry: Arc<Registry>,
    /// Connections by the keys that they bring.
    connections: Arc<Shares>,
    prices: Arc<Prices>,
    quirks: QuirkCache,
    no_counting: NoCounting,
    drains: Arc<Drains>,
    client: HttpClient,
    reachability: Reachability,
    /// The provider of each API family, by whose prices its calls are charged.
    providers: [&'static str; 3],
}

impl CallContext {
    pub(super) fn new(config: Arc<Config>, client: HttpClient, registry: Arc<Registry>) -> Self {
        let prices = Arc::new(Prices::new(config.prices));
        let at = &config.upstreams;
        let providers = [
            provider_of(&at.openai, "openai"),
            provider_of(&at.anthropic, "anthropic"),
            provider_of(&at.gemini, "google"),
        ];
        let drains = Arc::new(Drains::new(config.bounds.drain_within));
        Self {
            config,
            registry,
            connections: Arc::default(),
            prices,
            quirks: QuirkCache::default(),
            no_counting: NoCounting::default(),
            drains,
            client,
            reachability: Reachability::default(),
            providers,
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) const fn prices(&self) -> &Arc<Prices> {
        &self.prices
    }

    pub(super) const fn quirks(&self) -> &QuirkCache {
        &self.quirks
    }

    /// Models whose upstreams do not count tokens.
    pub(super) const fn no_counting(&self) -> &NoCounting {
        &self.no_counting
    }

    /// The calls that continue without their clients.
    pub(super) const fn drains(&self) -> &Arc<Drains> {
        &self.drains
    }

    /// Sends a request to its upstream, and reports one that cannot be reached.
    ///
    /// # Errors
    /// See [`HttpClient::send`].
    pub(super) async fn send(
        &self,
        route: &Route,
        request: Request<Bytes>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        let upstream = self.upstream(route);
        let sent = self.client.send(upstream, request).await;
        if let Some(observer) = &self.config.upstream_observer {
            let no_connection = match &sent {
                Err(error @ UpstreamError::Connect { .. }) => Some(error as &dyn Display),
                _ => None,
            };
            self.reachability.note(upstream, no_connection, &**observer);
        }
        sent
    }

    /// The connections of each holder of an issued key.
    pub(super) const fn connections(&self) -> &Arc<Shares> {
        &self.connections
    }

    /// The run of a call, begun if it is new.
    pub(super) async fn run(
        &self,
        route: &Route,
        peer: &PeerInfo,
        model: &str,
    ) -> Result<Arc<RunEntry>, NoRun> {
        let client = match (&self.config.runs, &route.issued) {
            (Runs::One(_), _) => None,
            (Runs::Many { .. }, Some(issued)) => Some(ClientId::Key(issued.key.hash.number())),
            (Runs::Many { .. }, None) => peer.client(),
        };
        let provider = self.provider(route);
        let run = self.registry.take(&route.run, RunOrigin { model, provider, client }).await?;
        if let Some(issued) = &route.issued {
            // Its key may have other budgets than at its last call.
            self.use_key(&run, &issued.key);
        }
        run.handle().refresh_accounts();
        self.registry.kill_if_in_group(&run);
        Ok(run)
    }

    /// Lets the calls of a run draw on the budgets of a key from here on.
    pub(super) fn use_key(&self, run: &RunEntry, key: &IssuedKey) {
        let of_key = key.accounts.clone();
        run.handle().set_accounts(of_key.or_else(|| self.config.environment.accounts.clone()));
        run.handle().set_key(&key.name);
    }

    /// The key of a request as it is now. `None` if it has none.
    ///
    /// # Errors
    /// Returns an error if a request with it is no longer taken.
    pub(super) async fn key_now(
        &self,
        route: &Route,
    ) -> Result<Option<Arc<IssuedKey>>, RouteError> {
        let keys = self.config.runs.look_at_keys().await;
        route::check_again(&self.config, &keys, route)
    }

    /// The upstream of a request: the host that it was intercepted for, or that of its API family.
    pub(super) fn upstream<'a>(&'a self, route: &'a Route) -> &'a Uri {
        if let Some(host) = &route.host {
            return &host.base;
        }
        let upstreams = &self.config.upstreams;
        match route.family {
            ApiFamily::OpenAi => &upstreams.openai,
            ApiFamily::Anthropic => &upstreams.anthropic,
            ApiFamily::Gemini => &upstreams.gemini,
        }
    }

    /// The provider of a request's upstream, by whose prices its calls are charged.
    pub(super) fn provider(&self, route: &Route) -> &'static str {
        let [openai, anthropic, gemini] = self.providers;
        let of_family = match route.family {
            ApiFamily::OpenAi => openai,
            ApiFamily::Anthropic => anthropic,
            ApiFamily::Gemini => gemini,
        };
        route.host.as_ref().map_or(of_family, |host| provider_of(&host.base, of_family))
    }

    /// The provider's own API that a request's upstream is, if it is one.
    fn api(&self, route: &Route) -> Option<&'static ProviderApi> {
        ProviderApi::at(self.upstream(route).host().unwrap_or_default())
    }

    /// Whether OpenAI's tokenizers count the chat completions of a request's upstream.
    pub(super) fn has_openai_tokens(&self, route: &Route) -> bool {
        match &route.host {
            Some(_) => self.api(route).is_some_and(|api| api.provider == "openai"),
            None => self.config.upstreams.has_openai_tokens(),
        }
    }

    /// The charge for an error response, if known.
    pub(super) fn billing(
        &self,
        route: &Route,
        status: StatusCode,
        is_in_shape: bool,
        body: &[u8],
    ) -> ErrorBilling {
        if self.config.upstreams.is_scripted && is_in_shape {
            return ErrorBilling::Free;
        }
        ProviderApi::billing_of(self.api(route), status.as_u16(), is_in_shape, body)
    }

    /// The charge for an error that a success carries instead of output, if known.
    pub(super) fn inner_error(&self, route: &Route) -> ErrorBilling {
        match self.config.upstreams.is_scripted {
            true => ErrorBilling::Free,
            false => ProviderApi::billing_inside(self.api(route), None),
        }
    }

    /// Whether the text of a refusal decides if the request is charged.
    pub(super) fn may_charge_refused(&self, route: &Route, status: StatusCode) -> bool {
        let charged = self.api(route).and_then(|api| api.charged);
        charged.is_some_and(|(charged, _)| charged == status.as_u16())
    }

    /// The stop that the headers of a response report, if its upstream is configured as an Endstop: no other is believed.
    pub(super) fn stop_of(&self, route: &Route, headers: &HeaderMap) -> Option<UpstreamStop> {
        let is_stop = self.is_endstop(route) && headers.contains_key(REASON_HEADER);
        is_stop.then(|| match headers.contains_key(CHARGED_HEADER) {
            true => UpstreamStop::Charged,
            false => UpstreamStop::Free,
        })
    }

    /// The headers of a response that its client gets, without secrets. It may be an Endstop too, and believe those of this
    /// one.
    pub(super) fn returned(
        &self,
        route: &Route,
        headers: HeaderMap,
        secrets: &Secrets,
    ) -> HeaderMap {
        let own: &[&str] =
            if self.is_endstop(route) { &[] } else { &[REASON_HEADER, CHARGED_HEADER] };
        let mut returned = forwardable(headers, own);
        if route.has_issued_key() {
            // A session of the account.
            returned.remove(SET_COOKIE);
        }
        secrets.redact_headers(&mut returned);
        returned
    }

    /// The secrets of a request.
    pub(super) fn secrets(&self, route: &Route, head: &request::Parts) -> Secrets {
        Secrets::of(&self.config, route, &head.headers, head.uri.query())
    }

    /// Whether the upstream is configured as an Endstop.
    fn is_endstop(&self, route: &Route) -> bool {
        let endstop = self.config.upstreams.endstop.as_ref();
        endstop.is_some_and(|own| own.authority() == self.upstream(route).authority())
    }

    /// The charges for unreported usage, and the requests that pass without a bound.
    fn accounting(&self) -> &Accounting {
        &self.config.program.policy().accounting
    }

    /// The end of a call if its client disconnects.
    pub(super) fn on_client_gone(&self) -> OnClientGone {
        self.accounting().client_gone()
    }

    /// Whether calls of the run must have a bounded cost.
    pub(super) fn is_metered(&self, run: &RunEntry) -> bool {
        run.handle().is_metered() && !self.accounting().allows_all()
    }

    /// Whether a call of the run is refused if what a refusal calls `name` cannot be bounded.
    pub(super) fn refuses(&self, run: &RunEntry, name: &str) -> bool {
        run.handle().is_metered() && !self.accounting().allows(name)
    }

    /// The headers of a request that its upstream gets.
    pub(super) fn forwarded(&self, route: &Route, headers: &HeaderMap) -> HeaderMap {
        let mut sent = forwardable(headers.clone(), OWN_HEADERS);
        if let Some(issued) = &route.issued {
            route::strip_keys(&mut sent, &issued.sent);
            route::use_key(&mut sent, route.family, &self.config.upstream_keys);
        }
        sent
    }
}

fn provider_of(base: &Uri, default: &'static str) -> &'static str {
    ProviderApi::at(base.host().unwrap_or_default()).map_or(default, |api| api.provider)
}
