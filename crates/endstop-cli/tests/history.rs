//! The history of `endstop run`, `serve` and `agent`: its calls and acts, as `spend`, `show` and `prune` read them.
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

/// Two budgets, one in the other.
const BUDGETS: &str = "[budget.me]\nlimit = \"$100 per day\"\nparent = \"org\"\n[budget.org]\nlimit = \"$200 per day\"\n";

/// A separate home. Its path is short, because it holds sockets.
struct Home(PathBuf);

impl Home {
    fn new(test: &str, config: &str) -> Self {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("endstop-h-{test}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        std::fs::create_dir_all(path.join("work")).unwrap();
        std::fs::write(path.join("config.toml"), config).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let endstop = snapbox::cmd::cargo_bin!("endstop");
        let mut command = Command::new(endstop);
        command.env("HOME", &self.0).env("XDG_STATE_HOME", self.0.join("state"));
        command.env("XDG_RUNTIME_DIR", &self.0).env("TMPDIR", &self.0);
        command.env("ENDSTOP_CONFIG", self.0.join("config.toml"));
        command.env_remove("ENDSTOP_BASE_URL").env("AGENT", endstop);
        command.current_dir(self.0.join("work")).stdin(Stdio::null()).args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        // Lines are wrapped at the width of the terminal.
        let stderr = text(stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        (status.code(), text(stdout), stderr)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, stdout, stderr) = self.output(arguments);
        assert_eq!(code, Some(0), "{arguments:?}\n{stdout}\n{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    fn spend(&self, by: &str) -> Value {
        self.json(&["spend", "--json", "--by", by])
    }

    fn file(&self) -> PathBuf {
        self.0.join("state/endstop/history.sqlite")
    }

    /// Runs the demo's agent. Returns the JSON of the run, and its standard error.
    fn run(&self, upstream: &str, flags: &[&str], script: &str) -> (Value, String) {
        let file = self.0.join("run.json");
        let run = ["run", "--upstream", upstream, "--usd", "100", "--json-file"];
        let flags = [&run[..], &[file.to_str().unwrap()], flags, &["--", "/bin/sh", "-c", script]];
        let (_, stdout, stderr) = self.output(&flags.concat());
        let told = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(!told.is_empty(), "{stdout}\n{stderr}");
        (serde_json::from_str(&told).unwrap(), stderr)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The demo's agent: 3 iterations with a sub-agent each.
const AGENT: &str = "\"$AGENT\" demo-agent --iterations 3 --searches 2";

/// A process that listens, and ends with the test.
struct Listening(Child, String);

impl Listening {
    fn start(mut command: Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line.split_once("http://").unwrap().1;
        let address = address.split([',', ';', '\n']).next().unwrap().to_owned();
        // The test does not wait for the rest.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self(child, address)
    }

    fn sim(home: &Home) -> Self {
        Self::start(home.command(&["sim"]))
    }

    fn url(&self) -> String {
        format!("http://{}", self.1)
    }

    /// The scripted model's own bill, in pico-dollars: $3 and $15 for a million tokens.
    fn bill(&self) -> u64 {
        let stats = json_of(&request(&self.1, "GET", "/sim/stats", "", ""));
        let of = |key: &str| stats[key].as_u64().unwrap();
        of("input_tokens") * 3_000_000 + of("output_tokens") * 15_000_000
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn request(address: &str, method: &str, path: &str, key: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

fn json_of(response: &str) -> Value {
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A chat completion, the `number`-th of its conversation.
fn chat(address: &str, path: &str, key: &str, number: usize) -> String {
    let messages: Vec<Value> = (0..=number)
        .map(|turn| json!({ "role": "user", "content": format!("Search again, {turn}.") }))
        .collect();
    let body = json!({ "model": "gpt-4o-mini", "max_tokens": 20, "messages": messages });
    let response = request(address, "POST", path, key, &body.to_string());
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    response
}

/// `endstop run` with a command that makes no call itself, and waits.
struct Driven {
    child: Child,
    /// The address of its gateway.
    address: String,
}

impl Driven {
    fn begin(home: &Home, upstream: &str) -> Self {
        let work = home.0.join("work");
        let script = "printf %s \"$OPENAI_BASE_URL\" >base.new; mv base.new base; until [ -e done ]; do sleep 0.05; done";
        for name in ["base", "done"] {
            drop(std::fs::remove_file(work.join(name)));
        }
        let file = home.0.join("run.json");
        let mut command = home.command(&["run", "--upstream", upstream, "--usd", "9"]);
        command.arg("--json-file").arg(&file).args(["--", "/bin/sh", "-c", script]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let base = loop {
            match std::fs::read_to_string(work.join("base")) {
                Ok(base) => break base,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let address = base.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
        Self { child, address: address.to_owned() }
    }

    /// Lets the command end. Returns the JSON of the run.
    fn end(mut self, home: &Home) -> Value {
        std::fs::write(home.0.join("work/done"), "").unwrap();
        self.child.wait().unwrap();
        serde_json::from_str(&std::fs::read_to_string(home.0.join("run.json")).unwrap()).unwrap()
    }

    /// Begins a chat completion.
    fn ask(&self, is_stream: bool) -> TcpStream {
        let messages = json!([{ "role": "user", "content": "Search." }]);
        let body = json!({ "model": "gpt-4o-mini", "stream": is_stream, "messages": messages });
        let (address, body) = (&self.address, body.to_string());
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }
}

/// An exact amount of dollars in pico-dollars.
fn picos(amount: &Value) -> u64 {
    let text = amount.as_str().unwrap();
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    whole.parse::<u64>().unwrap() * 1_000_000_000_000
        + format!("{rest:0<12}").parse::<u64>().unwrap()
}

/// The names of rows, each with its cost.
fn rows(bill: &Value) -> Vec<(String, u64)> {
    let by = bill["by"].as_str().unwrap();
    let rows = bill["rows"].as_array().unwrap().iter();
    rows.map(|row| (row[by].as_str().unwrap().to_owned(), picos(&row["cost_usd"]))).collect()
}

/// Whether some file of the history has these bytes.
fn has_bytes(home: &Home, bytes: &str) -> bool {
    let files = std::fs::read_dir(home.file().parent().unwrap()).unwrap().flatten();
    let mut ours = files.filter(|it| it.file_name().to_string_lossy().starts_with("history"));
    ours.any(|file| {
        let text = std::fs::read(file.path()).unwrap();
        text.windows(bytes.len()).any(|part| part == bytes.as_bytes())
    })
}

#[test]
fn the_report_the_bill_of_the_upstream_and_spend_agree_to_the_pico_dollar() {
    let home = Home::new("agree", BUDGETS);
    let sim = Listening::sim(&home);
    let (told, _) = home.run(&sim.url(), &["--budget", "me"], AGENT);
    let report = &told["report"];
    let run = report["run"].as_str().unwrap();
    let spent = picos(&report["spend"]["usd"]);
    assert!(spent > 0);
    assert_eq!(spent, sim.bill());
    let work = home.0.join("work").canonicalize().unwrap();
    let one = |name: &str| vec![(name.to_owned(), spent)];
    let expected = [
        ("model", one("claude-sonnet-4-5")),
        ("project", one(work.to_str().unwrap())),
        ("run", one(run)),
        ("key", one("(none)")),
        ("budget", [one("me"), one("org")].concat()),
    ];
    for (by, expected) in expected {
        let bill = home.spend(by);
        assert_eq!(rows(&bill), expected, "{by}");
        assert_eq!((picos(&bill["total"]["cost_usd"]), &bill["runs"]), (spent, &1.into()), "{by}");
        assert_eq!(bill["source"], "history");
        assert_eq!(bill["total"]["calls"], report["totals"]["attempts"]);
        assert_eq!(bill["total"]["tokens"], report["totals"]["tokens"]);
    }
    // A run around midnight has two days.
    let days = rows(&home.spend("day"));
    assert_eq!(days.iter().map(|(_, cost)| cost).sum::<u64>(), spent);
    let (_, table, _) = home.output(&["spend", "--by", "budget"]);
    let said = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("in several rows; the total counts each once"), "{table}");
    // Neither the prompt nor the arguments of the command.
    for words in ["nightly builds", "--iterations", "demo-agent"] {
        assert!(!has_bytes(&home, words), "{words}");
    }

    // A later run adds up, and one can be shown when it is over.
    let (second, _) = home.run(&sim.url(), &["--steps", "4"], AGENT);
    let all = spent + picos(&second["report"]["spend"]["usd"]);
    assert_eq!((picos(&home.spend("run")["total"]["cost_usd"]), sim.bill()), (all, all));
    let shown = home.json(&["show", run]);
    assert_eq!((picos(&shown["cost_usd"]), &shown["run"]), (spent, &report["run"]));
    assert_eq!((&shown["source"], &shown["program"]), (&"history".into(), &"sh".into()));
    assert_eq!((&shown["kind"], &shown["sub_agents"]), (&"run".into(), &3.into()));
    assert_eq!(shown["budgets"], json!(["me", "org"]));
    let shown = home.json(&["show", second["report"]["run"].as_str().unwrap()]);
    assert_eq!((&shown["status"], &shown["reason"]), (&"stopped".into(), &"steps_limit".into()));
    assert!(shown["began"].is_string() && shown["ended"].is_string(), "{shown}");
    // Both were made at the same time, so that their names begin alike.
    let (code, _, said) = home.output(&["show", &run[..4]]);
    assert_eq!(code, Some(2));
    assert!(said.contains("matches 2 runs of the history"), "{said}");
    let (code, _, said) = home.output(&["show", "no-such-run"]);
    assert_eq!(code, Some(2), "{said}");

    // Prices change no recorded cost.
    let (code, _, said) = home.output(&["spend", "--prices", "prices.json"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("--prices needs --transcripts"), "{said}");
    old_parts_are_removed(&home, all);
}

/// After that nothing is left.
fn old_parts_are_removed(home: &Home, all: u64) {
    let (_, _, said) = home.output(&["prune", "--older-than", "1ms", "--dry-run"]);
    assert!(
        said.contains("of the history") && said.contains("and 2 runs of the history"),
        "{said}"
    );
    assert_eq!(picos(&home.spend("run")["total"]["cost_usd"]), all);
    // A directory that is named has no part in it.
    let runs = home.0.join("runs");
    std::fs::create_dir(&runs).unwrap();
    let (code, _, said) =
        home.output(&["prune", "--older-than", "1ms", "--store", runs.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("removed 0 runs") && !said.contains("history"), "{said}");
    assert_eq!(picos(&home.spend("run")["total"]["cost_usd"]), all);
    home.output(&["prune", "--older-than", "1ms"]);
    let (code, _, said) = home.output(&["spend"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no calls in the history"), "{said}");
}

#[test]
fn streams_retries_and_calls_that_are_cut_or_abandoned_cost_what_the_report_says() {
    for script in ["loop", "fail", "cut", "slow"] {
        let home = Home::new(script, "");
        let sim = Listening::start(home.command(&["sim", "--script", script]));
        let run = Driven::begin(&home, &sim.url());
        if script == "slow" {
            // The client leaves in the middle of a stream.
            let mut stream = run.ask(true);
            let mut some = [0; 64];
            assert!(stream.read(&mut some).unwrap() > 0);
        } else {
            // The same request again is a further attempt if the first one failed.
            for is_stream in [false, false, true, true] {
                // A connection that is cut ends the response as well.
                let _ = run.ask(is_stream).read_to_end(&mut Vec::new());
            }
        }
        let report = run.end(&home)["report"].clone();
        let bill = home.spend("run");
        assert_eq!(bill["total"]["cost_usd"], report["spend"]["usd"], "{script}: {report}");
        assert_eq!(bill["total"]["tokens"], report["totals"]["tokens"], "{script}");
        let unconfirmed = report["spend"]["unconfirmed_usd"].as_str().unwrap_or("0");
        assert_eq!(bill["unconfirmed_usd"], unconfirmed, "{script}: {report}");
        if ["cut", "slow"].contains(&script) {
            assert_ne!(unconfirmed, "0", "{report}");
            let (_, table, _) = home.output(&["spend"]);
            assert!(table.contains("of it is unconfirmed"), "{table}");
        }
    }
}

#[test]
fn without_a_history_spend_says_where_else_to_look() {
    let home = Home::new("none", "");
    let (code, _, said) = home.output(&["spend"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no calls in the history"), "{said}");
    assert!(said.contains("hint: `endstop spend --transcripts` reads"), "{said}");
    for (arguments, problem) in [
        (&["spend", "--by", "tool"][..], "--by tool needs transcripts"),
        (&["spend", "--by", "key", "--transcripts"], "--by key needs the history"),
        (&["spend", "--by", "budget", "sessions"], "--by budget needs the history"),
    ] {
        let (code, _, said) = home.output(arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(said.contains(problem) && said.contains("hint: "), "{said}");
    }
    assert!(!home.file().exists(), "reading creates nothing");
    std::fs::create_dir_all(home.file().parent().unwrap()).unwrap();
    let text = "no database, but long enough to have a header of one".repeat(99);
    std::fs::write(home.file(), text).unwrap();
    for arguments in [&["spend"][..], &["show", "some-run"], &["prune", "--older-than", "1d"]] {
        let (code, _, said) = home.output(arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("is not a history") && said.contains("hint: move `"), "{said}");
    }
}

#[test]
fn a_retention_in_the_configuration_file_removes_what_is_old() {
    let home = Home::new("keep", "");
    let sim = Listening::sim(&home);
    let rows = || home.spend("run")["rows"].as_array().unwrap().len();
    for expected in [1, 2] {
        home.run(&sim.url(), &[], AGENT);
        assert_eq!(rows(), expected, "without a retention all runs stay");
    }
    std::fs::write(home.0.join("config.toml"), "history-for = \"1ms\"\n").unwrap();
    home.run(&sim.url(), &[], AGENT);
    assert_eq!(rows(), 1, "the last run stays: the process removes once a day");

    // The default of the command is in the same file.
    std::fs::write(home.0.join("config.toml"), "[prune]\nolder-than = \"1000d\"\n").unwrap();
    let (code, _, said) = home.output(&["prune"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("removed 0 calls"), "{said}");
    std::fs::write(home.0.join("config.toml"), "[prune]\nolder-than = \"1ms\"\n").unwrap();
    let (code, _, said) = home.output(&["prune"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, _, said) = home.output(&["spend"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_history_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let home = Home::new("newer", "");
    let sim = Listening::sim(&home);
    let (told, _) = home.run(&sim.url(), &[], AGENT);
    let run = told["run"].as_str().unwrap();
    let mut bytes = std::fs::read(home.file()).unwrap();
    assert_eq!(&bytes[..15], b"SQLite format 3");
    // The version of the tables.
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(home.file(), &bytes).unwrap();
    for arguments in [&["spend"][..], &["show", run], &["prune", "--older-than", "1ms"]] {
        let (code, _, said) = home.output(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        let problem = "history.sqlite` has format 99, and this program knows up to";
        assert!(said.contains(problem) && said.contains("hint: install the latest"), "{said}");
    }
    // A run does its work, and says that it is not recorded.
    let (told, said) = home.run(&sim.url(), &[], AGENT);
    assert_ne!(told["report"]["spend"]["usd"], "0", "{told}");
    assert!(
        said.contains("a call is not yet in the history") && said.contains("format 99"),
        "{said}"
    );
    assert!(std::fs::read(home.file()).unwrap() == bytes, "the file was changed");
}

#[test]
fn a_name_of_no_run_is_one_that_neither_is_live_nor_in_the_history() {
    let home = Home::new("unknown", "");
    let (code, out, said) = home.output(&["show", "nightly-17"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
    let nothing = "no live run `nightly-17`, and nothing is in the history hint: no run is live";
    assert!(said.contains(nothing), "{said}");
    let sim = Listening::sim(&home);
    home.run(&sim.url(), &[], AGENT);
    for (name, none) in [("nightly-17", "none"), ("n", "none of exactly this name")] {
        let (code, out, said) = home.output(&["show", name]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
        let none = format!("no live run `{name}`, and {none} in the history, which begins 20");
        assert!(said.contains(&none) && said.contains(" UTC hint: `endstop spend"), "{said}");
    }
}

#[test]
fn what_costs_nothing_and_what_is_not_wanted_is_not_recorded() {
    let home = Home::new("nothing", "");
    let sim = Listening::sim(&home);
    home.run("sim", &[], AGENT);
    assert!(!home.file().exists(), "the scripted model costs nothing");
    home.run(&sim.url(), &[], "true");
    assert!(!home.file().exists(), "a command without calls");
    home.run(&sim.url(), &["--no-history"], AGENT);
    assert!(!home.file().exists(), "--no-history");
    std::fs::write(home.0.join("config.toml"), "no-history = true\n").unwrap();
    home.run(&sim.url(), &[], AGENT);
    assert!(!home.file().exists(), "`no-history` in the configuration file");
    std::fs::write(home.0.join("config.toml"), "").unwrap();
    let (code, _, said) = home.output(&["agent", "--no-store", "-m", "scripted", "hello"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!home.file().exists(), "a scripted model of `agent`");
    home.run(&sim.url(), &[], AGENT);
    assert!(home.file().exists());
}

#[test]
fn a_call_through_two_endstops_of_one_user_is_recorded_once() {
    let home = Home::new("nested", "");
    let sim = Listening::sim(&home);
    let (told, _) = home.run(&sim.url(), &[], &format!("\"$AGENT\" run -q -- {AGENT}"));
    let spent = picos(&told["report"]["spend"]["usd"]);
    assert_eq!((picos(&home.spend("run")["total"]["cost_usd"]), sim.bill()), (spent, spent));
}

#[test]
fn a_history_that_cannot_be_written_stops_no_run_and_warns_once() {
    let home = Home::new("broken", "");
    let sim = Listening::sim(&home);
    std::fs::create_dir_all(home.file()).unwrap();
    let (told, said) = home.run(&sim.url(), &[], AGENT);
    assert_eq!(picos(&told["report"]["spend"]["usd"]), sim.bill());
    assert_eq!(said.matches("a call is not yet in the history").count(), 1, "{said}");
    assert!(!said.contains("missing in the history"), "they are in the journal: {said}");
    std::fs::remove_dir(home.file()).unwrap();
    let bill = home.spend("run");
    assert_eq!(bill["total"]["calls"], told["report"]["totals"]["attempts"]);
}

#[test]
fn a_run_that_is_killed_has_every_call_that_was_answered() {
    const CALLS: usize = 7;
    let home = Home::new("killed", "");
    let sim = Listening::sim(&home);
    let mut run = Driven::begin(&home, &sim.url());
    for number in 0..CALLS {
        chat(&run.address, "/v1/chat/completions", "", number);
    }
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    std::fs::write(home.0.join("work/done"), "").unwrap();
    let bill = home.spend("run");
    assert_eq!(bill["total"]["calls"].as_u64(), Some(CALLS as u64));
    let shown = home.json(&["show", bill["rows"][0]["run"].as_str().unwrap()]);
    assert_eq!((&shown["calls"], &shown["status"]), (&CALLS.into(), &Value::Null), "{shown}");
    assert_eq!(shown["ended"], Value::Null);
}

#[test]
fn the_calls_of_each_key_are_told_apart() {
    let home = Home::new("keys", BUDGETS);
    let sim = Listening::sim(&home);
    let key = |name: &str| {
        let (_, key, said) = home.output(&["key", "new", name, "--runs", "many"]);
        assert!(key.starts_with("endstop_"), "{said}");
        key.trim_end().to_owned()
    };
    let keys = [("alice", key("alice")), ("bob", key("bob"))];
    let mut serve = home.command(&[
        "serve",
        "--upstream",
        &sim.url(),
        "--listen",
        "127.0.0.1:0",
        "--steps",
        "99",
        "--keys",
    ]);
    serve.env("OPENAI_API_KEY", "of-the-upstream");
    let serve = Listening::start(serve);
    for (calls, (name, key)) in keys.iter().enumerate() {
        for number in 0..=calls {
            chat(&serve.1, &format!("/r/{name}-1/v1/chat/completions"), key, number);
        }
    }
    let bill = home.spend("key");
    let calls: Vec<(String, u64)> = bill["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["key"].as_str().unwrap().to_owned(), row["calls"].as_u64().unwrap()))
        .collect();
    assert_eq!(calls, [("alice".to_owned(), 1), ("bob".to_owned(), 2)], "{bill}");
    assert_eq!(bill["runs"], 2);
    // No key itself.
    for (_, key) in &keys {
        assert!(!has_bytes(&home, key));
    }
}

#[test]
fn acts_on_a_run_are_shown_when_it_is_over_with_who_and_why() {
    let home = Home::new("acts", "");
    let sim = Listening::sim(&home);
    let url = sim.url();
    let mut command = home.command(&["run", "--upstream", &url, "--steps", "100000"]);
    command.arg("--").arg(snapbox::cmd::cargo_bin!("endstop"));
    command.args(["demo-agent", "--iterations", "100000", "--pause", "10ms"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let run = loop {
        assert!(begun.elapsed() < PATIENCE, "no live run");
        let live = home.json(&["ps", "--json"]);
        if live["runs"][0]["steps"].as_u64() > Some(2) {
            break live["runs"][0]["run"].as_str().unwrap().to_owned();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // While it is live, its report is shown.
    assert!(home.json(&["show", &run])["report"].is_object());
    for arguments in [
        &["pause", &run, "--why", "lunch"][..],
        &["resume", &run],
        &["kill", &run, "--why", "enough"],
    ] {
        let (code, _, said) = home.output(arguments);
        assert_eq!(code, Some(0), "{arguments:?} {said}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(124));
    let shown = home.json(&["show", &run]);
    let acts: Vec<(&str, &str)> = shown["acts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|act| (act["what"].as_str().unwrap(), act["why"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(acts, [("paused", "lunch"), ("resumed", ""), ("killed", "enough")], "{shown}");
    let is_signed = |act: &Value| act["who"].as_str().unwrap().contains("(endstop, process ");
    assert!(shown["acts"].as_array().unwrap().iter().all(is_signed), "{shown}");
    assert_eq!((&shown["status"], &shown["reason"]), (&"stopped".into(), &"user_requested".into()));
}
