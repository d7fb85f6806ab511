//! Streams whose clients do not read: the run ends them all the same.
//!
//! A body is asked for its next part only while its client takes what it has. So what cuts a run would not reach
//! the stream of a client that reads nothing, and its upstream would go on. A task of the stream waits for the cut;
//! the body has a moment to end in order, then the upstream is closed and the call settled from there.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use endstop::agent::driver::DrivenRun;
use tokio::task::AbortHandle;

use super::super::ask::guarded;
use super::{Part, SseBody};
use crate::body::BodySource;
use crate::run::{Reading, RunEntry};

/// How long the body of a stream has to end by itself.
const MOMENT: Duration = Duration::from_millis(100);

/// A stream of events that can be ended although nobody reads it.
pub(in crate::call) struct Watched {
    stream: Arc<Mutex<SseBody>>,
    watch: AbortHandle,
    reading: Reading,
}

fn lock(stream: &Mutex<SseBody>) -> MutexGuard<'_, SseBody> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    pub(in crate::call) fn new(stream: SseBody, driven: &DrivenRun, run: &Arc<RunEntry>) -> Self {
        let stream = Arc::new(Mutex::new(stream));
        let (watched, driven) = (Arc::downgrade(&stream), driven.clone());
        let watch = tokio::spawn(async move {
            let _ = guarded(&driven, std::future::pending::<()>()).await;
            tokio::time::sleep(MOMENT).await;
            if let Some(stream) = watched.upgrade() {
                lock(&stream).cut_unread();
            }
        });
        Self { stream, watch: watch.abort_handle(), reading: Reading::new(run) }
    }
}

impl BodySource for Watched {
    fn poll_data(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Part {
        let this = &mut *self;
        this.reading.goes_on();
        let mut stream = lock(&this.stream);
        let part = stream.next_part(cx);
        if stream.open.is_some() && part.is_ready() {
            this.reading.has_given();
        }
        part
    }

    fn is_end(&self) -> bool {
        let stream = lock(&self.stream);
        stream.upstream.is_none() && stream.open.is_none() && !stream.is_cut
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
