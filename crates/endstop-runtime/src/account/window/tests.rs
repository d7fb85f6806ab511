//! Calendars: leap days, summer time, hours that come twice; and rolling windows.

use super::*;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn at(text: &str) -> WallTime {
    let time: Timestamp = text.parse().unwrap();
    WallTime(u64::try_from(time.as_millisecond()).unwrap())
}

/// Start and end as texts.
fn window(window: Window, now: &str, of: &str) -> (String, String) {
    let span = Span::at(window, at(now), &zone(of));
    assert_eq!(span.after, span.start, "a calendar window sums what ends after its start");
    let text = |millis: u64| {
        Timestamp::from_millisecond(i64::try_from(millis).unwrap()).unwrap().to_string()
    };
    (text(span.start), text(span.end))
}

fn pair(start: &str, end: &str) -> (String, String) {
    (start.to_owned(), end.to_owned())
}

const BERLIN: &str = "Europe/Berlin";

/// A kind of window, a time, a zone, and where the window begins and ends.
const CALENDAR: &[(Window, &str, &str, &str, &str)] = &[
    (Window::Day, "2028-02-29T12:00:00Z", "UTC", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"),
    (Window::Month, "2028-02-29T23:59:59Z", "UTC", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
    (Window::Month, "2026-12-31T23:30:00Z", BERLIN, "2026-12-31T23:00:00Z", "2027-01-31T23:00:00Z"),
    (Window::Week, "2026-11-25T16:00:00Z", "UTC", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
    (Window::Week, "2026-11-23T00:00:00Z", "UTC", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
    (
        Window::Hour,
        "2026-11-25T16:59:59Z",
        "Asia/Kolkata",
        "2026-11-25T16:30:00Z",
        "2026-11-25T17:30:00Z",
    ),
    // A day of 23 hours, and one of 25.
    (Window::Day, "2026-03-29T12:00:00Z", BERLIN, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
    (Window::Day, "2026-10-25T12:00:00Z", BERLIN, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
    // The hour from 2 to 3 comes twice.
    (Window::Hour, "2026-10-25T00:30:00Z", BERLIN, "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"),
    (Window::Hour, "2026-10-25T01:30:00Z", BERLIN, "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"),
    // The clock jumps at midnight: the day begins at 1.
    (
        Window::Day,
        "2018-11-04T12:00:00Z",
        "America/Sao_Paulo",
        "2018-11-04T03:00:00Z",
        "2018-11-05T02:00:00Z",
    ),
];

#[test]
fn calendar_windows_begin_where_the_calendar_says() {
    for &(kind, now, of, start, end) in CALENDAR {
        assert_eq!(window(kind, now, of), pair(start, end), "{kind} at {now} in {of}");
    }
}

#[test]
fn windows_follow_each_other_without_a_gap() {
    for of in ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata"] {
        for kind in [Window::Hour, Window::Day, Window::Week, Window::Month] {
            let mut now = at("2017-09-20T05:00:00Z");
            for _ in 0..2_000 {
                let span = Span::at(kind, now, &zone(of));
                assert!(span.start <= now.0 && now.0 < span.end, "{kind} in {of} at {now:?}");
                let next = Span::at(kind, WallTime(span.end), &zone(of));
                // A clock that moves by half an hour has hours that overlap: both count then.
                let overlaps = of == "Australia/Lord_Howe" && next.start < span.end;
                assert!(next.start == span.end || overlaps, "{kind} in {of} at {now:?}");
                now = WallTime(span.end);
            }
        }
    }
}

#[test]
fn a_rolling_window_sums_whole_buckets() {
    let hour = Window::Rolling(std::time::Duration::from_secs(3_600));
    let span = Span::at(hour, WallTime(10_000_000), &TimeZone::UTC);
    assert_eq!((span.start, span.end), (9_960_000, 10_020_000));
    assert_eq!(span.after, 10_000_000 - 3_600_000);
    assert_eq!(Span::gone_at(hour, span.end), Some(span.end + 3_600_000));
}
