//! The keys of a gateway at an address.

use endstop::store::RunId;
use endstop_gateway::{
    KeyDesk, KeyDeskError, KeyList, KeyProblem, KeyReason, KeyRecord, KeySettings, NewKey, ShownKey,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::control::RemoteGateway;
use crate::error::CliError;
use crate::keys::desk_error;

/// The path of the keys.
const PATH: &str = "/endstop/v1/keys";

/// The keys of the gateway of `--server`.
#[derive(Debug)]
pub(super) struct RemoteKeys(pub(super) RemoteGateway);

impl RemoteKeys {
    fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, KeyDeskError> {
        let body = serde_json::to_value(body).map_err(|error| no_answer(&error.to_string()))?;
        answer(self.0.post(path, &body))
    }

    /// Sends a command to one key.
    fn act<A: DeserializeOwned>(
        &self,
        name: &str,
        act: &str,
        body: &impl Serialize,
    ) -> Result<A, KeyDeskError> {
        // Another name cannot be part of a path, and is that of no key.
        if RunId::parse(name).is_err() {
            return Err(KeyDeskError::new(KeyProblem::Unknown, format!("no key `{name}`")));
        }
        self.post(&format!("{PATH}/{name}/{act}"), body)
    }
}

impl KeyDesk for RemoteKeys {
    fn list(&self) -> Result<KeyList, KeyDeskError> {
        answer(self.0.get(PATH))
    }

    fn issue(&self, new: &NewKey) -> Result<ShownKey, KeyDeskError> {
        self.post(PATH, new)
    }

    fn set(&self, name: &str, settings: &KeySettings) -> Result<KeyRecord, KeyDeskError> {
        self.act(name, "set", settings)
    }

    fn revoke(&self, name: &str, reason: &KeyReason) -> Result<KeyRecord, KeyDeskError> {
        self.act(name, "revoke", reason)
    }

    fn rotate(&self, name: &str, reason: &KeyReason) -> Result<ShownKey, KeyDeskError> {
        self.act(name, "rotate", reason)
    }
}

/// The value of an answer. No error shows it: it may have a key.
fn answer<A: DeserializeOwned>(answered: Result<Value, CliError>) -> Result<A, KeyDeskError> {
    let value = answered.map_err(|error| desk_error(KeyProblem::Unavailable, error))?;
    serde_json::from_value(value).map_err(|_| no_answer("another version may have written it"))
}

fn no_answer(why: &str) -> KeyDeskError {
    let error = format!("the answer of the gateway cannot be read: {why}");
    KeyDeskError::new(KeyProblem::Unavailable, error)
}
