//! A scripted model server for tests and demos of LLM agents.
//!
//! It speaks OpenAI chat completions and responses, Anthropic messages and Gemini `generateContent`, as JSON and as
//! streams. A client runs against it without a key, a network or a bill. The same conversation always gets the same
//! response: it depends on the [`Script`] and on the model's turns in the request, and on nothing else
//! ([`Script::Fail`] counts calls as well).
//!
//! Requests are read and responses are written with code of this crate alone. It shares none with `endstop-llm`, so a
//! test of the gateway compares two independent readings of each API.
//!
//! # Example
//!
//! ```
//! use endstop_sim::{Script, Sim};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let sim = Sim::start(Script::LoopFor(3)).await?;
//! let base_url = format!("http://{}/v1", sim.addr());
//! // Point a client at `base_url`: it gets three tool calls, then an answer.
//! assert_eq!(sim.calls(), 0, "no client has called yet");
//! # let _ = base_url;
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Start with [`Sim`], then see [`Script`] for what it can play and [`SimCall`] for what it saw.
//!
//! # Where next
//!
//! The command `endstop sim` runs it alone; `endstop run --upstream sim` puts the gateway in front of it. The crate
//! `endstop-gateway` is tested against it. The minimum Rust version is 1.95.

mod api;
mod call;
mod chat;
mod gemini;
mod limits;
mod messages;
mod plan;
mod request;
mod responses;
mod route;
mod schema;
mod script;
mod server;
mod threads;
mod wire;

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use api::Api;
pub use call::SimCall;
pub use script::{Script, ScriptError};

use server::Shared;

/// A scripted model that listens.
///
/// Dropping it closes the port and ends the responses that are being sent.
///
/// ```
/// use endstop_sim::{Api, Script, Sim};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let sim = Sim::start(Script::Answer).await?;
/// // Any client will do; this one has no dependencies.
/// let body = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}"#;
/// let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n";
/// let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
/// let mut client = tokio::net::TcpStream::connect(sim.addr()).await?;
/// client.write_all(request.as_bytes()).await?;
/// let mut response = String::new();
/// client.read_to_string(&mut response).await?;
/// assert!(response.starts_with("HTTP/1.1 200"), "{response}");
/// assert_eq!((sim.calls(), sim.log()[0].api), (1, Api::Chat));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sim {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Sim {
    /// Starts the server on a free port of loopback.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    ///
    /// # Errors
    /// Returns the system's error if the address cannot be bound.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    /// Starts the server at an address; port 0 takes a free one.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    ///
    /// # Errors
    /// Returns the system's error if the address cannot be bound.
    pub async fn start_at(addr: SocketAddr, script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(script));
        let accepting = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, shared, accepting })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the number of model calls that reached it, failed ones included. Counting tokens and listing models are
    /// not model calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls()
    }

    /// Returns the number of responses whose client disconnected before their end.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        self.shared.abandoned()
    }

    /// Returns the last model calls, oldest first; at most 1,000: then the oldest is dropped.
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
