//! Generated schedules of owners that reserve, settle, crash and repeat themselves, on a clock that jumps: in every window
//! at every moment the store counts what the test knows, and admits nothing above a limit. The test computes calendar
//! windows without the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop_runtime::account::{Account, Adjustment, BudgetStoreError, HoldTerms, Window};
use endstop_runtime::clock::millis;
use endstop_runtime::ledger::Amounts;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::calendar::{Windows, calendar, windows};
use super::stores::*;

const PICOS: u64 = 10_000_000_000;
const DAYS: u64 = 24 * HOUR;

/// A Wednesday evening, and evenings before a change to summer time and back, a leap day, and a new year.
pub(super) const BEGINNINGS: [u64; 5] = [
    MIDNIGHT + 20 * HOUR,
    1_774_728_000_000,
    1_792_864_800_000,
    1_835_380_800_000,
    1_798_660_800_000,
];

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// An owner reserves so many cents on the accounts of a bit set.
    Reserve { owner: usize, accounts: usize, cents: u64 },
    /// The owner of a hold settles it, at this many percent of the hold; maybe again, maybe late, maybe above it.
    Settle { hold: usize, percent: u64 },
    /// The owner of a hold adds to it.
    Grow { hold: usize, cents: u64 },
    /// The owner of a hold shows that it lives.
    Beat { hold: usize },
    /// A reservation is repeated, maybe late.
    Repeat { hold: usize },
    /// An owner dies: its holds are never settled.
    Crash { owner: usize },
    /// A process opens the store again.
    Reopen { handle: usize },
    /// A run that no handle has is killed, where stores kill over machines.
    Kill,
    /// A correction adds so many cents.
    Spend { account: usize, cents: u64 },
    /// A correction takes back what one of the same windows added.
    Return { account: usize },
    /// Time passes.
    Pass { seconds: u64 },
    /// The clock is set.
    Jump { hours: i64 },
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    let hold = || 0..40usize;
    let percent = prop_oneof![4 => 0..=100u64, 1 => 101..=300u64];
    // Those that have no parent: a correction of another one may count there as well.
    let account = || prop_oneof![Just(0usize), Just(2usize)];
    prop_oneof![
        12 => (0..8usize, 1..8usize, 1..60u64)
            .prop_map(|(owner, accounts, cents)| Act::Reserve { owner, accounts, cents }),
        10 => (hold(), percent).prop_map(|(hold, percent)| Act::Settle { hold, percent }),
        2 => (hold(), 1..20u64).prop_map(|(hold, cents)| Act::Grow { hold, cents }),
        2 => hold().prop_map(|hold| Act::Beat { hold }),
        2 => hold().prop_map(|hold| Act::Repeat { hold }),
        1 => (0..8usize).prop_map(|owner| Act::Crash { owner }),
        1 => (0..2usize).prop_map(|handle| Act::Reopen { handle }),
        1 => Just(Act::Kill),
        1 => (account(), 1..40u64).prop_map(|(account, cents)| Act::Spend { account, cents }),
        1 => account().prop_map(|account| Act::Return { account }),
        8 => (1..4_000u64).prop_map(|seconds| Act::Pass { seconds }),
        2 => (-50..50i64).prop_map(|hours| Act::Jump { hours }),
    ]
}

/// The test's record of one hold. Amounts are in cents.
struct Known {
    id: String,
    owner: usize,
    /// With parents.
    accounts: usize,
    at: u64,
    windows: Windows,
    expires: u64,
    held: u64,
    /// The counted amount: held, or settled.
    counted: u64,
    is_settled: bool,
    /// Whether its owner has died.
    is_left: bool,
}

impl Known {
    fn is_held(&self, now: u64) -> bool {
        !self.is_settled && now < self.expires
    }

    fn is_of(&self, account: usize) -> bool {
        self.accounts >> account & 1 == 1
    }
}

/// The test's record of a correction.
struct Corrected {
    account: usize,
    at: u64,
    windows: Windows,
    cents: u64,
    returned: Option<u64>,
}

/// Kills over all handles of a store.
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "other stores do not kill"))]
pub(super) struct Killer {
    /// Returns once the store has recorded the kill.
    pub(super) kill: Box<dyn Fn()>,
    /// How many kills the last handle that was opened has taken.
    pub(super) newest: Box<dyn Fn() -> Arc<AtomicU64>>,
    /// How many kills each of the two handles has taken, and has to take with its next reservation.
    pub(super) taken: [(Arc<AtomicU64>, u64); 2],
}

/// A store under test, and the counts that it must have.
struct Model<'m> {
    pair: Pair,
    killer: Option<Killer>,
    clock: &'m Clock,
    all: Vec<Account>,
    holds: Vec<Known>,
    corrected: Vec<Corrected>,
}

fn accounts() -> Vec<Account> {
    let mut team = account("team", &["$1 per day", "$0.80 per rolling 5h"]);
    team.parent = Some("org".to_owned());
    let mut berlin = account("berlin", &["$0.90 per week", "$0.70 per hour"]);
    berlin.zone = TimeZone::get("Europe/Berlin").unwrap();
    vec![account("org", &["$3 per month", "$1.50 per rolling 26h"]), team, berlin]
}

impl Model<'_> {
    fn now(&self) -> u64 {
        self.pair.handles[0].read(&[&self.all[0]]).unwrap()[0].now.0
    }

    fn chosen(&self, bits: usize) -> Vec<&Account> {
        (0..self.all.len()).filter(|at| bits >> at & 1 == 1).map(|at| &self.all[at]).collect()
    }

    /// The hold of a number, unless its owner is not there to use it.
    fn hold(&self, number: usize) -> Option<usize> {
        let at = number.checked_rem(self.holds.len())?;
        (!self.holds[at].is_left).then_some(at)
    }

    /// Does something, and returns the hold that may have become larger.
    fn apply(&mut self, number: usize, act: &Act) -> Result<Option<usize>, TestCaseError> {
        match *act {
            Act::Reserve { owner, accounts, cents } => {
                return self.reserve(number, owner, accounts, cents);
            }
            Act::Settle { hold, percent } => {
                if let Some(at) = self.hold(hold) {
                    self.settle(at, percent);
                }
            }
            Act::Grow { hold, cents } => {
                if let Some(at) = self.hold(hold)
                    && self.grow(at, cents)?
                {
                    return Ok(Some(at));
                }
            }
            Act::Beat { hold } => {
                if let Some(at) = self.hold(hold) {
                    let is_held = self.holds[at].is_held(self.now());
                    prop_assert_eq!(self.grow(at, 0)?, is_held, "a sign of {}", self.holds[at].id);
                }
            }
            Act::Repeat { hold } => self.repeat(hold)?,
            Act::Crash { owner } => {
                let of_owner = self.holds.iter_mut().filter(|hold| hold.owner == owner);
                of_owner.for_each(|hold| hold.is_left = true);
            }
            Act::Reopen { handle } => {
                self.pair.reopen(handle);
                if let Some(killer) = &mut self.killer {
                    killer.taken[handle] = ((killer.newest)(), 0);
                }
            }
            Act::Kill => {
                if let Some(killer) = &mut self.killer {
                    (killer.kill)();
                    killer.taken.iter_mut().for_each(|(_, due)| *due += 1);
                }
            }
            Act::Spend { account, cents } => {
                let id = format!("spend-{number}");
                self.correct(&id, account, cents, 0);
                let at = self.now();
                let windows = windows(&self.all, at);
                self.corrected.push(Corrected { account, at, windows, cents, returned: None });
            }
            Act::Return { account } => {
                let at = self.now();
                let now = windows(&self.all, at);
                let is_here = |it: &Corrected| {
                    it.account == account
                        && it.returned.is_none()
                        && it.windows[account] == now[account]
                };
                if let Some(found) = self.corrected.iter().rposition(is_here) {
                    let id = format!("return-{number}");
                    self.correct(&id, account, 0, self.corrected[found].cents);
                    self.corrected[found].returned = Some(at);
                }
            }
            Act::Pass { seconds } => self.clock.set(self.clock.now() + seconds * 1_000),
            Act::Jump { hours } => {
                let at = i64::try_from(self.clock.now()).unwrap() + hours * 3_600_000;
                self.clock.set(u64::try_from(at).unwrap());
            }
        }
        Ok(None)
    }

    fn reserve(
        &mut self,
        number: usize,
        owner: usize,
        bits: usize,
        amount: u64,
    ) -> Result<Option<usize>, TestCaseError> {
        let accounts = if bits & 2 != 0 { bits | 1 } else { bits };
        let (id, name) = (number.to_string(), format!("owner-{owner}"));
        let terms = HoldTerms { id: &id, owner: &name, ttl: TTL };
        let chosen = self.chosen(accounts);
        let store = &self.pair.handles[owner % 2];
        let done = store.reserve(&chosen, cents(amount), &terms);
        if let Some((taken, due)) = self.killer.as_ref().map(|killer| &killer.taken[owner % 2]) {
            prop_assert_eq!(taken.load(Ordering::SeqCst), *due, "kills before {}", id);
        }
        if done.is_err() {
            let refused = refused(done);
            let committed = refused.settled + refused.held;
            prop_assert!(committed + refused.asked > refused.limit.amount, "{refused:?}");
            let of = self.all.iter().position(|it| it.name == refused.account).unwrap();
            let limit = self.all[of].limits.iter().position(|it| *it == refused.limit).unwrap();
            if let Some((settled, held)) = self.expected(of, limit, refused.now.0) {
                prop_assert_eq!(committed, settled + held, "{:?}", refused);
            }
            return Ok(None);
        }
        // Whatever was spent in excess, what is admitted fits at that moment.
        for state in store.read(&chosen).unwrap() {
            for limit in state.limits {
                let committed = limit.settled + limit.held;
                prop_assert!(committed <= limit.limit.amount, "{} {}", state.account, limit.limit);
            }
        }
        let at = self.now();
        let (windows, expires) = (windows(&self.all, at), at + millis(TTL));
        self.holds.push(Known {
            id,
            owner,
            accounts,
            at,
            windows,
            expires,
            held: amount,
            counted: amount,
            is_settled: false,
            is_left: false,
        });
        Ok(Some(self.holds.len() - 1))
    }

    /// Settles a hold at a part of it. A settled one stays as it was settled first.
    fn settle(&mut self, at: usize, percent: u64) {
        let now = self.now();
        let hold = &mut self.holds[at];
        let actual = hold.held * percent / 100;
        match self.pair.handles[hold.owner % 2].settle(&hold.id, cents(actual)) {
            Ok(()) if !hold.is_settled => (hold.counted, hold.is_settled) = (actual, true),
            Ok(()) => {}
            // A store forgets what ended a week ago, when it is opened and once a day.
            Err(BudgetStoreError::UnknownHold(_)) if now - hold.at > 7 * DAYS => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether it is as large as asked.
    fn grow(&mut self, at: usize, amount: u64) -> Result<bool, TestCaseError> {
        let now = self.now();
        let hold = &self.holds[at];
        let by = if amount == 0 { Amounts::ZERO } else { cents(amount) };
        let chosen = self.chosen(hold.accounts);
        let grown = self.pair.handles[hold.owner % 2].grow(&chosen, &hold.id, by, TTL).is_ok();
        prop_assert!(!grown || hold.is_held(now), "{} has ended", hold.id);
        if grown {
            let hold = &mut self.holds[at];
            hold.held += amount;
            hold.counted += amount;
            hold.expires = now + millis(TTL);
        }
        Ok(grown)
    }

    /// Repeats a reservation, over the handle of another process: it changes nothing.
    fn repeat(&self, number: usize) -> Result<(), TestCaseError> {
        let Some(at) = number.checked_rem(self.holds.len()) else { return Ok(()) };
        let (hold, now) = (&self.holds[at], self.now());
        // Later the store may have removed the id.
        if now - hold.at > 6 * DAYS {
            return Ok(());
        }
        let (chosen, name) = (self.chosen(hold.accounts), format!("owner-{}", hold.owner));
        let terms = HoldTerms { id: &hold.id, owner: &name, ttl: TTL };
        let store = &self.pair.handles[1 - hold.owner % 2];
        match store.reserve(&chosen, cents(hold.held), &terms) {
            Ok(()) => prop_assert!(hold.is_held(now), "{} was reserved again", hold.id),
            Err(BudgetStoreError::Ended(_)) => prop_assert!(!hold.is_held(now), "{}", hold.id),
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// A correction that arrives twice.
    fn correct(&self, id: &str, account: usize, spent: u64, returned: u64) {
        let amounts = |amount| if amount == 0 { Amounts::ZERO } else { cents(amount) };
        let correction = Adjustment {
            id,
            account: &self.all[account],
            parents: &[],
            spent: amounts(spent),
            returned: amounts(returned),
            who: "ann",
            why: "test",
        };
        for handle in &self.pair.handles {
            handle.adjust(&correction).unwrap();
        }
    }

    /// Settled and held in the calendar window of a moment. `None` for a rolling one.
    fn expected(&self, account: usize, limit: usize, now: u64) -> Option<(u64, u64)> {
        let of = &self.all[account];
        let window = calendar(of.limits[limit].window, now, &of.zone)?;
        let (mut settled, mut held) = (0, 0);
        for hold in self.holds.iter().filter(|hold| hold.is_of(account)) {
            if hold.windows[account][limit] == Some(window) {
                let sum = if hold.is_held(now) { &mut held } else { &mut settled };
                *sum += hold.counted * PICOS;
            }
        }
        for it in self.corrected.iter().filter(|it| it.account == account) {
            if it.windows[account][limit] == Some(window) && it.returned.is_none() {
                settled += it.cents * PICOS;
            }
        }
        Some((settled, held))
    }

    /// The store says what the test knows.
    fn check_counts(&self) -> Result<(), TestCaseError> {
        for (at, account) in self.all.iter().enumerate() {
            let state = self.pair.handles[at % 2].read(&[account]).unwrap().remove(0);
            prop_assert!(state.now.0 >= self.clock.now());
            for (number, limit) in state.limits.iter().enumerate() {
                let text = format!("{} {}", account.name, limit.limit);
                if let Some(expected) = self.expected(at, number, state.now.0) {
                    prop_assert_eq!((limit.settled, limit.held), expected, "{}", text);
                    continue;
                }
                let Window::Rolling(length) = limit.limit.window else { continue };
                let from = state.now.0.saturating_sub(millis(length));
                let holds = self.holds.iter().filter(|hold| hold.is_of(at) && hold.at > from);
                let corrected = self.corrected.iter().filter(|it| it.account == at && it.at > from);
                let known = holds.map(|hold| hold.counted).sum::<u64>()
                    + corrected.map(|it| it.cents).sum::<u64>();
                // A bucket that is partly too old is summed as well.
                let committed =
                    limit.settled + limit.held + self.returned(at, from, length) * PICOS;
                prop_assert!(committed >= known * PICOS, "{}: {} is known", text, known);
            }
        }
        Ok(())
    }

    /// Cents that corrections may have taken out of buckets that end after a moment.
    fn returned(&self, account: usize, from: u64, length: Duration) -> u64 {
        let bucket = millis(length) / 60 + 1;
        let of_account = self.corrected.iter().filter(|it| it.account == account);
        let is_near = |it: &&Corrected| it.returned.is_some_and(|at| at + bucket > from);
        of_account.filter(is_near).map(|it| it.cents).sum()
    }

    /// Nothing was admitted above a limit, in any window that ends with a reservation or has it; those between have no more.
    fn check_windows(&self, last: &Known) -> Result<(), TestCaseError> {
        for (at, account) in self.all.iter().enumerate().filter(|(at, _)| last.is_of(*at)) {
            for (number, limit) in account.limits.iter().enumerate() {
                let length = match limit.window {
                    Window::Rolling(length) => length,
                    _ => Duration::ZERO,
                };
                let window = last.windows[at][number];
                let ago = last.at.saturating_sub(millis(length));
                let from = if window.is_some() { 0 } else { ago };
                let inside = self.holds.iter().filter(|hold| {
                    let is_in_time = hold.at > from && (window.is_some() || hold.at <= last.at);
                    hold.is_of(at) && is_in_time && hold.windows[at][number] == window
                });
                // More than was held is the excess of a provider.
                let sum: u64 = inside.map(|hold| hold.counted.min(hold.held)).sum();
                let most = limit.amount + self.returned(at, from, length) * PICOS;
                prop_assert!(sum * PICOS <= most, "{} {}: {} cents", account.name, limit, sum);
            }
        }
        Ok(())
    }
}

/// Runs a schedule on a store.
pub(super) fn check(
    (pair, killer): (Pair, Option<Killer>),
    clock: &Clock,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let (holds, corrected) = (Vec::new(), Vec::new());
    let mut model = Model { pair, killer, clock, all: accounts(), holds, corrected };
    for (number, act) in acts.iter().enumerate() {
        let larger = model.apply(number, act)?;
        model.check_counts()?;
        if let Some(at) = larger {
            let from = model.holds[at].at;
            let mut later = model.holds.iter().filter(|hold| hold.at >= from);
            later.try_for_each(|hold| model.check_windows(hold))?;
        }
    }
    model.holds.iter().try_for_each(|hold| model.check_windows(hold))
}
