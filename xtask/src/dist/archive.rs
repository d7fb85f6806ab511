//! Archives `tar.gz`, and the script that installs them.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use super::binary::Binary;
use super::content::{Content, Entry};
use super::platform::Platform;
use super::{Effort, Release};

/// The time of every file in an archive: the earliest that all formats can say, the begin of 1980.
pub(super) const TIME: u64 = 315_532_800;
/// The installer; `@VERSION@` stands for the version.
const INSTALLER: &str = "packaging/install.sh";
/// Its name among the files of a release.
pub(super) const INSTALL_SH: &str = "install.sh";

/// Makes the archive and `install.sh`.
pub(super) fn make(
    root: &Path,
    release: &mut Release,
    binary: &Binary,
    content: &Content,
) -> Result<(), String> {
    let name = name(&release.version, binary.platform);
    let mut entries = vec![Entry::program("endstop", binary.bytes.clone()), content.readme.clone()];
    for group in [&content.completions, &content.man, &content.licenses] {
        entries.extend(group.iter().cloned());
    }
    let entries: Vec<Entry> = entries.iter().map(|entry| entry.below(&name)).collect();
    release.put(&format!("{name}.tar.gz"), &tar_gz(entries, release.effort)?)?;
    let script = root.join(INSTALLER);
    let script = fs::read_to_string(script).map_err(|error| format!("`{INSTALLER}`: {error}"))?;
    release.put(INSTALL_SH, script.replace("@VERSION@", &release.version).as_bytes())
}

/// The name of an archive without its ending. The installer makes the same from what `uname` says.
fn name(version: &str, platform: Platform) -> String {
    format!("endstop-{version}-{}-{}", platform.system, platform.machine)
}

/// Returns a `tar.gz` of the files, sorted by path.
pub(super) fn tar_gz(entries: Vec<Entry>, effort: Effort) -> Result<Vec<u8>, String> {
    gzip(&tar(entries, &[])?, effort)
}

/// Returns a `tar` of directories with their modes, and of files; each is sorted by path.
pub(super) fn tar(mut entries: Vec<Entry>, directories: &[(&str, u32)]) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot make an archive: {error}");
    entries.sort_by(|left, right| left.path.cmp(&right.path));
    let mut builder = tar::Builder::new(Vec::new());
    for (path, mode) in directories {
        let mut header = header(EntryType::Directory, *mode, 0);
        builder.append_data(&mut header, path, std::io::empty()).map_err(failed)?;
    }
    for entry in &entries {
        let mode = if entry.is_executable { 0o755 } else { 0o644 };
        let length = u64::try_from(entry.bytes.len()).unwrap_or(u64::MAX);
        let mut header = header(EntryType::Regular, mode, length);
        builder.append_data(&mut header, &entry.path, entry.bytes.as_slice()).map_err(failed)?;
    }
    builder.into_inner().map_err(failed)
}

fn header(kind: EntryType, mode: u32, length: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(length);
    header.set_mtime(TIME);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Compresses, without a name and a time.
pub(super) fn gzip(bytes: &[u8], effort: Effort) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot compress: {error}");
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(effort.level()));
    encoder.write_all(bytes).map_err(failed)?;
    encoder.finish().map_err(failed)
}
