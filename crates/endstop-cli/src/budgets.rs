//! Budgets over time of the command: their definitions, and the store that all processes of the user share.
//!
//! The option for a shared store is `--budget-store`. `--store` is the directory of stored runs in `agent` and `prune`, and an
//! address there could be taken for a path, so that nothing would be shared.

mod durability;
mod lazy_store;
mod live;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use endstop::account::{
    Account, AccountLimit, AccountSet, AccountWarning, BudgetStore, BudgetStoreError,
    DEFAULT_ACCOUNT, KillTarget, LimitError, OnFull, RedisBudgetStore, RunAccounts,
    SqliteBudgetStore,
};
use endstop::cancel::MemoryKillSwitch;
use endstop::core::expr::Diagnostic;
use endstop::core::policy::{BudgetTable, Policy};
use endstop::ledger::Dimension;
use endstop::runtime::trace::RedisRunLog;
use endstop_gateway::{RunGroup, RunKiller};
use jiff::tz::TimeZone;

use crate::defaults::{DRAWN_FILE_VARIABLE, DRAWN_VARIABLE, file_of};
use crate::error::{CliError, ExitMeaning};
use crate::input::{WatchedFile, read_text};
use crate::limits::MAX_CONFIG_BYTES;
use crate::output;
use crate::policy_source::rendered;
use lazy_store::LazyStore;
pub(crate) use live::OpenBudgets;
use live::{LiveTables, OuterBudgets};
use place::in_table;

/// The file of the user's budgets in the state directory.
const LOCAL_STORE: &str = "budgets.sqlite";

/// The budgets that are defined, and those that runs draw on.
#[derive(Debug)]
pub(crate) struct Budgets {
    pub(crate) set: AccountSet,
    /// Named, or the default one.
    names: Vec<String>,
    /// Those that a flag names: runs draw on them whatever their key says.
    explicit: Vec<String>,
    /// The names that the configuration file defines.
    of_file: BTreeSet<String>,
    sources: BudgetSources,
    /// The store that is shared with other machines, instead of the file of the user.
    remote: Option<Arc<RedisBudgetStore>>,
    /// See [`Budgets::refusing_unpriced`].
    refuses_unpriced: bool,
}

/// Where budgets are defined.
#[derive(Clone, Debug)]
struct BudgetSources {
    /// The configuration file, as it was when it was read. `None` if there is no place for one.
    file: Option<WatchedFile>,
    /// Whether it had tables.
    has_tables: bool,
    /// The tables of the policy.
    policy: BTreeMap<String, BudgetTable>,
    /// The values of `--budget`.
    flags: Vec<String>,
}

/// The definitions of some sources.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DefinedBudgets {
    set: AccountSet,
    /// See [`Budgets`]. Not all of them need to be defined.
    names: Vec<String>,
    explicit: Vec<String>,
    of_file: BTreeSet<String>,
}

/// The budgets that count the calls of a command, for an Endstop that it starts.
#[derive(Debug, Default)]
pub(crate) struct DrawnBudgets {
    /// The value of [`DRAWN_VARIABLE`].
    pub(crate) names: String,
    /// The value of [`DRAWN_FILE_VARIABLE`].
    pub(crate) file: String,
}

/// The flag of a store that is shared with other machines.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct StoreArgs {
    /// Share budgets by this Redis or Valkey
    ///
    /// An address such as `rediss://USER:PASSWORD@HOST:6379/0?namespace=team&ca=FILE`. Processes on all machines with the
    /// same address share budgets and `endstop kill`, and those of `endstop serve` their runs and keys. Other users see a command line;
    /// the variable ENDSTOP_BUDGET_STORE hides the password.
    #[arg(long, value_name = "URL")]
    budget_store: Option<String>,
}

impl StoreArgs {
    /// The store at an address of another flag.
    pub(crate) const fn at(budget_store: Option<String>) -> Self {
        Self { budget_store }
    }

    pub(crate) const fn is_named(&self) -> bool {
        self.budget_store.is_some()
    }

    /// The store, if one is named. Settlements that wait for it on this machine are sent.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(&self) -> Result<Option<Arc<RedisBudgetStore>>, CliError> {
        let Some(store) = self.connect()? else { return Ok(None) };
        let store = match state_directory() {
            Some(directory) => store.with_spool(directory).map_err(|error| self.failed(&error))?,
            None => store,
        };
        if let Some(unread) = store.unread() {
            output::warn(&format!("{unread}. Its call stays charged at its worst case"));
        }
        Ok(Some(Arc::new(store)))
    }

    /// The store without what waits for it, if one is named: a kill settles nothing, and no file of this machine stops it.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn connect(&self) -> Result<Option<RedisBudgetStore>, CliError> {
        let Some(address) = self.budget_store.as_deref() else { return Ok(None) };
        RedisBudgetStore::open(address).map(Some).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &BudgetStoreError) -> CliError {
        let (name, removal) = self.origin();
        let hint = match error {
            BudgetStoreError::Away { .. } => format!("start the server, or {removal}"),
            _ => "docs/guide/many-gateways.md describes the address and the rights of its user"
                .to_owned(),
        };
        let text = format!("{name}: {error}");
        CliError::new(text).with_hint(hint).with_exit(ExitMeaning::Usage)
    }

    /// The name of what has the address, and how to do without it.
    fn origin(&self) -> (String, String) {
        const OPTION: &str = "--budget-store";
        let own = std::env::args_os().take_while(|word| word != "--");
        let is_option = own.into_iter().any(|word| word.to_string_lossy().starts_with(OPTION));
        let is_ours = |(name, value): (OsString, OsString)| {
            let name = name.into_string().ok()?;
            let is_named = name.starts_with("ENDSTOP_") && name.ends_with("_BUDGET_STORE");
            (is_named && value.to_str() == self.budget_store.as_deref()).then_some(name)
        };
        match std::env::vars_os().find_map(is_ours).filter(|_| !is_option) {
            Some(variable) => (variable.clone(), format!("unset {variable}")),
            None if is_option => (OPTION.to_owned(), format!("leave out {OPTION}")),
            None => (
                "`budget-store`".to_owned(),
                "take `budget-store` out of the configuration file".to_owned(),
            ),
        }
    }
}

impl Budgets {
    /// The budgets of the configuration file, of a policy, and of `--budget`: a limit, which is one of the budget `me`, or
    /// the name of a budget.
    ///
    /// # Errors
    /// Returns an error if a table cannot be used, or a name is not defined.
    pub(crate) fn of(policy: &Policy, flags: &[String]) -> Result<Self, CliError> {
        let file = file_of(&|name| std::env::var_os(name)).map(WatchedFile::new);
        let (policy, flags) = (policy.budgets.clone(), flags.to_owned());
        let mut sources = BudgetSources { file, has_tables: false, policy, flags };
        let configured = sources.read_file()?;
        let DefinedBudgets { set, names, explicit, of_file } = sources.define(&configured)?;
        if let Some(name) = names.iter().find(|name| set.get(name).is_none()) {
            return Err(unknown(name, &set));
        }
        let (remote, refuses_unpriced) = (None, false);
        Ok(Self { set, names, explicit, of_file, sources, remote, refuses_unpriced })
    }

    /// The same budgets in the store of a flag.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub(crate) fn in_store(self, store: &StoreArgs) -> Result<Self, CliError> {
        Ok(Self { remote: store.open()?, ..self })
    }

    /// The same budgets, which refuse calls without a price if `is_refusing` and a budget limits dollars for them, also one
    /// that is defined later.
    pub(crate) fn refusing_unpriced(self, is_refusing: bool) -> Self {
        Self { refuses_unpriced: is_refusing, ..self }
    }

    /// Whether some call of this process draws on a budget that limits dollars.
    pub(crate) fn limit_money(&self) -> bool {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let limits = self.set.of_any_call(&names).into_iter().flat_map(|account| &account.limits);
        limits.into_iter().any(|limit| limit.dimension == Dimension::Cost)
    }

    /// The store of the budgets.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn store(&self) -> Result<Arc<dyn BudgetStore>, CliError> {
        match &self.remote {
            Some(remote) => Ok(Arc::clone(remote) as Arc<dyn BudgetStore>),
            None => local_store(),
        }
    }

    /// The store that is shared with other machines, for what else is in it. `None` without one.
    pub(crate) fn shared_store(&self) -> Option<RedisBudgetStore> {
        self.remote.as_deref().cloned()
    }

    /// The switch that `kill --all` of another machine turns on. `None` without a shared store.
    pub(crate) fn kill_switch(&self) -> Option<MemoryKillSwitch> {
        let (remote, switch) = (self.remote.as_ref()?, MemoryKillSwitch::new());
        let turned = switch.clone();
        remote.on_kill(move |kill| {
            if kill.target == KillTarget::All {
                turned.turn_on(kill.why.as_str());
            }
        });
        Some(switch)
    }

    /// Stops runs that another machine kills: one of a name, or those of a key or a budget.
    pub(crate) fn obey_kills(&self, killer: RunKiller) {
        let Some(remote) = &self.remote else { return };
        remote.on_kill(move |kill| {
            let group = match &kill.target {
                KillTarget::Run(name) => RunGroup::Run(name.clone()),
                KillTarget::Key(name) => RunGroup::Key(name.clone()),
                KillTarget::Budget(name) => RunGroup::Budget(name.clone()),
                _ => return,
            };
            killer.kill(group, &kill.why);
        });
        // From here on kills wait for this process. If the store is away, its first call enters it.
        let _ = remote.admit();
    }

    /// The runs in the shared store, for a process of this name. `None` without a shared store.
    pub(crate) fn run_log(&self, name: &str) -> Option<RedisRunLog> {
        Some(self.remote.as_ref()?.run_log(name))
    }

    /// Ends the part of this process in the shared store, so that kills do not wait for it.
    pub(crate) fn leave(&self) {
        if let Some(remote) = &self.remote {
            remote.leave();
        }
    }

    /// The accounts that the runs of this process draw on, by the tables of the configuration file as they are before each
    /// call. The store is opened when something is counted in it: now, if a budget is defined.
    ///
    /// `is_nested` says whether the calls go through the Endstop that runs this process, if one does. Calls do not draw on
    /// the budgets that it counts them in. `warn` takes the warnings of budgets.
    ///
    /// # Errors
    /// Returns an error if the store cannot be opened.
    pub(crate) fn open(
        &self,
        is_nested: bool,
        warn: Arc<dyn Fn(&AccountWarning) + Send + Sync>,
    ) -> Result<OpenBudgets, CliError> {
        let store = Arc::new(LazyStore::new(self.remote.as_ref()));
        if !self.names.is_empty() || self.set.iter().any(Account::is_by_model) {
            let failed = |error| store_error(&error).with_exit(ExitMeaning::Usage);
            store.open().map_err(failed)?;
        }
        if let Some(remote) = &self.remote {
            tell_of_outages(remote);
        }
        let defined = DefinedBudgets {
            set: self.set.clone(),
            names: self.names.clone(),
            explicit: self.explicit.clone(),
            of_file: self.of_file.clone(),
        };
        let of_outer = |name| std::env::var(name).ok().filter(|_| is_nested).unwrap_or_default();
        let outer = self.sources.outer(&of_outer(DRAWN_FILE_VARIABLE));
        let live = Arc::new(LiveTables::new(&self.sources, defined, outer));
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let outer = of_outer(DRAWN_VARIABLE);
        let outer: Vec<&str> = outer.split(',').filter(|name| !name.is_empty()).collect();
        let owner = format!("process {}", std::process::id());
        let shared: Arc<dyn BudgetStore> = Arc::<LazyStore>::clone(&store);
        let accounts = RunAccounts::new(shared, self.set.clone(), &names, &owner)
            .map_err(|error| CliError::new(error.to_string()))?
            .with_warnings(move |warning| warn(warning))
            .with_source(Arc::<LiveTables>::clone(&live))
            .counted_elsewhere(&outer);
        let accounts = if self.refuses_unpriced { accounts.refusing_unpriced() } else { accounts };
        Ok(OpenBudgets { accounts, explicit: self.explicit.clone(), live, store })
    }

    /// The budgets that count the calls of a command, which draw on these accounts.
    pub(crate) fn drawn_by(&self, accounts: Option<&RunAccounts>) -> DrawnBudgets {
        let Some(accounts) = accounts else { return DrawnBudgets::default() };
        let kind = if self.explicit.is_empty() { "default" } else { "named" };
        let file = self.sources.path();
        let file = file.map(|file| format!("{kind}:{}", file.display())).unwrap_or_default();
        DrawnBudgets { names: accounts.drawn_names().join(","), file }
    }

    /// The budgets in few words: `me ($5.00 per day)`.
    pub(crate) fn in_words(&self) -> Option<String> {
        let named = self.names.iter().filter_map(|name| self.set.get(name));
        let all = named.chain(self.set.iter().filter(|account| account.is_by_model()));
        let words: Vec<String> = all.map(in_words).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl BudgetSources {
    /// The absolute path of the configuration file.
    fn path(&self) -> Option<PathBuf> {
        std::path::absolute(self.file.as_ref()?.path()).ok()
    }

    /// The Endstop around this process, if it counts by the same file, from the value of [`DRAWN_FILE_VARIABLE`].
    fn outer(&self, variable: &str) -> Option<OuterBudgets> {
        let (kind, file) = variable.split_once(':')?;
        let is_same = self.path()? == Path::new(file);
        is_same.then_some(OuterBudgets { draws_default: kind == "default" })
    }

    /// The tables of the configuration file; none without a file.
    fn read_file(&mut self) -> Result<BTreeMap<String, BudgetTable>, CliError> {
        let Some(file) = &mut self.file else { return Ok(BTreeMap::new()) };
        // The state of the file is noted before it is read: a change in between is seen later.
        file.has_changed();
        if file.was_missing() {
            return Ok(BTreeMap::new());
        }
        let text = read_text(file.path(), "configuration file", MAX_CONFIG_BYTES)?;
        let tables = tables_of(&text, file.path())?;
        self.has_tables = !tables.is_empty();
        Ok(tables)
    }

    /// The definitions with these tables of the configuration file.
    fn define(
        &self,
        configured: &BTreeMap<String, BudgetTable>,
    ) -> Result<DefinedBudgets, CliError> {
        let tables: Vec<_> = configured.iter().chain(&self.policy).collect();
        let mut accounts = Vec::new();
        for &(name, table) in &tables {
            let account = Account::from_table(name, table);
            accounts.push(account.map_err(|error| in_table(&error, &[(name, table)]))?);
        }
        let (named, limits): (Vec<&String>, Vec<&String>) =
            self.flags.iter().partition(|text| is_name(text));
        if !limits.is_empty() {
            limits.iter().try_for_each(|text| check_limit("--budget", text))?;
            let limits: Vec<&str> = limits.iter().map(|text| text.as_str()).collect();
            // It would limit the calls of those models alone.
            if accounts.iter().any(|it| it.name == DEFAULT_ACCOUNT && it.is_by_model()) {
                return Err(CliError::new(format!(
                    "--budget: `[budget.{DEFAULT_ACCOUNT}]` is a budget of some models, and a limit here is for all calls"
                ))
                .with_hint("give that table another name"));
            }
            let account = Account::new(DEFAULT_ACCOUNT, &limits);
            accounts.push(account.map_err(|error| CliError::new(error.to_string()))?);
        }
        let set = AccountSet::new(accounts).map_err(|error| in_table(&error, &tables))?;
        let mut names: Vec<String> = named.into_iter().cloned().collect();
        let has_default = set.get(DEFAULT_ACCOUNT).is_some_and(|account| !account.is_by_model());
        if has_default && (names.is_empty() || !limits.is_empty()) {
            names.push(DEFAULT_ACCOUNT.to_owned());
        }
        let explicit = if self.flags.is_empty() { Vec::new() } else { names.clone() };
        let of_file = configured.keys().cloned().collect();
        Ok(DefinedBudgets { set, names, explicit, of_file })
    }
}

/// Warns of each outage of a shared store, and reports its end.
fn tell_of_outages(store: &RedisBudgetStore) {
    let server = store.server().to_owned();
    store.on_outage(move |error| match error {
        Some(error @ BudgetStoreError::Away { .. }) => output::warn(&error.to_string()),
        Some(error) => output::warn(&format!(
            "the store of budgets cannot be used: {error}: no call begins until it can be used again"
        )),
        None => output::note(&format!("endstop: the store of budgets `{server}` is back")),
    });
}

/// Whether a value of `--budget` is the name of a budget, and not a limit.
pub(crate) fn is_name(text: &str) -> bool {
    !text.contains(' ') && !text.starts_with('$')
}

/// Checks a limit that is a value of `--budget`, or of the field that an error then names.
///
/// # Errors
/// Returns an error if it cannot be read.
pub(crate) fn check_limit(named: &str, text: &str) -> Result<(), CliError> {
    let error = match text.parse::<AccountLimit>() {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let is_cut =
        |amount: &str| amount.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    match &error {
        // A shell has taken `$2` out of `"$20 per day"`.
        LimitError::Amount(amount) if is_cut(amount) => {
            Err(CliError::new(format!("{named}: `{amount}` is not an amount")).with_hint(
                "write '$5 per day' in single quotes: in double quotes the shell replaces `$5`",
            ))
        }
        error => Err(CliError::with_advice(&format!("{named}: {error}"))),
    }
}

/// A budget in few words: `team-a ($200.00 per day; parent org)`, `opus ($50.00 per week; models claude-opus-*)`.
pub(crate) fn in_words(account: &Account) -> String {
    format!("{} ({})", account.name, main_parts(account).join("; "))
}

/// A budget with all that its table can say: `team-a ($200.00 per day; parent org; days of Europe/Berlin; warns at 80%)`.
pub(crate) fn in_full(account: &Account) -> String {
    let mut parts = main_parts(account);
    if account.zone != TimeZone::UTC {
        parts.push(format!("days of {}", zone_name(account)));
    }
    parts.extend(account.warn.map(|percent| format!("warns at {percent}%")));
    if account.on_full == OnFull::Pause {
        parts.push("pauses when full".to_owned());
    }
    format!("{} ({})", account.name, parts.join("; "))
}

/// The limits of a budget and its scope.
fn main_parts(account: &Account) -> Vec<String> {
    let limits: Vec<String> = account.limits.iter().map(ToString::to_string).collect();
    let mut parts = vec![limits.join(", ")];
    for (what, patterns) in [("models", &account.models), ("providers", &account.providers)] {
        if !patterns.is_empty() {
            parts.push(format!("{what} {}", patterns.join(", ")));
        }
    }
    parts.extend(account.parent.as_ref().map(|parent| format!("parent {parent}")));
    parts
}

/// The time zone of a budget by its name.
pub(crate) fn zone_name(account: &Account) -> &str {
    account.zone.iana_name().unwrap_or("UTC")
}

/// The store of the user's budgets on this machine.
fn local_store() -> Result<Arc<dyn BudgetStore>, CliError> {
    let directory = state_directory().ok_or_else(|| {
        CliError::new("no directory for budgets: neither XDG_STATE_HOME nor HOME is set")
            .with_hint("set XDG_STATE_HOME to a directory of your own")
    })?;
    let store = SqliteBudgetStore::open(directory.join(LOCAL_STORE));
    let store = store.map_err(|error| store_error(&error).with_exit(ExitMeaning::Usage))?;
    Ok(Arc::new(store))
}

/// Whether budgets of the user have been counted on this machine.
pub(crate) fn has_local_store() -> bool {
    state_directory().is_some_and(|directory| directory.join(LOCAL_STORE).exists())
}

/// An error of a store of budgets, with what to do about it.
pub(crate) fn store_error(error: &BudgetStoreError) -> CliError {
    let shown = CliError::new(error.to_string());
    match error {
        BudgetStoreError::Damaged { path, .. } => shown.with_hint(format!(
            "move `{}` away: budgets then begin at zero, and `endstop budget adjust` adds the earlier spend",
            path.display()
        )),
        // The words of SQLite and of the system.
        BudgetStoreError::Failed { path, why, .. }
            if ["disk I/O error", "is full", "No space left"].iter().any(|it| why.contains(it)) =>
        {
            shown.with_hint(format!("the disk of `{}` may be full", path.display()))
        }
        _ => shown,
    }
}

/// The directory for state of Endstop: below `XDG_STATE_HOME`, or `~/.local/state`.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = value("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let directory = named.or_else(|| value("HOME").map(|home| home.join(".local/state")))?;
    Some(directory.join("endstop"))
}

/// The `[budget.NAME]` tables of the text of a configuration file.
fn tables_of(text: &str, file: &Path) -> Result<BTreeMap<String, BudgetTable>, CliError> {
    let shown = file.display().to_string();
    let failed = |error: toml::de::Error| {
        let span = error.span().unwrap_or_default();
        // The message of an unknown key ends with the known ones.
        let (message, help) = match error.message().split_once(", ") {
            Some((message, known)) => (message, Some(known.to_owned())),
            None => (error.message(), None),
        };
        rendered(&Diagnostic { message: message.to_owned(), span, help }, text, &shown)
    };
    let table: toml::Table = toml::from_str(text).map_err(failed)?;
    // A key that is not a table is a default of the option.
    if !table.get("budget").is_some_and(toml::Value::is_table) {
        return Ok(BTreeMap::new());
    }
    let mut tables = toml::from_str::<BudgetTables>(text).map_err(failed)?.budget;
    for table in tables.values_mut() {
        table.origin = Some(shown.clone());
    }
    Ok(tables)
}

/// The budgets of a configuration file; its other tables are read elsewhere.
#[derive(serde::Deserialize)]
struct BudgetTables {
    budget: BTreeMap<String, BudgetTable>,
}

/// No budget of a name.
pub(crate) fn unknown(name: &str, set: &AccountSet) -> CliError {
    if name.is_empty() {
        // Or a shell has replaced all of `"$5"`.
        return CliError::new("the name of a budget is missing")
            .with_hint("name a budget, or write a limit such as '$5 per day' in single quotes");
    }
    let known: Vec<&str> = set.iter().map(|account| account.name.as_str()).collect();
    let hint = match known.is_empty() {
        true => format!(
            "define `[budget.{name}]` in ~/.config/endstop/config.toml, or write a limit such as `$5 per day`"
        ),
        false => format!("budgets: {}", known.join(", ")),
    };
    CliError::new(format!("no budget `{name}`")).with_hint(hint)
}

#[cfg(test)]
mod tests;
