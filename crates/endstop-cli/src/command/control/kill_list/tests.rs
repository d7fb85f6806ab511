//! Tests of `kill_list`.

use super::*;

#[test]
fn a_kill_is_listed_with_its_time_if_that_is_known_and_with_its_place() {
    let text = |text: &str| Some(text.to_owned());
    let undated = KillRecord {
        target: "key".to_owned(),
        name: text("alice"),
        at: None,
        by: None,
        why: text("bill"),
        store: None,
    };
    assert_eq!(cells(&undated, "this machine"), ["key alice", "", "", "bill", "this machine"]);
    assert_eq!(cells(&undated, "HOST:8485")[4], "HOST:8485");
    let dated =
        KillRecord { at: text("2026-11-25T12:00:00Z"), store: text("redis://R"), ..undated };
    let listed = cells(&dated, "HOST:8485");
    assert_eq!((listed[1].as_str(), listed[4].as_str()), ("2026-11-25 12:00:00 UTC", "redis://R"));
}
