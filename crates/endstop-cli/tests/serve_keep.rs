//! `endstop serve --keep`: spend survives any end of the process.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const TOKEN: &str = "control-1";

/// A separate directory for a test, not yet created.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve_keep").join(test);
    drop(std::fs::remove_dir_all(&path));
    path
}

/// A process that listens; killed when it is dropped, as by `kill -9`.
struct Listening {
    child: Child,
    addr: String,
    /// The address of the control API.
    control: Option<String>,
}

impl Listening {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        while !line.contains("listening on http://") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "it does not listen");
        }
        let addr = line.split("http://").nth(1).unwrap();
        let addr = addr.split([',', ';', '\n']).next().unwrap().to_owned();
        let is_controlled = command.get_args().any(|argument| argument == "--control");
        while is_controlled && !line.contains("control: http://") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "it has no control API");
        }
        let control = line.split("control: http://").nth(1);
        let control = control.map(|text| text.split('/').next().unwrap().to_owned());
        // The test does not wait for the rest.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self { child, addr, control }
    }

    fn sim() -> Self {
        Self::start(endstop(&["sim"]).args(["--script", "loop"]))
    }

    /// The answer's head and body; none where the connection breaks.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(String, Value)> {
        let to = self.control.as_ref().filter(|_| path.starts_with("/endstop/"));
        let to = to.unwrap_or(&self.addr);
        let mut stream = TcpStream::connect(to).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {to}\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).ok()?;
        let text = String::from_utf8(all).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.to_owned(), serde_json::from_str(body).ok()?))
    }

    fn upstream_calls(&self) -> u64 {
        let (_, stats) = self.ask("GET", "/sim/stats", "").unwrap();
        stats["calls"].as_u64().unwrap_or_else(|| panic!("{stats}"))
    }

    /// Asks once; whether the call was let through, by the gateway's answer. `None` if it has died.
    fn chat(&self, run: &str) -> Option<Result<(), String>> {
        let request = json!({
            "model": "gpt-4o-mini", "max_tokens": 100,
            "messages": [{ "role": "user", "content": "Look." }],
            "tools": [{ "type": "function", "function": { "name": "look", "parameters": {
                "type": "object", "properties": { "at": { "type": "string" } } } } }],
        });
        let path = format!("/r/{run}/v1/chat/completions");
        let (head, body) = self.ask("POST", &path, &request.to_string())?;
        let reason = head.lines().find_map(|line| line.strip_prefix("x-endstop-reason: "));
        assert!(reason.is_some() || head.starts_with("HTTP/1.1 200"), "{head} {body}");
        Some(reason.map_or(Ok(()), |reason| Err(reason.to_owned())))
    }

    fn steps(&self, run: &str) -> u64 {
        let (_, told) = self.ask("GET", &format!("/endstop/v1/runs/{run}"), "").unwrap();
        if told["error"] == "no such run" {
            return 0;
        }
        told["report"]["totals"]["steps"].as_u64().unwrap_or_else(|| panic!("{told}"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn endstop(arguments: &[&str]) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.env("ENDSTOP_TEST_TOKEN", TOKEN).env_remove("NO_PROXY").args(arguments);
    command
}

fn serve(sim: &Listening, keep: &Path, flags: &[&str]) -> Command {
    let mut command = serve_in_memory(sim, flags);
    command.arg("--keep").arg(keep);
    command
}

fn serve_in_memory(sim: &Listening, flags: &[&str]) -> Command {
    let upstream = format!("http://{}", sim.addr);
    let mut command = endstop(&["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream]);
    command.args(["--control", "127.0.0.1:0", "--control-token-env", "ENDSTOP_TEST_TOKEN"]);
    command.args(flags);
    command
}

fn replayed(keep: &Path) -> Output {
    endstop(&["replay", "--stop", "steps >= 1000"]).arg(keep).output().unwrap()
}

/// A number that differs from test to test.
fn dice(below: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos()) / 7 % below
}

#[test]
fn stored_runs_older_than_keep_for_are_removed_at_the_start_and_begin_again() {
    let keep = directory("keep_for");
    let sim = Listening::sim();
    let steps = ["--steps", "9"];
    {
        let gateway = Listening::start(&mut serve(&sim, &keep, &steps));
        for run in ["old", "new"] {
            assert_eq!(gateway.chat(run), Some(Ok(())));
        }
    }
    let month = Duration::from_secs(30 * 24 * 3_600);
    let notes = keep.join("notes.txt");
    std::fs::write(&notes, "of the user").unwrap();
    for path in [&keep.join("old.jsonl"), &notes] {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - 2 * month).unwrap();
    }
    {
        let _gateway = Listening::start(&mut serve(&sim, &keep, &steps));
        assert!(keep.join("old.jsonl").exists(), "nothing is removed without --keep-for");
    }
    let flags = [&steps[..], &["--keep-for", "30d"]].concat();
    let gateway = Listening::start(&mut serve(&sim, &keep, &flags));
    assert!(!keep.join("old.jsonl").exists() && keep.join("new.jsonl").exists());
    assert!(notes.exists(), "only runs are removed");
    for (run, steps) in [("old", 1), ("new", 2)] {
        assert_eq!(gateway.chat(run), Some(Ok(())));
        assert_eq!(gateway.steps(run), steps, "{run}");
    }
}

#[test]
fn twenty_kills_in_the_middle_of_a_loop_forget_no_step() {
    const LIMIT: u64 = 200;
    const KILLS: u64 = 20;
    let keep = directory("kills");
    let sim = Listening::sim();
    let limit = LIMIT.to_string();
    let flags = ["--steps", &limit, "--tokens", "100000000"];
    let answered = Arc::new(AtomicU64::new(0));
    for _ in 0..KILLS {
        let gateway = Arc::new(Listening::start(&mut serve(&sim, &keep, &flags)));
        let known = gateway.steps("a");
        assert!(known >= answered.load(Ordering::SeqCst), "{known} of {answered:?}");
        assert!(known >= sim.upstream_calls(), "sent calls are counted");
        let pid = gateway.child.id().to_string();
        let (asking, count) = (Arc::clone(&gateway), Arc::clone(&answered));
        let agent = std::thread::spawn(move || {
            // However late the kill comes, the limit is not reached before the last one.
            for _ in 1..LIMIT / KILLS {
                let Some(got) = asking.chat("a") else { return };
                got.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let until = answered.load(Ordering::SeqCst) + dice(8);
        while answered.load(Ordering::SeqCst) < until {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(dice(3_000)));
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        agent.join().unwrap();
    }
    let gateway = Listening::start(&mut serve(&sim, &keep, &flags));
    let mut last = gateway.chat("a").unwrap();
    while last.is_ok() {
        answered.fetch_add(1, Ordering::SeqCst);
        assert!(answered.load(Ordering::SeqCst) <= LIMIT);
        last = gateway.chat("a").unwrap();
    }
    assert_eq!(last, Err("steps_limit".to_owned()));
    let (calls, answered) = (sim.upstream_calls(), answered.load(Ordering::SeqCst));
    assert!(answered <= calls && calls <= LIMIT, "{answered} of {calls}");
    assert!(answered >= LIMIT - KILLS, "{answered}: one in flight at each kill at most");
    assert_eq!(gateway.steps("a"), LIMIT);
    drop(gateway);
    // The stop stays.
    let gateway = Listening::start(&mut serve(&sim, &keep, &flags));
    assert_eq!(gateway.chat("a"), Some(Err("steps_limit".to_owned())));
    assert_eq!((sim.upstream_calls(), gateway.steps("a")), (calls, LIMIT));
    drop(gateway);
    let output = replayed(&keep);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("1 run"), "{text}");
}

#[test]
fn a_stored_run_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let keep = directory("newer");
    let sim = Listening::sim();
    let flags = ["--steps", "9"];
    let gateway = Listening::start(&mut serve(&sim, &keep, &flags));
    assert_eq!(gateway.chat("a"), Some(Ok(())));
    drop(gateway);
    let file = keep.join("a.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let newer = text.replacen("{\"endstop_trace\":1,", "{\"endstop_trace\":9,", 1);
    assert_ne!(newer, text);
    std::fs::write(&file, &newer).unwrap();
    let gateway = Listening::start(&mut serve(&sim, &keep, &flags));
    let calls = sim.upstream_calls();
    let request = json!({ "model": "gpt-4o-mini", "max_tokens": 100,
        "messages": [{ "role": "user", "content": "Look." }] });
    let path = "/r/a/v1/chat/completions";
    let (head, body) = gateway.ask("POST", path, &request.to_string()).unwrap();
    assert!(head.starts_with("HTTP/1.1 500"), "{head} {body}");
    assert!(body.to_string().contains("a later version of the program"), "{body}");
    assert_eq!(sim.upstream_calls(), calls, "nothing was sent");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), newer, "the file was changed");
    assert_eq!(gateway.chat("b"), Some(Ok(())), "other runs are served");
}

#[test]
fn a_disk_that_takes_no_more_stops_the_run() {
    let keep = directory("full");
    let sim = Listening::sim();
    let serve = serve(&sim, &keep, &["--steps", "500"]);
    // The system refuses writes beyond 4 KiB in a file, as a full disk does.
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]);
    limited.arg(serve.get_program()).args(serve.get_args()).env("ENDSTOP_TEST_TOKEN", TOKEN);
    let gateway = Listening::start(&mut limited);
    let mut answered = 0;
    let reason = loop {
        match gateway.chat("a").unwrap() {
            Ok(()) => answered += 1,
            Err(reason) => break reason,
        }
    };
    assert_eq!((reason.as_str(), gateway.chat("a")), ("error", Some(Err("error".to_owned()))));
    let calls = sim.upstream_calls();
    assert!(answered > 1 && calls <= answered + 1, "{answered} of {calls}");
    drop(gateway);
    // With room again, the run continues, and knows of every call.
    let gateway = Listening::start(&mut self::serve(&sim, &keep, &["--steps", "500"]));
    assert!(gateway.steps("a") >= calls);
    assert_eq!(gateway.chat("a"), Some(Ok(())));
}

#[test]
fn a_directory_is_one_gateways() {
    let keep = directory("two");
    let sim = Listening::sim();
    let first = Listening::start(&mut serve(&sim, &keep, &["--steps", "5"]));
    let second = serve(&sim, &keep, &["--steps", "5"]).output().unwrap();
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(
        error.contains(&format!("process {} stores its runs there", first.child.id())),
        "{error}"
    );
    drop(first);
    // A dead process has no lock.
    drop(Listening::start(&mut serve(&sim, &keep, &["--steps", "5"])));
}

#[test]
fn all_runs_together_are_held_to_their_total_over_restarts() {
    let keep = directory("total");
    let sim = Listening::sim();
    let flags = ["--steps", "40", "--total-usd", "0.002"];
    let mut calls = 0;
    for run in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let gateway = Listening::start(&mut serve(&sim, &keep, &flags));
        while gateway.chat(run) == Some(Ok(())) {
            assert!(sim.upstream_calls() <= 10_000);
        }
        let now = sim.upstream_calls();
        // A call that the total refused is not a step of the run.
        assert_eq!(gateway.steps(run), now - calls);
        if now == calls {
            return;
        }
        calls = now;
    }
    panic!("the total was never reached: {calls} calls");
}

/// A run that the total refused continues after the total is raised, without a restart, whether it is stored or not.
#[test]
fn a_raised_total_lets_refused_runs_go_on() {
    for is_stored in [true, false] {
        let (sim, traces) = (Listening::sim(), directory("raised-traces"));
        let flags = ["--steps", "400", "--total-usd", "0.0002"];
        let keep = directory("raised");
        let mut command = if is_stored {
            serve(&sim, &keep, &flags)
        } else {
            serve_in_memory(&sim, &[&flags[..], &["--trace", traces.to_str().unwrap()]].concat())
        };
        goes_on_with_a_raised_total(&sim, &Listening::start(&mut command));
        let lines = if is_stored { keep } else { traces };
        let trace = std::fs::read_to_string(lines.join("a.jsonl")).unwrap();
        let reopened = r#""event":"reopened","by":"ann","why":"more agents""#;
        assert!(trace.contains(reopened), "{is_stored}: {trace}");
    }
}

fn goes_on_with_a_raised_total(sim: &Listening, gateway: &Listening) {
    while gateway.chat("a") == Some(Ok(())) {
        assert!(sim.upstream_calls() <= 10_000);
    }
    assert_eq!(gateway.chat("a"), Some(Err("cost_limit".to_owned())));
    let (before, total) = (sim.upstream_calls(), "/endstop/v1/total");
    let (_, told) = gateway.ask("GET", total, "").unwrap();
    assert_eq!(told["limit_usd"], "0.0002", "{told}");
    let (_, told) = gateway.ask("POST", total, "{\"limit\":\"much\"}").unwrap();
    assert!(told["error"].as_str().unwrap().contains("not an amount"), "{told}");
    let raise = r#"{"limit":"1.00","by":"ann","message":"more agents"}"#;
    let (_, told) = gateway.ask("POST", total, raise).unwrap();
    assert_eq!(told["limit_usd"], "1", "{told}");
    let changed = (&told["changed"]["by"], &told["changed"]["why"]);
    assert_eq!(changed, (&json!("ann"), &json!("more agents")), "{told}");
    assert_eq!(gateway.chat("a"), Some(Ok(())));
    assert_eq!((sim.upstream_calls(), gateway.steps("a")), (before + 1, before + 1));
}

#[test]
fn stored_runs_and_traces_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (keep, traces) = (directory("modes"), directory("modes-traces"));
    let sim = Listening::sim();
    let gateway = Listening::start(&mut serve(&sim, &keep, &["--trace", traces.to_str().unwrap()]));
    assert_eq!(gateway.chat("a"), Some(Ok(())));
    for (path, wanted) in [
        (keep.clone(), 0o700),
        (keep.join("a.jsonl"), 0o600),
        (traces.clone(), 0o700),
        (traces.join("a.jsonl"), 0o600),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, wanted, "{}", path.display());
    }
}
