//! Responses that are forwarded unparsed. An abort of their run closes them, whether their clients read them or not.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use endstop_llm::{Dialect, ErrorKind};
use endstop_runtime::{CancelOn, RunHandle, Waited};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode};
use tokio::task::AbortHandle;

use crate::body::{Body, BodyError, BodyPart, BodySource};
use crate::call::respond;
use crate::call::secrets::{Redactor, Secrets};
use crate::call::upstream_response::{plain, read_error, with_head};
use crate::limits::{ERROR_WITHIN, MAX_REFUSAL};
use crate::upstream::UpstreamBody;

/// A response that is forwarded unparsed.
pub(in crate::call) struct RawBody {
    begun: Bytes,
    upstream: UpstreamBody,
    /// Replaces the secrets of an error.
    redactor: Option<Redactor>,
}

impl RawBody {
    pub(in crate::call) const fn new(upstream: UpstreamBody) -> Self {
        Self::after(Bytes::new(), upstream)
    }

    /// Like [`RawBody::new`], after the part that was read already.
    pub(in crate::call) const fn after(begun: Bytes, upstream: UpstreamBody) -> Self {
        Self { begun, upstream, redactor: None }
    }

    /// The body without these secrets. It must not be encoded.
    pub(in crate::call) fn without(self, secrets: &Secrets) -> Self {
        Self { redactor: Some(secrets.redactor()), ..self }
    }

    /// Returns the body, with its length if the upstream sent it.
    pub(in crate::call) fn into_body(mut self) -> Body {
        let is_whole =
            self.upstream.is_end() && self.upstream.remaining().is_none_or(|left| left == 0);
        if let Some(redactor) = self.redactor.as_mut().filter(|_| is_whole) {
            let mut whole = redactor.push(&self.begun);
            whole.extend_from_slice(&redactor.finish());
            return Body::full(whole.into());
        }
        let length = self.length();
        sized(self, length)
    }

    /// Like [`RawBody::into_body`], until the run is aborted or a time limit stops it. The connection is closed then
    /// without the mark of a proper end.
    pub(in crate::call) fn into_body_of(self, run: &RunHandle) -> Body {
        if self.upstream.is_end() && self.upstream.remaining().is_none_or(|left| left == 0) {
            return self.into_body();
        }
        let length = self.length();
        sized(CutBody::new(self, run), length)
    }

    fn length(&self) -> Option<u64> {
        if self.redactor.is_some() {
            return None;
        }
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
        let this = &mut *self;
        loop {
            let part = if this.begun.is_empty() {
                let part = ready!(this.upstream.poll_data(cx));
                part.map(|part| part.map_err(BodyError::from))
            } else {
                Some(Ok(std::mem::take(&mut this.begun)))
            };
            let Some(redactor) = &mut this.redactor else { return Poll::Ready(part) };
            let (passed, is_over) = match part {
                Some(Ok(part)) => (redactor.push(&part), false),
                Some(error) => return Poll::Ready(Some(error)),
                // It is sent without its length, so that its end must tell.
                None if this.upstream.remaining().is_some_and(|left| left > 0) => {
                    return Poll::Ready(Some(Err(BodyError::Cut)));
                }
                None => (redactor.finish(), true),
            };
            if !passed.is_empty() {
                return Poll::Ready(Some(Ok(passed.into())));
            }
            if is_over {
                return Poll::Ready(None);
            }
        }
    }

    fn is_end(&self) -> bool {
        self.redactor.is_none() && self.begun.is_empty() && self.upstream.is_end()
    }
}

/// The response to a client whose upstream answered with an error, without secrets. `begun` was received before. With a run,
/// what cuts the run cuts the response.
pub(in crate::call) async fn error_response(
    dialect: &dyn Dialect,
    secrets: &Secrets,
    run: Option<&RunHandle>,
    head: (StatusCode, HeaderMap),
    begun: Bytes,
    mut upstream: UpstreamBody,
) -> Response<Body> {
    let (status, mut headers) = head;
    let is_encoded = headers.contains_key(CONTENT_ENCODING);
    let max = u64::try_from(MAX_REFUSAL).unwrap_or(u64::MAX);
    let mut begun = begun;
    // A short one keeps its length. An encoded one cannot be redacted in pieces.
    if is_encoded || upstream.remaining().is_some_and(|left| left > 0 && left <= max) {
        // The call is settled: a client learns the status of an upstream that stalls.
        let reading = read_error(&mut upstream, Some(ERROR_WITHIN));
        let rest = match run {
            Some(run) => match run.wait(&mut pin!(reading), CancelOn::Abort).await {
                Waited::Done(rest) => rest,
                Waited::Aborted => Bytes::new(),
            },
            None => reading.await,
        };
        begun = if begun.is_empty() { rest } else { [begun, rest].concat().into() };
    }
    if is_encoded {
        let Some(text) = plain(&headers, &begun, MAX_REFUSAL) else {
            let text = format!("the upstream answered {status}, and its text cannot be read");
            let (own, body) =
                respond::error(dialect, status, ErrorKind::Upstream, &text).into_parts();
            headers.remove(CONTENT_ENCODING);
            headers.extend(own.headers);
            return with_head(status, headers, body);
        };
        headers.remove(CONTENT_ENCODING);
        let text = Bytes::from(secrets.redact(&text).into_owned());
        return with_head(status, headers, Body::full(text));
    }
    let raw = RawBody::after(begun, upstream).without(secrets);
    let body = match run {
        Some(run) => raw.into_body_of(run),
        None => raw.into_body(),
    };
    with_head(status, headers, body)
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
