//! Time for runs: a monotonic offset that survives save and resume, and wall time.
//!
//! Monotonic time is that of `tokio::time`, so that tests on a paused clock run in simulated time. Time in
//! which a run was not loaded counts in nothing (docs/semantics.md, section 1).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use endstop_core::units::{Millis, WallTime};
use tokio::time::Instant;

/// The source of wall time.
pub type WallClock = Arc<dyn Fn() -> WallTime + Send + Sync>;

/// The clock of one run in one process.
///
/// ```
/// use endstop_core::units::{Millis, WallTime};
/// use endstop_runtime::clock::RunClock;
/// use std::sync::Arc;
///
/// // A run that is resumed goes on at the time of its last event.
/// let clock = RunClock::start(Millis::from_secs(90), Some(Arc::new(|| WallTime(1_000))));
/// assert!(clock.at() >= Millis::from_secs(90));
/// assert_eq!(clock.wall(), WallTime(1_000));
/// ```
#[derive(Clone)]
pub struct RunClock {
    origin: Instant,
    before: Millis,
    wall: Option<WallClock>,
}

impl fmt::Debug for RunClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunClock").field("at", &self.at()).finish_non_exhaustive()
    }
}

impl RunClock {
    /// Creates a clock that continues from `before`: zero for a new run, the last event's offset for a resumed one.
    #[must_use]
    pub fn start(before: Millis, wall: Option<WallClock>) -> Self {
        Self { origin: Instant::now(), before, wall }
    }

    /// Returns the offset from the start of the run.
    #[must_use]
    pub fn at(&self) -> Millis {
        self.at_instant(Instant::now())
    }

    /// Returns the offset at an instant of this process.
    #[must_use]
    pub fn at_instant(&self, instant: Instant) -> Millis {
        Millis(self.before.0.saturating_add(millis(instant.saturating_duration_since(self.origin))))
    }

    /// Returns the wall time: milliseconds since 1970-01-01T00:00Z; zero if the system's clock is before that.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        self.wall.as_ref().map_or_else(system_wall_time, |wall| wall())
    }
}

/// The wall time that was read last, and when in the run.
pub(crate) type LastWall = Option<(Millis, WallTime)>;

impl RunClock {
    /// Like [`RunClock::wall`], for an offset of the run. The system clock is read once per millisecond and not for
    /// every event: offsets are no finer.
    pub(crate) fn wall_at(&self, at: Millis, last: &mut LastWall) -> WallTime {
        match last {
            _ if self.wall.is_some() => self.wall(),
            Some((seen, wall)) if *seen == at => *wall,
            _ => last.insert((at, system_wall_time())).1,
        }
    }
}

/// Returns the system's wall time.
#[must_use]
pub fn system_wall_time() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis))
}

/// Returns whole milliseconds; saturates.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
