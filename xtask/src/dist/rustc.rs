//! Targets of the compiler that is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::content::output;

/// Returns the triple of this machine.
pub(super) fn host(root: &Path) -> Result<String, String> {
    let libraries = libraries(root, None)?;
    let host = libraries.parent().and_then(Path::file_name).unwrap_or_default();
    Ok(host.to_string_lossy().into_owned())
}

/// Returns the triple of static binaries that run on this machine, if it has Linux.
pub(super) fn musl() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Whether the standard library of a target is installed.
pub(super) fn has_target(root: &Path, target: &str) -> bool {
    libraries(root, Some(target)).is_ok_and(|libraries| libraries.is_dir())
}

/// Returns the directory of the standard library for a target, or for this machine. It need not exist.
pub(super) fn libraries(root: &Path, target: Option<&str>) -> Result<PathBuf, String> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir"]).current_dir(root);
    if let Some(target) = target {
        rustc.args(["--target", target]);
    }
    let said = output(&mut rustc)?;
    Ok(PathBuf::from(String::from_utf8_lossy(&said).trim()))
}
