//! The store in Redis with the clock of the server: many threads, a server that is killed or away, and kills over processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use endstop_core::units::Money;
use endstop_runtime::account::{
    BudgetStore, BudgetStoreError, KillTarget, RedisBudgetStore, StoreKill,
};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::store::RunId;

use super::server::RedisServer;
use super::stores::*;

fn open(server: &RedisServer) -> RedisBudgetStore {
    RedisBudgetStore::open(&server.url()).unwrap()
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills until the processes that should confirm it have, and returns how long the last kill took. On a slow machine one can be
/// late by more than its lease, and then counts as silent; it confirms a repetition.
fn kill_is_told(by: &RedisBudgetStore, kill: &StoreKill, expected: (u64, u64)) -> Duration {
    for _ in 0..5 {
        let begun = Instant::now();
        let receipt = by.kill(kill).unwrap();
        assert_eq!(receipt.confirmed + receipt.silent, expected.0 + expected.1, "{receipt:?}");
        assert!(receipt.silent >= expected.1, "{receipt:?}");
        if receipt.confirmed == expected.0 {
            return begun.elapsed();
        }
    }
    panic!("five kills, and a process has confirmed none")
}

fn is_away(result: &Result<(), BudgetStoreError>) -> bool {
    matches!(result, Err(BudgetStoreError::Away { .. }))
}

#[test]
fn a_burst_of_a_hundred_threads_spends_no_more_than_the_limit() {
    let Some(server) = RedisServer::start() else { return };
    let stores: Vec<_> = (0..8).map(|_| open(&server)).collect();
    let me = account("me", &["$1 per day", "$1 per rolling 5h"]);
    let (spent, refusals) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..100 {
            let (store, me, spent, refusals) = (&stores[number % 8], &me, &spent, &refusals);
            scope.spawn(move || {
                for call in 0..3 {
                    let id = format!("{number}-{call}");
                    match store.reserve(&[me], cents(3), &terms(&id)) {
                        Ok(()) => {
                            store.settle(&id, cents(2)).unwrap();
                            spent.fetch_add(2, Ordering::SeqCst);
                        }
                        error => {
                            refused(error);
                            refusals.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    let spent = spent.into_inner();
    assert_eq!(committed(&stores[0], &me), (spent, 0));
    assert!(spent <= 100 && spent > 90 && refusals.into_inner() > 0, "{spent}");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let Some(mut server) = RedisServer::start() else { return };
    let stores = [open(&server), open(&server)];
    let me = account("me", &["$1000 per month"]);
    let (settled, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let unsure = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (store, me, settled, ends) = (&stores[worker % 2], &me, &settled, &ends);
                scope.spawn(move || {
                    // Calls that may or may not have reached the server.
                    let mut unsure = Vec::new();
                    for call in 0.. {
                        if ends.load(Ordering::SeqCst) {
                            break;
                        }
                        let id = format!("{worker}-{call}");
                        let done = store.reserve(&[me], cents(3), &terms(&id));
                        if done.and_then(|()| store.settle(&id, cents(2))).is_ok() {
                            settled.fetch_add(1, Ordering::SeqCst);
                        } else {
                            unsure.push(id);
                            thread::sleep(Duration::from_millis(20));
                        }
                    }
                    unsure
                })
            })
            .collect();
        for round in 1..4 {
            until("calls", || settled.load(Ordering::SeqCst) > round * 40);
            server.kill();
            server.restart();
        }
        until("calls after the last restart", || settled.load(Ordering::SeqCst) > 200);
        ends.store(true, Ordering::SeqCst);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    // A settlement counts once, whether it had arrived or not.
    let mut late = 0;
    for id in &unsure {
        match stores[0].settle(id, cents(2)) {
            Ok(()) => late += 1,
            Err(BudgetStoreError::UnknownHold(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(committed(&stores[0], &me), (2 * (settled.into_inner() + late), 0));
}

#[test]
fn a_line_of_the_spool_that_is_no_settlement_stops_no_start() {
    let Some(mut server) = RedisServer::start() else { return };
    let spool = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let store = open(&server).with_spool(&spool).unwrap();
    assert!(store.unread().is_none());
    let me = account("me", &["$1 per day"]);
    store.reserve(&[&me], cents(20), &terms("a")).unwrap();
    server.kill();
    until("away", || is_away(&store.reserve(&[&me], cents(1), &terms("b"))));
    store.settle("a", cents(5)).unwrap();
    drop(store);
    let files = std::fs::read_dir(&spool).unwrap().map(|file| file.unwrap().path());
    let waiting: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|it| it == "jsonl")).collect();
    let line = std::fs::read_to_string(&waiting[0]).unwrap();
    std::fs::write(&waiting[0], format!("damaged\n{line}")).unwrap();
    server.restart();
    let later = open(&server).with_spool(&spool).unwrap();
    let said = later.unread().unwrap().to_string();
    assert!(said.contains("line 1 ") && said.contains(".jsonl"), "{said}");
    assert_eq!(committed(&later, &me), (5, 0), "the others are sent");
    assert_eq!(std::fs::read_to_string(&waiting[0]).unwrap(), "damaged\n");
    drop(later);
    std::fs::remove_dir_all(&spool).unwrap();
}

#[test]
fn a_store_that_is_away_admits_nothing_and_gets_its_settlements_later() {
    let Some(mut server) = RedisServer::start() else { return };
    let spool = std::env::temp_dir().join(format!("endstop-spool-{}", RunId::new()));
    let store = open(&server).with_spool(&spool).unwrap();
    let me = account("me", &["$1 per day"]);
    for id in ["a", "b", "unknown"] {
        store.reserve(&[&me], cents(20), &terms(id)).unwrap();
    }
    server.kill();
    let refused = store.reserve(&[&me], cents(1), &terms("c"));
    assert!(is_away(&refused), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("no call begins until it is back"), "{text}");
    assert!(store.read(&[&me]).is_err());
    // No call waits for a server that is known to be away.
    let begun = Instant::now();
    for _ in 0..1_000 {
        assert!(is_away(&store.reserve(&[&me], cents(1), &terms("c"))));
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    until("the lease ends", || store.admit().is_err());
    store.settle("a", cents(5)).unwrap();
    store.settle("b", cents(6)).unwrap();
    store.settle("never-reserved", cents(6)).unwrap();
    let files: Vec<_> =
        std::fs::read_dir(&spool).unwrap().map(|file| file.unwrap().path()).collect();
    #[cfg(unix)]
    for file in &files {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The process dies; a later one sends what it left.
    drop(store);
    server.restart();
    let later = open(&server).with_spool(&spool).unwrap();
    assert_eq!(committed(&later, &me), (11, 20));
    later.settle("unknown", cents(7)).unwrap();
    assert_eq!(committed(&later, &me), (18, 0));
    // A process that continues finds out that the server is back.
    server.kill();
    until("away", || is_away(&later.reserve(&[&me], cents(1), &terms("d"))));
    later.settle("unknown", cents(7)).unwrap();
    server.restart();
    until("back", || later.reserve(&[&me], cents(1), &terms("d")).is_ok());
    let waiting = files.iter().find(|file| file.extension().is_some_and(|it| it == "jsonl"));
    until("sent", || std::fs::metadata(waiting.unwrap()).unwrap().len() == 0);
    assert!(later.admit().is_ok());
    drop(later);
    std::fs::remove_dir_all(&spool).unwrap();
}

#[test]
fn a_server_that_hangs_is_waited_for_once() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    let me = account("me", &["$1 per day"]);
    store.reserve(&[&me], cents(1), &terms("a")).unwrap();
    server.hang(Duration::from_secs(8));
    let begun = Instant::now();
    for _ in 0..100 {
        assert!(is_away(&store.reserve(&[&me], cents(1), &terms("b"))));
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    until("back", || store.reserve(&[&me], cents(1), &terms("b")).is_ok());
    assert_eq!(committed(&store, &me), (0, 2));
}

#[test]
fn functions_that_the_server_lost_are_loaded_again() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    let me = account("me", &["$1 per day"]);
    store.reserve(&[&me], cents(1), &terms("a")).unwrap();
    server.send(&["FUNCTION FLUSH SYNC"]);
    store.reserve(&[&me], cents(1), &terms("b")).unwrap();
    assert_eq!(committed(&store, &me), (0, 2));
}

#[test]
fn money_below_a_nano_dollar_is_rounded_up() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    let picos = |picos| Amounts { cost: Money::from_picos(picos), ..Amounts::ZERO };
    let me = account("me", &["$0.000000002"]);
    store.reserve(&[&me], picos(1), &terms("a")).unwrap();
    assert_eq!(first(&store, &me).held, 1_000);
    let refusal = refused(store.reserve(&[&me], picos(1_001), &terms("b")));
    assert_eq!((refusal.left(), refusal.asked), (1_000, 2_000));
    store.settle("a", picos(1)).unwrap();
    assert_eq!((first(&store, &me).settled, first(&store, &me).held), (1_000, 0));
}

#[test]
fn a_kill_holds_in_every_process_once_it_is_acknowledged() {
    let Some(server) = RedisServer::start() else { return };
    let me = account("me", &["$100 per day"]);
    let stores: Vec<_> = (0..4).map(|_| open(&server)).collect();
    assert!(stores[0].kills().unwrap().is_empty());
    // Each applies kills to what it knows: here a flag for the budget.
    let flags: Vec<_> = (0..4).map(|_| Arc::new(AtomicBool::new(false))).collect();
    for (store, flag) in stores.iter().zip(&flags) {
        let flag = Arc::clone(flag);
        store.on_kill(move |kill| {
            if kill.target == KillTarget::Budget("me".to_owned()) {
                flag.store(true, Ordering::SeqCst);
            }
        });
        store.admit().unwrap();
    }
    let by = open(&server);
    let target = KillTarget::Budget("me".to_owned());
    let receipt = by.kill(&StoreKill { target, why: "test".to_owned() }).unwrap();
    assert_eq!((receipt.confirmed, receipt.silent), (4, 0));
    assert!(flags.iter().all(|flag| flag.load(Ordering::SeqCst)));
    // It was for a budget: others are admitted, by the store and without it.
    for (number, store) in stores.iter().enumerate() {
        store.reserve(&[&me], cents(1), &terms(&format!("a{number}"))).unwrap();
        store.admit().unwrap();
    }
    // Of everything: no process admits anything, whether it reserves or not.
    let all = StoreKill { target: KillTarget::All, why: "test of all".to_owned() };
    let receipt = by.kill(&all).unwrap();
    assert_eq!((receipt.confirmed, receipt.silent), (4, 0));
    for store in &stores {
        let admitted = [store.admit(), store.reserve(&[&me], cents(1), &terms("b"))];
        for refused in admitted {
            assert!(matches!(refused, Err(BudgetStoreError::Killed(_))), "{refused:?}");
        }
    }
    // Both are listed for people, with their times.
    let listed = by.kills().unwrap();
    let kills: Vec<_> = listed.iter().map(|past| (&past.kill.target, &*past.kill.why)).collect();
    let of_me = KillTarget::Budget("me".to_owned());
    assert_eq!(kills, [(&of_me, "test"), (&KillTarget::All, "test of all")]);
    assert!(listed.iter().all(|past| past.at.is_some()), "{listed:?}");
    // Holds can be settled, and a process that starts later is not concerned.
    stores[0].settle("a0", cents(1)).unwrap();
    open(&server).admit().unwrap();
    open(&server).reserve(&[&me], cents(1), &terms("c")).unwrap();
}

#[test]
fn a_kill_does_not_wait_for_a_process_that_has_left() {
    let Some(server) = RedisServer::start() else { return };
    let (by, me) = (open(&server), account("me", &["$100 per day"]));
    let stores = [open(&server), open(&server), open(&server)];
    // The function is dropped with the store, even if it has a handle of it.
    for store in &stores {
        let handle = store.clone();
        store.on_kill(move |_| drop(handle.read(&[])));
        store.reserve(&[&me], cents(1), &terms(&format!("{store:p}"))).unwrap();
    }
    let [left, dropped, there] = stores;
    left.leave();
    dropped.leave();
    drop(dropped);
    assert!(matches!(left.admit(), Err(BudgetStoreError::Killed(_))));
    assert!(matches!(
        left.reserve(&[&me], cents(1), &terms("a")),
        Err(BudgetStoreError::Killed(_))
    ));
    let kill = StoreKill { target: KillTarget::Run("r".to_owned()), why: "test".to_owned() };
    kill_is_told(&by, &kill, (1, 0));
    until("admitted", || there.admit().is_ok());
}

#[test]
fn a_reservation_learns_of_a_kill_before_the_next_look() {
    let Some(server) = RedisServer::start() else { return };
    let me = account("me", &["$100 per day"]);
    let store = open(&server);
    store.reserve(&[&me], cents(1), &terms("a")).unwrap();
    let kill = r#""{\"target\":\"all\",\"why\":\"now\"}""#;
    server.send(&[
        &format!("RPUSH {{endstop:default}}:kills {kill}"),
        "HINCRBY {endstop:default}:meta epoch 1",
    ]);
    let refused = store.reserve(&[&me], cents(1), &terms("b"));
    assert_eq!(refused.unwrap_err().to_string(), "killed: now");
    // A kill that cannot be read counts as one of all.
    let store = open(&server);
    store.admit().unwrap();
    server.send(&["HINCRBY {endstop:default}:meta epoch 1"]);
    until("learned", || matches!(store.admit(), Err(BudgetStoreError::Killed(_))));
}

#[test]
fn a_process_confirms_a_kill_that_its_reservation_learned_of() {
    let Some(server) = RedisServer::start() else { return };
    let (by, store, me) = (open(&server), open(&server), account("me", &["$100 per day"]));
    store.reserve(&[&me], cents(1), &terms("first")).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let kill = StoreKill { target: KillTarget::Run("r".to_owned()), why: "test".to_owned() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Reservations come so often that they learn of every kill before the store's thread looks.
            for number in 0.. {
                if is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
                store.reserve(&[&me], cents(1), &terms(&format!("{number}"))).unwrap();
                store.settle(&format!("{number}"), cents(0)).unwrap();
            }
        });
        let told = scope.spawn(|| kill_is_told(&by, &kill, (1, 0))).join();
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        told.unwrap();
    });
}

#[test]
fn a_process_that_is_cut_off_admits_nothing_once_a_kill_is_acknowledged() {
    let Some(server) = RedisServer::start() else { return };
    // Entered by hand: a process that has died, or cannot reach the server.
    let store = open(&server);
    store.admit().unwrap();
    let entries = server.send(&["HKEYS {endstop:default}:gateways"]);
    assert!(entries.starts_with("*1"), "{entries}");
    server.send(&[
        r#"HSET {endstop:default}:gateways dead "\x92\x00\xcf\x00\x1f\xff\xff\xff\xff\xff\xff""#,
    ]);
    let kill = StoreKill { target: KillTarget::Run("r".to_owned()), why: "test".to_owned() };
    let took = kill_is_told(&store, &kill, (1, 1));
    assert!(took >= Duration::from_secs(3), "its lease has to be over");
}
