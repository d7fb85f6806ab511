//! Tests of `kills`.

use super::*;

#[test]
fn who_killed_and_why_are_read_back_from_the_text_of_a_kill() {
    // As `who()` writes it, with parentheses.
    let me = "ann (endstop, process 7)";
    for why in ["bill", "killed by mistake", "two (2) runs (killed by bob)"] {
        assert_eq!(by_and_why(&why_by(Some(why), me)), (Some(me), Some(why)));
    }
    for none in [None, Some("")] {
        assert_eq!(by_and_why(&why_by(none, me)), (Some(me), None));
    }
    // Of another program.
    assert_eq!(by_and_why("too dear"), (None, Some("too dear")));
    assert_eq!(by_and_why(""), (None, None));
}

#[test]
fn a_kill_is_recorded_with_its_time_if_that_is_known() {
    let target = KillTarget::Key("alice".to_owned());
    let kill = StoreKill { target, why: "bill".to_owned() };
    let recorded = |at| record(&PastKill { kill: kill.clone(), at }, Some("redis://HOST"));
    let undated = recorded(None);
    assert_eq!((undated.target.as_str(), undated.name.as_deref()), ("key", Some("alice")));
    assert_eq!((undated.at, undated.by, undated.why.as_deref()), (None, None, Some("bill")));
    assert_eq!(undated.store.as_deref(), Some("redis://HOST"));
    let dated = recorded(Some(WallTime(1_795_608_000_000)));
    assert_eq!(dated.at.as_deref(), Some("2026-11-25T12:00:00Z"));
}

#[test]
fn only_a_store_that_is_away_can_be_asked_again() {
    let away = BudgetStoreError::Away { server: "test".to_owned(), why: "no".to_owned() };
    let failed =
        BudgetStoreError::Failed { doing: "read kills", path: "test".into(), why: "no".to_owned() };
    assert_eq!(refused_by_store(&away).kind, SourceErrorKind::Away);
    assert_eq!(refused_by_store(&failed).kind, SourceErrorKind::Failed);
}
