//! The five operations on counters and holds, once for all stores that keep rows: an error in one of them loses money, and a
//! second copy would keep it longer.

use std::time::Duration;

use endstop_core::units::WallTime;
use serde::{Deserialize, Serialize};

use super::limit::{AccountLimit, COUNTED};
use super::refused::AccountRefused;
use super::spec::Account;
use super::store::{AccountState, Adjustment, BudgetStoreError, HoldTerms, LimitState};
use super::window::{NEVER, Span};
use crate::clock::millis;
use crate::ledger::{Amounts, Dimension};
use crate::limits::{MAX_CHARGE, MAX_HOLD_ID_BYTES};

/// Steps, tokens and pico-dollars, as in [`COUNTED`].
pub(super) type Counts = [i64; 3];

/// The largest value of a counter: beyond every limit, and far from an overflow.
pub(super) const FULL: i64 = 1 << 62;

/// One counter: an account's window, or bucket of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) account: String,
    /// The window as text.
    pub(super) kind: String,
    pub(super) end: u64,
    pub(super) start: u64,
}

/// A counter's position and amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) settled: Counts,
    pub(super) held: Counts,
    /// The part of the settled amounts that came from expired holds.
    pub(super) unconfirmed: Counts,
}

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldState {
    Held = 0,
    /// Settled at its worst case; a settlement corrects that.
    Expired = 1,
    Settled = 2,
}

/// A hold as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredHold {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) expires: u64,
    pub(super) state: HoldState,
    pub(super) amounts: Counts,
    pub(super) places: Vec<Place>,
}

/// The rows of a store, within one atomic operation.
pub(super) trait Rows {
    /// The latest time that the store has seen.
    fn latest(&mut self) -> Result<u64, BudgetStoreError>;
    fn set_latest(&mut self, now: u64) -> Result<(), BudgetStoreError>;
    /// The counters of an account's window that end after some time, oldest first.
    fn counters(
        &mut self,
        account: &str,
        kind: &str,
        after: u64,
    ) -> Result<Vec<(Place, Counter)>, BudgetStoreError>;
    /// Adds to a counter, which begins at nothing. The result stays between nothing and [`FULL`].
    fn add(&mut self, place: &Place, delta: &Counter) -> Result<(), BudgetStoreError>;
    fn hold(&mut self, id: &str) -> Result<Option<StoredHold>, BudgetStoreError>;
    fn put_hold(&mut self, hold: &StoredHold) -> Result<(), BudgetStoreError>;
    /// Holds that are held and have expired.
    fn expired(&mut self, now: u64) -> Result<Vec<StoredHold>, BudgetStoreError>;
    /// Whether a correction of an id was noted.
    fn is_noted(&mut self, id: &str) -> Result<bool, BudgetStoreError>;
    /// Notes a correction; whether it is a new one.
    fn note(&mut self, adjustment: &Adjustment<'_>, now: u64) -> Result<bool, BudgetStoreError>;
}

/// The amounts that accounts count.
pub(super) fn counts(amounts: &Amounts) -> Counts {
    COUNTED
        .map(|dimension| i64::try_from(amounts.get(dimension).min(MAX_CHARGE)).unwrap_or(i64::MAX))
}

fn of(counts: &Counts, dimension: Dimension) -> i64 {
    let [steps, tokens, cost] = *counts;
    match dimension {
        Dimension::Steps => steps,
        Dimension::Tokens => tokens,
        Dimension::Cost => cost,
        Dimension::Attempts | Dimension::ToolCalls => uncounted(dimension),
    }
}

/// A limit of nothing that accounts count would never refuse anything.
pub(super) fn uncounted(dimension: Dimension) -> ! {
    unreachable!("an account has no limit on {dimension}: a set of accounts refuses it")
}

pub(super) fn unsigned(count: i64) -> u64 {
    count.max(0).unsigned_abs()
}

fn negated(counts: Counts) -> Counts {
    counts.map(i64::saturating_neg)
}

fn minus(a: Counts, b: Counts) -> Counts {
    let mut result = a;
    result.iter_mut().zip(b).for_each(|(a, b)| *a = a.saturating_sub(b));
    result
}

/// Adds a change to a counter, in bounds.
pub(super) fn changed(counter: &Counter, delta: &Counter) -> Counter {
    let sum = |a: Counts, b: Counts| {
        let mut sum = a;
        sum.iter_mut().zip(b).for_each(|(a, b)| *a = a.saturating_add(b).clamp(0, FULL));
        sum
    };
    Counter {
        settled: sum(counter.settled, delta.settled),
        held: sum(counter.held, delta.held),
        unconfirmed: sum(counter.unconfirmed, delta.unconfirmed),
    }
}

/// The time of the store: never earlier than before.
fn now_of(rows: &mut impl Rows, wall: WallTime) -> Result<u64, BudgetStoreError> {
    let latest = rows.latest()?;
    // Beyond this no calendar is.
    let wall = wall.0.min(NEVER / 2);
    if wall > latest {
        rows.set_latest(wall)?;
    }
    Ok(wall.max(latest))
}

pub(super) fn check_id(id: &str) -> Result<(), BudgetStoreError> {
    let is_good = (1..=MAX_HOLD_ID_BYTES).contains(&id.len());
    if is_good { Ok(()) } else { Err(BudgetStoreError::Id(id.len())) }
}

/// The sum of one limit's window.
struct Sum {
    settled: i64,
    held: i64,
    unconfirmed: i64,
    counters: Vec<(Place, Counter)>,
}

impl Sum {
    /// Counts holds that have expired as the next reservation will: as spent, at their worst case.
    fn spend(
        &mut self,
        expired: &[StoredHold],
        account: &Account,
        limit: &AccountLimit,
        after: u64,
    ) {
        let kind = limit.window.to_string();
        let is_summed = |place: &&Place| {
            place.account == account.name && place.kind == kind && place.end > after
        };
        for hold in expired {
            let amount = of(&hold.amounts, limit.dimension);
            for _ in hold.places.iter().filter(is_summed) {
                self.settled = self.settled.saturating_add(amount);
                self.held = self.held.saturating_sub(amount);
                self.unconfirmed = self.unconfirmed.saturating_add(amount);
            }
        }
    }
}

fn sum(
    rows: &mut impl Rows,
    account: &Account,
    limit: &AccountLimit,
    after: u64,
) -> Result<Sum, BudgetStoreError> {
    let counters = rows.counters(&account.name, &limit.window.to_string(), after)?;
    let (mut settled, mut held, mut unconfirmed) = (0i64, 0i64, 0i64);
    for (_, counter) in &counters {
        settled = settled.saturating_add(of(&counter.settled, limit.dimension));
        held = held.saturating_add(of(&counter.held, limit.dimension));
        unconfirmed = unconfirmed.saturating_add(of(&counter.unconfirmed, limit.dimension));
    }
    Ok(Sum { settled, held, unconfirmed, counters })
}

/// When `needed` more fits: once enough of the counters have left the window.
fn fits_at(limit: &AccountLimit, sum: &Sum, needed: i64) -> Option<u64> {
    let amount = i64::try_from(limit.amount).unwrap_or(i64::MAX);
    let mut left = sum.settled.saturating_add(sum.held).saturating_add(needed);
    if needed > amount {
        return None;
    }
    for (place, counter) in &sum.counters {
        let both = [&counter.settled, &counter.held].map(|it| of(it, limit.dimension));
        left = both.iter().fold(left, |left, count| left.saturating_sub(*count));
        if left <= amount {
            return Span::gone_at(limit.window, place.end);
        }
    }
    None
}

/// Refuses what does not fit into the windows that `after` says, the outermost account first.
fn check(
    rows: &mut impl Rows,
    accounts: &[&Account],
    amounts: &Counts,
    now: u64,
    after: impl Fn(&Account, &AccountLimit) -> Option<u64>,
) -> Result<(), BudgetStoreError> {
    let mut refused: Option<(usize, AccountRefused)> = None;
    for account in accounts {
        let depth = depth(account, accounts);
        for limit in &account.limits {
            let asked = of(amounts, limit.dimension);
            // Nothing always fits, even into what is overspent.
            if asked == 0 {
                continue;
            }
            let Some(after) = after(account, limit) else { continue };
            let sum = sum(rows, account, limit, after)?;
            let committed = sum.settled.saturating_add(sum.held);
            if unsigned(committed.saturating_add(asked)) <= limit.amount {
                continue;
            }
            if refused.as_ref().is_some_and(|(outer, _)| *outer <= depth) {
                continue;
            }
            let refusal = AccountRefused {
                account: account.name.clone(),
                on_full: account.on_full,
                limit: *limit,
                settled: unsigned(sum.settled),
                held: unsigned(sum.held),
                asked: unsigned(asked),
                now: WallTime(now),
                resets_at: fits_at(limit, &sum, asked).map(WallTime),
                zone: account.zone.clone(),
            };
            refused = Some((depth, refusal));
        }
    }
    match refused {
        Some((_, refusal)) => Err(BudgetStoreError::Refused(Box::new(refusal))),
        None => Ok(()),
    }
}

/// How many of the accounts are above one of them.
pub(super) fn depth(account: &Account, accounts: &[&Account]) -> usize {
    let mut depth = 0;
    let mut next = account.parent.as_ref();
    while let Some(name) = next
        && depth < accounts.len()
        && let Some(above) = accounts.iter().find(|it| it.name == *name)
    {
        depth += 1;
        next = above.parent.as_ref();
    }
    depth
}

/// The counters that a charge goes into now.
fn places(accounts: &[&Account], now: u64) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for account in accounts {
        for limit in &account.limits {
            let span = Span::at(limit.window, WallTime(now), &account.zone);
            let place = Place {
                account: account.name.clone(),
                kind: limit.window.to_string(),
                end: span.end,
                start: span.start,
            };
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// Settles holds that expired at their worst case.
fn expire(rows: &mut impl Rows, now: u64) -> Result<(), BudgetStoreError> {
    for hold in rows.expired(now)? {
        let delta = Counter {
            settled: hold.amounts,
            held: negated(hold.amounts),
            unconfirmed: hold.amounts,
        };
        for place in &hold.places {
            rows.add(place, &delta)?;
        }
        rows.put_hold(&StoredHold { state: HoldState::Expired, ..hold })?;
    }
    Ok(())
}

pub(super) fn reserve(
    rows: &mut impl Rows,
    wall: WallTime,
    accounts: &[&Account],
    amounts: &Amounts,
    terms: &HoldTerms<'_>,
) -> Result<(), BudgetStoreError> {
    check_id(terms.id)?;
    let now = now_of(rows, wall)?;
    expire(rows, now)?;
    match rows.hold(terms.id)?.map(|hold| hold.state) {
        None => {}
        Some(HoldState::Held) => return Ok(()),
        Some(_) => return Err(BudgetStoreError::Ended(terms.id.to_owned())),
    }
    let amounts = counts(amounts);
    check(rows, accounts, &amounts, now, |account, limit| {
        Some(Span::at(limit.window, WallTime(now), &account.zone).after)
    })?;
    let hold = StoredHold {
        id: terms.id.to_owned(),
        owner: terms.owner.to_owned(),
        expires: now.saturating_add(millis(terms.ttl)).min(NEVER),
        state: HoldState::Held,
        amounts,
        places: places(accounts, now),
    };
    for place in &hold.places {
        rows.add(place, &Counter { held: amounts, ..Counter::default() })?;
    }
    rows.put_hold(&hold)
}

pub(super) fn grow(
    rows: &mut impl Rows,
    wall: WallTime,
    accounts: &[&Account],
    id: &str,
    by: &Amounts,
    ttl: Duration,
) -> Result<(), BudgetStoreError> {
    let now = now_of(rows, wall)?;
    expire(rows, now)?;
    let Some(mut hold) = rows.hold(id)? else {
        return Err(BudgetStoreError::UnknownHold(id.to_owned()));
    };
    if hold.state != HoldState::Held {
        return Err(BudgetStoreError::Ended(id.to_owned()));
    }
    let by = counts(by);
    if by != Counts::default() {
        let reserved = |account: &Account, limit: &AccountLimit| {
            let kind = limit.window.to_string();
            let place = hold.places.iter().find(|it| it.account == account.name && it.kind == kind);
            place.map(|place| match Span::gone_at(limit.window, 0) {
                // All windows that contain the bucket, and so the ones between.
                Some(length) => place.start.saturating_sub(length),
                None => 0,
            })
        };
        check(rows, accounts, &by, now, reserved)?;
        for place in &hold.places {
            rows.add(place, &Counter { held: by, ..Counter::default() })?;
        }
        hold.amounts.iter_mut().zip(by).for_each(|(held, by)| *held = held.saturating_add(by));
    }
    hold.expires = now.saturating_add(millis(ttl)).min(NEVER);
    rows.put_hold(&hold)
}

pub(super) fn settle(
    rows: &mut impl Rows,
    wall: WallTime,
    id: &str,
    actual: &Amounts,
) -> Result<(), BudgetStoreError> {
    let now = now_of(rows, wall)?;
    let Some(hold) = rows.hold(id)? else {
        return Err(BudgetStoreError::UnknownHold(id.to_owned()));
    };
    let actual = counts(actual);
    let delta = match hold.state {
        HoldState::Settled => return Ok(()),
        HoldState::Held => {
            Counter { settled: actual, held: negated(hold.amounts), unconfirmed: Counts::default() }
        }
        HoldState::Expired => Counter {
            settled: minus(actual, hold.amounts),
            held: Counts::default(),
            unconfirmed: negated(hold.amounts),
        },
    };
    for place in &hold.places {
        rows.add(place, &delta)?;
    }
    // From now on the expiry is the time of the settlement: the hold is deleted some time later.
    rows.put_hold(&StoredHold { state: HoldState::Settled, expires: now, ..hold })
}

pub(super) fn read(
    rows: &mut impl Rows,
    wall: WallTime,
    accounts: &[&Account],
) -> Result<Vec<AccountState>, BudgetStoreError> {
    let latest = rows.latest()?;
    let now = wall.0.min(NEVER / 2).max(latest);
    // Nothing is written here, so they are still stored as held.
    let expired = rows.expired(now)?;
    let mut states = Vec::with_capacity(accounts.len());
    for account in accounts {
        let mut limits = Vec::with_capacity(account.limits.len());
        for limit in &account.limits {
            let span = Span::at(limit.window, WallTime(now), &account.zone);
            let mut sum = sum(rows, account, limit, span.after)?;
            sum.spend(&expired, account, limit, span.after);
            let oldest = sum.counters.first().map_or(span.end, |(place, _)| place.end);
            let state = LimitState {
                limit: *limit,
                settled: unsigned(sum.settled),
                unconfirmed: unsigned(sum.unconfirmed),
                held: unsigned(sum.held),
                resets_at: Span::gone_at(limit.window, oldest).map(WallTime),
                resets_text: None,
            };
            limits.push(state.with_reset(account));
        }
        let clock_behind = Duration::from_millis(now.saturating_sub(wall.0));
        states.push(AccountState {
            account: account.name.clone(),
            now: WallTime(now),
            clock_behind,
            limits,
        });
    }
    Ok(states)
}

pub(super) fn adjust(
    rows: &mut impl Rows,
    wall: WallTime,
    adjustment: &Adjustment<'_>,
) -> Result<(), BudgetStoreError> {
    check_id(adjustment.id)?;
    let now = now_of(rows, wall)?;
    // Its amounts are already in the counters, so a repetition could seem to take back too much.
    if rows.is_noted(adjustment.id)? {
        return Ok(());
    }
    expire(rows, now)?;
    let change = minus(counts(&adjustment.spent), counts(&adjustment.returned));
    let (spent, returned) = (change.map(|it| it.max(0)), change.map(|it| it.min(0)));
    check_return(rows, adjustment.account, &returned, now)?;
    if !rows.note(adjustment, now)? {
        return Ok(());
    }
    for &account in adjustment.parents.iter().chain([&adjustment.account]) {
        for place in places(&[account], now) {
            if spent != Counts::default() {
                rows.add(&place, &Counter { settled: spent, ..Counter::default() })?;
            }
            give_back(rows, account, &place, returned, now)?;
        }
    }
    Ok(())
}

/// Refuses to take back amounts, which are below nothing, of which the account has spent less in each of its windows: the rest
/// would be taken from the spend of others in the accounts above it. A unit that it does not limit is not known.
fn check_return(
    rows: &mut impl Rows,
    account: &Account,
    returned: &Counts,
    now: u64,
) -> Result<(), BudgetStoreError> {
    for dimension in COUNTED {
        let back = of(returned, dimension).saturating_neg();
        if back <= 0 {
            continue;
        }
        let mut most: Option<i64> = None;
        for limit in account.limits.iter().filter(|limit| limit.dimension == dimension) {
            let after = Span::at(limit.window, WallTime(now), &account.zone).after;
            let settled = sum(rows, account, limit, after)?.settled;
            most = Some(most.map_or(settled, |most| most.max(settled)));
        }
        if let Some(most) = most.filter(|most| back > *most) {
            return Err(BudgetStoreError::NotSpent {
                account: account.name.clone(),
                dimension,
                asked: unsigned(back),
                most: unsigned(most),
            });
        }
    }
    Ok(())
}

/// Takes amounts, which are below nothing, out of the counters of a window, the newest first: a rolling one has many.
fn give_back(
    rows: &mut impl Rows,
    account: &Account,
    newest: &Place,
    mut left: Counts,
    now: u64,
) -> Result<(), BudgetStoreError> {
    let mut limits = account.limits.iter();
    let limit = limits.find(|it| it.window.to_string() == newest.kind);
    let Some(limit) = limit.filter(|_| left != Counts::default()) else { return Ok(()) };
    let after = Span::at(limit.window, WallTime(now), &account.zone).after;
    let counters = rows.counters(&account.name, &newest.kind, after)?;
    for (place, counter) in counters.into_iter().rev() {
        let mut settled = left;
        settled
            .iter_mut()
            .zip(counter.settled)
            .for_each(|(it, had)| *it = (*it).max(had.saturating_neg()));
        if settled != Counts::default() {
            rows.add(&place, &Counter { settled, ..Counter::default() })?;
            left = minus(left, settled);
        }
    }
    Ok(())
}
