//! `cargo xtask picture`: the picture of README's first screen, drawn from a real run in a terminal.
//!
//! The run needs no key and no network. Times are replaced by one second per step, so that the picture changes only
//! when the output does. A test of the command compares the picture's text with what the command prints.

mod frames;
mod svg;

use std::fs;
use std::io::Read as _;
use std::path::Path;

use pty_process::Size;
use pty_process::blocking::{Command, open};

use crate::clients;
use frames::Frames;

/// The picture, from the root.
const FILE: &str = "docs/pictures/run.svg";
/// The command, without the name of the program.
const ARGUMENTS: [&str; 12] = [
    "run",
    "--usd",
    "2",
    "--steps",
    "50",
    "--upstream",
    "sim",
    "--",
    "endstop",
    "demo-agent",
    "--pause",
    "1s",
];
/// The terminal.
const COLUMNS: u16 = 100;
const ROWS: u16 = 26;

/// Runs the command and writes the picture.
///
/// # Errors
/// If the binary cannot be built, the command does not end as it should, or the picture cannot be written.
pub(super) fn run(root: &Path) -> Result<(), String> {
    let endstop = clients::build(root)?;
    let command = format!("endstop {}", ARGUMENTS.join(" "));
    println!("runs `{command}`, which takes about 20 seconds");
    let frames = Frames::of(&command, &record(root, &endstop)?)?;
    let file = root.join(FILE);
    let failed = |error: std::io::Error| format!("`{FILE}`: {error}");
    fs::create_dir_all(file.parent().unwrap_or(root)).map_err(failed)?;
    fs::write(&file, svg::draw(&command, &frames)).map_err(failed)?;
    println!("wrote {FILE}, of {} frames", frames.screens.len());
    Ok(())
}

/// Everything that the command writes to its terminal.
fn record(root: &Path, endstop: &Path) -> Result<String, String> {
    let failed = |error: pty_process::Error| format!("cannot run under a terminal: {error}");
    let place = endstop.parent().unwrap_or(root).to_string_lossy();
    let path = format!("{place}:{}", std::env::var("PATH").unwrap_or_default());
    // Settings of the user would change the output.
    let home = root.join("target/picture");
    fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    let (mut pty, pts) = open().map_err(failed)?;
    pty.resize(Size::new(ROWS, COLUMNS)).map_err(failed)?;
    let command = Command::new(endstop)
        .args(ARGUMENTS)
        .env_clear()
        .env("PATH", path)
        .env("HOME", &home)
        .env("TERM", "xterm-256color")
        .current_dir(&home);
    let mut child = command.spawn(pts).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    // Reading fails once no process has the terminal open.
    while let Ok(length @ 1..) = pty.read(&mut part) {
        bytes.extend_from_slice(part.get(..length).unwrap_or_default());
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match status.code() {
        Some(124) => Ok(text),
        _ => Err(format!("the command has to be stopped by its limit: {status}\n{text}")),
    }
}
