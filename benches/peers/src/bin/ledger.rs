//! The ledger and its peers in one run: the cost of a reservation, and whether a limit of a dollar is kept.
//!
//! A pair is reserve and settle in five dimensions. The peers do less (one check and one addition, in
//! one or three dimensions, without a hold and without a tree), so a ratio above 1 is what the rest costs.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use endstop::core::units::Money;
use endstop::ledger::{Amounts, Budget, Limits};
use governor::{Quota, RateLimiter};
use llm_budget::budget::AtomicBudget;
use token_budget_pool::{BudgetPool, Caps};

/// Many short rounds: one that the machine interrupts does not move the median.
const ROUNDS: usize = 1_001;
const PER_ROUND: u32 = 2_000;
const PICOS_PER_CENT: u64 = 10_000_000_000;

/// Waits for the others without sleeping: who is woken up late would measure alone.
fn meet(arrived: &AtomicUsize, all: usize) {
    arrived.fetch_add(1, Ordering::SeqCst);
    let mut spins = 0_u32;
    while arrived.load(Ordering::SeqCst) < all {
        std::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(10_000) {
            thread::yield_now();
        }
    }
}

/// Nanoseconds for one operation of one thread, the median over rounds, while `threads` do the same.
fn median(threads: usize, operation: &(impl Fn(usize) + Sync)) -> f64 {
    let arrived = AtomicUsize::new(0);
    let mut rounds: Vec<f64> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let arrived = &arrived;
                scope.spawn(move || {
                    (1..=ROUNDS)
                        .map(|round| {
                            meet(arrived, round * threads);
                            let started = Instant::now();
                            for _ in 0..PER_ROUND {
                                operation(thread);
                            }
                            started.elapsed().as_nanos() as f64 / f64::from(PER_ROUND)
                        })
                        .collect::<Vec<f64>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn far_limits() -> Limits {
    Limits {
        steps: Some(1 << 60),
        attempts: Some(1 << 60),
        tool_calls: Some(1 << 60),
        tokens: Some(1 << 60),
        cost: Some(Money::from_picos(1 << 62)),
    }
}

/// One leaf for each of two threads at this depth; with one level both use the root.
fn leaves(levels: usize) -> [Budget; 2] {
    let mut above = Budget::root(far_limits());
    if levels == 1 {
        return [above.clone(), above];
    }
    for _ in 2..levels {
        above = above.child(far_limits());
    }
    [above.child(far_limits()), above.child(far_limits())]
}

fn reserve_and_settle(levels: usize, threads: usize) -> f64 {
    let leaves = leaves(levels);
    let worst =
        Amounts { steps: 1, attempts: 1, tool_calls: 0, tokens: 900, cost: Money::from_picos(90) };
    let actual = Amounts { tokens: 700, cost: Money::from_picos(70), ..worst };
    median(threads, &|thread| {
        let hold = leaves[thread].reserve(black_box(worst)).expect("room");
        hold.settle(black_box(actual));
    })
}

fn pool(threads: usize) -> f64 {
    let pool = BudgetPool::with_caps(Caps {
        max_input_tokens: Some(1 << 60),
        max_output_tokens: Some(1 << 60),
        max_total_tokens: Some(1 << 60),
        max_cost_usd: Some(1e12),
    });
    median(threads, &|_| _ = black_box(pool.record(black_box(500), 200, 1e-9)))
}

fn atomic(threads: usize) -> f64 {
    let budget = AtomicBudget::new(1e9).expect("a limit");
    median(threads, &|_| _ = black_box(budget.charge(black_box(1e-9))))
}

fn rate(threads: usize) -> f64 {
    let limiter = RateLimiter::direct(Quota::per_second(NonZeroU32::MAX));
    median(threads, &|_| _ = black_box(limiter.check()))
}

fn speeds() {
    println!(
        "reserve and settle, 5 dimensions; ns a thread, median of {ROUNDS} rounds; read the ratios"
    );
    for threads in [1, 2] {
        let peers = [
            ("token-budget-pool 0.1.0 record, 4 caps", pool(threads)),
            ("llm-budget 0.2.2 charge, money only", atomic(threads)),
            ("governor 0.10 check, one count", rate(threads)),
        ];
        let ours = [1, 4].map(|levels| (levels, reserve_and_settle(levels, threads)));
        for (levels, pair) in ours {
            println!(
                "  {threads} thread(s)  endstop, {levels} level(s)                     {pair:7.1} ns"
            );
        }
        for (name, peer) in peers {
            let [one, four] = ours.map(|(_, pair)| pair / peer);
            println!(
                "  {threads} thread(s)  {name:<38} {peer:7.1} ns   ratio {one:.2} (1 level), {four:.2} (4 levels)"
            );
        }
    }
}

/// The actual cost of each call, in cents.
const CALLS: [u64; 7] = [60, 60, 30, 60, 5, 60, 4];

/// One row of the table: calls admitted, cents really spent, cents reported.
struct Told {
    name: &'static str,
    admitted: usize,
    spent: u64,
    reported: f64,
}

/// Peers check after the call: an amount that they refuse is spent anyway, and not counted.
fn after_the_fact(name: &'static str, record: impl Fn(f64), reported: impl Fn() -> f64) -> Told {
    for cents in CALLS {
        record(cents as f64 / 100.0);
    }
    Told { name, admitted: CALLS.len(), spent: CALLS.iter().sum(), reported: reported() }
}

/// A call is sent if its hold is admitted; `hold` says how much of its cost is held.
fn with_holds(name: &'static str, hold: impl Fn(u64) -> u64) -> Told {
    let cents =
        |count: u64| Amounts { cost: Money::from_picos(count * PICOS_PER_CENT), ..Amounts::ZERO };
    let budget = Budget::root(Limits { cost: Some(cents(100).cost), ..Limits::unlimited() });
    let (mut admitted, mut spent) = (0, 0);
    for actual in CALLS {
        let Ok(hold) = budget.reserve(cents(hold(actual))) else { continue };
        hold.settle(cents(actual));
        admitted += 1;
        spent += actual;
    }
    let reported = budget.settled().cost.picos() as f64 / (PICOS_PER_CENT * 100) as f64;
    Told { name, admitted, spent, reported }
}

fn honesty() {
    let cap = Caps { max_cost_usd: Some(1.0), ..Caps::default() };
    let pool = BudgetPool::with_caps(cap);
    let atomic = AtomicBudget::new(1.0).expect("a limit");
    let rows = [
        with_holds("endstop", |actual| actual),
        with_holds("endstop, holds of $0.05 whatever it costs", |_| 5),
        after_the_fact(
            "token-budget-pool 0.1.0",
            |usd| _ = pool.record(0, 0, usd),
            || pool.totals().cost_usd,
        ),
        after_the_fact("llm-budget 0.2.2", |usd| _ = atomic.charge(usd), || atomic.spent_usd()),
    ];
    println!("calls of $0.6, 0.6, 0.3, 0.6, 0.05, 0.6, 0.04 against a cap of $1");
    println!("  {:<42} {:>6} {:>9} {:>9}", "", "calls", "spent", "reported");
    for Told { name, admitted, spent, reported } in rows {
        println!("  {name:<42} {admitted:>6} {:>9.2} {reported:>9.2}", spent as f64 / 100.0);
    }
}

fn main() {
    speeds();
    honesty();
}
