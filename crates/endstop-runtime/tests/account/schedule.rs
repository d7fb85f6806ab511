//! Generated schedules of owners that reserve, settle, crash and repeat themselves, on a clock that jumps: in every window
//! at every moment settled + held is within the limit.

use endstop_core::units::Money;
use endstop_runtime::account::{Account, BudgetStoreError, Window};
use endstop_runtime::clock::millis;
use endstop_runtime::ledger::Amounts;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::stores::*;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// An owner reserves so many cents on the accounts of a bit set.
    Reserve { owner: usize, accounts: usize, cents: u64 },
    /// The owner of a hold settles it, at this many percent of the hold; maybe again, maybe late.
    Settle { hold: usize, percent: u64 },
    /// The owner of a hold adds to it.
    Grow { hold: usize, cents: u64 },
    /// The owner of a hold shows that it lives.
    Beat { hold: usize },
    /// The last reservation is repeated.
    Repeat,
    /// Time passes.
    Pass { seconds: u64 },
    /// The clock is set.
    Jump { hours: i64 },
}

fn act() -> impl Strategy<Value = Act> {
    let hold = 0..40usize;
    prop_oneof![
        6 => (0..8usize, 1..8usize, 1..60u64)
            .prop_map(|(owner, accounts, cents)| Act::Reserve { owner, accounts, cents }),
        5 => (hold.clone(), 0..=100u64).prop_map(|(hold, percent)| Act::Settle { hold, percent }),
        1 => (hold.clone(), 1..20u64).prop_map(|(hold, cents)| Act::Grow { hold, cents }),
        1 => hold.prop_map(|hold| Act::Beat { hold }),
        1 => Just(Act::Repeat),
        4 => (1..4_000u64).prop_map(|seconds| Act::Pass { seconds }),
        1 => (-50..50i64).prop_map(|hours| Act::Jump { hours }),
    ]
}

/// The test's record of one hold.
struct Known {
    id: String,
    handle: usize,
    accounts: usize,
    at: u64,
    held: u64,
    /// The counted amount: held, or settled.
    counted: u64,
}

fn accounts() -> Vec<Account> {
    let mut team = account("team", &["$1 per day", "$0.80 per rolling 5h"]);
    team.parent = Some("org".to_owned());
    let mut berlin = account("berlin", &["$0.90 per week", "$0.70 per hour"]);
    berlin.zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
    vec![account("org", &["$3 per month", "$1.50 per rolling 26h"]), team, berlin]
}

fn chosen(all: &[Account], bits: usize) -> Vec<&Account> {
    let bits = if bits & 2 != 0 { bits | 1 } else { bits };
    (0..all.len()).filter(|at| bits >> at & 1 == 1).map(|at| &all[at]).collect()
}

/// Settles a hold at a part of it. A settled one stays as it was settled first.
fn settle(pair: &Pair, hold: &mut Known, percent: u64) {
    let actual = hold.held * percent / 100;
    let is_settled = hold.id.ends_with('s');
    let id = hold.id.trim_end_matches('s').to_owned();
    pair.handles[hold.handle].settle(&id, cents(actual)).unwrap();
    if !is_settled {
        hold.counted = actual;
        hold.id.push('s');
    }
}

fn check(pair: &Pair, clock: &Clock, acts: &[Act]) -> Result<(), TestCaseError> {
    let all = accounts();
    let mut holds: Vec<Known> = Vec::new();
    for (number, act) in acts.iter().enumerate() {
        match act {
            Act::Reserve { owner, accounts, cents: amount } => {
                let id = format!("{number}");
                let (handle, chosen) = (owner % 2, chosen(&all, *accounts));
                let done = pair.handles[handle].reserve(&chosen, cents(*amount), &terms(&id));
                if done.is_ok() {
                    let at = pair.handles[handle].read(&[&all[0]]).unwrap()[0].now.0;
                    let (held, accounts) = (*amount, *accounts);
                    holds.push(Known { id, handle, accounts, at, held, counted: held });
                } else {
                    refused(done);
                }
            }
            Act::Repeat => {
                if let Some(hold) = holds.last() {
                    let chosen = chosen(&all, hold.accounts);
                    let again = pair.handles[1 - hold.handle].reserve(
                        &chosen,
                        cents(hold.held),
                        &terms(hold.id.trim_end_matches('s')),
                    );
                    prop_assert!(matches!(again, Ok(()) | Err(BudgetStoreError::Ended(_))));
                }
            }
            Act::Settle { hold, percent } => {
                let count = holds.len().max(1);
                if let Some(hold) = holds.get_mut(hold % count) {
                    settle(pair, hold, *percent);
                }
            }
            Act::Grow { hold, cents: amount } => {
                let count = holds.len().max(1);
                if let Some(hold) = holds.get_mut(hold % count) {
                    let id = hold.id.trim_end_matches('s').to_owned();
                    let chosen = chosen(&all, hold.accounts);
                    let store = &pair.handles[hold.handle];
                    if store.grow(&chosen, &id, cents(*amount), TTL).is_ok() {
                        hold.held += amount;
                        hold.counted += amount;
                    }
                }
            }
            Act::Beat { hold } => {
                if let Some(hold) = holds.get(hold % holds.len().max(1)) {
                    let id = hold.id.trim_end_matches('s').to_owned();
                    let chosen = chosen(&all, hold.accounts);
                    // It may have ended.
                    let _ = pair.handles[hold.handle].grow(&chosen, &id, Amounts::ZERO, TTL);
                }
            }
            Act::Pass { seconds } => clock.set(clock.now() + seconds * 1_000),
            Act::Jump { hours } => {
                let ahead = i64::try_from(clock.now()).unwrap() + hours * 3_600_000;
                clock.set(u64::try_from(ahead).unwrap());
            }
        }
        check_windows(pair, &all, &holds)?;
    }
    Ok(())
}

/// The store says what the test knows, and no window is above its limit.
fn check_windows(pair: &Pair, all: &[Account], holds: &[Known]) -> Result<(), TestCaseError> {
    for (at, account) in all.iter().enumerate() {
        let of_account = |hold: &&Known| {
            let bits = if hold.accounts & 2 != 0 { hold.accounts | 1 } else { hold.accounts };
            bits >> at & 1 == 1
        };
        let state = pair.handles[at % 2].read(&[account]).unwrap().remove(0);
        for limit in &state.limits {
            let committed = limit.settled + limit.held;
            prop_assert!(committed <= limit.limit.amount, "{} {}", account.name, limit.limit);
            let Window::Rolling(length) = limit.limit.window else { continue };
            // Every window that ends with a reservation; those between have no more.
            for last in holds.iter().filter(of_account) {
                let from = last.at.saturating_sub(millis(length));
                let inside = holds.iter().filter(of_account);
                let inside = inside.filter(|hold| hold.at > from && hold.at <= last.at);
                let sum: u64 = inside.map(|hold| hold.counted).sum();
                let sum = Money::from_picos(sum * 10_000_000_000);
                prop_assert!(sum.picos() <= limit.limit.amount, "{}: {sum}", limit.limit);
            }
            let from = state.now.0.saturating_sub(millis(length));
            let now = holds.iter().filter(of_account).filter(|hold| hold.at > from);
            let now: u64 = now.map(|hold| hold.counted).sum();
            // A bucket that is partly too old is summed as well.
            prop_assert!(committed >= now * 10_000_000_000, "{}: {now}", limit.limit);
        }
    }
    Ok(())
}

/// Tries as many schedules, or a multiple of that if the variable asks for it.
#[expect(clippy::print_stderr, reason = "the table of `cargo xtask bench budgets` has the number")]
fn run(name: &str, cases: u32, open: impl Fn(&Clock) -> Pair) {
    let times = std::env::var("ENDSTOP_SCHEDULES").ok().and_then(|times| times.parse().ok());
    let cases = cases * times.unwrap_or(1);
    eprintln!("schedules: {cases} {name}");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let acts = prop::collection::vec(act(), 1..80);
    let checked = TestRunner::new(config).run(&acts, |acts| {
        let clock = Clock::at(MIDNIGHT + 20 * HOUR);
        let pair = open(&clock);
        check(&pair, &clock, &acts)
    });
    checked.unwrap();
}

#[test]
fn memory_keeps_every_window() {
    run("in memory", 400, Pair::memory);
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_keeps_every_window() {
    run("in SQLite", 24, Pair::sqlite);
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_every_window() {
    // One server for all cases, each in a separate namespace.
    let Some(server) = super::server::RedisServer::start() else { return };
    let case = std::sync::atomic::AtomicU64::new(0);
    run("in Redis", 24, |clock| {
        use endstop_runtime::account::RedisBudgetStore;
        let case = case.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let url = format!("{}?namespace=case-{case}", server.url());
        let open = || -> Box<dyn endstop_runtime::account::BudgetStore> {
            Box::new(RedisBudgetStore::open_with_clock(&url, clock.wall()).unwrap())
        };
        Pair::new("redis", [open(), open()])
    });
}
