//! `endstop key`, and a gateway that runs while keys change.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const MODEL: &str = "gpt-4o-mini";

/// A user's directories for one test, and the gateways that they have started.
struct User {
    path: PathBuf,
    gateways: Vec<Child>,
}

impl User {
    fn new(test: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("endstop-key-{test}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        let config = "[budget.team-a]\nlimit = \"$5 per day\"\n";
        std::fs::write(path.join("config.toml"), config).unwrap();
        Self { path, gateways: Vec::new() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("XDG_RUNTIME_DIR", &self.path).env("TMPDIR", &self.path);
        command.env("XDG_STATE_HOME", self.path.join("state"));
        command.env("ENDSTOP_CONFIG", self.path.join("config.toml"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}\n{stdout}\n{stderr}");
        stdout
    }

    /// A new key.
    fn key(&self, arguments: &[&str]) -> String {
        let key = self.succeeds(&[&["key", "new"], arguments].concat()).trim_end().to_owned();
        assert!(key.starts_with("endstop_") && key.len() == 72, "{key}");
        key
    }

    /// The address of a gateway of the scripted model that takes keys.
    fn serve(&mut self) -> String {
        self.serve_with(&[])
    }

    fn serve_with(&mut self, more: &[&str]) -> String {
        let serve = self.command(&[&["serve", "--upstream", "sim"], more].concat());
        self.listens(serve)
    }

    /// The address of a gateway that takes keys.
    fn listens(&mut self, serve: Command) -> String {
        self.started(serve)["address"].as_str().unwrap().trim_start_matches("http://").to_owned()
    }

    /// The first line of a gateway that takes keys.
    fn started(&mut self, mut serve: Command) -> Value {
        serve.args(["--listen", "127.0.0.1:0", "--json", "--steps", "100", "--keys"]);
        let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.gateways.push(serve);
        serde_json::from_str(&line).unwrap()
    }

    fn keys_file(&self) -> PathBuf {
        self.path.join("state/endstop/keys.jsonl")
    }

    fn spent(&self, budget: &str) -> String {
        let read = self.succeeds(&["budget", budget, "--json"]);
        let read: Value = serde_json::from_str(&read).unwrap();
        read["budgets"][0]["limits"][0]["spent"].as_str().unwrap().to_owned()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        for gateway in &mut self.gateways {
            let _ = gateway.kill();
            let _ = gateway.wait();
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A model call: its status, and the body of the response.
fn call(gateway: &str, key: &str, run: &str, model: &str) -> (u16, String) {
    let messages = json!([{ "role": "user", "content": "Go." }]);
    let body = json!({ "model": model, "max_tokens": 20, "messages": messages }).to_string();
    let mut stream = TcpStream::connect(gateway).unwrap();
    write!(
        stream,
        "POST /r/{run}/v1/chat/completions HTTP/1.1\r\nhost: {gateway}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response)
}

/// An answer of the control API with the token `secret`: its status and its body.
fn control(address: &str, path: &str, body: &str) -> (u16, Value) {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer secret\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn keys_over_an_address_know_the_budgets_of_the_flags_and_errors_name_fields() {
    let mut user = User::new("address");
    user.key(&["alice"]);
    let mut serve = user.command(&["serve", "--upstream", "sim", "--budget", "2 steps"]);
    serve.args(["--control", "127.0.0.1:0", "--control-token-env", "TOKEN"]);
    serve.env("TOKEN", "secret");
    let listening = user.started(serve);
    let word = |key: &str| listening[key].as_str().unwrap().to_owned();
    let (address, at) = (word("address"), word("control_address"));
    let path = "/endstop/v1/keys";
    // The budget `me` is that of the flag.
    let (status, answer) = control(&at, path, r#"{"name": "bob", "budgets": ["me"]}"#);
    assert_eq!((status, &answer["issued"]["budgets"]), (200, &json!(["me"])), "{answer}");
    assert_eq!(answer["issued"]["changed"]["by"], "the control API");
    let bob = answer["key"].as_str().unwrap();
    let gateway = address.trim_start_matches("http://");
    assert_eq!(call(gateway, bob, "bob-1", MODEL).0, 200);
    let (status, answer) = control(&at, path, r#"{"name": "x", "budgets": ["team-b"]}"#);
    assert_eq!((status, &answer["error"]), (400, &json!("no budget `team-b`")), "{answer}");
    for (body, error) in [
        (r#"{"usd": "much"}"#, "`usd`: write an amount of dollars such as `2.00`"),
        (r#"{"expires": "0s"}"#, "`expires`: "),
        (r#"{"budgets": ["none", "team-a"]}"#, "`budgets`: `none` stands alone"),
        (r#"{"budgets": ["5 dollars"]}"#, "`budgets`: "),
        ("{}", "nothing to change"),
    ] {
        let (status, answer) = control(&at, "/endstop/v1/keys/bob/set", body);
        let said = answer["error"].as_str().unwrap();
        assert!(status == 400 && said.starts_with(error), "{body}: {status} {answer}");
        assert!(!answer.to_string().contains("--"), "{body}: {answer}");
    }
    let (status, answer) = control(&at, "/endstop/v1/keys/bob/revoke", r#"{"by": " "}"#);
    assert_eq!((status, &answer["status"]), (200, &json!("revoked")), "{answer}");
    assert_eq!(answer["changed"]["by"], "the control API", "a blank name is none");
    assert_eq!(call(gateway, bob, "bob-2", MODEL).0, 401);
    // A damaged file is no store that is away.
    std::fs::write(user.keys_file(), "{\"version\":1}\n").unwrap();
    let (status, answer) = control(&at, "/endstop/v1/keys/alice/revoke", "");
    assert_eq!(status, 500, "{answer}");
}

#[test]
fn options_for_a_gateway_at_an_address_need_it_and_those_for_this_machine_contradict_it() {
    let user = User::new("options");
    user.key(&["alice"]);
    let before = std::fs::read_to_string(user.keys_file()).unwrap();
    for arguments in [
        &["key", "revoke", "alice", "--token-env", "TOKEN"][..],
        &["key", "list", "--token-env", "TOKEN"],
        &["budget", "--token-env", "TOKEN"],
        &["spend", "--token-env", "TOKEN"],
        &["ps", "--token-env", "TOKEN"],
    ] {
        let (code, _, error) = user.run(arguments);
        assert!(code == Some(2) && error.contains("--server"), "{arguments:?}: {error}");
    }
    let server = ["--server", "http://127.0.0.1:1", "--token-env", "TOKEN"];
    for arguments in [
        &["key", "new", "bob", "--policy", "policy.toml"][..],
        &["key", "set", "alice", "--usd", "1", "--policy", "policy.toml"],
        &["key", "list", "--keys", "keys.txt"],
    ] {
        let (code, _, error) = user.run(&[arguments, &server].concat());
        let is_refused = code == Some(2) && error.contains("cannot be used with");
        assert!(is_refused, "{arguments:?}: {error}");
    }
    assert_eq!(std::fs::read_to_string(user.keys_file()).unwrap(), before);
}

#[test]
fn a_key_is_shown_once_and_may_begin_many_runs_until_it_is_revoked() {
    let mut user = User::new("revoke");
    let alice = user.key(&["alice"]);
    let stored = std::fs::read_to_string(user.keys_file()).unwrap();
    assert!(!stored.contains(&alice[8..]), "{stored}");
    let gateway = user.serve();
    for run in ["alice-1", "alice-2"] {
        assert_eq!(call(&gateway, &alice, run, MODEL).0, 200);
    }
    assert_eq!(call(&gateway, &alice, "bob-1", MODEL).0, 403, "not a run of the key");

    // A key that is issued while the gateway runs is taken at once.
    let bob = user.key(&["bob", "--runs", "one"]);
    assert_eq!(call(&gateway, &bob, "bob", MODEL).0, 200);
    assert_eq!(user.run(&["key", "new", "bob"]).0, Some(2), "the name is taken");

    // Killed until the gateway ends; the other key continues.
    let carol = user.key(&["carol"]);
    assert_eq!(call(&gateway, &carol, "carol-1", MODEL).0, 200);
    let said = user.succeeds(&["kill", "--key", "carol"]);
    assert!(said.starts_with("killed 1 run in 1 process;"), "{said}");
    for run in ["carol-1", "carol-2"] {
        let said = call(&gateway, &carol, run, MODEL).1;
        assert!(said.contains("x-endstop-reason: user_requested"), "{said}");
    }
    user.succeeds(&["key", "revoke", "carol"]);

    user.succeeds(&["key", "revoke", "alice", "--why", "left the team"]);
    let (status, said) = call(&gateway, &alice, "alice-1", MODEL);
    assert!(status == 401 && said.contains("the key `alice` is revoked"), "{said}");
    assert_eq!(call(&gateway, &bob, "bob", MODEL).0, 200);

    let new = user.succeeds(&["key", "rotate", "bob"]);
    let (status, said) = call(&gateway, &bob, "bob", MODEL);
    assert!(status == 401 && said.contains("has replaced it"), "{said}");
    assert_eq!(call(&gateway, new.trim_end(), "bob", MODEL).0, 200);

    let listed: Value = serde_json::from_str(&user.succeeds(&["key", "list", "--json"])).unwrap();
    let keys = listed["keys"].as_array().unwrap();
    let status: Vec<&str> = keys.iter().map(|key| key["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["revoked", "valid", "revoked"]);
    let why: Vec<&str> = keys.iter().map(|key| key["changed"]["why"].as_str().unwrap()).collect();
    assert_eq!(why, ["left the team", "", ""]);
    let by = |key: &Value| key["changed"]["by"].as_str().unwrap().contains("(endstop, process ");
    assert!(keys.iter().all(by), "{listed}");
    assert!(user.succeeds(&["key", "list"]).contains("alice-*"));
}

#[test]
fn a_file_that_a_new_key_would_make_too_large_to_read_stays_as_it_is() {
    let mut user = User::new("large");
    let alice = user.key(&["alice"]);
    let comment = format!("# {}\n", "x".repeat(3 << 20));
    let full = std::fs::read_to_string(user.keys_file()).unwrap() + &comment;
    std::fs::write(user.keys_file(), &full).unwrap();
    let (code, _, error) = user.run(&["key", "new", "bob"]);
    assert!(code == Some(2) && error.contains("all keys together would have"), "{error}");
    assert_eq!(std::fs::read_to_string(user.keys_file()).unwrap(), full);
    let why = "x".repeat(2_000);
    let (code, _, error) = user.run(&["key", "revoke", "alice", "--why", &why]);
    assert!(code == Some(2) && error.contains("the reason has 2000 bytes"), "{error}");
    // There is room to revoke those that exist.
    let gateway = user.serve();
    assert_eq!(call(&gateway, &alice, "alice-1", MODEL).0, 200);
    user.succeeds(&["key", "revoke", "alice"]);
    assert_eq!(call(&gateway, &alice, "alice-1", MODEL).0, 401);
}

#[test]
fn a_wrong_line_of_the_keys_is_named_with_what_to_do_and_keeps_a_gateway_from_its_start() {
    let user = User::new("wrong-line");
    user.key(&["alice"]);
    let good = std::fs::read_to_string(user.keys_file()).unwrap();
    std::fs::write(user.keys_file(), format!("{good}sk-secret a b\n")).unwrap();
    let serve = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--usd", "5", "--keys"];
    for arguments in [&["key", "list"][..], &["key", "new", "bob"], &serve] {
        let (code, stdout, stderr) = user.run(arguments);
        assert!(code != Some(0) && stdout.is_empty(), "{arguments:?}: {stdout}");
        let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("keys.jsonl`: line 2 is not `KEY RUN`"), "{arguments:?}: {said}");
        assert!(said.contains("hint: fix or remove that line; until then"), "{said}");
        assert!(!said.contains("sk-secret"), "{said}");
    }
    std::fs::write(user.keys_file(), good).unwrap();
    assert!(user.succeeds(&["key", "list"]).contains("alice"));
}

#[test]
fn the_calls_of_a_key_draw_on_its_budgets_and_end_at_its_own_limit() {
    let mut user = User::new("budget");
    let (code, _, error) = user.run(&["key", "new", "x", "--budget", "team-b"]);
    assert!(code == Some(2) && error.contains("no budget `team-b`"), "{error}");
    let (code, _, error) = user.run(&["key", "new", "x", "--expires", "0d"]);
    assert!(code == Some(2) && error.contains("would have expired already"), "{error}");
    let team = user.key(&["team", "--budget", "team-a"]);
    let poor = user.key(&["poor", "--usd", "0.00001"]);
    let gateway = user.serve();
    assert_eq!(user.spent("team-a"), "0");
    for run in ["team-1", "team-2"] {
        assert_eq!(call(&gateway, &team, run, MODEL).0, 200);
    }
    let spent: f64 = user.spent("team-a").parse().unwrap();
    assert!(spent > 0.0, "{spent}");

    // A hundred thousandth of a dollar is one call, whatever run it is in.
    let answers: Vec<String> =
        (0..6).map(|run| call(&gateway, &poor, &format!("poor-{run}"), MODEL).1).collect();
    let stopped = answers.iter().filter(|said| said.contains("x-endstop-reason: cost_limit"));
    assert!(stopped.count() >= 3, "{answers:?}");
    let after: f64 = user.spent("team-a").parse().unwrap();
    assert!((after - spent).abs() < f64::EPSILON, "the other key draws on its own");
}

#[test]
fn a_model_that_the_key_is_not_for_is_refused_and_so_is_an_expired_key() {
    let mut user = User::new("model");
    let key = user.key(&["ci", "--models", "gpt-4o-*,claude-haiku-*", "--expires", "90d"]);
    let gateway = user.serve();
    assert_eq!(call(&gateway, &key, "ci-1", MODEL).0, 200);
    let (status, said) = call(&gateway, &key, "ci-1", "gpt-5");
    assert!(status == 403 && said.contains("the key `ci` is not for the model `gpt-5`"), "{said}");

    let short = user.key(&["short", "--expires", "2s"]);
    let until = Instant::now() + PATIENCE;
    loop {
        let (status, said) = call(&gateway, &short, "short-1", MODEL);
        if status == 401 {
            assert!(said.contains("the key `short` has expired"), "{said}");
            break;
        }
        assert!(status == 200 && Instant::now() < until, "{said}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(call(&gateway, &key, "ci-1", MODEL).0, 200);

    // Without the file the gateway cannot know which keys are revoked.
    std::fs::rename(user.keys_file(), user.path.join("away")).unwrap();
    assert_eq!(call(&gateway, &key, "ci-1", MODEL).0, 503);
    std::fs::rename(user.path.join("away"), user.keys_file()).unwrap();
    assert_eq!(call(&gateway, &key, "ci-1", MODEL).0, 200);
}

#[test]
fn a_key_cannot_be_named_by_a_pattern_and_an_expired_one_is_not_rotated() {
    let user = User::new("names");
    for name in ["*", "a*", "../x"] {
        for runs in ["one", "many"] {
            let (code, _, error) = user.run(&["key", "new", name, "--runs", runs]);
            assert!(code == Some(2) && error.contains("cannot name a key"), "{error}");
        }
    }
    user.key(&["short", "--expires", "1ms"]);
    std::thread::sleep(std::time::Duration::from_millis(2));
    let (code, _, error) = user.run(&["key", "rotate", "short"]);
    assert!(code == Some(2) && error.contains("the key `short` has expired"), "{error}");
}

#[test]
fn a_changed_key_has_its_new_limits_budgets_models_and_expiry_at_the_next_call() {
    let mut user = User::new("set");
    let key = user.key(&["ci", "--models", "gpt-5*", "--expires", "90d"]);
    let gateway = user.serve();
    let reason = |run: &str| {
        let (status, said) = call(&gateway, &key, run, MODEL);
        let reason = said.split_once("x-endstop-reason: ").map(|(_, reason)| reason.to_owned());
        (status, reason.and_then(|reason| reason.lines().next().map(str::to_owned)))
    };
    let set = |options: &[&str]| user.succeeds(&[&["key", "set", "ci"], options].concat());
    let admitted = (200, None);
    let stopped = |status, reason: &str| (status, Some(reason.to_owned()));

    assert_eq!(reason("ci-1").0, 403);
    set(&["--models", "gpt-4o-*,o3"]);
    assert_eq!(reason("ci-1"), admitted);

    // In the same run: its limit, another limit, and none.
    let said = set(&["--budget", "0 steps"]);
    assert_eq!(said, "ci: valid, runs ci-*, budget 0 steps\n");
    assert_eq!(reason("ci-2"), stopped(200, "steps_limit"));
    set(&["--usd", "0"]);
    set(&["--budget", "team-a"]);
    assert_eq!(reason("ci-3"), stopped(200, "cost_limit"), "--budget leaves --usd as it is");
    set(&["--usd", "none"]);
    assert_eq!(user.spent("team-a"), "0");
    assert_eq!(reason("ci-4"), admitted);
    let spent = user.spent("team-a");
    assert_ne!(spent, "0");
    assert_eq!(reason("ci-1"), admitted, "an earlier run draws on it too");
    assert_ne!(user.spent("team-a"), spent);
    let spent = user.spent("team-a");
    set(&["--budget", "none"]);
    assert_eq!(reason("ci-4"), admitted);
    assert_eq!(user.spent("team-a"), spent);

    // Dollars without a window are one limit, by whichever option.
    set(&["--usd", "5", "--budget", "$1 per day"]);
    assert_eq!(set(&["--budget", "$2 per day"]), "ci: valid, runs ci-*, budget $2 per day, $5\n");
    assert_eq!(set(&["--budget", "$7"]), "ci: valid, runs ci-*, budget $7\n");
    assert_eq!(set(&["--budget", "none"]), "ci: valid, runs ci-*\n");

    set(&["--expires", "1ms"]);
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(reason("ci-4").0, 401);
    set(&["--expires", "never", "--models", "all"]);
    assert_eq!(reason("ci-4"), admitted);
    let listed: Value = serde_json::from_str(&user.succeeds(&["key", "list", "--json"])).unwrap();
    let listed = &listed["keys"][0];
    assert_eq!((&listed["expires"], &listed["models"]), (&Value::Null, &json!([])));
    assert_eq!((&listed["budgets"], &listed["limits"]), (&json!([]), &json!([])));

    for (options, problem) in [
        (&["ci"][..], "nothing to change"),
        (&["ci", "--budget", "team-b"], "no budget `team-b`"),
        (&["ci", "--budget", "none", "--budget", "team-a"], "`none` stands alone"),
        (&["ci", "--expires", "0d"], "would have expired already"),
        (&["di", "--usd", "1"], "no key `di`"),
    ] {
        let before = std::fs::read_to_string(user.keys_file()).unwrap();
        let (code, _, error) = user.run(&[&["key", "set"], options].concat());
        assert!(code == Some(2) && error.contains(problem), "{options:?}: {error}");
        assert_eq!(std::fs::read_to_string(user.keys_file()).unwrap(), before, "{options:?}");
    }
    user.succeeds(&["key", "revoke", "ci"]);
    let (code, _, error) = user.run(&["key", "set", "ci", "--usd", "1"]);
    assert!(code == Some(2) && error.contains("the key `ci` is revoked"), "{error}");
}

#[test]
fn a_key_may_name_a_budget_of_the_policy_file_of_its_gateway() {
    let mut user = User::new("policy");
    let policy = user.path.join("policy.toml");
    let text = "[stop]\nlong = \"steps >= 99\"\n[budget.lab]\nlimit = \"1 steps\"\n";
    std::fs::write(&policy, text).unwrap();
    let policy = policy.to_str().unwrap().to_owned();
    let (code, _, error) = user.run(&["key", "new", "lab", "--budget", "lab"]);
    assert!(code == Some(2) && error.contains("no budget `lab`"), "{error}");
    let key = user.key(&["lab", "--budget", "lab", "--policy", &policy]);
    let gateway = user.serve_with(&["--policy", &policy]);
    assert!(!call(&gateway, &key, "lab-1", MODEL).1.contains("x-endstop-reason"));
    // A change of something else needs no policy file.
    user.succeeds(&["key", "set", "lab", "--models", "gpt-*"]);
    let said = call(&gateway, &key, "lab-2", MODEL).1;
    assert!(said.contains("x-endstop-reason: steps_limit"), "{said}");
}

#[test]
fn calls_with_a_key_draw_on_the_budget_of_the_gateway_too() {
    let mut user = User::new("both");
    let key = user.key(&["ci", "--budget", "$3 per day"]);
    let gateway = user.serve_with(&["--budget", "team-a"]);
    assert_eq!(call(&gateway, &key, "ci-1", MODEL).0, 200);
    assert_ne!(user.spent("team-a"), "0");
}

#[test]
fn calls_with_a_key_count_once_if_the_gateway_before_them_counts_them() {
    let mut user = User::new("nested");
    let key = user.key(&["ci", "--budget", "team-a"]);
    let outer = user.serve();
    let mut inner = user.command(&["serve"]);
    // The variables that `endstop run` sets for its command.
    inner.env("OPENAI_BASE_URL", format!("http://{outer}/r/outer/v1"));
    inner.env("ENDSTOP_BUDGETS", "team-a");
    let inner = user.listens(inner);
    let (status, said) = call(&inner, &key, "ci-1", MODEL);
    assert!(status == 200 && !said.contains("x-endstop-reason"), "{said}");
    assert_eq!(user.spent("team-a"), "0");
}

#[test]
fn a_key_without_its_budget_is_refused_until_the_budget_can_be_counted() {
    let mut user = User::new("uncounted");
    let key = user.key(&["ci", "--usd", "1"]);
    let other = user.key(&["other"]);
    // No store can be opened here.
    let store = user.path.join("state/endstop/budgets.sqlite");
    let _ = std::fs::remove_file(&store);
    std::fs::create_dir(&store).unwrap();
    let gateway = user.serve();
    let (status, said) = call(&gateway, &key, "ci-1", MODEL);
    assert!(
        status == 503 && said.contains("the budgets of the key `ci` cannot be counted"),
        "{said}"
    );
    assert_eq!(call(&gateway, &other, "other-1", MODEL).0, 200);
    std::fs::remove_dir(&store).unwrap();
    let until = Instant::now() + PATIENCE;
    while call(&gateway, &key, "ci-1", MODEL).0 != 200 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_budget_of_a_key_changes_with_the_configuration_file() {
    let mut user = User::new("live");
    let team = user.key(&["team", "--budget", "team-a"]);
    let other = user.key(&["other", "--usd", "1"]);
    let gateway = user.serve();
    let config = user.path.join("config.toml");
    let reason = |key: &str, run: &str| {
        let (_, said) = call(&gateway, key, run, MODEL);
        let reason = said.split_once("x-endstop-reason: ").map(|(_, reason)| reason.to_owned());
        reason.and_then(|reason| reason.lines().next().map(str::to_owned))
    };
    assert_eq!(reason(&team, "team-1"), None);
    std::fs::write(&config, "[budget.team-a]\nlimit = \"0 steps\"\n").unwrap();
    assert_eq!(reason(&team, "team-2").as_deref(), Some("steps_limit"));
    assert_eq!(reason(&other, "other-1"), None);
    // A key keeps a budget that is removed.
    std::fs::write(&config, "# none\n").unwrap();
    assert_eq!(reason(&team, "team-3").as_deref(), Some("steps_limit"));
    // A new budget, and a new key for it.
    std::fs::write(&config, "[budget.team-b]\nlimit = \"1 steps\"\n").unwrap();
    let new = user.key(&["new", "--budget", "team-b"]);
    assert_eq!(reason(&new, "new-1"), None);
    assert_eq!(reason(&new, "new-2").as_deref(), Some("steps_limit"));
}
