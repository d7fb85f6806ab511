//! A gateway with budgets of the configuration file, which change or are killed while it runs.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const MODEL: &str = "gpt-4o-mini";

/// A user's directories, with a gateway of the scripted model that refuses by errors. The path is short, because it holds
/// sockets.
struct Team {
    path: PathBuf,
    gateway: Option<Child>,
    address: String,
}

impl Team {
    fn new(test: &str, config: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("endstop-{test}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        let mut team = Self { path, gateway: None, address: String::new() };
        team.write(config);
        let mut serve = team.command(&["serve", "--upstream", "sim", "--listen", "127.0.0.1:0"]);
        serve.args(["--json", "--stop-with", "error"]);
        let errors = std::fs::File::create(team.path.join("stderr")).unwrap();
        let mut gateway = serve.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap();
        team.gateway = Some(gateway);
        let listening: Value = serde_json::from_str(&line).unwrap();
        let address = listening["address"].as_str().unwrap();
        team.address = address.trim_start_matches("http://").to_owned();
        team
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("XDG_RUNTIME_DIR", &self.path).env("TMPDIR", &self.path);
        command.env("XDG_STATE_HOME", self.path.join("state"));
        command.env("ENDSTOP_CONFIG", self.path.join("config.toml"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Writes the configuration file.
    fn write(&self, config: &str) {
        std::fs::write(self.path.join("config.toml"), config).unwrap();
    }

    /// The standard error of the gateway so far, in one line.
    fn stderr(&self) -> String {
        let text = std::fs::read_to_string(self.path.join("stderr")).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn spent(&self, budget: &str) -> Value {
        self.json(&["budget", budget, "--json"])["budgets"][0]["limits"][0]["spent"].clone()
    }

    /// A model call of a run: its status, and the whole response.
    fn call(&self, run: &str, model: &str) -> (u16, String) {
        call(&self.address, run, model)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            let _ = gateway.kill();
            let _ = gateway.wait();
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn call(gateway: &str, run: &str, model: &str) -> (u16, String) {
    let messages = json!([{ "role": "user", "content": "Go." }]);
    let body = json!({ "model": model, "max_tokens": 20, "messages": messages }).to_string();
    let mut stream = TcpStream::connect(gateway).unwrap();
    write!(
        stream,
        "POST /r/{run}/v1/chat/completions HTTP/1.1\r\nhost: {gateway}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response)
}

#[test]
fn a_limit_that_changes_holds_at_the_next_call_and_a_raised_one_ends_a_wait() {
    let team = Team::new("changes", "[budget.me]\nlimit = \"9 steps per month\"\n");
    assert_eq!(team.call("a", MODEL).0, 200);
    team.write("[budget.me]\nlimit = \"1 steps per month\"\n");
    let (status, said) = team.call("b", MODEL);
    assert!(status == 402 && said.contains("budget me has used 1 of 1 step"), "{said}");

    team.write("[budget.me]\nlimit = \"1 steps per month\"\non_full = \"pause\"\n");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| team.call("c", MODEL));
        let until = Instant::now() + PATIENCE;
        while !team.json(&["ps", "--json"]).to_string().contains("budget me until ") {
            assert!(Instant::now() < until, "{}", team.stderr());
            std::thread::sleep(Duration::from_millis(50));
        }
        team.write("[budget.me]\nlimit = \"11 steps per month\"\non_full = \"pause\"\n");
        let (status, said) = waiting.join().unwrap();
        assert_eq!(status, 200, "{said}");
    });
    assert_eq!(team.spent("me"), 2);
    let said = team.stderr();
    assert!(said.contains("endstop: budgets changed: me (11 steps per month)"), "{said}");
}

#[test]
fn a_broken_file_keeps_the_budgets_of_before_and_says_so_once() {
    let team = Team::new("broken", "[budget.me]\nlimit = \"2 steps\"\n");
    assert_eq!(team.call("a", MODEL).0, 200);
    team.write("[budget.me]\nlimit = \"5 a day\"\n");
    assert_eq!(team.call("a", MODEL).0, 200);
    let (status, said) = team.call("b", MODEL);
    assert!(status == 402 && said.contains("budget me has used 2 of 2 steps"), "{said}");
    let said = team.stderr();
    assert_eq!(said.matches("warning: the budgets stay as they were").count(), 1, "{said}");
    assert!(
        said.contains("`5 a day` is not an amount") && said.contains("config.toml:2:9"),
        "{said}"
    );
    std::fs::remove_file(team.path.join("config.toml")).unwrap();
    assert_eq!(team.call("c", MODEL).0, 402);
    team.write("[budget.me]\nlimit = \"33 steps\"\n");
    assert_eq!(team.call("d", MODEL).0, 200);
    let said = team.stderr();
    assert_eq!(said.matches("warning: the budgets stay as they were").count(), 2, "{said}");
    assert!(said.contains("config.toml` apply again"), "{said}");
}

#[test]
fn a_budget_that_is_removed_is_not_unlimited() {
    let team = Team::new("removed", "[budget.me]\nlimit = \"2 steps\"\n");
    assert_eq!(team.call("a", MODEL).0, 200);
    team.write("# no budgets\n");
    assert_eq!(team.call("a", MODEL).0, 200);
    let (status, said) = team.call("b", MODEL);
    assert!(status == 402 && said.contains("budget me has used 2 of 2 steps"), "{said}");
    let said = team.stderr();
    assert!(said.contains("warning: budget me is no longer defined"), "{said}");
}

#[test]
fn the_first_budget_can_be_defined_while_a_gateway_runs() {
    let team = Team::new("first", "# no budgets\n");
    // Under the default limits a call without a price counts nothing.
    assert_eq!(team.call("a", "no-such-model").0, 200);
    assert!(!team.path.join("state/endstop/budgets.sqlite").exists());
    team.write("[budget.me]\nlimit = \"$5 per month\"\n");
    let (status, said) = team.call("u", "no-such-model");
    assert!(status == 402 && said.contains("`no-such-model` has no price"), "{said}");
    assert_eq!(team.call("b", MODEL).0, 200);
    assert_ne!(team.spent("me"), "0");
    team.write("[budget.me]\nlimit = \"$5 per month\"\n[budget.mini]\nlimit = \"0 steps\"\nmodels = [\"*-mini\"]\n");
    let (status, said) = team.call("c", MODEL);
    assert!(status == 402 && said.contains("budget mini has used 0 of 0 steps"), "{said}");
    assert_eq!(team.call("d", "gpt-4o").0, 200);
}

#[test]
fn a_kill_of_a_budget_by_model_stops_the_runs_that_ask_for_the_model_and_no_others() {
    let mini = "[budget.mini]\nlimit = \"99 steps\"\nmodels = [\"*-mini\"]\n";
    let team = Team::new("kill-model", mini);
    assert_eq!((team.call("mini", MODEL).0, team.call("other", "gpt-4o").0), (200, 200));
    let output = team.command(&["kill", "--budget", "mini", "--why", "bill"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "killed 1 run in 1 process; no call of them is admitted there\n");
    assert_ne!(team.call("mini", "gpt-4o").0, 200, "the run is stopped");
    // A run that has not asked for the model, and one that begins now.
    for run in ["other", "new"] {
        assert_eq!(team.call(run, "gpt-4o").0, 200);
        let (status, said) = team.call(run, MODEL);
        assert!(status != 200 && said.contains("bill (killed by "), "{said}");
        assert_ne!(team.call(run, "gpt-4o").0, 200);
    }
    assert_eq!(team.spent("mini"), 1);
    // A run that asks for other models alone continues.
    assert_eq!(team.call("free", "gpt-4o").0, 200);
}
