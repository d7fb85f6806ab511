//! `endstop run` and single requests: a large first one under a small budget, which fits once it is counted, and one
//! with an unknown field.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../tests/support/golden.rs"]
mod file;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use file::golden;

/// How long the command may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run_requests").join(test);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Sends one request through `endstop run --upstream sim`. Returns the response and the JSON of the run.
fn ask_within(test: &str, usd: &str, path: &str, body: &Value) -> (String, Value) {
    ask(test, "sim", usd, path, body)
}

/// Sends one request through `endstop run` to an upstream.
fn ask(test: &str, upstream: &str, usd: &str, path: &str, body: &Value) -> (String, Value) {
    let directory = directory(test);
    let file = directory.join("run.json");
    let script = "printf %s \"$ANTHROPIC_BASE_URL\" >base.new; mv base.new base; until [ -e done ]; do sleep 0.05; done";
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command
        .current_dir(&directory)
        .stdin(Stdio::null())
        .stderr(File::create(directory.join("stderr")).unwrap());
    command.args(["run", "--upstream", upstream, "--usd", usd]);
    command.args(["--json-file", file.to_str().unwrap()]);
    let mut child = command.args(["--", "/bin/sh", "-c", script]).spawn().unwrap();
    let began = Instant::now();
    let base = loop {
        match std::fs::read_to_string(directory.join("base")) {
            Ok(base) => break base,
            Err(error) if began.elapsed() > PATIENCE => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let authority = base.strip_prefix("http://").unwrap();
    let (authority, prefix) = authority.split_once('/').unwrap_or((authority, ""));
    let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
    let body = body.to_string();
    let mut stream = TcpStream::connect(authority).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {prefix}{path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    std::fs::write(directory.join("done"), "").unwrap();
    child.wait().unwrap();
    (response, serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap())
}

/// About 53,000 tokens.
fn prose() -> String {
    "The build failed again in the night. ".repeat(5_700)
}

#[test]
fn a_first_request_of_53_000_tokens_makes_its_call() {
    let message = json!([{ "role": "user", "content": prose() }]);
    let messages = json!({ "model": "claude-opus-4-5", "max_tokens": 4_000, "messages": message });
    let responses = json!({ "model": "gpt-4o", "max_output_tokens": 4_000, "store": false,
        "input": prose() });
    let gemini = json!({ "contents": [{ "role": "user", "parts": [{ "text": prose() }] }],
        "generationConfig": { "maxOutputTokens": 4_000 } });
    let chat = |model: &str| json!({ "model": model, "max_completion_tokens": 4_000, "messages": message });
    let cases = [
        ("messages", "0.50", "/v1/messages", messages),
        ("responses", "0.50", "/v1/responses", responses),
        ("gemini", "0.50", "/v1beta/models/gemini-2.5-pro:generateContent", gemini),
        ("gpt-4o", "0.50", "/v1/chat/completions", chat("gpt-4o")),
        // By its bytes it would fit in $0.50.
        ("gpt-5", "0.20", "/v1/chat/completions", chat("gpt-5")),
    ];
    for (name, usd, path, body) in cases {
        let (response, told) = ask_within(name, usd, path, &body);
        assert!(response.starts_with("HTTP/1.1 200"), "{name}: {response}");
        assert_eq!(
            (&told["upstream_calls"], &told["stop_responses"]),
            (&1.into(), &0.into()),
            "{name}: {response}"
        );
        let input = told["report"]["totals"]["input_tokens"].as_u64();
        assert!(input > Some(52_000), "{name}: {input:?}");
        assert!(told["report"].get("overshoot").is_none(), "{name}: {told}");
    }
}

#[test]
fn an_unknown_field_is_named_at_the_end() {
    let body = json!({ "model": "gpt-4o", "max_completion_tokens": 50, "warp_factor": 9,
        "messages": [{ "role": "user", "content": "Go." }] });
    let (response, told) = ask_within("unknown-field", "0.50", "/v1/chat/completions", &body);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(told["unknown_fields"], json!(["warp_factor"]), "{told}");
    let written = told.to_string().replace(told["run"].as_str().unwrap(), "RUN");
    golden("run-unknown-field.json", &written, &[("at_ms", "0"), ("elapsed_ms", "0")]);
}

/// The end of the request, whose keys are sorted.
const BODY_END: &[u8] = b"\"model\":\"claude-sonnet-4-5\"}";

/// An upstream that answers one request and reports the used part of a plan's window.
fn plan_upstream() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4_096]);
        while !request.windows(BODY_END.len()).any(|part| part == BODY_END) {
            let length = stream.read(&mut piece).unwrap();
            request.extend_from_slice(piece.get(..length).unwrap());
        }
        let body = json!({ "id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": [{ "type": "text", "text": "Done." }],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 10, "output_tokens": 2 } });
        let body = body.to_string();
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             anthropic-ratelimit-unified-5h-utilization: 0.425\r\n\
             anthropic-ratelimit-unified-5h-reset: 4102444800\r\n\
             anthropic-ratelimit-unified-7d-utilization: 0.1\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
    });
    format!("http://{address}")
}

#[test]
fn the_summary_has_what_the_provider_reported_of_a_plan_and_of_its_reset() {
    let body = json!({ "max_tokens": 100, "messages": [{ "content": "Go.", "role": "user" }],
        "model": "claude-sonnet-4-5" });
    let (response, told) = ask("plan", &plan_upstream(), "1", "/v1/messages", &body);
    assert!(response.contains("Done."), "{response}");
    assert_eq!(told["quotas"], json!({ "5h": "42.5%", "7d": "10%" }), "{told}");
    assert_eq!(told["quota_resets"], json!({ "5h": "2100-01-01T00:00:00Z" }), "{told}");
}

#[test]
fn a_refused_call_is_not_reported_as_no_call() {
    let path = "/model/anthropic.claude-v2/invoke";
    let (response, told) = ask_within("bedrock", "1", path, &json!({}));
    assert!(response.starts_with("HTTP/1.1 402"), "{response}");
    assert_eq!((&told["upstream_calls"], &told["exit_code"]), (&0.into(), &0.into()));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run_requests/bedrock");
    let stderr = std::fs::read_to_string(directory.join("stderr")).unwrap();
    assert!(!stderr.contains("no model call came"), "{stderr}");
    assert!(stderr.contains("1 call refused"), "{stderr}");
}
