//! `endstop budget`, `endstop budget adjust` and `endstop spend` with `--server`, at the control address of a gateway.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// Limits without a window, because one could end between two questions.
const BUDGETS: &str = "[budget.me]\nlimit = [\"$100\", \"5000 steps\"]\nparent = \"org\"\n\
                       [budget.org]\nlimit = \"$200\"\n";

/// A process that ends with the test.
struct Ending(Child);

impl Ending {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first line that a process prints, and the process.
fn started(mut command: Command) -> (Ending, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Ending(child), line)
}

/// A gateway with a control address, in the home `there`. Commands with `--server` have the home `here`, so that they find its
/// budgets and its history by its address alone.
struct Remote {
    path: PathBuf,
    upstream: Ending,
    gateway: Ending,
    address: String,
    control: String,
    socket: PathBuf,
}

impl Remote {
    fn new(test: &str, config: &str) -> Self {
        let path = std::env::temp_dir().join(format!("endstop-b-{test}-{}", std::process::id()));
        for directory in ["", "there", "here"] {
            std::fs::DirBuilder::new().mode(0o700).create(path.join(directory)).unwrap();
        }
        std::fs::write(path.join("there/config.toml"), config).unwrap();
        std::fs::write(path.join("here/config.toml"), "").unwrap();
        // Calls of a scripted model within the gateway would not be recorded.
        let (upstream, line) = started(command(&path.join("there"), &["sim"]));
        let at = line.split_once("http://").unwrap().1.split([',', ';', '\n']).next().unwrap();
        let mut serve = command(&path.join("there"), &["serve", "--json", "--usd", "50"]);
        serve.args(["--upstream", &format!("http://{at}"), "--listen", "127.0.0.1:0"]);
        serve.args(["--control", "127.0.0.1:0", "--control-token-env", "TEST_TOKEN"]);
        let (gateway, line) = started(serve);
        let listening: Value = serde_json::from_str(&line).unwrap();
        let word = |key: &str| listening[key].as_str().unwrap().to_owned();
        Self {
            address: word("address"),
            control: word("control_address"),
            socket: PathBuf::from(word("control_socket")),
            upstream,
            gateway,
            path,
        }
    }

    /// Makes a call of a run, and waits until its budget has nothing in flight.
    fn call(&self, run: &str) {
        let before = self.spent();
        let messages = json!([{ "role": "user", "content": "Search." }]);
        let body = json!({ "model": "gpt-4o-mini", "max_tokens": 20, "messages": messages });
        let host = self.address.strip_prefix("http://").unwrap();
        let path = format!("/r/{run}/v1/chat/completions");
        let got = ask(TcpStream::connect(host).unwrap(), "POST", &path, "", &body.to_string());
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        let begun = Instant::now();
        while self.spent().is_none_or(|now| Some(now) == before) {
            assert!(begun.elapsed() < PATIENCE, "the call is not settled");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The spend of the budget `me`, if nothing is held on it.
    fn spent(&self) -> Option<Value> {
        let limit = &self.json_there(&["budget", "me", "--json"])["budgets"][0]["limits"][0];
        (limit["held"] == "0").then(|| limit["spent"].clone())
    }

    /// A command of the gateway's user: its standard output.
    fn there(&self, arguments: &[&str]) -> String {
        let output = command(&self.path.join("there"), arguments).output().unwrap();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}\n{out}\n{error}");
        out
    }

    fn json_there(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.there(arguments)).unwrap()
    }

    /// A command with `--server` and a token: its exit code, standard output, and standard error in one line.
    fn run_with(&self, token: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = command(&self.path.join("here"), arguments);
        command.args(["--server", &self.control, "--token-env", "TEST_TOKEN"]);
        let output = command.env("TEST_TOKEN", token).output().unwrap();
        let error = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        (output.status.code(), text(&output.stdout), error)
    }

    /// The standard output and the standard error of a command with `--server` that succeeds.
    fn succeeds(&self, arguments: &[&str]) -> (String, String) {
        let (code, out, error) = self.run_with("secret", arguments);
        assert_eq!(code, Some(0), "{arguments:?}\n{out}\n{error}");
        (out, error)
    }

    /// The standard error of a command with `--server` that is refused.
    fn refuses(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.run_with("secret", arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}\n{error}");
        error
    }

    /// An answer of the control address: its head and its body.
    fn answer(&self, method: &str, path: &str, token: &str, body: &str) -> (String, Value) {
        let host = self.control.strip_prefix("http://").unwrap();
        let got = ask(TcpStream::connect(host).unwrap(), method, path, token, body);
        let (head, body) = got.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), serde_json::from_str(body).unwrap())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.gateway.end();
        self.upstream.end();
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.env("XDG_RUNTIME_DIR", home).env("TMPDIR", home).env("HOME", home);
    command.env("ENDSTOP_CONFIG", home.join("config.toml")).env("TEST_TOKEN", "secret");
    command.env("XDG_STATE_HOME", home.join("state")).env_remove("ENDSTOP_BASE_URL");
    command.args(arguments).stdin(Stdio::null());
    command
}

fn ask(mut stream: impl Read + Write, method: &str, path: &str, token: &str, body: &str) -> String {
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

#[test]
fn budgets_at_an_address_are_those_of_the_gateway() {
    let remote = Remote::new("list", BUDGETS);
    remote.call("nightly");
    for arguments in
        [&["budget", "--json"][..], &["budget", "me", "--json"], &["budget"], &["budget", "org"]]
    {
        assert_eq!(remote.succeeds(arguments).0, remote.there(arguments), "{arguments:?}");
    }
    let me = &remote.json_there(&["budget", "me", "--json"])["budgets"][0];
    assert_eq!(me["parents"], json!(["org"]));
    assert_eq!((&me["limits"][1]["unit"], &me["limits"][1]["spent"]), (&json!("steps"), &json!(1)));
    let (head, body) = remote.answer("GET", "/endstop/v1/budgets/me", "secret", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body["budgets"][0], *me);
    // The socket is that of the same user, and needs no token.
    let socket = UnixStream::connect(&remote.socket).unwrap();
    let got = ask(socket, "GET", "/endstop/v1/budgets/me", "", "");
    assert_eq!(serde_json::from_str::<Value>(got.split_once("\r\n\r\n").unwrap().1).unwrap(), body);
}

#[test]
fn a_changed_table_of_the_gateway_shows_at_its_address() {
    let remote = Remote::new("changed", BUDGETS);
    let changed = format!("{BUDGETS}[budget.night]\nlimit = \"$7\"\n");
    std::fs::write(remote.path.join("there/config.toml"), changed).unwrap();
    let begun = Instant::now();
    while !remote.succeeds(&["budget"]).0.contains("night") {
        assert!(begun.elapsed() < PATIENCE, "the new budget is not listed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let arguments = ["budget", "--json"];
    assert_eq!(remote.succeeds(&arguments).0, remote.there(&arguments));
}

#[test]
fn a_correction_at_an_address_is_recorded_with_who_when_and_why() {
    let remote = Remote::new("adjust", BUDGETS);
    let adjust = ["budget", "adjust", "me", "+1.50", "--why", "spent elsewhere"];
    let (table, error) = remote.succeeds(&adjust);
    assert_eq!((table, error.as_str()), (remote.there(&["budget"]), ""));
    let budget = |name: &str| remote.json_there(&["budget", name, "--json"])["budgets"][0].clone();
    for name in ["me", "org"] {
        assert_eq!(budget(name)["limits"][0]["spent"], "1.5", "{name}");
    }
    let made = &budget("me")["adjustments"][0];
    assert_eq!((&made["why"], &made["spent"]["usd"]), (&json!("spent elsewhere"), &json!("1.5")));
    assert!(made["who"].as_str().unwrap().contains("(endstop, process "), "{made}");
    assert!(made["at_ms"].as_u64().unwrap() > 0 && made["at"].is_string(), "{made}");
    assert_eq!(
        remote.succeeds(&["budget", "me"]).0,
        remote.there(&["budget", "me"]),
        "the table of corrections too"
    );

    let (_, note) = remote.succeeds(&["budget", "adjust", "me", "+5 tokens", "--why", "a test"]);
    assert!(note.contains("no limit counts tokens"), "{note}");
    // A program says who it is, or is the control API.
    for (by, who) in [(json!("ann"), "ann"), (Value::Null, "the control API")] {
        let body = json!({ "amount": "+1 steps", "message": "a test", "by": by }).to_string();
        let path = "/endstop/v1/budgets/me/adjust";
        let (head, answer) = remote.answer("POST", path, "secret", &body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{answer}");
        assert_eq!(answer["budgets"][0]["adjustments"][0]["who"], who);
        let names = [&answer["budgets"][0]["name"], &answer["budgets"][1]["name"]];
        assert_eq!(names, ["me", "org"]);
    }
    assert_eq!(budget("me")["limits"][1]["spent"], 2);
}

#[test]
fn a_correction_that_is_repeated_with_its_id_counts_once() {
    let remote = Remote::new("repeated", BUDGETS);
    let spent_after = |amount: &str, id: &str| {
        let body = json!({ "amount": amount, "message": "a test", "id": id }).to_string();
        let path = "/endstop/v1/budgets/me/adjust";
        let (head, answer) = remote.answer("POST", path, "secret", &body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{answer}");
        answer["budgets"][0]["limits"][0]["spent"].clone()
    };
    assert_eq!([spent_after("+3", "first"), spent_after("+3", "first")], ["3", "3"]);
    assert_eq!([spent_after("-3", "second"), spent_after("-3", "second")], ["0", "0"]);
}

/// The body of a request.
fn body_of(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let mut length = 0usize;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn a_correction_whose_answer_is_lost_is_sent_again_with_the_same_id() {
    let home = std::env::temp_dir().join(format!("endstop-b-lost-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&home).unwrap();
    std::fs::write(home.join("config.toml"), "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        // The first answer is lost.
        let (lost, _) = listener.accept().unwrap();
        let first = body_of(&lost);
        drop(lost);
        let (mut stream, _) = listener.accept().unwrap();
        let second = body_of(&stream);
        let answer = json!({ "version": 1, "budgets": [], "notes": ["it is made"] }).to_string();
        let length = answer.len();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{answer}").unwrap();
        (first, second)
    });
    let adjust = ["budget", "adjust", "me", "+1", "--why", "a test", "--token-env", "TEST_TOKEN"];
    let output = command(&home, &adjust).args(["--server", &server]).output().unwrap();
    let (first, second) = answering.join().unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    let _ = std::fs::remove_dir_all(&home);
    assert!(output.status.success() && error.contains("it is made"), "{out}\n{error}");
    assert_eq!(first, second);
    assert!(!first["id"].as_str().unwrap().is_empty(), "{first}");
    assert_eq!((&first["amount"], &first["message"]), (&json!("+1"), &json!("a test")));
}

#[test]
fn a_correction_at_an_address_has_the_checks_of_the_command() {
    let remote = Remote::new("checks", BUDGETS);
    for (amount, said) in [
        ("1", "has no sign"),
        ("much", "is not an amount"),
        ("+5 steps per day", "is not an amount"),
        ("-9", "budget me has spent $0.00 in its current windows hint: take back at most $0.00"),
    ] {
        let adjust = ["budget", "adjust", "me", amount, "--why", "a test"];
        let here = remote.refuses(&adjust);
        assert!(here.contains(said), "{amount}: {here}");
        let there = command(&remote.path.join("there"), &adjust).output().unwrap();
        let there = text(&there.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(here, there, "{amount}");
    }
    let empty = remote.refuses(&["budget", "adjust", "me", "+1", "--why", " "]);
    assert!(empty.contains("the reason is empty"), "{empty}");
    for wrong in [&["budget", "you"][..], &["budget", "adjust", "you", "+1", "--why", "a test"]] {
        let error = remote.refuses(wrong);
        assert!(error.contains("no budget `you`") && error.contains("budgets: me, org"), "{error}");
    }
    let strange = remote.refuses(&["budget", "a/b c"]);
    assert!(strange.contains("no budget `a/b c`"), "{strange}");
    let nameless = remote.refuses(&["budget", ""]);
    assert!(nameless.contains("the name of a budget is missing"), "{nameless}");
    let me = remote.json_there(&["budget", "me", "--json"]);
    assert_eq!(me["budgets"][0]["adjustments"], json!([]), "nothing was corrected");
}

#[test]
fn questions_at_an_address_need_the_token() {
    let remote = Remote::new("token", BUDGETS);
    for arguments in
        [&["budget"][..], &["budget", "adjust", "me", "+1", "--why", "a test"], &["spend"]]
    {
        let (code, out, error) = remote.run_with("wrong", arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {error}");
        assert!(error.contains("does not take the token of"), "{arguments:?}: {error}");
    }
    let body = json!({ "amount": "+1", "message": "a test" }).to_string();
    for (method, path, body) in [
        ("GET", "/endstop/v1/budgets", ""),
        ("GET", "/endstop/v1/budgets/me", ""),
        ("POST", "/endstop/v1/budgets/me/adjust", body.as_str()),
        ("GET", "/endstop/v1/spend", ""),
    ] {
        let (head, _) = remote.answer(method, path, "", body);
        assert!(head.starts_with("HTTP/1.1 401"), "{path}: {head}");
    }
    let me = remote.json_there(&["budget", "me", "--json"]);
    assert_eq!(me["budgets"][0]["adjustments"], json!([]), "nothing was corrected");
}

#[test]
fn options_of_this_machine_contradict_the_address_of_a_gateway() {
    let remote = Remote::new("conflict", BUDGETS);
    let store = ["--budget-store", "redis://127.0.0.1:1"];
    for arguments in [
        &["budget", store[0], store[1]][..],
        &["budget", "--policy", "policy.toml"],
        &["budget", "--budget", "$5 per day"],
        &["budget", "adjust", "me", "+1", "--why", "a test", store[0], store[1]],
        &["spend", "--transcripts"],
        &["spend", "--prices", "prices.json"],
        &["spend", "sessions"],
    ] {
        let error = remote.refuses(arguments);
        assert!(error.contains("cannot be used with"), "{arguments:?}: {error}");
    }
    // Defaults of this machine give way.
    let config = format!("budget-store = \"{}\"\ntranscripts = true\n", store[1]);
    std::fs::write(remote.path.join("here/config.toml"), config).unwrap();
    remote.succeeds(&["budget"]);
    remote.call("nightly");
    remote.succeeds(&["spend"]);
}

#[test]
fn spend_at_an_address_is_that_of_the_history_of_the_gateway() {
    let remote = Remote::new("spend", BUDGETS);
    let nothing = remote.refuses(&["spend"]);
    assert!(nothing.contains("no calls in the history"), "{nothing}");
    remote.call("nightly");
    remote.call("daily");
    for by in ["day", "model", "project", "run", "budget", "key"] {
        let arguments = ["spend", "--by", by, "--json"];
        assert_eq!(remote.succeeds(&arguments).0, remote.there(&arguments), "{by}");
        let arguments = ["spend", "--by", by, "--chart"];
        assert_eq!(remote.succeeds(&arguments).0, remote.there(&arguments), "{by}");
    }
    for selected in [
        &["--since", "7d", "--timezone", "Europe/Berlin"][..],
        &["--since", "2026-01-31", "--timezone", "-05:30"],
        &["--since", "9000-01-01", "--by", "run"],
    ] {
        let arguments = [&["spend", "--json"], selected].concat();
        assert_eq!(remote.succeeds(&arguments).0, remote.there(&arguments), "{selected:?}");
    }
    let runs = remote.json_there(&["spend", "--by", "run", "--json"]);
    let names = [&runs["rows"][0]["run"], &runs["rows"][1]["run"]];
    assert_eq!((names, &runs["total"]["calls"]), ([&json!("daily"), &json!("nightly")], &json!(2)));
    let budgets = remote.json_there(&["spend", "--by", "budget", "--json"]);
    assert_eq!(budgets["calls_in_several_rows"], 2, "{budgets}");

    for (query, said) in [
        ("by=hour", "`hour` is not a value of `by`"),
        ("since=week", "`week` is not a value of `since`"),
        ("timezone=Mars", "`Mars` is not a value of `timezone`"),
        ("until=7d", "unknown parameter `until`"),
    ] {
        let (head, answer) =
            remote.answer("GET", &format!("/endstop/v1/spend?{query}"), "secret", "");
        assert!(head.starts_with("HTTP/1.1 400"), "{query}: {head}");
        assert!(answer["error"].as_str().unwrap().contains(said), "{query}: {answer}");
    }
}
