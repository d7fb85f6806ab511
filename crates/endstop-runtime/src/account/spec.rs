//! Accounts as they are written: `[budget.NAME]` tables, and budgets on the command line.

use std::collections::{BTreeMap, BTreeSet};

use endstop_core::policy::BudgetTable;
use jiff::tz::TimeZone;
use thiserror::Error;

use super::limit::{AccountLimit, COUNTED, LimitError};
use crate::ledger::Dimension;
use crate::limits::{MAX_ACCOUNT_LIMITS, MAX_ACCOUNT_NAME_BYTES, MAX_ACCOUNTS};

/// The account that every run of a user draws on, if it is defined.
pub const DEFAULT_ACCOUNT: &str = "me";

/// The reaction of a run to a full account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// It stops.
    #[default]
    Refuse,
    /// It waits until a window resets, and then continues.
    Pause,
}

/// One account: limits per window, shared by all that draw on it.
///
/// ```
/// use endstop_runtime::account::Account;
///
/// let account = Account::new("team-a", &["$200 per day", "2M tokens per hour"])?;
/// assert_eq!(account.limits.len(), 2);
/// # Ok::<(), endstop_runtime::account::AccountError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name, `team-a`.
    pub name: String,
    /// The limits; all of them hold.
    pub limits: Vec<AccountLimit>,
    /// The percentage of a limit at which its users are warned.
    pub warn: Option<u8>,
    /// The account that each charge counts in as well.
    pub parent: Option<String>,
    /// The reaction of a run if the account is full.
    pub on_full: OnFull,
    /// Patterns of model names, with `*`: calls of such models draw on it, whichever account their run has.
    pub models: Vec<String>,
    /// Patterns of provider names.
    pub providers: Vec<String>,
    /// The time zone of calendar windows.
    pub zone: TimeZone,
}

/// Why a `[budget.NAME]` table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("[budget.{account}]: {why}")]
pub struct AccountError {
    /// The name of the table.
    pub account: String,
    /// The problem.
    pub why: AccountProblem,
}

/// The problem of one table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccountProblem {
    /// The name.
    #[error("a name has 1 to {MAX_ACCOUNT_NAME_BYTES} letters, digits, `-`, `_` or `.`")]
    Name,
    /// There is no limit.
    #[error("missing `limit`")]
    NoLimit,
    /// A limit cannot be read.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A limit of something that accounts do not count.
    #[error("a limit is one of money, tokens or steps, not of `{0}`")]
    NotCounted(Dimension),
    /// Too many limits.
    #[error("at most {MAX_ACCOUNT_LIMITS} limits are accepted")]
    TooManyLimits,
    /// The warning.
    #[error("`{0}` is not a threshold: write `80%`")]
    Warn(String),
    /// The word of `on_full`.
    #[error("`{0}` is not known here: write `refuse` or `pause`")]
    OnFull(String),
    /// The time zone.
    #[error("no time zone `{0}`: write a name such as `Europe/Berlin`")]
    Zone(String),
    /// The parent.
    #[error("`parent` names the budget `{0}`, which is not defined")]
    NoParent(String),
    /// A run is to draw on it.
    #[error("it is not defined")]
    Unknown,
    /// Another table of the same name says otherwise.
    #[error("another table of this name has a different `{0}`")]
    Differs(&'static str),
    /// The account is above itself.
    #[error("it is its own parent")]
    Cycle,
    /// Too many tables.
    #[error("at most {MAX_ACCOUNTS} budgets are accepted")]
    TooMany,
}

impl Account {
    /// Returns an account with limits as texts, for every model, in UTC.
    ///
    /// # Errors
    /// Returns an error if the name or a limit cannot be read.
    pub fn new(name: &str, limits: &[&str]) -> Result<Self, AccountError> {
        let limit = limits.iter().map(|&limit| limit.to_owned()).collect();
        Self::from_table(name, &BudgetTable { limit, ..BudgetTable::default() })
    }

    /// Reads a `[budget.NAME]` table.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn from_table(name: &str, table: &BudgetTable) -> Result<Self, AccountError> {
        Self::read(name, table).map_err(|why| AccountError { account: name.to_owned(), why })
    }

    fn read(name: &str, table: &BudgetTable) -> Result<Self, AccountProblem> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_ACCOUNT_NAME_BYTES || !name.chars().all(is_plain) {
            return Err(AccountProblem::Name);
        }
        if table.limit.is_empty() {
            return Err(AccountProblem::NoLimit);
        }
        if table.limit.len() > MAX_ACCOUNT_LIMITS {
            return Err(AccountProblem::TooManyLimits);
        }
        let limits: Result<Vec<AccountLimit>, LimitError> =
            table.limit.iter().map(|text| text.parse()).collect();
        let on_full = match table.on_full.as_deref() {
            None | Some("refuse") => OnFull::Refuse,
            Some("pause") => OnFull::Pause,
            Some(word) => return Err(AccountProblem::OnFull(word.to_owned())),
        };
        let zone = match table.timezone.as_deref() {
            None => TimeZone::UTC,
            Some(zone) => TimeZone::get(zone).map_err(|_| AccountProblem::Zone(zone.to_owned()))?,
        };
        Ok(Self {
            name: name.to_owned(),
            limits: limits?,
            warn: table.warn.as_deref().map(percent).transpose()?,
            parent: table.parent.clone(),
            on_full,
            models: table.models.clone(),
            providers: table.providers.clone(),
            zone,
        })
    }

    /// Returns whether the account is drawn on by the model and not by the run.
    #[must_use]
    pub fn is_by_model(&self) -> bool {
        !self.models.is_empty() || !self.providers.is_empty()
    }

    /// Whether a call of this model draws on an account that names models or providers.
    fn takes(&self, provider: &str, model: &str) -> bool {
        let matches = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| is_match(pattern, name))
        };
        self.is_by_model() && matches(&self.models, model) && matches(&self.providers, provider)
    }
}

fn percent(text: &str) -> Result<u8, AccountProblem> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let number = number.filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| AccountProblem::Warn(text.to_owned()))
}

/// The difference between two accounts of one name, which would make the limits of one differ from those of the
/// other.
fn difference(first: &Account, second: &Account) -> Option<&'static str> {
    let is_other_zone =
        first.zone != second.zone && ![&first.zone, &second.zone].contains(&&TimeZone::UTC);
    let is_other_parent =
        first.parent.is_some() && second.parent.is_some() && first.parent != second.parent;
    let all = [
        (first.models != second.models, "models"),
        (first.providers != second.providers, "providers"),
        (is_other_zone, "timezone"),
        (is_other_parent, "parent"),
    ];
    all.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what)
}

/// Returns whether a name matches a pattern, in which `*` stands for any text.
///
/// ```
/// use endstop_runtime::account::is_match;
///
/// assert!(is_match("claude-opus-*", "claude-opus-4-5") && !is_match("gpt-4o", "gpt-4o-mini"));
/// ```
#[must_use]
pub fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

/// All accounts that are defined, by name, with their parents.
///
/// ```
/// use endstop_runtime::account::{Account, AccountSet};
///
/// let mut team = Account::new("team-a", &["$200 per day"])?;
/// team.parent = Some("org".to_owned());
/// let set = AccountSet::new([team, Account::new("org", &["$5000 per month"])?])?;
/// let names = |accounts: Vec<&Account>| accounts.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
/// assert_eq!(names(set.of_call(&["team-a"], "anthropic", "claude-opus-4-5")), ["org", "team-a"]);
/// # Ok::<(), endstop_runtime::account::AccountError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSet {
    accounts: BTreeMap<String, Account>,
}

impl AccountSet {
    /// Returns the set of some accounts. Of two with one name, the limits of both hold; a parent or a time zone may be
    /// named by one alone, and of `warn` and `on_full` the first one's counts.
    ///
    /// # Errors
    /// Returns an error if a parent is missing, an account is above itself, a limit is on something else than money,
    /// tokens and steps, two with one name are for other models or windows, or there are too many.
    pub fn new(accounts: impl IntoIterator<Item = Account>) -> Result<Self, AccountError> {
        let mut set = Self::default();
        for account in accounts {
            set.add(account)?;
        }
        for account in set.accounts.values() {
            let failed = |why| AccountError { account: account.name.clone(), why };
            let mut seen = 0;
            let mut next = account.parent.as_ref();
            while let Some(parent) = next {
                let Some(above) = set.accounts.get(parent) else {
                    return Err(failed(AccountProblem::NoParent(parent.clone())));
                };
                seen += 1;
                if seen > set.accounts.len() {
                    return Err(failed(AccountProblem::Cycle));
                }
                next = above.parent.as_ref();
            }
            let mut dimensions = account.limits.iter().map(|limit| limit.dimension);
            if let Some(other) = dimensions.find(|dimension| !COUNTED.contains(dimension)) {
                return Err(failed(AccountProblem::NotCounted(other)));
            }
            if account.limits.len() > MAX_ACCOUNT_LIMITS {
                return Err(failed(AccountProblem::TooManyLimits));
            }
            if set.accounts.len() > MAX_ACCOUNTS {
                return Err(failed(AccountProblem::TooMany));
            }
        }
        Ok(set)
    }

    fn add(&mut self, account: Account) -> Result<(), AccountError> {
        let Some(first) = self.accounts.get_mut(&account.name) else {
            self.accounts.insert(account.name.clone(), account);
            return Ok(());
        };
        if let Some(what) = difference(first, &account) {
            let why = AccountProblem::Differs(what);
            return Err(AccountError { account: account.name, why });
        }
        for limit in account.limits {
            if !first.limits.contains(&limit) {
                first.limits.push(limit);
            }
        }
        if first.zone == TimeZone::UTC {
            first.zone = account.zone;
        }
        first.parent = first.parent.take().or(account.parent);
        first.warn = first.warn.or(account.warn);
        Ok(())
    }

    /// Returns all accounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values()
    }

    /// Returns the account of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// Returns the accounts above one, the nearest first.
    ///
    /// ```
    /// use endstop_runtime::account::{Account, AccountSet};
    ///
    /// let mut team = Account::new("team-a", &["$200 per day"])?;
    /// team.parent = Some("org".to_owned());
    /// let set = AccountSet::new([team.clone(), Account::new("org", &["$5000 per month"])?])?;
    /// assert_eq!(set.parents(&team)[0].name, "org");
    /// # Ok::<(), endstop_runtime::account::AccountError>(())
    /// ```
    #[must_use]
    pub fn parents(&self, account: &Account) -> Vec<&Account> {
        let mut parents: Vec<&Account> = Vec::new();
        let mut next = account.parent.as_ref();
        // An account of another set may be above itself in this one.
        while let Some(above) = next.and_then(|name| self.accounts.get(name))
            && above.name != account.name
            && parents.iter().all(|it| it.name != above.name)
        {
            parents.push(above);
            next = above.parent.as_ref();
        }
        parents
    }

    /// Adds the accounts of some names that the set lacks, as another set defines them, with their parents. Returns the
    /// names of those that were added.
    pub(super) fn keep<'n>(
        &mut self,
        before: &Self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> BTreeSet<String> {
        let mut kept = BTreeSet::new();
        for name in names {
            let mut next = before.accounts.get(name);
            while let Some(account) = next.filter(|it| !self.accounts.contains_key(&it.name)) {
                self.accounts.insert(account.name.clone(), account.clone());
                kept.insert(account.name.clone());
                next = account.parent.as_ref().and_then(|parent| before.accounts.get(parent));
            }
        }
        kept
    }

    /// Refuses names that no account of the set has.
    pub(super) fn check_names(&self, names: &[&str]) -> Result<(), AccountError> {
        match names.iter().find(|name| self.get(name).is_none()) {
            Some(&name) => {
                Err(AccountError { account: name.to_owned(), why: AccountProblem::Unknown })
            }
            None => Ok(()),
        }
    }

    /// Returns whether no account is defined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Returns the accounts that a call draws on: those of its run by name, those of its model, and all parents. By
    /// name, each once.
    #[must_use]
    pub fn of_call(&self, of_run: &[&str], provider: &str, model: &str) -> Vec<&Account> {
        self.of_calls(of_run, |account| account.takes(provider, model), |_| false)
    }

    /// Like [`AccountSet::of_call`], without accounts of which others count the call, and their parents unless another account
    /// has these.
    pub(super) fn of_call_without(
        &self,
        of_run: &[&str],
        (provider, model): (&str, &str),
        is_left_out: impl Fn(&Account) -> bool,
    ) -> Vec<&Account> {
        let is_of_model = |account: &Account| account.takes(provider, model);
        let mut accounts = self.of_calls(of_run, is_of_model, &is_left_out);
        accounts.retain(|account| !is_left_out(account));
        accounts
    }

    /// Returns the accounts that the calls of some model draw on: the named accounts, the accounts of any model, and all
    /// parents. By name, each once.
    #[must_use]
    pub fn of_any_call(&self, of_run: &[&str]) -> Vec<&Account> {
        self.of_calls(of_run, Account::is_by_model, |_| false)
    }

    fn of_calls(
        &self,
        of_run: &[&str],
        is_of_model: impl Fn(&Account) -> bool,
        is_left_out: impl Fn(&Account) -> bool,
    ) -> Vec<&Account> {
        let mut found: BTreeMap<&str, &Account> = BTreeMap::new();
        let of_run = of_run.iter().filter_map(|name| self.accounts.get(*name));
        let of_model = self.accounts.values().filter(|it| is_of_model(it));
        for account in of_run.chain(of_model).filter(|it| !is_left_out(it)) {
            let mut next = Some(account);
            while let Some(account) = next {
                if found.insert(&account.name, account).is_some() {
                    break;
                }
                next = account.parent.as_ref().and_then(|parent| self.accounts.get(parent));
            }
        }
        found.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
