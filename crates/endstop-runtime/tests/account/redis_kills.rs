//! Kills over a server that restarts, or has lost its last moments.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use endstop_runtime::account::{
    BudgetStore as _, BudgetStoreError, KillTarget, RedisBudgetStore, StoreKill,
};

use super::server::RedisServer;

/// The lease of a process, which a kill waits for if it has to.
const LEASE: Duration = Duration::from_secs(3);

fn open(server: &RedisServer) -> RedisBudgetStore {
    RedisBudgetStore::open(&server.url()).unwrap()
}

fn of_run(name: &str) -> StoreKill {
    StoreKill { target: KillTarget::Run(name.to_owned()), why: "test".to_owned() }
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The targets of the kills that a process learns from here on.
fn told(store: &RedisBudgetStore) -> Arc<Mutex<Vec<KillTarget>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let by_kill = Arc::clone(&told);
    store.on_kill(move |kill| by_kill.lock().unwrap().push(kill.target.clone()));
    told
}

#[test]
fn a_kill_after_one_that_the_server_has_lost_takes_effect() {
    let Some(server) = RedisServer::start() else { return };
    let (by, store) = (open(&server), open(&server));
    let told = told(&store);
    let has = |target: &KillTarget| told.lock().unwrap().contains(target);
    store.admit().unwrap();
    let lost = of_run("lost");
    let receipt = by.kill(&lost).unwrap();
    assert_eq!((receipt.confirmed, receipt.silent), (1, 0));
    assert!(has(&lost.target) && store.admit().is_ok());
    // The server comes back without it, and another kill begins before the process looks.
    server.send(&["HSET {endstop:default}:meta epoch 0", "DEL {endstop:default}:kills"]);
    let next = of_run("next");
    let receipt = by.kill(&next).unwrap();
    assert_eq!((receipt.confirmed, receipt.silent), (1, 0));
    assert!(has(&next.target), "{told:?}");
    // It has obeyed a kill that the store no longer has, so it admits nothing.
    let refused = store.admit();
    assert!(matches!(refused, Err(BudgetStoreError::Killed(_))), "{refused:?}");
    // A process that starts now is not concerned.
    open(&server).admit().unwrap();
}

#[test]
fn kills_that_a_process_has_not_obeyed_reach_it_once_each_and_in_order() {
    let Some(server) = RedisServer::start() else { return };
    let (by, store) = (open(&server), open(&server));
    let told = told(&store);
    let kills = ["a", "b", "c"].map(of_run);
    for kill in &kills {
        by.kill(kill).unwrap();
    }
    let targets = kills.map(|kill| kill.target);
    until("told", || told.lock().unwrap().len() >= targets.len());
    assert_eq!(*told.lock().unwrap(), targets);
    store.admit().unwrap();
}

#[test]
fn a_kill_on_a_server_that_has_just_started_waits_for_the_leases_of_before() {
    // It loses everything.
    let Some(mut server) = RedisServer::start_with(&[]) else { return };
    let store = open(&server);
    store.admit().unwrap();
    server.kill();
    let stopped = Instant::now();
    server.restart();
    // A process that the server no longer knows can admit calls until its lease is over.
    open(&server).kill(&of_run("r")).unwrap();
    assert!(stopped.elapsed() >= LEASE, "{:?}", stopped.elapsed());
}

#[test]
fn a_process_that_the_server_has_forgotten_reports_at_its_next_look() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    store.admit().unwrap();
    let begun = Instant::now();
    for _ in 0..8 {
        let forgotten = server.send(&["DEL {endstop:default}:gateways"]);
        assert!(forgotten.starts_with(":1"), "{forgotten}");
        until("reported", || server.send(&["HLEN {endstop:default}:gateways"]).starts_with(":1"));
    }
    // Without news it reports every five seconds.
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[test]
fn a_kill_that_the_server_loses_while_it_waits_is_repeated() {
    let Some(server) = RedisServer::start() else { return };
    let by = open(&server);
    // A process that never confirms.
    server.send(&[
        r#"HSET {endstop:default}:gateways dead "\x92\x00\xcf\x00\x1f\xff\xff\xff\xff\xff\xff""#,
    ]);
    let epoch = || server.send(&["HGET {endstop:default}:meta epoch"]);
    let kill = of_run("r");
    thread::scope(|scope| {
        let killing = scope.spawn(|| by.kill(&kill));
        // A time has 13 digits.
        until("begun", || epoch().starts_with("$13"));
        let first = epoch();
        server.send(&["HSET {endstop:default}:meta epoch 0", "DEL {endstop:default}:kills"]);
        let receipt = killing.join().unwrap().unwrap();
        assert_eq!((receipt.confirmed, receipt.silent), (0, 1));
        assert!(epoch().starts_with("$13") && epoch() != first, "{first}");
    });
    let kills = by.kills().unwrap();
    assert_eq!(kills.iter().map(|past| &past.kill).collect::<Vec<_>>(), [&kill]);
}
