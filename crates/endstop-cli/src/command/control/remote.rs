//! The gateway at an address that a command asks: the same two options everywhere.

use super::client::{ControlToken, Gateway};
use crate::error::CliError;

/// The options of a command that asks a gateway at an address. Each command says what it asks for.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct ServerArgs {
    /// Ask the control API at this address
    #[arg(long, value_name = "URL", requires = "token_env")]
    server: Option<String>,
    /// With --server: variable with its token
    #[arg(long, value_name = "VAR", requires = "server")]
    token_env: Option<String>,
}

impl ServerArgs {
    /// Whether a gateway is named.
    pub(super) const fn is_given(&self) -> bool {
        self.server.is_some()
    }

    /// The gateway, with the token of the variable. `None` without --server.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used, or the variable has no token.
    pub(in crate::command) fn gateway(&self) -> Result<Option<Gateway>, CliError> {
        let Some(url) = &self.server else { return Ok(None) };
        let variable = self.token_env.as_deref().unwrap_or_default();
        Gateway::remote(url, ControlToken::of(variable)?).map(Some)
    }
}
