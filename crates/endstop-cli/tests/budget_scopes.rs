//! Budgets by model and by provider, in the configuration file and in a policy file, through a gateway.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

const CONFIG: &str = r#"
[budget.small]
models = ["gpt-4o-mini"]
limit = "2 steps"

[budget.anthropic]
providers = ["anthropic"]
limit = "3 steps per day"
warn = "80%"
timezone = "Europe/Berlin"

# Both have to match.
[budget.claude-at-openai]
models = ["claude-*"]
providers = ["openai"]
limit = "0 steps"

[budget.org]
limit = "90 steps"
on_full = "pause"
"#;

const POLICY: &str = r#"
[stop]
long = "steps >= 99"

[budget.gpt]
models = ["gpt-*"]
limit = "4 steps"
parent = "org"
"#;

/// An API and a model, how many calls are made, and the budget that refuses the last one.
type Calls = (&'static str, &'static str, usize, Option<&'static str>);

/// In this order, by a separate run each.
const CALLS: [Calls; 4] = [
    ("chat", "gpt-4o-mini", 3, Some("small")),
    ("messages", "claude-haiku-4-5", 4, Some("anthropic")),
    ("chat", "gpt-4o", 3, Some("gpt")),
    ("chat", "o3", 1, None),
];

/// The steps that each budget has counted after them.
const SPENT: [(&str, u64); 5] =
    [("anthropic", 3), ("claude-at-openai", 0), ("gpt", 4), ("org", 4), ("small", 2)];

/// A user's directory, with budgets.
struct Home(PathBuf);

impl Home {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budget-scopes").join(test);
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(path.join("config/endstop")).unwrap();
        std::fs::write(path.join("config/endstop/config.toml"), CONFIG).unwrap();
        std::fs::write(path.join("policy.toml"), POLICY).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("HOME", &self.0).current_dir(&self.0);
        command.env("XDG_STATE_HOME", self.0.join("state"));
        command.env("XDG_CONFIG_HOME", self.0.join("config"));
        command.stdin(Stdio::null()).args(arguments);
        command
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A gateway that ends with the test.
struct Gateway {
    child: Child,
    _out: BufReader<ChildStdout>,
    host: String,
}

impl Gateway {
    fn start(home: &Home) -> Self {
        let options = ["--upstream", "sim", "--listen", "127.0.0.1:0"];
        let mut serve = home.command(&["serve", "--json", "--policy", "policy.toml"]);
        let mut child = serve.args(options).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let listening: Value = serde_json::from_str(&line).unwrap();
        let url = listening.get("address").and_then(Value::as_str).unwrap();
        let host = url.strip_prefix("http://").unwrap().to_owned();
        Self { child, _out: out, host }
    }

    /// The answer to a call of a run.
    fn call(&self, api: &str, model: &str, run: &str) -> String {
        let (path, header) = match api {
            "messages" => ("messages", "anthropic-version: 2023-06-01\r\n"),
            _ => ("chat/completions", ""),
        };
        let body = format!(
            r#"{{"model":"{model}","max_tokens":99,"messages":[{{"role":"user","content":"Hi."}}]}}"#
        );
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(
            stream,
            "POST /r/{run}/v1/{path} HTTP/1.1\r\nhost: {}\r\n{header}content-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.host,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn calls_draw_on_the_budgets_of_their_model_and_of_their_provider() {
    let home = Home::new("serve");
    let gateway = Gateway::start(&home);
    for (api, model, count, refusing) in CALLS {
        for number in 1..=count {
            let answer = gateway.call(api, model, &format!("{model}-{number}"));
            let names = SPENT.iter().map(|(name, _)| *name);
            let told = names.into_iter().find(|it| answer.contains(&format!("budget {it} has")));
            let refused = refusing.filter(|_| number == count);
            assert_eq!(told, refused, "{model} {number}: {answer}");
        }
    }
    let read = home.said(&["budget", "--policy", "policy.toml", "--json"]);
    let read: Value = serde_json::from_str(&read).unwrap();
    let budgets = read["budgets"].as_array().unwrap().iter();
    let spent: BTreeMap<&str, u64> = budgets
        .map(|it| (it["name"].as_str().unwrap(), it["limits"][0]["spent"].as_u64().unwrap()))
        .collect();
    assert_eq!(spent, BTreeMap::from(SPENT));
}

#[test]
fn check_prints_whose_calls_a_budget_counts() {
    let home = Home::new("check");
    let said = home.said(&["check", "policy.toml"]);
    for line in [
        "  anthropic (3 steps per day; providers anthropic; days of Europe/Berlin; warns at 80%)",
        "  claude-at-openai (0 steps; models claude-*; providers openai)",
        "  gpt (4 steps; models gpt-*; parent org)",
        "  org (90 steps; pauses when full)",
        "  small (2 steps; models gpt-4o-mini)",
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
    let read: Value =
        serde_json::from_str(&home.said(&["check", "policy.toml", "--json"])).unwrap();
    let first = &read["budgets"][0];
    assert_eq!(first["providers"], serde_json::json!(["anthropic"]));
    let words = ["timezone", "on_full"].map(|key| first[key].as_str().unwrap());
    assert_eq!((words, first["warn_percent"].as_u64()), (["Europe/Berlin", "refuse"], Some(80)));
    let gpt = read["budgets"].as_array().unwrap().iter().find(|it| it["name"] == "gpt").unwrap();
    assert_eq!(gpt["models"], serde_json::json!(["gpt-*"]));
    assert_eq!((&gpt["timezone"], &gpt["on_full"]), (&"UTC".into(), &"refuse".into()));
}
