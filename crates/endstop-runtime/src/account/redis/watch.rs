//! The thread of a store: it asks the server for the epoch and the time, finds out when a server that was away is back, and
//! sends then what waited.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use super::connections::CallError;
use super::wire::Request;
use super::{RedisServer, is_missing_function};
use crate::limits::{STORE_POLL, STORE_RETRY, STORE_TELL};
use redis::Connection;

/// Starts the thread. It ends with the last handle of the store.
pub(super) fn start(shared: &Arc<RedisServer>) {
    let of = Arc::downgrade(shared);
    let watch = thread::Builder::new().name("endstop-store".to_owned());
    // Without it no lease is renewed: then no call begins.
    let _ = watch.spawn(move || run(&of));
}

fn run(of: &Weak<RedisServer>) {
    let mut kept = None;
    let (mut looked, mut told, mut sent) = (Instant::now(), Instant::now(), Instant::now());
    let mut told_epoch = None;
    loop {
        thread::sleep(STORE_POLL);
        let Some(shared) = of.upgrade() else { return };
        let was_away = shared.connections.away().is_some();
        if was_away && looked.elapsed() < STORE_RETRY {
            continue;
        }
        looked = Instant::now();
        if look(&shared, &mut kept).is_none() {
            continue;
        }
        // A reservation may have learned of a kill before this.
        let epoch = shared.kills.epoch();
        let is_news = told_epoch != Some(epoch);
        if shared.is_member() && (is_news || told.elapsed() >= STORE_TELL) {
            told = Instant::now();
            // Without it a kill waits for the lease.
            if shared.tell_obeyed().is_ok() {
                told_epoch = Some(epoch);
            }
        }
        if was_away || sent.elapsed() >= STORE_RETRY {
            sent = Instant::now();
            shared.send_spooled();
        }
    }
}

/// Asks for the epoch, and learns of kills. `None` if there is no answer.
fn look(shared: &RedisServer, kept: &mut Option<Connection>) -> Option<()> {
    let asked = Instant::now();
    let command = shared.command("hello", Request::default());
    let value = match shared.connections.look(kept, &command) {
        Err(CallError::Server(error)) if is_missing_function(&error) => {
            // The server has lost it.
            shared.load().ok()?;
            shared.connections.look(kept, &command).ok()?
        }
        answer => answer.ok()?,
    };
    let hello = shared.reply("hello", value).ok()?;
    shared.set_time(hello.number(0));
    if !shared.kills.heard(asked, hello.number(1)) {
        shared.learn_kills().ok()?;
    }
    Some(())
}
