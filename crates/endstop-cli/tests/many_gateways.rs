//! Gateways that share budgets and kills by one Redis, as on several machines: each with its own state directory.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests"
)]

#[path = "many_gateways/backup.rs"]
mod backup;
#[path = "many_gateways/frozen.rs"]
mod frozen;
#[path = "many_gateways/keys.rs"]
mod keys;
#[path = "many_gateways/load.rs"]
mod load;
#[path = "many_gateways/pauses.rs"]
mod pauses;
#[path = "../../../tests/support/redis.rs"]
mod redis;
#[path = "many_gateways/runs.rs"]
mod runs;
#[path = "many_gateways/tls.rs"]
mod tls;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::RedisServer;
use serde_json::{Value, json};

/// A machine: directories of a user.
struct Machine(PathBuf);

impl Machine {
    fn new(test: &str, number: usize) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("many-{test}-{number}"));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.env("HOME", &self.0).env("XDG_STATE_HOME", &self.0).env("ENDSTOP_CONFIG", "");
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &self.0);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn serve(&self, store: &str, arguments: &[&str]) -> Gateway {
        self.serve_with("", store, arguments)
    }

    /// With a configuration file.
    fn serve_with(&self, config: &str, store: &str, arguments: &[&str]) -> Gateway {
        let mut command = self.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.args(["--control", "127.0.0.1:0", "--control-token-env", "TOKEN"]);
        command.env("TOKEN", "secret").env("ENDSTOP_BUDGET_STORE", store).args(arguments);
        command.env("ENDSTOP_CONFIG", config);
        let errors = std::fs::File::create(self.0.join("errors")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let value: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", self.errors()));
        let address = |key: &str| {
            let url = value[key].as_str().unwrap();
            url.strip_prefix("http://").unwrap().to_owned()
        };
        Gateway { child, address: address("address"), control: address("control_address") }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.0.join("errors")).unwrap()
    }
}

/// A gateway that ends with the test.
struct Gateway {
    child: Child,
    address: String,
    control: String,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Gateway {
    /// Begins a call of a run, and returns what will be read.
    fn begin(&self, run: &str, model: &str, is_stream: bool) -> TcpStream {
        let body = json!({
            "model": model, "max_tokens": 2_000, "stream": is_stream,
            "messages": [{ "role": "user", "content": "hi" }],
        });
        let path = format!("/r/{run}/v1/chat/completions");
        self.send(&self.address, "POST", &path, &body.to_string())
    }

    fn send(&self, address: &str, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer secret\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn call(&self, run: &str) -> String {
        rest(self.begin(run, "gpt-4o", false))
    }

    /// A run as the control API shows it.
    fn run(&self, run: &str) -> Value {
        let path = format!("/endstop/v1/runs/{run}");
        let begun = Instant::now();
        loop {
            let answer = rest(self.send(&self.control, "GET", &path, ""));
            // Another gateway is about to let go of it.
            if !answer.starts_with("HTTP/1.1 409") {
                return serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
        }
    }
}

fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // A connection that is cut ends the answer as well.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

/// An exact amount of dollars in pico-dollars.
fn picos(amount: &Value) -> u64 {
    let text = amount.as_str().unwrap();
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    whole.parse::<u64>().unwrap() * 1_000_000_000_000
        + format!("{rest:0<12}").parse::<u64>().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_burst_over_gateways_spends_no_more_than_the_budget() {
    let Some(server) = RedisServer::start() else { return };
    let machines: Vec<_> = (0..4).map(|number| Machine::new("burst", number)).collect();
    let limits = ["--upstream", "sim:long", "--budget", "$0.10 per day", "--usd", "10"];
    let gateways: Vec<_> =
        machines.iter().map(|machine| machine.serve(&server.url(), &limits)).collect();
    thread::scope(|scope| {
        for call in 0..100 {
            let gateway = &gateways[call % gateways.len()];
            scope.spawn(move || gateway.call(&format!("run-{call}")));
        }
    });
    let spent: u64 = (0..100)
        .map(|call| {
            let run = gateways[call % gateways.len()].run(&format!("run-{call}"));
            picos(&run["report"]["spend"]["usd"])
        })
        .sum();
    let mut budget = machines[0].command(&["budget", "me", "--json", "--budget", "$0.10 per day"]);
    let output = budget.env("ENDSTOP_BUDGET_STORE", server.url()).output().unwrap();
    let budget: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let limit = &budget["budgets"][0]["limits"][0];
    // The sum of what the gateways report, and at most a nano-dollar more for each call.
    let counted = picos(&limit["spent"]);
    assert_eq!(picos(&limit["held"]), 0, "{limit}");
    assert!(counted >= spent && counted - spent <= 100_000, "{counted} {spent}");
    assert!(counted <= 100_000_000_000 && counted > 50_000_000_000, "{counted}");
    // This server loses nothing, so there is no warning.
    assert!(!machines[0].errors().contains("a restart of the server"), "{}", machines[0].errors());
}

#[test]
fn a_kill_stops_runs_on_every_machine_and_cuts_what_is_in_flight() {
    let Some(server) = RedisServer::start() else { return };
    let machines: Vec<_> = (0..3).map(|number| Machine::new("kill", number)).collect();
    let gateways: Vec<_> = machines[..2]
        .iter()
        .map(|machine| machine.serve(&server.url(), &["--upstream", "sim", "--steps", "100"]))
        .collect();
    let kill = |arguments: &[&str]| {
        let mut command = machines[2].command(&["kill", "--why", "bill", "--budget-store"]);
        command.arg(server.url()).args(arguments).output().unwrap()
    };
    let is_stopped = |gateway: &Gateway, run: &str| gateway.run(run)["status"] == "stopped";
    // Only the full name counts here, so this is that of no run. Gateways without a call so far confirm too.
    let output = kill(&["bot"]);
    assert_eq!(text(&output), "no call of run `bot` is admitted by 2 processes\n");
    // One run on both: then a run of another name is admitted, and this one nowhere, not even a new one of its name.
    for gateway in &gateways {
        assert!(gateway.call("both").starts_with("HTTP/1.1 200"));
        assert!(!is_stopped(gateway, "both"));
    }
    let output = kill(&["both"]);
    assert_eq!(text(&output), "no call of run `both` is admitted by 2 processes\n");
    for gateway in &gateways {
        gateway.call("both");
        gateway.call("other");
        assert!(is_stopped(gateway, "both") && !is_stopped(gateway, "other"));
        assert_eq!(gateway.run("both")["report"]["totals"]["steps"], 2);
        assert!(gateway.run("both").to_string().contains("bill (killed by "));
    }
    // All: calls in flight are aborted, and none begins on any machine. They draw on no budget.
    let names = ["one", "two"];
    let streams: Vec<_> = gateways
        .iter()
        .zip(names)
        .map(|(gateway, name)| gateway.begin(name, "sim/slow", true))
        .collect();
    for (gateway, name) in gateways.iter().zip(names) {
        until("in flight", || gateway.run(name)["report"]["totals"]["steps"] == 1);
    }
    let output = kill(&["--all"]);
    assert_eq!(text(&output), "no call is admitted by 2 processes\n");
    streams.into_iter().for_each(|stream| drop(rest(stream)));
    for (gateway, name) in gateways.iter().zip(names) {
        gateway.call(name);
        gateway.call("third");
        assert!(is_stopped(gateway, name));
        assert_eq!(gateway.run(name)["report"]["totals"]["steps"], 1);
        assert_eq!(gateway.run("third")["report"]["totals"]["steps"], 0);
    }
    // A machine that took no part lists them.
    let mut list = Machine::new("kill", 3).command(&["kill", "--list", "--json"]);
    let listed = list.args(["--budget-store", &server.url()]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let all = listed["kills"].as_array().unwrap().iter();
    let kills: Vec<Value> = all.map(|kill| json!([kill["target"], kill["name"]])).collect();
    let made = [json!(["run", "bot"]), json!(["run", "both"]), json!(["all", null])];
    assert_eq!(kills, made, "{listed}");
    assert_eq!(listed["kills"][0]["why"], "bill", "{listed}");
    // A gateway answers with the same.
    let gateway = &gateways[0];
    let answer = rest(gateway.send(&gateway.control, "GET", "/endstop/v1/kills", ""));
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body, listed);
    drop(gateways);
    // A later gateway is not concerned, but a run that was stopped stays so.
    let later = machines[0].serve(&server.url(), &["--upstream", "sim", "--steps", "100"]);
    later.call("later");
    later.call("other");
    assert!(!is_stopped(&later, "later") && is_stopped(&later, "other"));
}

#[test]
fn without_the_store_no_call_begins_and_what_was_in_flight_is_settled_later() {
    let Some(mut server) = RedisServer::start() else { return };
    let machine = Machine::new("away", 0);
    let budget =
        ["--budget", "$5 per day", "--usd", "10", "--upstream", "sim:slow", "--pause-limit", "1s"];
    let gateway = machine.serve(&server.url(), &budget);
    let mut in_flight = gateway.begin("flies", "gpt-4o", true);
    until("in flight", || gateway.run("flies")["report"]["totals"]["steps"] == 1);
    server.kill();
    let refused = gateway.call("refused");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("is away"), "{refused}");
    // The one in flight continues to its end.
    let mut answer = String::new();
    in_flight.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("[DONE]"), "{answer}");
    let spent = picos(&gateway.run("flies")["report"]["spend"]["usd"]);
    assert!(spent > 0);
    // It dies; what it left is sent by the next process of the machine.
    drop(gateway);
    server.restart();
    let mut command = machine.command(&["budget", "me", "--json", "--budget", "$5 per day"]);
    let output = command.env("ENDSTOP_BUDGET_STORE", server.url()).output().unwrap();
    let budget: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let limit = &budget["budgets"][0]["limits"][0];
    let counted = picos(&limit["spent"]);
    assert!(counted >= spent && counted - spent <= 1_000, "{limit} {spent}");
    assert_eq!(picos(&limit["held"]), 0, "{limit}");
}

#[test]
fn a_gateway_says_once_that_the_store_is_away_and_once_that_it_is_back() {
    let Some(mut server) = RedisServer::start() else { return };
    let machine = Machine::new("outage", 0);
    let _gateway = machine.serve(&server.url(), &["--upstream", "sim", "--steps", "9"]);
    let says = |what: &str, times: usize| {
        until(what, || machine.errors().matches(what).count() >= times);
        assert_eq!(machine.errors().matches(what).count(), times, "{}", machine.errors());
    };
    server.kill();
    says("is away", 1);
    server.restart();
    says("` is back", 1);
    says("is away", 1);
    // A server that can be reached and refuses.
    server.send(&["CONFIG SET requirepass s3cret", "CLIENT KILL TYPE normal"]);
    says("no call begins until", 2);
    assert!(machine.errors().contains("NOAUTH"), "{}", machine.errors());
    server.send(&["AUTH s3cret", "CONFIG SET requirepass ''"]);
    says("` is back", 2);
    assert!(!machine.errors().contains("s3cret"), "{}", machine.errors());
}

#[test]
fn an_address_that_cannot_be_used_ends_the_command_and_shows_no_password() {
    let machine = Machine::new("address", 0);
    let run = ["run", "--upstream", "sim", "--budget-store"];
    // A port that no server has.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let away = format!("redis://u:s3cret@127.0.0.1:{port}");
    for (address, expected) in [
        (away.as_str(), "start the server, or leave out --budget-store"),
        ("redis://u:s3cret@127.0.0.1?name=x", "`name` is not known"),
    ] {
        let output = machine.command(&run).args([address, "--", "true"]).output().unwrap();
        // The exit code of `run` for its own errors.
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let text = text(&output);
        assert!(text.contains(expected) && !text.contains("s3cret"), "{text}");
    }
    let mut serve = machine.command(&["serve", "--upstream", "sim"]);
    let output = serve.env("ENDSTOP_BUDGET_STORE", &away).output().unwrap();
    let said = text(&output);
    assert!(said.contains("error: ENDSTOP_BUDGET_STORE: the store of budgets"), "{said}");
    assert!(said.contains("hint: start the server, or unset ENDSTOP_BUDGET_STORE"), "{said}");
    let killed = machine.command(&["kill", "--all", "--budget-store", &away]).output().unwrap();
    let said = text(&killed);
    assert_eq!(killed.status.code(), Some(2), "{said}");
    assert!(said.contains("`endstop kill` stops the processes of this machine"), "{said}");
    let mut config = machine.command(&["config"]);
    let output = config.env("ENDSTOP_BUDGET_STORE", &away).output().unwrap();
    let text = text(&output);
    assert!(text.contains("--budget-store") && !text.contains("s3cret"), "{text}");
}

#[test]
fn the_dollars_that_a_restart_can_lose_are_said_at_start() {
    let Some(server) = RedisServer::start_with(&[]) else { return };
    let machine = Machine::new("persistence", 0);
    let (store, budget) = (server.url(), "$5 per day");
    let started = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        let output = command.env("ENDSTOP_BUDGET_STORE", &store).output().unwrap();
        text(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let adjust = ["budget", "adjust", "me", "+1.25", "--why", "a test", "--budget", budget];
    started(&adjust);
    let lost = "a restart of the server loses all that was counted (appendonly no, no snapshots). Calls that it forgets \
                could be spent twice (now $1.25 is counted): at most $5.00 in one window";
    // It ends after the warning, because the address is not one of this machine.
    let serve = ["serve", "--upstream", "sim", "--listen", "192.0.2.1:1", "--steps", "9"];
    let serve = [&serve[..], &["--budget", budget]].concat();
    let said = started(&serve);
    assert!(said.contains(lost), "{said}");
    // With its keys in the store, it can also lose that one was revoked.
    let undone = "a key that was just revoked is valid again, so check `endstop key list` then";
    assert!(!said.contains(undone), "{said}");
    started(&["key", "new", "alice"]);
    let said = started(&[&serve[..], &["--keys"]].concat());
    assert!(said.contains(&format!("{lost}. Changes of keys")) && said.contains(undone), "{said}");
    let said = started(&["run", "--upstream", "sim", "--budget", budget, "--", "true"]);
    assert!(said.contains(lost), "{said}");
    // Of its last second a run says nothing.
    server.send(&["CONFIG SET appendonly yes"]);
    assert!(started(&serve).contains("can lose the last second"), "{}", started(&serve));
    let said = started(&["run", "--upstream", "sim", "--budget", budget, "--", "true"]);
    assert!(!said.contains("a restart of the server"), "{said}");
}
