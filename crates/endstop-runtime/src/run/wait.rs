//! Waiting inside a run: an abort and the next time limit end the wait.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_core::run::next_trip::Resource;
use endstop_core::run::{Directive, Run};
use endstop_core::units::Millis;
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::environment::StopReach;
use super::handle::RunHandle;
use super::node::is_over;
use crate::cancel::{CancelToken, Urgency};
use crate::limits::{ADMISSION_RECHECK, LOOK_AGAIN};

/// The end of a wait.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # use endstop_runtime::RunEnvironment;
/// use endstop_core::signal::{StopReason, StopSignal};
/// use endstop_runtime::cancel::Urgency;
/// use endstop_runtime::{CancelOn, Waited};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn wait(run: RunHandle) {
/// // A tool that never answers does not hold up a run that is aborted.
/// let mut tool = std::future::pending::<String>();
/// run.token().cancel(StopSignal::new(StopReason::UserRequested), Urgency::Now);
/// assert_eq!(run.wait(&mut tool, CancelOn::Abort).await, Waited::Aborted);
/// # }
/// # wait(RunHandle::root(info, program, RunEnvironment::default()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited<T> {
    /// The future is ready.
    Done(T),
    /// The run must stop now.
    Aborted,
}

/// The cancellations that end a wait.
///
/// See the example of [`Waited`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOn {
    /// An abort only: work in flight may finish.
    Abort,
    /// Any cancellation: nothing is in flight.
    Any,
}

/// The end of a wait whose future is not ready.
enum WaitEnd {
    /// A cancellation, or a time limit that trips.
    Stop(CancelOn),
    /// This moment, or an abort before it. An output that is ready at the same time counts.
    Grace { until: Instant, abort: CancelToken },
}

/// A watch for progress: the time since a count last changed, such as the number of settled calls. A wait for other calls
/// gives up if none of them makes progress.
///
/// ```
/// use std::time::Duration;
///
/// use endstop_runtime::Standstill;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut settled = Standstill::default();
/// assert_eq!(settled.since(3), Duration::ZERO);
/// tokio::time::advance(Duration::from_secs(5)).await;
/// assert_eq!(settled.since(3), Duration::from_secs(5));
/// assert_eq!(settled.since(4), Duration::ZERO);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstill {
    count: Option<(Instant, u64)>,
}

impl Standstill {
    /// Returns the time for which the count has been `count`, from the first call with this value.
    pub fn since(&mut self, count: u64) -> Duration {
        match self.count {
            Some((since, known)) if known == count => since.elapsed(),
            _ => {
                self.count = Some((Instant::now(), count));
                Duration::ZERO
            }
        }
    }

    /// Forgets the count: something else has moved.
    pub const fn reset(&mut self) {
        self.count = None;
    }
}

impl RunHandle {
    /// Waits for `future`, unless the run is cancelled or one of its time limits trips.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time, if the run has a time limit and the future is not ready.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the future is only borrowed.
    pub async fn wait<F: Future + Unpin>(
        &self,
        future: &mut F,
        cancel_on: CancelOn,
    ) -> Waited<F::Output> {
        let end = WaitEnd::Stop(cancel_on);
        self.output_of(future, &end).await.map_or(Waited::Aborted, Waited::Done)
    }

    /// Waits a moment for other calls in flight, of which this run needs what they hold: until `changed` is ready, or until
    /// it is time to look again. Calls of other runs do not notify this one, so even a driver that is notified looks again.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken.
    pub async fn wait_for_others(
        &self,
        changed: impl Future<Output = ()>,
        cancel_on: CancelOn,
    ) -> Waited<()> {
        let mut moment = pin!(tokio::time::timeout(ADMISSION_RECHECK, changed));
        match self.wait(&mut moment, cancel_on).await {
            Waited::Done(_) => Waited::Done(()),
            Waited::Aborted => Waited::Aborted,
        }
    }

    /// Waits until the run is cancelled or one of its time limits trips, and returns the directive: for work that is
    /// not a single future, such as a stream that is read part by part.
    ///
    /// # Panics
    ///
    /// Like [`RunHandle::wait`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the run decides the same later.
    pub async fn stopped(&self, cancel_on: CancelOn) -> Directive {
        match self.output_of(&mut pending::<Infallible>(), &WaitEnd::Stop(cancel_on)).await {
            Ok(never) => match never {},
            Err(directive) => directive,
        }
    }

    /// The output of `future`, or the directive that came first. Every wait of a run is this one.
    async fn output_of<F: Future + Unpin>(
        &self,
        future: &mut F,
        end: &WaitEnd,
    ) -> Result<F::Output, Directive> {
        if let Some(output) = self.output_now(future) {
            return Ok(output);
        }
        // Boxed: most futures are ready, and each waiter would have room for the timers.
        Box::pin(self.later_output_of(future, end)).await
    }

    /// The output of a future that is ready: it needs no timers.
    fn output_now<F: Future + Unpin>(&self, future: &mut F) -> Option<F::Output> {
        let is_cancelled = self.node().look_at_in_flight(CancelToken::is_cancelled);
        if is_cancelled { None } else { future.now_or_never() }
    }

    async fn later_output_of<F: Future + Unpin>(
        &self,
        future: &mut F,
        end: &WaitEnd,
    ) -> Result<F::Output, Directive> {
        loop {
            let pause_changed = self.node().pause_changed();
            // In its grace the run is over, and takes no pause.
            if matches!(end, WaitEnd::Stop(_)) {
                self.node().share_new_pauses();
            }
            tokio::select! {
                biased;
                () = self.stopped_before_output(end) => return Err(Directive::Abort),
                output = &mut *future => return Ok(output),
                () = pause_changed => {}
                () = self.time_of(end) => {
                    let directive = match end {
                        WaitEnd::Stop(_) => self.tick(),
                        WaitEnd::Grace { .. } => Directive::Abort,
                    };
                    if directive.stops() {
                        return Err(directive);
                    }
                }
            }
        }
    }

    /// Waits for a cancellation that ends the wait even if its future is ready at the same time.
    async fn stopped_before_output(&self, end: &WaitEnd) {
        let token = self.in_flight();
        match end {
            WaitEnd::Stop(CancelOn::Abort) => token.aborted().await,
            WaitEnd::Stop(CancelOn::Any) => token.cancelled().await,
            WaitEnd::Grace { .. } => pending().await,
        }
    }

    /// Sleeps until the next time limit can trip, or to the end of the grace.
    async fn time_of(&self, end: &WaitEnd) {
        match end {
            WaitEnd::Stop(_) => self.next_tick().await,
            WaitEnd::Grace { until, abort } => {
                let _ = abort.run_until_aborted(tokio::time::sleep_until(*until)).await;
            }
        }
    }

    /// Like [`RunHandle::wait`], for what may still begin in a run that is aborted or out of time: all that begins
    /// then has `grace` together, or no time if that is `None`.
    ///
    /// # Panics
    ///
    /// Like [`RunHandle::wait`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the future is only borrowed.
    pub async fn wait_in_grace<F: Future + Unpin>(
        &self,
        future: &mut F,
        grace: Option<Duration>,
    ) -> Waited<F::Output> {
        if let Some(output) = (&mut *future).now_or_never() {
            return Waited::Done(output);
        }
        let is_late = self.in_flight().urgency() == Some(Urgency::Now) || self.is_out_of_time();
        let end = if is_late {
            let until = grace.map_or_else(Instant::now, |grace| self.node().late_until(grace));
            let token = self.token();
            // The abort that began the grace does not end it.
            let was_aborted = token.urgency() == Some(Urgency::Now);
            let abort = if was_aborted { CancelToken::new() } else { token.clone() };
            WaitEnd::Grace { until, abort }
        } else {
            WaitEnd::Stop(CancelOn::Abort)
        };
        self.output_of(future, &end).await.map_or(Waited::Aborted, Waited::Done)
    }

    /// Counts the time that has passed: a rule that trips by time alone trips, and aborts calls in flight.
    pub fn tick(&self) -> Directive {
        let directive = self.node().record_plain(&EventKind::Tick);
        if directive.stops() {
            match self.node().reach() {
                StopReach::Tree => self.node().stop_descendants(directive),
                StopReach::Run => self.node().abort_descendants(),
            }
        }
        directive
    }

    /// Returns the time until the next stop rule of the run or of an ancestor can trip by time alone.
    #[must_use]
    pub fn next_limit_in_time(&self) -> Option<Millis> {
        let next = |run: &Run| run.next_trip(Resource::Time, &[Action::Stop]);
        let trips = self.node().look_upwards(next).flatten();
        trips.map(|trip| Millis(trip.distance)).min()
    }

    /// Sleeps until the next time limit can trip; forever if none can.
    async fn next_tick(&self) {
        let next = match self.node().reach() {
            StopReach::Tree => self.next_limit_in_time().map(|left| left.0),
            // The driver waits for the ancestor as well, and ticks it there.
            StopReach::Run => {
                let trip = self.node().core().run.next_trip(Resource::Time, &[Action::Stop]);
                trip.map(|trip| trip.distance)
            }
        };
        match next {
            None => pending().await,
            Some(0) => tokio::time::sleep(LOOK_AGAIN).await,
            Some(distance) => tokio::time::sleep(Duration::from_millis(distance)).await,
        }
    }

    /// Whether the run is over, and a time limit has passed.
    fn is_out_of_time(&self) -> bool {
        let core = self.node().core();
        let trip = core.run.next_trip(Resource::Time, &[Action::Stop]);
        is_over(core.run.status()) && trip.is_some_and(|trip| trip.distance == 0)
    }
}
