//! Reports of upstreams that cannot be reached.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::sync::{Mutex, PoisonError};

use http::Uri;

use crate::limits::MAX_UNREACHABLE_UPSTREAMS;

/// An upstream to which there is no connection. Nothing in it is a key or a password.
///
/// ```
/// use endstop_gateway::{UnreachableUpstream, UpstreamObserver};
///
/// #[derive(Debug)]
/// struct ToStderr;
///
/// impl UpstreamObserver for ToStderr {
///     fn unreachable(&self, upstream: &UnreachableUpstream) {
///         eprintln!("{}: {}", upstream.host, upstream.error);
///     }
/// }
/// # ToStderr.unreachable(&UnreachableUpstream::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreachableUpstream {
    /// Its host, without a user and password.
    pub host: String,
    /// The error, as the client gets it.
    pub error: String,
}

/// Receives a report of each upstream that cannot be reached: at the first failed connection, and again only after the
/// upstream was reached in between.
///
/// See the example of [`UnreachableUpstream`].
pub trait UpstreamObserver: Debug + Send + Sync {
    /// An upstream cannot be reached. It is called within the request, so it must not block.
    fn unreachable(&self, upstream: &UnreachableUpstream);
}

/// The upstreams that could not be reached when they were needed last.
#[derive(Debug, Default)]
pub(crate) struct Reachability {
    unreachable: Mutex<BTreeSet<String>>,
}

impl Reachability {
    /// Takes note of whether there was a connection for a request, and reports an upstream that could be reached until now.
    pub(crate) fn note(
        &self,
        upstream: &Uri,
        no_connection: Option<&dyn Display>,
        observer: &dyn UpstreamObserver,
    ) {
        let port = upstream.port_u16().map_or_else(String::new, |port| format!(":{port}"));
        let host = format!("{}{port}", upstream.host().unwrap_or_default());
        let mut unreachable = self.unreachable.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(error) = no_connection else {
            unreachable.remove(&host);
            return;
        };
        let has_room = unreachable.len() < MAX_UNREACHABLE_UPSTREAMS;
        let is_new = has_room && unreachable.insert(host.clone());
        drop(unreachable);
        if is_new {
            observer.unreachable(&UnreachableUpstream { host, error: error.to_string() });
        }
    }
}

#[cfg(test)]
mod tests;
