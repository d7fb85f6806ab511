//! `bash`: output, exit codes, time limits, and that nothing outlives a call.

use std::time::{Duration, Instant};

use endstop::tool::builtin::Builtin;
use serde_json::json;

use crate::support::{Directories, call};

/// The longest time that a test waits for something that has to happen; work that must not be awaited takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

async fn bash(directories: &Directories, command: &str) -> String {
    let running = directories.run(Builtin::Bash, json!({ "command": command }));
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap()
}

/// Whether the process is there and no zombie.
fn is_running(id: &str) -> bool {
    let id = id.trim();
    let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", id]).output().unwrap();
    let state = String::from_utf8(state.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

async fn assert_ends(id: &str) {
    let begun = Instant::now();
    while is_running(id) {
        assert!(begun.elapsed() < PATIENCE, "the process {id} still runs");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The text that a command wrote into a file of the directory, once it has.
async fn written(directories: &Directories, name: &str) -> String {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(directories.inside().join(name)).unwrap_or_default();
        if text.ends_with('\n') {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing was written to {name}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn runs_in_the_directory_and_tells_output_and_exit_code() {
    let directories = Directories::new();
    directories.put("file", "");
    assert_eq!(
        bash(&directories, "ls; pwd").await,
        format!("file\n{}\n", directories.inside().display())
    );
    assert_eq!(bash(&directories, "echo out; echo err >&2; echo out").await, "out\nerr\nout\n");
    assert_eq!(bash(&directories, "printf x; exit 3").await, "x\n[exit code 3]");
    assert_eq!(bash(&directories, "false").await, "[exit code 1]");
    assert_eq!(bash(&directories, "true").await, "[no output]");
    assert!(bash(&directories, "kill -9 $$").await.starts_with("[ended by signal: 9"));
    assert!(bash(&directories, "nosuchcommand").await.ends_with("[exit code 127]"));
}

#[tokio::test]
async fn there_is_no_input_to_wait_for() {
    assert_eq!(bash(&Directories::new(), "cat; echo done").await, "done\n");
}

#[tokio::test]
async fn long_output_keeps_its_beginning_and_its_end() {
    let text = bash(&Directories::new(), "seq 1 200000").await;
    assert!(text.len() < 33_000, "{}", text.len());
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("\n199999\n200000\n"));
    assert!(text.contains(" bytes left out]"));
}

#[tokio::test]
async fn a_time_limit_kills_and_tells_what_was_written() {
    let directories = Directories::new();
    let command = "sleep 300 & echo $! > child; echo begun; yes > /dev/null";
    let arguments = json!({ "command": command, "timeout_seconds": 5 });
    let told = directories.failure(Builtin::Bash, arguments);
    let told = tokio::time::timeout(PATIENCE, told).await.expect("it is killed");
    assert_eq!(
        told,
        "the command was killed after 5 s, its time limit; what it wrote until then:\nbegun\n"
    );
    assert_ends(&written(&directories, "child").await).await;
}

#[tokio::test]
async fn children_and_grandchildren_are_gone_after_a_drop() {
    let directories = Directories::new();
    // The grandchild ignores what a polite kill would send.
    let command = "echo $$ > shell
        bash -c 'trap \"\" TERM HUP INT; (trap \"\" TERM; sleep 300) & echo $! > grandchild; wait' &
        echo $! > child
        wait";
    let arguments = json!({ "command": command }).to_string();
    let tool = directories.tool(Builtin::Bash);
    let running = tokio::spawn(async move { call(tool, &arguments).await });
    let mut ids = Vec::new();
    for name in ["shell", "child", "grandchild"] {
        ids.push(written(&directories, name).await);
    }
    assert!(ids.iter().all(|id| is_running(id)), "{ids:?}");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    for id in &ids {
        assert_ends(id).await;
    }
}

#[tokio::test]
async fn what_is_left_in_the_background_ends_with_the_command() {
    let directories = Directories::new();
    assert_eq!(bash(&directories, "sleep 300 & echo $! > child; echo started").await, "started\n");
    assert_ends(&written(&directories, "child").await).await;
}

#[tokio::test]
async fn a_process_that_leaves_the_group_holds_nothing_up() {
    let directories = Directories::new();
    // It keeps the pipe open; the tool does not wait for it.
    let away =
        "setsid bash -c 'echo $$ > away; exec sleep 300' & until [ -s away ]; do sleep 0.1; done";
    assert_eq!(bash(&directories, &format!("{away}; echo started")).await, "started\n");
    let id = written(&directories, "away").await;
    assert!(is_running(&id), "the tool waited for it, or ended it");
    let killed = std::process::Command::new("kill").args(["-9", id.trim()]).status();
    assert!(killed.unwrap().success());
}
