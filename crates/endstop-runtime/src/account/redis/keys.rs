//! Keys of clients in the store, for gateways on many machines.
//!
//! The store knows a key by its name. Its text is that of its reader: what a key may do, and the hash of what a client sends.
//!
//! Decision: a gateway asks for the version of the keys before each call, and gets all keys if it has another one. A lookup of one
//! key would be the same round trip, and a message to all gateways could arrive later than the next call.

use endstop_core::units::WallTime;

use super::super::store::BudgetStoreError;
use super::RedisBudgetStore;
use super::wire::Request;

/// The keys of a store at one moment.
///
/// See the example of [`RedisBudgetStore::change_keys`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreKeys {
    /// The version, which is another one after each change.
    pub version: u64,
    /// Each key by its name, with its text, in the order of the names.
    pub keys: Vec<(String, String)>,
    /// The names of those that are no text (UTF-8). Bytes of a name that are none are replaced.
    pub unread: Vec<String>,
}

impl StoreKeys {
    /// Returns whether there is no key, not even one that cannot be read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.unread.is_empty()
    }
}

/// A change of one key of a store.
///
/// See the example of [`RedisBudgetStore::change_keys`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreKeyChange {
    /// The name.
    pub name: String,
    /// The text as it was read. `None` for a new key.
    pub before: Option<String>,
    /// The text from now on.
    pub after: String,
}

impl RedisBudgetStore {
    /// Returns the keys of clients; `None` if they have the version that the caller knows. It takes one round trip.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read. Then nothing is known of any key.
    pub fn keys(&self, known: Option<u64>) -> Result<Option<StoreKeys>, BudgetStoreError> {
        let request = Request { after: known, ..Request::default() };
        let reply = self.shared.call("keys", request, true)?;
        let version = reply.number(0)?;
        self.shared.set_time(reply.number(1)?);
        if known == Some(version) {
            return Ok(None);
        }
        let mut all = StoreKeys { version, ..StoreKeys::default() };
        for (name, text) in reply.pairs(2)? {
            match (String::from_utf8(name), String::from_utf8(text)) {
                (Ok(name), Ok(text)) => all.keys.push((name, text)),
                (Ok(name), Err(_)) => all.unread.push(name),
                (Err(name), _) => {
                    all.unread.push(String::from_utf8_lossy(name.as_bytes()).into_owned());
                }
            }
        }
        all.keys.sort();
        all.unread.sort();
        Ok(Some(all))
    }

    /// Returns the time of the store, as far as is known here without asking it: since it was last heard of, the clock of this
    /// machine has measured it.
    #[must_use]
    pub fn time(&self) -> WallTime {
        WallTime(self.shared.now())
    }

    /// Changes keys of clients: all of these, or none of them if one is not as it was read. Returns whether they are changed; if
    /// not, read them again. A repetition changes nothing.
    ///
    /// ```no_run
    /// use endstop_runtime::account::{RedisBudgetStore, StoreKeyChange};
    ///
    /// let store = RedisBudgetStore::open("redis://127.0.0.1:6379")?;
    /// let (name, after) = ("alice".to_owned(), "{}".to_owned());
    /// assert!(store.change_keys(&[StoreKeyChange { name, before: None, after }])?);
    /// assert!(store.keys(None)?.is_some_and(|all| all.keys.len() == 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store does not confirm the change. It may have happened.
    pub fn change_keys(&self, changes: &[StoreKeyChange]) -> Result<bool, BudgetStoreError> {
        if changes.is_empty() {
            return Ok(true);
        }
        let words = changes.iter().flat_map(|change| {
            let before = change.before.as_deref().unwrap_or_default();
            [change.name.as_bytes(), before.as_bytes(), change.after.as_bytes()]
        });
        let words: Vec<&[u8]> = words.collect();
        let reply = self.shared.call_with("change_keys", Request::default(), true, &words)?;
        match reply.word.as_str() {
            "OK" => Ok(true),
            "MOVED" => Ok(false),
            word => Err(BudgetStoreError::Failed {
                doing: "change the keys",
                path: self.shared.server.clone().into(),
                why: format!("it answers `{word}`"),
            }),
        }
    }
}
