//! Keys of clients in Redis: changes of many machines at once, and a server that is away or has lost its last moments.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use endstop_core::units::WallTime;
use endstop_runtime::account::{BudgetStoreError, RedisBudgetStore, StoreKeyChange};
use endstop_runtime::clock::{WallClock, system_wall_time};

use super::server::RedisServer;

fn open(server: &RedisServer) -> RedisBudgetStore {
    RedisBudgetStore::open(&server.url()).unwrap()
}

fn change(name: &str, before: Option<&str>, after: &str) -> StoreKeyChange {
    let (name, after) = (name.to_owned(), after.to_owned());
    StoreKeyChange { name, before: before.map(str::to_owned), after }
}

fn texts(store: &RedisBudgetStore) -> Vec<(String, String)> {
    store.keys(None).unwrap().unwrap().keys
}

#[test]
fn of_many_machines_that_issue_keys_at_once_none_loses_one_and_each_name_is_issued_once() {
    let Some(server) = RedisServer::start() else { return };
    let stores: Vec<_> = (0..8).map(|_| open(&server)).collect();
    let issued: Vec<(usize, usize)> = thread::scope(|scope| {
        let machines = stores.iter().enumerate().map(|(machine, store)| {
            scope.spawn(move || {
                let new = |number: usize| {
                    let own = change(&format!("own-{machine}-{number}"), None, "{}");
                    assert!(store.change_keys(&[own]).unwrap());
                    // All machines want this name.
                    let text = format!("{{\"machine\":{machine}}}");
                    store.change_keys(&[change(&format!("one-{number}"), None, &text)]).unwrap()
                };
                (0..25)
                    .filter(|&number| new(number))
                    .map(|number| (machine, number))
                    .collect::<Vec<_>>()
            })
        });
        let machines: Vec<_> = machines.collect();
        machines.into_iter().flat_map(|machine| machine.join().unwrap()).collect()
    });
    let numbers: BTreeSet<usize> = issued.iter().map(|(_, number)| *number).collect();
    assert_eq!((issued.len(), numbers.len()), (25, 25), "{issued:?}");
    let all = texts(&stores[0]);
    assert_eq!(all.len(), 8 * 25 + 25);
    for (machine, number) in issued {
        let expected = (format!("one-{number}"), format!("{{\"machine\":{machine}}}"));
        assert!(all.contains(&expected), "{expected:?}");
    }
}

#[test]
fn a_key_that_has_changed_since_it_was_read_is_not_overwritten_and_a_repetition_counts_once() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (open(&server), open(&server));
    assert!(one.change_keys(&[change("alice", None, "1"), change("bob", None, "1")]).unwrap());
    let revoked = [change("alice", Some("1"), "revoked")];
    assert!(other.change_keys(&revoked).unwrap());
    let version = one.keys(None).unwrap().unwrap().version;
    assert!(other.change_keys(&revoked).unwrap(), "the same request again");
    assert_eq!(one.keys(Some(version)).unwrap(), None, "it changed nothing");
    // All or none.
    let late = [change("alice", Some("1"), "2"), change("bob", Some("1"), "2")];
    assert!(!one.change_keys(&late).unwrap());
    assert!(!one.change_keys(&[change("alice", None, "new")]).unwrap());
    let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(texts(&one), [pair("alice", "revoked"), pair("bob", "1")]);
    assert!(one.change_keys(&[]).unwrap());
}

#[test]
fn each_change_has_a_later_version_and_another_namespace_has_other_keys() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    let mut known = store.keys(None).unwrap().unwrap();
    assert_eq!((known.version, known.keys.len()), (0, 0));
    for number in 0..20 {
        assert!(store.change_keys(&[change(&number.to_string(), None, "{}")]).unwrap());
        let now = store.keys(Some(known.version)).unwrap().unwrap();
        assert!(now.version > known.version);
        known = now;
        assert_eq!(store.keys(Some(known.version)).unwrap(), None);
    }
    // A server that has lost the last change, and takes another one. By then its time is beyond the versions of a burst.
    thread::sleep(Duration::from_millis(50));
    server.send(&[
        "HDEL {endstop:default}:keys 19",
        &format!("HSET {{endstop:default}}:meta keys {}", known.version - 1),
    ]);
    assert!(store.change_keys(&[change("other", None, "{}")]).unwrap());
    assert!(store.keys(Some(known.version)).unwrap().is_some());
    let url = format!("{}/0?namespace=other", server.url());
    assert!(texts(&RedisBudgetStore::open(&url).unwrap()).is_empty());
}

#[test]
fn a_key_that_is_no_text_is_told_by_its_name_and_shifts_no_other() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    assert!(store.keys(None).unwrap().unwrap().is_empty());
    for name in ["a", "c", "e"] {
        assert!(store.change_keys(&[change(name, None, &format!("of {name}"))]).unwrap());
    }
    let before = store.keys(None).unwrap().unwrap();
    server.send(&[
        "HSET {endstop:default}:keys b \"\\xff\\xfe\" \"d\\xff\" text",
        "HINCRBY {endstop:default}:meta keys 1",
    ]);
    let all = store.keys(Some(before.version)).unwrap().unwrap();
    assert_eq!(all.keys, before.keys);
    assert_eq!(all.unread, ["b", "d\u{fffd}"]);
    server.send(&["HDEL {endstop:default}:keys a c e", "HINCRBY {endstop:default}:meta keys 1"]);
    let all = store.keys(None).unwrap().unwrap();
    assert!(all.keys.is_empty() && !all.is_empty());
}

#[test]
fn the_time_of_the_store_is_known_after_each_look_at_its_keys() {
    let Some(server) = RedisServer::start() else { return };
    const HOUR: u64 = 3_600_000;
    let clock: WallClock = Arc::new(|| WallTime(system_wall_time().0 + HOUR));
    let ahead = RedisBudgetStore::open_with_clock(&server.url(), clock).unwrap();
    assert!(ahead.change_keys(&[change("alice", None, "{}")]).unwrap());
    let store = open(&server);
    let version = store.keys(None).unwrap().unwrap().version;
    // Its time never runs backwards.
    assert!(store.time().0 > system_wall_time().0 + HOUR / 2);
    assert_eq!(store.keys(Some(version)).unwrap(), None);
    assert!(store.time().0 > system_wall_time().0 + HOUR / 2);
}

#[test]
fn without_the_server_nothing_is_known_of_any_key() {
    let Some(mut server) = RedisServer::start() else { return };
    let store = open(&server);
    assert!(store.change_keys(&[change("alice", None, "{}")]).unwrap());
    let known = store.keys(None).unwrap().unwrap().version;
    server.kill();
    let is_away = |error: &BudgetStoreError| matches!(error, BudgetStoreError::Away { .. });
    assert!(is_away(&store.keys(Some(known)).unwrap_err()));
    assert!(is_away(&store.change_keys(&[change("bob", None, "{}")]).unwrap_err()));
}
