//! Calls that lose their clients (`docs/semantics.md`, "Charging when usage is missing").
//!
//! Providers finish a response without streaming even if no client receives it. So its call continues without its client
//! for a limited time, and is charged by the usage report. It keeps its conversation until then: a request of the same
//! conversation that arrives in that time begins a parallel one. Streams are closed, because that ends them at the
//! provider too. The policy can say otherwise ([`OnClientGone`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use endstop_core::policy::OnClientGone;
use http::Response;

use super::admit::AdmittedCall;
use super::context::CallContext;
use super::drain::{ClientPresence, Drains};
use super::parse::ParsedCall;
use super::send;
use super::settle::SettledCall;
use crate::body::Body;

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
        // Boxed, like the other: a connection has no room for it before its call is admitted.
        return Box::pin(send::send(context, admitted, parsed, client)).await;
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
        let left_at = self.client.leave();
        self.drains.adopt(left_at, async move { drop(sending.await) });
    }
}
