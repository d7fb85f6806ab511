//! The thread of a store: it asks the server for the epoch and the time, finds out when a server that was away is back, and
//! sends then what waited.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::super::store::BudgetStoreError;
use super::connections::CallError;
use super::{RedisBudgetStore, RedisServer, is_missing_function};
use crate::limits::{STORE_POLL, STORE_RETRY, STORE_TELL};
use redis::Connection;

/// The function that the thread calls.
const HELLO: &str = "hello";

/// Takes the error of a server that can no longer be used, and `None` once it can again.
type OutageReceiver = Box<dyn Fn(Option<&BudgetStoreError>) + Send + Sync>;

/// The functions that are called at the beginning and at the end of an outage.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<OutageReceiver>>);

impl Listeners {
    fn all(&self) -> MutexGuard<'_, Vec<OutageReceiver>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes them.
    pub(super) fn clear(&self) {
        self.all().clear();
    }
}

impl RedisBudgetStore {
    /// Calls a function when the server can no longer be used, with the error, and with `None` once it can be used again. The
    /// thread of the store finds out within about a second, whether calls are made or not.
    pub fn on_outage(&self, receive: impl Fn(Option<&BudgetStoreError>) + Send + Sync + 'static) {
        self.shared.listeners.all().push(Box::new(receive));
    }
}

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
    let mut is_out = false;
    loop {
        thread::sleep(STORE_POLL);
        let Some(shared) = of.upgrade() else { return };
        let was_away = shared.connections.away().is_some();
        if was_away && looked.elapsed() < STORE_RETRY {
            continue;
        }
        looked = Instant::now();
        let answer = look(&shared, &mut kept);
        if answer.is_err() != is_out {
            is_out = answer.is_err();
            shared.listeners.all().iter().for_each(|receive| receive(answer.as_ref().err()));
        }
        if is_out {
            continue;
        }
        if shared.is_member() && told.elapsed() >= STORE_TELL {
            told = Instant::now();
            // Without it the next look finds that the store has forgotten this process.
            let _ = shared.confirm();
        }
        if was_away || sent.elapsed() >= STORE_RETRY {
            sent = Instant::now();
            // A line that cannot be read stays, and the next process that opens the spool says so.
            let _ = shared.send_spooled();
        }
    }
}

/// Asks for the epoch, learns of kills, and confirms them.
fn look(shared: &RedisServer, kept: &mut Option<Connection>) -> Result<(), BudgetStoreError> {
    let (asked, is_member) = (Instant::now(), shared.is_member());
    let failed = |error| shared.failed(HELLO, error);
    let command = shared.command(HELLO, shared.greeting(is_member));
    let value = match shared.connections.look(kept, &command) {
        Err(CallError::Server(error)) if is_missing_function(&error) => {
            // The server has lost it.
            shared.load()?;
            shared.connections.look(kept, &command).map_err(failed)?
        }
        answer => answer.map_err(failed)?,
    };
    let hello = shared.reply(HELLO, value)?;
    shared.set_time(hello.number(0)?);
    let (epoch, is_known) = (hello.number(1)?, !is_member || hello.number(2)? == 1);
    // A reservation may have learned of a kill before this, or the server may have forgotten this process: then no kill waits
    // for it, and its lease is not renewed before it has reported.
    let is_obeyed = match is_known || !shared.is_member() {
        true => shared.kills.heard(asked, epoch),
        false => shared.confirm()?,
    };
    if !is_obeyed {
        shared.learn_kills()?;
        if shared.is_member() {
            // Without it a kill waits for the lease.
            shared.confirm()?;
        }
    }
    Ok(())
}
