//! `kill -9` at random moments: nothing that was acknowledged is lost, nothing counts twice, and the holds of a process
//! that died expire.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use endstop_core::units::WallTime;
use endstop_runtime::account::{Account, BudgetStore, BudgetStoreError, SqliteBudgetStore};
use endstop_runtime::store::RunId;

use super::stores::{TTL, account, cents, committed, first, terms};

/// Kills where a change is pushed; the variable says how many each night.
const KILLS: u64 = 40;
const STORE: &str = "ENDSTOP_KILLED_BUDGETS";
const FIRST: &str = "ENDSTOP_KILLED_CALL";
/// The prefix of a child's lines; the test harness prints others.
pub(super) const TOLD: &str = "told:";

/// The number of kills.
fn kills() -> u64 {
    let kills = env::var("ENDSTOP_KILLS").ok().and_then(|kills| kills.parse().ok());
    kills.unwrap_or(KILLS)
}

/// Whether there is time for more than where a change is pushed.
pub(super) fn is_long() -> bool {
    kills() > KILLS
}

fn me() -> Account {
    account("me", &["$1000000 per month", "$1000000 per rolling 5h"])
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    if let Ok(path) = env::var(STORE) {
        return work(&path);
    }
    let directory = env::temp_dir().join(format!("endstop-killed-{}", RunId::new()));
    let file = directory.join("budgets.sqlite");
    let (mut calls, mut held, mut settled) = (0u64, 0u64, 0u64);
    let kills = kills();
    for kill in 0..kills {
        let (last_held, last_settled) = run_and_kill(file.to_str().unwrap(), calls, kill);
        held = held.max(last_held);
        settled = settled.max(last_settled);
        // The next child begins behind all that this one may have begun.
        calls = last_held + 2;
    }
    let store = SqliteBudgetStore::open(&file).unwrap();
    let (settled_cents, held_cents) = committed(&store, &me());
    assert!(settled > kills, "too little was acknowledged: {settled}");
    // Each child leaves at most one call that is held or was not acknowledged.
    let mut known = 0;
    for call in 0..calls {
        match store.settle(&call.to_string(), cents(3)) {
            Ok(()) => known += 1,
            Err(BudgetStoreError::UnknownHold(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(known + kills * 2 >= calls, "{known} of {calls} calls are known");
    assert!(held_cents <= 10 * kills && settled_cents <= 3 * known);
    // Settled once more or for the first time, each counts once.
    assert_eq!(committed(&store, &me()), (3 * known, 0));

    // A hold whose owner died is charged once it expires.
    store.reserve(&[&me()], cents(10), &terms("dead")).unwrap();
    let later = Arc::new(|| WallTime(endstop_runtime::clock::system_wall_time().0 + 61_000));
    let later = SqliteBudgetStore::open_with_clock(&file, later).unwrap();
    later.reserve(&[&me()], cents(10), &terms("next")).unwrap();
    assert_eq!(committed(&later, &me()), (3 * known + 10, 10));
    assert_eq!(first(&later, &me()).unconfirmed, 100_000_000_000);
    drop((store, later));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The child: calls that are reserved and settled, each acknowledged, until it is killed.
fn work(path: &str) {
    let store = SqliteBudgetStore::open(path).unwrap();
    let (me, first): (_, u64) = (me(), env::var(FIRST).unwrap().parse().unwrap());
    for call in first.. {
        let id = call.to_string();
        store.reserve(&[&me], cents(10), &terms(&id)).unwrap();
        tell(&format!("held {call}"));
        if call % 5 == 0 {
            store.grow(&[&me], &id, cents(1), TTL).unwrap();
        }
        store.settle(&id, cents(3)).unwrap();
        tell(&format!("settled {call}"));
    }
}

/// Past the harness, which captures output.
pub(super) fn tell(what: &str) {
    std::io::stdout().write_all(format!("\n{TOLD} {what}.\n").as_bytes()).unwrap();
}

/// The last calls that a child acknowledged as held and as settled.
fn run_and_kill(path: &str, first: u64, kill: u64) -> (u64, u64) {
    let test = "kill::what_was_acknowledged_is_there_after_a_kill";
    let mut child = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .envs([(STORE, path), (FIRST, &first.to_string())])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut held, mut settled) = (first, 0);
    let mut take = |line: &str| {
        let told = line.strip_prefix(TOLD).and_then(|told| told.strip_suffix('.'));
        match told.map(str::trim).and_then(|told| told.split_once(' ')) {
            Some(("held", call)) => held = call.parse().unwrap(),
            Some(("settled", call)) => settled = call.parse().unwrap(),
            _ => return 0,
        }
        1
    };
    // By what it did and not by time, so that a slow machine checks as much as a fast one; and then a random moment.
    let wanted = 3 + kill * 7 % 11;
    let mut told = 0;
    while told < wanted {
        told += take(&lines.next().unwrap().unwrap());
    }
    thread::sleep(Duration::from_micros(kill * 7_919 % 1_500));
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines.map_while(Result::ok) {
        take(&line);
    }
    (held, settled)
}
