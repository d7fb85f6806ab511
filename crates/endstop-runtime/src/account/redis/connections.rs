//! The connections to the server, and the reason why it is away.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use redis::{Client, Cmd, Connection, ErrorKind, RedisError, Value};

use super::address::why;
use crate::limits::{MAX_STORE_CONNECTIONS, STORE_ANSWER, STORE_CONNECT};

/// Why a command has no reply.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server cannot be reached, does not answer, or is not ready.
    Away(String),
    /// It answered with an error.
    Server(RedisError),
}

/// A few connections, each opened when it is needed.
///
/// A server that is away is asked by [`Connections::look`] alone: other callers fail immediately until that has an answer,
/// so that no call waits for it.
pub(super) struct Connections {
    client: Client,
    pool: Mutex<Pool>,
    returned: Condvar,
    away: Mutex<Option<String>>,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    open: usize,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// A connection of the pool, and whether it was used before: then the server may have closed it since.
struct PooledConnection<'c> {
    of: &'c Connections,
    connection: Option<Connection>,
    was_used: bool,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let mut pool = self.of.pool();
        match self.connection.take() {
            Some(connection) => pool.idle.push(connection),
            None => pool.open = pool.open.saturating_sub(1),
        }
        self.of.returned.notify_one();
    }
}

impl Connections {
    pub(super) fn new(client: Client) -> Self {
        Self { client, pool: Mutex::default(), returned: Condvar::new(), away: Mutex::default() }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the server is away, if it is.
    pub(super) fn away(&self) -> Option<String> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_away(&self, away: Option<String>) {
        if away.is_some() {
            // The server has closed the others as well, or will.
            let idle = std::mem::take(&mut self.pool().idle);
            let mut pool = self.pool();
            pool.open = pool.open.saturating_sub(idle.len());
        }
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    /// Sends a command. `can_repeat` says whether it may be sent again over a new connection, if the old one was closed.
    pub(super) fn call(&self, command: &Cmd, can_repeat: bool) -> Result<Value, CallError> {
        if let Some(away) = self.away() {
            return Err(CallError::Away(away));
        }
        let mut taken = self.take()?;
        let first = taken.send(command);
        let Err(CallError::Away(away)) = first else { return first };
        let was_used = taken.was_used;
        drop(taken);
        if !was_used {
            self.set_away(Some(away.clone()));
            return Err(CallError::Away(away));
        }
        // A server that does not answer is not waited for twice.
        if !can_repeat || away == NO_ANSWER {
            if away == NO_ANSWER {
                self.set_away(Some(away.clone()));
            }
            return Err(CallError::Away(away));
        }
        let mut fresh = match self.fresh() {
            Ok(connection) => {
                PooledConnection { of: self, connection: Some(connection), was_used: false }
            }
            Err(error) => return Err(error),
        };
        self.pool().open += 1;
        let again = fresh.send(command);
        if let Err(CallError::Away(away)) = &again {
            self.set_away(Some(away.clone()));
        }
        again
    }

    /// Checks whether the server answers, over a connection that the caller keeps. Other callers get this answer from then on.
    pub(super) fn look(
        &self,
        kept: &mut Option<Connection>,
        command: &Cmd,
    ) -> Result<Value, CallError> {
        let had = kept.is_some();
        let asked = self.ask(kept, command);
        // A connection that was closed says nothing about the server.
        let asked = match asked {
            Err(CallError::Away(away)) if had && away != NO_ANSWER => self.ask(kept, command),
            other => other,
        };
        match &asked {
            Err(CallError::Away(away)) => self.set_away(Some(away.clone())),
            Ok(_) | Err(CallError::Server(_)) => self.set_away(None),
        }
        asked
    }

    fn ask(&self, kept: &mut Option<Connection>, command: &Cmd) -> Result<Value, CallError> {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => connect(&self.client)?,
        };
        let answer = send(&mut connection, command);
        if !matches!(answer, Err(CallError::Away(_))) {
            *kept = Some(connection);
        }
        answer
    }

    fn take(&self) -> Result<PooledConnection<'_>, CallError> {
        let until = Instant::now() + STORE_ANSWER;
        let mut pool = self.pool();
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok(PooledConnection {
                    of: self,
                    connection: Some(connection),
                    was_used: true,
                });
            }
            if pool.open < MAX_STORE_CONNECTIONS {
                pool.open += 1;
                drop(pool);
                let mut taken = PooledConnection { of: self, connection: None, was_used: false };
                taken.connection = Some(self.fresh()?);
                return Ok(taken);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CallError::Away("all connections are busy".to_owned()));
            }
            let waited = self.returned.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A new connection. Without one the server is away.
    fn fresh(&self) -> Result<Connection, CallError> {
        let connected = connect(&self.client);
        if let Err(CallError::Away(away)) = &connected {
            self.set_away(Some(away.clone()));
        }
        connected
    }
}

impl PooledConnection<'_> {
    fn send(&mut self, command: &Cmd) -> Result<Value, CallError> {
        let Some(connection) = &mut self.connection else {
            return Err(CallError::Away("no connection".to_owned()));
        };
        let answer = send(connection, command);
        if matches!(answer, Err(CallError::Away(_))) {
            self.connection = None;
        }
        answer
    }
}

const NO_ANSWER: &str = "it does not answer";

fn connect(client: &Client) -> Result<Connection, CallError> {
    let connection = client.get_connection_with_timeout(STORE_CONNECT).map_err(failed)?;
    connection.set_read_timeout(Some(STORE_ANSWER)).map_err(failed)?;
    connection.set_write_timeout(Some(STORE_ANSWER)).map_err(failed)?;
    Ok(connection)
}

fn send(connection: &mut Connection, command: &Cmd) -> Result<Value, CallError> {
    command.query::<Value>(connection).map_err(failed)
}

/// Errors of the connection, and those of a server that is not ready, mean that it is away.
fn failed(error: RedisError) -> CallError {
    if error.is_timeout() {
        return CallError::Away(NO_ANSWER.to_owned());
    }
    if error.kind() == ErrorKind::AuthenticationFailed {
        return CallError::Server(error);
    }
    // It restarts, or another one took over and a new connection finds that.
    let is_not_ready = matches!(error.code(), Some("LOADING" | "MASTERDOWN" | "READONLY"));
    if is_not_ready || error.is_io_error() || error.is_unrecoverable_error() {
        return CallError::Away(why(&error));
    }
    CallError::Server(error)
}
