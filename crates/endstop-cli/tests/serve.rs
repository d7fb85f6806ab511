//! `endstop serve`: its output about runs while they continue.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

#[test]
fn pauses_and_warnings_of_a_run_are_told() {
    let policy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-pause.toml");
    let text = "[stop]\nlimit = 'steps >= 20'\n[warn]\nsoon = 'steps >= 1'\n\
                [pause]\nask = 'steps >= 2'\n[finish]\nreviewed = 'signal(\"review\")'\n";
    std::fs::write(&policy, text).unwrap();
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let mut serve = Command::new(endstop)
        .args(["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--pause-limit", "100ms"])
        .args(["--policy", policy.to_str().unwrap(), "--total-usd", "50"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(serve.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("; all runs together stop at $50.00"), "{line}");
    let addr = line.split("http://").nth(1).unwrap().split(';').next().unwrap();
    // It approves in `endstop run`; here it approves nothing, and ends nothing.
    let asked = Command::new("kill").args(["-USR1", &serve.id().to_string()]).status();
    assert!(asked.unwrap().success());
    let agent = Command::new(endstop)
        .args(["demo-agent", "--iterations", "3", "--searches", "1"])
        .env("ANTHROPIC_BASE_URL", format!("http://{addr}/r/build-1"))
        .output();
    agent.unwrap();
    let ended = Command::new("kill").args(["-TERM", &serve.id().to_string()]).status();
    assert!(ended.unwrap().success());
    let mut said = String::new();
    serve.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    serve.wait().unwrap();
    assert!(said.contains("SIGUSR1 does not say which run"), "{said}");
    let waits = "rule reviewed waits for the signal `review`: POST /endstop/v1/runs/RUN/signal";
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(waits), "{said}");
    assert!(said.contains("warning: run build-1: soon: "), "{said}");
    assert!(said.contains("run build-1: paused: ask: steps >= 2 is 2; POST /endstop"), "{said}");
}

/// Asks over the unix socket of the control API.
fn ask(socket: &Path, line: &str) -> String {
    use std::io::Write as _;
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let request = format!("{line} HTTP/1.1\r\nhost: endstop\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

#[test]
fn the_socket_of_the_control_api_is_private_and_its_path_is_printed() {
    use std::os::unix::fs::PermissionsExt as _;
    let runtime = std::env::temp_dir().join(format!("endstop-serve-{}", std::process::id()));
    std::fs::create_dir_all(&runtime).unwrap();
    for has_runtime in [true, false] {
        let mut serve = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        serve.args(["serve", "--upstream", "sim", "--listen", "127.0.0.1:0", "--steps", "9"]);
        serve.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &runtime);
        if has_runtime {
            serve.env("XDG_RUNTIME_DIR", &runtime);
        }
        let mut serve = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(serve.stdout.take().unwrap());
        let line = out.lines().map(Result::unwrap).find(|line| line.contains("control: ")).unwrap();
        let (command, url) = line.split_once(" http://").unwrap();
        let socket =
            Path::new(command.trim().strip_prefix("control: curl --unix-socket ").unwrap());
        assert_eq!(url, "endstop/endstop/v1/runs");
        let parent = socket.parent().unwrap();
        assert_eq!(parent == runtime.join("endstop"), has_runtime, "{line}");
        let mode = std::fs::metadata(parent).unwrap().permissions().mode() & 0o777;
        assert_eq!((parent.parent(), mode), (Some(&*runtime), 0o700));
        let list = ask(socket, "GET /endstop/v1/runs");
        assert!(list.starts_with("HTTP/1.1 200") && list.contains("\"runs\":[]"), "{list}");
        let ended = Command::new("kill").args(["-TERM", &serve.id().to_string()]).status();
        assert!(ended.unwrap().success());
        serve.wait().unwrap();
        assert!(!socket.exists());
    }
    std::fs::remove_dir_all(&runtime).unwrap();
}

#[test]
fn a_file_of_keys_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let keys = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-keys.txt");
    std::fs::write(&keys, "canary-key ci-*\n").unwrap();
    for (mode, is_open) in [(0o600, false), (0o640, true), (0o604, true), (0o400, false)] {
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut serve = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        // The address cannot be used, so it ends after it has read the keys.
        serve.args(["serve", "--upstream", "sim", "--listen", "192.0.2.1:1", "--steps", "9"]);
        let said = serve.arg("--keys").arg(&keys).output().unwrap().stderr;
        let said = String::from_utf8(said).unwrap();
        assert!(
            said.contains("cannot listen on 192.0.2.1:1") && !said.contains("canary"),
            "{said}"
        );
        let warning = "warning: other users can read the keys";
        assert_eq!(said.contains(warning), is_open, "{mode:o}: {said}");
    }
    std::fs::remove_file(&keys).unwrap();
}

/// The head and body of the answer to a model call.
fn chat(addr: &str, headers: &str) -> String {
    use std::io::Write as _;
    let body =
        r#"{"model":"gpt-4o-mini","max_tokens":9,"messages":[{"role":"user","content":"Hi."}]}"#;
    let mut stream = std::net::TcpStream::connect(addr).unwrap();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

/// A gateway on a free port, with its standard output, which has to stay open, and its address.
fn listening(options: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    let mut serve = Command::new(snapbox::cmd::cargo_bin!("endstop"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(serve.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let addr = line.split("http://").nth(1).unwrap().split(';').next().unwrap();
    (serve, out, addr.to_owned())
}

#[test]
fn a_refused_call_is_a_line_of_the_log_without_its_key() {
    let keys = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-log-keys.txt");
    std::fs::write(&keys, "canary-1 build\ncanary-2 ci-*\n").unwrap();
    let keys = keys.to_str().unwrap();
    let options = ["--upstream", "sim:loop", "--steps", "1", "--log", "json", "--keys", keys];
    let (mut serve, _out, addr) = listening(&options);
    let addr = addr.as_str();
    let ci = "authorization: Bearer canary-2\r\nx-endstop-run: ci-7\r\n";
    for (headers, status) in [
        (ci, "200"),
        (ci, "200"),
        ("authorization: Bearer canary-2\r\nx-endstop-run: build\r\n", "403"),
        ("authorization: Bearer canary-3\r\n", "401"),
        ("origin: https://site.example\r\n", "403"),
    ] {
        let got = chat(addr, headers);
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {got}");
    }
    let ended = Command::new("kill").args(["-TERM", &serve.id().to_string()]).status();
    assert!(ended.unwrap().success());
    let mut said = String::new();
    serve.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    serve.wait().unwrap();
    assert!(!said.contains("canary"), "{said}");
    let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines
        .map(|mut line| {
            let time = line.as_object_mut().unwrap().remove("time").unwrap();
            let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
            assert!(jiff::Timestamp::now().duration_since(time).as_secs() < 600, "{time}");
            line
        })
        .collect();
    let refused = |more: Value| {
        let mut line = json!({ "version": 1, "event": "refused", "run": null, "key": null,
            "key_name": null, "key_runs": null, "client": "127.0.0.1", "rule": null, "limit": null, "observed": null,
            "model": null, "api": "chat", "detail": null });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let expected = [
        json!({ "run": "ci-7", "key": 2, "key_name": "2", "key_runs": "ci-*", "reason": "steps_limit",
            "rule": "steps", "limit": "1", "observed": "1", "model": "gpt-4o-mini", "status": 200 }),
        json!({ "run": "build", "key": 2, "key_name": "2", "key_runs": "ci-*", "reason": "other_run", "status": 403 }),
        json!({ "reason": "unknown_key", "status": 401 }),
        json!({ "reason": "foreign_request", "api": null, "status": 403 }),
    ];
    assert_eq!(lines, expected.map(refused), "{said}");
}

#[test]
fn an_upstream_that_cannot_be_reached_is_said_once() {
    for flags in [&[][..], &["--log", "json"]] {
        // The port was free a moment ago, so nothing listens on it.
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let upstream = format!("http://{port}");
        let options = ["--steps", "9", "--upstream", &upstream];
        let (mut serve, _out, addr) = listening(&[&options, flags].concat());
        for _ in 0..2 {
            let got = chat(&addr, "x-endstop-run: a\r\n");
            assert!(got.starts_with("HTTP/1.1 502"), "{got}");
        }
        let ended = Command::new("kill").args(["-TERM", &serve.id().to_string()]).status();
        assert!(ended.unwrap().success());
        let mut said = String::new();
        serve.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        serve.wait().unwrap();
        let text = format!("cannot connect to {port}: ");
        assert_eq!(said.matches(&text).count(), 1, "{said}");
        if flags.is_empty() {
            assert!(said.contains(&format!("warning: {text}")), "{said}");
        } else {
            let told = said.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
            let told = told.unwrap();
            assert_eq!(told["event"], "upstream_unreachable");
            assert_eq!(told["upstream"], port.to_string());
            assert!(told["error"].as_str().unwrap().starts_with(&text), "{told}");
        }
    }
}
