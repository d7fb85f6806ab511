//! Tests of `budgets`.

use endstop::account::{HoldTerms, MemoryBudgetStore, StorePersistence};
use endstop::core::units::Money;
use endstop::ledger::Amounts;

use super::durability::at_risk;
use super::*;

#[test]
fn a_full_disk_is_named() {
    let failed = |why: &str| {
        let (doing, path) = ("settle a hold", PathBuf::from("budgets.sqlite"));
        store_error(&BudgetStoreError::Failed { doing, path, why: why.to_owned() })
    };
    for why in ["disk I/O error", "database or disk is full"] {
        let hint = failed(why).hint.unwrap();
        assert_eq!(hint, "the disk of `budgets.sqlite` may be full", "{why}");
    }
    assert_eq!(failed("database is locked").hint, None);
}

#[test]
fn a_budget_names_its_parent() {
    let mut team = Account::new("team-a", &["$5 per day"]).unwrap();
    assert_eq!(in_words(&team), "team-a ($5.00 per day)");
    team.parent = Some("org".to_owned());
    assert_eq!(in_words(&team), "team-a ($5.00 per day; parent org)");
}

#[test]
fn the_dollars_that_a_server_can_forget_are_named() {
    let dollars = |picos| Amounts { cost: Money::from_picos(picos), ..Amounts::ZERO };
    let limits = ["$5 per day", "$2 per rolling 5h", "1000 steps per day"];
    let (store, me) = (MemoryBudgetStore::new(), Account::new("me", &limits).unwrap());
    for (id, picos) in [("settled", 1_250_000_000_000), ("held", 400_000_000_000)] {
        let terms = HoldTerms { id, owner: "test", ttl: std::time::Duration::from_secs(60) };
        store.reserve(&[&me], dollars(picos), &terms).unwrap();
    }
    store.settle("settled", dollars(1_250_000_000_000)).unwrap();
    let states = store.read(&[&me]).unwrap();
    let again = "Calls that it forgets could be spent twice";
    for (persistence, expected) in [
        (StorePersistence::Nothing, "(now $1.65 is counted): at most $5.00 in one window"),
        (StorePersistence::Evicts, "(now $1.65 is counted): at most $5.00 in one window"),
        (
            StorePersistence::EverySecond,
            "(those of that time, and those in flight, now $0.40): at most $5.00 in one window",
        ),
    ] {
        assert_eq!(at_risk(persistence, &states), format!("{again} {expected}"));
    }
    let steps = Account::new("me", &["1000 steps per day"]).unwrap();
    let states = store.read(&[&steps]).unwrap();
    assert_eq!(at_risk(StorePersistence::Nothing, &states), again);
}
