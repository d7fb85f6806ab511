//! Redis over a connection that is closed before the answer of any request, and a network that delivers a request late: each
//! operation counts once, and no kill, key or line of a run is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use endstop_runtime::account::{
    Adjustment, BudgetStore, BudgetStoreError, KillTarget, RedisBudgetStore, StoreKeyChange,
    StoreKill,
};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{AppendError, OpenRun, RunLog, RunLogError};

use super::relay::{Fault, FaultyRelay};
use super::run_logs::{program, step, steps};
use super::server::RedisServer;
use super::stores::*;

const FAULTS: [Fault; 4] = [Fault::Lose, Fault::Late(1), Fault::Late(2), Fault::Late(5)];

/// A fault at one request of some functions, which are counted from 0.
fn at(
    number: usize,
    functions: Vec<&'static str>,
    fault: Fault,
) -> impl FnMut(&str) -> Option<Fault> + Send + 'static {
    let mut seen = 0;
    move |function: &str| {
        let is_counted = functions.contains(&function);
        let is_chosen = is_counted && seen == number;
        seen += usize::from(is_counted);
        is_chosen.then_some(fault)
    }
}

/// Does something with a fault at each request of some functions in turn, in a separate namespace each time. Returns how many
/// requests had one.
fn at_each(
    server: &RedisServer,
    functions: &[&'static str],
    fault: Fault,
    act: impl Fn(&FaultyRelay, &str),
) -> usize {
    let is_without_fault = |number: &usize| {
        let relay = FaultyRelay::start(server.port(), at(*number, functions.to_vec(), fault));
        act(&relay, &relay.url(RunId::new().as_ref()));
        relay.faults() == 0
    };
    (0..).find(is_without_fault).unwrap()
}

fn open(url: &str) -> RedisBudgetStore {
    RedisBudgetStore::open(url).unwrap()
}

#[test]
fn each_operation_on_a_budget_counts_once() {
    let Some(server) = RedisServer::start() else { return };
    let me = account("me", &["$1 per day", "$1 per rolling 5h"]);
    let functions = ["reserve", "grow", "settle", "adjust", "read"];
    for fault in FAULTS {
        let faults = at_each(&server, &functions, fault, |relay, url| {
            let store = open(url);
            store.reserve(&[&me], cents(20), &terms("a")).unwrap();
            store.reserve(&[&me], cents(30), &terms("b")).unwrap();
            // The only one that is not repeated, because it would add twice. The settlement corrects it.
            let grown = store.grow(&[&me], "b", cents(10), TTL);
            assert!(matches!(grown, Ok(()) | Err(BudgetStoreError::Away { .. })), "{grown:?}");
            store.settle("a", cents(5)).unwrap();
            let correction = Adjustment {
                id: "x",
                account: &me,
                parents: &[],
                spent: cents(3),
                returned: Amounts::ZERO,
                who: "ann",
                why: "test",
            };
            store.adjust(&correction).unwrap();
            refused(store.reserve(&[&me], cents(200), &terms("c")));
            store.grow(&[&me], "b", Amounts::ZERO, TTL).unwrap();
            store.settle("b", cents(35)).unwrap();
            store.reserve(&[&me], cents(4), &terms("d")).unwrap();
            store.settle("d", cents(4)).unwrap();
            assert_eq!(committed(&store, &me), (47, 0), "{fault:?}");
            relay.deliver();
            assert_eq!(committed(&store, &me), (47, 0), "{fault:?}");
        });
        assert!(faults >= 8, "{faults} with {fault:?}");
    }
}

#[test]
fn a_kill_is_obeyed_once_it_is_acknowledged() {
    let Some(server) = RedisServer::start() else { return };
    // The requests of the process that kills, and those of one that obeys.
    let requests =
        [(true, "kill"), (true, "obeyed"), (false, "kills"), (false, "obey"), (false, "reserve")];
    let me = account("me", &["$1 per day"]);
    let check = |by_kills: bool, function: &'static str, fault: Fault| {
        let namespace = RunId::new().to_string();
        let relay = FaultyRelay::start(server.port(), at(0, vec![function], fault));
        let direct = format!("{}?namespace={namespace}", server.url());
        let faulty = relay.url(&namespace);
        let (by, process) = if by_kills { (&faulty, &direct) } else { (&direct, &faulty) };
        let (by, process) = (open(by), open(process));
        let is_told = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_told);
        process.on_kill(move |kill| {
            if kill.target == KillTarget::All {
                told.store(true, Ordering::SeqCst);
            }
        });
        process.reserve(&[&me], cents(1), &terms("before")).unwrap();
        let kill = StoreKill { target: KillTarget::All, why: "test".to_owned() };
        let receipt = by.kill(&kill).unwrap();
        let text = format!("{function} {fault:?} {receipt:?}");
        // One that is slow to confirm may be silent, and admits nothing either.
        assert_eq!(receipt.confirmed + receipt.silent, 1, "{text}");
        assert!(process.admit().is_err(), "{text}");
        let refused = process.reserve(&[&me], cents(1), &terms("after"));
        assert!(matches!(refused, Err(BudgetStoreError::Killed(_))), "{text} {refused:?}");
        assert!(is_told.load(Ordering::SeqCst), "{text}");
        relay.deliver();
        let listed = by.kills().unwrap();
        assert!(listed.iter().all(|past| past.kill == kill), "{text} {listed:?}");
        assert_eq!(relay.faults(), 1, "{text}");
    };
    let check = &check;
    thread::scope(|scope| {
        for (by_kills, function) in requests {
            for fault in [Fault::Lose, Fault::Late(1), Fault::Late(2)] {
                scope.spawn(move || check(by_kills, function, fault));
            }
        }
    });
}

#[test]
fn a_key_is_as_the_last_change_left_it() {
    let Some(server) = RedisServer::start() else { return };
    for fault in FAULTS {
        let faults = at_each(&server, &["change_keys", "keys"], fault, |relay, url| {
            let store = open(url);
            let change = |name: &str, before: &str, after: &str| StoreKeyChange {
                name: name.to_owned(),
                before: (!before.is_empty()).then(|| before.to_owned()),
                after: after.to_owned(),
            };
            let done = |changes: &[StoreKeyChange]| store.change_keys(changes).unwrap();
            assert!(done(&[change("alice", "", "1")]));
            assert!(done(&[change("alice", "1", "2"), change("bob", "", "1")]));
            assert!(store.keys(None).unwrap().is_some());
            assert!(done(&[change("alice", "2", "revoked")]));
            assert!(!done(&[change("alice", "2", "3")]), "it is not as it was read");
            assert!(done(&[change("bob", "1", "2")]));
            relay.deliver();
            let keys = store.keys(None).unwrap().unwrap().keys;
            let expected = [("alice", "revoked"), ("bob", "2")]
                .map(|(name, text)| (name.to_owned(), text.to_owned()));
            assert_eq!(keys, expected, "{fault:?}");
        });
        assert!(faults >= 5, "{faults} with {fault:?}");
    }
}

/// Takes a run, and takes it again if it was moved in the meantime: a late request to take it does that.
fn take(log: &dyn RunLog, id: &RunId) -> OpenRun {
    for _ in 0..10 {
        match log.open(id, &program()) {
            Ok(open) => return open,
            Err(RunLogError::Moved) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the run moves each time");
}

/// Appends a step to a run, which is taken first.
fn add_step(log: &dyn RunLog, id: &RunId) {
    for _ in 0..10 {
        let mut open = take(log, id);
        let lines = step(&open, id);
        match open.lines.append(lines.as_bytes()) {
            Ok(()) => {}
            Err(AppendError::Moved) => continue,
            Err(error) => panic!("{error:?}"),
        }
        // If it was moved in the meantime, the next one takes it anyway.
        drop(open.lines.rest());
        return;
    }
    panic!("the run moves each time");
}

#[test]
fn a_run_has_each_of_its_lines_once() {
    let Some(server) = RedisServer::start() else { return };
    for fault in FAULTS {
        let functions = ["take", "append", "lines", "rest"];
        let faults = at_each(&server, &functions, fault, |relay, url| {
            let (log, id) = (open(url).run_log("one"), RunId::new());
            for _ in 0..3 {
                add_step(&log, &id);
            }
            // Two batches in one lease.
            let mut open = take(&log, &id);
            for _ in 0..2 {
                let lines = step(&open, &id);
                match open.lines.append(lines.as_bytes()) {
                    Ok(()) => {}
                    Err(AppendError::Moved) => add_step(&log, &id),
                    Err(error) => panic!("{error:?}"),
                }
            }
            relay.deliver();
            assert_eq!(steps(&take(&log, &id)), 5, "{fault:?}");
        });
        assert!(faults >= 10, "{faults} with {fault:?}");
    }
}
