//! Calls that fail on purpose, in the thread of a test.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};

thread_local! {
    static CALLS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    static FOR_EVER: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with the call after `calls` others failing, and those after it too if `for_ever`, as after
/// a crash. Whether a call failed.
pub(crate) fn after(calls: u64, for_ever: bool, work: impl FnOnce()) -> bool {
    CALLS_LEFT.set(Some(calls));
    FOR_EVER.set(for_ever);
    FAILED.set(false);
    work();
    CALLS_LEFT.set(None);
    FAILED.get()
}

pub(super) fn step() -> io::Result<()> {
    match CALLS_LEFT.get() {
        Some(0) => {
            FAILED.set(true);
            if !FOR_EVER.get() {
                CALLS_LEFT.set(None);
            }
            Err(io::Error::other("fails on purpose"))
        }
        Some(left) => {
            CALLS_LEFT.set(Some(left - 1));
            Ok(())
        }
        None => Ok(()),
    }
}

/// A write that fails has written half; after a crash, nothing is written.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let is_first = !FAILED.get();
    step().inspect_err(|_| {
        if is_first {
            file.write_all(&bytes[..bytes.len() / 2]).unwrap();
        }
    })
}
