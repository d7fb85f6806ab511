//! What ends a stream from the side of its run.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use endstop_core::run::Directive;
use endstop_runtime::RunHandle;
use tokio::time::{Instant, Sleep};

use crate::limits::LIMIT_RECHECK;

/// Ends a stream when its run is cut or a time limit stops it. Polled whenever the client reads.
pub(super) struct RunGuard {
    run: RunHandle,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    limit: Option<Pin<Box<Sleep>>>,
}

impl RunGuard {
    pub(super) fn new(run: &RunHandle) -> Self {
        let token = run.in_flight();
        let cut = Box::pin(async move { token.cut().await });
        let limit = run.next_limit_in_time();
        let limit = limit.map(|left| Box::pin(tokio::time::sleep(Duration::from_millis(left.0))));
        Self { run: run.clone(), cut, limit }
    }

    /// Returns the directive that ends the stream, if there is one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Directive> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Some(Directive::CancelNow);
        }
        while let Some(limit) = &mut self.limit {
            if limit.as_mut().poll(cx).is_pending() {
                return None;
            }
            let directive = self.run.tick();
            if directive.stops() {
                return Some(directive);
            }
            let left = self.run.next_limit_in_time().map(|left| Duration::from_millis(left.0));
            match left {
                None => self.limit = None,
                Some(left) => {
                    let left = if left.is_zero() { LIMIT_RECHECK } else { left };
                    limit.as_mut().reset(Instant::now() + left);
                }
            }
        }
        None
    }
}
