//! The npm packages: `endstop`, which starts the binary, and one package with the binary for each platform.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Release;
use super::archive::tar_gz;
use super::binary::Binary;
use super::content::{Content, Entry};
use super::platform::{PLATFORMS, Platform};

/// The scope of the packages with binaries.
pub(super) const SCOPE: &str = "@endstop";
/// The program of the package `endstop`.
const STARTER: &str = "packaging/npm/endstop.js";

/// Makes both packages.
pub(super) fn make(
    root: &Path,
    release: &mut Release,
    binary: &Binary,
    content: &Content,
) -> Result<(), String> {
    let starter = fs::read(root.join(STARTER)).map_err(|error| format!("`{STARTER}`: {error}"))?;
    let of_licenses = |entries: &mut Vec<Entry>| entries.extend(content.licenses.iter().cloned());
    let mut entries = vec![
        Entry::file("package.json", pretty(&main_manifest(&release.version))),
        Entry::program("bin/endstop.js", starter),
        content.readme.clone(),
    ];
    of_licenses(&mut entries);
    put(release, &main_file(&release.version), &entries)?;
    let mut entries = vec![
        Entry::file("package.json", pretty(&platform_manifest(&release.version, binary))),
        Entry::program("bin/endstop", binary.bytes.clone()),
    ];
    of_licenses(&mut entries);
    put(release, &platform_file(&release.version, binary.platform), &entries)
}

fn put(release: &mut Release, name: &str, entries: &[Entry]) -> Result<(), String> {
    let entries = entries.iter().map(|entry| entry.below("package")).collect();
    release.put(name, &tar_gz(entries, release.effort)?)
}

/// The file of the package `endstop`.
pub(super) fn main_file(version: &str) -> String {
    format!("endstop-npm-{version}.tgz")
}

/// The file of a platform's package.
pub(super) fn platform_file(version: &str, platform: Platform) -> String {
    format!("endstop-npm-{}-{version}.tgz", platform.node_name())
}

/// Returns `package.json` of the package `endstop`.
pub(super) fn main_manifest(version: &str) -> Value {
    let binaries: serde_json::Map<String, Value> = PLATFORMS
        .iter()
        .map(|platform| (format!("{SCOPE}/{}", platform.node_name()), json!(version)))
        .collect();
    let mut manifest = common("endstop".to_owned(), version);
    set(&mut manifest, "bin", json!({ "endstop": "bin/endstop.js" }));
    set(&mut manifest, "engines", json!({ "node": ">=16" }));
    set(&mut manifest, "optionalDependencies", Value::Object(binaries));
    manifest
}

/// Returns `package.json` of a platform's package.
pub(super) fn platform_manifest(version: &str, binary: &Binary) -> Value {
    let platform = binary.platform;
    let mut manifest = common(format!("{SCOPE}/{}", platform.node_name()), version);
    set(&mut manifest, "os", json!([platform.system]));
    set(&mut manifest, "cpu", json!([platform.node]));
    if binary.glibc.is_some() {
        set(&mut manifest, "libc", json!(["glibc"]));
    }
    manifest
}

fn common(name: String, version: &str) -> Value {
    json!({
        "name": name,
        "version": version,
        "description": "Stops LLM agents before they overspend or loop",
        "license": "MIT OR Apache-2.0",
        "repository": { "type": "git", "url": "git+https://github.com/endstop-dev/endstop.git" },
    })
}

fn set(manifest: &mut Value, key: &str, value: Value) {
    if let Some(fields) = manifest.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}

fn pretty(manifest: &Value) -> String {
    format!("{manifest:#}\n")
}
