//! Streams that their clients do not read: the run ends them anyway.
//!
//! A body is polled for its next part only while its client reads. So an abort of the run would not reach the stream
//! of a client that reads nothing, and its upstream would continue. A task of the stream waits for the abort; the
//! body has a moment to end in order, then the task closes the upstream and settles the call.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use endstop_runtime::{CancelOn, RunHandle};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::drain::Drains;
use super::stream::{StreamRelay, Unreceived};
use crate::body::{BodyPart, BodySource};
use crate::limits::STREAM_END_GRACE;
use crate::run::ReadProgress;

/// A stream of events that can be ended although its client does not read it.
pub(super) struct WatchedStream {
    stream: Arc<Mutex<StreamRelay>>,
    /// `None` once a drain has it.
    watch: Option<WatchTask>,
    progress: ReadProgress,
    /// The place for the stream to continue if its client disconnects; `None` if it is closed then.
    drains: Option<Arc<Drains>>,
    /// Whether output is read without a client too.
    reads_to_end: bool,
}

/// The task that waits for the cut.
struct WatchTask(AbortHandle);

impl Drop for WatchTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn lock(stream: &Mutex<StreamRelay>) -> MutexGuard<'_, StreamRelay> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WatchedStream {
    pub(super) fn new(
        stream: StreamRelay,
        run: RunHandle,
        progress: ReadProgress,
        drains: Option<Arc<Drains>>,
        reads_to_end: bool,
    ) -> Self {
        let stream = Arc::new(Mutex::new(stream));
        let watched = Arc::downgrade(&stream);
        let watch = tokio::spawn(async move {
            run.stopped(CancelOn::Abort).await;
            tokio::time::sleep(STREAM_END_GRACE).await;
            if let Some(stream) = watched.upgrade() {
                lock(&stream).cut_unread();
            }
        });
        let watch = Some(WatchTask(watch.abort_handle()));
        Self { stream, watch, progress, drains, reads_to_end }
    }
}

impl BodySource for WatchedStream {
    fn poll_data(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> BodyPart {
        let this = &mut *self;
        this.progress.reads_on();
        let mut stream = lock(&this.stream);
        let part = stream.next_part(cx);
        if stream.is_in_flight() && part.is_ready() {
            this.progress.was_given();
        }
        part
    }

    fn is_end(&self) -> bool {
        lock(&self.stream).is_ended()
    }
}

impl Drop for WatchedStream {
    fn drop(&mut self) {
        let Some(drains) = self.drains.take() else { return };
        let left_at = match lock(&self.stream).leave(self.reads_to_end) {
            Unreceived::Nothing => return,
            Unreceived::Usage => Instant::now(),
            Unreceived::Output(left_at) => left_at,
        };
        let (stream, watch) = (Arc::clone(&self.stream), self.watch.take());
        drains.adopt(left_at, async move {
            poll_fn(|cx| read_on(&mut lock(&stream), cx)).await;
            drop(watch);
        });
    }
}

/// Receives the pieces of a stream without a client.
fn read_on(stream: &mut StreamRelay, cx: &mut Context<'_>) -> Poll<()> {
    loop {
        if std::task::ready!(stream.next_part(cx)).is_none() {
            return Poll::Ready(());
        }
    }
}
