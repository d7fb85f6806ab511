//! Broken invariants of the tree are loud.

use endstop_core::units::Money;

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

#[test]
fn usage_is_limited_where_there_is_a_room_of_tokens_or_money() {
    let steps = Limits { steps: Some(1), ..Limits::unlimited() };
    let tokens = Limits { tokens: Some(0), ..Limits::unlimited() };
    let cost = Limits { cost: Some(Money::ZERO), ..Limits::unlimited() };
    for (above, own, is_limited) in [
        (steps, Limits::unlimited(), false),
        (steps, tokens, true),
        (tokens, steps, true),
        (cost, Limits::unlimited(), true),
    ] {
        let root = crate::ledger::Budget::root(above);
        let budget = root.child(own);
        let room = budget.room();
        assert_eq!(room.tokens.is_some() || room.cost.is_some(), is_limited);
        assert_eq!(budget.limits_usage(), is_limited);
    }
}
