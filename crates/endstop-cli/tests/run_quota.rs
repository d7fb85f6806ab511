//! `endstop run` with rules on the used part of a subscription's window, as the provider reports it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

#[path = "support/scripted_run.rs"]
mod scripted_run;
#[path = "support/upstream.rs"]
mod upstream;

use scripted_run::Run;
use upstream::Upstream;

/// A client that makes so many calls, and prints the text of each answer.
const CLIENT: &str = r#"
import json, os, sys, urllib.request
body = {'model': 'claude-sonnet-4-5', 'max_tokens': 100, 'messages': [{'role': 'user', 'content': 'Go.'}]}
for _ in range(int(sys.argv[1])):
    url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'
    request = urllib.request.Request(url, json.dumps(body).encode(), {'Content-Type': 'application/json'})
    answer = json.load(urllib.request.urlopen(request))
    print(answer['content'][0]['text'].splitlines()[0], flush=True)
"#;

fn message() -> Value {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{ "type": "text", "text": "Done." }], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 2 } })
}

/// An upstream whose n-th response reports this used part of the five hours, and their reset at a second.
fn plan(used: &'static [&'static str], reset: u64) -> Upstream {
    Upstream::start(move |number| {
        let used = used.get(number).or(used.last()).unwrap();
        let headers = format!(
            "anthropic-ratelimit-unified-5h-utilization: {used}\r\n\
             anthropic-ratelimit-unified-5h-reset: {reset}\r\n\
             anthropic-ratelimit-unified-7d-utilization: 0.125\r\n"
        );
        (headers, message())
    })
}

fn run(test: &str, upstream: &Upstream, flags: &[&str], script: &str) -> Run {
    let directory: PathBuf = scripted_run::directory("run_quota", test);
    let mut command = scripted_run::endstop();
    command.args(["run", "--upstream", &upstream.address]).args(flags);
    scripted_run::run(command, &directory, "client", CLIENT, script)
}

/// Far in the future.
const LATER: u64 = 4_102_444_800;

#[test]
fn a_rule_on_the_quota_of_a_plan_stops_the_command_with_124() {
    let upstream = plan(&["0.12", "0.89", "0.91"], LATER);
    let flags = ["--stop", "quota(\"5h\") >= 90%", "--steps", "500"];
    let run = run("stop", &upstream, &flags, "client 4; exit 7");
    let (stdout, stderr) = (run.stdout(), run.stderr());
    assert_eq!(run.code(), Some(124), "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!((lines.len(), &lines[..3]), (4, &["Done."; 3][..]), "{stdout}{stderr}");
    assert!(lines[3].contains("Endstop stopped this run"), "{stdout}");
    assert_eq!(upstream.heads().len(), 3);
    assert!(stderr.contains("quota(\"5h\") is 91% (limit 90%)"), "{stderr}");
    assert!(stderr.contains("plan: 5h 91%, 7d 12.5% used"), "{stderr}");
    assert_eq!(run.told["quotas"], json!({ "5h": "91%", "7d": "12.5%" }));
    assert_eq!((&run.told["upstream_calls"], &run.told["stopped"]), (&3.into(), &true.into()));
}

#[test]
fn a_quota_below_its_limit_stops_nothing() {
    let upstream = plan(&["0.12"], LATER);
    let flags = ["--stop", "quota(\"5h\") >= 90%", "--steps", "500"];
    let run = run("below", &upstream, &flags, "client 3; exit 7");
    assert_eq!(run.code(), Some(7), "{}", run.stderr());
    assert!(run.stderr().contains("plan: 5h 12%, 7d 12.5% used"), "{}", run.stderr());
}

/// After a reset a run continues within this time.
const AFTER_RESET: Duration = Duration::from_secs(5);
/// The time that calls themselves may take on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

/// The reset is reported as the seconds until then, as Codex does, so that a slow machine does not miss it.
#[test]
fn a_run_that_waits_for_the_reset_goes_on_after_it() {
    let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = Arc::clone(&arrivals);
    let upstream = Upstream::start(move |number| {
        noted.lock().unwrap().push(Instant::now());
        let used = if number == 0 { 91 } else { 3 };
        let headers = format!(
            "x-codex-primary-used-percent: {used}\r\nx-codex-primary-window-minutes: 300\r\n\
             x-codex-primary-reset-after-seconds: 2\r\n"
        );
        (headers, message())
    });
    let policy = scripted_run::directory("run_quota", "policy").join("policy.toml");
    let rules = "[stop]\nsteps = \"steps >= 500\"\n[pause]\nplan = 'quota(\"5h\") >= 90%'\n\
                 [rule.plan]\nresume = \"reset\"\n";
    std::fs::write(&policy, rules).unwrap();
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let flags = ["--policy", policy.to_str().unwrap()];
    let run = run("reset", &upstream, &flags, "client 2; date +%s; exit 7");
    let (stdout, stderr) = (run.stdout(), run.stderr());
    assert_eq!(run.code(), Some(7), "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[..2], ["Done.", "Done."], "{stdout}{stderr}");
    let ended: u64 = lines[2].parse().unwrap();
    assert!(ended >= begun + 2, "it did not wait: {stdout}");
    let arrivals = arrivals.lock().unwrap();
    let waited = arrivals[1] - arrivals[0];
    assert!(waited <= Duration::from_secs(2) + AFTER_RESET + SLACK, "{waited:?}");
    assert_eq!(run.told["quotas"]["5h"], "3%", "{}", run.told);
}
