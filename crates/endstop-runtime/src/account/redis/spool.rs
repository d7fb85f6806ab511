//! Settlements that wait for a store that is away, in a file that later processes send as well.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use endstop_core::units::Money;
use serde::{Deserialize, Serialize};

use crate::ledger::Amounts;
use crate::limits::MAX_SPOOL_BYTES;
use crate::store::{create_private_directory, private_file};

/// The file of one store. Its lines are settlements; sending one twice does no harm.
#[derive(Debug)]
pub(super) struct Spool {
    file: PathBuf,
    lock: PathBuf,
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
        let file = directory.join(format!("unsettled-{name:016x}.jsonl"));
        let lock = directory.join(format!("unsettled-{name:016x}.lock"));
        Ok(Self { file, lock })
    }

    /// Adds a settlement.
    pub(super) fn add(&self, settlement: &Settlement) -> io::Result<()> {
        let mut line = serde_json::to_string(settlement)?;
        line.push('\n');
        let mut file = private_file().create(true).append(true).open(&self.file)?;
        file.lock()?;
        if file.metadata()?.len() > MAX_SPOOL_BYTES {
            return Err(io::Error::other("the spool is full"));
        }
        file.write_all(line.as_bytes())
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        fs::metadata(&self.file).map_or(true, |file| file.len() == 0)
    }

    /// Sends what waits, by a function that says whether a settlement was taken, up to the first that is not. Returns how many
    /// were taken. Nothing is sent while another process does this.
    pub(super) fn send(&self, take: impl Fn(&Settlement) -> bool) -> io::Result<u64> {
        let lock = private_file().create(true).append(true).open(&self.lock)?;
        if lock.try_lock().is_err() {
            return Ok(0);
        }
        let mut file = match private_file().read(true).write(true).open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            opened => opened?,
        };
        let before = read(&mut file)?;
        let (mut taken, mut sent) = (0, 0);
        for line in before.split_inclusive(|byte| *byte == b'\n') {
            // A line that a full disk cut settles nothing: its hold expires.
            let settlement = serde_json::from_slice::<Settlement>(line);
            match settlement {
                Ok(settlement) if !take(&settlement) => break,
                Ok(_) => taken += 1,
                Err(_) => {}
            }
            sent += line.len();
        }
        // Others have added lines in the meantime, and wait here.
        file.lock()?;
        let all = whole(&mut file)?;
        let rest = all.get(sent..).unwrap_or_default();
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(rest)?;
        Ok(taken)
    }
}

/// The whole file, while no other process writes.
fn read(file: &mut File) -> io::Result<Vec<u8>> {
    file.lock_shared()?;
    let all = whole(file);
    file.unlock()?;
    all
}

fn whole(file: &mut File) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut all)?;
    Ok(all)
}
