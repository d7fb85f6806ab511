//! `endstop run --intercept`: programs that call their provider at its own address are limited, and nothing else is read.
//!
//! No test leaves loopback: the gateway answers connections to model providers, and its upstream is the scripted model, or a
//! server of the test behind a proxy of the test.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "support/scripted_run.rs"]
mod scripted_run;
#[path = "support/tls_proxy.rs"]
mod tls_proxy;

use scripted_run::Run;
use tls_proxy::TlsProxy;

/// A client with its own addresses; it prints the status of each answer.
const CLIENT: &str = r#"
import json, os, sys, urllib.error, urllib.request
bodies = {
    'https://api.openai.com/v1/chat/completions': {'model': 'gpt-4o', 'messages': [{'role': 'user', 'content': 'hi'}]},
    'https://api.anthropic.com/v1/messages': {'model': 'claude-sonnet-4-5', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'hi'}]},
}
for url, body in list(bodies.items()) * int(sys.argv[1]):
    request = urllib.request.Request(url, json.dumps(body).encode(), {'Content-Type': 'application/json'})
    try:
        print(urllib.request.urlopen(request).status, flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, flush=True)
    except Exception as error:
        print(error, flush=True)
"#;

/// Runs a script over the scripted model; `client N` makes 2 N calls. All files of the run are in the directory that comes
/// back.
fn run(test: &str, flags: &[&str], script: &str) -> (Run, PathBuf) {
    let directory = scripted_run::directory("run_intercept", test);
    let mut command = scripted_run::endstop();
    for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR", "PLACE"] {
        command.env(name, &directory);
    }
    command.args(["run", "--upstream", "sim:loop", "--intercept"]).args(flags);
    let run = scripted_run::run(command, &directory, "client", CLIENT, script);
    (run, directory)
}

#[test]
fn a_program_with_its_providers_own_addresses_is_stopped_and_that_is_said() {
    let (run, _) = run("stopped", &["--steps", "3"], "client 3; echo \"<$OPENAI_BASE_URL>\"");
    let stderr = run.stderr();
    assert_eq!(run.code(), Some(124), "{stderr}");
    assert_eq!(run.told["upstream_calls"], 3, "{}{stderr}", run.stdout());
    assert!(run.stdout().ends_with("<>\n"), "{}", run.stdout());
    let guard = &run.told["guard"];
    assert_eq!(guard["mode"], "intercept");
    for host in ["api.openai.com", "api.anthropic.com"] {
        assert!(guard["intercepted"][host].as_u64().unwrap() >= 1, "{guard}");
    }
    assert!(stderr.contains("endstop: intercepted"), "{stderr}");
    assert!(stderr.contains("calls to model providers are intercepted"), "{stderr}");
}

#[test]
fn a_program_that_does_not_trust_the_certificate_is_said_and_ended() {
    let script =
        "for n in 1 2 3; do SSL_CERT_FILE=/dev/null client 1; sleep 1.1; done; exec sleep 600";
    let (run, _) = run("distrust", &["--guard-wait", "1s", "-q"], script);
    let stderr = run.stderr();
    assert_eq!(run.code(), Some(125), "{stderr}");
    assert!(stderr.contains("does not trust the certificate of this run"), "{stderr}");
    assert_eq!(run.told["upstream_calls"], 0);
    assert!(run.told["guard"]["untrusted"]["api.openai.com"].as_u64().unwrap() >= 1, "{stderr}");
}

/// Its end and its last connection come at the same time.
#[test]
fn a_program_that_does_not_trust_the_certificate_and_ends_at_once_is_said() {
    let (run, _) = run("distrust-end", &["-q"], "SSL_CERT_FILE=/dev/null client 1");
    let stderr = run.stderr();
    assert_eq!(run.told["upstream_calls"], 0);
    for host in ["api.openai.com", "api.anthropic.com"] {
        assert_eq!(run.told["guard"]["untrusted"][host], 1, "{stderr}");
    }
    assert!(stderr.contains("it does not trust the certificate of this run"), "{stderr}");
}

#[test]
fn no_key_is_ever_on_disk_and_the_certificates_go_with_the_run() {
    let script = "client 1; stat -c %a \"$SSL_CERT_FILE\" \"$(dirname \"$SSL_CERT_FILE\")\"; \
        grep -rlI 'BEGIN.*PRIVATE KEY' \"$PLACE\" /proc/self/environ | grep -v live.json; grep -c BEGIN \"$NODE_EXTRA_CA_CERTS\"; \
        echo \"$SSL_CERT_FILE\"";
    let (run, directory) = run("keys", &[], script);
    let stdout = run.stdout();
    let lines: Vec<&str> = stdout.lines().collect();
    let [_, _, "600", "700", "1", bundle] = lines.as_slice() else {
        panic!("{stdout}{}", run.stderr())
    };
    // Others could replace files in a checkout under /tmp: then they are in the home of the user.
    let is_open =
        |path: &Path| path.metadata().is_ok_and(|it| it.permissions().mode() & 0o002 != 0);
    let is_checkout_open = directory.ancestors().any(is_open);
    assert!(is_checkout_open || Path::new(bundle).starts_with(&directory), "{bundle}");
    assert!(!Path::new(bundle).parent().unwrap().exists(), "{bundle}");
}

#[test]
fn options_that_exclude_interception_are_refused() {
    for (option, why) in [
        ("--upstream=http://127.0.0.1:9", "takes no --upstream but `sim`"),
        ("--allow-direct", "--allow-direct=HOST"),
    ] {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        let output = command.args(["run", "--intercept", option, "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(why), "{option}: {stderr}");
    }
}

/// A model call, with white space and an escape that no serializer would write so.
const CALL: &str = r#"{ "model":"gpt-4o" ,  "messages":[ {"role":"user","content":"h\u0069"} ]}"#;
const ANSWER: &str = r#"{ "id":"chatcmpl-1","object":"chat.completion" ,"created":1,"model":"gpt-4o",  "choices":[{"index":0,"message":{"role":"assistant","content":"h\u0069"},"finish_reason":"stop"}], "usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;
/// Another request to the same host, which is not read.
const OTHER_CALL: &str = r#"{ "input" : "h\u0069", "model":"text-embedding-3-small"}"#;
const OTHER_ANSWER: &str = r#"{ "object" : "list","data":[ ] }"#;

/// A client of one host that makes both, and prints the bodies of the answers as they are.
const OPENAI_CLIENT: &str = r#"
import sys, urllib.request
for path, body in [('/v1/chat/completions', sys.argv[1]), ('/v1/embeddings?x=%20y', sys.argv[2])]:
    headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer key-of-mine'}
    request = urllib.request.Request('https://api.openai.com' + path, body.encode(), headers)
    print(urllib.request.urlopen(request).read().decode(), flush=True)
"#;

#[test]
fn an_intercepted_call_arrives_at_the_host_that_the_program_named_unchanged() {
    let proxy = TlsProxy::start("api.openai.com", |request| {
        if request.contains("/chat/completions") { ANSWER } else { OTHER_ANSWER }
    });
    let directory = scripted_run::directory("run_intercept", "forwarded");
    let roots = directory.join("provider.pem");
    std::fs::write(&roots, &proxy.pem).unwrap();
    let mut command = scripted_run::endstop();
    for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR"] {
        command.env(name, &directory);
    }
    command.env("HTTPS_PROXY", &proxy.address).env("SSL_CERT_FILE", &roots);
    command.args(["run", "--intercept", "--steps", "5"]);
    let script = format!("client '{CALL}' '{OTHER_CALL}'");
    let run = scripted_run::run(command, &directory, "client", OPENAI_CLIENT, &script);
    let (stdout, stderr) = (run.stdout(), run.stderr());
    assert_eq!(run.code(), Some(0), "{stderr}");
    assert_eq!(stdout, format!("{ANSWER}\n{OTHER_ANSWER}\n"), "{stderr}");
    assert_eq!((&run.told["upstream_calls"], &run.told["unmetered"]), (&1.into(), &1.into()));
    let arrivals = proxy.arrivals();
    let [call, other] = arrivals.as_slice() else { panic!("{arrivals:?}") };
    for (arrival, line, body) in [
        (call, "POST /v1/chat/completions HTTP/1.1\r\n", CALL),
        (other, "POST /v1/embeddings?x=%20y HTTP/1.1\r\n", OTHER_CALL),
    ] {
        assert_eq!(arrival.tunnel, "CONNECT api.openai.com:443 HTTP/1.1", "{arrival:?}");
        assert!(arrival.head.starts_with(line), "{arrival:?}");
        let lower = arrival.head.to_ascii_lowercase();
        assert!(lower.contains("\r\nhost: api.openai.com\r\n"), "{arrival:?}");
        assert!(lower.contains("\r\nauthorization: bearer key-of-mine\r\n"), "{arrival:?}");
        assert_eq!(arrival.body, body.as_bytes(), "{arrival:?}");
    }
}
