//! Files with runs in them are the user's alone, and no summary shows a key.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// A separate directory for a test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("private").join(test);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    std::fs::DirBuilder::new().mode(0o700).create(path.join("runtime")).unwrap();
    path
}

/// Runs `endstop` in a directory, as a user whose new files everybody may read.
fn endstop(directory: &Path, arguments: &[&str]) -> Option<i32> {
    let shell = "umask 000 && exec \"$0\" \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", shell]).arg(snapbox::cmd::cargo_bin!("endstop")).args(arguments);
    command.env("XDG_STATE_HOME", directory).current_dir(directory).stdin(Stdio::null());
    // Commands for all processes reach only those of this directory.
    command.env("XDG_RUNTIME_DIR", directory.join("runtime"));
    command.output().unwrap().status.code()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn traces_summaries_records_and_transcripts_have_mode_0600() {
    let directory = directory("modes");
    let files = ["--trace", "traces/trace.jsonl", "--json-file", "summary.json"];
    let run = [&["-q", "run"][..], &files, &["--", "true"]].concat();
    assert_eq!(endstop(&directory, &run), Some(0));
    assert_eq!(mode(&directory.join("traces")), 0o700, "Endstop created it");
    let agent = ["-q", "agent", "-m", "scripted:loop", "--steps", "2", "--record", "r.jsonl", "go"];
    assert_eq!(endstop(&directory, &agent), Some(124));
    let convert = ["-q", "convert", "r.jsonl", "--to", "atif", "--out", "converted"];
    assert_eq!(endstop(&directory, &convert), Some(0));
    for file in ["traces/trace.jsonl", "summary.json", "r.jsonl"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
    let converted = directory.join("converted");
    assert_eq!(mode(&converted), 0o700);
    for file in std::fs::read_dir(&converted).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn budgets_keys_and_kills_are_in_files_of_mode_0600() {
    let directory = directory("state");
    // SQLite has two more files while a process has the store open.
    let list = "stat -c '%a %n' endstop/budgets.sqlite* > live.txt";
    let run = ["-q", "run", "--upstream", "sim", "--budget", "$5 per day", "--"];
    let run = [&run[..], &["/bin/sh", "-c", list]].concat();
    assert_eq!(endstop(&directory, &run), Some(0));
    let live = std::fs::read_to_string(directory.join("live.txt")).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let line = format!("600 endstop/budgets.sqlite{suffix}");
        assert!(live.lines().any(|it| it == line), "{line}: {live}");
    }
    assert_eq!(endstop(&directory, &["key", "new", "ci", "--usd", "1"]), Some(0));
    assert_eq!(endstop(&directory, &["kill", "--all"]), Some(1), "nothing runs");
    let state = directory.join("endstop");
    assert_eq!(mode(&state), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    for name in ["budgets.sqlite", "keys.jsonl", "kill-epoch.json"] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
}

#[test]
fn an_older_trace_keeps_its_mode() {
    let directory = directory("kept");
    let trace = directory.join("trace.jsonl");
    std::fs::write(&trace, "old").unwrap();
    std::fs::set_permissions(&trace, std::fs::Permissions::from_mode(0o640)).unwrap();
    let run = ["-q", "run", "--trace", "trace.jsonl", "--", "true"];
    assert_eq!(endstop(&directory, &run), Some(0));
    assert_eq!(mode(&trace), 0o640, "the user chose it");
}

#[test]
fn a_summary_shows_no_key_of_the_command() {
    let directory = directory("keys");
    let run = [
        "-q",
        "run",
        "--json-file",
        "s.json",
        "--",
        "true",
        "--api-key",
        "abc",
        "sk-ant-api03-xyz",
    ];
    assert_eq!(endstop(&directory, &run), Some(0));
    let text = std::fs::read_to_string(directory.join("s.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["command"], json!(["true", "--api-key", "[redacted]", "[redacted]"]));
}
