//! The socket of a client, its framing checked as it is read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::Framing;
use crate::limits::{LINGER, LINGER_BYTES};

/// Replaces the byte at which a head becomes ambiguous. No head may have it, so the HTTP library answers 400 and closes.
const SPOILT: &[u8] = b"\0";

/// A socket that HTTP is parsed from. A request with ambiguous framing is not passed on to its end; the stream ends
/// there.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    framing: Framing,
    is_broken: bool,
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    pub(super) fn new(stream: S, max_head: usize, takes_connect: bool) -> Self {
        let framing = Framing::new(max_head, takes_connect);
        Self { stream, framing, is_broken: false, linger: None }
    }

    /// Reads and drops what the client still sends, for a limited time.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (sleep, left) =
            self.linger.get_or_insert_with(|| (Box::pin(tokio::time::sleep(LINGER)), LINGER_BYTES));
        let mut space = [0; 4096];
        while *left > 0 && sleep.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {
                    *left = left.saturating_sub(buf.filled().len());
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_broken {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        if let Err(at) = self.framing.take(read) {
            self.is_broken = true;
            buf.set_filled(before + at);
            if self.framing.is_in_head() {
                buf.put_slice(SPOILT);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        if self.is_broken || !self.framing.is_between() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
