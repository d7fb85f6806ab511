//! Windows in time: where the one of a moment begins and ends, and which counters it sums.

use endstop_core::units::WallTime;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use super::limit::Window;
use crate::limits::ROLLING_BUCKETS;

/// The end of what has none, as stores keep it.
pub(super) const NEVER: u64 = i64::MAX as u64;

/// The counter that a charge at some moment goes into, and those that its limit sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The start of the counter, in milliseconds since 1970.
    pub(super) start: u64,
    /// Its end, exclusive.
    pub(super) end: u64,
    /// The limit sums the counters that end after this. Of a calendar window it is its own start: so a counter of
    /// another time zone that overlaps counts as well, and a change of the zone gives nothing away.
    pub(super) after: u64,
}

impl Span {
    /// The span of a window at a moment.
    pub(super) fn at(window: Window, now: WallTime, zone: &TimeZone) -> Self {
        if let Window::Rolling(length) = window {
            let length = crate::clock::millis(length);
            // Whole buckets, the one that is partly too old included: the sum is never too small.
            let bucket = length.div_ceil(ROLLING_BUCKETS).max(1);
            let start = now.0 - now.0 % bucket;
            let end = start.saturating_add(bucket);
            return Self { start, end, after: now.0.saturating_sub(length) };
        }
        calendar(window, now, zone).map_or(
            // Dates that no calendar has: one window for all of them.
            Self { start: 0, end: NEVER, after: 0 },
            |(start, end)| Self { start, end, after: start },
        )
    }

    /// When a counter that ends at `end` is no longer summed.
    pub(super) fn gone_at(window: Window, end: u64) -> Option<u64> {
        match window {
            Window::Ever => None,
            Window::Rolling(length) => Some(end.saturating_add(crate::clock::millis(length))),
            _ => Some(end),
        }
    }
}

fn calendar(window: Window, now: WallTime, zone: &TimeZone) -> Option<(u64, u64)> {
    let now = Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?;
    let now = now.to_zoned(zone.clone());
    let (start, end) = match window {
        Window::Ever | Window::Rolling(_) => return None,
        Window::Hour => {
            // By the offset of the moment: an hour that the clock shows twice is two windows.
            let local = now.timestamp().as_second() + i64::from(now.offset().seconds());
            let start = now.timestamp().as_second() - local.rem_euclid(3_600);
            let millis = |second: i64| u64::try_from(second.checked_mul(1_000)?).ok();
            return Some((millis(start)?, millis(start + 3_600)?));
        }
        Window::Day => days(&now, 0, 1.day())?,
        Window::Week => {
            let since = now.weekday().since(Weekday::Monday);
            days(&now, i64::from(since), 1.week())?
        }
        Window::Month => days(&now, i64::from(now.day()) - 1, 1.month())?,
    };
    Some((millis(&start)?, millis(&end)?))
}

/// The midnights around: `back` days before, and one span later.
fn days(now: &Zoned, back: i64, length: jiff::Span) -> Option<(Zoned, Zoned)> {
    let first = now.date().checked_sub(back.days()).ok()?;
    let start = first.to_zoned(now.time_zone().clone()).ok()?.start_of_day().ok()?;
    let last = first.checked_add(length).ok()?;
    let end = last.to_zoned(now.time_zone().clone()).ok()?.start_of_day().ok()?;
    Some((start, end))
}

fn millis(at: &Zoned) -> Option<u64> {
    u64::try_from(at.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests;
