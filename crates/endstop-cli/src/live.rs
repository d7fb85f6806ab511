//! The registry of live processes: a file and a unix socket for each `endstop run`, `serve` and `agent` of
//! the user.
//!
//! Both are in a directory that only the user can open. A process that was killed leaves its file behind; the next
//! read of the registry finds its socket dead and removes both.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use endstop::clock::system_wall_time;
use endstop::runtime::RunHandle;
use endstop::store::replace_file;
use endstop_gateway::{Control, RunControl};
use jiff::Timestamp;
use nix::unistd::Uid;
use serde_json::{Value, json};

use crate::input::read_text;
use crate::limits::{MAX_LIVE_BYTES, MAX_LIVE_COMMAND, MAX_SOCKET_PATH};

/// The version of a file of the registry.
const VERSION: u64 = 1;
/// How files of the registry end.
const SUFFIX: &str = "live.json";

/// A process that can be controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveProcess {
    pub(crate) pid: u32,
    /// `run`, `serve` or `agent`.
    pub(crate) kind: String,
    /// Its command line, with keys replaced.
    pub(crate) command: String,
    pub(crate) limits: String,
    pub(crate) started: String,
    pub(crate) socket: PathBuf,
}

/// The contents of the registry.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In order of their process ids.
    pub(crate) live: Vec<LiveProcess>,
    /// Processes that ended without leaving the registry. They have been removed from it.
    pub(crate) dead: Vec<u32>,
}

/// This process in the registry, until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    file: PathBuf,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The next read of the registry removes the rest.
        let _ = fs::remove_file(&self.file);
    }
}

/// The user's directory: in the runtime directory, or one for temporary files.
fn directory() -> PathBuf {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match of_user.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(directory) => directory.join("endstop"),
        None => std::env::temp_dir().join(format!("endstop-live-{}", Uid::effective())),
    }
}

/// Whether a directory is the user's alone.
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| {
        data.is_dir() && data.uid() == Uid::effective().as_raw() && data.mode() & 0o077 == 0
    })
}

/// A path for the socket of this process; `None` if there is no place for one that only the user can open.
pub(crate) fn socket_path() -> Option<PathBuf> {
    let directory = directory();
    let made = fs::DirBuilder::new().mode(0o700).create(&directory);
    let is_there = match made {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::AlreadyExists,
    };
    let path = directory.join(format!("run-{}.sock", std::process::id()));
    (is_there && is_private(&directory) && path.as_os_str().len() < MAX_SOCKET_PATH).then_some(path)
}

/// Enters this process with its control socket. Without a socket or a place for
/// the entry, the process runs as usual, and `endstop ps` does not list it.
pub(crate) fn enter(
    kind: &str,
    command: &str,
    limits: String,
    socket: Option<&Path>,
) -> Option<Registration> {
    let now = i64::try_from(system_wall_time().0)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let process = LiveProcess {
        pid: std::process::id(),
        kind: kind.to_owned(),
        command: command.chars().take(MAX_LIVE_COMMAND).collect(),
        limits,
        started: now.map(|now| now.to_string()).unwrap_or_default(),
        socket: std::path::absolute(socket?).ok()?,
    };
    register(&process).ok()
}

/// The run of an agent that can be controlled.
#[derive(Debug)]
pub(crate) struct LiveAgent {
    _registration: Option<Registration>,
    control: RunControl,
}

impl LiveAgent {
    /// Enters this process with the run that it drives. Without a place for a socket, it runs as usual.
    pub(crate) async fn enter(command: &str, limits: String, run: &RunHandle) -> Option<Self> {
        let control = Control { socket: Some(socket_path()?), ..Control::default() };
        let control = RunControl::start(control, run.clone()).await.ok()?;
        let registration = enter("agent", command, limits, control.socket());
        Some(Self { _registration: registration, control })
    }

    /// Those that follow the run see its end.
    pub(crate) async fn end(self) {
        self.control.end().await;
    }
}

/// Enters a process.
///
/// # Errors
/// Returns an error if the directory is not the user's alone, or cannot be written to.
fn register(process: &LiveProcess) -> io::Result<Registration> {
    register_in(&directory(), process)
}

fn register_in(directory: &Path, process: &LiveProcess) -> io::Result<Registration> {
    if !directory.exists() {
        fs::DirBuilder::new().mode(0o700).create(directory)?;
    }
    if !is_private(directory) {
        let text = format!("`{}` is open to other users", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let text = json!({
        "version": VERSION,
        "pid": process.pid,
        "kind": process.kind,
        "command": process.command,
        "limits": process.limits,
        "started": process.started,
        "socket": process.socket,
    });
    let file = directory.join(format!("{}.{SUFFIX}", process.pid));
    // Whole or not at all: a reader never sees half of it.
    let draft = directory.join(format!("{}.draft", process.pid));
    replace_file(&file, &draft, text.to_string().as_bytes())?;
    // One that was killed had the same socket: this process would be listed under both.
    let same =
        |(path, other): &(PathBuf, LiveProcess)| *path != file && other.socket == process.socket;
    for (path, _) in entries(directory).into_iter().filter(same) {
        let _ = fs::remove_file(path);
    }
    Ok(Registration { file })
}

/// Checks every process of the registry, and removes those that have died.
pub(crate) fn look() -> Found {
    let mut found = Found::default();
    for directory in directories() {
        let there = look_in(&directory);
        found.live.extend(there.live);
        found.dead.extend(there.dead);
    }
    found.live.sort_unstable_by_key(|process| process.pid);
    found.dead.sort_unstable();
    found
}

/// Every directory that a process of this user may have entered itself in: its environment can differ from that of
/// the command that looks, in a timer or after `su`.
fn directories() -> Vec<PathBuf> {
    let user = Uid::effective();
    let of_user = PathBuf::from(format!("/run/user/{user}/endstop"));
    let without = std::env::temp_dir().join(format!("endstop-live-{user}"));
    let own = directory();
    match own == without {
        true => vec![own, of_user],
        false => vec![own, without],
    }
}

fn look_in(directory: &Path) -> Found {
    let mut found = Found::default();
    if !is_private(directory) {
        return found;
    }
    let mut entries = entries(directory);
    entries.sort_by_key(|(_, process)| {
        Reverse((process.started.parse::<Timestamp>().ok(), process.pid))
    });
    let mut sockets = HashSet::new();
    for (path, process) in entries {
        // The socket is that of the latest; the others were killed.
        if !sockets.insert(process.socket.clone()) {
            let _ = fs::remove_file(&path);
            found.dead.push(process.pid);
            continue;
        }
        match UnixStream::connect(&process.socket) {
            Ok(_) => found.live.push(process),
            Err(error) if is_dead(&error) => {
                let _ = fs::remove_file(&path);
                if process.socket.parent() == Some(directory) {
                    let _ = fs::remove_file(&process.socket);
                }
                found.dead.push(process.pid);
            }
            // It lives, and has too many connections just now.
            Err(_) => found.live.push(process),
        }
    }
    found
}

/// The entries of a directory that can be read.
fn entries(directory: &Path) -> Vec<(PathBuf, LiveProcess)> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = paths.filter(|path| path.to_str().is_some_and(|path| path.ends_with(SUFFIX)));
    ours.filter_map(|path| read(&path).map(|process| (path, process))).collect()
}

/// Whether a process can still be asked, or is too busy for that.
pub(crate) fn is_there(process: &LiveProcess) -> bool {
    UnixStream::connect(&process.socket).map_or_else(|error| !is_dead(&error), |_| true)
}

/// Whether a signal has suspended a process. `None` if the system does not say.
pub(crate) fn is_suspended(process: &LiveProcess) -> Option<bool> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok()?;
    // The name of the program, in parentheses, may have any characters.
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    Some(matches!(state, 'T' | 't'))
}

fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn read(path: &Path) -> Option<LiveProcess> {
    let text = read_text(path, "entry of a live process", MAX_LIVE_BYTES).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    if value.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return None;
    }
    let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    Some(LiveProcess {
        pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?,
        kind: text("kind")?,
        command: text("command")?,
        limits: text("limits")?,
        started: text("started")?,
        socket: text("socket")?.into(),
    })
}

#[cfg(test)]
mod tests;
