//! Tests of `recent`.

use super::*;

#[test]
fn the_last_ids_are_remembered_and_the_first_let_go() {
    let mut recent = Recent::default();
    let many = 5 * REMEMBERED_IDS as u64;
    for id in 0..many {
        assert!(recent.insert(id));
        assert!(!recent.insert(id));
        assert!(!recent.insert(id.saturating_sub(REMEMBERED_IDS as u64 - 1)));
    }
    assert!(recent.new.len() + recent.old.len() <= 2 * REMEMBERED_IDS);
    assert!(recent.insert(0));
}
