//! The definitions of accounts that runs draw on, and where they are read again while runs draw on them.

use std::fmt::Debug;

use super::spec::AccountSet;

/// The definitions of accounts at one moment, and the accounts that runs draw on.
///
/// See the example of [`AccountSource`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountTables {
    /// All accounts that are defined.
    pub set: AccountSet,
    /// The names of the accounts that a run draws on which names no others ([`RunAccounts::named`]). Names that the set does
    /// not have limit nothing.
    ///
    /// [`RunAccounts::named`]: super::RunAccounts::named
    pub names: Vec<String>,
    /// Accounts on which another process of the same store counts the same calls. See [`RunAccounts::counted_elsewhere`].
    ///
    /// [`RunAccounts::counted_elsewhere`]: super::RunAccounts::counted_elsewhere
    pub counted_elsewhere: Vec<String>,
}

/// A source of definitions that change while runs draw on the accounts, such as a file.
///
/// ```
/// use endstop_runtime::account::{Account, AccountSet, AccountSource, AccountTables, MemoryBudgetStore, RunAccounts};
/// use std::sync::{Arc, Mutex};
///
/// /// The limit of the account `me`, if it is a new one.
/// #[derive(Debug, Default)]
/// struct NewLimit(Mutex<Option<&'static str>>);
///
/// impl AccountSource for NewLimit {
///     fn look(&self) -> Option<AccountTables> {
///         let limit = self.0.lock().unwrap().take()?;
///         let set = AccountSet::new([Account::new("me", &[limit]).ok()?]).ok()?;
///         Some(AccountTables { set, names: vec!["me".to_owned()], ..AccountTables::default() })
///     }
/// }
///
/// let source = Arc::new(NewLimit::default());
/// let set = AccountSet::new([Account::new("me", &["$5 per day"])?])?;
/// let store = Arc::new(MemoryBudgetStore::new());
/// let accounts = RunAccounts::new(store, set, &["me"], "example")?.with_source(source.clone());
/// *source.0.lock().unwrap() = Some("$9 per day");
/// accounts.refresh();
/// assert_eq!(accounts.read()?[0].limits[0].limit.to_string(), "$9.00 per day");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AccountSource: Debug + Send + Sync {
    /// Returns the definitions, if they have changed since the last call. It is called before each reservation, so it has to
    /// be quick. Definitions that cannot be read or used are no change: those of before stay.
    fn look(&self) -> Option<AccountTables>;

    /// Reports accounts that the last definitions lack, and that runs draw on by name. They keep their last definition.
    fn kept(&self, names: &[String]) {
        let _ = names;
    }
}
