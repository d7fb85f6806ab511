//! Tests of `kill_list`.

use super::*;

#[test]
fn who_killed_and_why_are_read_back_from_the_text_of_a_kill() {
    let me = who();
    for why in ["bill", "killed by mistake", "two (2) runs (killed by bob)"] {
        assert_eq!(by_and_why(&why_by(Some(why))), (Some(&*me), Some(why)));
    }
    for none in [None, Some("")] {
        assert_eq!(by_and_why(&why_by(none)), (Some(&*me), None));
    }
    // Of another program.
    assert_eq!(by_and_why("too dear"), (None, Some("too dear")));
    assert_eq!(by_and_why(""), (None, None));
}

#[test]
fn a_kill_without_a_time_is_listed_without_one() {
    let target = KillTarget::Key("alice".to_owned());
    let kill = StoreKill { target, why: "bill".to_owned() };
    let listed = |at| ListedKill { kill: PastKill { kill: kill.clone(), at }, store: None };
    assert_eq!(listed(None).cells(), ["key alice", "", "", "bill", "this machine"]);
    let dated = listed(Some(WallTime(1_795_608_000_000)));
    assert_eq!(dated.cells()[1], "2026-11-25 12:00:00 UTC");
    assert_eq!(dated.to_json()["at"], "2026-11-25T12:00:00Z");
}
