//! Kills over machines: a kill begins an epoch of the store, which every reservation checks, and every process learns of it
//! within a moment.
//!
//! 1. A reservation names the last epoch that its process obeys; the store refuses it if there is a later one.
//! 2. A process that learns of an epoch applies its kills before it obeys that epoch: none of its calls passes in between.
//! 3. Calls that reserve nothing are admitted for [`STORE_LEASE`] after the store was last asked for its epoch. So once that
//!    time is over, or every process has confirmed that it obeys, no call of what was killed is admitted anywhere.
//!
//! A server that restarts can lose kills, and which processes there are:
//!
//! - An epoch is a time of the store, so no later kill gets the epoch of one that was lost. A kill names the epoch before it: a
//!   process whose epoch is not among those of the store has obeyed a kill that was lost, and takes that for a kill of all.
//! - A process that the store no longer knows reports again before its lease is renewed, and a kill within [`STORE_LEASE`]
//!   of the start waits for the leases of before. A kill that is lost while it waits is repeated.
//!
//! Decision: an admission is two requests and not one. The reservation checks the epoch of kills; the lines of the run, which
//! follow it, check the epoch of the run alone. One function for both would have to refuse lines, but settlements are lines as
//! well and must never be refused. And a kill could not be applied where lines are written: the trace of the run is locked
//! there, and the abort of the run is written to it. It is safe because a kill reaches calls between the two requests in
//! another way: such a call is in flight in its run, and step 2 aborts it before the process confirms. A process that was
//! suspended between the two does not confirm, so the kill waits for its lease. When it continues, its lines are refused if
//! another process has taken the run. Otherwise a gateway finds its lease over before it sends the call
//! ([`RunHandle::check_store`](crate::RunHandle::check_store)). A process that was suspended after that check, and a loop of the
//! library, send at most the calls that they had reserved before the kill, and abort them at their next look, within
//! [`STORE_POLL`].

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use endstop_core::units::WallTime;
use serde::{Deserialize, Serialize};

use super::super::store::BudgetStoreError;
use super::wire::Request;
use super::{RedisBudgetStore, RedisServer};
use crate::clock::system_wall_time;
use crate::json::json_of;
use crate::limits::{KILL_RECHECK, MAX_KNOWN_KILLS, STORE_LEASE, STORE_POLL};
use crate::store::RunId;

/// The reach of a kill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KillTarget {
    /// Every run of every process that uses the store now.
    All,
    /// The runs of this name.
    Run(String),
    /// The runs of the key of this name, now and later.
    Key(String),
    /// The runs that draw on this budget, now and later.
    Budget(String),
}

/// A kill that all processes of a store obey.
///
/// See the example of [`RedisBudgetStore::kill`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreKill {
    /// Its reach.
    pub target: KillTarget,
    /// The person or program that killed, and the reason.
    pub why: String,
}

/// A kill that holds everywhere.
///
/// See the example of [`RedisBudgetStore::kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillReceipt {
    /// The processes that have confirmed it.
    pub confirmed: u64,
    /// Those that were there lately and have not. They admit nothing until they obey: they are cut off, or have died.
    pub silent: u64,
}

/// A kill that a store has recorded.
///
/// See [`RedisBudgetStore::kills`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastKill {
    /// The kill.
    pub kill: StoreKill,
    /// When it began, by the clock of the machine that killed. `None` if that is not recorded.
    pub at: Option<WallTime>,
}

/// A kill as it is read back with its time.
#[derive(Deserialize)]
struct DatedKill {
    #[serde(flatten)]
    kill: StoreKill,
    at: Option<u64>,
}

impl PastKill {
    /// The kill of a record, as processes of this version obey it.
    fn read(record: &str) -> Self {
        match serde_json::from_str::<DatedKill>(record) {
            Ok(DatedKill { kill, at }) => Self { kill, at: at.map(WallTime) },
            Err(_) => Self { kill: unreadable(), at: None },
        }
    }
}

/// The kill that one counts as that cannot be read: it may have been for anything.
fn unreadable() -> StoreKill {
    let why = "a kill of the store that cannot be read here, so it counts as one of all";
    StoreKill { target: KillTarget::All, why: why.to_owned() }
}

/// A kill as the store has it.
#[derive(Serialize)]
struct KillRecord<'k> {
    #[serde(flatten)]
    kill: &'k StoreKill,
    /// When it began, by the clock of the machine that killed: milliseconds since 1970. For people.
    at: u64,
}

/// Takes a kill.
type Receiver = Box<dyn Fn(&StoreKill) + Send + Sync>;

/// The epochs of a store as this process knows them.
pub(super) struct Kills {
    /// This process in the store.
    process: String,
    state: Mutex<KillState>,
    /// Held while kills are learned, so that they are applied once.
    learning: Mutex<()>,
    receivers: Mutex<Vec<Receiver>>,
    /// Whether the store knows that this process admits calls.
    is_member: AtomicBool,
}

#[derive(Default)]
struct KillState {
    obeyed: u64,
    /// A moment at which that was the epoch of the store.
    confirmed: Option<Instant>,
    known: Vec<StoreKill>,
    /// Everything was killed.
    all: Option<String>,
}

impl fmt::Debug for Kills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kills").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Kills {
    pub(super) fn new() -> Self {
        Self {
            process: RunId::new().to_string(),
            state: Mutex::default(),
            learning: Mutex::default(),
            receivers: Mutex::default(),
            is_member: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, KillState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receivers(&self) -> MutexGuard<'_, Vec<Receiver>> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process starts in an epoch: earlier kills do not concern it.
    pub(super) fn begin(&self, epoch: u64) {
        let mut state = self.state();
        (state.obeyed, state.confirmed) = (epoch, Some(Instant::now()));
    }

    /// The epoch that is obeyed.
    pub(super) fn obeyed(&self) -> Result<u64, BudgetStoreError> {
        let state = self.state();
        match &state.all {
            Some(why) => Err(BudgetStoreError::Killed(why.clone())),
            None => Ok(state.obeyed),
        }
    }

    /// The epoch that is obeyed, whatever it killed.
    pub(super) fn epoch(&self) -> u64 {
        self.state().obeyed
    }

    /// The epoch of the store, as it was after a moment. Whether it is obeyed.
    pub(super) fn heard(&self, asked: Instant, epoch: u64) -> bool {
        let mut state = self.state();
        let is_obeyed = state.obeyed == epoch;
        if is_obeyed {
            state.confirmed = state.confirmed.max(Some(asked));
        }
        is_obeyed
    }

    fn apply(&self, kill: StoreKill) {
        let receivers = self.receivers();
        receivers.iter().for_each(|receiver| receiver(&kill));
        let has_receiver = !receivers.is_empty();
        drop(receivers);
        let mut state = self.state();
        let is_too_many = state.known.len() >= MAX_KNOWN_KILLS;
        if kill.target == KillTarget::All || is_too_many {
            state.all = Some(kill.why.clone());
        }
        // For receivers that register later.
        if !has_receiver && !is_too_many {
            state.known.push(kill);
        }
    }
}

impl RedisServer {
    /// Applies the kills of the store that are not obeyed yet.
    pub(super) fn learn_kills(&self) -> Result<(), BudgetStoreError> {
        let _learning = self.kills.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let after = self.kills.state().obeyed;
        let request = Request { after: Some(after), ..Request::default() };
        let reply = self.call("kills", request, true)?;
        let (epoch, is_whole) = (reply.number(0)?, reply.number(1)? == 1);
        let texts = reply.texts(2);
        let read = texts.iter().filter_map(|text| serde_json::from_str::<StoreKill>(text).ok());
        let kills: Vec<StoreKill> = read.collect();
        // One of a later version or one that is gone may have been for anything, and so may a store that was emptied.
        if !is_whole || kills.len() != texts.len() {
            self.kills.apply(unreadable());
        }
        kills.into_iter().for_each(|kill| self.kills.apply(kill));
        // The lease is renewed when the store knows that this process obeys the epoch, not before.
        self.kills.state().obeyed = epoch;
        Ok(())
    }

    /// Reports to the store which epoch this process obeys. Returns whether that is the epoch of the store: then its lease
    /// is renewed.
    pub(super) fn confirm(&self) -> Result<bool, BudgetStoreError> {
        let asked = Instant::now();
        let (id, epoch) = (&*self.kills.process, Some(self.kills.epoch()));
        let reply = self.call("obey", Request { id, epoch, ..Request::default() }, true)?;
        Ok(self.kills.heard(asked, reply.number(0)?))
    }

    /// Enters this process in the store as one that admits calls, before the first of them: kills wait for its word.
    pub(super) fn enter(&self) -> Result<(), BudgetStoreError> {
        self.kills.obeyed()?;
        if self.kills.is_member.load(Ordering::Acquire) {
            return Ok(());
        }
        // A kill before this is learned here; a later one finds the entry.
        while !self.confirm()? {
            self.learn_kills()?;
        }
        self.kills.is_member.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn is_member(&self) -> bool {
        self.kills.is_member.load(Ordering::Acquire)
    }

    /// The request for the time and the epoch: from a process that admits calls with the question whether the store knows the
    /// epoch that it obeys.
    pub(super) fn greeting(&self, is_member: bool) -> Request<'_> {
        match is_member {
            true => Request {
                id: &self.kills.process,
                epoch: Some(self.kills.epoch()),
                ..Request::default()
            },
            false => Request::default(),
        }
    }

    /// Removes the entry.
    pub(super) fn leave(&self) {
        if self.kills.is_member.swap(false, Ordering::AcqRel) {
            let request = Request { id: &self.kills.process, ends: true, ..Request::default() };
            // An entry that stays is one of a process that died.
            let _ = self.call("obey", request, true);
        }
    }

    /// Whether a call that reserves nothing may begin.
    pub(super) fn admit(&self) -> Result<(), BudgetStoreError> {
        self.enter()?;
        let confirmed = {
            let state = self.kills.state();
            if let Some(why) = &state.all {
                return Err(BudgetStoreError::Killed(why.clone()));
            }
            state.confirmed
        };
        if confirmed.is_some_and(|at| at.elapsed() <= STORE_LEASE) {
            return Ok(());
        }
        let why = self.connections.away();
        let why = why.unwrap_or_else(|| "it has not answered for some seconds".to_owned());
        Err(BudgetStoreError::Away { server: self.server.clone(), why })
    }
}

impl RedisBudgetStore {
    /// Kills over all processes of the store, and waits until no call of what is killed is admitted anywhere: until every
    /// process has confirmed it, or for three seconds. If the server has just started, it waits until three seconds after that,
    /// because the server may have lost which processes there are. Each process aborts its calls in flight within a second.
    ///
    /// ```no_run
    /// use endstop_runtime::account::{KillTarget, RedisBudgetStore, StoreKill};
    ///
    /// let store = RedisBudgetStore::open("redis://127.0.0.1:6379")?;
    /// let target = KillTarget::Budget("team-a".to_owned());
    /// let receipt = store.kill(&StoreKill { target, why: "spends too much".to_owned() })?;
    /// println!("{} processes have confirmed it", receipt.confirmed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store does not confirm the kill. It may have begun; the same kill again does no harm.
    pub fn kill(&self, kill: &StoreKill) -> Result<KillReceipt, BudgetStoreError> {
        loop {
            let record = json_of(&KillRecord { kill, at: system_wall_time().0 });
            // A repetition begins one more epoch, which kills the same.
            let request = Request { record: Some(record), ..Request::default() };
            let begun = self.shared.call("kill", request, true)?;
            let (epoch, up) = (begun.number(0)?, Duration::from_millis(begun.number(1)?));
            if let Some(receipt) = self.wait_for_kill(epoch, up) {
                return Ok(receipt);
            }
        }
    }

    /// Waits until a kill holds everywhere, on a server that started this long before it. `None` if the server has lost it.
    fn wait_for_kill(&self, epoch: u64, up: Duration) -> Option<KillReceipt> {
        // From the answer on: a lease cannot have begun later without the epoch.
        let begun = Instant::now();
        let most = STORE_LEASE + STORE_POLL;
        // The leases of processes that the server has forgotten began before its start.
        let least = STORE_POLL.max(most.saturating_sub(up));
        loop {
            let request = Request { epoch: Some(epoch), ..Request::default() };
            let told = self.shared.call("obeyed", request, true).and_then(|told| {
                let receipt = KillReceipt { confirmed: told.number(0)?, silent: told.number(1)? };
                Ok((receipt, told.number(2)?))
            });
            let waited = begun.elapsed();
            if let Ok((receipt, last)) = told {
                if last < epoch {
                    return None;
                }
                if receipt.silent == 0 && waited > least || waited > most {
                    return Some(receipt);
                }
            } else if waited > most {
                return Some(KillReceipt { confirmed: 0, silent: 0 });
            }
            thread::sleep(KILL_RECHECK);
        }
    }

    /// Returns the last kills of the store, the latest last. Each concerns the processes that used the store when it began, and no
    /// later one.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn kills(&self) -> Result<Vec<PastKill>, BudgetStoreError> {
        let records = self.shared.call("kills", Request::default(), true)?.texts(2);
        Ok(records.iter().map(|record| PastKill::read(record)).collect())
    }

    /// Ends the part of this process: it admits no further call, no kill waits for it, and the functions of
    /// [`RedisBudgetStore::on_kill`] and [`RedisBudgetStore::on_outage`] are dropped. Holds can still be settled.
    pub fn leave(&self) {
        let kills = &self.shared.kills;
        kills.state().all = Some("this process has left the store".to_owned());
        self.shared.leave();
        // After the lock, because they can have the last handle of something that is used here.
        let receivers = std::mem::take(&mut *kills.receivers());
        drop(receivers);
        self.shared.listeners.clear();
    }

    /// Calls a function for every kill that comes, before this process obeys it, and for those that came since the store was
    /// opened.
    pub fn on_kill(&self, receive: impl Fn(&StoreKill) + Send + Sync + 'static) {
        let kills = &self.shared.kills;
        // No kill is learned in the meantime.
        let _learning = kills.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kills.state().known.clone();
        known.iter().for_each(&receive);
        kills.receivers().push(Box::new(receive));
    }
}

#[cfg(test)]
mod tests;
