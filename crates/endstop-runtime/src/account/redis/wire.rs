//! Requests to the function library and its replies. Money is in nano-dollars here: the functions count in numbers that are
//! exact below 2^53.

use redis::Value;
use serde::{Deserialize, Serialize};

use super::super::counters;
use super::super::limit::{AccountLimit, Window};
use super::super::spec::Account;
use super::super::store::{BudgetStoreError, PastAdjustment};
use super::super::window::{NEVER, Span};
use crate::clock::millis;
use crate::ledger::{Amounts, Dimension};
use crate::limits::ROLLING_BUCKETS;
use endstop_core::units::{Money, WallTime};

/// `FULL` of the library: no count is above it, and no limit reaches it.
const FULL: u64 = 1 << 52;
/// The latest time of the library, `NEVER` there.
const LATEST: u64 = (1 << 53) - 1;
const PICOS_PER_NANO: u64 = 1_000;

/// Steps, tokens and nano-dollars.
pub(crate) type Nanos = [u64; 3];

/// A request. Each function reads its part.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Request<'r> {
    /// The time instead of the server's, for tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) id: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) owner: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amounts: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<[i64; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<String>,
    pub(crate) ends: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'r str,
    /// How long the lines of a run are there after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// Runs with their epochs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<(&'r str, u64)>,
    pub(crate) limits: Vec<Limit<'r>>,
}

/// One limit of an account, with its window at the time that the caller takes for that of the store.
#[derive(Debug, Serialize)]
pub(crate) struct Limit<'r> {
    account: &'r str,
    kind: String,
    /// From 1, as the library counts.
    dimension: usize,
    most: u64,
    /// How many of the accounts are above this one.
    depth: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    begun: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// Of a rolling window, whose buckets the library computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<u64>,
}

/// All limits of accounts in their order, for a time of the store.
pub(super) fn limits<'r>(accounts: &[&'r Account], now: u64) -> Vec<Limit<'r>> {
    let of = |account: &&'r Account| {
        let (account, depth) = (*account, counters::depth(account, accounts));
        let limits = account.limits.iter();
        limits.map(move |limit| one(account, limit, depth, now)).collect::<Vec<_>>()
    };
    accounts.iter().flat_map(of).collect()
}

fn one<'r>(account: &'r Account, limit: &AccountLimit, depth: usize, now: u64) -> Limit<'r> {
    let span = Span::at(limit.window, WallTime(now), &account.zone);
    let length = match limit.window {
        Window::Rolling(length) => Some(millis(length)),
        _ => None,
    };
    let is_calendar = length.is_none();
    Limit {
        account: &account.name,
        kind: limit.window.to_string(),
        dimension: place_of(limit.dimension) + 1,
        most: floor(limit.dimension, limit.amount).min(FULL - 1),
        depth,
        begun: is_calendar.then_some(span.start),
        ended: is_calendar.then_some(span.end.min(LATEST)),
        length,
        bucket: length.map(|length| length.div_ceil(ROLLING_BUCKETS).max(1)),
    }
}

fn place_of(dimension: Dimension) -> usize {
    match dimension {
        Dimension::Steps => 0,
        Dimension::Tokens => 1,
        Dimension::Cost => 2,
        Dimension::Attempts | Dimension::ToolCalls => counters::uncounted(dimension),
    }
}

/// An amount in the unit of the library, rounded down.
fn floor(dimension: Dimension, amount: u64) -> u64 {
    if dimension == Dimension::Cost { amount / PICOS_PER_NANO } else { amount }
}

/// The amount of a limit that the library counts with: money in whole nano-dollars.
pub(super) fn counted_limit(limit: &AccountLimit) -> AccountLimit {
    let amount = match limit.dimension {
        Dimension::Cost => limit.amount - limit.amount % PICOS_PER_NANO,
        _ => limit.amount,
    };
    AccountLimit { amount, ..*limit }
}

/// Amounts as the library counts them: money is rounded up, so that a call never counts too little.
pub(super) fn nanos(amounts: &Amounts) -> Nanos {
    let [steps, tokens, picos] = counters::counts(amounts).map(counters::unsigned);
    [steps, tokens, picos.div_ceil(PICOS_PER_NANO)].map(|count| count.min(FULL))
}

/// A count of the library in the unit of an account.
pub(super) fn from_nanos(dimension: Dimension, count: u64) -> u64 {
    match dimension {
        _ if count >= FULL => counters::unsigned(counters::FULL),
        Dimension::Cost => count.saturating_mul(PICOS_PER_NANO),
        _ => count,
    }
}

/// Counts of the library as amounts.
fn amounts([steps, tokens, nanos]: Nanos) -> Amounts {
    let cost = Money::from_picos(from_nanos(Dimension::Cost, nanos));
    Amounts { steps, tokens, cost, ..Amounts::ZERO }
}

/// A correction as it is recorded.
#[derive(Deserialize)]
struct AdjustmentRecord {
    at: u64,
    spent: Nanos,
    returned: Nanos,
    who: String,
    why: String,
}

/// The correction of a record. `None` if it has another form.
pub(super) fn past_adjustment(record: &str) -> Option<PastAdjustment> {
    let AdjustmentRecord { at, spent, returned, who, why } = serde_json::from_str(record).ok()?;
    let (spent, returned) = (amounts(spent), amounts(returned));
    Some(PastAdjustment { at: WallTime(at), spent, returned, who, why })
}

/// A reply: a word, and numbers or texts behind it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) word: String,
    rest: Vec<Value>,
    /// The operation and the server, for errors.
    doing: &'static str,
    server: String,
}

impl Reply {
    /// Reads a reply to an operation.
    ///
    /// # Errors
    /// Returns an error if it is not one of the library.
    pub(super) fn read(
        value: Value,
        doing: &'static str,
        server: &str,
    ) -> Result<Self, BudgetStoreError> {
        let (word, rest) = match value {
            Value::Array(all) => {
                let mut all = all.into_iter();
                (all.next().and_then(text), all.collect())
            }
            _ => (None, Vec::new()),
        };
        let server = server.to_owned();
        match word {
            Some(word) => Ok(Self { word, rest, doing, server }),
            None => Err(BudgetStoreError::Failed {
                doing,
                path: server.into(),
                why: "its answer cannot be read".to_owned(),
            }),
        }
    }

    /// The number at a place.
    ///
    /// # Errors
    /// Returns an error if there is none: an epoch or an amount of zero would admit calls.
    pub(crate) fn number(&self, at: usize) -> Result<u64, BudgetStoreError> {
        u64::try_from(self.integer(at)?).map_err(|_| self.bad_number(at))
    }

    /// The time at a place; `None` if it is never.
    ///
    /// # Errors
    /// Returns an error if there is no number.
    pub(super) fn time(&self, at: usize) -> Result<Option<WallTime>, BudgetStoreError> {
        // The library says -1 for never.
        let time = u64::try_from(self.integer(at)?).ok();
        Ok(time.map(|time| WallTime(if time >= LATEST { NEVER } else { time })))
    }

    fn integer(&self, at: usize) -> Result<i64, BudgetStoreError> {
        match self.rest.get(at) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(self.bad_number(at)),
        }
    }

    fn bad_number(&self, at: usize) -> BudgetStoreError {
        BudgetStoreError::Failed {
            doing: self.doing,
            path: self.server.clone().into(),
            why: format!("its answer `{}` has no number at place {at}", self.word),
        }
    }

    /// The pairs from a place on, as bytes.
    ///
    /// # Errors
    /// Returns an error if something is no half of a pair: what follows would be read as something that it is not.
    pub(super) fn pairs(self, from: usize) -> Result<Vec<BytePair>, BudgetStoreError> {
        let Self { rest, doing, server, .. } = self;
        let mut pairs = Vec::new();
        let mut rest = rest.into_iter().skip(from);
        while let Some(first) = rest.next() {
            let (Value::BulkString(first), Some(Value::BulkString(second))) = (first, rest.next())
            else {
                let why = "its answer is not made of pairs".to_owned();
                return Err(BudgetStoreError::Failed { doing, path: server.into(), why });
            };
            pairs.push((first, second));
        }
        Ok(pairs)
    }

    /// The texts from a place on.
    pub(crate) fn texts(self, from: usize) -> Vec<String> {
        self.rest.into_iter().skip(from).filter_map(text).collect()
    }
}

/// Two texts of an answer that belong together, as bytes.
type BytePair = (Vec<u8>, Vec<u8>);

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}
