//! Printed forms that need a server, a store or a file, byte for byte; `golden.rs` has the others. Times and run ids
//! are replaced by fixed values.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

#[path = "golden_files/commands.rs"]
mod commands;
#[path = "../../../tests/support/golden.rs"]
mod file;
#[path = "support/place.rs"]
mod place;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

use file::golden;
use place::{Place, text};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../endstop-transcript/data/sample");

/// Keys of a report whose values differ from run to run.
const TIMES: [(&str, &str); 2] = [("at_ms", "0"), ("elapsed_ms", "0")];

fn endstop(place: &Place) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.current_dir(&place.0).env("HOME", "/nonexistent").env_remove("NO_PROXY");
    command.env_remove("COLUMNS").stdin(Stdio::null());
    command
}

fn run(place: &Place, arguments: &[&str]) -> Output {
    endstop(place).args(arguments).output().unwrap()
}

fn stdout(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    text(&output.stdout)
}

/// The text with another name for a run that was named by its time.
fn renamed(text: &str, run: &Value, name: &str) -> String {
    text.replace(run.as_str().unwrap(), name)
}

#[test]
fn run_json_file() {
    let place = Place::new("run");
    for (name, flags, iterations, code) in [
        ("run-stopped.json", &["--steps", "3"][..], "9", 124),
        ("run-ended.json", &["--steps", "9", "--usd", "5"], "1", 0),
        ("run-dry.json", &["--steps", "2", "--dry-run"], "1", 0),
    ] {
        let script = "\"$AGENT\" demo-agent --searches 1 --iterations";
        let script = format!("{script} {iterations}");
        let mut command = endstop(&place);
        command.env("AGENT", snapbox::cmd::cargo_bin!("endstop"));
        command.args(["run", "--upstream", "sim", "-q", "--json-file", "run.json"]).args(flags);
        let output = command.args(["--", "/bin/sh", "-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
        let written = std::fs::read_to_string(place.0.join("run.json")).unwrap();
        let value: Value = serde_json::from_str(&written).unwrap();
        golden(name, &renamed(&written, &value["run"], "RUN"), &TIMES);
    }
}

#[test]
fn demo_json() {
    let output =
        run(&Place::new("demo"), &["demo", "--json", "--iterations", "1", "--usd", "0.10"]);
    let printed = stdout(&output, 0);
    let value: Value = serde_json::from_str(&printed).unwrap();
    let printed = renamed(&printed, &value["without_limits"]["run"], "FIRST");
    let printed = renamed(&printed, &value["under_limits"]["run"], "SECOND");
    let printed = renamed(&printed, &value["under_limits"]["command"][0], "endstop");
    let prices = [("prices", "\"PRICES\"")];
    golden("demo.json", &printed, &[&TIMES[..], &prices].concat());
}

fn post(addr: &str, path: &str, body: &Value) -> String {
    let (mut stream, body) = (TcpStream::connect(addr).unwrap(), body.to_string());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer control-1\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A call of the run `build-1`.
fn chat(addr: &str) -> String {
    let request = json!({
        "model": "gpt-4o-mini", "max_tokens": 100,
        "messages": [{ "role": "user", "content": "Look." }],
    });
    post(addr, "/r/build-1/v1/chat/completions", &request)
}

/// `endstop serve`, ended when it is dropped.
struct Serving {
    child: std::process::Child,
    out: BufReader<ChildStdout>,
    addr: String,
    control: String,
    printed: String,
}

impl Serving {
    fn start(place: &Place, flags: &[&str]) -> Self {
        Self::start_at(place, "sim", flags)
    }

    fn start_at(place: &Place, upstream: &str, flags: &[&str]) -> Self {
        let mut command = endstop(place);
        command.args(["serve", "--json", "--upstream", upstream, "--listen", "127.0.0.1:0"]);
        command.env("XDG_STATE_HOME", &place.0).env("ENDSTOP_TEST_TOKEN", "control-1");
        command.args(flags).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (addr, control, printed) = (String::new(), String::new(), String::new());
        let mut serving = Self { child, out, addr, control, printed };
        let line = serving.line();
        let of = |key: &str| line[key].as_str().unwrap().strip_prefix("http://").unwrap();
        serving.addr = of("address").to_owned();
        serving.control = of("control_address").to_owned();
        serving
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "it has ended: {}", self.printed);
        self.printed.push_str(&line);
        serde_json::from_str(&line).unwrap()
    }

    /// Reads up to an event.
    fn wait_for(&mut self, event: &str) {
        while self.line()["event"] != event {}
    }

    /// Ends it and returns its output.
    fn end(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.out.read_to_string(&mut self.printed).unwrap();
        self.child.wait().unwrap();
        let printed = self.printed.replace(&self.addr, "127.0.0.1:PORT");
        printed.replace(&self.control, "127.0.0.1:CONTROL")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn serve_json() {
    let place = Place::new("serve");
    let policy = "[stop]\nlimit = 'steps >= 2'\n[warn]\nsoon = 'steps >= 1'\n\
                  [pause]\nask = 'cost >= $0.0000001'\n";
    place.file("policy.toml", policy);
    let flags = ["--policy", "policy.toml", "--pause-limit", "60s"];
    let control = ["--control", "127.0.0.1:0", "--control-token-env", "ENDSTOP_TEST_TOKEN"];
    let flags = [&flags[..], &control, &["--control-socket", "control/a.sock"]].concat();
    let mut serving = Serving::start(&place, &flags);
    let addr = serving.addr.clone();
    chat(&addr);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| chat(&addr));
        serving.wait_for("paused");
        let answer = post(&serving.control, "/endstop/v1/runs/build-1/approve", &json!({}));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        waiting.join().unwrap();
    });
    let stopped = chat(&addr);
    assert!(stopped.contains("x-endstop-reason: steps_limit"), "{stopped}");
    golden("serve.jsonl", &serving.end(), &TIMES);
}

#[test]
fn ps_json() {
    let place = Place::new("ps");
    let control = ["--control", "127.0.0.1:0", "--control-token-env", "ENDSTOP_TEST_TOKEN"];
    let flags = [&["--steps", "9", "--control-socket", "control/a.sock"][..], &control].concat();
    let serving = Serving::start(&place, &flags);
    chat(&serving.addr);
    let server = format!("http://{}", serving.control);
    let ps = ["ps", "--json", "--server", &server, "--token-env", "ENDSTOP_TEST_TOKEN"];
    let output = endstop(&place).env("ENDSTOP_TEST_TOKEN", "control-1").args(ps).output().unwrap();
    golden("ps.json", &stdout(&output, 0), &[]);
}

#[test]
fn budget_json() {
    let place = Place::new("budget");
    let config = "[budget.me]\nlimit = \"$5 per day\"\nparent = \"org\"\n\
                  [budget.org]\nlimit = [\"$60 per month\", \"9M tokens\"]\n";
    let config = place.file("config.toml", config);
    let endstop = |arguments: &[&str]| {
        let mut command = endstop(&place);
        command.env("XDG_STATE_HOME", &place.0).env("ENDSTOP_CONFIG", &config);
        stdout(&command.args(arguments).output().unwrap(), 0)
    };
    endstop(&["budget", "adjust", "me", "+1.50", "--why", "a test"]);
    let fixed = [
        ("at", "\"2026-11-29T20:00:00+00:00[UTC]\""),
        ("at_ms", "0"),
        ("resets_at", "\"2026-11-30T00:00:00+00:00[UTC]\""),
        ("resets_at_ms", "0"),
        ("who", "\"ann\""),
    ];
    golden("budget.json", &endstop(&["budget", "--json"]), &fixed);
}

#[test]
fn spend_json() {
    let place = Place::new("spend");
    let mut sim = endstop(&place).arg("sim").stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(sim.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split(',').next().unwrap();
    let upstream = format!("http://{address}");
    let run = ["run", "-q", "--usd", "5", "--budget", "$5 per day", "--upstream", &upstream, "--"];
    let mut command = endstop(&place);
    command.env("AGENT", snapbox::cmd::cargo_bin!("endstop")).env("XDG_STATE_HOME", &place.0);
    command.args(run).args(["/bin/sh", "-c", "\"$AGENT\" demo-agent --searches 1 --iterations 1"]);
    let output = command.output().unwrap();
    drop(sim.kill());
    drop(sim.wait());
    assert!(output.status.success(), "{output:?}");
    for by in ["model", "budget"] {
        let spend = ["spend", "--json", "--by", by];
        let output = endstop(&place).env("XDG_STATE_HOME", &place.0).args(spend).output().unwrap();
        golden(&format!("spend-{by}.json"), &stdout(&output, 0), &[]);
    }
}

#[test]
fn stored_runs_of_agent() {
    let place = Place::new("agent");
    place.file("notes.txt", "hello");
    place.file("policy.toml", "[stop]\nlimit = 'steps >= 5'\n[pause]\nask = 'steps >= 2'\n");
    let flags = ["-m", "scripted:loop", "--policy", "policy.toml", "--tools", "list,read"];
    let flags = [&flags[..], &["--folder", ".", "--system", "Be brief.", "Look around."]].concat();
    let paused = place.json(124, &flags);
    let id = paused["run"].as_str().unwrap();
    let listed = stdout(&place.run(&["--runs", "--json"]), 0);
    let fixed = [("saved", "\"2026-11-29T20:00:00Z\"")];
    let listed = golden("agent-runs.json", &renamed(&listed, &paused["run"], "RUN"), &fixed);
    assert_eq!(listed.matches("\"RUN\"").count(), 1);

    let directory = place.0.canonicalize().unwrap().display().to_string();
    let state = place.0.join(format!("endstop/runs/{id}.run/state"));
    let state = std::fs::read_to_string(state).unwrap();
    let state: Value = serde_json::from_str(state.lines().nth(1).unwrap()).unwrap();
    golden("agent-metadata.json", &state["metadata"].to_string().replace(&directory, "DIR"), &[]);
    let resumed = place.run(&["--resume", id, "--approve", "--json"]);
    let resumed = stdout(&resumed, 124);
    golden("agent-resumed.json", &renamed(&resumed, &paused["run"], "RUN"), &TIMES);
}

/// More steps than before, by the same runs.
#[test]
fn replay_drift() {
    let place = Place::new("drift");
    let runs = format!("{SAMPLE}/agents.jsonl");
    let mut before: Value =
        serde_json::from_str(&stdout(&run(&place, &["replay", &runs, "--json"]), 0)).unwrap();
    before["usage"]["kinds"]["endstop"]["steps"] = 50.into();
    before["usage"]["tools"].as_object_mut().unwrap().remove("bash");
    let before = place.file("before.json", &before.to_string());
    let output = run(&place, &["replay", &runs, "--quiet", "--json", "--drift", &before]);
    golden("drift.json", &stdout(&output, 1), &[]);
    let output = run(&place, &["replay", &runs, "--quiet", "--drift", &before]);
    golden("drift.txt", &stdout(&output, 1), &[]);
}

#[test]
fn replay_formats_json() {
    let output = run(&Place::new("formats"), &["replay", "--formats", "--json"]);
    golden("formats.json", &stdout(&output, 0), &[]);
}

#[test]
fn charts() {
    let place = Place::new("charts");
    let runs = format!("{SAMPLE}/agents.jsonl");
    for name in ["chart.svg", "chart.html"] {
        let sweeps = ["--sweep", "steps=5..20:5", "--sweep", "cost=$0.02..$0.14:$0.03"];
        let arguments = [&["replay", &runs, "--quiet", "--chart", name], &sweeps[..]].concat();
        stdout(&run(&place, &arguments), 0);
        golden(name, &std::fs::read_to_string(place.0.join(name)).unwrap(), &[]);
    }
}

#[test]
fn man_pages() {
    let place = Place::new("man");
    let version = format!("endstop {}", env!("CARGO_PKG_VERSION"));
    for (name, arguments) in [("endstop.1", &["man"][..]), ("endstop-run.1", &["man", "run"])] {
        let page = stdout(&run(&place, arguments), 0);
        golden(name, &page.replace(&version, "endstop VERSION"), &[]);
    }
}

/// A script has tens of kilobytes, so only what it offers is compared.
#[test]
fn completions_offer_every_subcommand_and_option() {
    let place = Place::new("completions");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&run(&place, &["completions", shell]), 0);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words = script.split(|c| !is_word(c)).map(|word| word.trim_start_matches('-'));
        let words: BTreeSet<&str> = words.collect();
        for command in endstop_cli::command().get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = command.get_name();
            assert!(words.contains(name), "{shell}: {name}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(words.contains(option), "{shell}: {name} --{option}");
            }
        }
    }
}
