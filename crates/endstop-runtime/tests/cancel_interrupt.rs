//! Ctrl-C against a process: this test starts itself as the program that is interrupted.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of this test fail as the test does"
)]

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use endstop_runtime::cancel::CancelToken;
use endstop_runtime::cancel::interrupt::{EXIT_CODE, cancel_on_interrupt};

const ROLE: &str = "ENDSTOP_TEST_IS_INTERRUPTED";
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs until it is interrupted for the third time, and says each stage before that.
fn be_interrupted() {
    let say = |line: &str| {
        let mut out = io::stdout();
        writeln!(out, "\nstage: {line}").and_then(|()| out.flush()).unwrap();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let token = CancelToken::new();
        tokio::spawn(cancel_on_interrupt(token.clone()));
        tokio::task::yield_now().await;
        say("listening");
        token.cancelled().await;
        say(&format!("{:?}, {}", token.urgency().unwrap(), token.signal().unwrap()));
        token.aborted().await;
        say(&format!("{:?}, {}", token.urgency().unwrap(), token.signal().unwrap()));
        // No process is left behind if the third interrupt does not end it.
        tokio::time::sleep(PATIENCE * 2).await;
    });
}

struct Interrupted {
    child: Child,
    stages: Receiver<String>,
}

impl Interrupted {
    fn start(test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(ROLE, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, stages) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(stage) = line.strip_prefix("stage: ") {
                    // The test may have failed in the meantime.
                    let _ = sender.send(stage.to_owned());
                }
            }
        });
        Self { child, stages }
    }

    fn next_stage(&self) -> String {
        self.stages.recv_timeout(PATIENCE).expect("the program says its stage")
    }

    fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    fn exit_code(&mut self) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the program did not exit");
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        // It may be gone, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check(test: &str, signals: [&str; 3]) {
    if std::env::var_os(ROLE).is_some() {
        return be_interrupted();
    }
    let reason = "user_requested: interrupted; once more to stop immediately";
    let mut program = Interrupted::start(test);
    assert_eq!(program.next_stage(), "listening");
    program.send(signals[0]);
    assert_eq!(program.next_stage(), format!("Graceful, {reason}"));
    program.send(signals[1]);
    assert_eq!(program.next_stage(), format!("Now, {reason}"));
    program.send(signals[2]);
    assert_eq!(program.exit_code(), Some(EXIT_CODE));
}

#[test]
fn ctrl_c_stops_then_cuts_then_exits() {
    check("ctrl_c_stops_then_cuts_then_exits", ["INT", "INT", "INT"]);
}

#[test]
fn termination_counts_as_an_interrupt() {
    check("termination_counts_as_an_interrupt", ["TERM", "INT", "TERM"]);
}
