//! Settlements that wait for a store that is away, in a file that later processes send as well.
//!
//! A settlement that was added is there until the store has taken it, whatever fails: a line that was cut is ended before the
//! next, and the settlements that were not sent replace the file as a whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use endstop_core::units::Money;
use serde::{Deserialize, Serialize};

use crate::ledger::Amounts;
use crate::limits::MAX_SPOOL_BYTES;
use crate::store::{create_private_directory, disk};

/// The file of one store. Its lines are settlements; sending one twice does no harm.
#[derive(Debug)]
pub(super) struct Spool {
    file: PathBuf,
    /// The rest of the file, before it replaces the file.
    draft: PathBuf,
    /// Locked while the file is read or changed. Another file, because that one is replaced.
    lock: PathBuf,
    /// Locked while a process sends.
    sending: PathBuf,
}

/// A settlement as a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settlement {
    id: String,
    steps: u64,
    tokens: u64,
    /// Pico-dollars.
    picos: u64,
}

impl Settlement {
    pub(super) fn new(id: &str, actual: &Amounts) -> Self {
        let Amounts { steps, tokens, cost, .. } = *actual;
        Self { id: id.to_owned(), steps, tokens, picos: cost.picos() }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) const fn actual(&self) -> Amounts {
        let Self { steps, tokens, picos, .. } = *self;
        Amounts { steps, tokens, cost: Money::from_picos(picos), ..Amounts::ZERO }
    }
}

impl Spool {
    /// The spool of a store in a directory, which is created. `store` is the address without the password.
    pub(super) fn open(directory: &Path, store: &str) -> io::Result<Self> {
        create_private_directory(directory)?;
        let name = xxhash_rust::xxh3::xxh3_64(store.as_bytes());
        let of = |ending: &str| directory.join(format!("unsettled-{name:016x}.{ending}"));
        Ok(Self { file: of("jsonl"), draft: of("draft"), lock: of("lock"), sending: of("sending") })
    }

    /// Adds a settlement. If it fails, the ones before it are there as they were.
    pub(super) fn add(&self, settlement: &Settlement) -> io::Result<()> {
        let line = serde_json::to_string(settlement)?;
        let _guard = self.guard()?;
        let file = disk::open_to_append(&self.file)?;
        let before = file.metadata()?.len();
        if before > MAX_SPOOL_BYTES {
            return Err(io::Error::other("the spool is full"));
        }
        // A process that died in the middle of a line must not take this one with it.
        let start = if has_whole_lines(&file)? { "" } else { "\n" };
        disk::write_all(&file, format!("{start}{line}\n").as_bytes()).inspect_err(|_| {
            // If that fails too, the next line ends the part.
            drop(disk::set_len(&file, before));
        })
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        fs::metadata(&self.file).map_or(true, |file| file.len() == 0)
    }

    /// Sends what waits, by a function that says whether a settlement was taken, up to the first that is not. Returns how many
    /// were taken. Nothing is sent while another process does this.
    pub(super) fn send(&self, take: impl Fn(&Settlement) -> bool) -> io::Result<u64> {
        let Some(_sending) = disk::open_locked(&self.sending, false)? else { return Ok(0) };
        let before = {
            let _guard = self.guard()?;
            self.read()?
        };
        let (mut taken, mut sent) = (0, 0);
        for line in before.split_inclusive(|byte| *byte == b'\n') {
            // A line that a full disk or a crash cut was never acknowledged: its hold expires.
            let settlement = serde_json::from_slice::<Settlement>(line);
            match settlement {
                Ok(settlement) if !take(&settlement) => break,
                Ok(_) => taken += 1,
                Err(_) => {}
            }
            sent += line.len();
        }
        if sent == 0 {
            return Ok(0);
        }
        let _guard = self.guard()?;
        // Others have added lines in the meantime.
        let all = self.read()?;
        self.replace(all.get(sent..).unwrap_or_default())?;
        Ok(taken)
    }

    /// Locks the file against others that read or change it.
    fn guard(&self) -> io::Result<File> {
        disk::open_locked(&self.lock, true)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        match fs::read(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    /// Replaces the file, in one call of the system: after a crash before it, the settlements are sent again.
    fn replace(&self, rest: &[u8]) -> io::Result<()> {
        if rest.is_empty() {
            return disk::set_len(&disk::open_to_append(&self.file)?, 0);
        }
        let draft = disk::open_empty(&self.draft)?;
        disk::write_all(&draft, rest)?;
        disk::sync(&draft)?;
        drop(draft);
        disk::rename(&self.draft, &self.file)
    }
}

/// Whether the last line of a file has its end.
fn has_whole_lines(mut file: &File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
