//! Tests of `spend`.

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
fn a_bar_shows_that_something_was_spent() {
    assert_eq!((bar(0, 9), bar(1, 900), bar(9, 9)), (String::new(), "#".into(), "#".repeat(20)));
}
