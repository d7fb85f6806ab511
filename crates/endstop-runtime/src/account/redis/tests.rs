//! Amounts in the unit of the library, and the spool.

use std::cell::RefCell;
use std::collections::BTreeSet;

use endstop_core::units::{Money, WallTime};
use redis::Value;

use super::spool::{Settlement, Spool};
use super::wire::{Reply, counted_limit, from_nanos, nanos};
use crate::golden_file::golden;
use crate::ledger::{Amounts, Dimension};
use crate::store::RunId;
use crate::store::disk::fault;

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
fn a_number_that_an_answer_lacks_is_an_error_and_not_zero() {
    let reply = |rest: Vec<Value>| {
        let mut all = vec![Value::SimpleString("OK".to_owned())];
        all.extend(rest);
        Reply::read(Value::Array(all), "read the budgets", "redis://127.0.0.1").unwrap()
    };
    let all = reply(vec![Value::Int(7), Value::Int(-1)]);
    assert_eq!(all.number(0).unwrap(), 7);
    assert_eq!(all.time(0).unwrap(), Some(WallTime(7)));
    assert_eq!(all.time(1).unwrap(), None);
    for value in [None, Some(Value::Int(-1)), Some(Value::Nil), Some(Value::Okay)] {
        let error = reply(value.into_iter().collect()).number(0).unwrap_err().to_string();
        assert!(error.contains("its answer `OK` has no number at place 0"), "{error}");
    }
    assert!(reply(Vec::new()).time(0).is_err());
    for value in [Value::Nil, Value::Array(Vec::new()), Value::Array(vec![Value::Int(1)])] {
        let error = Reply::read(value, "read the budgets", "redis://127.0.0.1").unwrap_err();
        assert!(error.to_string().contains("its answer cannot be read"), "{error}");
    }
}

#[test]
fn a_spool_keeps_what_was_not_taken() {
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    let one = |id: &str| Settlement::new(id, &Amounts { tokens: 7, ..Amounts::ZERO });
    assert!(spool.is_empty());
    assert_eq!(spool.send(|_| true).unwrap().taken, 0);
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
    assert_eq!(taken.unwrap().taken, 1);
    let sent = std::sync::Mutex::new(Vec::new());
    let take = |settlement: &Settlement| {
        assert_eq!(settlement.actual().tokens, 7);
        sent.lock().unwrap().push(settlement.id().to_owned());
        true
    };
    assert_eq!(spool.send(take).unwrap().taken, 3);
    assert_eq!(sent.into_inner().unwrap(), ["b", "c", "d"]);
    assert!(spool.is_empty());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn settlements_of_version_1_are_written_and_read() {
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    let cost = Money::from_picos(16_200_000);
    let call = Amounts { steps: 1, tokens: 60, cost, ..Amounts::ZERO };
    let settlements = [Settlement::new("a-1", &call), Settlement::new("a-2", &Amounts::ZERO)];
    for settlement in &settlements {
        spool.add(settlement).unwrap();
    }
    let written = std::fs::read_to_string(spool.path()).unwrap();
    let stored = golden("spool-v1.jsonl", &written, &[]);

    std::fs::write(spool.path(), stored + "\n").unwrap();
    let read = RefCell::new(Vec::new());
    let take = |settlement: &Settlement| {
        read.borrow_mut().push(settlement.clone());
        true
    };
    let sent = spool.send(take).unwrap();
    assert!(sent.unread.is_none(), "{sent:?}");
    assert_eq!(read.into_inner(), settlements);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_line_that_cannot_be_read_stays_in_the_spool_and_is_said() {
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    let add = |id: &str| spool.add(&Settlement::new(id, &Amounts::ZERO)).unwrap();
    let text = || std::fs::read_to_string(spool.path()).unwrap();
    let append = |more: &str| std::fs::write(spool.path(), text() + more).unwrap();
    add("a");
    let later = "{\"version\":2,\"id\":\"b\",\"cents\":7}\n";
    append(later);
    add("c");
    let older = "{\"id\":\"d\",\"steps\":1,\"tokens\":1,\"picos\":1}\n";
    append(older);
    let sent = spool.send(|_| true).unwrap();
    let said = sent.unread.unwrap().to_string();
    assert_eq!(sent.taken, 2);
    let wanted =
        "line 2 is no settlement and stays in the file: it has version 2, and this program knows 1";
    assert!(said.starts_with(wanted), "{said}");
    assert_eq!(text(), format!("{later}{older}"));
    // Nothing is lost or sent again, and later ones pass.
    add("e");
    let sent = spool.send(|settlement| settlement.id() == "e").unwrap();
    assert_eq!((sent.taken, sent.unread.is_some()), (1, true));
    assert_eq!(text(), format!("{later}{older}"));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_spool_keeps_what_was_added_whatever_call_fails() {
    let one = |id: &str| Settlement::new(id, &Amounts { tokens: 7, ..Amounts::ZERO });
    // A call that fails, and a crash there.
    for for_ever in [false, true] {
        for calls in 0.. {
            let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
            let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
            let (mut added, taken) = (Vec::new(), RefCell::new(BTreeSet::new()));
            let take = |settlement: &Settlement| {
                taken.borrow_mut().insert(settlement.id().to_owned());
                true
            };
            let has_failed = fault::after(calls, for_ever, || {
                let mut add = |id: &str| {
                    if spool.add(&one(id)).is_ok() {
                        added.push(id.to_owned());
                    }
                };
                ["a", "b", "c"].into_iter().for_each(&mut add);
                // The store is away again after the first.
                let _ = spool.send(|settlement| settlement.id() == "a" && take(settlement));
                add("d");
                let _ = spool.send(|settlement| settlement.id() != "d" && take(settlement));
                add("e");
            });
            // The next process.
            let later = Spool::open(&directory, "redis://127.0.0.1").unwrap();
            later.add(&one("f")).unwrap();
            later.send(take).unwrap();
            assert!(later.is_empty());
            added.push("f".to_owned());
            let taken = taken.borrow();
            let lost: Vec<_> = added.iter().filter(|id| !taken.contains(*id)).collect();
            assert!(lost.is_empty(), "{lost:?} after {calls} calls (crash: {for_ever})");
            std::fs::remove_dir_all(&directory).unwrap();
            if !has_failed {
                assert!(calls > 20, "{calls}");
                break;
            }
        }
    }
}

#[test]
fn a_line_that_a_crash_or_a_full_disk_cut_takes_no_other_with_it() {
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    spool.add(&Settlement::new("a", &Amounts::ZERO)).unwrap();
    let file = spool.path();
    let mut text = std::fs::read_to_string(file).unwrap();
    text.push_str(r#"{"version":1,"id":"cut","ste"#);
    std::fs::write(file, text).unwrap();
    spool.add(&Settlement::new("b", &Amounts::ZERO)).unwrap();
    let sent = RefCell::new(Vec::new());
    let taken = spool.send(|settlement| {
        sent.borrow_mut().push(settlement.id().to_owned());
        true
    });
    let taken = taken.unwrap();
    assert_eq!((taken.taken, taken.unread.is_none()), (2, true));
    assert_eq!(sent.into_inner(), ["a", "b"]);
    assert!(spool.is_empty());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_spool_that_is_too_large_is_not_read_to_its_end() {
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    let file = std::fs::File::create(spool.path()).unwrap();
    file.set_len(64 << 20).unwrap();
    let error = spool.send(|_| true).unwrap_err().to_string();
    assert!(error.contains("the spool has more than"), "{error}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_settlement_that_an_earlier_version_added_is_sent() {
    // The form of the first version: files of it can wait for weeks.
    const LINE: &str =
        "{\"version\":1,\"id\":\"a\",\"steps\":1,\"tokens\":7,\"picos\":30000000000}\n";
    let directory = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let spool = Spool::open(&directory, "redis://127.0.0.1").unwrap();
    spool.add(&Settlement::new("first", &Amounts::ZERO)).unwrap();
    let file = spool.path();
    std::fs::write(file, LINE).unwrap();
    let cost = Money::from_picos(30_000_000_000);
    let actual = Amounts { steps: 1, tokens: 7, cost, ..Amounts::ZERO };
    let taken = spool.send(|settlement| {
        assert_eq!((settlement.id(), settlement.actual()), ("a", actual));
        true
    });
    assert_eq!(taken.unwrap().taken, 1);
    spool.add(&Settlement::new("a", &actual)).unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), LINE);
    std::fs::remove_dir_all(&directory).unwrap();
}
