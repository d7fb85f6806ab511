//! `endstop ps`, `kill`, `pause`, `approve` and similar commands, on running processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A user's runtime directory for one test. Its path is short, because it holds sockets.
struct User(PathBuf);

impl User {
    fn new(test: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("endstop-{test}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("XDG_RUNTIME_DIR", &self.0).env("TMPDIR", &self.0).env("ENDSTOP_CONFIG", "");
        // `kill --all` reaches every process with the same state directory.
        command.env("XDG_STATE_HOME", self.0.join("state"));
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

    /// The live runs.
    fn runs(&self) -> Vec<Value> {
        let all: Value = serde_json::from_str(&self.succeeds(&["ps", "--json"])).unwrap();
        all.get("runs").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Waits until the only live run is as wanted.
    fn run_that(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let runs = self.runs();
            if let [run] = runs.as_slice()
                && is_so(run)
            {
                return run.clone();
            }
            assert!(Instant::now() < until, "no run {what}: {runs:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A call of a run through a gateway.
    fn call(&self, listening: &Value, run: &str) {
        let base = listening["address"].as_str().unwrap();
        let mut command = self.command(&["demo-agent", "--iterations", "1", "--searches", "1"]);
        command.env("ANTHROPIC_BASE_URL", format!("{base}/r/{run}")).output().unwrap();
    }

    /// Starts the demo's agent in a loop without an end.
    fn agent(&self, options: &[&str]) -> Child {
        let mut command = self.command(&["run", "--upstream", "sim", "--steps", "100000"]);
        let endstop = snapbox::cmd::cargo_bin!("endstop");
        command.args(options).arg("--").arg(endstop);
        command.args(["demo-agent", "--iterations", "100000", "--pause", "10ms"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_run_is_listed_paused_resumed_and_killed_with_who_and_why() {
    let user = User::new("act");
    assert_eq!(user.succeeds(&["ps"]), "no run is live\n");
    let trace = user.0.join("trace.jsonl");
    let mut child = user.agent(&["--usd", "1000", "--trace", trace.to_str().unwrap()]);
    let run = user.run_that("with steps", |run| run["steps"].as_u64() > Some(2));
    assert_eq!((run["pid"].as_u64(), run["kind"].as_str()), (Some(child.id().into()), Some("run")));
    assert!(run["command"].as_str().unwrap().contains("demo-agent --iterations"));
    let id = run["run"].as_str().unwrap();
    let prefix = &id[..id.len() - 2];

    user.succeeds(&["pause", prefix, "--why", "lunch"]);
    let held = user.run_that("paused", |run| !run["waits_for"].is_null());
    assert!(held["waits_for"].as_str().unwrap().ends_with("): lunch"), "{held}");
    assert!(user.succeeds(&["ps"]).contains("lunch"));
    let (code, _, error) = user.run(&["pause", id]);
    assert_eq!(code, Some(2), "{error}");
    user.succeeds(&["resume", id]);
    let steps = held["steps"].as_u64();
    user.run_that("that continues", |run| run["steps"].as_u64() > steps.map(|it| it + 2));

    user.succeeds(&["kill", id, "--why", "enough"]);
    assert_eq!(child.wait().unwrap().code(), Some(124));
    let trace = std::fs::read_to_string(trace).unwrap();
    for said in ["\"why\":\"lunch\"", "(endstop, process ", "enough (killed by "] {
        assert!(trace.contains(said), "{said}\n{trace}");
    }
    assert!(user.runs().is_empty());
}

#[test]
fn a_rule_that_pauses_shows_in_ps_and_goes_on_where_it_was_once_approved() {
    let user = User::new("approve");
    let policy = user.0.join("policy.toml");
    std::fs::write(&policy, "[stop]\nend = 'steps >= 9'\n[pause]\nask = 'steps >= 4'\n").unwrap();
    let mut command = user.command(&["run", "--upstream", "sim", "--policy"]);
    command.arg(&policy).arg("--").arg(snapbox::cmd::cargo_bin!("endstop"));
    command.args(["demo-agent", "--iterations", "100000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = user.run_that("paused", |run| !run["waits_for"].is_null());
    assert_eq!(run["waits_for"], "ask (steps >= 4)");
    assert_eq!(run["steps"], 4);
    let id = run["run"].as_str().unwrap();
    assert_eq!(user.run(&["approve", id, "asc"]).0, Some(2));
    user.succeeds(&["approve", id, "ask"]);
    assert_eq!(child.wait().unwrap().code(), Some(124), "the stop rule is reached");
}

#[test]
fn a_command_that_has_its_answer_is_listed_as_running_until_it_exits() {
    let user = User::new("answered");
    let mut command =
        user.command(&["run", "--upstream", "sim:answer", "--steps", "9", "--", "sh"]);
    command.args(["-c", "\"$0\" demo-agent; exec sleep 600"]);
    command.arg(snapbox::cmd::cargo_bin!("endstop"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = user.run_that("with a step", |run| run["steps"].as_u64() > Some(0));
    let id = run["run"].as_str().unwrap();
    let until = Instant::now() + PATIENCE;
    while !user.succeeds(&["show", id]).contains("\"status\": \"completed\"") {
        assert!(Instant::now() < until, "the answer is not taken for the end of the conversation");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(user.runs()[0]["status"], "in_progress");
    let table = user.succeeds(&["ps"]);
    assert!(table.contains("in_progress") && !table.contains("completed"), "{table}");
    user.succeeds(&["kill", id]);
    child.wait().unwrap();
}

#[test]
fn wrong_names_get_hints_and_processes_that_died_are_cleaned_up() {
    let user = User::new("dead");
    let mut children: Vec<Child> = (0..3).map(|_| user.agent(&["--usd", "1000"])).collect();
    let until = Instant::now() + PATIENCE;
    while user.runs().len() < 3 {
        assert!(Instant::now() < until, "{:?}", user.runs());
        std::thread::sleep(Duration::from_millis(20));
    }
    let runs = user.runs();
    let id = runs[0]["run"].as_str().unwrap();
    let of_all = |length: usize| {
        runs.iter().all(|run| run["run"].as_str().unwrap()[..length] == id[..length])
    };
    let shared = (1..id.len()).rev().find(|length| of_all(*length)).unwrap();
    let (code, _, error) = user.run(&["cancel", &id[..shared]]);
    assert!(code == Some(2) && error.contains("matches 3 runs"), "{error}");
    // A variable that a script left empty is the beginning of every name.
    for short in ["", &id[..3]] {
        let (code, _, error) = user.run(&["kill", short]);
        assert!(code == Some(2) && error.contains("no live run"), "{error}");
    }
    let mistyped = format!("{}x", &id[..id.len() - 1]);
    let (code, _, error) = user.run(&["cancel", &mistyped]);
    assert!(code == Some(2) && error.contains("did you mean `"), "{error}");

    // A process that is killed leaves its entry and its socket; its command ends on its own without a gateway.
    let dead = children.remove(0);
    let pid = dead.id().to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let mut dead = dead;
    dead.wait().unwrap();
    let (code, out, said) = user.run(&["ps"]);
    assert!(code == Some(0) && said.contains(&format!("process {pid} has died")), "{out}{said}");
    assert!(!user.run(&["ps"]).2.contains("has died"), "it is printed once");
    assert_eq!(user.runs().len(), 2);

    assert!(user.succeeds(&["kill", "--all"]).starts_with("killed 2 runs in 2 processes;"));
    for mut child in children {
        assert_eq!(child.wait().unwrap().code(), Some(124));
    }
}

#[test]
fn after_kill_all_a_gateway_admits_no_call_of_any_run() {
    let user = User::new("all");
    let mut serve = user.command(&["serve", "--upstream", "sim", "--listen", "127.0.0.1:0"]);
    serve.args(["--control", "127.0.0.1:0", "--control-token-env", "ENDSTOP_TEST_TOKEN"]);
    serve.env("ENDSTOP_TEST_TOKEN", "secret").args(["--json", "--steps", "100"]);
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(serve.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let base = listening["address"].as_str().unwrap();
    let agent = |run: &str| {
        let mut command = user.command(&["demo-agent", "--iterations", "1", "--searches", "1"]);
        command.env("ANTHROPIC_BASE_URL", format!("{base}/r/{run}")).output().unwrap()
    };
    agent("first");
    let steps = |run: &Value| run["steps"].as_u64().unwrap();
    assert!(steps(&user.run_that("begun", |run| run["run"] == "first")) > 0);

    let server = listening["control_address"].as_str().unwrap();
    let remote = ["--server", server, "--token-env", "ENDSTOP_TEST_TOKEN"];
    let asked = |token: &str| {
        let mut command = user.command(&[&["ps"][..], &remote].concat());
        command.env("ENDSTOP_TEST_TOKEN", token).output().unwrap()
    };
    assert!(String::from_utf8(asked("secret").stdout).unwrap().contains("first"));
    assert_eq!(asked("wrong").status.code(), Some(2));
    let mut kill = user.command(&[&["kill", "--all"][..], &remote].concat());
    let refused = kill.env("ENDSTOP_TEST_TOKEN", "wrong").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && refused.stdout.is_empty(), "{said}");
    assert!(said.contains("does not take the token of") && !said.contains("confirm"), "{said}");

    assert!(
        user.succeeds(&["kill", "--all", "--why", "bill"])
            .starts_with("killed 1 run in 1 process;")
    );
    agent("first");
    agent("second");
    for run in user.runs() {
        let begun = if run["run"] == "first" { 1 } else { 0 };
        assert!(steps(&run) >= begun && run["status"] == "stopped", "{run}");
        assert!(run["run"] == "first" || steps(&run) == 0, "{run}");
    }
    serve.kill().unwrap();
    serve.wait().unwrap();
}

/// A text without the ends of its lines.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A gateway of the scripted model, with the first line that it prints.
fn serve(user: &User, options: &[&str]) -> (Child, Value) {
    let mut serve = user.command(&["serve", "--upstream", "sim", "--listen", "127.0.0.1:0"]);
    serve.args(["--json"]).args(options);
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (serve, serde_json::from_str(&line).unwrap())
}

#[test]
fn a_run_that_a_soft_limit_stopped_goes_on_when_it_is_raised_and_a_hard_limit_stays() {
    let user = User::new("raise");
    let policy = user.0.join("policy.toml");
    let text = "[stop]\nlong = 'steps >= 2'\nusd = 'cost >= $5'\n[rule.long]\noverrides = 2\n\
                grant = { steps = 3 }\n";
    std::fs::write(&policy, text).unwrap();
    let (mut gateway, listening) = serve(&user, &["--policy", policy.to_str().unwrap()]);
    let base = listening["address"].as_str().unwrap();
    let agent = || {
        let mut command = user.command(&["demo-agent", "--iterations", "100"]);
        command.env("ANTHROPIC_BASE_URL", format!("{base}/r/nightly")).output().unwrap()
    };
    agent();
    let steps =
        |user: &User| user.run_that("stopped", |run| run["status"] == "stopped")["steps"].as_u64();
    assert_eq!(steps(&user), Some(2));
    for (raise, problem) in [
        (["--usd", "+1"], "the limit of rule `usd` on `cost` is hard"),
        (["--steps", "+7"], "rule `long` admits 6 more at most"),
    ] {
        let (code, _, error) = user.run(&[&["resume", "nightly"][..], &raise].concat());
        assert!(code == Some(2) && error.contains(problem), "{error}");
    }
    let said = user.succeeds(&["resume", "nightly", "--steps", "+4", "--why", "nearly done"]);
    assert_eq!(said, "nightly: in_progress\n");
    agent();
    assert_eq!(steps(&user), Some(6));
    let shown: Value = serde_json::from_str(&user.succeeds(&["show", "nightly"])).unwrap();
    let raised = &shown["report"]["verdict"]["overrides"][0];
    assert_eq!(raised["what"], "approved up to steps 6: nearly done");
    assert!(raised["by"].as_str().unwrap().contains("(endstop, process "), "{raised}");
    user.succeeds(&["cancel", "nightly", "--why", "enough"]);
    let (code, _, error) = user.run(&["resume", "nightly", "--steps", "+1"]);
    assert!(code == Some(2) && error.contains("was cancelled (enough"), "{error}");
    // An approval by name is of a pause rule: it lifts no limit.
    assert_eq!(user.run(&["approve", "nightly", "usd", "--usd", "100"]).0, Some(2));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[test]
fn kill_all_reaches_processes_that_are_not_listed_and_lets_none_start_while_it_works() {
    let user = User::new("epoch");
    // Other users may open its runtime directory, so it has no entry there.
    let open = user.0.join("open");
    std::fs::create_dir_all(open.join("endstop")).unwrap();
    std::fs::set_permissions(
        open.join("endstop"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    // An epoch before this process; its file is gone when the next one begins.
    assert_eq!(user.run(&["kill", "--all"]).0, Some(1));
    let trace = user.0.join("trace.jsonl");
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let mut hidden = user.command(&["run", "--upstream", "sim", "--steps", "100000", "--trace"]);
    hidden.arg(&trace).arg("--").arg(endstop).args(["demo-agent", "--iterations", "100000"]);
    hidden.args(["--pause", "10ms"]).env("XDG_RUNTIME_DIR", &open);
    let mut hidden = hidden.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&trace).is_ok_and(|trace| trace.contains("step_begin")) {
        assert!(Instant::now() < until, "no step begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(user.runs().is_empty());
    std::fs::remove_file(user.0.join("state/endstop/kill-epoch.json")).unwrap();
    let (code, _, error) = user.run(&["kill", "--all", "--why", "bill"]);
    assert!(code == Some(1) && error.contains("no live process found"), "{error}");
    assert_eq!(hidden.wait().unwrap().code(), Some(124));
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("bill (killed by "), "{trace}");

    // `kill --all` has this lock while it works.
    let lock = std::fs::File::open(user.0.join("state/endstop/kill-epoch.lock")).unwrap();
    lock.lock().unwrap();
    for start in [&["run", "--", "true"][..], &["serve", "--steps", "1"], &["agent", "hello"]] {
        let (code, _, error) = user.run(start);
        assert!(code != Some(0) && error.contains("`endstop kill --all` is at work"), "{error}");
    }
    lock.unlock().unwrap();
    // The epoch began before this process.
    assert_eq!(user.run(&["run", "--upstream", "sim", "--no-guard", "--", "true"]).0, Some(0));
}

#[test]
fn a_kill_of_all_is_listed_with_who_when_and_why() {
    let user = User::new("kills");
    assert_eq!(user.succeeds(&["kill", "--list"]), "no kill is recorded\n");
    // No process is found, but those that are not listed would obey.
    for why in ["test", "bill"] {
        assert_eq!(user.run(&["kill", "--all", "--why", why]).0, Some(1));
    }
    let listed: Value =
        serde_json::from_str(&user.succeeds(&["kill", "--list", "--json"])).unwrap();
    let kills = listed["kills"].as_array().unwrap();
    let [kill] = kills.as_slice() else { panic!("{listed}") };
    let is_as_made = (&kill["target"], &kill["why"], &kill["store"]);
    assert_eq!(is_as_made, (&"all".into(), &"bill".into(), &Value::Null), "{kill}");
    assert!(kill["by"].as_str().unwrap().contains("(endstop, process "), "{kill}");
    assert!(kill["at"].as_str().unwrap().starts_with("20"), "{kill}");
    let table = user.succeeds(&["kill", "--list"]);
    assert!(table.contains("bill") && table.contains("this machine"), "{table}");
    // It kills nothing, and a kill lists nothing.
    for mistake in [&["kill", "--list", "--all"][..], &["kill", "nightly", "--json"]] {
        let (code, out, error) = user.run(mistake);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{mistake:?} {error}");
    }
}

#[test]
fn an_agent_is_listed_followed_to_its_end_and_killed() {
    let user = User::new("agent");
    let pause = user.0.join("pause");
    std::fs::write(&pause, "lunch\n").unwrap();
    let mut agent = user.command(&["agent", "--model", "scripted:loop", "--steps", "100000"]);
    agent.args(["--no-store", "--pause-file"]).arg(&pause).arg("go");
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = user.run_that("paused", |run| !run["waits_for"].is_null());
    assert_eq!(
        (run["kind"].as_str(), run["pid"].as_u64()),
        (Some("agent"), Some(agent.id().into()))
    );
    let id = run["run"].as_str().unwrap();

    let mut tail = user.command(&["tail", id, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut event = |wanted: &str| -> Value {
        loop {
            let line = lines.next().unwrap().unwrap();
            let value: Value = serde_json::from_str(&line).unwrap();
            if value["event"] == wanted {
                return value;
            }
        }
    };
    assert!(event("paused")["text"].as_str().unwrap().ends_with(": lunch"));
    user.succeeds(&["kill", id, "--why", "enough"]);
    assert_ne!(agent.wait().unwrap().code(), Some(0));
    let end = loop {
        let status = event("status");
        if status["status"] == "stopped" {
            break status;
        }
    };
    assert_eq!(end["reason"], "user_requested");
    assert!(end["text"].as_str().unwrap().starts_with("enough (killed by "), "{end}");
    assert_eq!(tail.wait().unwrap().code(), Some(0));
    assert!(user.runs().is_empty());
}

#[test]
fn the_runs_of_a_budget_are_killed_together_and_none_begins_after_that() {
    let user = User::new("kill-budget");
    let (mut gateway, listening) = serve(&user, &["--steps", "100", "--budget", "$5 per day"]);
    let base = listening["address"].as_str().unwrap();
    let agent = |run: &str| {
        let mut command = user.command(&["demo-agent", "--iterations", "1", "--searches", "1"]);
        command.env("ANTHROPIC_BASE_URL", format!("{base}/r/{run}")).output().unwrap()
    };
    agent("first");
    for (group, name, problem) in [
        ("--budget", "other", "no live run draws on budget `other`"),
        ("--key", "nobody", "no live run of key `nobody`"),
    ] {
        let (code, out, error) = user.run(&["kill", group, name]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
        assert!(error.contains(problem), "{error}");
        assert!(error.contains("from now on none is admitted by 1 process"), "{error}");
    }
    let said = user.succeeds(&["kill", "--budget", "me", "--why", "bill"]);
    assert_eq!(said, "killed 1 run in 1 process; no call of them is admitted there\n");
    agent("second");
    let runs = user.runs();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let begun = run["run"] == "first";
        assert!(run["status"] == "stopped" && (run["steps"].as_u64() > Some(0)) == begun, "{run}");
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[test]
fn old_runs_that_have_ended_are_pruned_and_others_stay() {
    let user = User::new("prune");
    let policy = user.0.join("policy.toml");
    std::fs::write(&policy, "[stop]\nend = 'steps >= 9'\n[pause]\nask = 'steps >= 1'\n").unwrap();
    let agent = ["agent", "--model", "scripted:loop", "go"];
    assert_eq!(user.run(&[&agent[..], &["--steps", "2"]].concat()).0, Some(124));
    assert_eq!(
        user.run(&[&agent[..], &["--policy", policy.to_str().unwrap()]].concat()).0,
        Some(124)
    );
    let stored = || -> Vec<String> {
        let all: Value =
            serde_json::from_str(&user.succeeds(&["agent", "--runs", "--json"])).unwrap();
        let runs = all["runs"].as_array().unwrap().iter();
        runs.map(|run| run["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(stored(), ["paused", "stopped"]);
    user.succeeds(&["prune", "--older-than", "1h"]);
    assert_eq!(user.succeeds(&["prune", "--older-than", "0s", "--dry-run"]).lines().count(), 1);
    assert_eq!(stored().len(), 2);
    user.succeeds(&["prune", "--older-than", "0s"]);
    assert_eq!(stored(), ["paused"]);
    let (code, _, error) = user.run(&["prune", "--older-than", "0s", "--store", "no-such"]);
    assert!(code == Some(2) && error.contains("`no-such` is no directory"), "{error}");
}

#[test]
fn killing_all_where_nothing_runs_is_no_success() {
    let user = User::new("none");
    let (code, out, error) = user.run(&["kill", "--all"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("no live process found"), "{error}");
    assert!(error.contains("does not list stops before its next call"), "{error}");
    // Without its file the kill reaches no process that is not listed.
    std::fs::remove_dir_all(user.0.join("state")).unwrap();
    std::fs::write(user.0.join("state"), "").unwrap();
    let (code, _, error) = user.run(&["kill", "--all"]);
    let error = words(&error);
    assert!(
        code == Some(1) && error.contains("that `endstop ps` does not list continue"),
        "{error}"
    );
    assert!(!error.contains("stops before its next call"), "{error}");
}

#[test]
fn a_gateway_that_was_killed_and_started_again_on_its_socket_is_listed_once() {
    let user = User::new("again");
    let socket = user.0.join("s.sock");
    let options = ["--steps", "100", "--control-socket", socket.to_str().unwrap()];
    let (mut killed, _) = serve(&user, &options);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let (mut gateway, listening) = serve(&user, &options);
    user.call(&listening, "one");
    let run = user.run_that("of one process", |run| run["run"] == "one");
    assert_eq!(run["pid"].as_u64(), Some(gateway.id().into()));
    assert_eq!(user.succeeds(&["kill", "one"]), "one: stopped\n");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[test]
fn a_run_of_the_same_name_in_two_processes_is_killed_in_both_and_paused_in_none() {
    let user = User::new("two");
    let mut gateways = [(); 2].map(|()| serve(&user, &["--steps", "100"]));
    for (_, listening) in &gateways {
        user.call(listening, "one");
    }
    let (code, _, error) = user.run(&["pause", "one"]);
    assert!(code == Some(2) && error.contains("run `one` is in 2 processes (pids "), "{error}");
    assert!(error.contains("name one with --server"), "{error}");
    let said = user.succeeds(&["kill", "one"]);
    for (gateway, _) in &mut gateways {
        assert!(said.contains(&format!("one: stopped (process {})\n", gateway.id())), "{said}");
        gateway.kill().unwrap();
        gateway.wait().unwrap();
    }
}

#[test]
fn a_frozen_process_keeps_no_other_from_being_listed_and_its_runs_are_not_said_to_be_none() {
    let user = User::new("frozen");
    let (mut frozen, _) = serve(&user, &["--steps", "9"]);
    let (mut gateway, listening) = serve(&user, &["--steps", "100"]);
    user.call(&listening, "one");
    let pid = frozen.id();
    assert!(Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
    let (code, out, error) = user.run(&["ps", "--json"]);
    let problem = format!("cannot ask process {pid}: no answer within 3 s");
    assert!(code == Some(0) && words(&error).contains(&problem), "{error}");
    let all: Value = serde_json::from_str(&out).unwrap();
    assert!(all["runs"][0]["run"] == "one" && all["runs"][1].is_null(), "{all}");
    assert_eq!(all["no_answer"], serde_json::json!([pid]));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let (code, out, error) = user.run(&["ps"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
    assert!(error.contains("no answer from 1 process"), "{error}");
    frozen.kill().unwrap();
    frozen.wait().unwrap();
    assert_eq!(user.succeeds(&["ps"]), "no run is live\n");
}

#[test]
fn a_pause_shows_before_a_call_meets_it_and_refusals_say_why() {
    let user = User::new("unmet");
    let policy = user.0.join("policy.toml");
    std::fs::write(&policy, "[stop]\nlong = 'steps >= 50'\n[pause]\nask = 'cost >= $50'\n")
        .unwrap();
    let (mut gateway, listening) = serve(&user, &["--policy", policy.to_str().unwrap()]);
    user.call(&listening, "nightly");
    let said = user.succeeds(&["pause", "nightly", "--why", "lunch"]);
    assert_eq!(said, "nightly: paused\n");
    assert_eq!(user.runs()[0]["status"], "paused");
    assert!(user.succeeds(&["ps"]).contains("paused: by"));
    let refused = |arguments: &[&str], problem: &str| {
        let (code, _, error) = user.run(arguments);
        assert!(code == Some(2) && error.contains(problem), "{error}");
    };
    refused(&["pause", "nightly"], "the run is already paused by ");
    assert_ne!(user.succeeds(&["resume", "nightly"]), "nightly: paused\n");
    refused(
        &["approve", "nightly", "nosuchrule"],
        "the run has no rule `nosuchrule`; pause rules of the run: `ask`",
    );
    refused(&["approve", "nightly", "long"], "rule `long` is no pause rule");
    refused(&["approve", "nightly"], "no pause rule was approved: none is met");
    user.succeeds(&["cancel", "nightly"]);
    refused(&["pause", "nightly"], "the run has stopped");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

#[test]
fn a_broken_configuration_file_does_not_keep_a_run_alive() {
    let user = User::new("broken");
    let mut child = user.agent(&["--usd", "1000"]);
    user.run_that("with steps", |run| run["steps"].as_u64() > Some(0));
    let file = user.0.join("config.toml");
    std::fs::write(&file, "stpes = 5\n").unwrap();
    let killed = user.command(&["kill", "--all"]).env("ENDSTOP_CONFIG", &file).output().unwrap();
    let said = String::from_utf8_lossy(&killed.stderr).into_owned();
    assert!(killed.status.success() && said.contains("stpes"), "{said}");
    child.wait().unwrap();
    let refused = user.command(&["ps"]).env("ENDSTOP_CONFIG", &file).output().unwrap();
    assert!(refused.status.success(), "{refused:?}");
    let run = user.command(&["run", "--", "true"]).env("ENDSTOP_CONFIG", &file).output().unwrap();
    assert_eq!(run.status.code(), Some(125), "{run:?}");
}

#[test]
fn a_run_whose_gateway_fails_is_not_said_to_have_ended() {
    let user = User::new("tail-fails");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let lists = [(200, r#"{"runs":[{"run":"nightly","status":"in_progress"}]}"#)];
        for (status, body) in lists.into_iter().chain([(500, r#"{"error":"broken"}"#)].repeat(9)) {
            let Ok((stream, _)) = listener.accept() else { return };
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            std::io::Write::write_all(reader.get_mut(), answer.as_bytes()).unwrap();
        }
    });
    let mut tail = user.command(&["tail", "nightly", "--server", &url, "--token-env", "TOKEN"]);
    let ended = tail.env("TOKEN", "secret").output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(2) && error.contains("broken"), "{error}");
    assert!(ended.stdout.is_empty(), "{:?}", ended.stdout);
}
