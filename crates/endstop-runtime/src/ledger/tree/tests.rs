//! Broken invariants of the tree are loud.

use super::*;

#[test]
#[should_panic = "no node in slot 7"]
fn a_node_that_is_missing_is_not_taken_for_one_without_limits() {
    let _ = BudgetTree::default().room(7);
}

#[test]
#[should_panic = "no node in slot 1"]
fn a_parent_that_is_missing_does_not_end_the_walk() {
    let mut tree = BudgetTree::default();
    let (slot, _) = tree.open(1, Limits::unlimited());
    let _ = tree.check::<true>(slot, &[0; DIMENSIONS]);
}
