//! The file of a state: a line of JSON about it, and the text as it was saved.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::super::{MAX_STATE_BYTES, RunId, RunSummary, StoreError, StoredState, Version};
use super::super::{disk, label, now_millis};
use crate::limits::MAX_HEADER_BYTES;

/// The version of the format that is written, and the last that is read.
const FORMAT: u64 = 1;

/// The contents of the first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// [`FORMAT`]. The name of this key distinguishes a state from other files.
    endstop_state: u64,
    run: RunId,
    pub(super) version: Version,
    /// Milliseconds since 1970-01-01T00:00Z.
    saved_at: u64,
    /// Length of the text.
    bytes: u64,
    /// XXH3 of the text, 64 bits in hexadecimal: detects accidental truncation and changes.
    xxh3: String,
    label: String,
}

/// The part that every version of the format has.
#[derive(Deserialize)]
struct Format {
    endstop_state: u64,
}

impl Header {
    pub(super) fn of(run: &RunId, version: Version, state: &str) -> Self {
        Self {
            endstop_state: FORMAT,
            run: run.clone(),
            version,
            saved_at: now_millis(),
            bytes: u64::try_from(state.len()).unwrap_or(u64::MAX),
            xxh3: digest(state.as_bytes()),
            label: label::of_state(state),
        }
    }

    pub(super) fn line(&self) -> io::Result<String> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        Ok(line)
    }

    pub(super) fn into_summary(self, id: RunId) -> RunSummary {
        RunSummary {
            id,
            version: self.version,
            saved_at: self.saved_at,
            label: self.label,
            bytes: self.bytes,
            problem: None,
        }
    }
}

fn digest(text: &[u8]) -> String {
    format!("{:016x}", xxh3_64(text))
}

/// The header of a state and a reader of its text, whose length has been checked; `None` if the file does not exist.
pub(super) fn find(
    run: &RunId,
    path: &Path,
) -> Result<Option<(Header, BufReader<File>)>, StoreError> {
    let failed = |error| StoreError::failed(format!("read run `{run}`"), path, error);
    let file = match disk::open_to_read(path) {
        // A file in the place of the run's directory is none of ours.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        file => file.map_err(failed)?,
    };
    let length = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.by_ref().take(MAX_HEADER_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
    let header = parse(run, path, &line)?;
    let text = length.saturating_sub(u64::try_from(line.len()).unwrap_or(u64::MAX));
    if text != header.bytes {
        return Err(damaged(
            path,
            format!("its text has {text} bytes instead of {}", header.bytes),
        ));
    }
    Ok(Some((header, reader)))
}

fn parse(run: &RunId, path: &Path, line: &[u8]) -> Result<Header, StoreError> {
    let no_header =
        |error| damaged(path, format!("its first line is not that of a state: {error}"));
    let format: Format = serde_json::from_slice(line).map_err(no_header)?;
    if format.endstop_state > FORMAT {
        let found = format.endstop_state;
        return Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    let header: Header = serde_json::from_slice(line).map_err(no_header)?;
    // Some file systems do not tell `a` from `A`.
    if header.run != *run {
        return Err(damaged(path, format!("it is the state of run `{}`", header.run)));
    }
    Ok(header)
}

/// The whole state; `None` if the file does not exist.
pub(super) fn load(run: &RunId, path: &Path) -> Result<Option<StoredState>, StoreError> {
    let Some((header, mut reader)) = find(run, path)? else { return Ok(None) };
    if usize::try_from(header.bytes).map_or(true, |bytes| bytes > MAX_STATE_BYTES) {
        return Err(damaged(path, format!("its text has {} bytes", header.bytes)));
    }
    let mut text = Vec::new();
    reader
        .read_to_end(&mut text)
        .map_err(|error| StoreError::failed(format!("read run `{run}`"), path, error))?;
    if digest(&text) != header.xxh3 {
        return Err(damaged(path, "its text was altered".to_owned()));
    }
    let text = String::from_utf8(text).map_err(|error| damaged(path, error.to_string()))?;
    Ok(Some(StoredState { version: header.version, saved_at: header.saved_at, text }))
}

fn damaged(path: &Path, why: String) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), why }
}
