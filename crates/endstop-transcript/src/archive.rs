//! Zip archives: the entries that a reader wants, one at a time, within limits.
//!
//! An archive states sizes that need not be true, so what is unpacked is counted, not what is stated.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use flate2::Crc;
use ruzstd::decoding::StreamingDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::limits::{
    MAX_ARCHIVE_BYTES, MAX_ARCHIVE_ENTRIES, MAX_ARCHIVE_ENTRY_BYTES, TABLE_SEARCH_BYTES,
};
use super::part::{Part, ReadSeek};
use super::warning::{WarningKind, Warnings};

/// How a zip archive begins.
pub(super) const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// How the end of an archive's table of contents begins.
const TABLE_END: &[u8] = b"PK\x05\x06";

/// The handler of an entry: its name and content.
type EntryHandler<'t> = dyn FnMut(&str, &[u8]) + 't;

/// Limits on what is unpacked.
#[derive(Clone, Copy, Debug)]
struct Limits {
    entries: usize,
    entry_bytes: u64,
    total_bytes: u64,
}

const LIMITS: Limits = Limits {
    entries: MAX_ARCHIVE_ENTRIES,
    entry_bytes: MAX_ARCHIVE_ENTRY_BYTES,
    total_bytes: MAX_ARCHIVE_BYTES,
};

/// Unpacks the wanted entries in the order of the archive's table and hands them over one by one. Damage is
/// a warning; of an archive that is cut, the deflated entries before the cut are handed over.
pub(super) fn each_entry(
    part: &Part,
    is_wanted: &dyn Fn(&str) -> bool,
    take: &mut EntryHandler<'_>,
    warnings: &Warnings,
) {
    Unpack { part, is_wanted, take, warnings, limits: LIMITS, entries: 0, total: 0 }.archive();
}

struct Unpack<'u, 't> {
    part: &'u Part,
    is_wanted: &'u dyn Fn(&str) -> bool,
    take: &'u mut EntryHandler<'t>,
    warnings: &'u Warnings,
    limits: Limits,
    entries: usize,
    /// Bytes that were unpacked.
    total: u64,
}

/// A limit on the whole archive was reached.
struct Enough;

impl Unpack<'_, '_> {
    fn archive(&mut self) {
        let part = self.part;
        let opened = part.open_to_seek().and_then(|mut file| {
            let has_table = has_table(&mut *file)?;
            Ok((BufReader::new(file), has_table))
        });
        match opened {
            Ok((file, true)) => self.by_table(file),
            Ok((_, false)) => {
                let message = || "the archive is cut: its table of contents is missing".to_owned();
                self.warnings.add(WarningKind::Truncated, part.name(), None, message);
                self.in_order();
            }
            Err(error) => {
                let message = || format!("cannot be read: {error}");
                self.warnings.add(WarningKind::Unreadable, part.name(), None, message);
            }
        }
    }

    fn by_table(&mut self, file: BufReader<Box<dyn ReadSeek + '_>>) {
        let mut archive = match ZipArchive::new(file) {
            Ok(archive) => archive,
            Err(error) => {
                self.damaged("the archive", &error);
                return self.in_order();
            }
        };
        for index in 0..archive.len() {
            if self.entry_of(&mut archive, index).is_err() {
                return;
            }
        }
    }

    fn entry_of<R: Read + Seek>(
        &mut self,
        archive: &mut ZipArchive<R>,
        index: usize,
    ) -> Result<(), Enough> {
        self.count()?;
        let name = match archive.by_index_data(index) {
            Ok(entry) => String::from_utf8_lossy(entry.name_raw()).into_owned(),
            Err(error) => {
                self.damaged("an entry", &error);
                return Ok(());
            }
        };
        if !(self.is_wanted)(&name) {
            return Ok(());
        }
        let is_zstd = match archive.by_index_raw(index) {
            Ok(entry) if entry.compression() == CompressionMethod::ZSTD => Some(entry.crc32()),
            _ => None,
        };
        let (most, mut bytes) = (self.most(), Vec::new());
        let unpacked = match is_zstd {
            Some(sum) => archive
                .by_index_raw(index)
                .map_err(io::Error::other)
                .and_then(|entry| unpack_zstd(entry, sum, most, &mut bytes)),
            None => archive
                .by_index(index)
                .map_err(io::Error::other)
                .and_then(|entry| read_to(entry, most, &mut bytes)),
        };
        match unpacked {
            Ok(()) => self.hand_over(&name, &bytes),
            Err(error) => {
                // It took its work anyway.
                self.total = self.total.saturating_add(bytes.len() as u64);
                self.damaged(&format!("`{name}`"), &error);
                Ok(())
            }
        }
    }

    /// Goes through the entries as they lie, without a table, until the first incomplete one.
    fn in_order(&mut self) {
        let Ok(file) = self.part.open() else { return };
        let mut file = BufReader::new(file);
        while self.count().is_ok() {
            let Ok(Some(entry)) = zip::read::read_zipfile_from_stream(&mut file) else { return };
            let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
            if !(self.is_wanted)(&name) {
                continue;
            }
            // The entry that is cut is no further fault.
            let mut bytes = Vec::new();
            if read_to(entry, self.most(), &mut bytes).is_err() {
                return;
            }
            if self.hand_over(&name, &bytes).is_err() {
                return;
            }
        }
    }

    fn count(&mut self) -> Result<(), Enough> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.limits.entries {
            let entries = self.limits.entries;
            let message = || format!("more than {entries} entries; the rest is not read");
            self.warnings.add(WarningKind::TooLarge, self.part.name(), None, message);
            return Err(Enough);
        }
        Ok(())
    }

    /// How many bytes the next entry may unpack to.
    fn most(&self) -> u64 {
        let left = self.limits.total_bytes.saturating_sub(self.total);
        self.limits.entry_bytes.min(left)
    }

    /// Hands over an entry that was unpacked to at most one byte more than it may.
    fn hand_over(&mut self, name: &str, bytes: &[u8]) -> Result<(), Enough> {
        let most = self.most();
        let length = bytes.len() as u64;
        self.total = self.total.saturating_add(length);
        if length <= most {
            (self.take)(name, bytes);
            return Ok(());
        }
        let is_last = self.total >= self.limits.total_bytes;
        let rest = if is_last { "; the rest of the archive is not read" } else { "" };
        let message = || format!("`{name}` unpacks to more than is read{rest}");
        self.warnings.add(WarningKind::TooLarge, self.part.name(), None, message);
        if is_last { Err(Enough) } else { Ok(()) }
    }

    fn damaged(&mut self, what: &str, error: &dyn std::fmt::Display) {
        let message = || format!("{what} cannot be unpacked: {error}");
        self.warnings.add(WarningKind::Malformed, self.part.name(), None, message);
    }
}

fn has_table(file: &mut dyn ReadSeek) -> io::Result<bool> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TABLE_SEARCH_BYTES)))?;
    let mut end = Vec::new();
    file.take(TABLE_SEARCH_BYTES).read_to_end(&mut end)?;
    file.rewind()?;
    let place = memchr::memmem::rfind(&end, TABLE_END);
    // The record that begins like this has at least 22 bytes.
    Ok(place.is_some_and(|place| end.len() - place >= 22))
}

/// Reads one byte more than `most` if there are more.
fn read_to(content: impl Read, most: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let left = most.saturating_sub(bytes.len() as u64);
    content.take(left.saturating_add(1)).read_to_end(bytes).map(|_| ())
}

/// An entry may be several frames, one after another.
fn unpack_zstd(packed: impl Read, sum: u32, most: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut packed = BufReader::new(packed);
    while !packed.fill_buf()?.is_empty() {
        let frame = StreamingDecoder::new(&mut packed).map_err(io::Error::other)?;
        read_to(frame, most, bytes)?;
        if bytes.len() as u64 > most {
            return Ok(());
        }
    }
    let mut crc = Crc::new();
    crc.update(bytes);
    if crc.sum() != sum {
        return Err(io::Error::other("the checksum does not match"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
