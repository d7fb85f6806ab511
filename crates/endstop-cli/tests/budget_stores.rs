//! The stores of budgets through the commands: files that cannot be used, and a server that `run` and `agent` share.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "../../../tests/support/redis.rs"]
mod redis;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use redis::RedisServer;
use serde_json::Value;

/// The place of the version in a file of SQLite: four bytes, the largest first.
const VERSION: std::ops::Range<usize> = 60..64;

/// A user's directory.
struct Home(PathBuf);

impl Home {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budget-stores").join(test);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let endstop = snapbox::cmd::cargo_bin!("endstop");
        let mut command = Command::new(endstop);
        command.env("HOME", &self.0).env("AGENT", endstop).env("ENDSTOP_CONFIG", "");
        command.env("XDG_STATE_HOME", self.0.join("state"));
        command.stdin(Stdio::null()).args(arguments);
        command
    }

    fn store(&self) -> PathBuf {
        self.0.join("state/endstop/budgets.sqlite")
    }

    /// Every command that counts has to end with an error that has these texts, and begin nothing.
    fn all_refuse(&self, texts: &[&str]) {
        self.all_refuse_with(&[], texts);
    }

    /// The same with variables.
    fn all_refuse_with(&self, variables: &[(&str, &str)], texts: &[&str]) {
        let limit = ["--budget", "$5 per day"];
        let begun = self.0.join("begun");
        let begun = begun.to_str().unwrap();
        let run = [&["run", "--upstream", "sim"], &limit[..], &["--", "touch", begun]].concat();
        let serve = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--steps", "9"];
        let agent = ["agent", "--model", "scripted:loop", "--steps", "2"];
        for (arguments, code) in [
            ([&["budget"], &limit[..]].concat(), 2),
            (run, 125),
            ([&serve[..], &limit].concat(), 2),
            ([&agent[..], &limit, &["go"]].concat(), 2),
        ] {
            self.refuses(&arguments, variables, code, texts);
        }
        assert!(!Path::new(begun).exists());
    }

    fn refuses(&self, arguments: &[&str], variables: &[(&str, &str)], code: i32, texts: &[&str]) {
        let mut command = self.command(arguments);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        // Lines are wrapped.
        let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        for text in texts {
            assert!(said.contains(text), "{arguments:?}: {said}");
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let home = Home::new("newer");
    let adjust = ["budget", "adjust", "me", "+1", "--why", "a test", "--budget", "$5 per day"];
    assert!(home.command(&adjust).output().unwrap().status.success());
    let mut bytes = fs::read(home.store()).unwrap();
    assert_eq!(&bytes[..15], b"SQLite format 3");
    let version = u32::from_be_bytes(bytes[VERSION].try_into().unwrap());
    assert!((1..99).contains(&version), "the last process has closed it: {version}");
    bytes[VERSION].copy_from_slice(&99u32.to_be_bytes());
    fs::write(home.store(), &bytes).unwrap();
    home.all_refuse(&["budgets.sqlite` has format 99", "use a later version"]);
    assert!(fs::read(home.store()).unwrap() == bytes, "the file was changed");
}

#[test]
fn keys_of_a_newer_version_are_refused_and_stay_as_they_are() {
    let home = Home::new("newer-keys");
    assert!(home.command(&["key", "new", "alice"]).output().unwrap().status.success());
    let file = home.0.join("state/endstop/keys.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let newer = text.replace("\"version\":1", "\"version\":99");
    assert_ne!(newer, text);
    fs::write(&file, &newer).unwrap();
    let serve = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--steps", "9", "--keys"];
    for arguments in [
        &["key", "list"][..],
        &["key", "new", "bob"],
        &["key", "set", "alice", "--models", "gpt-*"],
        &["key", "revoke", "alice"],
        &["key", "rotate", "alice"],
        &serve,
    ] {
        let texts =
            ["keys.jsonl`: line 1 ", "a later version wrote it", "hint: install the latest"];
        home.refuses(arguments, &[], 2, &texts);
        assert_eq!(fs::read_to_string(&file).unwrap(), newer, "{arguments:?} changed the file");
    }
}

#[test]
fn a_stored_run_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let home = Home::new("newer-run");
    let runs = home.0.join("runs");
    let store = ["--store", runs.to_str().unwrap()];
    let agent = ["agent", "--model", "scripted:loop", "--steps", "2", "go"];
    let output = home.command(&agent).args(store).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "its own limit: {output:?}");
    let mut directories = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path());
    let run = directories.find(|path| path.extension().is_some_and(|it| it == "run")).unwrap();
    let state = run.join("state");
    let text = fs::read_to_string(&state).unwrap();
    let newer = text.replacen("{\"endstop_state\":1,", "{\"endstop_state\":99,", 1);
    assert_ne!(newer, text);
    fs::write(&state, &newer).unwrap();
    let resume = ["agent", "--resume", "last", "--steps", "5", "go on"];
    let texts = ["state` has format 99, and this program knows up to", "hint: install the latest"];
    home.refuses(&[&resume[..], &store].concat(), &[], 1, &texts);
    // One that cannot be read is not removed either.
    let prune = [&["prune", "--older-than", "0s"][..], &store].concat();
    home.refuses(&prune, &[], 0, &["removed 0 runs"]);
    assert_eq!(fs::read_to_string(&state).unwrap(), newer, "the file was changed");
}

#[test]
fn a_namespace_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let Some(server) = RedisServer::start() else { return };
    let (home, url) = (Home::new("newer-redis"), server.url());
    server.send(&["HSET {endstop:default}:meta format 2"]);
    let texts = ["has format 2, and this program knows up to 1"];
    home.all_refuse_with(&[("ENDSTOP_BUDGET_STORE", &url)], &texts);
    for arguments in [&["kill", "--all"][..], &["kill", "--list"], &["key", "list"]] {
        let arguments = [arguments, &["--budget-store", &url]].concat();
        home.refuses(&arguments, &[], 2, &texts);
    }
    let answers = server.send(&["DBSIZE", "HGETALL {endstop:default}:meta"]);
    assert!(answers.contains(":1\r\n*2\r\n$6\r\nformat\r\n$1\r\n2\r\n"), "{answers:?}");
}

#[test]
fn a_store_that_cannot_be_written_ends_every_command_that_counts() {
    // In the place of the file there is a directory: root can write everything else.
    let home = Home::new("unwritable");
    fs::create_dir_all(home.store()).unwrap();
    home.all_refuse(&["cannot open the store of budgets", "budgets.sqlite"]);
}

#[test]
fn config_lists_budgets_and_the_webhook_without_secrets() {
    let home = Home::new("config");
    let file = home.0.join("config.toml");
    let config = "usd = 3\n[budget.opus]\nmodels = [\"claude-opus-*\"]\nlimit = \"$50 per week\"\nwarn = \"80%\"\n\
        [webhook]\nurl = \"https://user:canary-1@hooks.example/canary-2?key=canary-3\"\nsecret_file = \"secret\"\n";
    fs::write(&file, config).unwrap();
    fs::write(home.0.join("secret"), "canary-4").unwrap();
    let config = |more: &[&str]| {
        let mut config = home.command(&[&["config"], more].concat());
        let output = config.env("ENDSTOP_CONFIG", &file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = text(&output);
        assert!(!said.contains("canary"), "{said}");
        said
    };
    let said = config(&[]);
    let budget = "budget: opus ($50.00 per week; models claude-opus-*; warns at 80%)";
    assert!(said.lines().any(|line| line == budget), "{said}");
    let webhook = "webhook: https://hooks.example (secret in ";
    assert!(said.contains(webhook) && said.contains("--usd"), "{said}");
    let read: Value = serde_json::from_str(&config(&["--json"])).unwrap();
    let opus = &read["budgets"][0];
    assert_eq!((&opus["name"], &opus["limits"][0]), (&"opus".into(), &"$50.00 per week".into()));
    assert_eq!(read["webhook"]["host"], "https://hooks.example");
    assert!(read["webhook"]["secret_file"].as_str().unwrap().ends_with("/secret"), "{read}");

    fs::write(&file, "# nothing\n").unwrap();
    let read: Value = serde_json::from_str(&config(&["--json"])).unwrap();
    assert_eq!((&read["budgets"], &read["webhook"]), (&serde_json::json!([]), &Value::Null));
    assert!(config(&[]).contains("no defaults are set"));
}

#[test]
fn run_and_agent_share_a_budget_by_one_server() {
    let Some(server) = RedisServer::start() else { return };
    let url = server.url();
    // Two machines: neither has the other's files.
    let [one, other] = ["one", "other"].map(Home::new);
    let spent = |home: &Home| {
        let budget = ["budget", "--json", "--budget", "50 steps", "--budget-store", &url];
        let output = home.command(&budget).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let read: Value = serde_json::from_slice(&output.stdout).unwrap();
        read["budgets"][0]["limits"][0]["spent"].as_u64().unwrap()
    };
    let run = |home: &Home, limit: &str| {
        let mut run = home.command(&["run", "-q", "--upstream", "sim", "--budget", limit]);
        run.args(["--budget-store", &url, "--", "/bin/sh", "-c"]);
        run.arg("\"$AGENT\" demo-agent --iterations 1 --searches 1").output().unwrap()
    };
    let agent = |home: &Home, limit: &str| {
        let mut agent = home.command(&["agent", "--model", "scripted:loop", "--steps", "2"]);
        agent.args(["--json", "--budget", limit, "--budget-store", &url, "go"]).output().unwrap()
    };
    let output = run(&one, "50 steps");
    assert!(output.status.success(), "{output:?}");
    let of_run = spent(&other);
    assert!(of_run > 0 && spent(&one) == of_run);

    let output = agent(&other, "50 steps");
    assert_eq!(output.status.code(), Some(124), "its own limit: {output:?}");
    assert_eq!(spent(&one), of_run + 2);

    // The limit is the spend of both together: neither begins a call.
    let full = format!("{} steps", of_run + 2);
    let refused = format!("budget me has used {} of {full}", of_run + 2);
    let output = run(&other, &full);
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.code() == Some(124), "{said}");
    let output = agent(&one, &full);
    assert!(output.status.code() == Some(124) && text(&output).contains(&refused), "{output:?}");
    assert_eq!(spent(&one), of_run + 2);
    for home in [one, other] {
        assert!(!home.store().exists(), "nothing is counted in a file");
    }
}
