//! Clients, and their shares of what the gateway has for all: one client must not use up what others need.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bits of an IPv6 address that are of its network: one machine has all addresses of a network.
const NETWORK_BITS: u128 = !0 << 64;

/// A client that has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientId {
    /// The holder of a key that the gateway has issued, by a number of its hash.
    Key(u64),
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
mod tests;
