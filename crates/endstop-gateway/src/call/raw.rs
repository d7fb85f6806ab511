//! Answers that pass unread.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

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
}

impl RawBody {
    /// As a body; with its length where the upstream said it.
    pub(super) fn into_body(self) -> Body {
        let left = self.upstream.remaining();
        let begun = u64::try_from(self.begun.len()).unwrap_or(u64::MAX);
        match left {
            Some(left) => Body::sized_stream(self, left.saturating_add(begun)),
            None => Body::stream(self),
        }
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
