//! The upstream that is built in: a scripted model over HTTP.
//!
//! It speaks OpenAI chat completions and responses, Anthropic messages and Gemini `generateContent`, as JSON and as
//! streams, so that every client runs against it with no key and no network. The same conversation always gets the
//! same answer: what it says next depends on its [`Script`] and on the model's turns in the request, and on nothing
//! else ([`Script::Fail`] counts calls as well).
//!
//! A request is read ([`ask`]), the script decides what to say ([`plan`], [`schema`]), and the interface's own file
//! writes it down.

mod ask;
mod chat;
mod gemini;
mod kept;
mod messages;
mod plan;
mod responses;
mod route;
mod schema;
mod script;
mod server;
mod wire;

#[cfg(test)]
mod interface_tests;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod server_tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use script::{Script, ScriptError};
pub use server::SimCall;

use server::Shared;

/// A scripted model that listens. It ends when it is dropped; answers that are being sent are cut then.
#[derive(Debug)]
pub struct Sim {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Sim {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// What the system said.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    /// Starts it at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// What the system said.
    pub async fn start_at(addr: SocketAddr, script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(script));
        let accepting = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Model calls that reached it, failed ones too; counting tokens and listing models are none.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls()
    }

    /// Answers that a client went away from before their end.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        self.shared.abandoned()
    }

    /// The last model calls, oldest first; at most [`SimCall::MAX_KEPT`].
    #[must_use]
    pub fn log(&self) -> Vec<SimCall> {
        self.shared.log()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
