//! Issuing, listing and changing the keys of clients from outside: what is asked and answered, and who does it.
//!
//! A separate file because the control API, the configuration of a gateway and the commands of the terminal all speak of keys
//! in these types.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::control_source::SourceError;

/// Issues, lists and changes the keys of a gateway. Each operation may wait for a file or a server. No text of an error is a key.
///
/// ```
/// use endstop_gateway::control_source::{SourceError, SourceErrorKind};
/// use endstop_gateway::{KeyDesk, KeyList, KeyReason, KeyRecord, KeySettings, NewKey, ShownKey};
///
/// /// No keys.
/// #[derive(Debug)]
/// struct Closed;
///
/// fn closed() -> SourceError {
///     SourceError::new(SourceErrorKind::Refused, "this desk is closed")
/// }
///
/// impl KeyDesk for Closed {
///     fn list(&self) -> Result<KeyList, SourceError> {
///         Ok(KeyList::default())
///     }
///     fn issue(&self, _: &NewKey) -> Result<ShownKey, SourceError> {
///         Err(closed())
///     }
///     fn set(&self, _: &str, _: &KeySettings) -> Result<KeyRecord, SourceError> {
///         Err(closed())
///     }
///     fn revoke(&self, _: &str, _: &KeyReason) -> Result<KeyRecord, SourceError> {
///         Err(closed())
///     }
///     fn rotate(&self, _: &str, _: &KeyReason) -> Result<ShownKey, SourceError> {
///         Err(closed())
///     }
/// }
/// assert!(Closed.list()?.keys.is_empty());
/// # Ok::<(), SourceError>(())
/// ```
pub trait KeyDesk: fmt::Debug + Send + Sync {
    /// Returns the issued keys.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    fn list(&self) -> Result<KeyList, SourceError>;

    /// Issues a key.
    ///
    /// # Errors
    /// Returns an error if the name is taken or cannot be one, something in it cannot be used, or it cannot be written.
    fn issue(&self, new: &NewKey) -> Result<ShownKey, SourceError>;

    /// Changes the budgets, limits, models or expiry of a key.
    ///
    /// # Errors
    /// Returns an error if there is no such key or it is revoked, nothing is to change, something cannot be used, or the change
    /// cannot be written.
    fn set(&self, name: &str, settings: &KeySettings) -> Result<KeyRecord, SourceError>;

    /// Refuses a key from the next call on.
    ///
    /// # Errors
    /// Returns an error if there is no such key, it is revoked already, or the change cannot be written.
    fn revoke(&self, name: &str, reason: &KeyReason) -> Result<KeyRecord, SourceError>;

    /// Replaces a key by a new one of the same name, runs and limits.
    ///
    /// # Errors
    /// Returns an error if there is no such key, it is revoked or has expired, or the change cannot be written.
    fn rotate(&self, name: &str, reason: &KeyReason) -> Result<ShownKey, SourceError>;
}

/// A key to issue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewKey {
    /// Its name, and the beginning of the names of its runs.
    pub name: String,
    /// Names of budgets, and limits of the key itself such as `$5 per day`.
    pub budgets: Vec<String>,
    /// A limit of the key itself in US dollars, in all, such as `20.00`.
    #[serde(deserialize_with = "amount")]
    #[schemars(schema_with = "amount_schema")]
    pub usd: Option<String>,
    /// Its runs.
    pub runs: RunsOfKey,
    /// The models that it may call; all, if there are none. `*` stands for any text.
    pub models: Vec<String>,
    /// How long it is valid, such as `90d`.
    pub expires: Option<String>,
    /// Who acts.
    pub by: Option<String>,
    /// The reason.
    pub message: Option<String>,
}

/// The runs of a new key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunsOfKey {
    /// All runs whose names begin with its name and `-`.
    #[default]
    Many,
    /// The run of its name.
    One,
}

/// Changes of a key. A field that is left out changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeySettings {
    /// Names of budgets, and limits such as `$5 per day`, instead of those that it had; `none` alone for none.
    pub budgets: Vec<String>,
    /// The limit in US dollars, in all, such as `20.00`; `none` for none.
    #[serde(deserialize_with = "amount")]
    #[schemars(schema_with = "amount_schema")]
    pub usd: Option<String>,
    /// The models that it may call; `all` alone for all.
    pub models: Vec<String>,
    /// How long it is valid from now on, such as `90d`; `never` if it does not expire.
    pub expires: Option<String>,
    /// Who acts.
    pub by: Option<String>,
    /// The reason.
    pub message: Option<String>,
}

/// Why a key is revoked or replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyReason {
    /// Who acts.
    pub by: Option<String>,
    /// The reason.
    pub message: Option<String>,
}

/// The issued keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    /// In the order of the file; in a store, by their names.
    pub keys: Vec<KeyRecord>,
}

/// An issued key, without what a client sends and without its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRecord {
    /// Its name.
    pub name: String,
    /// `valid`, `expired` or `revoked`; `unread` if a later version wrote it, and then the rest is not known.
    pub status: String,
    /// The run, or the beginning of the names of its runs and `*`.
    pub runs: String,
    /// The budgets that its calls draw on.
    pub budgets: Vec<String>,
    /// Its own limits.
    pub limits: Vec<String>,
    /// The models that it may call; all, if there are none.
    pub models: Vec<String>,
    /// When it was issued or replaced last: RFC 3339.
    pub created: String,
    /// When it expires.
    pub expires: Option<String>,
    /// When it was revoked.
    pub revoked: Option<String>,
    /// Its last change. Not known for a key of an earlier version.
    pub changed: Option<KeyChangeRecord>,
}

/// The last change of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyChangeRecord {
    /// When: RFC 3339.
    pub at: String,
    /// By whom.
    pub by: String,
    /// Why; empty if that is not known.
    pub why: String,
}

/// A new key, which is shown once. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownKey {
    /// The key that a client sends. It is not stored.
    pub key: String,
    /// The key as it is stored.
    pub issued: KeyRecord,
}

impl fmt::Debug for ShownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownKey").field("issued", &self.issued).finish_non_exhaustive()
    }
}

/// Reads an amount that was written as a JSON number or as a text. A number is not read as a float.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let written = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(written.map(|written| {
        let text = written.get();
        serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
    }))
}

fn amount_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["number", "string", "null"] })
}

#[cfg(test)]
mod tests;
