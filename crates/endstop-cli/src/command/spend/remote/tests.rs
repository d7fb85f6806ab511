//! The question of a spend to a gateway.

use super::super::selection::{By, since, zone};
use super::*;

#[test]
fn a_question_has_what_the_options_say() {
    let path = |by, from: Option<&str>, name: &str| {
        let since = from.map(|from| since(from).unwrap());
        path_of(&Selection { by, since, timezone: zone(name).unwrap() }).unwrap()
    };
    assert_eq!(path(By::Day, None, "UTC"), "/endstop/v1/spend?by=day&timezone=UTC");
    assert_eq!(
        path(By::Key, Some("7d"), "Europe/Berlin"),
        "/endstop/v1/spend?by=key&since=7d&timezone=Europe%2FBerlin"
    );
    assert_eq!(
        path(By::Run, Some("2026-01-31"), "+02:00"),
        "/endstop/v1/spend?by=run&since=2026-01-31&timezone=%2B02%3A00"
    );
    assert!(path(By::Run, None, "-05:30").ends_with("timezone=-05%3A30"));
}
