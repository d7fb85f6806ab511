//! Owners in separate threads, which reserve, grow, settle and die at once, over two handles of a store. The clock passes
//! between rounds; after each, no window has more than its limit, and what has no window is the sum of what the owners know.

use std::thread;

use endstop_runtime::account::{Account, BudgetStore, BudgetStoreError, Window};
use endstop_runtime::ledger::Amounts;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::schedules::times;
use super::stores::*;

const PICOS: u64 = 10_000_000_000;
const OWNERS: usize = 6;

/// One act of an owner.
#[derive(Clone, Debug)]
enum OwnAct {
    /// Reserves so many cents, on the team and the organization, or on the organization alone.
    Reserve { is_of_team: bool, cents: u64 },
    /// Settles its oldest open hold, at this many percent.
    Settle { percent: u64 },
    /// Adds to its newest open hold.
    Grow { cents: u64 },
    /// Forgets all its holds, as if it had died.
    Die,
}

/// The acts of all owners, and the seconds that pass afterwards.
type Round = ([Vec<OwnAct>; OWNERS], u64);

fn round() -> impl Strategy<Value = Round> {
    let act = prop_oneof![
        8 => (any::<bool>(), 1..40u64)
            .prop_map(|(is_of_team, cents)| OwnAct::Reserve { is_of_team, cents }),
        6 => (0..=100u64).prop_map(|percent| OwnAct::Settle { percent }),
        2 => (1..20u64).prop_map(|cents| OwnAct::Grow { cents }),
        1 => Just(OwnAct::Die),
    ];
    let acts = prop::collection::vec(act, 1..8);
    // Holds live for a minute.
    let seconds = prop_oneof![3 => 0..50u64, 1 => 50..30_000u64];
    (prop::array::uniform6(acts), seconds)
}

/// A hold as its owner knows it. Amounts are in cents.
struct Held {
    id: String,
    is_of_team: bool,
    held: u64,
}

/// An owner: its open holds, and what the others count.
#[derive(Default)]
struct Owner {
    number: usize,
    reserved: usize,
    open: Vec<Held>,
    /// Cents of holds that it does not use again, for the organization and the team.
    counted: [u64; 2],
}

impl Owner {
    fn count(&mut self, is_of_team: bool, cents: u64) {
        self.counted[0] += cents;
        self.counted[1] += if is_of_team { cents } else { 0 };
    }

    /// For the organization and the team, with open holds.
    fn known(&self) -> [u64; 2] {
        let of = |is_counted: fn(&Held) -> bool| -> u64 {
            self.open.iter().filter(|hold| is_counted(hold)).map(|hold| hold.held).sum()
        };
        [self.counted[0] + of(|_| true), self.counted[1] + of(|hold| hold.is_of_team)]
    }

    fn act(&mut self, store: &dyn BudgetStore, all: &[Account; 2], act: &OwnAct) {
        let accounts =
            |is_of_team: bool| if is_of_team { vec![&all[0], &all[1]] } else { vec![&all[0]] };
        match *act {
            OwnAct::Reserve { is_of_team, cents: asked } => {
                let id = format!("{}-{}", self.number, self.reserved);
                self.reserved += 1;
                match store.reserve(&accounts(is_of_team), cents(asked), &terms(&id)) {
                    Ok(()) => self.open.push(Held { id, is_of_team, held: asked }),
                    other => drop(refused(other)),
                }
            }
            OwnAct::Settle { percent } if !self.open.is_empty() => {
                let Held { id, is_of_team, held } = self.open.remove(0);
                let actual = held * percent / 100;
                let amounts = if actual == 0 { Amounts::ZERO } else { cents(actual) };
                store.settle(&id, amounts).unwrap();
                self.count(is_of_team, actual);
            }
            OwnAct::Grow { cents: by } => {
                let Some(hold) = self.open.last_mut() else { return };
                match store.grow(&accounts(hold.is_of_team), &hold.id, cents(by), TTL) {
                    Ok(()) => hold.held += by,
                    Err(BudgetStoreError::Refused(_) | BudgetStoreError::Ended(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            OwnAct::Die => {
                for hold in std::mem::take(&mut self.open) {
                    self.count(hold.is_of_team, hold.held);
                }
            }
            OwnAct::Settle { .. } => {}
        }
    }
}

fn check(pair: &Pair, clock: &Clock, rounds: &[Round]) -> Result<(), TestCaseError> {
    let mut team = account("team", &["$1 per day", "$0.80 per rolling 5h", "$3"]);
    team.parent = Some("org".to_owned());
    let all = [account("org", &["$1.50 per rolling 26h", "$4"]), team];
    let mut owners: [Owner; OWNERS] =
        std::array::from_fn(|number| Owner { number, ..Owner::default() });
    for (acts, seconds) in rounds {
        thread::scope(|scope| {
            for (owner, acts) in owners.iter_mut().zip(acts) {
                let (store, all) = (&pair.handles[owner.number % 2], &all);
                scope.spawn(move || acts.iter().for_each(|act| owner.act(&**store, all, act)));
            }
        });
        for (at, state) in pair.handles[0].read(&[&all[0], &all[1]]).unwrap().iter().enumerate() {
            for limit in &state.limits {
                let committed = limit.settled + limit.held;
                prop_assert!(committed <= limit.limit.amount, "{} {}", state.account, limit.limit);
            }
            let ever = state.limits.iter().find(|it| it.limit.window == Window::Ever).unwrap();
            let known: u64 = owners.iter().map(|owner| owner.known()[at]).sum();
            prop_assert_eq!(ever.settled + ever.held, known * PICOS, "{}", state.account);
        }
        clock.set(clock.now() + seconds * 1_000);
    }
    Ok(())
}

/// Tries as many schedules, each with a separate store.
fn run(cases: u32, open: impl Fn(&Clock) -> Pair) {
    let config = Config { cases: times(cases), failure_persistence: None, ..Config::default() };
    let rounds = prop::collection::vec(round(), 1..6);
    let checked = TestRunner::new(config).run(&rounds, |rounds| {
        let clock = Clock::at(MIDNIGHT + 20 * HOUR);
        check(&open(&clock), &clock, &rounds)
    });
    checked.unwrap();
}

#[test]
fn owners_at_once_in_memory_pass_no_limit() {
    run(100, Pair::memory);
}

#[cfg(feature = "sqlite")]
#[test]
fn owners_at_once_in_sqlite_pass_no_limit() {
    run(6, Pair::sqlite);
}

#[cfg(feature = "redis")]
#[test]
fn owners_at_once_in_redis_pass_no_limit() {
    use endstop_runtime::account::RedisBudgetStore;
    use endstop_runtime::store::RunId;

    // One server for all cases, each in a separate namespace.
    let Some(server) = super::server::RedisServer::start() else { return };
    run(8, |clock| {
        let url = format!("{}?namespace={}", server.url(), RunId::new());
        let clock = clock.clone();
        Pair::new("redis", move || {
            Box::new(RedisBudgetStore::open_with_clock(&url, clock.wall()).unwrap())
        })
    });
}
