//! The wheel for PyPI: the binary as a script, for every Python 3.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::binary::Binary;
use super::content::{Content, Entry};
use super::digest::sha256;
use super::{Effort, Release};

/// Makes the wheel.
pub(super) fn make(
    root: &Path,
    release: &mut Release,
    binary: &Binary,
    content: &Content,
) -> Result<(), String> {
    let (version, tag) = (release.version.clone(), binary.wheel_tag());
    let readme = fs::read_to_string(root.join("README.md"));
    let readme = readme.map_err(|error| format!("`README.md`: {error}"))?;
    let wheel = wheel(&version, &tag, &binary.bytes, &readme, &content.licenses, release.effort)?;
    release.put(&format!("endstop-{version}-py3-none-{tag}.whl"), &wheel)
}

fn wheel(
    version: &str,
    tag: &str,
    program: &[u8],
    readme: &str,
    licenses: &[Entry],
    effort: Effort,
) -> Result<Vec<u8>, String> {
    let info = format!("endstop-{version}.dist-info");
    let mut entries =
        vec![Entry::program(format!("endstop-{version}.data/scripts/endstop"), program)];
    entries.extend(licenses.iter().map(|license| license.below(&format!("{info}/licenses"))));
    entries.push(Entry::file(format!("{info}/METADATA"), metadata(version, readme, licenses)));
    entries.push(Entry::file(format!("{info}/WHEEL"), about(tag)));
    let record = record(&entries, &info);
    entries.push(record);
    zip(&entries, effort)
}

fn metadata(version: &str, readme: &str, licenses: &[Entry]) -> String {
    let files: String =
        licenses.iter().map(|license| format!("License-File: {}\n", license.path)).collect();
    format!(
        "Metadata-Version: 2.4\nName: endstop\nVersion: {version}\n\
         Summary: Stops LLM agents before they overspend or loop\n\
         License-Expression: MIT OR Apache-2.0\n{files}\
         Project-URL: Repository, https://github.com/endstop-dev/endstop\n\
         Keywords: agent,llm,budget,limits,policy\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    )
}

fn about(tag: &str) -> String {
    let tags: String = tag.split('.').map(|tag| format!("Tag: py3-none-{tag}\n")).collect();
    format!("Wheel-Version: 1.0\nGenerator: endstop\nRoot-Is-Purelib: false\n{tags}")
}

/// The list of the files with their digests and lengths; the list itself has neither.
fn record(entries: &[Entry], info: &str) -> Entry {
    let name = format!("{info}/RECORD");
    let mut text = String::new();
    for entry in entries {
        let digest = base64_url(&sha256(&entry.bytes));
        text.push_str(&format!("{},sha256={digest},{}\n", entry.path, entry.bytes.len()));
    }
    text.push_str(&format!("{name},,\n"));
    Entry::file(name, text)
}

/// Base64 with the letters for URLs and without padding.
fn base64_url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..=chunk.len() {
            let shift = 18_usize.saturating_sub(place.saturating_mul(6));
            let letter = LETTERS.get(((bits >> shift) & 63) as usize);
            text.extend(letter.copied().map(char::from));
        }
    }
    text
}

/// Writes a zip with fixed times; the order is that of the entries, the list of a wheel last.
fn zip(entries: &[Entry], effort: Effort) -> Result<Vec<u8>, String> {
    let failed = |error: zip::result::ZipError| format!("cannot make a wheel: {error}");
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let mode = if entry.is_executable { 0o755 } else { 0o644 };
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(i64::from(effort.level())))
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        writer.start_file(entry.path.as_str(), options).map_err(failed)?;
        writer.write_all(&entry.bytes).map_err(|error| format!("cannot make a wheel: {error}"))?;
    }
    Ok(writer.finish().map_err(failed)?.into_inner())
}

#[cfg(test)]
mod tests;
