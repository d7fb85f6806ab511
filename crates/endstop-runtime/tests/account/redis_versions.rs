//! Versions of the program on one server: keys of a later format, and the functions of two versions next to each other.

use endstop_runtime::account::{BudgetStore as _, KillTarget, RedisBudgetStore, StoreKill};

use super::server::RedisServer;
use super::stores::*;

fn open(server: &RedisServer) -> RedisBudgetStore {
    RedisBudgetStore::open(&server.url()).unwrap()
}

#[test]
fn a_namespace_of_a_later_version_is_refused() {
    let Some(server) = RedisServer::start() else { return };
    let (store, me) = (open(&server), account("me", &["$1 per day"]));
    server.send(&["HSET {endstop:default}:meta format 2"]);
    for error in [
        RedisBudgetStore::open(&server.url()).unwrap_err(),
        store.reserve(&[&me], cents(1), &terms("a")).unwrap_err(),
        store.read(&[&me]).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("has format 2, and this program knows up to 1"), "{text}");
    }
    // Another namespace is another store.
    let other = RedisBudgetStore::open(&format!("{}/0?namespace=other", server.url())).unwrap();
    other.reserve(&[&me], cents(1), &terms("a")).unwrap();
}

#[test]
fn gateways_of_two_versions_share_a_namespace() {
    /// The functions of another version, which have another name.
    const LIBRARY: &str = concat!(
        include_str!("../../src/account/redis/library.lua"),
        include_str!("../../src/account/redis/runs.lua")
    );
    /// A reply of a function. That to the end of a connection is another kind of `OK`.
    const DONE: &str = "$2\r\nOK";
    let Some(server) = RedisServer::start() else { return };
    let (store, me) = (open(&server), account("me", &["$0.05"]));
    let code = LIBRARY.replace("LIBRARY", "endstop_before");
    let code = code.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let loaded = server.send(&[&format!("FUNCTION LOAD \"{code}\"")]);
    assert!(loaded.starts_with('$'), "{loaded}");
    let before = |function: &str, request: &str| {
        server
            .send(&[&format!("FCALL endstop_before_{function} 1 {{endstop:default}} '{request}'")])
    };
    let limit = r#"{"account":"me","kind":"ever","dimension":3,"most":50000000,"depth":0,"begun":0,"ended":9007199254740991}"#;
    let reserve = |id: &str| {
        let terms = r#""owner":"before","ttl":60000,"amounts":[0,0,20000000],"epoch":0"#;
        before("reserve", &format!(r#"{{"id":"{id}",{terms},"limits":[{limit}]}}"#))
    };
    // Each counts what the other holds, and settles it.
    assert!(reserve("a").contains(DONE));
    store.reserve(&[&me], cents(2), &terms("b")).unwrap();
    assert_eq!(committed(&store, &me), (0, 4));
    assert!(reserve("c").contains("REFUSED"), "$0.04 of $0.05 are held");
    assert_eq!(refused(store.reserve(&[&me], cents(2), &terms("c"))).held, 40_000_000_000);
    store.settle("a", cents(1)).unwrap();
    assert!(before("settle", r#"{"id":"b","amounts":[0,0,10000000]}"#).contains(DONE));
    assert_eq!(committed(&store, &me), (2, 0));
    // A kill by one holds for the other.
    let kill = StoreKill { target: KillTarget::Run("r".to_owned()), why: "test".to_owned() };
    store.kill(&kill).unwrap();
    assert!(reserve("d").contains("KILLED"));
    store.reserve(&[&me], cents(2), &terms("e")).unwrap();
}

/// A counter with a hold of ten cents in it, as the library stores it.
const COUNTER: &str = "990000000000ce05f5e100000000";
/// The hold.
const HOLD: &str = "9500cf000001a2144c1460a474657374930000ce05f5e1009193a26d65a3646179bb313739353635313230303030302d31373935353634383030303030";
const DAY: &str = "1795651200000-1795564800000";

#[test]
fn keys_of_format_1_are_written_and_read() {
    let Some(server) = RedisServer::start() else { return };
    let (clock, me) = (Clock::at(MIDNIGHT + 20 * HOUR), account("me", &["$5 per day"]));
    let open = |namespace: &str| {
        let url = format!("{}/0?namespace={namespace}", server.url());
        RedisBudgetStore::open_with_clock(&url, clock.wall()).unwrap()
    };
    // As they are written.
    open("written").reserve(&[&me], cents(10), &terms("a")).unwrap();
    let hex = "(value:gsub('.', function(c) return string.format('%02x', string.byte(c)) end))";
    let stored = |command: &str| {
        let script = format!("local value = redis.call({command}) return {hex}");
        server.send(&[&format!("EVAL \"{script}\" 0")])
    };
    let counter = stored(&format!("'HGET', '{{endstop:written}}:counter:me:day', '{DAY}'"));
    assert!(counter.contains(&format!("\r\n{COUNTER}\r\n")), "{counter}");
    let hold = stored("'GET', '{endstop:written}:hold:a'");
    assert!(hold.contains(&format!("\r\n{HOLD}\r\n")), "{hold}");

    // As an earlier version left them.
    let bytes = |hex: &str| -> String {
        let digits: Vec<char> = hex.chars().collect();
        digits.chunks(2).map(|byte| format!("\\x{}{}", byte[0], byte[1])).collect()
    };
    let record = r#"{\"account\":\"me\",\"at\":1795636800000,\"returned\":[0,0,0],\"spent\":[0,7,10000000],\"who\":\"ann\",\"why\":\"test\"}"#;
    let answers = server.send(&[
        "HSET {endstop:kept}:meta format 1 latest 1795636800000 epoch 1",
        r#"RPUSH {endstop:kept}:kills "{\"target\":{\"run\":\"r\"},\"why\":\"test\"}""#,
        &format!("HSET {{endstop:kept}}:counter:me:day {DAY} \"{}\"", bytes(COUNTER)),
        &format!("SET {{endstop:kept}}:hold:a \"{}\"", bytes(HOLD)),
        "ZADD {endstop:kept}:held 1795636860000 a",
        &format!("RPUSH {{endstop:kept}}:adjustments:me \"{record}\""),
    ]);
    assert!(!answers.contains("-ERR"), "{answers}");
    let kept = open("kept");
    assert_eq!(committed(&kept, &me), (0, 10));
    let past = kept.adjustments("me", 9).unwrap();
    assert_eq!((past[0].who.as_str(), past[0].spent.tokens), ("ann", 7));
    kept.settle("a", cents(4)).unwrap();
    kept.reserve(&[&me], cents(10), &terms("b")).unwrap();
    assert_eq!(committed(&kept, &me), (4, 10));
    // A hold that is never settled expires.
    clock.set(MIDNIGHT + 20 * HOUR + 61_000);
    assert_eq!(committed(&kept, &me), (14, 0));
}
