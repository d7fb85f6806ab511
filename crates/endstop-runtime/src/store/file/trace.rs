//! The file of a trace: whole lines, appended under a lock.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use super::super::page::Page;
use super::super::{MAX_APPEND_BYTES, WholeLines, disk};
use crate::limits::TRACE_READ_BYTES;

/// How much is read at a time, in bytes.
const BLOCK_BYTES: u64 = 64 << 10;

/// Appends lines; after an error they are taken back. With a store's directory, the disk is waited for: for the
/// lines, and for the names of a new file and its directory.
pub(super) fn append(path: &Path, lines: &str, wait_in: Option<&Path>) -> io::Result<()> {
    let mut file = opened(path)?;
    let end = cut_torn_tail(&mut file)?;
    if end == 0
        && let Some(store) = wait_in
    {
        disk::sync_directory(path.parent().unwrap_or(store))?;
        disk::sync_directory(store)?;
    }
    let mut written = write(&file, lines);
    if written.is_ok() && wait_in.is_some() {
        written = disk::sync(&file);
    }
    if written.is_err() {
        // Where this fails too, lines are left that nobody was told of.
        drop(disk::set_len(&file, end));
    }
    written
}

fn opened(path: &Path) -> io::Result<File> {
    let file = disk::open_locked(path, true)?;
    file.ok_or_else(|| ErrorKind::WouldBlock.into())
}

/// In one write, so that a kill rarely cuts it.
fn write(file: &File, lines: &str) -> io::Result<()> {
    if lines.ends_with('\n') {
        return disk::write_all(file, lines.as_bytes());
    }
    disk::write_all(file, format!("{lines}\n").as_bytes())
}

/// Cuts off what an interrupted append left after the last line feed; gives the length that remains.
fn cut_torn_tail(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    // One byte first: nearly always it is the line feed.
    let mut block = 1;
    while end > 0 {
        let start = end.saturating_sub(block);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
        if let Some(at) = memchr::memrchr(b'\n', &bytes) {
            let after = u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1);
            end = start.saturating_add(after);
            break;
        }
        end = start;
        block = BLOCK_BYTES;
    }
    if end < length {
        disk::set_len(file, end)?;
    }
    Ok(end)
}

/// Removes the file once nobody appends to it; whether there was one.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    if !path.try_exists()? {
        return Ok(false);
    }
    let held = opened(path)?;
    let was_there = disk::remove_file(path);
    drop(held);
    was_there
}

/// Whole lines from a line on, up to a page.
pub(super) fn read(path: &Path, from_line: u64) -> io::Result<Vec<String>> {
    let mut page = Page::default();
    let mut lines = match disk::open_to_read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(page.into_lines()),
        file => WholeLines::new(BufReader::with_capacity(TRACE_READ_BYTES, file?)),
    };
    for _ in 0..from_line {
        if !lines.advance(0)? {
            return Ok(page.into_lines());
        }
    }
    // A longer line than an append was not written by a store.
    while !page.is_full() && lines.advance(MAX_APPEND_BYTES)? {
        page.push(String::from_utf8_lossy(lines.line()).into_owned());
    }
    Ok(page.into_lines())
}
