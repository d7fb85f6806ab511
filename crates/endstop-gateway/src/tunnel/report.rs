//! The connections that clients requested of the gateway as their proxy.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::limits::{MAX_REFUSAL_TIMES, MAX_REPORTED_HOSTS};

/// The connections to one host of a model provider that a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectConnections {
    /// The provider.
    pub provider: &'static str,
    /// Connections that were refused.
    pub refused: u64,
    /// Connections that were tunneled, with [`Tunnels::All`](crate::Tunnels::All). Calls in them are not limited.
    pub tunnelled: u64,
    /// Connections that the gateway answered itself, with [`Tunnels::Intercepted`](crate::Tunnels::Intercepted).
    pub intercepted: u64,
    /// Connections that the client ended because it does not trust the gateway's certificate, as far as the gateway can see.
    pub untrusted: u64,
}

/// The tunnels that clients asked for. See [`Gateway::tunnels`](crate::Gateway::tunnels).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelReport {
    /// Hosts of model providers, by name. Of a program that uses very many, further ones count for their pattern.
    pub model_hosts: BTreeMap<String, DirectConnections>,
    /// Tunnels to other hosts.
    pub other: u64,
    /// Tunnels to other hosts that could not be opened.
    pub failed: u64,
    /// Requests for a tunnel that were refused because they lacked the password of [`Gateway::proxy_address`](crate::Gateway::proxy_address).
    pub without_password: u64,
    /// The time of the first refused connection to a model provider.
    pub first_refused: Option<Instant>,
    /// When the last ten were refused, or fewer if there were fewer; the latest is last.
    pub last_refused: VecDeque<Instant>,
}

impl TunnelReport {
    /// Returns how many connections to model providers were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.model_hosts.values().map(|host| host.refused).sum()
    }

    /// Returns how many connections to model providers were tunneled.
    #[must_use]
    pub fn tunnelled(&self) -> u64 {
        self.model_hosts.values().map(|host| host.tunnelled).sum()
    }

    /// Returns the time since which the guard has refused the ten last connections, if there were so many.
    #[must_use]
    pub fn many_refused_since(&self) -> Option<Instant> {
        let is_full = self.last_refused.len() >= MAX_REFUSAL_TIMES;
        self.last_refused.front().copied().filter(|_| is_full)
    }

    /// Returns how many connections to model providers the gateway answered itself.
    #[must_use]
    pub fn intercepted(&self) -> u64 {
        self.model_hosts.values().map(|host| host.intercepted).sum()
    }

    /// Returns how many connections clients ended because they do not trust the gateway's certificate.
    #[must_use]
    pub fn untrusted(&self) -> u64 {
        self.model_hosts.values().map(|host| host.untrusted).sum()
    }

    pub(super) fn refuse(&mut self, host: &ModelHost) {
        self.is_refused_now();
        self.count(host).refused += 1;
    }

    pub(super) fn intercept(&mut self, host: &ModelHost) {
        self.count(host).intercepted += 1;
    }

    /// The client is refused by its own hand.
    pub(super) fn distrust(&mut self, host: &ModelHost) {
        self.is_refused_now();
        self.count(host).untrusted += 1;
    }

    /// A connection without a request. A client that has trusted the certificate before opened it in advance.
    pub(super) fn distrust_if_never_asked(&mut self, host: &ModelHost) {
        if self.count(host).intercepted == 0 {
            self.distrust(host);
        }
    }

    fn is_refused_now(&mut self) {
        let now = Instant::now();
        self.first_refused.get_or_insert(now);
        if self.last_refused.len() >= MAX_REFUSAL_TIMES {
            self.last_refused.pop_front();
        }
        self.last_refused.push_back(now);
    }

    pub(super) fn tunnel(&mut self, host: &ModelHost) {
        self.count(host).tunnelled += 1;
    }

    fn count(&mut self, host: &ModelHost) -> &mut DirectConnections {
        let is_full = self.model_hosts.len() >= MAX_REPORTED_HOSTS;
        let is_known = self.model_hosts.contains_key(&host.name);
        let name = if is_full && !is_known { host.pattern.clone() } else { host.name.clone() };
        let provider = host.provider;
        let new =
            DirectConnections { provider, refused: 0, tunnelled: 0, intercepted: 0, untrusted: 0 };
        self.model_hosts.entry(name).or_insert(new)
    }
}

/// A host of a model provider.
#[derive(Clone, Debug)]
pub(super) struct ModelHost {
    pub(super) name: String,
    pub(super) pattern: String,
    pub(super) provider: &'static str,
    /// Whether it is a row of the list, and not only an upstream of this gateway.
    pub(super) is_listed: bool,
}

#[cfg(test)]
mod tests;
