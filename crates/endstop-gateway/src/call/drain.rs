//! Calls that lost their clients (`docs/semantics.md`, "Charging when usage is missing").
//!
//! Providers finish a response without streaming even if no client receives it. So its call continues without its client
//! for a limited time, and is charged by the usage report. It keeps its conversation until then: a request of the same
//! conversation that arrives in that time begins a parallel one. Streams are closed, because that ends them at the
//! provider too. The policy can say otherwise ([`OnClientGone`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use endstop_core::policy::OnClientGone;
use http::Response;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::admit::AdmittedCall;
use super::context::CallContext;
use super::parse::ParsedCall;
use super::send;
use super::settle::SettledCall;
use crate::body::Body;

/// Whether the client of a call is still there.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientPresence(Arc<AtomicBool>);

impl ClientPresence {
    pub(super) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self) {
        self.0.store(true, Ordering::Relaxed);
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

    /// Lets a call continue for a limited time. A call that cannot continue is dropped, which settles it.
    pub(super) fn adopt(&self, call: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut set = self.set();
        if set.is_closed {
            return;
        }
        while set.tasks.try_join_next().is_some() {}
        let limited = tokio::time::timeout(self.limit, call);
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

/// Sends an admitted call and relays its response, as [`send::send`] does. If the client disconnects before the
/// response is relayed, the call continues or is dropped, as the policy says.
///
/// # Errors
/// The settled call, if a retry rule wants another response.
pub(super) async fn send(
    context: &Arc<CallContext>,
    admitted: AdmittedCall,
    parsed: &Arc<ParsedCall>,
) -> Result<Response<Body>, SettledCall> {
    let client = ClientPresence::default();
    let continues = match context.on_client_gone() {
        OnClientGone::Auto => !parsed.is_streamed(),
        OnClientGone::Drain => true,
        OnClientGone::Close => false,
    };
    if !continues {
        return send::send(context, admitted, parsed, client).await;
    }
    let sending = {
        let (context, parsed, client) = (Arc::clone(context), Arc::clone(parsed), client.clone());
        async move { send::send(&context, admitted, &parsed, client).await }
    };
    Outliving { sending: Some(Box::pin(sending)), client, drains: Arc::clone(context.drains()) }
        .await
}

/// A call that continues when its client drops it.
struct Outliving<F: Future + Send + 'static> {
    /// `None` once it is complete.
    sending: Option<Pin<Box<F>>>,
    client: ClientPresence,
    drains: Arc<Drains>,
}

impl<F: Future + Send + 'static> Future for Outliving<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // No caller polls a complete call.
        let Some(sending) = &mut self.sending else { return Poll::Pending };
        let outcome = std::task::ready!(sending.as_mut().poll(cx));
        self.sending = None;
        Poll::Ready(outcome)
    }
}

impl<F: Future + Send + 'static> Drop for Outliving<F> {
    fn drop(&mut self) {
        let Some(sending) = self.sending.take() else { return };
        self.client.leave();
        self.drains.adopt(async move { drop(sending.await) });
    }
}
