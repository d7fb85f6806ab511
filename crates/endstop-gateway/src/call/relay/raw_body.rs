//! Answers that pass unread. What cuts their run cuts them, whether their clients read them or not.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use endstop::agent::driver::DrivenRun;
use tokio::task::AbortHandle;

use super::ask::guarded;
use super::stream::Part;
use crate::body::{Body, BodyError, BodySource};
use crate::upstream::UpstreamBody;

/// An answer that passes unread.
pub(super) struct RawBody {
    begun: Bytes,
    upstream: UpstreamBody,
}

impl RawBody {
    pub(super) const fn new(upstream: UpstreamBody) -> Self {
        Self::after(Bytes::new(), upstream)
    }

    /// As [`RawBody::new`], after what was read already.
    pub(super) const fn after(begun: Bytes, upstream: UpstreamBody) -> Self {
        Self { begun, upstream }
    }

    /// As a body; with its length where the upstream said it.
    pub(super) fn into_body(self) -> Body {
        let length = self.length();
        sized(self, length)
    }

    /// As [`RawBody::into_body`], until the run is cut or a limit in time is reached. The connection is closed then
    /// without the mark of a proper end.
    pub(super) fn into_body_of(self, driven: &DrivenRun) -> Body {
        if self.upstream.is_end() {
            return self.into_body();
        }
        let length = self.length();
        sized(CutBody::new(self, driven), length)
    }

    fn length(&self) -> Option<u64> {
        let begun = u64::try_from(self.begun.len()).unwrap_or(u64::MAX);
        self.upstream.remaining().map(|left| left.saturating_add(begun))
    }
}

fn sized(source: impl BodySource + Send + 'static, length: Option<u64>) -> Body {
    match length {
        Some(length) => Body::sized_stream(source, length),
        None => Body::stream(source),
    }
}

impl BodySource for RawBody {
    fn poll_data(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Part {
        if !self.begun.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.begun))));
        }
        self.upstream.poll_data(cx).map(|part| part.map(|part| part.map_err(BodyError::from)))
    }

    fn is_end(&self) -> bool {
        self.begun.is_empty() && self.upstream.is_end()
    }
}

/// A raw answer that a task of its own can cut: nobody asks for the next part while the client does not read.
struct CutBody {
    shared: Arc<Mutex<Shared>>,
    watch: AbortHandle,
}

struct Shared {
    /// None once it was cut.
    raw: Option<RawBody>,
    waker: Option<Waker>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CutBody {
    fn new(raw: RawBody, driven: &DrivenRun) -> Self {
        let shared = Arc::new(Mutex::new(Shared { raw: Some(raw), waker: None }));
        let (watched, driven) = (Arc::downgrade(&shared), driven.clone());
        let watch = tokio::spawn(async move {
            let _ = guarded(&driven, std::future::pending::<()>()).await;
            let Some(shared) = watched.upgrade() else { return };
            let (raw, waker) = {
                let mut shared = lock(&shared);
                (shared.raw.take(), shared.waker.take())
            };
            // That closes the upstream.
            drop(raw);
            waker.into_iter().for_each(Waker::wake);
        });
        Self { shared, watch: watch.abort_handle() }
    }
}

impl BodySource for CutBody {
    fn poll_data(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Part {
        let mut shared = lock(&self.shared);
        let Some(raw) = &mut shared.raw else { return Poll::Ready(Some(Err(BodyError::Cut))) };
        let part = Pin::new(raw).poll_data(cx);
        if part.is_pending() && !shared.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            shared.waker = Some(cx.waker().clone());
        }
        part
    }

    fn is_end(&self) -> bool {
        lock(&self.shared).raw.as_ref().is_some_and(BodySource::is_end)
    }
}

impl Drop for CutBody {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
