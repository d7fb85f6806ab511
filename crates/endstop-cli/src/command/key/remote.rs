//! The keys of a gateway at an address.

use endstop::store::RunId;
use endstop_gateway::control_source::{SourceError, SourceErrorKind};
use endstop_gateway::{KeyDesk, KeyList, KeyReason, KeyRecord, KeySettings, NewKey, ShownKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::control::{AskError, Gateway};
use crate::error::CliError;

/// The path of the keys.
const PATH: &str = "/endstop/v1/keys";

/// The keys of the gateway of `--server`.
#[derive(Debug)]
pub(super) struct RemoteKeys(pub(super) Gateway);

impl RemoteKeys {
    fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, SourceError> {
        let body = serde_json::to_value(body).map_err(|error| no_answer(&error.to_string()))?;
        answer(self.0.post(path, &body))
    }

    /// Sends a command to one key.
    fn act<A: DeserializeOwned>(
        &self,
        name: &str,
        act: &str,
        body: &impl Serialize,
    ) -> Result<A, SourceError> {
        // Another name cannot be part of a path, and is that of no key.
        if RunId::parse(name).is_err() {
            return Err(SourceError::new(SourceErrorKind::Unknown, format!("no key `{name}`")));
        }
        self.post(&format!("{PATH}/{name}/{act}"), body)
    }
}

impl KeyDesk for RemoteKeys {
    fn list(&self) -> Result<KeyList, SourceError> {
        answer(self.0.get(PATH))
    }

    fn issue(&self, new: &NewKey) -> Result<ShownKey, SourceError> {
        self.post(PATH, new)
    }

    fn set(&self, name: &str, settings: &KeySettings) -> Result<KeyRecord, SourceError> {
        self.act(name, "set", settings)
    }

    fn revoke(&self, name: &str, reason: &KeyReason) -> Result<KeyRecord, SourceError> {
        self.act(name, "revoke", reason)
    }

    fn rotate(&self, name: &str, reason: &KeyReason) -> Result<ShownKey, SourceError> {
        self.act(name, "rotate", reason)
    }
}

/// The value of an answer. No error shows it: it may have a key.
fn answer<A: DeserializeOwned>(answered: Result<Value, AskError>) -> Result<A, SourceError> {
    let value = answered.map_err(|error| {
        let kind = match error {
            AskError::NoAnswer(_) => SourceErrorKind::Away,
            AskError::Refused { .. } => SourceErrorKind::Refused,
        };
        CliError::from(error).into_source(kind)
    })?;
    serde_json::from_value(value).map_err(|_| no_answer("another version may have written it"))
}

fn no_answer(why: &str) -> SourceError {
    let error = format!("the answer of the gateway cannot be read: {why}");
    SourceError::new(SourceErrorKind::Failed, error)
}
