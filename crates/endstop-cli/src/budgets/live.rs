//! The budgets of a process while it runs: the tables of the configuration file are read again whenever it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use endstop::account::{
    Account, AccountProblem, AccountSet, AccountSource, AccountTables, BudgetStore,
    DEFAULT_ACCOUNT, RunAccounts,
};
use endstop::core::policy::BudgetTable;

use super::lazy_store::LazyStore;
use super::{BudgetSources, DefinedBudgets, in_words, store_error, tables_of};
use crate::error::CliError;
use crate::input::{FileState, WatchedFile, read_text};
use crate::limits::{FILE_RECHECK, MAX_CONFIG_BYTES, MAX_TOLD_CHANGES};
use crate::output;

/// The budgets that the calls of this process draw on, with their store. Clones are the same budgets.
#[derive(Clone, Debug)]
pub(crate) struct OpenBudgets {
    /// The accounts of runs that have no key.
    pub(crate) accounts: RunAccounts,
    /// Those that a flag names: see [`Budgets::explicit`](super::Budgets).
    pub(super) explicit: Vec<String>,
    pub(super) live: Arc<LiveTables>,
    pub(super) store: Arc<LazyStore>,
}

impl OpenBudgets {
    /// The budgets that calls draw on whatever their key says.
    pub(crate) fn explicit(&self) -> &[String] {
        &self.explicit
    }

    /// Opens the store, before the first call draws on it.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open_store(&self) -> Result<(), CliError> {
        self.store.open().map(drop).map_err(|error| store_error(&error))
    }

    /// The definitions of the tables and the flags as they are now, without the own limits of keys.
    pub(crate) fn tables(&self) -> AccountSet {
        self.live.tables()
    }

    /// The store of the budgets. Its first use opens it.
    pub(crate) fn store(&self) -> &dyn BudgetStore {
        &*self.store
    }

    /// Replaces the accounts for the own limits of keys.
    ///
    /// # Errors
    /// Returns an error if one does not fit to the tables. All of them are then as before.
    pub(crate) fn define_for_keys(&self, own: Vec<Account>) -> Result<(), CliError> {
        self.live.set_of_keys(own)?;
        self.accounts.refresh();
        Ok(())
    }

    /// The accounts that runs with these budgets draw on.
    ///
    /// # Errors
    /// Returns the problem if one is not defined.
    pub(crate) fn named(&self, names: &[&str]) -> Result<RunAccounts, String> {
        self.accounts.named(names).map_err(|error| match error.why {
            AccountProblem::Unknown => format!("no budget `{}`", error.account),
            _ => error.to_string(),
        })
    }
}

/// The Endstop that runs this process and counts its calls, by the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OuterBudgets {
    /// Whether its calls draw on the default budget, if there is one.
    pub(super) draws_default: bool,
}

/// The definitions of budgets as they are now: the tables of the configuration file and of the policy, the flags, and the own
/// limits of keys.
#[derive(Debug)]
pub(super) struct LiveTables {
    sources: BudgetSources,
    outer: Option<OuterBudgets>,
    state: Mutex<LiveState>,
}

#[derive(Debug)]
struct LiveState {
    file: Option<WatchedFile>,
    /// Whether the file had tables when it was last good.
    has_tables: bool,
    /// Why the file cannot be used as it is now.
    wrong: Option<CliError>,
    /// The file as it was when budgets of models were first missing in it, and when that was.
    doubt: Option<(FileState, Instant)>,
    defined: DefinedBudgets,
    of_keys: Vec<Account>,
    /// All definitions, those for keys included.
    whole: AccountSet,
    /// Whether they have changed since they were last asked for.
    is_new: bool,
    /// The budgets that the last change removed.
    removed: BTreeSet<String>,
}

impl LiveTables {
    pub(super) fn new(
        sources: &BudgetSources,
        defined: DefinedBudgets,
        outer: Option<OuterBudgets>,
    ) -> Self {
        let mut state = LiveState {
            file: sources.file.clone(),
            has_tables: sources.has_tables,
            wrong: None,
            doubt: None,
            whole: defined.set.clone(),
            of_keys: Vec::new(),
            is_new: false,
            removed: BTreeSet::new(),
            defined,
        };
        let sources = sources.clone();
        state.is_new = !left_to(outer, &sources, &state.defined).is_empty();
        Self { sources, outer, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The definitions of the sources as they are now.
    fn tables(&self) -> AccountSet {
        let mut state = self.state();
        if state.file.as_mut().is_some_and(WatchedFile::has_changed) {
            self.read(&mut state);
        }
        state.defined.set.clone()
    }

    fn set_of_keys(&self, own: Vec<Account>) -> Result<(), CliError> {
        let mut state = self.state();
        if state.of_keys != own {
            state.whole = with_keys(&state.defined.set, &own)?;
            state.of_keys = own;
            state.is_new = true;
        }
        Ok(())
    }

    /// Reads the file again, and tells what has changed. A file that cannot be used changes nothing, and is read once more later:
    /// it may be readable or complete by then, without another state.
    fn read(&self, state: &mut LiveState) {
        let Some(file) = state.file.clone() else { return };
        let read = self.read_file(&file, state.has_tables).and_then(|tables| {
            let defined = state.without_doubt(self.sources.define(&tables)?)?;
            let whole = with_keys(&defined.set, &state.of_keys)?;
            Ok((!tables.is_empty(), defined, whole))
        });
        let (has_tables, defined, whole) = match read {
            Ok(read) => read,
            Err(error) => {
                state.file.iter_mut().for_each(WatchedFile::read_again);
                if state.wrong.as_ref() != Some(&error) {
                    error.print_as_warning("the budgets stay as they were");
                    state.wrong = Some(error);
                }
                return;
            }
        };
        let was_wrong = state.wrong.take().is_some();
        let changes = changes(&state.defined.set, &defined.set);
        if was_wrong {
            let path = file.path().display();
            output::note(&format!("endstop: the budgets of `{path}` apply again"));
        }
        if let Some(changes) = changes {
            output::note(&format!("endstop: budgets changed: {changes}"));
        }
        for name in left_to(self.outer, &self.sources, &defined) {
            if state.whole.get(&name).is_none() {
                output::note(&format!(
                    "endstop: budget {name} is new: the Endstop that runs this process counts it"
                ));
            }
        }
        if state.defined.set != defined.set {
            let before = state.defined.set.iter().map(|account| account.name.clone());
            state.removed = before.filter(|name| defined.set.get(name).is_none()).collect();
        }
        state.is_new |= state.defined != defined || state.whole != whole;
        (state.has_tables, state.defined, state.whole) = (has_tables, defined, whole);
    }

    /// The tables of the file. That a file is gone or empty is an error if it had some: an editor may be writing it.
    fn read_file(
        &self,
        file: &WatchedFile,
        has_tables: bool,
    ) -> Result<BTreeMap<String, BudgetTable>, CliError> {
        if file.was_missing() && !has_tables {
            return Ok(BTreeMap::new());
        }
        let text = read_text(file.path(), "configuration file", MAX_CONFIG_BYTES)?;
        if text.trim().is_empty() && has_tables {
            let path = file.path().display();
            return Err(CliError::new(format!("the configuration file `{path}` is empty"))
                .with_hint("to remove all budgets, leave a comment in it"));
        }
        tables_of(&text, file.path())
    }

    /// Passes a text to `tell` for each budget that runs draw on and whose table is gone. It is called without a lock: standard
    /// error can be a pipe that is not read, and the calls of other runs look for their budgets at the same time.
    fn tell_kept(&self, names: &[String], tell: impl Fn(&str)) {
        let state = self.state();
        // The own limits of a key that is gone are no table that anyone misses.
        let missed: Vec<&String> =
            names.iter().filter(|name| state.removed.contains(*name)).collect();
        drop(state);
        for name in missed {
            tell(&format!(
                "budget {name} is no longer defined: its last definition applies to what draws on it, until it is defined \
                 again or this process ends"
            ));
        }
    }
}

impl LiveState {
    /// The same definitions, with the budgets of models that they lack for the first time: they end with their table, and a file
    /// that is being written lacks tables for a moment. The file is read once more, and they end if it is still the same.
    fn without_doubt(&mut self, mut defined: DefinedBudgets) -> Result<DefinedBudgets, CliError> {
        let by_model =
            |set: &AccountSet, name: &str| set.get(name).is_some_and(Account::is_by_model);
        let before = self.defined.set.iter().filter(|it| it.is_by_model());
        let missing: Vec<Account> =
            before.filter(|it| !by_model(&defined.set, &it.name)).cloned().collect();
        let seen = self.file.as_ref().and_then(WatchedFile::seen);
        let Some(seen) = seen.filter(|_| !missing.is_empty()) else {
            self.doubt = None;
            return Ok(defined);
        };
        let since = self.doubt.filter(|(of, _)| *of == seen).map(|(_, since)| since);
        if since.is_some_and(|since| since.elapsed() >= FILE_RECHECK) {
            self.doubt = None;
            return Ok(defined);
        }
        self.doubt = Some((seen, since.unwrap_or_else(Instant::now)));
        self.file.iter_mut().for_each(WatchedFile::read_again);
        let mut all = missing;
        // Their parents too, if those are missing as well.
        let mut at = 0;
        while let Some(account) = all.get(at) {
            let parent = account.parent.as_ref().and_then(|name| self.defined.set.get(name));
            let is_new = |it: &&Account| {
                defined.set.get(&it.name).is_none() && all.iter().all(|other| other.name != it.name)
            };
            let parent = parent.filter(is_new).cloned();
            all.extend(parent);
            at += 1;
        }
        let is_kept = |name: &str| all.iter().any(|it| it.name == name);
        defined.names.retain(|name| !is_kept(name) || self.defined.names.contains(name));
        defined.of_file.extend(
            all.iter().map(|it| &it.name).filter(|it| self.defined.of_file.contains(*it)).cloned(),
        );
        let others: Vec<Account> =
            defined.set.iter().filter(|it| !is_kept(&it.name)).cloned().collect();
        let set = AccountSet::new(others.into_iter().chain(all));
        defined.set = set.map_err(|error| CliError::new(error.to_string()))?;
        Ok(defined)
    }
}

impl AccountSource for LiveTables {
    fn look(&self) -> Option<AccountTables> {
        let mut state = self.state();
        if state.file.as_mut().is_some_and(WatchedFile::has_changed) {
            self.read(&mut state);
        }
        std::mem::take(&mut state.is_new).then(|| AccountTables {
            set: state.whole.clone(),
            names: state.defined.names.clone(),
            counted_elsewhere: left_to(self.outer, &self.sources, &state.defined),
        })
    }

    fn kept(&self, names: &[String]) {
        self.tell_kept(names, output::warn);
    }
}

/// The budgets that another Endstop counts for the calls of this process, because it reads the same file. If both counted them,
/// they would count twice and wait for each other. Budgets that a policy or a flag tightens here are counted here too.
fn left_to(
    outer: Option<OuterBudgets>,
    sources: &BudgetSources,
    defined: &DefinedBudgets,
) -> Vec<String> {
    let Some(outer) = outer else { return Vec::new() };
    let draws_default = outer.draws_default && defined.explicit.is_empty();
    let is_left = |account: &&Account| {
        let is_drawn = account.is_by_model() || draws_default && account.name == DEFAULT_ACCOUNT;
        let is_plain = !sources.policy.contains_key(&account.name);
        is_drawn && is_plain && defined.of_file.contains(&account.name)
    };
    defined.set.iter().filter(is_left).map(|account| account.name.clone()).collect()
}

/// The definitions of the tables, and those for the own limits of keys.
fn with_keys(tables: &AccountSet, of_keys: &[Account]) -> Result<AccountSet, CliError> {
    let all = tables.iter().chain(of_keys).cloned();
    AccountSet::new(all).map_err(|error| CliError::new(error.to_string()))
}

/// The differences of two sets in words: `me ($9.00 per day), opus removed`. `None` without one.
fn changes(before: &AccountSet, now: &AccountSet) -> Option<String> {
    let changed = now.iter().filter(|it| before.get(&it.name) != Some(*it)).map(in_words);
    let removed = before.iter().filter(|it| now.get(&it.name).is_none());
    let removed = removed.map(|it| format!("{} removed", it.name));
    let mut words: Vec<String> = changed.chain(removed).collect();
    if words.len() > MAX_TOLD_CHANGES {
        let more = words.len() - MAX_TOLD_CHANGES;
        words.truncate(MAX_TOLD_CHANGES);
        words.push(format!("{more} more"));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests;
