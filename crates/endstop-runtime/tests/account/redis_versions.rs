//! Versions of the program on one server: keys of a later format, and the functions of two versions next to each other.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use endstop_runtime::account::{
    BudgetStore as _, KillTarget, RedisBudgetStore, StoreKeyChange, StoreKill,
};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{RunLog as _, RunLogError};

use super::run_logs::{add_step, program, steps};
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

/// The bytes of a value in hexadecimal, as the server answers a script that reads it.
fn stored(server: &RedisServer, value: &str) -> String {
    let hex = "(value:gsub('.', function(c) return string.format('%02x', string.byte(c)) end))";
    server.send(&[&format!("EVAL \"local value = {value} return {hex}\" 0")])
}

/// Bytes in hexadecimal as a word of a command.
fn bytes(hex: &str) -> String {
    let digits: Vec<char> = hex.chars().collect();
    digits.chunks(2).map(|byte| format!("\\x{}{}", byte[0], byte[1])).collect()
}

/// Opens namespaces with a clock.
fn opened(server: &RedisServer, clock: &Clock) -> impl Fn(&str) -> RedisBudgetStore {
    let (url, clock) = (server.url(), clock.clone());
    move |namespace| {
        let url = format!("{url}/0?namespace={namespace}");
        RedisBudgetStore::open_with_clock(&url, clock.wall()).unwrap()
    }
}

#[test]
fn keys_of_format_1_are_written_and_read() {
    let Some(server) = RedisServer::start() else { return };
    let (clock, me) = (Clock::at(MIDNIGHT + 20 * HOUR), account("me", &["$5 per day"]));
    let open = opened(&server, &clock);
    // As they are written.
    open("written").reserve(&[&me], cents(10), &terms("a")).unwrap();
    let counter = format!("redis.call('HGET', '{{endstop:written}}:counter:me:day', '{DAY}')");
    let counter = stored(&server, &counter);
    assert!(counter.contains(&format!("\r\n{COUNTER}\r\n")), "{counter}");
    let hold = stored(&server, "redis.call('GET', '{endstop:written}:hold:a')");
    assert!(hold.contains(&format!("\r\n{HOLD}\r\n")), "{hold}");

    // As an earlier version left them.
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

/// A process that waits for a run until a second after 20:00: the end of `wants`, and all of it if it is called `two`.
const WANTS_END: &str = "cf000001a2144b2de8";
const WANTS: &str = "9192a374776fcf000001a2144b2de8";
/// A process that obeys no epoch, and one that obeys the first, at 20:00.
const OBEYS_NONE: &str = "9200cf000001a2144b2a00";
const OBEYS_FIRST: &str = "9201cf000001a2144b2a00";

/// The words of an answer.
fn words(answer: &str) -> Vec<&str> {
    answer.lines().filter(|line| !line.starts_with(['$', '*', '+', ':'])).collect()
}

#[test]
fn runs_of_format_1_are_written_and_read() {
    let Some(server) = RedisServer::start() else { return };
    let clock = Clock::at(MIDNIGHT + 20 * HOUR);
    let (open, program) = (opened(&server, &clock), program());
    // As they are written.
    let (store, id) = (open("written"), RunId::parse("job-1").unwrap());
    let mut one = store.run_log("gw-1").open(&id, &program).unwrap();
    add_step(&mut one, &id);
    assert!(store.run_log("gw-2").open(&id, &program).is_err());
    let run = server.send(&["HMGET {endstop:written}:run:job-1 epoch name expires lines at"]);
    let expected = ["1", "gw-1", "1795636805000", "3", "1795636800000"];
    assert_eq!(words(&run), expected, "{run}");
    let wants = stored(&server, "redis.call('HGET', '{endstop:written}:run:job-1', 'wants')");
    let wants = words(&wants)[0];
    assert!(wants.starts_with("9192") && wants.ends_with(WANTS_END), "{wants}");
    let lines = server.send(&["LRANGE {endstop:written}:log:job-1 0 -1"]);
    let lines = words(&lines);
    assert!(lines[0].starts_with(r#"{"endstop_trace":1,"run":"job-1""#), "{lines:?}");
    assert!(lines.len() == 3 && lines[2].contains(r#","seq":2,"sum":""#), "{lines:?}");
    let runs = server.send(&["ZRANGE {endstop:written}:runs 0 -1 WITHSCORES"]);
    assert_eq!(words(&runs), ["job-1", "1795636800000"]);
    let owner = server.send(&["HGET {endstop:written}:run:job-1 owner"]);
    let wanted =
        server.send(&[&format!("HGETALL {{endstop:written}}:wanted:{}", words(&owner)[0])]);
    assert_eq!(words(&wanted), ["job-1", "1"]);

    // As an earlier version left them. A file has a mark at the end of its first line, a list has none.
    let file = include_str!("../../../endstop-gateway/tests/golden/stored-run-v1-sealed.jsonl");
    let lines: Vec<String> = file
        .lines()
        .map(|line| {
            let unmarked = line.split_once(r#","end":""#).map(|(line, _)| format!("{line}}}"));
            let line = unmarked.unwrap_or_else(|| line.to_owned());
            let line = line.replace('\\', r"\\").replace('"', r#"\""#);
            format!("RPUSH {{endstop:kept}}:log:nightly-17 \"{line}\"")
        })
        .collect();
    let mut commands: Vec<&str> = lines.iter().map(String::as_str).collect();
    let run = format!(
        "HSET {{endstop:kept}}:run:nightly-17 epoch 4 owner one name gw-9 expires 1795636805000 lines {} \
         at 1795636800000 wants \"{}\"",
        lines.len(),
        bytes(WANTS)
    );
    commands.push("HSET {endstop:kept}:meta format 1 latest 1795636800000");
    commands.push(&run);
    commands.push("ZADD {endstop:kept}:runs 1795636800000 nightly-17");
    let answers = server.send(&commands);
    assert!(!answers.contains("-ERR"), "{answers}");
    let (kept, id) = (open("kept").run_log("gw-1"), RunId::parse("nightly-17").unwrap());
    assert_eq!(kept.ids(9).unwrap(), std::slice::from_ref(&id));
    let held = kept.open(&id, &program);
    assert!(matches!(&held, Err(RunLogError::Held { by }) if by == "gw-9"), "{held:?}");
    // Once the lease is over, and the other process no longer waits.
    clock.set(MIDNIGHT + 20 * HOUR + 5_001);
    let mut again = kept.open(&id, &program).unwrap();
    assert_eq!((steps(&again), again.lines.epoch()), (3, 5));
    add_step(&mut again, &id);
    let lines = server.send(&["HGET {endstop:kept}:run:nightly-17 lines"]);
    assert_eq!(words(&lines), ["29"], "two more");
}

#[test]
fn clients_keys_kills_and_processes_of_format_1_are_written_and_read() {
    let Some(server) = RedisServer::start() else { return };
    let clock = Clock::at(MIDNIGHT + 20 * HOUR);
    let open = opened(&server, &clock);
    let change = |before: Option<&str>, after: &str| StoreKeyChange {
        name: "alice".to_owned(),
        before: before.map(str::to_owned),
        after: after.to_owned(),
    };
    // As they are written.
    let store = open("written");
    assert!(store.change_keys(&[change(None, "1")]).unwrap());
    let keys = server.send(&["HGETALL {endstop:written}:keys"]);
    assert_eq!(words(&keys), ["alice", "1"]);
    let version = server.send(&["HGET {endstop:written}:meta keys"]);
    assert_eq!(words(&version), ["1795636800000"]);
    store.admit().unwrap();
    let process = stored(&server, "redis.call('HVALS', '{endstop:written}:gateways')[1]");
    assert_eq!(words(&process), [OBEYS_NONE], "{process}");

    // As an earlier version left them: its kills have no epoch.
    let answers = server.send(&[
        "HSET {endstop:kept}:meta format 1 latest 1795636800000 epoch 1 keys 1795636700000",
        "HSET {endstop:kept}:keys alice 1",
        r#"RPUSH {endstop:kept}:kills "{\"target\":{\"run\":\"before\"},\"why\":\"test\"}""#,
        &format!("HSET {{endstop:kept}}:gateways dead \"{}\"", bytes(OBEYS_FIRST)),
    ]);
    assert!(!answers.contains("-ERR"), "{answers}");
    let kept = open("kept");
    let keys = kept.keys(None).unwrap().unwrap();
    assert_eq!(keys.version, 1_795_636_700_000);
    assert_eq!(keys.keys, [("alice".to_owned(), "1".to_owned())]);
    assert!(kept.change_keys(&[change(Some("1"), "2")]).unwrap());
    assert_eq!(kept.keys(None).unwrap().unwrap().version, 1_795_636_800_000);
    // A kill is counted on from theirs, and concerns a process that obeys them alone.
    let told = Arc::new(Mutex::new(Vec::new()));
    let by_kill = Arc::clone(&told);
    kept.on_kill(move |kill| by_kill.lock().unwrap().push(kill.target.clone()));
    let target = KillTarget::Run("now".to_owned());
    let receipt = kept.kill(&StoreKill { target: target.clone(), why: "test".to_owned() });
    let receipt = receipt.unwrap();
    assert_eq!((receipt.confirmed, receipt.silent), (0, 1));
    let begun = Instant::now();
    while told.lock().unwrap().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(*told.lock().unwrap(), [target]);
    assert_eq!(kept.kills().unwrap().len(), 2);
    let last = server.send(&["LRANGE {endstop:kept}:kills -1 -1"]);
    let begins = r#"{"epoch":1795636800000,"after":1,"target":{"run":"now"},"why":"test","at":"#;
    assert!(words(&last)[0].starts_with(begins), "{last}");
}
