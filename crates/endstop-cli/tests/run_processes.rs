//! `endstop run` ends what it started: chains of forks, daemons, and processes that outlive a signal.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests, which say what they skip"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The last words of a process that was not ended: its time is limited, so that a test that fails ends as well.
const OUTLIVED: &str = "outlived";

/// A process that forks and exits every half millisecond, until `stop` exists. It keeps standard output open, so that who
/// reads that to its end waits for it. With `setsid`, each has a separate session.
fn perl_chain(stop: &Path, setsid: &str) -> String {
    format!(
        "perl -MPOSIX -e '$| = 1; $end = time + 60; $n = 0; while (time < $end) {{ \
         exit if fork; exit if -e \"{}\"; {setsid}; print \"chain\\n\" if $n++ == 100; \
         select undef, undef, undef, 0.0005 }} print \"{OUTLIVED}\\n\"'",
        stop.display()
    )
}

/// The same as a shell script that starts itself again, which takes a little longer.
fn shell_chain(stop: &Path) -> String {
    let file = stop.with_file_name("chain.sh");
    let script = format!(
        "n=${{1:-0}}\ntest $n = 20 && echo chain\ntest -e {} && exit\n\
         test $n = 20000 && echo {OUTLIVED} && exit\nsh \"$0\" $((n + 1)) &\n",
        stop.display()
    );
    std::fs::write(&file, script).unwrap();
    format!("sh {}", file.display())
}

fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run_processes").join(test);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn run(flags: &[&str], script: &str) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.args(["run", "--upstream", "sim"]).args(flags).args(["--", "/bin/sh", "-c", script]);
    command.env("AGENT", snapbox::cmd::cargo_bin!("endstop"));
    command.env_remove("OPENAI_BASE_URL").env_remove("ANTHROPIC_BASE_URL").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs something with each kind of chain, and ends the chain then.
fn with_chains(test: &str, check: impl Fn(&str, &str)) {
    let stop = directory(test).join("stop");
    check("shell", &shell_chain(&stop));
    if Command::new("perl").args(["-MPOSIX", "-e", "1"]).status().is_ok_and(|it| it.success()) {
        check("perl", &perl_chain(&stop, "1"));
        check("sessions", &perl_chain(&stop, "setsid"));
    } else {
        eprintln!("skipped: there is no perl");
    }
    std::fs::write(stop, "").unwrap();
}

/// The chain is gone: everybody who had standard output open has ended, and none because its time was over.
fn is_ended(kind: &str, output: &Output) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("chain"), "{kind}: it never began: {out}{err}");
    assert!(!out.contains(OUTLIVED), "{kind}: {out}{err}");
    assert!(err.contains("endstop: sent SIGKILL"), "{kind}: {err}");
    assert!(!err.contains("could not be ended"), "{kind}: {err}");
    assert_eq!(output.status.code(), Some(124), "{kind}: {err}");
}

#[test]
fn a_chain_of_forks_is_ended_with_its_command() {
    with_chains("ended", |kind, chain| {
        // SIGTERM is ignored by all of them.
        let script = format!("trap '' TERM; {chain} & while :; do sleep 0.1; done");
        let output = run(&["--timeout", "1s", "--grace", "0"], &script).output().unwrap();
        is_ended(kind, &output);
    });
}

#[test]
fn a_chain_of_forks_that_the_command_left_behind_is_ended() {
    with_chains("left", |kind, chain| {
        let script =
            format!("trap '' TERM; {chain} & \"$AGENT\" demo-agent --iterations 9 >/dev/null");
        let output = run(&["--steps", "1", "--grace", "0"], &script).output().unwrap();
        is_ended(kind, &output);
    });
}

#[test]
fn a_chain_of_forks_does_not_keep_endstop_from_ending() {
    with_chains("lingers", |kind, chain| {
        // Nothing was stopped, so it is left alone; only its output is not waited for.
        let script = format!("{chain} >/dev/null 2>&1 & echo $$; exit 3");
        let output = run(&["--linger", "200ms"], &script).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{kind}: {error}");
    });
}

/// Begins a run, and waits until its command has printed a first line.
fn begun(flags: &[&str], script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = run(flags, script);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, out)
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
}

/// A daemon that says what it hears. It ends with the second signal at the latest, or after a time that no test waits.
const DAEMON: &str = "setsid sh -c 'trap \"echo daemon heard TERM; exit\" TERM; echo ready; \
                      for n in $(seq 600); do sleep 0.1; done; echo outlived' &";

#[test]
fn what_is_left_after_a_signal_to_endstop_has_the_grace_and_not_the_linger() {
    for name in ["TERM", "HUP"] {
        let script = format!("{DAEMON} while :; do sleep 0.1; done");
        // With `--linger`, the daemon would be served for an hour.
        let flags = ["--linger", "1h", "--grace", "0"];
        let (child, mut out) = begun(&flags, &script);
        signal(&child, name);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "daemon heard TERM\n", "{name}");
        let output = child.wait_with_output().unwrap();
        let error = text(&output.stderr);
        assert!(error.contains("endstop: sent SIGTERM"), "{name}: {error}");
        let code = if name == "TERM" { 143 } else { 129 };
        assert_eq!(output.status.code(), Some(code), "{name}: {error}");
    }
}

#[test]
fn a_signal_that_the_command_survives_changes_nothing() {
    let daemon = "setsid sh -c 'for n in 1 2 3 4 5; do sleep 0.1; done; echo finished' &";
    let script = format!("trap : INT; {daemon} echo ready; sleep 0.2; exit 5");
    let (child, mut out) = begun(&["--linger", "1h", "--grace", "0"], &script);
    signal(&child, "INT");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "finished\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
}
