//! `endstop run` as a wrapper: exit codes, the environment, and the processes of the command.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A separate directory for a test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run").join(test);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn endstop(arguments: &[&str]) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    for name in
        ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "NO_PROXY"]
    {
        command.env_remove(name);
    }
    command.env_remove("OPENAI_BASE_URL").env_remove("ANTHROPIC_BASE_URL");
    command.stdin(Stdio::null()).args(arguments);
    command
}

fn run(flags: &[&str], script: &str) -> Output {
    let command = ["--", "/bin/sh", "-c", script];
    endstop(&[&["run"], flags, &command].concat()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_code_of_the_command_is_passed_on() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let output = run(&["-q"], script);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{script}");
        assert!(stderr.starts_with("endstop: no model call came"), "{script}: {stderr}");
    }
}

#[test]
fn what_cannot_be_run_has_a_code_of_its_own() {
    let code = |arguments: &[&str]| {
        let output = endstop(arguments).output().unwrap();
        let error = text(&output.stderr);
        assert!(error.contains("error: "), "{error}");
        output.status.code().unwrap()
    };
    assert_eq!(code(&["-q", "run", "--", "no-such-command-anywhere"]), 127);
    assert_eq!(code(&["-q", "run", "--", "/"]), 126);
    assert_eq!(code(&["run", "--steps", "many", "--", "true"]), 125);
    assert_eq!(code(&["run", "--stop", "steps >=", "--", "true"]), 125);
    assert_eq!(code(&["run", "--upstream", "ftp://x", "--", "true"]), 125);
    assert_eq!(code(&["run"]), 125);
    assert_eq!(code(&["run", "--json-file", "-", "--", "true"]), 125);
    assert_eq!(code(&["run", "--trace", "-", "--", "true"]), 125);
}

#[test]
fn a_mistyped_option_is_no_command() {
    for (options, hint) in [
        (&["--dryrun", "--usd", "2"][..], "--dry-run"),
        (&["--stepz", "3"], "--steps"),
        (&["-s", "3"], "-s"),
        (&["--usd", "2", "--json"], "--json-file"),
        (&["--timeout", "5"], "did you mean `5s`?"),
    ] {
        let output = endstop(&[&["run"], options, &["--", "true"]].concat()).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{error}");
        assert!(error.contains(hint), "{error}");
    }
    let output = endstop(&["run", "-q", "sh", "-c", "exit 3", "--steps"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let output = endstop(&["run", "-q", "--", "--no-such-command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn a_script_without_an_interpreter_is_run_by_the_shell() {
    let directory = directory("script");
    let script = directory.join("shot.sh");
    std::fs::write(&script, "echo \"shell <$1>\"\nexit 5\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    for name in [script.to_str().unwrap(), "shot.sh"] {
        let mut command = endstop(&["-q", "run", "--", name, "a b"]);
        let output = command.env("PATH", &path).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "shell <a b>\n");
    }
}

#[test]
fn standard_streams_are_the_commands_own() {
    let output = run(&[], "echo out; echo err >&2");
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).lines().any(|line| line == "err"));
}

#[test]
fn the_command_is_pointed_at_the_gateway() {
    let output = run(
        &["-q", "--upstream", "sim"],
        "echo $OPENAI_BASE_URL $ANTHROPIC_BASE_URL $NO_PROXY $OPENAI_API_KEY",
    );
    let line = text(&output.stdout);
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words[0].starts_with("http://127.0.0.1:") && words[0].ends_with("/v1"), "{line}");
    assert_eq!(words[0].strip_suffix("/v1"), Some(words[1]));
    assert_eq!(&words[2..], ["127.0.0.1,localhost,::1", "endstop-sim"]);
    let output = run(&["-q"], "echo \"<$OPENAI_API_KEY>\"; test -n \"$ENDSTOP_RUN\"");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("<>\n", Some(0)));
}

/// A proxy that is asked once, and answers as the upstream would; its address, and what it was asked.
fn proxy() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 16 << 10];
        let read = stream.read(&mut request).unwrap();
        let body = r#"{"id":"1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",
            "content":[{"type":"text","text":"Through the proxy."}],
            "usage":{"input_tokens":1,"output_tokens":1}}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
        text(request.get(..read).unwrap())
    });
    (address, asked)
}

#[test]
fn calls_go_through_the_proxy_and_the_command_reaches_the_gateway_past_it() {
    let (address, asked) = proxy();
    let file = directory("proxy").join("run.json");
    let script = "echo $HTTP_PROXY $NO_PROXY; \"$AGENT\" demo-agent --iterations 1";
    let mut command = endstop(&["run", "--upstream", "http://models.example/v1"]);
    command.args(["--json-file", file.to_str().unwrap(), "--", "/bin/sh", "-c", script]);
    command.env("AGENT", snapbox::cmd::cargo_bin!("endstop"));
    command.env("HTTP_PROXY", format!("http://me:secret@{address}")).env_remove("REQUEST_METHOD");
    let output = command.env_remove("no_proxy").output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("Through the proxy."), "{stdout}{stderr}");
    assert!(stdout.contains(&format!("@{address} 127.0.0.1,localhost")), "{stdout}");
    let asked = asked.join().unwrap();
    let target = "POST http://models.example/v1/messages HTTP/1.1\r\n";
    assert!(asked.starts_with(target), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    let told = std::fs::read_to_string(&file).unwrap();
    assert!(!stderr.contains("secret") && !told.contains("secret"), "{stderr}{told}");
}

#[test]
fn an_upstream_that_never_answers_is_given_up() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let upstream = format!("http://{}", listener.local_addr().unwrap());
    let flags = ["run", "--answer-within", "300ms", "--upstream", &upstream, "--"];
    let agent = snapbox::cmd::cargo_bin!("endstop").to_str().unwrap();
    let output = endstop(&[&flags[..], &[agent, "demo-agent"]].concat()).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("504") && stderr.contains("not answered within 300ms"), "{stderr}");
}

#[test]
fn the_limits_are_said_before_and_a_command_without_calls_is_told_so() {
    let error = text(&run(&[], "exit 0").stderr);
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(error.contains("endstop: stops at $5.00 or 100 steps (the default;"), "{error}");
    assert!(error.contains("no model call came through the gateway"), "{error}");
}

#[test]
fn a_process_that_is_left_behind_keeps_the_gateway_until_it_ends() {
    let directory = directory("left");
    let file = directory.join("ended");
    // It outlives the command for certain: it waits until that has gone.
    let script = format!(
        "setsid sh -c 'while kill -0 '$$'; do sleep 0.1; done; sleep 1; touch {}' >/dev/null 2>&1 & exit 4",
        file.display()
    );
    let output = run(&[], &script);
    assert_eq!(output.status.code(), Some(4));
    assert!(file.exists(), "it was not waited for");
    assert!(
        text(&output.stderr).contains("the command has ended and left"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_silent_daemon_is_not_waited_for() {
    let output = run(&["--linger", "0s"], "setsid sleep 300 >/dev/null 2>&1 & echo $!");
    assert_eq!(output.status.code(), Some(0));
    let pid = text(&output.stdout).trim().to_owned();
    assert!(Path::new("/proc").join(&pid).exists(), "it was ended, and nothing was stopped");
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
}

#[test]
fn orphans_that_end_leave_no_zombies() {
    let script = "zombies() { grep -l ') Z ' /proc/[0-9]*/stat 2>/dev/null | while read f; do \
                  cut -d' ' -f4 $f; done | grep -cx $PPID; }; \
                  for n in 1 2 3; do (sleep 0.1 &) ; done; sleep 0.6; \
                  for n in $(seq 300); do test $(zombies) = 0 && break; sleep 0.2; done; zombies";
    let output = run(&["-q"], script);
    assert_eq!(text(&output.stdout), "0\n");
}

#[test]
fn the_json_file_is_written_whole() {
    let directory = directory("json");
    let file = directory.join("run.json");
    let output = run(&["-q", "--json-file", file.to_str().unwrap()], "exit 6");
    assert_eq!(output.status.code(), Some(6));
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        (&value["version"], &value["exit_code"], &value["stopped"]),
        (&1.into(), &6.into(), &false.into())
    );
    assert_eq!(value["command"][2], "exit 6");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "the draft is gone");
    let nowhere = directory.join("no/such/directory.json");
    let output = run(&["-q", "--json-file", nowhere.to_str().unwrap()], "echo began");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
}

#[test]
fn other_signals_are_handed_on_and_do_not_end_endstop_alone() {
    for signal in ["USR2", "ALRM"] {
        let script =
            format!("trap 'kill $!; exit 8' {signal}; sleep 300 & kill -{signal} $PPID; wait");
        let output = run(&["-q", "--linger", "0s"], &script);
        assert_eq!(output.status.code(), Some(8), "{signal} {}", text(&output.stderr));
    }
}

#[test]
fn hang_ups_that_are_ignored_stay_ignored() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let script = format!(
        "trap '' HUP; exec {} -q run -- sh -c 'kill -HUP $$; kill -HUP $PPID; sleep 0.3; exit 8'",
        endstop.display()
    );
    let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(8), "{}", text(&output.stderr));
}
