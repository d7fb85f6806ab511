//! The disk operations of the stores, call by call: the one place where tests make calls fail.
//!
//! Transcripts hold secrets: on Unix directories are made with mode 0700 and files with 0600.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek, SeekFrom, Write};
use std::path::Path;

use tokio::runtime::Handle;

use super::StoreError;
use crate::limits::{MAX_CERTIFICATES_BYTES, OPEN_TRIES};

#[cfg(test)]
pub(crate) mod fault;

/// Runs `work` on the runtime's threads for blocking work; directly if there is no runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|_| StoreError::Ended)?,
        Err(_) => work(),
    }
}

/// One call that may fail.
fn step() -> io::Result<()> {
    #[cfg(test)]
    fault::step()?;
    Ok(())
}

/// Makes a directory and those above it; one that is there stays as it is.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    step()?;
    create_private_directory(path)
}

/// Creates a directory, and those above it, that only the user may enter: mode 0700 on Unix. An existing one stays
/// as it is.
///
/// # Errors
///
/// Returns the error of the system.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Options that create a file only the user may read: mode 0600 on Unix. Runs of agents hold secrets, so every
/// file with a run in it is created by this. An existing file keeps its mode.
///
/// ```
/// use std::io::Write as _;
///
/// use endstop_runtime::store::private_file;
///
/// # let path = std::env::temp_dir().join(format!("endstop-{}", endstop_runtime::store::RunId::new()));
/// let mut file = private_file().write(true).create_new(true).open(&path)?;
/// file.write_all(b"{}\n")?;
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Replaces a private file by this content, or leaves it as it is: the content is written to `draft` in the same directory, and gets
/// the name of the file once the disk has it. Two at the same time need a lock, or two drafts.
///
/// ```
/// use endstop_runtime::store::replace_file;
///
/// # let path = std::env::temp_dir().join(format!("endstop-{}", endstop_runtime::store::RunId::new()));
/// let draft = path.with_extension("draft");
/// replace_file(&path, &draft, b"one")?;
/// replace_file(&path, &draft, b"two")?;
/// assert_eq!(std::fs::read(&path)?, b"two");
/// assert!(!draft.exists());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Returns the error of the system. Then the file is as before, and the draft is removed.
pub fn replace_file(path: &Path, draft: &Path, content: &[u8]) -> io::Result<()> {
    let written = not_through_links().write(true).create(true).truncate(true).open(draft);
    let written = written.and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(draft, path)).inspect_err(|_| drop(fs::remove_file(draft)))
}

/// Reads a file of root certificates, of at most four mebibytes: it can be a device without an end.
///
/// # Errors
///
/// Returns the error of the system, and [`ErrorKind::FileTooLarge`] if there is more.
pub fn read_certificates(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, MAX_CERTIFICATES_BYTES)
}

/// Reads a file of at most `limit` bytes.
pub(super) fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        let why = format!("it has more than {limit} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Options that open no symbolic link, and do not wait at a pipe. A new file is private.
pub(crate) fn not_through_links() -> OpenOptions {
    let mut options = private_file();
    #[cfg(unix)]
    {
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options
}

/// Whether an open by [`not_through_links`] met a symbolic link, or a pipe without a reader.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    #[cfg(unix)]
    return matches!(error.raw_os_error(), Some(nix::libc::ELOOP | nix::libc::ENXIO));
    #[cfg(not(unix))]
    return error.kind() == ErrorKind::Unsupported;
}

/// Whether a file or a directory belongs to this user or to the system's own. The user `root` takes any, as in a
/// container whose directory belongs to a user outside.
pub(crate) fn is_trusted(about: &Metadata) -> bool {
    #[cfg(unix)]
    return is_trusted_owner(
        std::os::unix::fs::MetadataExt::uid(about),
        nix::unistd::geteuid().as_raw(),
    );
    #[cfg(not(unix))]
    return about.len() < u64::MAX;
}

/// Refuses a directory of another user, who could replace the files in it.
pub(super) fn check_directory(path: &Path) -> io::Result<()> {
    if is_trusted(&fs::metadata(path)?) {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another user"))
}

#[cfg(unix)]
const fn is_trusted_owner(owner: u32, user: u32) -> bool {
    user == 0 || owner == user || owner == 0
}

/// Opens a file for reading and writing at its end; creates it if it is missing.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    step()?;
    not_through_links().read(true).append(true).create(true).open(path)
}

/// Opens a file for reading and writing anywhere in it. Does not create it.
fn open_to_write(path: &Path) -> io::Result<File> {
    step()?;
    not_through_links().read(true).write(true).open(path)
}

/// Opens an empty file, and replaces any existing one.
pub(crate) fn open_empty(path: &Path) -> io::Result<File> {
    step()?;
    not_through_links().write(true).create(true).truncate(true).open(path)
}

/// Opens a file for reading, and nothing but a regular file.
pub(super) fn open_to_read(path: &Path) -> io::Result<File> {
    let not_a_file = || io::Error::new(ErrorKind::InvalidInput, "it is not a regular file");
    let file = match not_through_links().read(true).open(path) {
        Err(error) if is_link_error(&error) => return Err(not_a_file()),
        file => file?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
}

/// Makes an empty file; one that is there is not even opened, for closing it would end the locks that
/// SQLite has on it in this process.
#[cfg(feature = "sqlite")]
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    step()?;
    match private_file().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}

pub(crate) fn write_all(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    fault::write(file, bytes)?;
    file.write_all(bytes)
}

/// Writes at a place of a file that is not open to append.
pub(super) fn write_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    write_all(file, bytes)
}

/// Replaces some bytes near the beginning of a file. Unlike a longer write, this one is never cut in two, because the bytes
/// lie in one block of the disk.
pub(super) fn overwrite(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    step()?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

pub(crate) fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    step()?;
    file.set_len(bytes)
}

pub(crate) fn sync(file: &File) -> io::Result<()> {
    step()?;
    // The tests of this crate lose no power, and count calls by the hundred.
    if cfg!(test) { Ok(()) } else { file.sync_data() }
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    step()?;
    fs::rename(from, to)
}

/// Removes a file; whether there was one.
pub(super) fn remove_file(path: &Path) -> io::Result<bool> {
    step()?;
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the names in a directory survive a loss of power. Only Unix can open a directory for that.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    step()?;
    if cfg!(unix) && !cfg!(test) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Opens a file, creates it with its directory if it is missing, and locks it until it is closed; `None` if another
/// process has it and `wait` is `false`.
///
/// Who has the lock may remove the file: those who wait then find another file at the path, or none, and
/// begin again. (Not on Windows, where an open file stays.)
pub(crate) fn open_locked(path: &Path, wait: bool) -> io::Result<Option<File>> {
    lock_what_is_opened(path, wait, || match open_to_append(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_directory(path.parent().unwrap_or(path))?;
            Ok(None)
        }
        opened => opened.map(Some),
    })
}

/// Opens a file to write anywhere in it, and locks it until it is closed. Waits for the lock, and does not create the file.
pub(super) fn open_existing_locked(path: &Path) -> io::Result<File> {
    let file = lock_what_is_opened(path, true, || open_to_write(path).map(Some))?;
    file.ok_or_else(|| ErrorKind::WouldBlock.into())
}

/// Locks the file that `open` opens at the path, and calls it again if it returns `None`.
fn lock_what_is_opened(
    path: &Path,
    wait: bool,
    open: impl Fn() -> io::Result<Option<File>>,
) -> io::Result<Option<File>> {
    for _ in 0..OPEN_TRIES {
        let Some(file) = open()? else { continue };
        if !locked(&file, wait)? {
            return Ok(None);
        }
        if is_at(&file, path)? {
            return Ok(Some(file));
        }
    }
    Err(io::Error::other("others remove it again and again"))
}

fn locked(file: &File, wait: bool) -> io::Result<bool> {
    step()?;
    if !wait {
        return match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        };
    }
    loop {
        match file.lock() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done.map(|()| true),
        }
    }
}

/// Whether the path still leads to this file.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let held = file.metadata()?;
    Ok((found.dev(), found.ino()) == (held.dev(), held.ino()))
}

#[cfg(not(unix))]
pub(crate) fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(all(test, unix))]
mod tests;
