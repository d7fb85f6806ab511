//! Bodies of upstreams' responses, and how frames become parts.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;

use super::error::UpstreamError;
use super::h2_pool::H2Slot;
use crate::body::{BodyError, BodyPart, BodySource};
use crate::limits::MAX_GATHERED;

/// The body of an upstream's response. Dropping it before its end closes its connection (HTTP/1.1) or resets its
/// stream (HTTP/2) at once; at its end the connection is free for the next call.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    incoming: Incoming,
    /// The room on a shared connection, until the end.
    slot: Option<H2Slot>,
    /// Data that was read and not returned yet.
    unreturned: Bytes,
    /// Whether the data read so far is returned without another turn.
    is_gathered: bool,
    is_over: bool,
    kept_error: Option<UpstreamError>,
}

impl UpstreamBody {
    const fn new(incoming: Incoming, slot: Option<H2Slot>) -> Self {
        let unreturned = Bytes::new();
        Self { incoming, slot, unreturned, is_gathered: false, is_over: false, kept_error: None }
    }

    pub(super) fn shared(incoming: Incoming, slot: H2Slot) -> Self {
        Self::new(incoming, Some(slot))
    }

    /// A body whose connection is read by a task of the library, which hands over the body on request. This asks for
    /// the data that arrived with the head, so that both are forwarded in one write.
    pub(super) async fn begun(incoming: Incoming) -> Self {
        let mut body = Self::new(incoming, None);
        // Who reads a sized body waits for the whole of it.
        if body.incoming.size_hint().exact().is_some() {
            return body;
        }
        let mut is_asked = false;
        poll_fn(|cx| {
            let turn = body.poll_turn(cx);
            if turn.is_ready() && !body.is_over && !std::mem::replace(&mut is_asked, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            is_asked = true;
            turn
        })
        .await;
        body.is_gathered = !body.unreturned.is_empty();
        body
    }

    /// Everything that is readable now, as one; none at the end.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if !std::mem::take(&mut self.is_gathered) && !self.is_over {
            if self.slot.is_none() {
                ready!(self.poll_turn(cx));
            } else {
                self.gather(cx);
            }
        }
        if !self.unreturned.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.unreturned))));
        }
        if self.is_over {
            return Poll::Ready(self.kept_error.take().map(Err));
        }
        Poll::Pending
    }

    /// Takes the available data. As long as more arrives, the connection's task gets another turn to deliver the
    /// rest: it hands over one frame at a time, and a write for each would cost more.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let before = self.unreturned.len();
        self.gather(cx);
        let has_come = self.unreturned.len() > before;
        if !has_come || self.is_over || self.unreturned.len() >= MAX_GATHERED {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Like [`poll_data`](Self::poll_data), to be awaited; the future may be dropped and created again.
    pub(crate) async fn data(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        poll_fn(|cx| self.poll_data(cx)).await
    }

    /// Whether the body has ended, if that is known without polling.
    pub(crate) fn is_end(&self) -> bool {
        let is_read = self.is_over || self.incoming.is_end_stream();
        self.unreturned.is_empty() && self.kept_error.is_none() && is_read
    }

    /// Bytes that are still to come, if the upstream announced them.
    pub(crate) fn remaining(&self) -> Option<u64> {
        let unread = self.incoming.size_hint().exact()?;
        Some(unread.saturating_add(self.unreturned.len() as u64))
    }

    /// Takes all frames that are ready.
    fn gather(&mut self, cx: &mut Context<'_>) {
        // Once there is something to return, the caller asks again, so nothing need wake it: each frame would.
        let mut quiet = Context::from_waker(Waker::noop());
        let before = self.unreturned.len();
        let end = loop {
            let has_come = self.unreturned.len() > before;
            let cx = if has_come { &mut quiet } else { &mut *cx };
            if self.incoming.is_end_stream() {
                break Ok(());
            }
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.take(data);
                    if self.unreturned.len() >= MAX_GATHERED {
                        return;
                    }
                }
                Poll::Ready(Some(Err(error))) => break Err(error),
                Poll::Ready(None) => break Ok(()),
                Poll::Pending => return,
            }
        };
        self.is_over = true;
        self.slot = None;
        self.kept_error = end.err().map(UpstreamError::from);
    }

    fn take(&mut self, data: Bytes) {
        if self.unreturned.is_empty() {
            self.unreturned = data;
            return;
        }
        // Copies the first frame only: after that the buffer has no other owner.
        let mut all = BytesMut::from(std::mem::take(&mut self.unreturned));
        all.extend_from_slice(&data);
        self.unreturned = all.freeze();
    }
}

impl From<UpstreamError> for BodyError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(Box::new(error))
    }
}

/// Passes a response on as it arrives.
impl BodySource for UpstreamBody {
    fn poll_data(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> BodyPart {
        let this: &mut Self = &mut self;
        this.poll_data(cx).map_err(BodyError::from)
    }

    fn is_end(&self) -> bool {
        Self::is_end(self)
    }
}
