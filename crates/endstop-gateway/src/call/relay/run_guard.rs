//! What ends a stream from the side of the run, looked at whenever its client reads.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use endstop::agent::driver::DrivenRun;
use endstop::core::run::Directive;
use tokio::time::{Instant, Sleep};

/// How soon a rule in time that holds already is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What ends a stream from the side of the run.
pub(super) struct Guard {
    driven: DrivenRun,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    limit: Option<Pin<Box<Sleep>>>,
}

impl Guard {
    pub(super) fn new(driven: &DrivenRun) -> Self {
        let token = driven.in_flight();
        let cut = Box::pin(async move { token.cut().await });
        let limit = driven.next_limit_in_time();
        let limit = limit.map(|left| Box::pin(tokio::time::sleep(Duration::from_millis(left.0))));
        Self { driven: driven.clone(), cut, limit }
    }

    /// Whether the stream is to end: cut at once, or for a limit in time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Directive> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Some(Directive::CancelNow);
        }
        while let Some(limit) = &mut self.limit {
            if limit.as_mut().poll(cx).is_pending() {
                return None;
            }
            let directive = self.driven.tick();
            if directive.stops() {
                return Some(directive);
            }
            let left = self.driven.next_limit_in_time().map(|left| Duration::from_millis(left.0));
            match left {
                None => self.limit = None,
                Some(left) => {
                    let left = if left.is_zero() { LOOK_AGAIN } else { left };
                    limit.as_mut().reset(Instant::now() + left);
                }
            }
        }
        None
    }
}
