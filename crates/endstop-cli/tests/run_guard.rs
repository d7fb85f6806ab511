//! The guard of `endstop run`: calls that bypass the gateway are refused, reported, and end the command.
//!
//! No test leaves loopback: a connection to a provider's host is refused before its name is looked up, and one that is
//! allowed goes to a proxy on loopback that the environment names.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;

#[path = "support/scripted_run.rs"]
mod scripted_run;

use scripted_run::Run;

/// Opens a tunnel through the proxy of the environment, as clients do, and says how it was answered. Then it sends
/// the bytes that a second argument names, and prints what comes back.
const CONNECT: &str = r#"
import base64, os, socket, sys, urllib.parse
proxy = urllib.parse.urlparse(os.environ['HTTPS_PROXY'])
assert os.environ['https_proxy'] == os.environ['HTTPS_PROXY'] and os.environ['NODE_USE_ENV_PROXY'] == '1'
stream = socket.create_connection((proxy.hostname, proxy.port))
password = base64.b64encode(f'{proxy.username}:{proxy.password}'.encode()).decode()
who = '' if 'NO_USER' in os.environ else f'Proxy-Authorization: Basic {password}\r\n'
stream.sendall(f'CONNECT {sys.argv[1]} HTTP/1.1\r\nHost: {sys.argv[1]}\r\n{who}\r\n'.encode())
head = b''
while not head.endswith(b'\r\n\r\n'):
    byte = stream.recv(1)
    assert byte, head
    head += byte
print('status', head.split()[1].decode(), flush=True)
if len(sys.argv) > 2:
    stream.sendall(bytes.fromhex(sys.argv[2]))
    stream.shutdown(socket.SHUT_WR)
    back = b''
    while part := stream.recv(65536):
        back += part
    print('back', back.hex(), flush=True)
"#;

/// One call through the gateway.
const CALL: &str = "\"$AGENT\" demo-agent --iterations 1 --searches 1 >/dev/null";

/// Runs a script over the scripted model; `connect HOST:PORT [HEX]` is `CONNECT`. `proxy` is that of the environment.
fn run(test: &str, flags: &[&str], script: &str, proxy: Option<&str>) -> Run {
    let directory = scripted_run::directory("run_guard", test);
    let mut command = scripted_run::endstop();
    proxy.map(|proxy| command.env("HTTPS_PROXY", proxy));
    command.env("AGENT", snapbox::cmd::cargo_bin!("endstop"));
    command.args(["run", "--upstream", "sim"]).args(flags);
    scripted_run::run(command, &directory, "connect", CONNECT, script)
}

/// A server that sends back what it gets; its port.
fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            send_back(stream.unwrap());
        }
    });
    port
}

fn send_back(mut stream: TcpStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    stream.write_all(&all).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

/// A proxy that answers every `CONNECT` with a tunnel to itself; its address, and the heads that it got.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://me:secret@{}", listener.local_addr().unwrap());
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            into.lock().unwrap().push(String::from_utf8(head).unwrap());
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            send_back(stream);
        }
    });
    (address, heads)
}

#[test]
fn a_command_whose_calls_bypass_the_gateway_is_refused_at_once_told_and_ended_with_125() {
    for quiet in [&["-q"][..], &[]] {
        let (proxy, heads) = proxy();
        let flags = [quiet, &["--guard-wait", "300ms"]].concat();
        let script =
            "for n in 1 2 3; do connect api.openai.com:443; sleep 1.1; done; exec sleep 600";
        let run = run("ended", &flags, script, Some(&proxy));
        let stderr = run.stderr();
        assert_eq!(run.code(), Some(125), "{stderr}");
        // The end may come before the third answer was printed.
        assert!(run.stdout().starts_with("status 403\nstatus 403\n"), "{}", run.stdout());
        assert!(
            stderr.contains("endstop: refused a connection to api.openai.com (OpenAI)"),
            "{stderr}"
        );
        assert!(
            stderr.contains("endstop: ended the command: refused 3 connections to api.openai.com"),
            "{stderr}"
        );
        assert!(stderr.contains("would have bypassed the limits"), "{stderr}");
        assert_eq!(run.told["command_exit_code"], 143, "it got SIGTERM");
        assert_eq!((&run.told["exit_code"], &run.told["stopped"]), (&125.into(), &false.into()));
        let guard = &run.told["guard"];
        assert_eq!((&guard["mode"], &guard["ended_command"]), (&"refuse".into(), &true.into()));
        assert_eq!(guard["refused"]["api.openai.com"], 3);
        assert_eq!(*heads.lock().unwrap(), Vec::<String>::new(), "nothing left this machine");
    }
}

/// It may wait for its user, and the connection may be for telemetry.
#[test]
fn a_command_with_one_refused_connection_and_no_call_is_not_ended() {
    let script = "connect api.anthropic.com:443; sleep 1; exit 7";
    let run = run("waits", &["--guard-wait", "0s"], script, None);
    let stderr = run.stderr();
    assert_eq!(run.code(), Some(7), "{stderr}");
    assert!(stderr.contains("endstop: refused a connection to api.anthropic.com"), "{stderr}");
    assert_eq!(run.told["guard"]["ended_command"], false);
}

#[test]
fn a_command_that_ignores_the_signal_is_killed() {
    let script = "trap '' TERM; for n in 1 2 3; do connect API.Anthropic.com.:443; sleep 1.1; done; while :; do sleep 0.1; done";
    let run = run("killed", &["--guard-wait", "0s"], script, None);
    assert_eq!((run.code(), &run.told["command_exit_code"]), (Some(125), &137.into()));
    assert!(run.stderr().contains("sent SIGTERM; SIGKILL follows in 5s"), "{}", run.stderr());
}

#[test]
fn calls_through_the_gateway_and_one_refused_connection_for_telemetry_go_on() {
    // It is longer without a call than the guard waits.
    let script = format!("{CALL}; connect api.anthropic.com:443; sleep 1; {CALL}; exit 7");
    let run = run("telemetry", &["-q", "--guard-wait", "1ms"], &script, None);
    let stderr = run.stderr();
    assert_eq!((run.code(), run.stdout().as_str()), (Some(7), "status 403\n"), "{stderr}");
    assert!(stderr.contains("endstop: refused a connection to api.anthropic.com"), "{stderr}");
    assert!(!stderr.contains("ends the command"), "{stderr}");
    assert!(run.told["upstream_calls"].as_u64().unwrap() >= 2, "{}", run.told);
    assert_eq!(run.told["guard"]["ended_command"], false);
}

#[test]
fn a_tool_that_tries_again_and_again_beside_calls_ends_the_command() {
    let script = format!("{CALL}; while :; do connect api.openai.com:443; done");
    let run = run("retries", &["--guard-wait", "10ms"], &script, None);
    assert_eq!(run.code(), Some(125), "{}", run.stderr());
    assert!(run.told["guard"]["refused"]["api.openai.com"].as_u64().unwrap() >= 10, "{}", run.told);
}

#[test]
fn other_hosts_pass_unchanged_both_ways_and_the_command_is_not_ended() {
    let port = echo();
    let bytes = "1603010200010001fc0303ff0d0a0d0a00";
    let script =
        format!("connect 127.0.0.1:{port} {bytes}; connect localhost:{port} {bytes}; {CALL}");
    let run = run("others", &["--guard-wait", "0s"], &script, None);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let answer = format!("status 200\nback {bytes}\n");
    assert_eq!(run.stdout(), [answer.as_str(), &answer].concat());
    assert_eq!(run.told["guard"]["other_tunnels"], 2);
    assert!(!run.stderr().contains("refused"), "{}", run.stderr());
}

#[test]
fn direct_connections_that_are_allowed_are_counted_and_go_through_the_users_own_proxy() {
    for flag in ["--allow-direct", "--dry-run"] {
        let (proxy, heads) = proxy();
        let script = "connect api.openai.com:443 1603; connect api.openai.com:443 1603; connect other.example:8443 17";
        let run = run("allowed", &["-q", "--guard-wait", "0s", flag], script, Some(&proxy));
        let stderr = run.stderr();
        assert_eq!(run.code(), Some(0), "{stderr}");
        assert_eq!(
            run.stdout(),
            "status 200\nback 1603\nstatus 200\nback 1603\nstatus 200\nback 17\n"
        );
        let guard = &run.told["guard"];
        assert_eq!(
            (&guard["mode"], &guard["direct"]["api.openai.com"]),
            (&"allow".into(), &2.into())
        );
        assert_eq!(guard["other_tunnels"], 1);
        assert!(
            stderr.contains("not limited: 2 connections to api.openai.com bypassed"),
            "{stderr}"
        );
        let heads = heads.lock().unwrap();
        assert!(heads[0].starts_with("CONNECT api.openai.com:443 HTTP/1.1\r\n"), "{heads:?}");
        assert!(heads[2].starts_with("CONNECT other.example:8443 HTTP/1.1\r\n"), "{heads:?}");
        assert!(heads.iter().all(|head| head.contains("Basic bWU6c2VjcmV0")), "{heads:?}");
        assert!(!stderr.contains("secret") && !run.told.to_string().contains("secret"));
    }
}

#[test]
fn direct_connections_to_a_host_that_is_named_pass_and_others_are_refused() {
    let (proxy, heads) = proxy();
    let script = "connect api.openai.com:443 16; connect api.anthropic.com:443";
    let flags = ["-q", "--allow-direct=api.openai.com"];
    let run = run("named", &flags, script, Some(&proxy));
    assert_eq!(run.stdout(), "status 200\nback 16\nstatus 403\n", "{}", run.stderr());
    let guard = &run.told["guard"];
    assert_eq!((&guard["mode"], &guard["direct"]["api.openai.com"]), (&"refuse".into(), &1.into()));
    assert_eq!(guard["refused"]["api.anthropic.com"], 1);
    assert_eq!(heads.lock().unwrap().len(), 1);
}

#[test]
fn a_program_without_the_password_of_the_proxy_gets_no_tunnel_and_that_is_said() {
    let port = echo();
    let run = run("password", &["-q"], &format!("NO_USER=1 connect 127.0.0.1:{port} 16"), None);
    assert!(run.stdout().starts_with("status 407\n"), "{}", run.stdout());
    let said = on_one_line(&run.stderr());
    assert!(
        said.contains("lacked the password of HTTPS_PROXY; that is no problem if the"),
        "{said}"
    );
    assert_eq!(run.told["guard"]["other_tunnels"], 0);
}

#[test]
fn without_the_guard_the_proxy_variables_stay_and_missing_calls_are_said() {
    let script = "echo \"<$HTTPS_PROXY> <$https_proxy> <$NODE_USE_ENV_PROXY> $NO_PROXY\"";
    let run = run("no-guard", &["-q", "--no-guard"], script, Some("http://127.0.0.1:9"));
    assert_eq!(run.code(), Some(0));
    assert_eq!(run.stdout(), "<http://127.0.0.1:9> <> <> 127.0.0.1,localhost,::1\n");
    let stderr = run.stderr();
    assert!(stderr.contains("no model call came through the gateway"), "{stderr}");
    assert!(stderr.contains("with --no-guard, calls that bypassed it were not seen"), "{stderr}");
    assert_eq!(run.told["guard"]["mode"], "off");
}

/// A text without its line breaks.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_without_calls_is_said_and_is_125_where_calls_are_required() {
    let run_of = |flags: &[&str], script: &str| run("required", flags, script, None);
    let without = run_of(&["-q"], "exit 3");
    assert_eq!(without.code(), Some(3));
    let text = "no model call came through the gateway; the command ended with exit code 3 before it made one";
    assert!(on_one_line(&without.stderr()).contains(text), "{}", without.stderr());
    let required = run_of(&["-q", "--require-calls"], "exit 0");
    assert_eq!((required.code(), &required.told["exit_code"]), (Some(125), &125.into()));
    let said = on_one_line(&required.stderr());
    assert!(said.contains("no model call came through the gateway, so nothing was"), "{said}");
    let codes = "--require-calls makes the exit code 125, and the command's own is ";
    assert!(said.contains(&format!("{codes}0")) && !said.contains("docs/"), "{said}");
    let only_a_list = run_of(
        &["-q", "--require-calls"],
        "python3 -c \"import os, urllib.request as u; u.urlopen(os.environ['OPENAI_BASE_URL'] + '/models').read()\"; exit 0",
    );
    assert_eq!(only_a_list.code(), Some(125), "{}", only_a_list.stderr());
    let said = on_one_line(&only_a_list.stderr());
    assert!(said.contains(&format!("{codes}0")), "{said}");
    let with = run_of(&["-q", "--require-calls"], &format!("{CALL}; exit 3"));
    assert_eq!((with.code(), with.stderr().as_str()), (Some(3), ""));
    let stopped =
        run_of(&["-q", "--require-calls", "--timeout", "1ms", "--grace", "0s"], "exec sleep 600");
    assert_eq!(stopped.code(), Some(124), "{}", stopped.stderr());
}

#[test]
fn entries_of_no_proxy_that_take_model_hosts_out_are_said() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    for (value, is_said) in
        [("*", true), ("corp.example,.anthropic.com", true), ("corp.example", false)]
    {
        let mut command = Command::new(endstop);
        command.env("NO_PROXY", value).env_remove("no_proxy").args(["run", "--", "true"]);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr.contains("out of the guard"), is_said, "{value}: {stderr}");
    }
}

#[test]
fn a_command_that_was_started_although_its_calls_go_elsewhere_is_not_ended() {
    let directory = scripted_run::directory("run_guard", "elsewhere");
    let (file, program) = (directory.join("run.json"), directory.join("claude"));
    std::fs::write(directory.join("connect.py"), CONNECT).unwrap();
    let connect =
        "python3 \"$(dirname \"$0\")/connect.py\" bedrock-runtime.eu-west-1.amazonaws.com:443";
    std::fs::write(&program, format!("#!/bin/sh\n{connect}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (proxy, _) = proxy();
    let mut command = scripted_run::endstop();
    command.env("HTTPS_PROXY", proxy).env("HOME", &directory).env("CLAUDE_CODE_USE_BEDROCK", "1");
    command.args(["run", "--timeout", "1h", "--guard-wait", "0s", "--json-file"]).arg(&file);
    let output = command.arg("--").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "status 200\n");
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(told["guard"]["direct"]["bedrock-runtime.eu-west-1.amazonaws.com"], 1);
}
