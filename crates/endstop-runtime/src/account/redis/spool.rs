//! Settlements that wait for a store that is away, in a file that later processes send as well.
//!
//! A settlement that was added is there until the store has taken it, whatever fails: a line that was cut is removed before the
//! next, and the settlements that were not sent replace the file as a whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use endstop_core::units::Money;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::json::{push_json_line, version_of_line};
use crate::ledger::Amounts;
use crate::limits::MAX_SPOOL_BYTES;
use crate::store::{create_private_directory, disk};

/// The version of the lines.
const VERSION: u64 = 1;

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
#[serde(deny_unknown_fields)]
pub(super) struct Settlement {
    version: u64,
    id: String,
    steps: u64,
    tokens: u64,
    /// Pico-dollars.
    picos: u64,
}

impl Settlement {
    pub(super) fn new(id: &str, actual: &Amounts) -> Self {
        let Amounts { steps, tokens, cost, .. } = *actual;
        Self { version: VERSION, id: id.to_owned(), steps, tokens, picos: cost.picos() }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) const fn actual(&self) -> Amounts {
        let Self { steps, tokens, picos, .. } = *self;
        Amounts { steps, tokens, cost: Money::from_picos(picos), ..Amounts::ZERO }
    }

    /// Reads a line; an error in words.
    fn read(line: &[u8]) -> Result<Self, SpoolLineError> {
        // Before the rest: a later version can have other keys.
        let version = version_of_line(line)?;
        if version != VERSION {
            return Err(SpoolLineError::Version(version));
        }
        Ok(serde_json::from_slice(line)?)
    }
}

/// Why a line is not a settlement.
#[derive(Debug, Error)]
pub(super) enum SpoolLineError {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("it has version {0}, and this program knows {VERSION}; use a later version of it")]
    Version(u64),
}

/// A line that was not sent, because it cannot be read. It stays in the file.
#[derive(Debug, Error)]
#[error("line {number} is no settlement and stays in the file: {why}")]
pub(super) struct UnreadLine {
    number: usize,
    why: SpoolLineError,
}

/// The settlements that were sent.
#[derive(Debug, Default)]
pub(super) struct SentLines {
    pub(super) taken: u64,
    /// The first line that cannot be read.
    pub(super) unread: Option<UnreadLine>,
}

impl Spool {
    /// The spool of a store in a directory, which is created. `store` is the address without the password.
    pub(super) fn open(directory: &Path, store: &str) -> io::Result<Self> {
        create_private_directory(directory)?;
        let name = xxhash_rust::xxh3::xxh3_64(store.as_bytes());
        let of = |ending: &str| directory.join(format!("unsettled-{name:016x}.{ending}"));
        Ok(Self { file: of("jsonl"), draft: of("draft"), lock: of("lock"), sending: of("sending") })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// Adds a settlement. If it fails, the ones before it are there as they were.
    pub(super) fn add(&self, settlement: &Settlement) -> io::Result<()> {
        let mut line = Vec::new();
        push_json_line(&mut line, settlement);
        let _guard = self.guard()?;
        let file = disk::open_to_append(&self.file)?;
        if file.metadata()?.len() > MAX_SPOOL_BYTES {
            return Err(io::Error::other("the spool is full"));
        }
        self.drop_torn_line(&file)?;
        let before = file.metadata()?.len();
        disk::write_all(&file, &line).inspect_err(|_| {
            // If that fails too, the part of the line is removed before the next one.
            drop(disk::set_len(&file, before));
        })
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        fs::metadata(&self.file).map_or(true, |file| file.len() == 0)
    }

    /// Sends what waits, by a function that says whether a settlement was taken, up to the first that is not. Lines that
    /// cannot be read stay. Nothing is sent while another process does this.
    pub(super) fn send(&self, take: impl Fn(&Settlement) -> bool) -> io::Result<SentLines> {
        let mut sent = SentLines::default();
        let Some(_sending) = disk::open_locked(&self.sending, false)? else { return Ok(sent) };
        let before = {
            let _guard = self.guard()?;
            self.read()?
        };
        let mut rest = Vec::new();
        let mut is_taken = true;
        for (at, line) in before.split_inclusive(|byte| *byte == b'\n').enumerate() {
            match Settlement::read(line) {
                Ok(settlement) if is_taken && take(&settlement) => {
                    sent.taken += 1;
                    continue;
                }
                Ok(_) => is_taken = false,
                Err(why) => {
                    let number = at.saturating_add(1);
                    sent.unread = sent.unread.or(Some(UnreadLine { number, why }));
                }
            }
            rest.extend_from_slice(line);
        }
        if sent.taken == 0 {
            return Ok(sent);
        }
        let _guard = self.guard()?;
        // Others have added lines in the meantime.
        let all = self.read()?;
        rest.extend_from_slice(all.get(before.len()..).unwrap_or_default());
        self.replace(&rest)?;
        Ok(sent)
    }

    /// Locks the file against others that read or change it.
    fn guard(&self) -> io::Result<File> {
        disk::open_locked(&self.lock, true)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// All lines of the file. A part without an end is none: it was never acknowledged, so its hold expires.
    fn read(&self) -> io::Result<Vec<u8>> {
        let file = match File::open(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut all = Vec::new();
        // The last line that is added can end beyond the limit.
        let most = MAX_SPOOL_BYTES.saturating_mul(2);
        file.take(most).read_to_end(&mut all)?;
        if u64::try_from(all.len()).unwrap_or(u64::MAX) >= most {
            return Err(io::Error::other(format!("the spool has more than {most} bytes")));
        }
        let end = all.iter().rposition(|byte| *byte == b'\n');
        all.truncate(end.map_or(0, |end| end.saturating_add(1)));
        Ok(all)
    }

    /// Removes a line without an end, so that the next one does not become a part of it.
    fn drop_torn_line(&self, mut file: &File) -> io::Result<()> {
        if file.metadata()?.len() == 0 {
            return Ok(());
        }
        let mut last = [0_u8];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last == *b"\n" {
            return Ok(());
        }
        let lines = self.read()?.len();
        disk::set_len(file, u64::try_from(lines).unwrap_or(u64::MAX))
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
