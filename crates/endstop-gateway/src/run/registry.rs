//! Every run that is known: in memory, or kept in a folder.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop::core::run::Status;
use endstop::core::signal::StopSignal;
use endstop::store::RunId;

use super::RunEntry;
use super::keep::Keep;
use crate::config::{Config, Key, Runs};

/// Most kept runs that are listed of those that are not in memory: some megabytes.
const MAX_LISTED: usize = 50_000;

/// Every run that is known.
#[derive(Debug)]
pub(crate) struct Registry {
    config: Arc<Config>,
    keep: Option<Keep>,
    /// Held while a run is begun or read back, before any other lock: two requests never open the same run twice.
    opening: Mutex<()>,
    runs: Mutex<HashMap<RunId, Arc<RunEntry>>>,
    /// Why those stopped that are forgotten and not kept: they have no new budget when they are named again.
    stopped: Mutex<HashMap<RunId, StopSignal>>,
    /// Counts uses, to know the longest idle.
    uses: AtomicU64,
}

/// Why there is no run for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRun {
    /// There are too many, and none of them can be forgotten.
    Full,
    /// What is kept of it cannot be read. What it has spent is not known, so it does not begin anew.
    Unreadable(String),
}

impl Registry {
    /// The runs of a gateway that starts. A shared budget is charged with what kept runs have spent.
    pub(crate) async fn open(config: Arc<Config>) -> Result<Self, String> {
        let keep = match &config.keep {
            Some(folder) => Some(Keep::open(folder, config.prices.version()).await?),
            None => None,
        };
        let registry = Self {
            config,
            keep,
            opening: Mutex::default(),
            runs: Mutex::default(),
            stopped: Mutex::default(),
            uses: AtomicU64::new(0),
        };
        if registry.keep.is_none() {
            return registry.read_back();
        }
        let reading = tokio::task::spawn_blocking(move || registry.read_back());
        reading.await.map_err(|error| error.to_string())?
    }

    fn read_back(self) -> Result<Self, String> {
        let config = &self.config;
        if let (Some(keep), Some(budget)) = (&self.keep, &config.around.budget) {
            budget.charge(keep.spent(&config.program)?);
        }
        if let Runs::One(id) = &config.runs {
            let entry = RunEntry::open(id.clone(), config, self.keep.as_ref(), "", "")?;
            self.runs().insert(id.clone(), Arc::new(entry));
        }
        Ok(self)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<RunEntry>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run that is in memory.
    pub(crate) fn get(&self, id: &RunId) -> Option<Arc<RunEntry>> {
        self.runs().get(id).cloned()
    }

    /// All runs in memory, in order of their ids.
    pub(crate) fn all(&self) -> Vec<Arc<RunEntry>> {
        let mut all: Vec<_> = self.runs().values().cloned().collect();
        all.sort_unstable_by(|a, b| a.driven.info().id.cmp(&b.driven.info().id));
        all
    }

    /// Kept runs that are not in memory, in order of their ids, and whether there are more than are listed.
    pub(crate) async fn kept(self: &Arc<Self>) -> Result<(Vec<RunId>, bool), String> {
        if self.keep.is_none() {
            return Ok((Vec::new(), false));
        }
        let registry = Arc::clone(self);
        let listing = tokio::task::spawn_blocking(move || {
            let Some(keep) = &registry.keep else { return Ok((Vec::new(), false)) };
            let mut kept = BTreeSet::new();
            for id in keep.ids()? {
                let id = id?;
                if registry.get(&id).is_none() {
                    kept.insert(id);
                }
                if kept.len() > MAX_LISTED {
                    kept.pop_last();
                    return Ok((kept.into_iter().collect(), true));
                }
            }
            Ok((kept.into_iter().collect(), false))
        });
        listing.await.map_err(|error| error.to_string())?
    }

    /// A run that is in memory or kept.
    pub(crate) async fn find(self: &Arc<Self>, id: &RunId) -> Result<Option<Arc<RunEntry>>, NoRun> {
        let is_kept = || self.keep.as_ref().is_some_and(|keep| keep.has(id));
        match self.get(id) {
            Some(entry) => Ok(Some(entry)),
            None if is_kept() => self.take(id, "", "").await.map(Some),
            None => Ok(None),
        }
    }

    /// As [`Registry::get_or_begin`]; files are read beside the runtime.
    pub(crate) async fn take(
        self: &Arc<Self>,
        id: &RunId,
        model: &str,
        provider: &str,
    ) -> Result<Arc<RunEntry>, NoRun> {
        if let Some(entry) = self.used(id) {
            return Ok(entry);
        }
        if self.keep.is_none() {
            return self.get_or_begin(id, model, provider);
        }
        let (registry, id) = (Arc::clone(self), id.clone());
        let (model, provider) = (model.to_owned(), provider.to_owned());
        let opening =
            tokio::task::spawn_blocking(move || registry.get_or_begin(&id, &model, &provider));
        opening.await.unwrap_or_else(|error| Err(NoRun::Unreadable(error.to_string())))
    }

    /// The run of this id, gone on with if it is kept, begun if it is new.
    pub(crate) fn get_or_begin(
        &self,
        id: &RunId,
        model: &str,
        provider: &str,
    ) -> Result<Arc<RunEntry>, NoRun> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = self.used(id) {
            return Ok(entry);
        }
        self.make_room(id)?;
        let keep = self.keep.as_ref();
        let entry = RunEntry::open(id.clone(), &self.config, keep, model, provider);
        let entry = Arc::new(entry.map_err(NoRun::Unreadable)?);
        let stopped = self.stopped().remove(id);
        if let Some(signal) = stopped {
            entry.driven.raise(&signal);
            // Whoever watches it was told before.
            entry.is_end_told.store(true, Ordering::Release);
        }
        entry.last_used.store(self.count_use(), Ordering::Relaxed);
        self.runs().insert(id.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    fn stopped(&self) -> MutexGuard<'_, HashMap<RunId, StopSignal>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    fn used(&self, id: &RunId) -> Option<Arc<RunEntry>> {
        let entry = self.get(id)?;
        entry.last_used.store(self.count_use(), Ordering::Relaxed);
        Some(entry)
    }

    /// Forgets a run if there are too many.
    fn make_room(&self, id: &RunId) -> Result<(), NoRun> {
        let forgotten = {
            let mut runs = self.runs();
            if runs.len() < self.config.bounds.runs.max(1) {
                return Ok(());
            }
            let most = self.config.bounds.runs.saturating_mul(STOPPED_PER_RUN);
            let room = Room {
                keys: match &self.config.runs {
                    Runs::One(_) => &[],
                    Runs::Many { keys, .. } => keys,
                },
                for_stopped: {
                    let stopped = self.stopped();
                    // One that comes back leaves its place.
                    stopped.len() < most || stopped.contains_key(id)
                },
            };
            loop {
                let idle = longest_idle(&runs, room).ok_or(NoRun::Full)?;
                let is_written = |entry: &RunEntry| {
                    entry.trail.as_ref().is_none_or(|trail| trail.flush().is_ok())
                };
                // One that cannot be written is not among the idle from here on.
                if runs.get(&idle).is_some_and(|entry| is_written(entry)) {
                    break runs.remove(&idle);
                }
            }
        };
        if let Some(entry) = forgotten {
            if let Some(signal) = entry.stop().filter(|_| entry.trail.is_none()) {
                self.stopped().insert(entry.driven.info().id.clone(), signal);
            }
            entry.tell_end();
            if let Some(trail) = &entry.trail {
                trail.close();
            }
        }
        Ok(())
    }
}

/// Stopped runs that are remembered as such, for each that is in memory.
const STOPPED_PER_RUN: usize = 16;

/// What may be forgotten of runs that are not kept.
#[derive(Clone, Copy)]
struct Room<'c> {
    /// The runs of issued keys never.
    keys: &'c [(Key, RunId)],
    /// Those that were stopped, as long as it can be remembered that they were.
    for_stopped: bool,
}

/// The run that can be forgotten: the longest idle one of those that ended by themselves, else of those that
/// were stopped, which stay stopped. One that ended by itself begins anew if it is named again, so one that has
/// not ended is forgotten only if it is kept: then it goes on from its file, as all that are kept do.
fn longest_idle(runs: &HashMap<RunId, Arc<RunEntry>>, room: Room<'_>) -> Option<RunId> {
    let rank = |id: &RunId, run: &RunEntry| {
        let is_written = match &run.trail {
            None => None,
            Some(trail) if trail.problem().is_some() => return None,
            Some(_) => Some(()),
        };
        if is_written.is_none() && room.keys.iter().any(|(_, of_key)| of_key == id) {
            return None;
        }
        match run.driven.status() {
            // A rule may stop a run at its own end.
            Status::Completed if run.stop().is_none() => Some(0u8),
            Status::Completed | Status::Stopped | Status::Failed => {
                (is_written.is_some() || room.for_stopped).then_some(1)
            }
            Status::Pending | Status::InProgress | Status::Paused => is_written.map(|()| 2),
        }
    };
    let idle = runs.iter().filter(|(_, run)| run.calls() == 0 && Arc::strong_count(run) == 1);
    let ranked = idle
        .filter_map(|(id, run)| Some((rank(id, run)?, run.last_used.load(Ordering::Relaxed), id)));
    ranked.min().map(|(_, _, id)| id.clone())
}
