//! Accounts in Redis or Valkey, shared by processes on many machines.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use endstop_core::units::WallTime;
use redis::{Cmd, RedisError, Value, cmd};

use self::address::{Address, why};
use self::connections::{CallError, Connections};
use self::kills::Kills;
use self::spool::{Settlement, Spool};
use self::watch::Listeners;
use super::counters::check_id;
use super::limit::COUNTED;
use super::refused::AccountRefused;
use super::spec::Account;
use super::store::{
    AccountState, Adjustment, BudgetStore, BudgetStoreError, HoldTerms, LimitState, PastAdjustment,
};
use crate::clock::{WallClock, millis, system_wall_time};
use crate::json::json_of;
use crate::ledger::Amounts;
use crate::limits::{MAX_PAST_ADJUSTMENTS, MAX_SPAN_TRIES};

mod address;
mod connections;
mod keys;
mod kills;
mod persistence;
mod spool;
mod watch;
mod wire;

pub use keys::{StoreKeyChange, StoreKeys};
pub use kills::{KillReceipt, KillTarget, PastKill, StoreKill};
pub use persistence::StorePersistence;
pub(crate) use wire::{Reply, Request};

/// The functions, with `LIBRARY` for the name of the library.
const LIBRARY: &str = concat!(
    include_str!("redis/library.lua"),
    include_str!("redis/runs.lua"),
    include_str!("redis/keys.lua")
);
/// The last format of the keys that is known.
const FORMAT: u64 = 1;

/// Accounts in Redis 7 or Valkey, which any number of processes on any number of machines share. Clones are the same handle.
///
/// Each operation is one function on the server, which checks and counts in one step, and happens completely or not at all.
/// Several commands would have to be repeated whenever another process was faster, most often when a budget is nearly used up.
/// The time is that of the server. Money is counted in nano-dollars there, each amount rounded up.
///
/// The server keeps ids for a while: that of a settled hold for ten minutes, of an expired one for seven days, of a correction for
/// 400 days. Repeated within that time, an operation counts once. Later, a settlement finds no hold, and a reservation or a
/// correction counts again.
///
/// While the server is away, reservations fail, and settlements wait in the spool of [`RedisBudgetStore::with_spool`]. A restart
/// of the server can lose counts, depending on its configuration: see [`RedisBudgetStore::persistence`].
///
/// ```no_run
/// use endstop_runtime::account::{Account, BudgetStore, RedisBudgetStore};
///
/// let store = RedisBudgetStore::open("rediss://endstop:PASSWORD@redis.example:6380/0?namespace=team")?;
/// let me = Account::new("me", &["$5 per day"])?;
/// println!("{:?}", store.read(&[&me])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RedisBudgetStore {
    shared: Arc<RedisServer>,
}

/// A server, the connections to it, and what this process knows of it.
pub(crate) struct RedisServer {
    connections: Connections,
    /// The address without the password.
    pub(crate) server: String,
    prefix: String,
    /// The name of the library, which changes with its code.
    functions: String,
    /// A clock instead of the server's.
    wall: Option<WallClock>,
    /// How far the time of the store is ahead of the clock of this machine, in milliseconds, when it was last heard of.
    ahead: AtomicI64,
    kills: Kills,
    listeners: Listeners,
    spool: OnceLock<Spool>,
    /// See [`RedisBudgetStore::unread`].
    unread: OnceLock<BudgetStoreError>,
}

impl RedisBudgetStore {
    /// Returns the store at an address: `redis://HOST:PORT/DB`, or `rediss://` for TLS, with `USER:PASSWORD@` before
    /// the host. After a `?` follow `namespace=NAME`, so that several stores share a server, and `ca=FILE` with the
    /// root certificates in PEM that replace those of the system.
    ///
    /// # Errors
    /// Returns an error if the address cannot be read, the server not be reached, or a later version of the program
    /// uses the namespace.
    pub fn open(address: &str) -> Result<Self, BudgetStoreError> {
        Self::open_at(address, None)
    }

    /// Like [`RedisBudgetStore::open`], with a clock instead of the server's: for tests. All handles need the same one.
    ///
    /// # Errors
    /// Returns the errors of [`RedisBudgetStore::open`].
    pub fn open_with_clock(address: &str, wall: WallClock) -> Result<Self, BudgetStoreError> {
        Self::open_at(address, Some(wall))
    }

    fn open_at(address: &str, wall: Option<WallClock>) -> Result<Self, BudgetStoreError> {
        let Address { client, shown: server, prefix } = Address::parse(address)?;
        let hash = xxhash_rust::xxh3::xxh3_64(LIBRARY.as_bytes());
        let shared = Arc::new(RedisServer {
            connections: Connections::new(client),
            server,
            prefix,
            functions: format!("endstop_{FORMAT}_{hash:016x}"),
            wall,
            ahead: AtomicI64::new(0),
            kills: Kills::new(),
            listeners: Listeners::default(),
            spool: OnceLock::new(),
            unread: OnceLock::new(),
        });
        let hello = shared.call("hello", Request::default(), true)?;
        shared.set_time(hello.number(0)?);
        shared.kills.begin(hello.number(1)?);
        watch::start(&shared);
        Ok(Self { shared })
    }

    /// Keeps settlements in a directory while the server is away, in a file that only the user can read. They are sent once it
    /// is back, those of earlier processes too.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created. A line that is no settlement is none: see
    /// [`RedisBudgetStore::unread`].
    pub fn with_spool(self, directory: impl AsRef<Path>) -> Result<Self, BudgetStoreError> {
        let directory = directory.as_ref();
        let spool = Spool::open(directory, &self.shared.server);
        let spool = spool.map_err(|error| BudgetStoreError::Failed {
            doing: "keep settlements for a store that is away",
            path: directory.to_owned(),
            why: error.to_string(),
        })?;
        // A second directory changes nothing: the first has what waits.
        let _ = self.shared.spool.set(spool);
        if let Some(error) = self.shared.send_spooled() {
            let _ = self.shared.unread.set(error);
        }
        Ok(self)
    }

    /// Returns the first line of the spool that was no settlement when it was opened, as an error with the file. The line stays
    /// there, and the others are sent. Its call is charged its worst case once its hold has expired, so no budget is exceeded.
    #[must_use]
    pub fn unread(&self) -> Option<&BudgetStoreError> {
        self.shared.unread.get()
    }

    /// The server and the connections to it.
    pub(crate) fn shared(&self) -> Arc<RedisServer> {
        Arc::clone(&self.shared)
    }

    /// Returns the address, without the user and the password.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.shared.server
    }
}

impl fmt::Debug for RedisBudgetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBudgetStore")
            .field("server", &self.shared.server)
            .finish_non_exhaustive()
    }
}

impl RedisServer {
    /// Calls a function of the library, which is loaded if the server does not have it. `can_repeat` says whether it may
    /// happen twice.
    pub(crate) fn call(
        &self,
        function: &'static str,
        request: Request<'_>,
        can_repeat: bool,
    ) -> Result<Reply, BudgetStoreError> {
        self.call_with(function, request, can_repeat, &[])
    }

    /// Like [`RedisServer::call`], with more behind the request.
    pub(crate) fn call_with(
        &self,
        function: &'static str,
        request: Request<'_>,
        can_repeat: bool,
        more: &[&[u8]],
    ) -> Result<Reply, BudgetStoreError> {
        let mut command = self.command(function, request);
        for text in more {
            command.arg(*text);
        }
        let mut answer = self.connections.call(&command, can_repeat);
        if matches!(&answer, Err(CallError::Server(error)) if is_missing_function(error)) {
            self.load()?;
            answer = self.connections.call(&command, can_repeat);
        }
        let value = answer.map_err(|error| self.failed(function, error))?;
        self.reply(function, value)
    }

    /// Why the server is away, as far as is known without asking it.
    pub(crate) fn away(&self) -> Option<String> {
        self.connections.away()
    }

    fn command(&self, function: &str, mut request: Request<'_>) -> Cmd {
        request.at = self.wall.as_ref().map(|wall| wall().0);
        let text = json_of(&request);
        let mut command = cmd("FCALL");
        command.arg(format!("{}_{function}", self.functions)).arg(1).arg(&self.prefix).arg(text);
        command
    }

    fn reply(&self, function: &'static str, value: Value) -> Result<Reply, BudgetStoreError> {
        let reply = Reply::read(value, operation(function), &self.server)?;
        if reply.word == "NEWER" {
            let path = format!("{} ({})", self.server, self.prefix).into();
            return Err(BudgetStoreError::Newer { path, found: reply.number(0)?, known: FORMAT });
        }
        Ok(reply)
    }

    fn load(&self) -> Result<(), BudgetStoreError> {
        let code = LIBRARY.replace("LIBRARY", &self.functions);
        let mut command = cmd("FUNCTION");
        command.arg("LOAD").arg(code);
        match self.connections.call(&command, true) {
            // Another process was faster.
            Err(CallError::Server(error)) if why(&error).contains("already exists") => Ok(()),
            Err(error) => Err(self.failed("load the functions", error)),
            Ok(_) => Ok(()),
        }
    }

    fn failed(&self, function: &'static str, error: CallError) -> BudgetStoreError {
        let (server, doing) = (self.server.clone(), operation(function));
        match error {
            CallError::Away(why) => BudgetStoreError::Away { server, why },
            CallError::Server(error) => {
                let mut text = why(&error);
                if text.contains("unknown command") {
                    text.push_str("; it has to be Redis 7 or later, or Valkey");
                }
                BudgetStoreError::Failed { doing, path: server.into(), why: text }
            }
        }
    }

    /// The clock of this machine, or that of a test.
    fn clock(&self) -> u64 {
        self.wall.as_ref().map_or_else(system_wall_time, |wall| wall()).0
    }

    /// The time of the store, as far as is known here.
    fn now(&self) -> u64 {
        self.clock().saturating_add_signed(self.ahead.load(Ordering::Relaxed))
    }

    fn set_time(&self, now: u64) {
        let ahead = i128::from(now) - i128::from(self.clock());
        self.ahead.store(i64::try_from(ahead).unwrap_or(0), Ordering::Relaxed);
    }

    /// Calls a function whose request has calendar windows, again if it says that they are those of another time.
    fn call_in_time<'r>(
        &self,
        function: &'static str,
        accounts: &[&'r Account],
        can_repeat: bool,
        request: impl Fn() -> Request<'r>,
    ) -> Result<Reply, BudgetStoreError> {
        for _ in 0..MAX_SPAN_TRIES {
            let limits = wire::limits(accounts, self.now());
            let reply = self.call(function, Request { limits, ..request() }, can_repeat)?;
            if reply.word != "SPAN" {
                return Ok(reply);
            }
            self.set_time(reply.number(0)?);
        }
        Err(BudgetStoreError::Failed {
            doing: operation(function),
            path: self.server.clone().into(),
            why: "its clock jumps".to_owned(),
        })
    }

    fn done(&self, reply: &Reply, accounts: &[&Account], id: &str) -> Result<(), BudgetStoreError> {
        match reply.word.as_str() {
            "OK" => Ok(()),
            "ENDED" => Err(BudgetStoreError::Ended(id.to_owned())),
            "UNKNOWN" => Err(BudgetStoreError::UnknownHold(id.to_owned())),
            "REFUSED" => Err(BudgetStoreError::Refused(Box::new(refused(reply, accounts)?))),
            word => Err(BudgetStoreError::Failed {
                doing: "use a budget",
                path: self.server.clone().into(),
                why: format!("it answers `{word}`"),
            }),
        }
    }

    fn settle_now(&self, id: &str, actual: &Amounts) -> Result<(), BudgetStoreError> {
        let amounts = Some(wire::nanos(actual));
        let reply = self.call("settle", Request { id, amounts, ..Request::default() }, true)?;
        self.done(&reply, &[], id)
    }

    /// Sends settlements that waited. Returns an error if some of them cannot be read; they stay.
    fn send_spooled(&self) -> Option<BudgetStoreError> {
        let spool = self.spool.get().filter(|spool| !spool.is_empty())?;
        // A file that cannot be read now is tried again.
        let sent = spool.send(|settlement| {
            let settled = self.settle_now(settlement.id(), &settlement.actual());
            // A hold that the store has forgotten has nothing to settle.
            matches!(
                settled,
                Ok(()) | Err(BudgetStoreError::UnknownHold(_) | BudgetStoreError::Id(_))
            )
        });
        sent.ok()?.unread.map(|line| BudgetStoreError::Failed {
            doing: "send the settlements that wait",
            path: spool.path().to_owned(),
            why: format!("{line}; until the file is moved away, each start says this"),
        })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The refusal of a correction that takes back more than was spent.
fn not_spent(reply: &Reply, account: &Account) -> Result<BudgetStoreError, BudgetStoreError> {
    // The library counts from 1.
    let at = usize::try_from(reply.number(0)?).unwrap_or(usize::MAX);
    let dimension = at.checked_sub(1).and_then(|at| COUNTED.get(at)).copied();
    let Some(dimension) = dimension else {
        return Err(BudgetStoreError::Failed {
            doing: "correct a budget",
            path: "store".into(),
            why: "it refuses by a unit that it does not count".to_owned(),
        });
    };
    let amount = |at| reply.number(at).map(|count| wire::from_nanos(dimension, count));
    let (account, asked, most) = (account.name.clone(), amount(1)?, amount(2)?);
    Ok(BudgetStoreError::NotSpent { account, dimension, asked, most })
}

/// The refusal of a reply.
fn refused(reply: &Reply, accounts: &[&Account]) -> Result<AccountRefused, BudgetStoreError> {
    let at = usize::try_from(reply.number(0)?).unwrap_or(usize::MAX);
    let all =
        accounts.iter().flat_map(|account| account.limits.iter().map(move |it| (account, it)));
    let Some((account, limit)) = all.into_iter().nth(at) else {
        return Err(BudgetStoreError::Failed {
            doing: "use a budget",
            path: "store".into(),
            why: "it refuses by a limit that was not asked for".to_owned(),
        });
    };
    let amount = |at| reply.number(at).map(|count| wire::from_nanos(limit.dimension, count));
    Ok(AccountRefused {
        account: account.name.clone(),
        on_full: account.on_full,
        limit: wire::counted_limit(limit),
        settled: amount(1)?,
        held: amount(2)?,
        asked: amount(3)?,
        now: WallTime(reply.number(4)?),
        resets_at: reply.time(5)?,
        zone: account.zone.clone(),
    })
}

/// The work of a function of the library, in an error after `cannot`. Other texts stay.
fn operation(function: &'static str) -> &'static str {
    match function {
        "reserve" => "reserve on a budget",
        "grow" => "extend a hold",
        "settle" => "settle a hold",
        "read" => "read the budgets",
        "adjust" => "correct a budget",
        "adjustments" => "read the corrections of a budget",
        "hello" => "greet the server",
        "kills" => "read the kills",
        "obey" | "obeyed" => "confirm a kill",
        "take" => "take over a run",
        "append" => "write to a run",
        "lines" | "written" => "read a run",
        "rest" => "release a run",
        "renew" => "keep runs",
        "runs" => "list runs",
        "keys" => "read the keys",
        "change_keys" => "change the keys",
        "wanted" => "ask which runs are wanted",
        other => other,
    }
}

fn is_missing_function(error: &RedisError) -> bool {
    why(error).contains("Function not found")
}

impl BudgetStore for RedisBudgetStore {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        check_id(terms.id)?;
        self.shared.enter()?;
        let amounts = Some(wire::nanos(&amounts));
        loop {
            let epoch = self.shared.kills.obeyed()?;
            let reply = self.shared.call_in_time("reserve", accounts, true, || Request {
                id: terms.id,
                owner: terms.owner,
                ttl: Some(millis(terms.ttl)),
                amounts,
                epoch: Some(epoch),
                ..Request::default()
            })?;
            if reply.word != "KILLED" {
                return self.shared.done(&reply, accounts, terms.id);
            }
            // The kill is applied here before another call is admitted.
            self.shared.learn_kills()?;
        }
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        let request = Request {
            id,
            ttl: Some(millis(ttl)),
            amounts: Some(wire::nanos(&by)),
            limits: wire::limits(accounts, self.shared.now()),
            ..Request::default()
        };
        // It would add twice.
        let can_repeat = by.is_zero();
        let reply = self.shared.call("grow", request, can_repeat)?;
        self.shared.done(&reply, accounts, id)
    }

    /// While the server is away, the settlement waits in the spool, if there is one, and this succeeds.
    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        match self.shared.settle_now(id, &actual) {
            Err(error @ (BudgetStoreError::Away { .. } | BudgetStoreError::Failed { .. })) => {
                let spooled = self.shared.spool.get().ok_or_else(|| error.to_string());
                let spooled = spooled.and_then(|spool| {
                    spool.add(&Settlement::new(id, &actual)).map_err(|error| error.to_string())
                });
                spooled.map_err(|_| error)
            }
            settled => settled,
        }
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        let reply = self.shared.call_in_time("read", accounts, true, Request::default)?;
        self.shared.done(&reply, accounts, "")?;
        let (now, wall) = (reply.number(0)?, reply.number(1)?);
        let mut at = 2;
        let mut states = Vec::with_capacity(accounts.len());
        for account in accounts {
            let mut limits = Vec::with_capacity(account.limits.len());
            for limit in &account.limits {
                let amount =
                    |at| reply.number(at).map(|count| wire::from_nanos(limit.dimension, count));
                let state = LimitState {
                    limit: *limit,
                    settled: amount(at)?,
                    held: amount(at + 1)?,
                    unconfirmed: amount(at + 2)?,
                    resets_at: reply.time(at + 3)?,
                    resets_text: None,
                };
                at += 4;
                limits.push(state.with_reset(account));
            }
            states.push(AccountState {
                account: account.name.clone(),
                now: WallTime(now),
                clock_behind: Duration::from_millis(now.saturating_sub(wall)),
                limits,
            });
        }
        Ok(states)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        let Adjustment { id, account, parents, spent, returned, who, why } = adjustment;
        check_id(id)?;
        let (spent, returned) = (wire::nanos(spent), wire::nanos(returned));
        let mut change = spent.map(u64::cast_signed);
        change.iter_mut().zip(returned).for_each(|(it, back)| *it -= back.cast_signed());
        let record = serde_json::json!({
            "account": account.name,
            "who": who,
            "why": why,
            "spent": spent,
            "returned": returned,
            "at": self.shared.now(),
        });
        let accounts: Vec<&Account> = parents.iter().chain([account]).copied().collect();
        let reply = self.shared.call_in_time("adjust", &accounts, true, || Request {
            id,
            name: &account.name,
            change: Some(change),
            record: Some(record.to_string()),
            ..Request::default()
        })?;
        if reply.word == "UNSPENT" {
            return Err(not_spent(&reply, account)?);
        }
        self.shared.done(&reply, &accounts, id)
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        let count = u64::try_from(most.min(MAX_PAST_ADJUSTMENTS)).unwrap_or(0);
        if count == 0 {
            return Ok(Vec::new());
        }
        let request = Request { name: account, count: Some(count), ..Request::default() };
        let reply = self.shared.call("adjustments", request, true)?;
        self.shared.done(&reply, &[], "")?;
        let records = reply.texts(0);
        // A record in another form is of another version.
        Ok(records.iter().rev().filter_map(|record| wire::past_adjustment(record)).collect())
    }

    fn admit(&self) -> Result<(), BudgetStoreError> {
        self.shared.admit()
    }
}

#[cfg(test)]
mod tests;
