//! Answers over a connection that is shared (HTTP/2), and how frames become parts.

use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;

use super::UpstreamError;
use super::trunk::Slot;

/// Most bytes that are put together: what comes faster than this is large enough as it is.
const MAX_GATHERED: usize = 256 << 10;

/// What was there to be read.
pub(super) struct Gathered {
    pub(super) data: Bytes,
    /// Set where the body has ended, properly or not.
    pub(super) end: Option<Result<(), hyper::Error>>,
}

/// Takes all frames that are ready. `drive` moves the connection, which gives one frame at a time.
pub(super) fn gather(
    body: &mut Incoming,
    cx: &mut Context<'_>,
    mut drive: impl FnMut(&mut Context<'_>),
) -> Gathered {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    // Once there is something to return, the caller asks again, so nothing need wake it: each frame would.
    let mut quiet = Context::from_waker(Waker::noop());
    let end = loop {
        let has_data = !(first.is_empty() && all.is_empty());
        let cx = if has_data { &mut quiet } else { &mut *cx };
        if body.is_end_stream() {
            break Some(Ok(()));
        }
        drive(cx);
        match std::pin::Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if !has_data {
                    first = data;
                } else {
                    if all.is_empty() {
                        all.reserve((first.len() + data.len()) * 4);
                        all.extend_from_slice(&std::mem::take(&mut first));
                    }
                    all.extend_from_slice(&data);
                }
                if first.len() + all.len() >= MAX_GATHERED {
                    break None;
                }
            }
            Poll::Ready(Some(Err(error))) => break Some(Err(error)),
            Poll::Ready(None) => break Some(Ok(())),
            Poll::Pending => break None,
        }
    };
    Gathered { data: if all.is_empty() { first } else { all.freeze() }, end }
}

/// The body of an answer over a shared connection.
#[derive(Debug)]
pub(super) struct Stream {
    body: Incoming,
    /// None at the end.
    slot: Option<Slot>,
    kept_error: Option<UpstreamError>,
}

impl Stream {
    pub(super) const fn new(body: Incoming, slot: Slot) -> Self {
        Self { body, slot: Some(slot), kept_error: None }
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if self.slot.is_none() {
            return Poll::Ready(self.kept_error.take().map(Err));
        }
        let Gathered { data, end } = gather(&mut self.body, cx, |_| ());
        match end {
            Some(end) => {
                self.slot = None;
                self.kept_error = end.err().map(Into::into);
            }
            None if data.is_empty() => return Poll::Pending,
            None => {}
        }
        if !data.is_empty() {
            return Poll::Ready(Some(Ok(data)));
        }
        Poll::Ready(self.kept_error.take().map(Err))
    }

    pub(super) fn is_end(&self) -> bool {
        self.kept_error.is_none() && (self.slot.is_none() || self.body.is_end_stream())
    }

    pub(super) fn remaining(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }
}
