//! Commands on live runs by `--server`, at the control address of a gateway, and `endstop signal`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const POLICY: &str = "[stop]\nlimit = 'steps >= 90'\nreview = 'signal(\"review\")'\n\
                      [pause]\nask = 'steps >= 1'\n";

/// A gateway of the scripted model with a control address, and the directories of its user. Another user's directories are
/// those of the commands, so that they find it by its address alone.
struct Remote {
    path: PathBuf,
    gateway: Child,
    address: String,
    control: String,
}

impl Remote {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("endstop-{test}-{}", std::process::id()));
        for directory in ["", "there", "here"] {
            std::fs::DirBuilder::new().mode(0o700).create(path.join(directory)).unwrap();
        }
        let policy = path.join("policy.toml");
        std::fs::write(&policy, POLICY).unwrap();
        let mut serve = command(&path.join("there"), &["serve", "--upstream", "sim", "--json"]);
        serve.args(["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
        serve.args(["--control-token-env", "TEST_TOKEN"]).env("TEST_TOKEN", "secret");
        serve.arg("--policy").arg(policy).arg("--trace").arg(path.join("traces"));
        let mut gateway = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening: Value = serde_json::from_str(&line).unwrap();
        let word = |key: &str| listening[key].as_str().unwrap().to_owned();
        Self { path, gateway, address: word("address"), control: word("control_address") }
    }

    /// Begins a run by one call.
    fn begin(&self, run: &str) {
        let mut agent = command(&self.path.join("here"), &["demo-agent", "--iterations", "100000"]);
        agent.env("ANTHROPIC_BASE_URL", format!("{}/r/{run}", self.address));
        // Its second call waits for an approval.
        let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while !self.succeeds(&["ps", "--json"]).contains(&format!("\"{run}\"")) {
            assert!(std::time::Instant::now() < until, "the run {run} does not begin");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        while self.json(&["show", run])["status"] != "paused" {
            assert!(std::time::Instant::now() < until, "the run {run} does not pause");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// A command with `--server` and a token: its exit code, standard output, and standard error in one line.
    fn run_with(&self, token: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = command(&self.path.join("here"), arguments);
        command.args(["--server", &self.control, "--token-env", "TEST_TOKEN"]);
        let output = command.env("TEST_TOKEN", token).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), error)
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.run_with("secret", arguments);
        assert_eq!(code, Some(0), "{arguments:?}\n{out}\n{error}");
        out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.succeeds(arguments)).unwrap()
    }

    /// Ends the gateway, and returns the trace of a run.
    fn trace(&mut self, run: &str) -> String {
        let pid = self.gateway.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self.gateway.wait().unwrap();
        std::fs::read_to_string(self.path.join(format!("traces/{run}.jsonl"))).unwrap()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.gateway.kill();
        let _ = self.gateway.wait();
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn command(home: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.env("XDG_RUNTIME_DIR", home).env("TMPDIR", home).env("ENDSTOP_CONFIG", "");
    command.env("XDG_STATE_HOME", home.join("state"));
    command.args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn every_command_on_a_run_works_at_an_address_and_leaves_who_and_why() {
    let mut remote = Remote::new("server");
    remote.begin("nightly");
    assert_eq!(remote.json(&["ps", "--json"])["runs"][0]["waits_for"], "ask (steps >= 1)");
    let continues = |arguments: &[&str]| {
        let said = remote.succeeds(arguments);
        assert!(said.starts_with("nightly: ") && !said.contains("paused"), "{said}");
    };
    continues(&["approve", "nightly", "ask", "--why", "fine"]);
    assert_eq!(remote.succeeds(&["pause", "nightly", "--why", "lunch"]), "nightly: paused\n");
    let paused = remote.json(&["show", "nightly"])["pause"].clone();
    assert!(paused["by"].as_str().unwrap().contains("(endstop, process "), "{paused}");
    assert!(remote.succeeds(&["ps"]).contains("lunch"));
    continues(&["resume", "nightly", "--why", "back"]);
    continues(&["signal", "nightly", "other"]);
    let said = remote.succeeds(&["signal", "nightly", "review", "--why", "read it"]);
    assert_eq!(said, "nightly: stopped\n");

    for (act, run) in [("cancel", "second"), ("kill", "third")] {
        remote.begin(run);
        assert_eq!(remote.succeeds(&[act, run, "--why", "enough"]), format!("{run}: stopped\n"));
        let report = &remote.json(&["show", run])["report"];
        assert_eq!(report["reason"], "user_requested", "{report}");
        assert!(report.to_string().contains("enough ("), "{report}");
    }
    let trace = remote.trace("nightly");
    for why in ["fine", "lunch", "back", "read it"] {
        let line = trace.lines().find(|line| line.contains(&format!("\"why\":\"{why}\"")));
        assert!(line.unwrap().contains("(endstop, process "), "{why}\n{trace}");
    }
}

#[test]
fn commands_at_an_address_need_the_token_a_run_of_the_name_and_an_act_that_is_possible() {
    let remote = Remote::new("server-refuses");
    remote.begin("nightly");
    let acts: [&[&str]; 8] = [
        &["show", "nightly"],
        &["cancel", "nightly"],
        &["kill", "nightly"],
        &["pause", "nightly"],
        &["resume", "nightly"],
        &["approve", "nightly"],
        &["signal", "nightly", "review"],
        &["kill", "--key", "alice"],
    ];
    for act in acts {
        let (code, out, error) = remote.run_with("wrong", act);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{act:?}: {error}");
        let said = "the gateway does not take the token of environment variable `TEST_TOKEN`";
        assert!(error.contains(said), "{act:?}: {error}");
        assert!(error.contains("hint: the gateway's own token is in"), "{act:?}: {error}");
        assert!(!error.contains("wrong"), "no error shows a token: {error}");
    }
    for act in ["show", "cancel", "pause", "resume", "approve", "kill"] {
        let (code, _, error) = remote.run_with("secret", &[act, "yesterday"]);
        assert!(code == Some(2) && error.contains("no live run"), "{act}: {error}");
    }
    let (code, _, error) = remote.run_with("secret", &["signal", "yesterday", "review"]);
    assert!(code == Some(2) && error.contains("no live run"), "{error}");
    let (code, _, error) = remote.run_with("secret", &["signal", "nightly", ""]);
    assert!(code == Some(2) && error.contains("`name` is missing"), "{error}");
    let (code, _, error) = remote.run_with("secret", &["kill", "--key", "alice"]);
    assert!(code == Some(2) && error.contains("no live run of key `alice`"), "{error}");
    assert_eq!(remote.json(&["show", "nightly"])["status"], "paused", "nothing has changed");
}

#[test]
fn the_kills_there_where_a_gateway_is_are_listed_at_its_address() {
    let remote = Remote::new("server-kills");
    assert_eq!(remote.succeeds(&["kill", "--list"]), "no kill is recorded\n");
    let there = |arguments: &[&str]| {
        let output = command(&remote.path.join("there"), arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    there(&["kill", "--all", "--why", "bill"]);
    let listed = remote.json(&["kill", "--list", "--json"]);
    let kill = &listed["kills"][0];
    let is_as_made = (&kill["target"], &kill["why"], &kill["store"]);
    assert_eq!(is_as_made, (&"all".into(), &"bill".into(), &Value::Null), "{listed}");
    let same: Value = serde_json::from_str(&there(&["kill", "--list", "--json"])).unwrap();
    assert_eq!(same, listed);
    // Not of the machine of the command.
    let table = remote.succeeds(&["kill", "--list"]);
    let place = remote.control.trim_start_matches("http://").trim_end_matches('/');
    assert!(table.contains(place) && !table.contains("this machine"), "{table}");
    let (code, out, error) = remote.run_with("wrong", &["kill", "--list"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
    assert!(error.contains("does not take the token of"), "{error}");
}

#[test]
fn a_signal_stops_a_run_of_this_machine_whose_policy_names_it() {
    let remote = Remote::new("signal");
    remote.begin("nightly");
    let here =
        |arguments: &[&str]| command(&remote.path.join("there"), arguments).output().unwrap();
    let said = here(&["signal", "nightly", "review", "--why", "read it"]);
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "nightly: stopped\n");
    assert_eq!(here(&["signal", "nightly"]).status.code(), Some(2), "the name is missing");
}
