//! One request and its answer over a connection of its own (HTTP/1.1).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::UpstreamError;
use super::chunks::{Joined, NewAnswer};
use super::connect::{Look, Wire};
use super::pool::Pool;
use super::shared::{Gathered, gather};

/// Bytes of the head of an answer; a longer one breaks the exchange.
const MAX_HEAD: usize = 256 << 10;

/// A connection that no task runs: whoever waits for its answer polls it.
pub(super) struct Line {
    look: Look,
    answer: NewAnswer,
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<Joined<Wire>>, Full<Bytes>>,
    is_over: bool,
    /// When it was last used.
    pub(super) used: Instant,
}

impl Line {
    /// Over a new connection.
    pub(super) async fn open(wire: Wire) -> Result<Box<Self>, hyper::Error> {
        let look = wire.look();
        let wire = Joined::new(wire);
        let answer = wire.answer();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            // A hundred header fields at most, which is the default: a number of one's own costs an allocation.
            .handshake(TokioIo::new(wire))
            .await?;
        let used = Instant::now();
        Ok(Box::new(Self { look, answer, sender, connection, is_over: false, used }))
    }

    /// Whether another exchange can begin, as far as is known without asking the system.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_over && self.sender.is_ready()
    }

    /// Whether it is idle and its peer has neither closed it nor said anything, by now.
    pub(super) async fn is_usable(&mut self) -> bool {
        self.look.before_next_read();
        poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(self.is_idle())
        })
        .await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.is_over {
            // What went wrong is told by the answer or its body.
            self.is_over = Pin::new(&mut self.connection).poll(cx).is_ready();
        }
    }

    /// Sends a request; gives it back where it certainly was not sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        self.answer.begins();
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            self.drive(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

/// The body of an answer and the connection that it comes over.
#[derive(Debug)]
pub(super) struct Exchange {
    body: Incoming,
    line: Option<Box<Line>>,
    pool: Weak<Pool>,
    kept_error: Option<UpstreamError>,
}

impl Exchange {
    pub(super) fn new(body: Incoming, line: Box<Line>, pool: &Arc<Pool>) -> Self {
        let pool = Arc::downgrade(pool);
        let mut exchange = Self { body, line: Some(line), pool, kept_error: None };
        if exchange.body.is_end_stream() {
            // Nobody need ask for a body that is not there.
            exchange.give_back(&mut Context::from_waker(Waker::noop()));
        }
        exchange
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        if let Some(error) = self.kept_error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let line = &mut self.line;
        let Gathered { data, end } = gather(&mut self.body, cx, |cx| {
            if let Some(line) = line {
                line.drive(cx);
            }
        });
        match end {
            Some(Ok(())) => self.give_back(cx),
            Some(Err(error)) => {
                self.line = None;
                self.kept_error = Some(error.into());
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
        self.kept_error.is_none() && (self.line.is_none() || self.body.is_end_stream())
    }

    pub(super) fn remaining(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    fn give_back(&mut self, cx: &mut Context<'_>) {
        if let (Some(mut line), Some(pool)) = (self.line.take(), self.pool.upgrade()) {
            // It notices here that the exchange is over and that another one may begin.
            line.drive(cx);
            pool.keep(line);
        }
    }
}
