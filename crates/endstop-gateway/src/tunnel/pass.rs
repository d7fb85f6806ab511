//! The bytes of a tunnel, passed on unread in both directions.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop_runtime::clock::millis;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::{Instant, sleep};

use crate::limits::TUNNEL_BUFFER;

/// When a byte was passed on last.
struct LastByte {
    begun: Instant,
    millis: AtomicU64,
}

impl LastByte {
    fn new() -> Self {
        Self { begun: Instant::now(), millis: AtomicU64::new(0) }
    }

    fn is_now(&self) {
        self.millis.store(millis(self.begun.elapsed()), Ordering::Relaxed);
    }

    /// Waits until no byte was passed on for `idle`.
    async fn silence(&self, idle: Duration) {
        loop {
            let last = Duration::from_millis(self.millis.load(Ordering::Relaxed));
            let silent = self.begun.elapsed().saturating_sub(last);
            if silent >= idle {
                return;
            }
            sleep(idle - silent).await;
        }
    }
}

/// Passes on what each side sends, its end too, until both have ended, one of them breaks, or neither sends for `idle`.
pub(super) async fn both_ways(
    client: impl AsyncRead + AsyncWrite,
    remote: impl AsyncRead + AsyncWrite,
    idle: Duration,
) {
    let last = LastByte::new();
    let (from_client, to_client) = split(client);
    let (from_remote, to_remote) = split(remote);
    let passed = async {
        tokio::try_join!(
            one_way(from_client, to_remote, &last),
            one_way(from_remote, to_client, &last)
        )
    };
    tokio::select! {
        // How a tunnel ended is the affair of its ends.
        _ = passed => {}
        () = last.silence(idle) => {}
    }
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    last: &LastByte,
) -> io::Result<()> {
    let mut space = vec![0; TUNNEL_BUFFER];
    loop {
        let length = from.read(&mut space).await?;
        last.is_now();
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(space.get(..length).unwrap_or_default()).await?;
        to.flush().await?;
        last.is_now();
    }
}

#[cfg(test)]
mod tests;
