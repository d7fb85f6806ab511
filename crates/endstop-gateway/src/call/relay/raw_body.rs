//! Responses that pass unread. What cuts their run cuts them, whether their clients read them or not.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use endstop_runtime::{CancelOn, RunHandle};
use tokio::task::AbortHandle;

use crate::body::{Body, BodyError, BodyPart, BodySource};
use crate::upstream::UpstreamBody;

/// A response that passes unread.
pub(in crate::call) struct RawBody {
    begun: Bytes,
    upstream: UpstreamBody,
}

impl RawBody {
    pub(in crate::call) const fn new(upstream: UpstreamBody) -> Self {
        Self::after(Bytes::new(), upstream)
    }

    /// Like [`RawBody::new`], after the part that was read already.
    pub(in crate::call) const fn after(begun: Bytes, upstream: UpstreamBody) -> Self {
        Self { begun, upstream }
    }

    /// Returns the body, with its length if the upstream sent it.
    pub(in crate::call) fn into_body(self) -> Body {
        let length = self.length();
        sized(self, length)
    }

    /// Like [`RawBody::into_body`], until the run is cut or a time limit stops it. The connection is closed then without
    /// the mark of a proper end.
    pub(in crate::call) fn into_body_of(self, run: &RunHandle) -> Body {
        if self.upstream.is_end() {
            return self.into_body();
        }
        let length = self.length();
        sized(CutBody::new(self, run), length)
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
    fn poll_data(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> BodyPart {
        if !self.begun.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.begun))));
        }
        self.upstream.poll_data(cx).map(|part| part.map(|part| part.map_err(BodyError::from)))
    }

    fn is_end(&self) -> bool {
        self.begun.is_empty() && self.upstream.is_end()
    }
}

/// A raw body that a task can cut: it is not polled while the client does not read.
struct CutBody {
    shared: Arc<Mutex<Shared>>,
    watch: AbortHandle,
}

struct Shared {
    /// `None` once it was cut.
    raw: Option<RawBody>,
    waker: Option<Waker>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CutBody {
    fn new(raw: RawBody, run: &RunHandle) -> Self {
        let shared = Arc::new(Mutex::new(Shared { raw: Some(raw), waker: None }));
        let (watched, run) = (Arc::downgrade(&shared), run.clone());
        let watch = tokio::spawn(async move {
            run.stopped(CancelOn::Abort).await;
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
    fn poll_data(self: Pin<&mut Self>, cx: &mut Context<'_>) -> BodyPart {
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
