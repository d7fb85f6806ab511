//! Amounts in the unit of the library, and the spool.

use endstop_core::units::Money;

use super::spool::{Settlement, Spool};
use super::wire::{counted_limit, from_nanos, nanos};
use crate::ledger::{Amounts, Dimension};
use crate::store::RunId;

#[test]
fn amounts_are_rounded_up_and_stay_below_what_a_number_holds() {
    let amounts = |picos| Amounts { cost: Money::from_picos(picos), ..Amounts::ZERO };
    assert_eq!(nanos(&amounts(0))[2], 0);
    assert_eq!(nanos(&amounts(1))[2], 1);
    assert_eq!(nanos(&amounts(1_000))[2], 1);
    assert_eq!(nanos(&amounts(1_001))[2], 2);
    let most = Amounts { tokens: u64::MAX, cost: Money::from_picos(u64::MAX), ..Amounts::ZERO };
    assert!(nanos(&most).iter().all(|count| *count <= 1 << 52));
    assert_eq!(from_nanos(Dimension::Cost, 7), 7_000);
    assert_eq!(from_nanos(Dimension::Tokens, 1 << 52), 1 << 62);
    let limit = "$0.0000000015".parse().unwrap();
    assert_eq!(counted_limit(&limit).amount, 1_000);
}

#[test]
fn a_spool_keeps_what_was_not_taken() {
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    let one = |id: &str| Settlement::new(id, &Amounts { tokens: 7, ..Amounts::ZERO });
    assert!(spool.is_empty());
    assert_eq!(spool.send(|_| true).unwrap(), 0);
    for id in ["a", "b", "c"] {
        spool.add(&one(id)).unwrap();
    }
    // One that is added while they are sent stays.
    let taken = spool.send(|settlement| {
        if settlement.id() == "a" {
            spool.add(&one("d")).unwrap();
        }
        settlement.id() != "b"
    });
    assert_eq!(taken.unwrap(), 1);
    let sent = std::sync::Mutex::new(Vec::new());
    let take = |settlement: &Settlement| {
        assert_eq!(settlement.actual().tokens, 7);
        sent.lock().unwrap().push(settlement.id().to_owned());
        true
    };
    assert_eq!(spool.send(take).unwrap(), 3);
    assert_eq!(sent.into_inner().unwrap(), ["b", "c", "d"]);
    assert!(spool.is_empty());
    std::fs::remove_dir_all(&directory).unwrap();
}
