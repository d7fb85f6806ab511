//! Which runs of a shared log this gateway serves.
//!
//! A thread lets a run rest as soon as nothing uses it, so that any gateway can take it, and says every now and then that runs
//! with calls in flight are served still. Nothing depends on its pace: a run that another gateway has taken refuses what this
//! one would append.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use endstop_runtime::store::RunId;
use endstop_runtime::trace::SharedRunLog;

use super::super::entry::RunEntry;
use super::Registry;
use crate::limits::REST_INTERVAL;

impl Registry {
    /// Starts the thread, if other gateways share the runs. It ends with the registry.
    pub(crate) fn keep_shared(self: &Arc<Self>) {
        if self.shared_log().is_none() {
            return;
        }
        let of = Arc::downgrade(self);
        let keeper = thread::Builder::new().name("endstop-runs".to_owned());
        // Without it other gateways take runs after the lease.
        let _ = keeper.spawn(move || keep(&of));
    }

    fn served(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This gateway serves a run, until it rests.
    pub(super) fn note_served(&self, id: &RunId) {
        if self.shared_log().is_some() {
            self.served().insert(id.clone());
        }
    }

    /// Lets those rest that nothing uses.
    fn let_rest(&self) {
        let mut resting = Vec::new();
        {
            let mut runs = self.runs();
            self.served().retain(|id| {
                let Some(entry) = runs.get(id) else { return false };
                if !entry.is_idle() {
                    return true;
                }
                // One with a hole continues from its lines.
                if entry.has_moved() || entry.has_log_hole() {
                    runs.remove(id);
                    return false;
                }
                // A call that finds it from here on holds it first.
                entry.begin_rest();
                resting.push(Arc::clone(entry));
                false
            });
        }
        for entry in resting {
            if !entry.rest() {
                self.served().insert(entry.id().clone());
            }
        }
    }

    /// Admits no further call of the runs that others wait for.
    fn note_wanted(&self, shared: &dyn SharedRunLog) {
        // If the store is away, no other gateway can take them now. Those that wait ask it again.
        let Ok(wanted) = shared.wanted() else { return };
        for id in wanted {
            if let Some(entry) = self.get(&id) {
                entry.want();
            }
        }
    }

    /// Serves runs for longer. Leaves those that another gateway has taken.
    fn renew(&self, shared: &dyn SharedRunLog, runs: &[Arc<RunEntry>]) {
        let epochs: HashMap<&RunId, (&Arc<RunEntry>, u64)> = runs
            .iter()
            .filter_map(|entry| Some((entry.id(), (entry, entry.shared_epoch()?))))
            .collect();
        let asked: Vec<_> = epochs.iter().map(|(id, (_, epoch))| ((*id).clone(), *epoch)).collect();
        if asked.is_empty() {
            return;
        }
        // If the store is away, none is known to be lost. The store refuses the lines of a run that another gateway has taken.
        let Ok(lost) = shared.renew(&asked) else { return };
        for lost in lost {
            if let Some((entry, _)) = epochs.get(&lost) {
                entry.leave();
            }
        }
    }

    fn renew_served(&self, shared: &dyn SharedRunLog) {
        let served: Vec<RunId> = self.served().iter().cloned().collect();
        let runs: Vec<_> = served.iter().filter_map(|id| self.get(id)).collect();
        self.renew(shared, &runs);
    }

    /// Forgets the runs in memory that other gateways have taken.
    pub(crate) fn forget_moved(&self) {
        let Some(shared) = self.shared_log() else { return };
        let all = self.all();
        self.renew(shared, &all);
        all.iter().filter(|entry| entry.has_moved()).for_each(|entry| self.forget(entry));
    }

    /// Forgets a run that another gateway has taken. Only a kill reaches its calls in flight from here on.
    pub(super) fn forget(&self, entry: &Arc<RunEntry>) {
        let mut runs = self.runs();
        if runs.get(entry.id()).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            runs.remove(entry.id());
            let mut left = self.left();
            left.retain(|run| run.strong_count() > 0);
            left.push(Arc::downgrade(entry));
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Weak<RunEntry>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The forgotten runs that have calls in flight.
    pub(super) fn left_in_flight(&self) -> Vec<Arc<RunEntry>> {
        self.left().iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets all runs of a gateway that ends rest.
    pub(crate) fn rest_all(&self) {
        if self.shared_log().is_some() {
            self.all().iter().for_each(|entry| entry.close_log());
        }
    }
}

fn keep(of: &Weak<Registry>) {
    let mut renewed = Instant::now();
    loop {
        thread::sleep(REST_INTERVAL);
        let Some(registry) = of.upgrade() else { return };
        let Some(shared) = registry.shared_log() else { return };
        if registry.served().is_empty() {
            continue;
        }
        registry.let_rest();
        if registry.served().is_empty() {
            continue;
        }
        registry.note_wanted(shared);
        // Several times within the lease, so that a late one changes nothing.
        if renewed.elapsed() >= shared.lease() / 4 {
            renewed = Instant::now();
            registry.renew_served(shared);
        }
    }
}
