//! Runs the generated schedules on each store.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::schedule::{BEGINNINGS, Killer, act, check};
use super::stores::*;

/// So many cases, or a multiple of that if the variable asks for it.
pub(super) fn times(cases: u32) -> u32 {
    let times = std::env::var("ENDSTOP_SCHEDULES").ok().and_then(|times| times.parse().ok());
    cases * times.unwrap_or(1)
}

/// Tries as many schedules.
#[expect(clippy::print_stderr, reason = "the table of `cargo xtask bench budgets` has the number")]
fn run(name: &str, cases: u32, open: impl Fn(&Clock) -> (Pair, Option<Killer>)) {
    let cases = times(cases);
    eprintln!("schedules: {cases} {name}");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let acts = prop::collection::vec(act(), 1..80);
    let schedule = (prop::sample::select(BEGINNINGS.to_vec()), acts);
    let checked = TestRunner::new(config).run(&schedule, |(begun, acts)| {
        let clock = Clock::at(begun);
        check(open(&clock), &clock, &acts)
    });
    checked.unwrap();
}

#[test]
fn memory_keeps_every_window() {
    run("in memory", 400, |clock| (Pair::memory(clock), None));
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_keeps_every_window() {
    run("in SQLite", 24, |clock| (Pair::sqlite(clock), None));
}

#[cfg(feature = "redis")]
mod redis {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use endstop_runtime::account::{KillTarget, RedisBudgetStore, StoreKill};
    use endstop_runtime::store::RunId;

    use super::super::relay::{Fault, FaultyRelay};
    use super::super::server::RedisServer;
    use super::*;

    /// One fault for this number of requests that a client repeats.
    const FAULT: usize = 3;

    /// A pair of handles at an address, which live as long as `with`, and a kill over both at another address.
    fn pair(clock: &Clock, url: String, direct: &str, with: impl Send + 'static) -> (Pair, Killer) {
        let opened: Arc<Mutex<Vec<Arc<AtomicU64>>>> = Arc::default();
        let (clock, all) = (clock.clone(), Arc::clone(&opened));
        let pair = Pair::new("redis", move || {
            let _kept = &with;
            let store = RedisBudgetStore::open_with_clock(&url, clock.wall()).unwrap();
            let taken = Arc::new(AtomicU64::new(0));
            all.lock().unwrap().push(Arc::clone(&taken));
            store.on_kill(move |_| {
                taken.fetch_add(1, Ordering::SeqCst);
            });
            Box::new(store)
        });
        let taken = {
            let opened = opened.lock().unwrap();
            [0_usize, 1].map(|handle| (Arc::clone(&opened[handle]), 0))
        };
        let newest = Box::new(move || Arc::clone(opened.lock().unwrap().last().unwrap()));
        (pair, Killer { kill: kill(direct), newest, taken })
    }

    /// Kills a run, and does not wait for those that have to obey.
    fn kill(url: &str) -> Box<dyn Fn()> {
        // At no time, so that its requests set no clock.
        let by = RedisBudgetStore::open_with_clock(url, Clock::at(0).wall()).unwrap();
        Box::new(move || {
            let before = by.kills().unwrap().len();
            let target = KillTarget::Run(format!("nobody-{before}"));
            let (store, kill) = (by.clone(), StoreKill { target, why: "test".to_owned() });
            thread::spawn(move || drop(store.kill(&kill)));
            let begun = Instant::now();
            while by.kills().unwrap().len() == before {
                assert!(begun.elapsed() < Duration::from_secs(60), "the kill is not recorded");
                thread::sleep(Duration::from_millis(1));
            }
        })
    }

    #[test]
    fn redis_keeps_every_window_over_kills() {
        // One server for all cases, each in a separate namespace.
        let Some(server) = RedisServer::start() else { return };
        run("in Redis", 24, |clock| {
            let url = format!("{}?namespace={}", server.url(), RunId::new());
            let (pair, killer) = pair(clock, url.clone(), &url, ());
            (pair, Some(killer))
        });
    }

    #[test]
    fn redis_keeps_every_window_over_lost_answers_and_late_requests() {
        let Some(server) = RedisServer::start() else { return };
        run("in Redis with lost answers and late requests", 16, |clock| {
            let mut seen = 0_usize;
            let relay = FaultyRelay::start(server.port(), move |function: &str| {
                // Growth is not repeated, because it would add twice.
                let is_repeated = ["reserve", "settle", "adjust", "read", "kills"];
                seen += usize::from(is_repeated.contains(&function));
                let is_chosen = is_repeated.contains(&function) && seen.is_multiple_of(FAULT);
                let fault =
                    if seen.is_multiple_of(2 * FAULT) { Fault::Lose } else { Fault::Late(1) };
                is_chosen.then_some(fault)
            });
            let namespace = RunId::new().to_string();
            let direct = format!("{}?namespace={namespace}", server.url());
            let (pair, killer) = pair(clock, relay.url(&namespace), &direct, relay);
            (pair, Some(killer))
        });
    }
}
