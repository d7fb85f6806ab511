//! The calls that continue without their clients, each for a limited time. [`outliving`](super::outliving) says which
//! calls these are.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::limits::MAX_DRAINS;

/// Whether the client of a call is still there, and since when it is not.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientPresence(Arc<OnceLock<Instant>>);

impl ClientPresence {
    pub(super) fn is_gone(&self) -> bool {
        self.0.get().is_some()
    }

    /// Notes that the client disconnected. Returns when it first did.
    pub(super) fn leave(&self) -> Instant {
        *self.0.get_or_init(Instant::now)
    }
}

/// The calls that continue without their clients.
#[derive(Debug)]
pub(crate) struct Drains {
    set: Mutex<DrainSet>,
    /// How long a call continues.
    limit: Duration,
}

#[derive(Debug, Default)]
struct DrainSet {
    tasks: JoinSet<()>,
    /// The gateway shuts down: no more are taken.
    is_closed: bool,
}

impl Drains {
    pub(super) fn new(limit: Duration) -> Self {
        Self { set: Mutex::default(), limit }
    }

    fn set(&self) -> MutexGuard<'_, DrainSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call continue for a limited time after its client disconnected. A call that cannot continue is dropped,
    /// which settles it.
    pub(super) fn adopt(&self, left_at: Instant, call: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut set = self.set();
        while set.tasks.try_join_next().is_some() {}
        if set.is_closed || set.tasks.len() >= MAX_DRAINS {
            return;
        }
        let limited = tokio::time::timeout_at(left_at + self.limit, call);
        set.tasks.spawn_on(async move { drop(limited.await) }, &runtime);
    }

    /// Takes no more calls, and gives those that it has. They are cut when that is dropped.
    pub(crate) fn close(&self) -> JoinSet<()> {
        let mut set = self.set();
        set.is_closed = true;
        std::mem::take(&mut set.tasks)
    }

    /// Takes no more calls, waits for those that it has, for `grace` at most, and cuts the rest.
    ///
    /// # Cancel safety
    /// If it is dropped, the rest is cut.
    pub(crate) async fn end(&self, grace: Duration) {
        let mut tasks = self.close();
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            tasks.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests;
