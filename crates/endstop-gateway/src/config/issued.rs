//! The keys that a gateway has issued, as they are at this moment.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use endstop_core::units::WallTime;
use endstop_runtime::account::{RunAccounts, is_match};
use endstop_runtime::clock::system_wall_time;
use endstop_runtime::store::RunId;
use sha2::{Digest as _, Sha256};

use super::{Key, KeyRuns};
use crate::secret;

/// The prefix of keys that `endstop key new` makes. An unknown key with it is refused, and reaches no upstream.
pub const KEY_PREFIX: &str = "endstop_";

/// Returns a new random key, as text: `endstop_` and 64 hexadecimal digits.
///
/// ```
/// let key = endstop_gateway::new_key();
/// assert!(key.len() == 72 && key != endstop_gateway::new_key());
/// ```
#[must_use]
pub fn new_key() -> String {
    let bytes: [u8; 32] = secret::random();
    bytes.iter().fold(KEY_PREFIX.to_owned(), |key, byte| key + &format!("{byte:02x}"))
}

/// The SHA-256 of a key: what is stored of it. Its `Debug` does not show it.
///
/// ```
/// use endstop_gateway::{Key, KeyHash};
///
/// let hash = KeyHash::of(&Key::new("secret"));
/// assert_eq!(KeyHash::from_hex(&hash.to_hex()), Some(hash));
/// assert_eq!(format!("{hash:?}"), "[hash]");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Computes the hash of a key.
    #[must_use]
    pub fn of(key: &Key) -> Self {
        Self::of_bytes(key.expose().as_bytes())
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (place, byte) in bytes.iter_mut().enumerate() {
            let start = place.checked_mul(2)?;
            *byte = u8::from_str_radix(text.get(start..start.checked_add(2)?)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Returns the hash as 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A number for tables of clients.
    pub(crate) fn number(self) -> u64 {
        self.0.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

/// A key that the gateway has issued, and what it may do. The key itself is not in it.
///
/// See the example of [`IssuedKeys`].
#[derive(Clone, Debug)]
pub struct IssuedKey {
    /// Its name, for logs.
    pub name: String,
    /// The hash of the key.
    pub hash: KeyHash,
    /// Its runs.
    pub runs: KeyRuns,
    /// The models that it may call: names, in which `*` stands for any text. All, if there are none.
    pub models: Vec<String>,
    /// The time at which it expires.
    pub expires: Option<WallTime>,
    /// Whether it was revoked.
    pub is_revoked: bool,
    /// Why its budgets cannot be counted. Its calls are refused then.
    pub uncounted: Option<String>,
    /// Why what it may do cannot be read, as that of a later version. Its calls are refused then.
    pub unread: Option<String>,
    /// The budgets over time that its calls draw on, instead of those of
    /// [`RunEnvironment::accounts`](endstop_runtime::RunEnvironment::accounts).
    pub accounts: Option<RunAccounts>,
}

impl IssuedKey {
    /// Creates a key for these runs that may call every model and does not expire.
    pub fn new(name: impl Into<String>, hash: KeyHash, runs: KeyRuns) -> Self {
        Self {
            name: name.into(),
            hash,
            runs,
            models: Vec::new(),
            expires: None,
            is_revoked: false,
            uncounted: None,
            unread: None,
            accounts: None,
        }
    }

    /// Whether the key may call the model.
    pub(crate) fn allows(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| is_match(pattern, model))
    }

    /// Whether it has expired at a time.
    pub(crate) fn has_expired(&self, now: WallTime) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

/// The finding of a [`KeySource`].
#[derive(Debug)]
pub enum KeyChange {
    /// The keys are those of the last call.
    Same,
    /// The keys now.
    Keys(Vec<IssuedKey>),
    /// They cannot be read. Until they can, the gateway takes no call.
    Unreadable,
    /// The store that has them is away or cannot be used, with the error. Until it can, the gateway takes no call, and asks its
    /// clients to try again.
    Away(String),
}

/// The source of a gateway's keys.
///
/// See the example of [`IssuedKeys`].
pub trait KeySource: fmt::Debug + Send + Sync {
    /// Returns the change since the last call. The gateway calls it before each call of a client and again after each wait of
    /// one, so it has to be quick. It may wait for a server: the gateway calls it in a thread that may block, once at a time.
    fn look(&self) -> KeyChange;

    /// Returns whether the keys are known to be those of the last look, without waiting for a server. Then there is no look.
    fn is_same(&self) -> bool {
        false
    }

    /// Returns the time by which keys expire: that of this machine, unless the keys are of a server with a separate clock.
    /// It must not wait.
    fn now(&self) -> WallTime {
        system_wall_time()
    }
}

/// The keys that a gateway has issued. Clones are the same keys.
///
/// ```
/// use endstop_gateway::{IssuedKey, IssuedKeys, Key, KeyChange, KeyHash, KeySource};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// /// One key, which is read once.
/// #[derive(Debug, Default)]
/// struct Fixed(AtomicBool);
///
/// impl KeySource for Fixed {
///     fn look(&self) -> KeyChange {
///         if self.0.swap(true, Ordering::Relaxed) {
///             return KeyChange::Same;
///         }
///         let hash = KeyHash::of(&Key::new("client-key-1"));
///         KeyChange::Keys(vec![IssuedKey::new("alice", hash, "alice-*".parse().unwrap())])
///     }
/// }
///
/// let keys = IssuedKeys::from_source(Fixed::default());
/// assert_eq!(format!("{keys:?}"), "IssuedKeys(1)");
/// ```
#[derive(Clone, Default)]
pub struct IssuedKeys {
    table: Arc<RwLock<Arc<KeyTable>>>,
    /// Held from reading the source until its keys are in the table: otherwise older keys could replace newer ones.
    looking: Arc<Mutex<()>>,
    looks: Looks,
    source: Option<Arc<dyn KeySource>>,
}

/// Reads of a source. All requests that came before one share its result.
#[derive(Clone, Default)]
struct Looks {
    /// How many have begun.
    begun: Arc<AtomicU64>,
    /// The number of the last one that has ended, from 1. Locked while one is under way.
    ended: Arc<tokio::sync::Mutex<u64>>,
}

impl IssuedKeys {
    /// Creates keys that do not change.
    #[must_use]
    pub fn new(keys: Vec<IssuedKey>) -> Self {
        let table = Arc::new(RwLock::new(Arc::new(KeyTable::new(keys))));
        Self { table, ..Self::default() }
    }

    /// Reads the keys from a source. The gateway checks it before each call of a client.
    #[must_use]
    pub fn from_source(source: impl KeySource + 'static) -> Self {
        let keys = Self { source: Some(Arc::new(source)), ..Self::default() };
        keys.read();
        keys
    }

    /// The keys as they are now: those of a look that has begun after this call. The thread of the caller never waits for it.
    ///
    /// # Cancel safety
    /// A look that has begun continues, and the next caller waits for its end: at most one thread looks.
    pub(crate) async fn look(&self) -> Arc<KeyTable> {
        let Some(source) = &self.source else { return self.known() };
        // While a look is under way, the table may lack what it has found.
        if self.looks.ended.try_lock().is_ok_and(|_turn| source.is_same()) {
            return self.known();
        }
        let begun = self.looks.begun.load(Ordering::SeqCst);
        let mut ended = Arc::clone(&self.looks.ended).lock_owned().await;
        if *ended > begun {
            return self.known();
        }
        let keys = self.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let before = keys.looks.begun.fetch_add(1, Ordering::SeqCst);
            let table = keys.read();
            *ended = before.saturating_add(1);
            table
        });
        // A source that has panicked has said nothing of any key.
        looking.await.unwrap_or_else(|_| Arc::new(KeyTable::unreadable()))
    }

    /// The keys of the last look.
    pub(crate) fn known(&self) -> Arc<KeyTable> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the source in this thread.
    fn read(&self) -> Arc<KeyTable> {
        let _one = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let change = self.source.as_ref().map_or(KeyChange::Same, |source| source.look());
        let new = match change {
            KeyChange::Same => return self.known(),
            KeyChange::Keys(keys) => KeyTable::new(keys),
            KeyChange::Unreadable => KeyTable::unreadable(),
            KeyChange::Away(why) => KeyTable { away: Some(why), ..KeyTable::default() },
        };
        let new = Arc::new(KeyTable { source: self.source.clone(), ..new });
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        new
    }
}

impl fmt::Debug for IssuedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("IssuedKeys").field(&table.keys.len()).finish()
    }
}

impl From<Vec<(Key, KeyRuns)>> for IssuedKeys {
    /// Each key is named by its place, from 1.
    fn from(keys: Vec<(Key, KeyRuns)>) -> Self {
        let named = (1u64..).zip(keys);
        let issued = |(place, (key, runs)): (u64, (Key, KeyRuns))| {
            IssuedKey::new(place.to_string(), KeyHash::of(&key), runs)
        };
        // A key of no text is none: it would be that of requests without one.
        Self::new(named.filter(|(_, (key, _))| !key.expose().is_empty()).map(issued).collect())
    }
}

/// The keys at one moment.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    keys: Vec<Arc<IssuedKey>>,
    places: HashMap<KeyHash, usize>,
    is_unreadable: bool,
    /// Why the store that has them is away.
    away: Option<String>,
    /// Whether a key that begins like an issued one has to be one.
    is_complete: bool,
    /// The source, for its clock.
    source: Option<Arc<dyn KeySource>>,
}

impl KeyTable {
    fn new(keys: Vec<IssuedKey>) -> Self {
        let places = keys.iter().enumerate().map(|(place, key)| (key.hash, place)).collect();
        Self {
            keys: keys.into_iter().map(Arc::new).collect(),
            places,
            is_complete: true,
            ..Self::default()
        }
    }

    fn unreadable() -> Self {
        Self { is_unreadable: true, ..Self::default() }
    }

    /// The time by which keys expire.
    pub(crate) fn time(&self) -> WallTime {
        self.source.as_ref().map_or_else(system_wall_time, |source| source.now())
    }

    /// Whether a request has sent a key that looks issued and is unknown.
    pub(crate) fn has_forgotten(&self, sent: &[u8]) -> bool {
        self.is_complete && sent.starts_with(KEY_PREFIX.as_bytes())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) const fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Why the store that has the keys is away, if it is.
    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// The key that a request has sent, if it is one of them.
    pub(crate) fn find(&self, sent: &[u8]) -> Option<IssuedTo> {
        if self.keys.is_empty() || sent.is_empty() {
            return None;
        }
        let place = *self.places.get(&KeyHash::of_bytes(sent))?;
        let key = Arc::clone(self.keys.get(place)?);
        let sent = Key::new(std::str::from_utf8(sent).ok()?);
        Some(IssuedTo { place, key, sent })
    }

    /// The key with this hash.
    pub(crate) fn get(&self, hash: KeyHash) -> Option<&Arc<IssuedKey>> {
        self.keys.get(*self.places.get(&hash)?)
    }

    /// Returns the runs among those of the keys to which a run belongs: if several have it, those that say most of its
    /// name.
    pub(crate) fn owner(&self, run: &RunId) -> Option<&KeyRuns> {
        let all = self.keys.iter().map(|key| &key.runs).filter(|runs| runs.has(run));
        all.max_by_key(|runs| match runs {
            KeyRuns::One(_) => usize::MAX,
            KeyRuns::Under(prefix) => prefix.len(),
        })
    }

    /// Whether a run is the only one of a key.
    pub(crate) fn is_only_run(&self, run: &RunId) -> bool {
        self.keys.iter().any(|key| matches!(&key.runs, KeyRuns::One(own) if own == run))
    }
}

/// The issued key of a request.
#[derive(Clone, Debug)]
pub(crate) struct IssuedTo {
    /// Its place among the keys, from 0.
    pub(crate) place: usize,
    pub(crate) key: Arc<IssuedKey>,
    /// The key as the client sent it.
    pub(crate) sent: Key,
}

impl PartialEq for IssuedTo {
    fn eq(&self, other: &Self) -> bool {
        self.key.hash == other.key.hash
    }
}

impl Eq for IssuedTo {}

#[cfg(test)]
mod tests;
