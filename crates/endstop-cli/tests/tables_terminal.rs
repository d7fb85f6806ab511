//! The tables of `ps`, `budget`, `key list` and `spend --chart` under pseudo-terminals of several widths.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pty_process::blocking::Command as TerminalCommand;
use serde_json::json;

#[path = "support/terminal.rs"]
mod terminal;

use terminal::Terminal;

/// A narrow window, the usual one, and a wide one.
const WIDTHS: [u16; 3] = [40, 80, 120];

const CONFIG: &str = "[budget.me]\nlimit = [\"$5 per day\", \"$60 per month\"]\nparent = \"team-a\"\n\
    [budget.team-a]\nlimit = \"$3000 per month\"\n";

/// A separate home. Its path is short, because it holds sockets.
struct Home(PathBuf);

impl Home {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("endstop-w-{test}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        std::fs::write(path.join("config.toml"), CONFIG).unwrap();
        Self(path)
    }

    fn variables(&self) -> [(&'static str, PathBuf); 4] {
        [
            ("HOME", self.0.clone()),
            ("XDG_STATE_HOME", self.0.join("state")),
            ("XDG_RUNTIME_DIR", self.0.clone()),
            ("ENDSTOP_CONFIG", self.0.join("config.toml")),
        ]
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.envs(self.variables()).args(arguments).stdin(Stdio::null());
        command
    }

    /// The lines that a command prints on the standard output of a terminal.
    fn lines(&self, columns: u16, arguments: &[&str]) -> Vec<String> {
        let script = "\"$0\" \"$@\" 2>/dev/null && echo the end";
        let mut command = TerminalCommand::new("/bin/sh").args(["-c", script]);
        command = command.arg(snapbox::cmd::cargo_bin!("endstop")).args(arguments);
        for (name, value) in self.variables() {
            command = command.env(name, value);
        }
        let terminal = Terminal::begin_at(command, columns);
        let seen = terminal.seen_until("the end");
        seen.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `endstop serve`, ended when it is dropped.
struct Serving(Child);

impl Serving {
    /// A gateway with a run.
    fn start(home: &Home, run: &str) -> Self {
        let arguments = ["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--steps", "9"];
        let mut command = home.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on http://") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "it does not listen");
        }
        let address = line.split("http://").nth(1).unwrap();
        let address = address.split([',', ';', '\n']).next().unwrap().to_owned();
        // The test does not wait for the rest.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let serving = Self(child);
        let body = json!({ "model": "gpt-4o-mini", "max_tokens": 100,
            "messages": [{ "role": "user", "content": "Look." }] });
        let body = body.to_string();
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "POST /r/{run}/v1/chat/completions HTTP/1.1\r\nhost: {address}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        serving
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session with a cheap day and a day that costs three times as much.
fn session(home: &Home) -> PathBuf {
    let mut text = String::new();
    for (number, day) in [(1, 10), (2, 12), (3, 12), (4, 12)] {
        let time = format!("2026-01-{day}T12:00:0{number}.000Z");
        let user = json!({ "type": "user", "uuid": format!("u{number}"), "sessionId": "s1",
            "timestamp": time, "message": { "role": "user", "content": "go on" } });
        let assistant = json!({
            "type": "assistant", "uuid": format!("a{number}"), "sessionId": "s1",
            "requestId": format!("req_{number}"), "timestamp": time, "version": "2.0.0",
            "message": { "id": format!("msg_{number}"), "type": "message", "role": "assistant",
                "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
                "content": [{ "type": "text", "text": "done" }],
                "usage": { "input_tokens": 1000, "output_tokens": 100 } } });
        text += &format!("{user}\n{assistant}\n");
    }
    let file = home.0.join("session.jsonl");
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn tables_fit_terminals_of_every_width_and_break_no_word() {
    let home = Home::new("tables");
    for arguments in [
        &["key", "new", "alice", "--budget", "team-a"][..],
        &["key", "new", "build-bot", "--budget", "$5 per day", "--models", "gpt-4o*,claude-*"],
        &["budget", "adjust", "me", "+1.50", "--why", "spent on another machine"],
    ] {
        let output = home.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let session = session(&home);
    let _serving = Serving::start(&home, "nightly-1");
    let chart = ["spend", "--chart", session.to_str().unwrap()];
    for (arguments, words) in [
        (&["budget"][..], &["me", "team-a", "$60.00", "month", "$3,000.00", "$1.50"][..]),
        (&["budget", "me"], &["$5.00", "+$1.50", "another"]),
        (&["key", "list"], &["alice", "build-bot", "team-a", "gpt-4o*,", "claude-*", "never"]),
        (&chart, &["2026-01-10", "2026-01-12", "total", "$0.018"]),
        (&["ps"], &["nightly-1", "serve"]),
    ] {
        for columns in WIDTHS {
            let lines = home.lines(columns, arguments);
            let all = lines.join("\n");
            let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(columns), "{arguments:?} at {columns}:\n{all}");
            for word in words {
                let is_there = |line: &String| {
                    line.split([' ', '|', '\u{2502}', '\u{2506}']).any(|it| it == *word)
                };
                assert!(lines.iter().any(is_there), "{word} at {columns}:\n{all}");
            }
            // A narrow terminal has plain borders, or none.
            assert_eq!(all.is_ascii(), columns == 40, "{arguments:?} at {columns}:\n{all}");
        }
    }
}

#[test]
fn the_bars_of_spend_grow_with_the_terminal() {
    let home = Home::new("bars");
    let session = session(&home);
    for (columns, most, least) in [(40, 6, 2), (80, 13, 4), (120, 20, 6)] {
        let lines = home.lines(columns, &["spend", "--chart", session.to_str().unwrap()]);
        let bars = lines.iter().map(|line| line.matches('#').count()).filter(|&bar| bar > 0);
        assert_eq!(bars.collect::<Vec<_>>(), [least, most], "{columns}: {lines:?}");
    }
}
