//! The answers of the server about its data: how they are kept, and on how many replicas.

use std::thread;
use std::time::{Duration, Instant};

use endstop_runtime::account::{RedisBudgetStore, StorePersistence};

use super::server::RedisServer;

fn open(server: &RedisServer) -> RedisBudgetStore {
    RedisBudgetStore::open(&server.url()).unwrap()
}

#[test]
fn the_persistence_of_the_server_is_told() {
    let rows: [(&[&str], StorePersistence); 4] = [
        (&["--appendonly", "yes", "--appendfsync", "always"], StorePersistence::Always),
        (&["--appendonly", "yes"], StorePersistence::EverySecond),
        (&[], StorePersistence::Nothing),
        (&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"], StorePersistence::Evicts),
    ];
    for (options, expected) in rows {
        let Some(server) = RedisServer::start_with(options) else { return };
        assert_eq!(open(&server).persistence(), expected, "{options:?}");
    }
}

#[test]
fn replicas_are_counted() {
    let Some(server) = RedisServer::start() else { return };
    let store = open(&server);
    assert_eq!(store.replicas(), Some(0));
    let replica = RedisServer::start().unwrap();
    replica.send(&[&format!("REPLICAOF 127.0.0.1 {}", server.port())]);
    let begun = Instant::now();
    while store.replicas() != Some(1) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", store.replicas());
        thread::sleep(Duration::from_millis(10));
    }
}
