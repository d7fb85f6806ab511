//! The ledger through its public API: admission, records, and the end of holds.

use std::time::Duration;

use endstop_core::units::Money;
use endstop_runtime::ledger::{
    Amounts, Budget, Dimension, Hold, LeaseError, LeaseTable, Limits, MAX_LEASES, OnDrop,
};
use golden_file::golden;

#[path = "../../../tests/support/golden.rs"]
#[expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod golden_file;

const CENT: u64 = 10_000_000_000;

fn cents(count: u64) -> Amounts {
    Amounts { cost: Money::from_picos(count * CENT), ..Amounts::ZERO }
}

fn cent_limit(count: u64) -> Limits {
    Limits { cost: Some(cents(count).cost), ..Limits::unlimited() }
}

fn steps(count: u64) -> Amounts {
    Amounts { steps: count, ..Amounts::ZERO }
}

fn step_limit(count: u64) -> Limits {
    Limits { steps: Some(count), ..Limits::unlimited() }
}

#[test]
fn a_limit_of_n_admits_exactly_n() {
    for limit in [0, 1, 2, 25] {
        let budget = Budget::root(step_limit(limit));
        let admitted = (0..limit + 3).filter(|_| budget.reserve(steps(1)).is_ok()).count() as u64;
        assert_eq!((admitted, budget.settled()), (limit, steps(limit)));
        assert_eq!(budget.room().steps, Some(0));
    }
}

#[test]
fn zero_admits_nothing_in_any_dimension() {
    for dimension in Dimension::ALL {
        let zero = |d: Dimension| (d == dimension).then_some(0);
        let limits = Limits {
            steps: zero(Dimension::Steps),
            attempts: zero(Dimension::Attempts),
            tool_calls: zero(Dimension::ToolCalls),
            tokens: zero(Dimension::Tokens),
            cost: zero(Dimension::Cost).map(Money::from_picos),
        };
        let one =
            Amounts { steps: 1, attempts: 1, tool_calls: 1, tokens: 1, cost: Money::from_picos(1) };
        let refused = Budget::root(limits).reserve(one).unwrap_err();
        assert_eq!((refused.dimension, refused.limit, refused.asked), (dimension, 0, 1));
    }
}

#[test]
fn unlimited_is_the_default_and_admits_until_it_cannot_be_counted() {
    let budget = Budget::root(Limits::default());
    assert_eq!(Limits::default(), Limits::unlimited());
    budget.reserve(steps(i64::MAX as u64)).unwrap().release();
    let refused = budget.reserve(steps(i64::MAX as u64 + 1)).unwrap_err();
    assert_eq!((refused.limit, refused.asked), (u64::MAX, i64::MAX as u64 + 1));
    assert_eq!(
        refused.to_string(),
        "this budget has no limit, and the call needs more than can be counted"
    );
    assert_eq!(budget.room(), Limits::unlimited());
    assert!(!budget.is_overflowed());
}

#[test]
fn held_counts_like_settled_until_the_hold_ends() {
    let budget = Budget::root(cent_limit(100));
    let hold = budget.reserve(cents(60)).unwrap();
    assert_eq!(
        (budget.held(), budget.settled(), budget.committed()),
        (cents(60), cents(0), cents(60))
    );
    assert_eq!(budget.room().cost, Some(cents(40).cost));
    hold.settle(cents(30));
    let other = budget.reserve(cents(30)).unwrap();
    let refused = budget.reserve(cents(60)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this budget has used $0.60 of $1.00 ($0.30 of it held), and this call could cost $0.60"
    );
    other.release();
    assert_eq!((budget.held(), budget.settled()), (cents(0), cents(30)));
}

#[test]
fn a_refusal_says_counts_plainly() {
    let budget = Budget::root(step_limit(3));
    budget.charge(steps(2));
    let _held = budget.reserve(steps(1)).unwrap();
    let refused = budget.reserve(steps(1)).unwrap_err();
    assert_eq!(refused.to_string(), "this budget has used 3 of 3 steps (1 of it held)");
}

#[test]
fn all_dimensions_and_all_ancestors_or_nothing() {
    let root = Budget::root(cent_limit(100));
    let child = root.child(step_limit(5));
    let grandchild = child.child(Limits { tokens: Some(10), ..Limits::unlimited() });
    for too_much in [
        Amounts { tokens: 11, ..steps(1) },
        Amounts { tokens: 1, ..steps(6) },
        Amounts { tokens: 1, steps: 1, ..cents(101) },
    ] {
        grandchild.reserve(too_much).unwrap_err();
        for budget in [&root, &child, &grandchild] {
            assert_eq!(budget.committed(), Amounts::ZERO);
        }
    }
    let fits = Amounts { tokens: 10, steps: 5, ..cents(100) };
    let hold = grandchild.reserve(fits).unwrap();
    for budget in [&root, &child, &grandchild] {
        assert_eq!(budget.held(), fits);
    }
    hold.settle(steps(1));
    for budget in [&root, &child, &grandchild] {
        assert_eq!((budget.held(), budget.settled()), (Amounts::ZERO, steps(1)));
    }
}

#[test]
fn a_child_cannot_widen() {
    let root = Budget::root(step_limit(2));
    let child = root.child(step_limit(100)).child(Limits::unlimited());
    assert_eq!(child.room(), step_limit(2));
    child.set_limits(step_limit(1_000));
    child.charge(steps(1));
    assert_eq!(child.reserve(steps(2)).unwrap_err().budget, root.id());
    child.reserve(steps(1)).unwrap().release();
}

#[test]
fn the_outermost_node_that_refuses_is_named() {
    let root = Budget::root(step_limit(1));
    let child = root.child(step_limit(1));
    let other = root.child(step_limit(0));
    assert_eq!((root.id(), child.id(), other.id()), (0, 1, 2));
    assert_eq!(other.reserve(steps(1)).unwrap_err().budget, 2);
    assert_eq!(other.reserve(steps(2)).unwrap_err().budget, 0);
    assert_eq!(child.parent().map(|parent| parent.id()), Some(0));
    assert!(root.parent().is_none());
}

#[test]
fn spending_above_the_hold_is_recorded_and_refuses_what_follows() {
    let root = Budget::root(cent_limit(100));
    let child = root.child(Limits::unlimited());
    child.reserve(cents(60)).unwrap().settle(cents(130));
    assert_eq!(
        (root.settled(), root.overshoot(), child.overshoot()),
        (cents(130), cents(30), cents(0))
    );
    assert_eq!(root.room().cost, Some(Money::ZERO));
    assert_eq!(child.reserve(cents(1)).unwrap_err().settled, 130 * CENT);
    child.reserve(steps(1)).expect_err("a budget in debt admits no other dimension either");
}

#[test]
fn debt_is_paid_back_before_there_is_room_again() {
    let budget = Budget::root(cent_limit(100));
    let held = budget.reserve(cents(50)).unwrap();
    budget.reserve(cents(50)).unwrap().settle(cents(80));
    held.release();
    assert_eq!(budget.room().cost, Some(cents(20).cost));
    assert_eq!(budget.overshoot(), Amounts::ZERO);
}

#[test]
fn charging_without_a_hold_never_refuses() {
    let root = Budget::root(step_limit(1));
    root.child(step_limit(0)).charge(steps(7));
    assert_eq!((root.settled(), root.overshoot()), (steps(7), steps(6)));
}

#[test]
fn the_order_of_settlements_and_releases_changes_no_total() {
    let ends: [fn(Hold); 4] =
        [|h| h.settle(steps(5)), |h| h.release(), |h| h.settle(steps(0)), |h| h.settle(steps(2))];
    let mut readings = Vec::new();
    for first in 0..4 {
        for step in [1, 3] {
            let root = Budget::root(step_limit(9));
            let mut holds: Vec<_> = (0..4)
                .map(|_| Some(root.child(step_limit(4)).reserve(steps(2)).unwrap()))
                .collect();
            for i in 0..4 {
                let at = (first + i * step) % 4;
                ends[at](holds[at].take().unwrap());
            }
            readings.push(root.snapshot());
        }
    }
    assert!(readings.iter().all(|reading| *reading == readings[0]));
    assert_eq!((readings[0].settled, readings[0].held), (steps(7), steps(0)));
}

#[test]
fn a_dropped_hold_is_charged_unless_told_otherwise() {
    let budget = Budget::root(step_limit(10));
    drop(budget.reserve(steps(3)).unwrap());
    assert_eq!((budget.settled(), budget.held()), (steps(3), steps(0)));
    drop(budget.reserve(steps(3)).unwrap().on_drop(OnDrop::Release));
    assert_eq!((budget.settled(), budget.held()), (steps(3), steps(0)));
    drop(budget.reserve(steps(3)).unwrap().on_drop(OnDrop::Release).on_drop(OnDrop::Charge));
    assert_eq!(budget.settled(), steps(6));
}

#[test]
fn a_hold_shrinks_and_never_grows() {
    let budget = Budget::root(Limits { tokens: Some(100), ..step_limit(1) });
    let mut hold = budget.reserve(Amounts { tokens: 90, ..steps(1) }).unwrap();
    hold.shrink(Amounts { tokens: 40, ..steps(9) });
    assert_eq!(hold.amounts(), Amounts { tokens: 40, ..steps(1) });
    assert_eq!((budget.held(), budget.room().tokens), (hold.amounts(), Some(60)));
    drop(hold);
    assert_eq!(budget.settled(), Amounts { tokens: 40, ..steps(1) });
}

#[test]
fn limits_are_raised_and_lowered_while_what_is_committed_stays() {
    let root = Budget::root(step_limit(2));
    let child = root.child(Limits::unlimited());
    let hold = child.reserve(steps(2)).unwrap();
    root.set_limits(step_limit(1));
    assert_eq!((root.held(), root.room().steps), (steps(2), Some(0)));
    child.reserve(Amounts::ZERO).expect_err("above its limit a node admits nothing");
    hold.settle(steps(2));
    assert_eq!(root.overshoot(), steps(1));
    root.set_limits(step_limit(4));
    assert_eq!(
        (root.overshoot(), root.limits(), root.room()),
        (steps(0), step_limit(4), step_limit(2))
    );
    root.set_limits(Limits::unlimited());
    child.reserve(steps(1_000)).unwrap().release();
    root.set_limits(step_limit(0));
    assert_eq!((root.settled(), root.overshoot()), (steps(2), steps(2)));
}

#[test]
fn an_amount_that_cannot_be_counted_refuses_everything_from_then_on() {
    let none = Limits { tokens: Some(0), ..Limits::unlimited() };
    for (limits, spent) in [(Limits::unlimited(), u64::MAX), (none, i64::MAX as u64 + 2)] {
        let root = Budget::root(limits);
        let (child, sibling) = (root.child(Limits::unlimited()), root.child(Limits::unlimited()));
        child.reserve(steps(1)).unwrap().settle(Amounts { tokens: spent, ..steps(1) });
        assert!(root.is_overflowed() && sibling.is_overflowed());
        assert_eq!(root.settled().tokens, u64::MAX);
        let refused = sibling.reserve(steps(1)).unwrap_err();
        assert_eq!((refused.dimension, refused.settled), (Dimension::Tokens, u64::MAX));
        assert!(refused.to_string().ends_with("too large to count"), "{refused}");
        assert_eq!(sibling.room().steps, Some(0));
        root.set_limits(Limits::unlimited());
        sibling.reserve(Amounts::ZERO).unwrap_err();
    }
}

#[test]
fn sums_that_overflow_saturate_and_latch() {
    let root = Budget::root(Limits::unlimited());
    let half = i64::MAX as u64;
    root.charge(steps(half));
    root.charge(steps(half));
    assert!(!root.is_overflowed(), "a debt of i64::MAX is exact");
    assert_eq!(root.settled(), steps(2 * half));
    root.charge(steps(half));
    assert!(root.is_overflowed());
    assert_eq!(root.settled(), steps(u64::MAX));
    root.charge(steps(1));
    assert_eq!(root.settled(), steps(u64::MAX));
}

#[test]
fn a_million_short_children_leave_their_spend_and_nothing_else() {
    let root = Budget::root(Limits::unlimited());
    for _ in 0..1_000_000 {
        root.child(Limits::unlimited()).charge(steps(1));
    }
    assert_eq!(root.settled(), steps(1_000_000));
    let next = root.child(step_limit(3));
    assert_eq!((next.id(), next.committed(), next.room()), (1_000_001, steps(0), step_limit(3)));
}

#[test]
fn a_hold_keeps_the_nodes_that_it_holds_at() {
    let root = Budget::root(Limits::unlimited());
    let hold = root.child(step_limit(9)).child(step_limit(8)).reserve(steps(5)).unwrap();
    let others: Vec<_> = (0..4).map(|_| root.child(step_limit(1))).collect();
    assert_eq!(hold.budget().room(), step_limit(3));
    assert_eq!(hold.budget().parent().unwrap().held(), steps(5));
    hold.settle(steps(6));
    assert_eq!(root.settled(), steps(6));
    assert!(others.iter().all(|other| other.committed().is_zero()));
}

#[test]
fn a_chain_of_a_hundred_thousand_children_is_dropped_without_deep_recursion() {
    let mut leaf = Budget::root(Limits::unlimited());
    for _ in 0..100_000 {
        leaf = leaf.child(Limits::unlimited());
    }
    leaf.charge(steps(1));
    drop(leaf);
}

#[test]
fn a_snapshot_is_read_back_as_it_was_written_and_unlimited_is_written_out() {
    let budget = Budget::root(cent_limit(100));
    let _hold = budget.reserve(Amounts { steps: 1, ..cents(40) }).unwrap();
    budget.charge(cents(70));
    let snapshot = budget.snapshot();
    assert_eq!(snapshot.overshoot(), Amounts::ZERO);
    assert_eq!(snapshot.committed(), Amounts { steps: 1, ..cents(110) });
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(
        text,
        r#"{"budget":0,"limits":{"steps":null,"attempts":null,"tool_calls":null,"tokens":null,"cost_picos":1000000000000},"settled":{"steps":0,"attempts":0,"tool_calls":0,"tokens":0,"cost_picos":700000000000},"held":{"steps":1,"attempts":0,"tool_calls":0,"tokens":0,"cost_picos":400000000000}}"#
    );
    assert_eq!(
        serde_json::from_str::<endstop_runtime::ledger::BudgetSnapshot>(&text).unwrap(),
        snapshot
    );
    for bad in [
        r#"{}"#,
        r#"{"steps":1}"#,
        r#"{"steps":-1,"attempts":1,"tool_calls":1,"tokens":1,"cost_picos":1}"#,
    ] {
        serde_json::from_str::<Limits>(bad).unwrap_err();
    }
    for bad in
        [r#"{"cost_picos":-1}"#, r#"{"tokens":1.5}"#, r#"{"tokens":1e309}"#, r#"{"token":1}"#]
    {
        serde_json::from_str::<Amounts>(bad).unwrap_err();
    }
}

#[test]
fn amounts_add_and_subtract_with_checks() {
    let (five, max) = (steps(5), steps(u64::MAX));
    assert_eq!(five.checked_add(&steps(2)), Some(steps(7)));
    assert_eq!((five.checked_add(&max), five.checked_sub(&steps(6))), (None, None));
    assert_eq!(five.checked_sub(&steps(5)), Some(Amounts::ZERO));
    assert_eq!((five.saturating_add(&max), five.saturating_sub(&max)), (max, Amounts::ZERO));
    assert_eq!(cents(3).get(Dimension::Cost), 3 * CENT);
    assert_eq!(
        Dimension::ALL.map(Dimension::name),
        ["steps", "attempts", "tool_calls", "tokens", "cost"]
    );
}

#[test]
fn a_late_hold_says_so_and_goes_on_holding() {
    let budget = Budget::root(step_limit(1));
    let hold = budget.reserve(steps(1)).unwrap();
    assert!(!hold.is_late(Duration::MAX));
    let hold = hold.with_lease(Duration::from_secs(5));
    assert_eq!(hold.lease(), Some(Duration::from_secs(5)));
    assert!(!hold.is_late(Duration::from_millis(4_999)) && hold.is_late(Duration::from_secs(5)));
    assert_eq!(budget.held(), steps(1));
}

#[test]
fn a_lease_that_nobody_closed_is_charged_in_full_and_once() {
    let budget = Budget::root(step_limit(10));
    let mut table = LeaseTable::new();
    table.open(7, steps(2), Duration::from_secs(10)).unwrap();
    table.open(3, steps(1), Duration::from_secs(5)).unwrap();
    table.open(9, steps(4), Duration::MAX).unwrap();
    assert_eq!(table.open(3, steps(9), Duration::ZERO), Err(LeaseError::AlreadyOpen(3)));
    let stored = serde_json::to_string(&table).unwrap();
    let mut table: LeaseTable = serde_json::from_str(&stored).unwrap();

    assert_eq!(table.expire(Duration::from_millis(4_999), &budget), []);
    let expired = table.expire(Duration::from_secs(5), &budget);
    assert_eq!(
        expired.iter().map(|lease| (lease.id, lease.amounts)).collect::<Vec<_>>(),
        [(3, steps(1))]
    );
    assert_eq!((table.close(3), table.close(7)), (None, Some(steps(2))));
    assert_eq!(table.abandon(&budget).len(), 1);
    assert_eq!(
        (table.abandon(&budget).len(), table.is_empty(), budget.settled()),
        (0, true, steps(5))
    );
}

#[test]
fn a_table_of_leases_is_bounded_and_knows_its_version() {
    let mut table = LeaseTable::new();
    for id in 0..MAX_LEASES as u64 {
        table.open(id, steps(1), Duration::ZERO).unwrap();
    }
    assert_eq!(table.open(u64::MAX, steps(1), Duration::ZERO), Err(LeaseError::TooMany));
    assert_eq!(table.len(), MAX_LEASES);
    let mut table = LeaseTable::new();
    table.open(7, Amounts { tokens: 900, ..cents(3) }, Duration::from_secs(60)).unwrap();
    let stored = golden("leases-v1.json", &serde_json::to_string(&table).unwrap(), &[]);
    assert_eq!(serde_json::from_str::<LeaseTable>(&stored).unwrap(), table);
    let later = serde_json::from_str::<LeaseTable>(r#"{"version":2,"leases":{}}"#).unwrap_err();
    assert!(later.to_string().contains("version 2"), "{later}");
}
