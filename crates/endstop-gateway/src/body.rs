//! Bodies that are sent to clients.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use thiserror::Error;

/// Why a body ends before it is whole. The connection is closed then without the mark of a proper end, so that no
/// client takes what it has for all there is.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    /// It is cut on purpose.
    #[error("the answer was cut by the gateway")]
    Cut,
    /// The upstream broke off.
    #[error("the upstream broke off: {0}")]
    Upstream(#[from] crate::upstream::UpstreamError),
}

/// Where the parts of a body come from. It is dropped with the body: when the client has it all, or has gone.
pub(crate) trait BodySource {
    /// The next part; none at the end. What it returns is written at once, so a source that has several parts at
    /// hand returns them as one.
    fn poll_data(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>>;

    /// Whether nothing more comes, where that is known without asking.
    fn is_end(&self) -> bool {
        false
    }
}

/// The body of an answer.
pub(crate) struct Body(Kind);

enum Kind {
    Full(Bytes),
    Stream { source: Pin<Box<dyn BodySource + Send>>, length: Option<u64> },
    Broken(Option<BodyError>),
}

impl Body {
    /// Of these bytes; sent with its length.
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self(Kind::Full(bytes))
    }

    /// Of nothing.
    #[cfg(test)]
    pub(crate) const fn empty() -> Self {
        Self(Kind::Full(Bytes::new()))
    }

    /// Of what a source gives; its length is not known before.
    pub(crate) fn stream(source: impl BodySource + Send + 'static) -> Self {
        Self(Kind::Stream { source: Box::pin(source), length: None })
    }

    /// Of what a source gives, which is exactly so many bytes; sent with its length. Where the source gives another
    /// number, the connection is cut.
    pub(crate) fn sized_stream(source: impl BodySource + Send + 'static, length: u64) -> Self {
        Self(Kind::Stream { source: Box::pin(source), length: Some(length) })
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Full(bytes) => write!(f, "Body({} B)", bytes.len()),
            Kind::Stream { .. } => f.write_str("Body(stream)"),
            Kind::Broken(_) => f.write_str("Body(broken)"),
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
            Kind::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Stream { source, length } => {
                match std::task::ready!(source.as_mut().poll_data(cx)) {
                    Some(Ok(data)) => {
                        if let Some(left) = length {
                            *left = left.saturating_sub(data.len() as u64);
                        }
                        Poll::Ready(Some(Ok(Frame::data(data))))
                    }
                    None => Poll::Ready(None),
                    Some(Err(error)) => {
                        // What was given before may wait to be written, and an error drops it: one more round first.
                        self.0 = Kind::Broken(Some(error));
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            }
            Kind::Broken(error) => Poll::Ready(error.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Stream { source, .. } => source.is_end(),
            Kind::Broken(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream { length: Some(length), .. } => SizeHint::with_exact(*length),
            Kind::Stream { .. } | Kind::Broken(_) => SizeHint::default(),
        }
    }
}
