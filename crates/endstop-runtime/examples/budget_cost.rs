//! The cost of budgets over time per call, and what it could be at least: `cargo xtask bench budgets` reads what this prints.
#![expect(clippy::print_stdout, reason = "prints what it measured")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use endstop_core::units::Money;
use endstop_runtime::account::{
    Account, BudgetStore, HoldTerms, MemoryBudgetStore, SqliteBudgetStore,
};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::store::RunId;

#[cfg(feature = "redis")]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement without its server has no meaning"
)]
#[path = "../../../tests/support/redis.rs"]
mod server;

/// Calls of each measurement, unless the first argument says another number.
const CALLS: usize = 5_000;
/// As many before, which are not counted.
const WARM: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let asked = std::env::args().nth(1).map(|number| number.parse());
    let calls = asked.transpose()?.unwrap_or(CALLS);
    let directory = std::env::temp_dir().join(format!("endstop-bench-{}", RunId::new()));
    let file = directory.join("budgets.sqlite");
    cost("memory", &MemoryBudgetStore::new(), calls)?;
    cost("sqlite", &SqliteBudgetStore::open(&file)?, calls)?;
    bare_commits(&file, calls)?;
    std::fs::remove_dir_all(&directory)?;
    #[cfg(feature = "redis")]
    over_redis(calls)?;
    Ok(())
}

/// The same over a server on this machine, by the two usual ways in which it keeps its data.
#[cfg(feature = "redis")]
fn over_redis(calls: usize) -> Result<(), Box<dyn Error>> {
    use endstop_runtime::account::RedisBudgetStore;
    for fsync in ["everysec", "always"] {
        let options = ["--appendonly", "yes", "--appendfsync", fsync];
        let Some(server) = server::RedisServer::start_with(&options) else { return Ok(()) };
        let open = || -> Result<Arc<dyn BudgetStore>, Box<dyn Error>> {
            Ok(Arc::new(RedisBudgetStore::open(&format!("{}?namespace=cost", server.url()))?))
        };
        cost(&format!("redis {fsync}"), &*open()?, calls)?;
        bare_requests(fsync, &server.url(), calls)?;
        for count in [1, 2, 8, 32] {
            // A handle each, as gateways have them.
            let handles = (0..count).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
            let per_second = rate(&handles, calls)?;
            println!(r#"{{"name":"redis {fsync} rate {count}","per_second":{per_second}}}"#);
        }
    }
    Ok(())
}

fn dollars(cents: u64) -> Amounts {
    Amounts { cost: Money::from_picos(cents * 10_000_000_000), tokens: cents, ..Amounts::ZERO }
}

/// A reservation and its settlement.
fn call(store: &dyn BudgetStore, me: &Account, id: &str) -> Result<(), Box<dyn Error>> {
    let terms = HoldTerms { id, owner: "bench", ttl: Duration::from_secs(60) };
    store.reserve(&[me], dollars(2), &terms)?;
    Ok(store.settle(id, dollars(1))?)
}

fn cost(name: &str, store: &dyn BudgetStore, calls: usize) -> Result<(), Box<dyn Error>> {
    let me = Account::new("me", &["$1000000 per day"])?;
    timed(name, calls, |number| call(store, &me, &format!("call-{number}")))
}

/// Prints how long something takes.
fn timed(
    name: &str,
    calls: usize,
    mut act: impl FnMut(usize) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::with_capacity(calls);
    for number in 0..calls + WARM {
        let begun = Instant::now();
        act(number)?;
        times.push(begun.elapsed());
    }
    let mut times = times.split_off(WARM);
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let micros = |part| at(part).as_nanos() as f64 / 1_000.0;
    println!(r#"{{"name":"{name}","median_us":{},"p99_us":{}}}"#, micros(50), micros(99));
    Ok(())
}

/// The least that a durable change of the same file takes: one row, in one transaction.
fn bare_commits(file: &Path, calls: usize) -> Result<(), Box<dyn Error>> {
    let connection = rusqlite::Connection::open(file)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let mut update = connection.prepare("UPDATE clock SET latest = latest + 1")?;
    timed("sqlite commit", calls, |_| Ok(update.execute(()).map(|_| ())?))
}

/// The least that a request takes, and one that changes something.
#[cfg(feature = "redis")]
fn bare_requests(fsync: &str, url: &str, calls: usize) -> Result<(), Box<dyn Error>> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    timed(&format!("redis {fsync} ping"), calls, |_| {
        Ok(redis::cmd("PING").query::<()>(&mut connection)?)
    })?;
    timed(&format!("redis {fsync} set"), calls, |number| {
        Ok(redis::cmd("SET").arg("bench").arg(number).query::<()>(&mut connection)?)
    })
}

/// Calls a second of all handles at once, each in a thread.
fn rate(handles: &[Arc<dyn BudgetStore>], calls: usize) -> Result<usize, Box<dyn Error>> {
    let me = Account::new("me", &["$1000000 per day"])?;
    let each = calls / handles.len();
    let begun = Instant::now();
    let made: usize = thread::scope(|scope| {
        let work = handles.iter().enumerate().map(|(at, store)| {
            let me = &me;
            scope.spawn(move || {
                let id = |number| format!("{}-{at}-{number}", RunId::new());
                (0..each).filter(|number| call(&**store, me, &id(*number)).is_ok()).count()
            })
        });
        let work: Vec<_> = work.collect();
        work.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    });
    if made != each * handles.len() {
        return Err("a call was refused".into());
    }
    Ok(made * 1_000 / usize::try_from(begun.elapsed().as_millis())?.max(1))
}
