//! `bash`: a shell command in a new process group, which ends with the call.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep_until, timeout};

use super::Workspace;
use super::output::HeadAndTail;
use crate::limits::{
    DEFAULT_COMMAND_SECONDS, KEPT_OUTPUT_BYTES, MAX_COMMAND_SECONDS, OUTPUT_DRAIN,
    OUTPUT_PIECE_BYTES,
};
use crate::tool::{FunctionTool, ToolContext, ToolError};

mod group;

use group::GroupGuard;

#[derive(Deserialize, JsonSchema)]
struct BashArguments {
    /// The command, run by bash in the directory, or by sh on systems without bash.
    command: String,
    /// Seconds until it is killed, at most 3600. Default: 120.
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u64>,
}

/// The command is not confined: it has the rights, the environment (keys in it included) and the network of the
/// program. Its child processes are killed with it, except those that leave the process group (`setsid`).
pub(super) fn tool(workspace: Workspace) -> FunctionTool {
    let description = "Runs a shell command and returns what it writes to stdout and stderr, and its exit code \
                       if that is not 0. There is no input. Of long output the beginning and the end are \
                       returned. Processes left in the background are killed when the command ends.";
    FunctionTool::new("bash", description, move |arguments: BashArguments, _: ToolContext| {
        let workspace = workspace.clone();
        async move { run(&workspace, &arguments).await }
    })
}

async fn run(workspace: &Workspace, arguments: &BashArguments) -> Result<String, ToolError> {
    let seconds =
        arguments.timeout_seconds.unwrap_or(DEFAULT_COMMAND_SECONDS).clamp(1, MAX_COMMAND_SECONDS);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut child, mut output) = start(workspace, &arguments.command)?;
    let group = GroupGuard::new(child.id());
    let mut kept = HeadAndTail::new(KEPT_OUTPUT_BYTES);
    let status = tokio::select! {
        status = follow(&mut child, &mut output, &mut kept) => Some(status?),
        () = sleep_until(end) => None,
    };
    drop(group);
    // The last output of the killed processes is still in the pipe.
    let _ = timeout(OUTPUT_DRAIN, read_on(&mut output, &mut kept)).await;
    let text = kept.into_text();
    match status {
        Some(status) => Ok(told(&text, status)),
        None => {
            // Reaps the shell; it was killed, so this does not wait for long.
            let _ = timeout(OUTPUT_DRAIN, child.wait()).await;
            Err(ToolError::Failed(format!(
                "the command was killed after {seconds} s, its time limit; what it wrote until then:\n{}",
                or_nothing(&text)
            )))
        }
    }
}

/// Starts the shell with both of its outputs in one pipe, so that they stay in order.
fn start(workspace: &Workspace, text: &str) -> io::Result<(Child, ChildStdout)> {
    match start_shell("bash", workspace, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => start_shell("sh", workspace, text),
        started => started,
    }
}

#[cfg(unix)]
fn start_shell(shell: &str, workspace: &Workspace, text: &str) -> io::Result<(Child, ChildStdout)> {
    let (reader, writer) = io::pipe()?;
    let mut command = shell_command(shell, workspace, text);
    command.stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let child = command.spawn()?;
    // The command holds the writing end, which would keep the pipe open.
    drop(command);
    let reader = std::process::ChildStdout::from(std::os::fd::OwnedFd::from(reader));
    Ok((child, ChildStdout::from_std(reader)?))
}

/// Elsewhere the errors go first through the shell, and only the shell itself is killed.
#[cfg(not(unix))]
fn start_shell(shell: &str, workspace: &Workspace, text: &str) -> io::Result<(Child, ChildStdout)> {
    let mut command = shell_command(shell, workspace, &format!("exec 2>&1\n{text}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((child, output))
}

fn shell_command(shell: &str, workspace: &Workspace, text: &str) -> Command {
    let mut command = Command::new(shell);
    command.arg("-c").arg(text).current_dir(workspace.root());
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Reads until the shell has ended, whether or not others still hold the pipe.
async fn follow(
    child: &mut Child,
    output: &mut ChildStdout,
    kept: &mut HeadAndTail,
) -> io::Result<ExitStatus> {
    tokio::select! {
        biased;
        status = child.wait() => status,
        closed = read_on(output, kept) => match closed {
            Ok(()) => child.wait().await,
            Err(error) => Err(error),
        },
    }
}

/// Reads to the end. Nothing is lost when it is dropped: a read either happened or did not.
async fn read_on(output: &mut ChildStdout, kept: &mut HeadAndTail) -> io::Result<()> {
    let mut piece = vec![0; OUTPUT_PIECE_BYTES];
    loop {
        let bytes = output.read(&mut piece).await?;
        if bytes == 0 {
            return Ok(());
        }
        kept.push(piece.get(..bytes).unwrap_or_default());
    }
}

fn told(text: &str, status: ExitStatus) -> String {
    if status.success() {
        return or_nothing(text).to_owned();
    }
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match status.code() {
        Some(code) => format!("{text}{separator}[exit code {code}]"),
        None => format!("{text}{separator}[ended by {status}]"),
    }
}

const fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "[no output]" } else { text }
}
