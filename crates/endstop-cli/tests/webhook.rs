//! The webhook of the configuration file, against a server that fails twice.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests"
)]

#[path = "../../../tests/support/golden.rs"]
mod file;

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use file::golden;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const SECRET: &str = "s3cret of the receiver";

/// A message as it arrived: the value of the signature's header, and the body.
type Message = (String, String);

/// A receiver that answers `failures` messages with 500, and then with 204. The first channel has those with 204.
fn receiver(failures: usize) -> (String, Receiver<Message>, Receiver<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?team=a", listener.local_addr().unwrap());
    let ((taken, of_taken), (failed, of_failed)) = (channel(), channel());
    std::thread::spawn(move || {
        for number in 0.. {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                lines.push(line);
            }
            if lines.is_empty() {
                continue;
            }
            assert!(lines[0].starts_with("POST /hook?team=a HTTP/1.1"), "{lines:?}");
            let headers: HashMap<String, String> = lines[1..]
                .iter()
                .filter_map(|line| line.trim_end().split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let mut body = vec![0; headers["content-length"].parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let message =
                (headers["x-endstop-signature"].clone(), String::from_utf8(body).unwrap());
            let is_failure = number < failures;
            let status = if is_failure { "500 Broken" } else { "204 Taken" };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            let to = if is_failure { &failed } else { &taken };
            if to.send(message).is_err() {
                return;
            }
        }
    });
    (url, of_taken, of_failed)
}

/// HMAC-SHA256, as the page says that a receiver checks it.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let pad = |byte: u8| {
        let mut padded = [byte; 64];
        padded.iter_mut().zip(key).for_each(|(padded, key)| *padded ^= key);
        padded
    };
    let inner = Sha256::digest([&pad(0x36)[..], message].concat());
    let outer = Sha256::digest([&pad(0x5c)[..], &inner[..]].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn checked(message: &Message) -> Value {
    let (signature, body) = message;
    let (time, hex) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert_eq!(hex, hmac(SECRET.as_bytes(), format!("{time}.{body}").as_bytes()), "{body}");
    serde_json::from_str(body).unwrap()
}

/// A user's directory, with a configuration that names a webhook.
struct Home(PathBuf);

impl Home {
    fn new(test: &str, url: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let name = format!("endstop-webhook-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        let home = Self(path);
        home.file("secret", &format!("{SECRET}\n"));
        let config = format!(
            "[webhook]\nurl = \"{url}\"\nsecret_file = \"secret\"\n[budget.me]\nlimit = \"100 steps\"\nwarn = \"1%\"\n"
        );
        home.file("config.toml", &config);
        home
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("XDG_RUNTIME_DIR", &self.0).env("TMPDIR", &self.0);
        command.env("XDG_STATE_HOME", self.0.join("state"));
        command.env("ENDSTOP_CONFIG", self.0.join("config.toml"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    fn succeeds(&self, arguments: &[&str]) {
        let ended = self.command(arguments).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The next event of a name, and the body as it was sent.
fn next_with_body(taken: &Receiver<Message>, event: &str) -> (Value, String) {
    let until = Instant::now() + PATIENCE;
    loop {
        let taken = taken.recv_timeout(PATIENCE).unwrap();
        let message = checked(&taken);
        if message["event"] == event {
            return (message, taken.1);
        }
        assert!(Instant::now() < until, "{message}");
    }
}

/// The next event of a name.
fn next(taken: &Receiver<Message>, event: &str) -> Value {
    next_with_body(taken, event).0
}

/// The next event of a name, whose body is compared with a golden file. `fixed` are the keys of this event whose values differ
/// from run to run.
fn next_of_form(
    taken: &Receiver<Message>,
    event: &str,
    name: &str,
    fixed: &[(&str, &str)],
) -> Value {
    let (message, body) = next_with_body(taken, event);
    let of_all = [("id", "\"ID\""), ("time", "\"2026-11-29T20:00:00Z\"")];
    golden(name, &body, &[&of_all[..], fixed].concat());
    message
}

#[test]
fn a_pause_and_a_threshold_reach_a_webhook_that_fails_twice_and_the_run_goes_on_where_it_was() {
    let (url, taken, failed) = receiver(2);
    let home = Home::new("run", &url);
    let policy = "[stop]\nend = 'steps >= 6'\n[pause]\nask = 'steps >= 3'\n";
    let policy = home.file("policy.toml", policy);
    let mut run =
        home.command(&["run", "--upstream", "sim", "--policy", policy.to_str().unwrap(), "--"]);
    run.arg(snapbox::cmd::cargo_bin!("endstop")).args(["demo-agent", "--iterations", "100000"]);
    let mut run = run.stdout(Stdio::null()).spawn().unwrap();

    // The first message is sent until it is taken, with the same body.
    let first = taken.recv_timeout(PATIENCE).unwrap();
    let tries: Vec<Message> = failed.try_iter().collect();
    assert_eq!(tries.len(), 2);
    for message in &tries {
        assert_eq!(checked(message), checked(&first));
    }
    let mut events = vec![checked(&first)];
    let until = Instant::now() + PATIENCE;
    while !events.iter().any(|event| event["event"] == "run_paused") {
        assert!(Instant::now() < until, "{events:?}");
        events.push(checked(&taken.recv_timeout(PATIENCE).unwrap()));
    }
    let paused = events.iter().find(|event| event["event"] == "run_paused").unwrap();
    assert_eq!(paused["rules"], serde_json::json!(["ask"]));
    let threshold = events.iter().find(|event| event["event"] == "budget_threshold").unwrap();
    assert!(threshold["text"].as_str().unwrap().starts_with("budget me: "), "{threshold}");
    let words = ["budget", "limit", "unit"].map(|key| threshold[key].as_str().unwrap());
    assert_eq!(words, ["me", "100 steps", "steps"]);
    let numbers = ["amount", "spent", "percent", "warns_at_percent"];
    assert_eq!(numbers.map(|key| threshold[key].as_u64().unwrap()), [100, 1, 1, 1], "{threshold}");
    let ids: BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len(), "{events:?}");

    let id = paused["run"].as_str().unwrap();
    home.succeeds(&["approve", id, "ask"]);
    assert_eq!(run.wait().unwrap().code(), Some(124), "the stop rule is reached");
    let resumed = checked(&taken.recv_timeout(PATIENCE).unwrap());
    assert_eq!(
        (resumed["event"].as_str(), resumed["run"].as_str()),
        (Some("run_resumed"), Some(id))
    );
}

#[test]
fn no_message_has_a_prompt_a_key_or_a_command_line() {
    let (url, taken, _failed) = receiver(0);
    let home = Home::new("canaries", &url);
    let policy = "[stop]\nend = 'steps >= 6'\n[pause]\nask = 'steps >= 1'\n";
    let policy = home.file("policy.toml", policy);
    let policy = policy.to_str().unwrap();
    let canaries = ["canary-of-a-prompt", "canary-of-a-key", "canary-of-a-command"];
    let [prompt, key, command] = canaries;
    let mut seen = Vec::new();
    let mut wait_for = |events: &[&str]| {
        let mut missing: BTreeSet<&str> = events.iter().copied().collect();
        while !missing.is_empty() {
            let message = taken.recv_timeout(PATIENCE).unwrap();
            missing.remove(checked(&message)["event"].as_str().unwrap());
            seen.push(message.1);
        }
    };

    let options = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--json"];
    let mut serve = home.command(&[&options[..], &["--steps", "100"]].concat()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let host = listening["address"].as_str().unwrap().split_once("://").unwrap().1.to_owned();
    let body =
        format!(r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
    let mut stream = TcpStream::connect(&host).unwrap();
    write!(
        stream,
        "POST /r/nightly/v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    home.succeeds(&["pause", "nightly"]);
    home.succeeds(&["resume", "nightly"]);
    wait_for(&["budget_threshold", "run_paused", "run_resumed"]);
    serve.kill().unwrap();
    serve.wait().unwrap();

    // The window of this budget is another process's too, but each warns.
    let agent = ["agent", "--model", "scripted:loop", "--policy", policy, prompt];
    assert_eq!(home.command(&agent).output().unwrap().status.code(), Some(124));
    wait_for(&["budget_threshold", "run_paused"]);
    let script = format!(": {command}; exec \"$0\" demo-agent --iterations 1 --searches 1");
    let mut run =
        home.command(&["run", "--upstream", "sim", "--steps", "99", "--", "/bin/sh", "-c"]);
    run.arg(script).arg(snapbox::cmd::cargo_bin!("endstop")).env("OPENAI_API_KEY", key);
    assert!(run.env("ANTHROPIC_API_KEY", key).output().unwrap().status.success());
    wait_for(&["budget_threshold"]);

    for (body, word) in seen.iter().flat_map(|body| canaries.map(|word| (body, word))) {
        assert!(!body.contains(word) && !body.contains(SECRET), "{body}");
    }
}

#[test]
fn pauses_by_a_command_reach_the_webhook_of_a_gateway_and_of_an_agent() {
    let (url, taken, _failed) = receiver(0);
    let home = Home::new("others", &url);
    let options = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--json"];
    let mut serve = home.command(&[&options[..], &["--steps", "100"]].concat()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let base = format!("{}/r/nightly", listening["address"].as_str().unwrap());
    let mut agent = home.command(&["demo-agent", "--iterations", "1", "--searches", "1"]);
    assert!(agent.env("ANTHROPIC_BASE_URL", base).output().unwrap().status.success());
    next_of_form(&taken, "budget_threshold", "webhook-threshold.json", &[]);
    home.succeeds(&["pause", "nightly", "--why", "lunch"]);
    let by = [("by", "\"ann\"")];
    let paused = next_of_form(&taken, "run_paused", "webhook-paused.json", &by);
    assert_eq!((&paused["run"], &paused["why"]), (&"nightly".into(), &"lunch".into()), "{paused}");
    home.succeeds(&["resume", "nightly"]);
    let resumed = next_of_form(&taken, "run_resumed", "webhook-resumed.json", &[]);
    assert_eq!(resumed["run"], "nightly");
    serve.kill().unwrap();
    serve.wait().unwrap();

    let policy = "[stop]\nend = 'steps >= 6'\n[pause]\nask = 'steps >= 1'\n";
    let policy = home.file("policy.toml", policy);
    let agent = ["agent", "--model", "scripted:loop", "--policy", policy.to_str().unwrap(), "go"];
    assert_eq!(home.command(&agent).output().unwrap().status.code(), Some(124));
    let run = [("run", "\"RUN\"")];
    let paused = next_of_form(&taken, "run_paused", "webhook-paused-by-rule.json", &run);
    assert_eq!(paused["rules"], serde_json::json!(["ask"]));
}

/// Waits for a line of an output that has some text.
fn line_with(output: &mut impl std::io::BufRead, text: &str) -> String {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if line.contains(text) {
            return line;
        }
        line.clear();
    }
    panic!("no line has {text:?}")
}

#[test]
fn waits_for_a_full_budget_reach_the_webhook_from_a_gateway_and_an_agent_which_print_them() {
    let (url, taken, _failed) = receiver(0);
    let home = Home::new("budget", &url);
    let limit = |steps: u32| {
        let config = format!(
            "[webhook]\nurl = \"{url}\"\nsecret_file = \"secret\"\n[budget.me]\nlimit = \"{steps} steps per month\"\n\
             on_full = \"pause\"\n"
        );
        home.file("config.toml", &config);
    };
    limit(1);
    let options = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--json"];
    let mut serve = home.command(&[&options[..], &["--steps", "100"]].concat()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let base = format!("{}/r/nightly", listening["address"].as_str().unwrap());
    let mut client = home.command(&["demo-agent", "--iterations", "9"]);
    let mut client = client.env("ANTHROPIC_BASE_URL", base).stdout(Stdio::null()).spawn().unwrap();
    let said = line_with(&mut lines, "\"paused\"");
    assert!(said.contains("waits for budget me until ") && said.contains("nightly"), "{said}");
    // The text says how long it takes until the reset.
    let reset = [("resets_at", "\"2026-12-01T00:00:00Z\""), ("text", "\"TEXT\"")];
    let paused = next_of_form(&taken, "run_paused", "webhook-paused-by-budget.json", &reset);
    assert_eq!((&paused["run"], &paused["budget"]), (&"nightly".into(), &"me".into()), "{paused}");
    assert!(paused["resets_at"].as_str().unwrap().ends_with('Z'), "{paused}");
    assert!(paused["text"].as_str().unwrap().starts_with("budget me has used 1 of 1 step"));
    limit(9_999);
    assert_eq!(next(&taken, "run_resumed")["run"], "nightly");
    line_with(&mut lines, "\"wait_ended\"");
    client.kill().unwrap();
    client.wait().unwrap();
    serve.kill().unwrap();
    serve.wait().unwrap();

    limit(1);
    let mut agent = home.command(&["agent", "--model", "scripted:loop", "--steps", "3", "go"]);
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let paused = next(&taken, "run_paused");
    assert_eq!(paused["budget"], "me", "{paused}");
    let listed = home.command(&["ps", "--json"]).output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    assert!(listed.contains("\"waits_for\": \"budget me until "), "{listed}");
    limit(9_999);
    assert_eq!(next(&taken, "run_resumed")["run"], paused["run"]);
    let mut said = String::new();
    agent.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("waits for budget me until "), "{said}");
    assert_eq!(agent.wait().unwrap().code(), Some(124), "{said}");
}

#[test]
fn a_client_that_leaves_while_it_waits_for_a_budget_resumes_nothing_and_another_try_is_no_news() {
    let (url, taken, _failed) = receiver(0);
    let home = Home::new("left", &url);
    let config = format!(
        "[webhook]\nurl = \"{url}\"\nsecret_file = \"secret\"\n[budget.me]\nlimit = \"1 steps per month\"\n\
         on_full = \"pause\"\n"
    );
    home.file("config.toml", &config);
    let options = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--json"];
    let mut serve = home.command(&[&options[..], &["--steps", "100"]].concat()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let base = format!("{}/r/nightly", listening["address"].as_str().unwrap());
    for _ in 0..2 {
        let mut client = home.command(&["demo-agent", "--iterations", "9"]);
        client.env("ANTHROPIC_BASE_URL", &base).stdout(Stdio::null());
        let mut client = client.spawn().unwrap();
        line_with(&mut lines, "\"paused\"");
        client.kill().unwrap();
        client.wait().unwrap();
        let ended = line_with(&mut lines, "\"wait_ended\"");
        assert!(ended.contains("waits for no budget any longer"), "{ended}");
    }
    home.succeeds(&["pause", "nightly", "--why", "lunch"]);
    let of_run = || {
        let mut all = std::iter::repeat_with(|| checked(&taken.recv_timeout(PATIENCE).unwrap()));
        all.find(|message| message["event"] != "budget_threshold").unwrap()
    };
    let (waits, paused) = (of_run(), of_run());
    assert_eq!((&waits["event"], &waits["budget"]), (&"run_paused".into(), &"me".into()));
    assert_eq!(
        (&paused["event"], &paused["why"]),
        (&"run_paused".into(), &"lunch".into()),
        "{paused}"
    );
    serve.kill().unwrap();
    serve.wait().unwrap();
}
