//! Beginning the command, and how it ended.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::adapter::executable;
use crate::error::{CliError, ExitMeaning};
use crate::limits::MAX_REAPED_AT_ONCE;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It exited with this code.
    Code(i32),
    /// By a signal.
    Signal(Signal),
    /// It is unknown.
    Unknown,
}

impl Ended {
    /// The code that a shell would report.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
            Self::Signal(signal) => u8::try_from(128 + signal as i32).unwrap_or(u8::MAX),
            Self::Unknown => ExitMeaning::OwnFailure.code(),
        }
    }
}

/// News about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It has ended.
    Ended(Ended),
    /// It was stopped by a signal of the terminal, or of another process.
    Stopped(Signal),
}

/// Whether this process has children that have not ended. It adopts orphans, so without a child nothing is left below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Children {
    /// At least one.
    Living,
    /// More may have ended than were reaped.
    #[default]
    Unknown,
    None,
}

/// Starts the command in a new process group, with this process's standard streams.
///
/// # Errors
/// Returns an error if it cannot be started: 127 if it does not exist, and 126 otherwise.
pub(super) fn begin(
    command: &[OsString],
    variables: &BTreeMap<&'static str, String>,
) -> Result<Pid, CliError> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| CliError::new("missing command"))?;
    let spawn = |program: &OsStr, first: Option<&OsStr>| {
        let mut command = Command::new(program);
        command.args(first).args(arguments).envs(variables).process_group(0).spawn()
    };
    let child = match spawn(program, None) {
        // A script that does not name its interpreter: `execvp` and shells take the system's shell.
        Err(error) if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
            spawn(OsStr::new("/bin/sh"), Some(&found(program)))
        }
        other => other,
    };
    let child = child.map_err(|error| {
        let shown = program.to_string_lossy();
        match error.kind() {
            // A program that exists fails like this if its interpreter does not.
            io::ErrorKind::NotFound if executable(program).is_none() => {
                CliError::new(format!("command `{shown}` not found"))
                    .with_hint("check its name, or pass its path")
                    .with_exit(ExitMeaning::NotFound)
            }
            kind => {
                let meaning = match kind {
                    io::ErrorKind::NotFound => ExitMeaning::NotFound,
                    _ => ExitMeaning::CannotExecute,
                };
                CliError::new(format!("cannot run `{shown}`: {error}")).with_exit(meaning)
            }
        }
    })?;
    let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
    // `news` waits for it, together with the orphans.
    Ok(Pid::from_raw(pid))
}

/// A program as it is found: by its path, or in the directories of PATH.
fn found(program: &OsStr) -> OsString {
    executable(program).map_or_else(|| program.to_owned(), Into::into)
}

/// Returns the news of the command since the last call, and whether children are left. Reaps orphans that have ended, at
/// most [`MAX_REAPED_AT_ONCE`]: a command that forks and exits all the time would otherwise keep this busy.
pub(super) fn news(main: Pid) -> (Vec<News>, Children) {
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
    let mut news = Vec::new();
    for _ in 0..MAX_REAPED_AT_ONCE {
        match waitpid(None, Some(flags)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == main => {
                news.push(News::Ended(Ended::Code(code)))
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => {
                news.push(News::Ended(Ended::Signal(signal)));
            }
            Ok(WaitStatus::Stopped(pid, signal)) if pid == main => news.push(News::Stopped(signal)),
            Ok(WaitStatus::StillAlive) => return (news, Children::Living),
            // A signal that has no name here.
            Err(Errno::EINTR | Errno::EINVAL) | Ok(_) => {}
            Err(_) => {
                // There are no children left, so the command has ended too.
                news.push(News::Ended(Ended::Unknown));
                return (news, Children::None);
            }
        }
    }
    (news, Children::Unknown)
}

#[cfg(test)]
mod tests;
