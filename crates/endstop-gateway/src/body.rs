//! Bodies of responses to clients.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use thiserror::Error;

/// Why a body ends before it is complete. The connection is then closed without the mark of a proper end, so that the
/// client sees that the response is incomplete.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    /// The gateway cut it.
    #[error("the gateway aborted the response")]
    Cut,
    /// The upstream broke off.
    #[error("the upstream closed the connection early: {0}")]
    Upstream(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// One part of a body; `None` at the end.
pub(crate) type BodyPart = Poll<Option<Result<Bytes, BodyError>>>;

/// The source of a body. It is dropped with the body: when the client has all of it, or has disconnected.
pub(crate) trait BodySource {
    /// Returns the next part. It is written immediately, so a source that has several parts returns them as one.
    fn poll_data(self: Pin<&mut Self>, cx: &mut Context<'_>) -> BodyPart;

    /// Whether nothing more comes, if that is known without polling.
    fn is_end(&self) -> bool {
        false
    }
}

/// The body of a response.
pub(crate) struct Body(BodyContent);

enum BodyContent {
    Full(Bytes),
    Stream { source: Pin<Box<dyn BodySource + Send>>, length: Option<u64> },
    Broken(Option<BodyError>),
}

impl Body {
    /// A body of these bytes; sent with its length.
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self(BodyContent::Full(bytes))
    }

    /// An empty body.
    pub(crate) const fn empty() -> Self {
        Self(BodyContent::Full(Bytes::new()))
    }

    /// A body of unknown length from a source.
    pub(crate) fn stream(source: impl BodySource + Send + 'static) -> Self {
        Self(BodyContent::Stream { source: Box::pin(source), length: None })
    }

    /// A body from a source of exactly `length` bytes; sent with its length. If the source gives another number, the
    /// connection is cut.
    pub(crate) fn sized_stream(source: impl BodySource + Send + 'static, length: u64) -> Self {
        Self(BodyContent::Stream { source: Box::pin(source), length: Some(length) })
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            BodyContent::Full(bytes) => write!(f, "Body({} B)", bytes.len()),
            BodyContent::Stream { .. } => f.write_str("Body(stream)"),
            BodyContent::Broken(_) => f.write_str("Body(broken)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            BodyContent::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodyContent::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            BodyContent::Stream { source, length } => {
                match std::task::ready!(source.as_mut().poll_data(cx)) {
                    Some(Ok(data)) => {
                        if let Some(left) = length {
                            *left = left.saturating_sub(data.len() as u64);
                        }
                        Poll::Ready(Some(Ok(Frame::data(data))))
                    }
                    None => Poll::Ready(None),
                    Some(Err(error)) => {
                        // An error drops earlier parts that are not written yet: one more poll first.
                        self.0 = BodyContent::Broken(Some(error));
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            }
            BodyContent::Broken(error) => Poll::Ready(error.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyContent::Full(bytes) => bytes.is_empty(),
            BodyContent::Stream { source, .. } => source.is_end(),
            BodyContent::Broken(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyContent::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyContent::Stream { length: Some(length), .. } => SizeHint::with_exact(*length),
            BodyContent::Stream { .. } | BodyContent::Broken(_) => SizeHint::default(),
        }
    }
}
