//! Holds that are never settled. A file of its own because the holds that are extended are private.

use super::*;
use crate::account::MemoryBudgetStore;

#[test]
fn a_hold_that_is_dropped_is_not_extended() {
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &["me"], "test").unwrap();
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let reserve = || accounts.reserve("", "", step, step).unwrap().unwrap();
    let (dropped, settled) = (reserve(), reserve());
    assert_eq!(accounts.shared.open().holds.len(), 2);
    drop(dropped);
    assert_eq!(accounts.shared.open().holds.len(), 1);
    settled.settle(step);
    assert!(accounts.shared.open().holds.is_empty());
    let limit = accounts.read().unwrap().remove(0).limits.remove(0);
    assert_eq!((limit.settled, limit.held), (1, 1), "it expires and is charged");
}
