//! Times as records tell them, in epoch milliseconds.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Number;

/// Wall time in epoch milliseconds, if recorded.
pub(crate) type Time = Option<u64>;

/// Reads an RFC 3339 time; anything else is no time.
pub(crate) fn parse_time(text: &str) -> Time {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// Reads a time that is of UTC if it names no zone.
pub(crate) fn parse_utc(text: &str) -> Time {
    parse_time(text).or_else(|| parse_time(&format!("{text}Z")))
}

/// Reads a civil time as if of UTC, or a time with a zone.
pub(crate) fn parse_civil(text: &str) -> Time {
    let civil = || {
        let time: DateTime = text.parse().ok()?;
        let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
        u64::try_from(time.as_millisecond()).ok()
    };
    parse_time(text).or_else(civil)
}

/// Reads seconds since 1970, whole or with decimals.
pub(crate) fn of_seconds(seconds: &Number) -> Time {
    let text = seconds.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(millis.parse().ok()?)
}

#[cfg(test)]
mod tests;
