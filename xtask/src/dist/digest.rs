//! SHA-256, and the list of the release's checksums.
//!
//! A separate file because packages, images and the list use the same digest.

use std::fs;

use sha2::{Digest, Sha256};

use super::Release;

/// The list of checksums.
pub(super) const SUMS: &str = "SHA256SUMS";

/// Returns the digest of `bytes`.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the digest in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the list, sorted by name, in the form of `sha256sum`.
pub(super) fn write_sums(release: &mut Release) -> Result<(), String> {
    let mut names = release.files.clone();
    names.sort();
    let mut text = String::new();
    for name in names {
        let path = release.directory.join(&name);
        let bytes = fs::read(&path).map_err(|error| format!("`{name}`: {error}"))?;
        text.push_str(&format!("{}  {name}\n", hex(&bytes)));
    }
    release.put(SUMS, text.as_bytes())
}
