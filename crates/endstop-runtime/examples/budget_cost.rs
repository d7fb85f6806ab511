//! The cost of budgets over time per call, and a burst that cannot pass one: `cargo xtask bench budgets`.
#![expect(clippy::print_stdout, reason = "prints what it measured")]

use std::error::Error;
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
mod redis;

const CALLS: usize = 5_000;
const BURST: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("endstop-bench-{}", RunId::new()));
    let file = directory.join("budgets.sqlite");
    let one: [(&str, Arc<dyn BudgetStore>); 2] = [
        ("memory", Arc::new(MemoryBudgetStore::new())),
        ("sqlite", Arc::new(SqliteBudgetStore::open(&file)?)),
    ];
    for (name, store) in one {
        cost(name, &*store)?;
    }
    burst("memory", vec![Arc::new(MemoryBudgetStore::new())])?;
    // A handle each, as processes have them.
    let file = directory.join("burst.sqlite");
    let open = || {
        Ok::<_, Box<dyn Error>>(Arc::new(SqliteBudgetStore::open(&file)?) as Arc<dyn BudgetStore>)
    };
    burst("sqlite", (0..8).map(|_| open()).collect::<Result<_, _>>()?)?;
    std::fs::remove_dir_all(&directory)?;
    #[cfg(feature = "redis")]
    over_redis()?;
    Ok(())
}

/// The same over a server on this machine, by the two usual ways in which it keeps its data.
#[cfg(feature = "redis")]
fn over_redis() -> Result<(), Box<dyn Error>> {
    use endstop_runtime::account::RedisBudgetStore;
    for fsync in ["everysec", "always"] {
        let options = ["--appendonly", "yes", "--appendfsync", fsync];
        let Some(server) = redis::RedisServer::start_with(&options) else { return Ok(()) };
        let open = |namespace: &str| {
            RedisBudgetStore::open(&format!("{}?namespace={namespace}", server.url()))
        };
        let name = format!("redis, appendfsync {fsync}");
        cost(&name, &open("cost")?)?;
        let handle = |_| Ok::<_, Box<dyn Error>>(Arc::new(open("burst")?) as Arc<dyn BudgetStore>);
        burst(&name, (0..8).map(handle).collect::<Result<_, _>>()?)?;
    }
    Ok(())
}

fn dollars(cents: u64) -> Amounts {
    Amounts { cost: Money::from_picos(cents * 10_000_000_000), tokens: cents, ..Amounts::ZERO }
}

/// The median of a reservation and its settlement.
fn cost(name: &str, store: &dyn BudgetStore) -> Result<(), Box<dyn Error>> {
    let me = Account::new("me", &["$1000000 per day"])?;
    let mut times = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        let id = format!("call-{call}");
        let terms = HoldTerms { id: &id, owner: "bench", ttl: Duration::from_secs(60) };
        let begun = Instant::now();
        store.reserve(&[&me], dollars(2), &terms)?;
        store.settle(&id, dollars(1))?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!("{name}: admission and settlement {:?} at the median, {:?} at 99%", at(50), at(99));
    Ok(())
}

/// As many calls at once as would spend several times the budget.
fn burst(name: &str, stores: Vec<Arc<dyn BudgetStore>>) -> Result<(), Box<dyn Error>> {
    let me = Account::new("me", &["$1 per day"])?;
    let stores = &stores;
    let admitted: usize = thread::scope(|scope| {
        let calls: Vec<_> = (0..BURST)
            .filter_map(|call| {
                let (store, me) = (stores.get(call % stores.len())?, &me);
                Some(scope.spawn(move || {
                    let id = format!("call-{call}");
                    let terms = HoldTerms { id: &id, owner: "bench", ttl: Duration::from_secs(60) };
                    let is_admitted = store.reserve(&[me], dollars(9), &terms).is_ok();
                    is_admitted && store.settle(&id, dollars(9)).is_ok()
                }))
            })
            .collect();
        calls.into_iter().map(|call| usize::from(call.join().unwrap_or(false))).sum()
    });
    let states = stores.first().map(|store| store.read(&[&me])).transpose()?.unwrap_or_default();
    let limit =
        states.first().and_then(|state| state.limits.first()).ok_or("no budget was read")?;
    let spent = Money::from_picos(limit.settled);
    let over = Money::from_picos(limit.settled.saturating_sub(limit.limit.amount));
    println!(
        "{name}: a burst of {BURST} calls of $0.09 on $1: {admitted} admitted, {spent} spent, {over} over"
    );
    if over > Money::ZERO {
        return Err("a burst has passed the budget".into());
    }
    Ok(())
}
