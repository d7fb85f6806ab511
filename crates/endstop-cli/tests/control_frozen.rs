//! `endstop kill` and processes that are suspended, or that take their time.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A user's runtime directory for one test. Its path is short, because it holds sockets.
struct User(PathBuf);

impl User {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("endstop-{test}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("XDG_RUNTIME_DIR", &self.0).env("TMPDIR", &self.0).env("ENDSTOP_CONFIG", "");
        command.env("XDG_STATE_HOME", self.0.join("state"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// The exit code, standard output, and standard error in one line.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        (status.code(), String::from_utf8(stdout).unwrap(), stderr)
    }

    /// The status of a live run, and its steps.
    fn state_of(&self, run: &str) -> Option<(String, u64)> {
        let (code, out, error) = self.run(&["ps", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        let all: Value = serde_json::from_str(&out).unwrap();
        let run = all["runs"].as_array().unwrap().iter().find(|it| it["run"] == run)?;
        Some((run["status"].as_str().unwrap().to_owned(), run["steps"].as_u64().unwrap()))
    }

    /// A gateway of the scripted model.
    fn serve(&self, options: &[&str]) -> Serve {
        self.serve_over("sim", options)
    }

    fn serve_over(&self, upstream: &str, options: &[&str]) -> Serve {
        let mut serve = self.command(&["serve", "--upstream", upstream, "--listen", "127.0.0.1:0"]);
        serve.args(["--json", "--steps", "100"]).args(options);
        let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening: Value = serde_json::from_str(&line).unwrap();
        Serve { child, base: listening["address"].as_str().unwrap().to_owned() }
    }

    /// A call of a run through a gateway.
    fn call(&self, gateway: &Serve, run: &str) {
        let mut command = self.command(&["demo-agent", "--iterations", "1", "--searches", "1"]);
        command.env("ANTHROPIC_BASE_URL", format!("{}/r/{run}", gateway.base)).output().unwrap();
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Serve {
    child: Child,
    base: String,
}

impl Serve {
    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn suspension(&self) -> String {
        let pid = self.child.id();
        format!("cannot ask process {pid}: it is suspended, and obeys when it continues")
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_suspended_process_does_not_delay_kill_all_and_obeys_when_it_continues() {
    let user = User::new("thaw-all");
    let (frozen, other) = (user.serve(&[]), user.serve(&[]));
    user.call(&frozen, "one");
    user.call(&other, "two");
    frozen.signal("-STOP");
    let (code, out, error) = user.run(&["kill", "--all", "--why", "bill"]);
    assert!(code == Some(1) && out.starts_with("killed 1 run in 1 process;"), "{out}{error}");
    assert!(error.contains(&frozen.suspension()), "{error}");
    assert!(error.contains("1 process did not confirm"), "{error}");
    frozen.signal("-CONT");
    // The epoch of the kill is in a file, which is checked before each call.
    user.call(&frozen, "later");
    assert_eq!(user.state_of("later"), Some(("stopped".to_owned(), 0)));
    until("the run of before is stopped", || {
        user.state_of("one").is_some_and(|(status, steps)| status == "stopped" && steps > 0)
    });
}

#[test]
fn a_suspended_process_obeys_the_kill_of_a_budget_when_it_continues() {
    let user = User::new("thaw-budget");
    let frozen = user.serve(&["--budget", "$5 per day"]);
    frozen.signal("-STOP");
    let (code, _, error) = user.run(&["kill", "--budget", "me"]);
    assert!(code == Some(1) && error.contains(&frozen.suspension()), "{error}");
    frozen.signal("-CONT");
    let mut number = 0;
    until("no run begins", || {
        number += 1;
        let run = format!("run-{number}");
        user.call(&frozen, &run);
        user.state_of(&run) == Some(("stopped".to_owned(), 0))
    });
}

#[test]
fn a_suspended_process_kills_a_run_that_only_it_has_when_it_continues() {
    let user = User::new("thaw-run");
    let (frozen, other) = (user.serve(&[]), user.serve(&[]));
    user.call(&frozen, "nightly");
    user.call(&other, "daily");
    frozen.signal("-STOP");
    let (code, out, error) = user.run(&["kill", "nightly"]);
    assert!(code == Some(1) && out.is_empty(), "{out}{error}");
    assert!(error.contains("no live run `nightly`"), "{error}");
    assert!(error.contains("a suspended process that has the run kills it"), "{error}");
    // A run of a process that answers is killed as usual.
    let (code, out, error) = user.run(&["kill", "daily"]);
    assert_eq!((code, out.as_str()), (Some(0), "daily: stopped\n"), "{error}");
    frozen.signal("-CONT");
    until("the run is stopped", || {
        user.state_of("nightly").is_some_and(|(status, _)| status == "stopped")
    });
}

/// Answers a request as a process that is busy: a question never, and a kill after two questions.
fn answer(mut stream: UnixStream, questions: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    if reader.read_line(&mut first).unwrap() == 0 {
        return;
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(given) = line.strip_prefix("content-length:") {
            length = given.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    if first.starts_with("GET") {
        questions.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(PATIENCE);
        return;
    }
    until("two questions", || questions.load(Ordering::SeqCst) >= 2);
    let body = "{\"killed\":1}";
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

#[test]
fn a_busy_process_has_the_time_that_it_needs() {
    let user = User::new("busy");
    let directory = user.0.join("endstop");
    std::fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let (socket, pid) = (directory.join("busy.sock"), std::process::id());
    let listener = UnixListener::bind(&socket).unwrap();
    let entry = json!({
        "version": 1, "pid": pid, "kind": "serve", "command": "busy", "limits": "",
        "started": "2026-11-25T00:00:00Z", "socket": socket,
    });
    std::fs::write(directory.join(format!("{pid}.live.json")), entry.to_string()).unwrap();
    std::thread::spawn(move || {
        let questions = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming() {
            let questions = Arc::clone(&questions);
            std::thread::spawn(move || answer(stream.unwrap(), &questions));
        }
    });
    let (code, out, error) = user.run(&["kill", "--all"]);
    assert!(code == Some(0) && out.starts_with("killed 1 run in 1 process;"), "{out}{error}");
    assert!(
        error.contains(&format!("waiting for process {pid}, which does not answer")),
        "{error}"
    );
}

#[test]
fn a_whole_name_in_the_history_is_shown_before_a_live_run_whose_name_begins_so() {
    let user = User::new("past");
    // The history has calls to an address alone, not those of `--upstream sim`.
    let mut sim = user.command(&["sim"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(sim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let url = url.trim_end_matches(|c: char| !c.is_ascii_digit());
    let mut over = user.serve_over(url, &[]);
    user.call(&over, "nightly-1");
    over.signal("-TERM");
    over.child.wait().unwrap();
    let live = user.serve_over(url, &[]);
    user.call(&live, "nightly-17");
    let show = |name: &str| {
        let (code, out, error) = user.run(&["show", name]);
        assert_eq!(code, Some(0), "{error}");
        (serde_json::from_str::<Value>(&out).unwrap(), error)
    };
    let (past, error) = show("nightly-1");
    assert_eq!((&past["run"], &past["source"]), (&"nightly-1".into(), &"history".into()), "{past}");
    assert!(past["is_uncertain"].is_null() && !error.contains("may be live"), "{past} {error}");
    assert!(show("nightly-17").0["report"].is_object());
    live.signal("-STOP");
    let (past, error) = show("nightly-1");
    assert_eq!(
        (&past["run"], &past["is_uncertain"]),
        (&"nightly-1".into(), &true.into()),
        "{past}"
    );
    assert!(error.contains("a run `nightly-1` may be live there"), "{error}");
    let (code, _, error) = user.run(&["show", "nightly-"]);
    assert!(code != Some(0) && error.contains("no answer from 1 process"), "{error}");
    sim.kill().unwrap();
    sim.wait().unwrap();
}
