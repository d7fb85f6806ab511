//! A Redis server and its client for the tests: the installed ones, or those of Debian's packages, unpacked below `target`.
//!
//! Nothing is installed and no right is needed: apt keeps its lists and packages below `target/redis` as well.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs that the tests look for, in their order.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// Debian's package, and the program in it.
const PACKAGE: &str = "redis-server";
/// The client, which the commands of a guide start. It is in a package that the server needs.
const CLIENT: &str = "redis-cli";

/// Returns the program of a server, installed or unpacked before.
pub(crate) fn find(root: &Path) -> Option<PathBuf> {
    let unpacked = root.join("target/redis/bin").join(PACKAGE);
    NAMES.iter().map(PathBuf::from).chain([unpacked]).find(|program| answers(program))
}

/// The same; without one, downloads and unpacks Debian's package, about 15 MB with the lists.
///
/// # Errors
///
/// Why there is no server.
pub(crate) fn provide(root: &Path) -> Result<PathBuf, String> {
    let home = root.join("target/redis");
    if let Some(program) = find(root) {
        // One that was unpacked by an earlier version has no script of the client.
        if program.starts_with(&home) {
            write_scripts(&home)?;
        }
        return Ok(program);
    }
    println!("no Redis server is installed: taking Debian's package `{PACKAGE}` into target/redis");
    download(&home)?;
    unpack(&home)?;
    write_scripts(&home)?;
    find(root)
        .ok_or_else(|| format!("the server of Debian's package `{PACKAGE}` does not start here"))
}

/// The programs besides the server that the commands of a guide start, and that are neither installed nor unpacked.
pub(crate) fn missing(root: &Path) -> Vec<&'static str> {
    let bin = root.join("target/redis/bin");
    let is_there = |name: &&str| answers(name) || answers(bin.join(name));
    [CLIENT, "curl"].into_iter().filter(|name| !is_there(name)).collect()
}

/// `PATH=…` with the server's directory in front, for `env`. `None` if `PATH` has it, or there is none.
pub(crate) fn path_variable(root: &Path) -> Option<String> {
    let program = find(root)?;
    let bin = program.parent().filter(|bin| !bin.as_os_str().is_empty())?;
    let path = std::env::var("PATH").unwrap_or_default();
    Some(format!("PATH={}:{path}", bin.display()))
}

/// The package and those that it needs and that this system does not have.
fn download(home: &Path) -> Result<(), String> {
    for directory in ["lists/partial", "debs/partial"] {
        let path = home.join(directory);
        fs::create_dir_all(&path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    }
    let at = |key: &str, value: &Path| OsString::from(format!("-oDir::{key}={}", value.display()));
    let places = [
        at("State::lists", &home.join("lists")),
        at("Cache", home),
        at("Cache::archives", &home.join("debs")),
        "-oDebug::NoLocking=1".into(),
        "-oAPT::Sandbox::User=".into(),
        "-qq".into(),
    ];
    let with = |words: &[&str]| {
        places.iter().cloned().chain(words.iter().map(OsString::from)).collect::<Vec<_>>()
    };
    run("apt-get", with(&["update"]))?;
    run(
        "apt-get",
        with(&["--yes", "--no-install-recommends", "--download-only", "install", PACKAGE]),
    )
}

/// An error with the path that it is about.
fn failed(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("`{path}`: {error}")
}

/// Unpacks what was downloaded.
fn unpack(home: &Path) -> Result<(), String> {
    let unpacked = home.join("root");
    let debs = home.join("debs");
    for entry in fs::read_dir(&debs).map_err(failed(&debs))? {
        let package = entry.map_err(failed(&debs))?.path();
        if package.extension() == Some(OsStr::new("deb")) {
            run(
                "dpkg-deb",
                ["--extract".into(), package.into_os_string(), unpacked.clone().into()],
            )?;
        }
    }
    Ok(())
}

/// Writes a script for each unpacked program, which starts it with its libraries.
fn write_scripts(home: &Path) -> Result<(), String> {
    let (unpacked, bin) = (home.join("root"), home.join("bin"));
    fs::create_dir_all(&bin).map_err(failed(&bin))?;
    for name in [PACKAGE, CLIENT] {
        // The server can be a link.
        if fs::symlink_metadata(unpacked.join("usr/bin").join(name)).is_err() {
            continue;
        }
        let script = bin.join(name);
        let text = format!(
            "#!/bin/sh\nroot='{}'\nlibraries=$(echo \"$root\"/usr/lib/*-linux-gnu*)\nLD_LIBRARY_PATH=$libraries exec \"$root/usr/bin/{name}\" \"$@\"\n",
            unpacked.display()
        );
        // A test may start it at this moment.
        if fs::read_to_string(&script).is_ok_and(|before| before == text) {
            continue;
        }
        fs::write(&script, text).map_err(failed(&script))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed(&script))?;
    }
    Ok(())
}

fn run(program: &str, arguments: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    let mut command = Command::new(program);
    let status = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{program}`: {status}")),
        Err(error) => Err(format!("cannot run `{program}`: {error}")),
    }
}

fn answers(program: impl AsRef<OsStr>) -> bool {
    let mut command = Command::new(program);
    let quiet = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests;
