//! Where the control API of `endstop serve` listens.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use endstop_gateway::{Control, ControlSource, Gateway, Key};

use crate::error::CliError;
use crate::input::read_variable;

/// Flags of the control API.
#[derive(Debug, clap::Args)]
pub(super) struct ControlArgs {
    /// Unix socket of the control API
    ///
    /// Its directory must be one that only you can open. [default: PORT.sock in $XDG_RUNTIME_DIR/endstop, or in a
    /// new directory for temporary files]
    #[cfg(unix)]
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Serve the control API at this address too
    ///
    /// It needs --control-token-env.
    #[arg(long = "control", value_name = "ADDR", requires = "control_token_env")]
    control_addr: Option<SocketAddr>,
    /// Variable that holds the token of --control
    #[arg(long, value_name = "VAR", requires = "control_addr")]
    control_token_env: Option<String>,
}

impl ControlArgs {
    /// The listeners, for a gateway whose clients come to `clients`, and what answers questions about budgets,
    /// spend and past kills.
    ///
    /// # Errors
    /// Returns an error if the variable holds no token.
    pub(super) fn open(
        &self,
        clients: SocketAddr,
        source: impl ControlSource + 'static,
    ) -> Result<Control, CliError> {
        Ok(Control {
            socket: self.socket(clients),
            listen: self.control_addr,
            token: self.control_token_env.as_deref().map(read_variable).transpose()?.map(Key::new),
            source: Some(Arc::new(source)),
        })
    }

    /// Whether there is a control API.
    pub(super) const fn is_there(&self) -> bool {
        cfg!(unix) || self.control_addr.is_some()
    }

    #[cfg(unix)]
    fn socket(&self, clients: SocketAddr) -> Option<PathBuf> {
        Some(self.control_socket.clone().unwrap_or_else(|| default_socket(clients)))
    }

    #[cfg(not(unix))]
    fn socket(&self, _: SocketAddr) -> Option<PathBuf> {
        None
    }
}

/// A separate path for each instance. A directory for temporary files is shared with other users, so the one in it is new:
/// no other user can have made it before.
#[cfg(unix)]
fn default_socket(clients: SocketAddr) -> PathBuf {
    let process = std::process::id();
    let name = match clients.port() {
        0 => format!("process-{process}.sock"),
        port => format!("{port}.sock"),
    };
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match of_user.filter(|directory| directory.is_absolute() && directory.is_dir()) {
        Some(directory) => directory.join("endstop").join(name),
        None => {
            let temporary = std::env::temp_dir();
            let mut all = (0u32..).map(|n| temporary.join(format!("endstop-{process}-{n}")));
            let free = all.find(|directory| std::fs::symlink_metadata(directory).is_err());
            free.unwrap_or(temporary).join(name)
        }
    }
}

/// How each listener of a gateway's control API is asked.
pub(super) fn in_words(gateway: &Gateway) -> impl Iterator<Item = String> {
    const RUNS: &str = "/endstop/v1/runs";
    let socket = gateway
        .control_socket()
        .map(|path| format!("curl --unix-socket {} http://endstop{RUNS}", path.display()));
    let addr = gateway.control_addr().map(|addr| format!("http://{addr}{RUNS}"));
    socket.into_iter().chain(addr)
}
