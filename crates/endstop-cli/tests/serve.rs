//! `endstop serve`: what is said of runs while they go on.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn pauses_and_warnings_of_a_run_are_told() {
    let policy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-pause.toml");
    let text = "[stop]\nlimit = 'steps >= 20'\n[warn]\nsoon = 'steps >= 1'\n\
                [pause]\nask = 'steps >= 2'\n[finish]\nreviewed = 'signal(\"review\")'\n";
    std::fs::write(&policy, text).unwrap();
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let mut serve = Command::new(endstop)
        .args(["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--pause-limit", "100ms"])
        .args(["--policy", policy.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(serve.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let addr = line.split("http://").nth(1).unwrap().split(',').next().unwrap();
    // It approves in `endstop run`; here it approves nothing, and ends nothing.
    let asked = Command::new("kill").args(["-USR1", &serve.id().to_string()]).status();
    assert!(asked.unwrap().success());
    let agent = Command::new(endstop)
        .args(["demo-agent", "--iterations", "3", "--searches", "1"])
        .env("ANTHROPIC_BASE_URL", format!("http://{addr}/r/build-1"))
        .output();
    agent.unwrap();
    let ended = Command::new("kill").args(["-TERM", &serve.id().to_string()]).status();
    assert!(ended.unwrap().success());
    let mut said = String::new();
    serve.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    serve.wait().unwrap();
    assert!(said.contains("SIGUSR1 does not say which run"), "{said}");
    let waits = "rule reviewed waits for the signal `review`, and nothing sets it";
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(waits), "{said}");
    assert!(said.contains("warning: run build-1: soon: "), "{said}");
    assert!(said.contains("run build-1: paused: ask: steps >= 2 is 2; with --control"), "{said}");
}
