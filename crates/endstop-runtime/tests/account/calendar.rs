//! Calendar windows, computed without the store.

use endstop_runtime::account::{Account, Window};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A calendar window: the same numbers for all moments of it. `None` for a rolling one.
pub(super) type Calendar = Option<[i64; 4]>;

pub(super) fn calendar(window: Window, at: u64, zone: &TimeZone) -> Calendar {
    let at = Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap();
    let at = at.to_zoned(zone.clone());
    let (year, month, day) = (i64::from(at.year()), i64::from(at.month()), i64::from(at.day()));
    let week = at.date().iso_week_date();
    match window {
        Window::Rolling(_) => None,
        Window::Ever => Some([0; 4]),
        // An hour that the clock shows twice is two.
        Window::Hour => {
            let hour = i64::from(at.hour()) * 100_000 + i64::from(at.offset().seconds());
            Some([year, month, day, hour])
        }
        Window::Day => Some([year, month, day, 0]),
        Window::Week => Some([i64::from(week.year()), i64::from(week.week()), 0, 0]),
        Window::Month => Some([year, month, 0, 0]),
    }
}

/// The calendar windows of a moment, by account and limit.
pub(super) type Windows = Vec<Vec<Calendar>>;

pub(super) fn windows(all: &[Account], at: u64) -> Windows {
    let of = |account: &Account| {
        let limits = account.limits.iter();
        limits.map(|limit| calendar(limit.window, at, &account.zone)).collect()
    };
    all.iter().map(of).collect()
}
