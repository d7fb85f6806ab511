//! Tests of what counts.

use super::*;

#[test]
fn days_and_zones_are_read() {
    assert_eq!(since("7d"), Ok(Since::Days(7)));
    assert!(matches!(since("2026-01-31"), Ok(Since::Date(_))));
    for wrong in ["", "d", "-1d", "week", "2026-13-01"] {
        assert!(since(wrong).is_err(), "{wrong}");
    }
    assert_eq!(offset("-05:30").map(Offset::seconds), Ok(-19_800));
    for wrong in ["", "2", "+25:00", "+02:61", "Europe/Berlin"] {
        assert!(offset(wrong).is_err(), "{wrong}");
    }
    assert!(["UTC", "Asia/Kolkata", "+02:00"].iter().all(|name| zone(name).is_ok()));
    for wrong in ["", "Mars/Olympus", "+25:00", "02:00"] {
        assert!(zone(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_query_has_the_values_of_the_options_and_their_defaults() {
    let query = |by: &str, since: &str, timezone: &str| {
        let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        SpendQuery { by: text(by), since: text(since), timezone: text(timezone) }
    };
    let plain = Selection::of_query(&SpendQuery::default()).unwrap();
    assert_eq!((plain.by, plain.since, plain.timezone), (By::Day, None, TimeZone::UTC));
    let read = Selection::of_query(&query("key", "7d", "+02:00")).unwrap();
    assert_eq!((read.by, read.since), (By::Key, Some(Since::Days(7))));
    for (wrong, name) in [
        (query("hour", "", ""), "by"),
        // The history has no tool calls.
        (query("tool", "", ""), "by"),
        (query("", "week", ""), "since"),
        (query("", "", "Mars/Olympus"), "timezone"),
    ] {
        let error = Selection::of_query(&wrong).unwrap_err();
        assert_eq!(error.kind, SourceErrorKind::Unusable);
        assert!(error.message.ends_with(&format!("is not a value of `{name}`")), "{error}");
        assert!(error.hint.unwrap().contains("write "), "{name}");
    }
}
