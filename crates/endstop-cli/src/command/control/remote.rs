//! A gateway at an address, for commands on what it has besides runs.

use serde_json::Value;

use super::client::Gateway;
use super::live_runs::Where;
use crate::error::CliError;

/// The gateway of `--server`.
#[derive(Debug)]
pub(in crate::command) struct RemoteGateway(Gateway);

impl RemoteGateway {
    /// The gateway at an address, whose token is in a variable.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used, or the variable has no token.
    pub(in crate::command) fn open(
        server: String,
        token_env: Option<String>,
    ) -> Result<Self, CliError> {
        let at = Where { server: Some(server), token_env };
        let gateway = at.gateways()?.into_iter().next();
        gateway.map(Self).ok_or_else(|| CliError::new("--server: no gateway"))
    }

    /// # Errors
    /// Returns an error if it does not answer, or refuses.
    pub(in crate::command) fn get(&self, path: &str) -> Result<Value, CliError> {
        Ok(self.0.get(path)?)
    }

    /// # Errors
    /// Returns an error if it does not answer, or refuses.
    pub(in crate::command) fn post(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        Ok(self.0.post(path, body)?)
    }
}
