//! Every known run: in memory, or stored.

mod keeper;
mod openings;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use endstop_core::run::Status;
use endstop_core::signal::{BUDGET_SOURCE, StopSignal};
use endstop_core::units::{Money, WallTime};
use endstop_runtime::RunHandle;
use endstop_runtime::cancel::kill_signal;
use endstop_runtime::clock::system_wall_time;
use endstop_runtime::ledger::{Budget, Limits};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{RunLogError, SharedRunLog};
use thiserror::Error;
use tokio::time::Instant;

use super::entry::{Eviction, RunEntry, RunOrigin};
use super::run_log::{OpenLogError, RunLogs};
use crate::client::{ClientId, ClientShare, Shares};
use crate::config::{Config, KeyTable, Runs, Upstreams};
use crate::key_desk::KeyDesk;
use crate::limits::{
    MAX_CONTROL_TAKE, MAX_KILLED_GROUPS, MAX_LISTED, REST_INTERVAL, STOPPED_PER_RUN,
    STORE_PATIENCE, TAKE_RECHECK,
};
use openings::Openings;

/// Every known run.
#[derive(Debug)]
pub(crate) struct Registry {
    config: Arc<Config>,
    logs: Option<RunLogs>,
    openings: Openings,
    runs: Mutex<HashMap<RunId, Arc<RunEntry>>>,
    /// Stop reasons of runs that are evicted and not stored: they get no new budget when they are named again.
    stopped: Mutex<HashMap<RunId, StopSignal>>,
    /// Counts uses, to know the longest idle.
    uses: AtomicU64,
    /// The runs in memory that each client has begun.
    shares: Arc<Shares>,
    /// Groups whose runs are killed, each with the reason.
    killed: Mutex<Vec<(RunGroup, String)>>,
    /// Runs of a shared log that this gateway serves, until they rest.
    served: Mutex<HashSet<RunId>>,
    /// Runs that other gateways have taken, as long as calls of them are in flight here.
    left: Mutex<Vec<Weak<RunEntry>>>,
    /// The last change of the limit of all runs.
    total_change: Mutex<Option<TotalChange>>,
}

/// A change of the limit of the total of all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TotalChange {
    pub(crate) at: WallTime,
    pub(crate) by: String,
    /// Empty if that is not known.
    pub(crate) why: String,
}

/// Runs that are killed together.
///
/// See the example of [`RunKiller`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunGroup {
    /// The run of this name.
    Run(String),
    /// Those whose last call had the key of this name.
    Key(String),
    /// Those that draw on this budget; of one by model or provider, those that have asked for such a model.
    Budget(String),
}

/// Stops runs of a gateway together, from any thread.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::store::RunId;
/// use endstop_gateway::{Config, Gateway, RunGroup, Runs, Upstreams};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let upstreams = Upstreams::all("http://127.0.0.1:9")?;
/// # let program = Arc::new(Program::new(&Policy::from(max_steps(1)), &Probes::new())?);
/// let config = Config::new(upstreams, program, Runs::One(RunId::parse("nightly")?));
/// let gateway = Gateway::start(config).await?;
/// let killer = gateway.killer();
/// assert_eq!(killer.kill(RunGroup::Run("nightly".to_owned()), "spends too much"), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunKiller(Arc<Registry>);

impl RunKiller {
    pub(crate) const fn new(registry: Arc<Registry>) -> Self {
        Self(registry)
    }

    /// For one run that a program drives itself, such as an agent loop.
    #[must_use]
    pub fn of_run(run: RunHandle) -> Self {
        Self(Arc::new(Registry::of_driven_alone(run)))
    }

    /// Stops the runs of a group, and those that come into it later; their calls in flight are aborted. After this no call of
    /// them is admitted. Returns the number of those that had not stopped.
    pub fn kill(&self, group: RunGroup, why: &str) -> u64 {
        self.0.kill_group(group, why)
    }
}

impl RunGroup {
    fn has(&self, run: &RunEntry) -> bool {
        match self {
            Self::Run(name) => run.id().as_str() == name,
            Self::Key(name) => run.handle().key().as_deref() == Some(name.as_str()),
            Self::Budget(name) => run.handle().draws_on_budget(name),
        }
    }
}

/// Why there is no run for a call.
#[derive(Debug, Error)]
pub(crate) enum NoRun {
    /// There are too many, and none of them can be evicted.
    #[error("too many live runs")]
    Full,
    /// The client has too many, and none of them can be evicted.
    #[error("too many live runs of this client")]
    FullOfClient,
    /// Another gateway serves it, or waits for it longer.
    #[error("{} serves the run", if by.is_empty() { "another gateway" } else { by })]
    Held {
        /// Its name, if that is known.
        by: String,
    },
    /// The store that gateways share is away.
    #[error("the store of runs is away: {0}")]
    Away(String),
    /// Its log cannot be read. Its spend is unknown, so it does not begin again.
    #[error("{0}")]
    ReadError(OpenLogError),
}

impl From<OpenLogError> for NoRun {
    fn from(error: OpenLogError) -> Self {
        match error {
            OpenLogError::Log(RunLogError::Held { by }) => Self::Held { by },
            // Between two steps: the next try finds who.
            OpenLogError::Log(RunLogError::Moved) => Self::Held { by: String::new() },
            error if error.is_away() => Self::Away(error.to_string()),
            error => Self::ReadError(error),
        }
    }
}

impl Registry {
    /// The runs of a gateway that starts. Charges a shared budget with the spend of stored runs.
    pub(crate) async fn open(config: Arc<Config>) -> Result<Self, OpenLogError> {
        let logs = match &config.stored_runs {
            Some(stored) => Some(RunLogs::open(stored, config.prices.version()).await?),
            None => None,
        };
        let registry = Self {
            config,
            logs,
            openings: Openings::default(),
            runs: Mutex::default(),
            stopped: Mutex::default(),
            uses: AtomicU64::new(0),
            shares: Arc::default(),
            killed: Mutex::default(),
            served: Mutex::default(),
            left: Mutex::default(),
            total_change: Mutex::default(),
        };
        if registry.logs.is_none() {
            return registry.read_back();
        }
        let reading = tokio::task::spawn_blocking(move || registry.read_back());
        reading.await?
    }

    fn read_back(self) -> Result<Self, OpenLogError> {
        let config = &self.config;
        // The total of one gateway is not that of all that share the log.
        let own = self.logs.as_ref().filter(|logs| logs.shared().is_none());
        if let (Some(logs), Some(budget)) = (own, &config.environment.budget) {
            budget.charge(logs.spent(&config.program)?);
        }
        if let Runs::One(id) = &config.runs {
            let entry =
                RunEntry::open(id.clone(), config, self.logs.as_ref(), RunOrigin::default())?;
            self.runs().insert(id.clone(), Arc::new(entry));
            self.note_served(id);
        }
        Ok(self)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<RunEntry>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The registry of a run that another driver drives, with the usual configuration.
    pub(crate) fn of_driven_alone(run: RunHandle) -> Self {
        let program = run.look(|run| Arc::clone(run.program()));
        let runs = Runs::One(run.info().id.clone());
        // No call goes through it, so no upstream is asked.
        Self::of_driven(run, Arc::new(Config::new(Upstreams::none(), program, runs)))
    }

    /// The registry of a run that another driver drives. No call begins in it.
    pub(crate) fn of_driven(run: RunHandle, config: Arc<Config>) -> Self {
        let (id, entry) = (run.info().id.clone(), Arc::new(RunEntry::driven(run)));
        Self {
            config,
            logs: None,
            openings: Openings::default(),
            runs: Mutex::new(HashMap::from([(id, entry)])),
            stopped: Mutex::default(),
            uses: AtomicU64::new(0),
            shares: Arc::default(),
            killed: Mutex::default(),
            served: Mutex::default(),
            left: Mutex::default(),
            total_change: Mutex::default(),
        }
    }

    fn killed(&self) -> MutexGuard<'_, Vec<(RunGroup, String)>> {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the runs of a group, and those that come into it later. Returns the number of those that had not stopped.
    pub(crate) fn kill_group(&self, group: RunGroup, message: &str) -> u64 {
        {
            // First, so that a run that begins now is stopped by its call.
            let mut killed = self.killed();
            if !killed.iter().any(|(known, _)| *known == group) {
                killed.push((group.clone(), message.to_owned()));
            }
            // Keys and budgets are few; runs end.
            let is_run = |(group, _): &(RunGroup, String)| matches!(group, RunGroup::Run(_));
            if killed.len() > MAX_KILLED_GROUPS
                && let Some(oldest) = killed.iter().position(is_run)
            {
                killed.remove(oldest);
            }
        }
        if let RunGroup::Budget(name) = &group {
            // Before they are asked whether they draw on it: the next call of one that does not finds this.
            let known = self.all().into_iter().chain(self.left_in_flight());
            known.for_each(|run| run.handle().kill_budget(name, message));
        }
        self.kill_those(|run| group.has(run), &kill_signal(message))
    }

    /// Stops all runs in memory, like [`Registry::kill_group`].
    pub(crate) fn kill_all(&self, signal: &StopSignal) -> u64 {
        self.kill_those(|_| true, signal)
    }

    fn kill_those(&self, is_one: impl Fn(&RunEntry) -> bool, signal: &StopSignal) -> u64 {
        let known = self.all().into_iter().chain(self.left_in_flight());
        let runs: Vec<_> = known.filter(|run| is_one(run)).collect();
        let mut count = 0u64;
        // All are cut before the first is written: a store may take its time for each.
        for run in &runs {
            // A run that ended naturally could continue.
            let is_live = !matches!(run.handle().status(), Status::Stopped | Status::Failed);
            count = count.saturating_add(u64::from(is_live));
            run.cut(signal.clone());
        }
        runs.into_iter().for_each(|run| run.notify());
        count
    }

    /// Stops a run whose group was killed. One that comes into the group with this call or later is stopped then.
    pub(crate) fn kill_if_in_group(&self, run: &RunEntry) {
        let message = {
            let killed = self.killed();
            for (group, message) in killed.iter() {
                if let RunGroup::Budget(name) = group {
                    run.handle().kill_budget(name, message);
                }
            }
            let found = killed.iter().find(|(group, _)| group.has(run));
            found.map(|(_, message)| message.clone())
        };
        if let Some(message) = message
            && run.stop().is_none()
        {
            run.kill(kill_signal(message));
        }
    }

    /// A run that is in memory.
    pub(crate) fn get(&self, id: &RunId) -> Option<Arc<RunEntry>> {
        self.runs().get(id).cloned()
    }

    /// All runs in memory, in order of their ids.
    pub(crate) fn all(&self) -> Vec<Arc<RunEntry>> {
        let mut all: Vec<_> = self.runs().values().cloned().collect();
        all.sort_unstable_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// Returns the stored runs that are not in memory, in order of their ids, and whether there are more than are
    /// listed.
    pub(crate) async fn stored(self: &Arc<Self>) -> Result<(Vec<RunId>, bool), OpenLogError> {
        if self.logs.is_none() {
            return Ok((Vec::new(), false));
        }
        let registry = Arc::clone(self);
        let listing = tokio::task::spawn_blocking(move || -> Result<_, OpenLogError> {
            let Some(logs) = &registry.logs else { return Ok((Vec::new(), false)) };
            registry.forget_moved();
            let in_memory = registry.runs().len();
            let most = MAX_LISTED.saturating_add(in_memory).saturating_add(1);
            let mut ids = match logs.ids(most) {
                Err(error) if error.is_away() => return Ok((Vec::new(), true)),
                ids => ids?,
            };
            ids.retain(|id| registry.get(id).is_none());
            ids.sort_unstable();
            let is_truncated = ids.len() > MAX_LISTED;
            ids.truncate(MAX_LISTED);
            Ok((ids, is_truncated))
        });
        listing.await?
    }

    /// Returns a run that is in memory or stored, for a command. It asks no other gateway to hand it over.
    pub(crate) async fn find(self: &Arc<Self>, id: &RunId) -> Result<Option<Arc<RunEntry>>, NoRun> {
        let in_memory = self.get(id);
        let Some(logs) = &self.logs else { return Ok(in_memory) };
        if let Some(entry) = in_memory.filter(|entry| entry.is_here(false)) {
            return Ok(Some(entry));
        }
        if logs.shared().is_none() {
            let is_kept = logs.has(id)?;
            return match is_kept {
                true => self.take(id, RunOrigin::default()).await.map(Some),
                false => Ok(None),
            };
        }
        // One whose call has just ended is about to rest.
        let until = Instant::now() + REST_INTERVAL * 10;
        loop {
            let (registry, asked) = (Arc::clone(self), id.clone());
            let asking = tokio::task::spawn_blocking(move || registry.is_free(&asked));
            match asking.await.map_err(OpenLogError::from)? {
                Ok(true) => break,
                Ok(false) => return Ok(None),
                Err(NoRun::Held { .. }) if Instant::now() < until => {
                    tokio::time::sleep(REST_INTERVAL).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.take_within(id, RunOrigin::default(), MAX_CONTROL_TAKE).await.map(Some)
    }

    /// Whether a shared log has a run, which no other gateway serves now.
    fn is_free(&self, id: &RunId) -> Result<bool, NoRun> {
        let Some(logs) = &self.logs else { return Ok(false) };
        let served_by = logs.shared().map(|shared| shared.served_by(id)).transpose();
        match served_by.map_err(OpenLogError::from)?.flatten() {
            Some(by) => Err(NoRun::Held { by }),
            None => Ok(logs.has(id)?),
        }
    }

    /// Like [`Registry::get_or_begin`]; reads files outside of the async threads, and waits for a run that another gateway
    /// serves as long as calls wait.
    pub(crate) async fn take(
        self: &Arc<Self>,
        id: &RunId,
        origin: RunOrigin<'_>,
    ) -> Result<Arc<RunEntry>, NoRun> {
        self.take_within(id, origin, self.config.pause.0).await
    }

    async fn take_within(
        self: &Arc<Self>,
        id: &RunId,
        origin: RunOrigin<'_>,
        limit: Duration,
    ) -> Result<Arc<RunEntry>, NoRun> {
        if self.logs.is_none() {
            return self.get_or_begin(id, origin);
        }
        let (until, back) = (Instant::now() + limit, Instant::now() + STORE_PATIENCE);
        let [mut pause, longest] = TAKE_RECHECK;
        loop {
            match self.take_now(id, origin).await {
                Err(NoRun::Held { .. }) if Instant::now() < until => {
                    tokio::time::sleep(pause).await;
                    pause = longest.min(pause * 2);
                }
                Err(NoRun::Away(_)) if Instant::now() < until.min(back) => {
                    tokio::time::sleep(longest).await;
                }
                taken => return taken,
            }
        }
    }

    async fn take_now(
        self: &Arc<Self>,
        id: &RunId,
        origin: RunOrigin<'_>,
    ) -> Result<Arc<RunEntry>, NoRun> {
        if let Some(away) = self.shared_log().and_then(SharedRunLog::away) {
            return Err(NoRun::Away(away));
        }
        // In its hands it does not begin to rest.
        if let Some(entry) = self.used(id)
            && entry.is_here(true)
        {
            return Ok(entry);
        }
        let RunOrigin { model, provider, client } = origin;
        let (registry, id) = (Arc::clone(self), id.clone());
        let (model, provider) = (model.to_owned(), provider.to_owned());
        let opening = tokio::task::spawn_blocking(move || {
            let origin = RunOrigin { model: &model, provider: &provider, client };
            registry.get_or_begin(&id, origin)
        });
        opening.await.unwrap_or_else(|error| Err(NoRun::ReadError(error.into())))
    }

    fn shared_log(&self) -> Option<&dyn SharedRunLog> {
        self.logs.as_ref()?.shared()
    }

    /// Returns the run of this id. Continues it if it is stored, and begins it if it is new.
    pub(crate) fn get_or_begin(
        &self,
        id: &RunId,
        origin: RunOrigin<'_>,
    ) -> Result<Arc<RunEntry>, NoRun> {
        if let Some(entry) = self.held(id)? {
            return Ok(entry);
        }
        let _opening = self.openings.begin(id);
        if let Some(entry) = self.held(id)? {
            return Ok(entry);
        }
        let share = origin.client.map(|client| self.share(id, client)).transpose()?;
        self.make_room(id)?;
        let logs = self.logs.as_ref();
        let entry = RunEntry::open(id.clone(), &self.config, logs, origin);
        let entry = Arc::new(entry?.of_client(share));
        let stopped = self.stopped().remove(id);
        if let Some(signal) = stopped {
            entry.stop_again(&signal);
        }
        entry.set_last_used(self.count_use());
        self.runs().insert(id.clone(), Arc::clone(&entry));
        self.note_served(id);
        Ok(entry)
    }

    /// The keys of the gateway for the control API, if it has some.
    pub(crate) fn key_desk(&self) -> Option<Arc<dyn KeyDesk>> {
        self.config.key_desk.clone()
    }

    /// The budget that all runs share, if it limits money.
    pub(crate) fn total(&self) -> Option<&Budget> {
        self.config.environment.budget.as_ref().filter(|budget| budget.limits().cost.is_some())
    }

    fn total_change(&self) -> MutexGuard<'_, Option<TotalChange>> {
        self.total_change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last change of the limit of the total. `None` if it is that of the start.
    pub(crate) fn last_total_change(&self) -> Option<TotalChange> {
        self.total_change().clone()
    }

    /// Replaces the limit of the total of all runs. Runs that it refused continue with their next call, stored ones from
    /// their logs. Returns `false` if there is no total.
    pub(crate) fn set_total(&self, limit: Money, by: &str, why: &str) -> bool {
        let Some(total) = self.total() else { return false };
        // A run that is named now is found as it was, or read back.
        let _none = self.openings.hold_up();
        total.set_limits(Limits { cost: Some(limit), ..total.limits() });
        let (at, by_whom) = (system_wall_time(), by.to_owned());
        *self.total_change() = Some(TotalChange { at, by: by_whom, why: why.to_owned() });
        let refused = self.all().into_iter().filter(|entry| {
            let signal = entry.stop();
            signal.is_some_and(|signal| signal.source.as_deref() == Some(BUDGET_SOURCE))
        });
        for entry in refused {
            // Its log and the history then have who raised the total, and why.
            entry.reopen(by, why);
            if entry.is_stored() && entry.is_log_written() && self.remove_idle(&entry) {
                entry.close_log();
            }
        }
        true
    }

    /// Removes a run from memory, unless something uses it but the caller.
    fn remove_idle(&self, entry: &Arc<RunEntry>) -> bool {
        let mut runs = self.runs();
        let is_known = runs.get(entry.id()).is_some_and(|known| Arc::ptr_eq(known, entry));
        let is_removed = is_known && entry.is_idle_but_for(1) && !entry.has_unwritten();
        if is_removed {
            runs.remove(entry.id());
        }
        is_removed
    }

    fn stopped(&self) -> MutexGuard<'_, HashMap<RunId, StopSignal>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// The run in memory, served here for a call.
    fn held(&self, id: &RunId) -> Result<Option<Arc<RunEntry>>, NoRun> {
        let Some(entry) = self.used(id) else { return Ok(None) };
        match entry.hold() {
            Ok(()) => {
                self.note_served(id);
                Ok(Some(entry))
            }
            Err(RunLogError::Moved) => {
                self.forget(&entry);
                Ok(None)
            }
            Err(error) => Err(OpenLogError::from(error).into()),
        }
    }

    fn used(&self, id: &RunId) -> Option<Arc<RunEntry>> {
        let entry = self.get(id)?;
        entry.set_last_used(self.count_use());
        Some(entry)
    }

    /// Returns a client's share for one more run. Evicts one of its runs if it has too many.
    fn share(&self, id: &RunId, client: ClientId) -> Result<ClientShare, NoRun> {
        let max = self.config.bounds.runs_per_client.max(1);
        if let Some(share) = self.shares.take(client, max) {
            return Ok(share);
        }
        self.forget_one(id, Some(client))?;
        self.shares.take(client, max).ok_or(NoRun::FullOfClient)
    }

    /// Forgets a run if there are too many.
    fn make_room(&self, id: &RunId) -> Result<(), NoRun> {
        let with_this = self.runs().len().saturating_add(self.openings.count());
        let is_full = with_this > self.config.bounds.runs.max(1);
        if is_full { self.forget_one(id, None) } else { Ok(()) }
    }

    /// Forgets a run for the one with this id, among those of one client or of all.
    fn forget_one(&self, id: &RunId, of: Option<ClientId>) -> Result<(), NoRun> {
        let keys = self.config.runs.known_keys();
        let most = self.config.bounds.runs.saturating_mul(STOPPED_PER_RUN);
        self.runs().retain(|_, entry| !(entry.has_moved() && entry.is_idle()));
        let (forgotten, _evicting) = loop {
            let room = Room {
                of,
                keys: &keys,
                for_stopped: {
                    let stopped = self.stopped();
                    // One that comes back leaves its place.
                    stopped.len() < most || stopped.contains_key(id)
                },
            };
            let full = if of.is_some() { NoRun::FullOfClient } else { NoRun::Full };
            let idle = longest_idle(&self.runs(), room).ok_or(full)?;
            // One that cannot be written is not among the idle from here on. No lock is held while it is written.
            if let Some(evicting) = self.openings.evict(idle.id())
                && idle.is_log_written()
                && self.remove_idle(&idle)
            {
                break (idle, evicting);
            }
        };
        if let Some(signal) = forgotten.stop().filter(|_| !forgotten.is_stored()) {
            self.stopped().insert(forgotten.id().clone(), signal);
        }
        forgotten.report_end();
        forgotten.close_log();
        Ok(())
    }
}

/// The runs that are not stored and may be evicted.
#[derive(Clone, Copy)]
struct Room<'c> {
    /// Only those of this client.
    of: Option<ClientId>,
    /// Those that are the only run of an issued key never.
    keys: &'c KeyTable,
    /// Stopped runs, as long as their stop can be recorded.
    for_stopped: bool,
}

/// Returns the run to evict: the longest idle one of those in which nothing was spent, otherwise of those that ended
/// naturally, otherwise of those whose calls all failed without a charge, otherwise of those that were stopped, which stay
/// stopped. A run that is named again begins again if it is not stored, so another one that has not ended is evicted only
/// if it is stored.
fn longest_idle(runs: &HashMap<RunId, Arc<RunEntry>>, room: Room<'_>) -> Option<Arc<RunEntry>> {
    let rank = |id: &RunId, run: &RunEntry| {
        if run.has_log_problem() || room.of.is_some() && run.client() != room.of {
            return None;
        }
        let is_stored = run.is_stored();
        if !is_stored && room.keys.is_only_run(id) {
            return None;
        }
        match run.eviction() {
            Eviction::Untouched => Some(0u8),
            Eviction::Ended => Some(1),
            Eviction::Free => Some(2),
            Eviction::Stopped => (is_stored || room.for_stopped).then_some(3),
            Eviction::Running => is_stored.then_some(4),
        }
    };
    let idle = runs.iter().filter(|(_, run)| run.is_idle());
    let ranked = idle.filter_map(|(id, run)| Some(((rank(id, run)?, run.last_used(), id), run)));
    ranked.min_by_key(|(order, _)| *order).map(|(_, run)| Arc::clone(run))
}

#[cfg(test)]
mod tests;
