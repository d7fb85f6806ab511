//! Clients, and their shares of what the gateway has for all: one client must not use up what others need.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bits of an IPv6 address that are of its network: one machine has all addresses of a network.
const NETWORK_BITS: u128 = !0 << 64;

/// A client that has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientId {
    /// The holder of a key that the gateway has issued, by its place in the configuration.
    Key(usize),
    /// All that comes from an address, or from a network in IPv6.
    Address(IpAddr),
}

impl ClientId {
    /// The client at an address. `None` on loopback: all clients of this machine, and of a proxy on it, share that address.
    pub(crate) fn at(address: IpAddr) -> Option<Self> {
        let address = address.to_canonical();
        let of_network = |v6: Ipv6Addr| Ipv6Addr::from_bits(v6.to_bits() & NETWORK_BITS);
        match address {
            address if address.is_loopback() => None,
            IpAddr::V4(_) => Some(Self::Address(address)),
            IpAddr::V6(v6) => Some(Self::Address(of_network(v6).into())),
        }
    }
}

/// Counts per client of what it holds.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<ClientId, usize>>);

impl Shares {
    fn counts(&self) -> MutexGuard<'_, HashMap<ClientId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, until it is dropped. Returns `None` if the client holds `max` already.
    pub(crate) fn take(self: &Arc<Self>, client: ClientId, max: usize) -> Option<ClientShare> {
        let mut counts = self.counts();
        let held = counts.get(&client).copied().unwrap_or(0);
        if held >= max {
            return None;
        }
        counts.insert(client, held.saturating_add(1));
        drop(counts);
        Some(ClientShare { shares: Arc::clone(self), client })
    }
}

/// One thing that a client holds. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientShare {
    shares: Arc<Shares>,
    client: ClientId,
}

impl ClientShare {
    pub(crate) const fn client(&self) -> ClientId {
        self.client
    }
}

impl Drop for ClientShare {
    fn drop(&mut self) {
        let mut counts = self.shares.counts();
        if let Some(held) = counts.get_mut(&self.client) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_or_a_network_that_is_not_loopback() {
        let at = |text: &str| ClientId::at(text.parse().unwrap());
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(at(own), None, "{own}");
        }
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }

    #[test]
    fn each_client_has_its_share_and_what_is_given_back_is_free() {
        let shares = Arc::<Shares>::default();
        let (one, other) = (ClientId::Key(0), ClientId::Key(1));
        let held: Vec<_> = (0..2).map(|_| shares.take(one, 2).unwrap()).collect();
        assert!(shares.take(one, 2).is_none() && shares.take(other, 2).is_some());
        drop(held);
        assert!(shares.take(one, 1).is_some());
        assert!(shares.counts().is_empty());
    }
}
