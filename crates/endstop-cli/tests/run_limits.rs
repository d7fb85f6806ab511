//! `endstop run` when a limit is reached, over the scripted model: the stop response, the end of a command
//! that ignores it, and the report.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A separate directory for a test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run_limits").join(test);
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// An agent that loops forever, except for its own limits.
const AGENT: &str = "\"$AGENT\" demo-agent --iterations 9 --searches 3";

/// Runs a script over the scripted model; `$AGENT` is this program. With the JSON of what happened.
fn run(test: &str, flags: &[&str], script: &str) -> (Output, Value) {
    let file = directory(test).join("run.json");
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let mut command = Command::new(endstop);
    command.env("AGENT", endstop).stdin(Stdio::null());
    command.args(["run", "--upstream", "sim", "--json-file", file.to_str().unwrap()]).args(flags);
    let output = command.args(["--", "/bin/sh", "-c", script]).output().unwrap();
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, serde_json::from_str(&text).unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_limit_of_three_steps_lets_three_calls_through_and_ends_the_agent() {
    let (output, told) = run("steps", &["--steps", "3"], AGENT);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(124), "{stderr}");
    assert!(stdout.contains("agent: Endstop stopped this run: steps_limit"), "{stdout}");
    assert_eq!((&told["upstream_calls"], &told["stopped"]), (&3.into(), &true.into()));
    assert_eq!((&told["exit_code"], &told["command_exit_code"]), (&124.into(), &0.into()));
    assert_eq!((&told["ended_by"], &told["left_behind_ended_by"]), (&Value::Null, &Value::Null));
    assert_eq!(told["report"]["totals"]["steps"], 3);
    assert!(told["stop_responses"].as_u64().unwrap() >= 1);
    assert!(stderr.contains("terminated by steps >= 3"), "{stderr}");
    assert!(stderr.contains("3 steps \u{b7} 3 model calls"), "{stderr}");
    assert!(
        stderr.ends_with("\nendstop: to continue, raise the limit or start a new run\n"),
        "{stderr}"
    );
}

#[test]
fn the_code_of_the_command_can_be_kept() {
    let script = format!("{AGENT}; exit 6");
    let (output, told) = run("preserve", &["--steps", "2", "--preserve-status"], &script);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(told["stopped"], true);
    let (output, _) = run("not-preserved", &["-q", "--steps", "2"], &script);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(124), ""));
}

#[test]
fn no_more_money_is_spent_than_there_is() {
    let (output, told) = run("money", &["--usd", "0.05"], AGENT);
    assert_eq!(output.status.code(), Some(124));
    let spent: f64 = told["report"]["spend"]["usd"].as_str().unwrap().parse().unwrap();
    assert!(spent > 0.0 && spent <= 0.05, "{spent}");
    assert_eq!(told["report"]["reason"], "cost_limit");
    assert_eq!(told["report"]["spend"]["is"], "known");
    assert!(told["report"].get("overshoot").is_none());
}

#[test]
fn an_agent_that_ends_by_itself_is_not_stopped() {
    let script = "\"$AGENT\" demo-agent --iterations 1 --searches 1";
    let (output, told) = run("by-itself", &["--steps", "9"], script);
    assert_eq!((output.status.code(), &told["stopped"]), (Some(0), &false.into()));
    assert!(!text(&output.stderr).contains("to continue"), "{}", text(&output.stderr));
    assert_eq!((&told["upstream_calls"], &told["stop_responses"]), (&2.into(), &0.into()));
    let agents = told["report"]["sub_agents"].as_array().unwrap();
    assert_eq!((agents.len(), agents[0]["agent"].as_str()), (1, Some("research-1")));
}

#[test]
fn a_time_limit_ends_a_command_that_makes_no_call() {
    let (output, told) = run("time", &["--timeout", "300ms", "--grace", "0s"], "exec sleep 60");
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!((&told["command_exit_code"], &told["ended_by"]), (&143.into(), &"SIGTERM".into()));
    assert_eq!(
        (&told["left_behind_ended_by"], &told["report"]["reason"]),
        (&Value::Null, &"time_limit".into())
    );
}

#[test]
fn a_time_limit_ends_a_command_that_hangs_on_when_its_agent_has_ended() {
    let script = "\"$AGENT\" demo-agent --iterations 1 --searches 1; exec sleep 300";
    let (output, told) = run("hangs-on", &["--timeout", "3s", "--grace", "0s"], script);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!((&told["command_exit_code"], &told["stopped"]), (&143.into(), &true.into()));
    assert_eq!(told["report"]["reason"], "time_limit");
}

#[test]
fn a_command_that_ignores_the_stop_and_the_signal_is_killed_with_all_it_began() {
    // The grandchild has a separate session, and its parent is gone. The limit is reached once both ignore it.
    let deaf = directory("deaf").join("pid");
    let script = format!(
        "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ >{file}; while :; do sleep 0.1; done' &); \
         until [ -s {file} ]; do sleep 0.1; done; cat {file}; {AGENT} >/dev/null; while :; do sleep 0.1; done",
        file = deaf.display(),
    );
    let (output, told) = run("kill", &["--steps", "1", "--grace", "100ms"], &script);
    assert_eq!(output.status.code(), Some(124));
    assert_eq!((&told["command_exit_code"], &told["ended_by"]), (&137.into(), &"SIGKILL".into()));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("sent SIGTERM; SIGKILL follows in 5s"), "{stderr}");
    assert_eq!(stderr.matches("endstop: sent SIGKILL").count(), 1, "{stderr}");
    let pid = text(&output.stdout).trim().to_owned();
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
    assert!(!Path::new("/proc").join(pid).exists(), "the grandchild is still there");
}

#[test]
fn what_a_stopped_command_left_behind_has_the_grace_and_is_ended_then() {
    let script = format!("setsid sleep 60 >/dev/null 2>&1 & echo $!; {AGENT} >/dev/null");
    let (output, told) = run("left", &["--steps", "1", "--grace", "5s"], &script);
    let stderr = text(&output.stderr);
    assert!(told["elapsed_ms"].as_u64().unwrap() >= 5_000, "{told}");
    assert_eq!(
        (&told["ended_by"], &told["left_behind_ended_by"]),
        (&Value::Null, &"SIGTERM".into())
    );
    assert!(stderr.contains("given the rest of --grace"), "{stderr}");
    assert!(stderr.contains("endstop: sent SIGTERM"), "{stderr}");
    assert_eq!(output.status.code(), Some(124));
    let pid = text(&output.stdout).trim().to_owned();
    assert!(!Path::new("/proc").join(pid).exists(), "it is still there");
}

#[test]
fn a_daemon_that_goes_on_calling_is_served_and_limited() {
    let script = format!("setsid sh -c '{}' >/dev/null 2>&1 & exit 0", AGENT.replace('\'', ""));
    let (output, told) = run("daemon", &["--steps", "4"], &script);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!((&told["command_exit_code"], &told["upstream_calls"]), (&0.into(), &4.into()));
}

#[test]
fn a_dry_run_stops_nothing_and_says_what_would_have_stopped() {
    let (output, told) = run("dry", &["--dry-run", "--steps", "5"], AGENT);
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), &told["stopped"]), (Some(0), &false.into()), "{stderr}");
    assert_eq!(told["upstream_calls"], 36);
    let dry = &told["dry_run"];
    assert_eq!((&dry["would_have_stopped"], &dry["steps"]), (&true.into(), &5.into()));
    assert_eq!(dry["reason"], "steps_limit");
    assert!(stderr.contains("dry run: it would have been stopped after"), "{stderr}");
    // Nothing was stopped or refused, so the record says neither.
    assert!(stderr.contains("would have stopped: steps_limit"), "{stderr}");
    assert!(!stderr.lines().any(|it| it.starts_with("stopped: ") || it.starts_with("refused: ")));
    let (_, told) = run("dry-none", &["--dry-run", "--steps", "500"], AGENT);
    assert_eq!(told["dry_run"]["would_have_stopped"], false);
}

#[test]
fn a_dry_run_sees_a_limit_in_time_without_a_call() {
    let (output, summary) = run("dry-time", &["--dry-run", "--timeout", "200ms"], "sleep 0.6");
    assert_eq!((output.status.code(), &summary["stopped"]), (Some(0), &false.into()));
    let dry = &summary["dry_run"];
    assert_eq!((&dry["would_have_stopped"], &dry["reason"]), (&true.into(), &"time_limit".into()));
    let (at, elapsed) = (dry["at_ms"].as_u64().unwrap(), summary["elapsed_ms"].as_u64().unwrap());
    assert!(
        200 <= at && at <= elapsed && elapsed >= 600,
        "the summary is of the entire run: {summary}"
    );
}

#[test]
fn a_run_inside_a_run_is_limited_by_both() {
    let inner = format!("\"$AGENT\" -q run --steps 100 -- {AGENT}; echo inner=$?");
    let (output, told) = run("nested", &["--steps", "3"], &inner);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!(told["upstream_calls"], 3);
    // The inner run was not stopped by its own limit.
    assert!(text(&output.stdout).contains("inner=0"), "{}", text(&output.stdout));
}

#[test]
fn a_kill_file_ends_the_command_at_once() {
    let file = directory("kill-file").join("stop");
    let script = format!("touch {}; exec sleep 60", file.display());
    let (output, told) = run("kill-file-run", &["--kill-file", file.to_str().unwrap()], &script);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!(told["report"]["reason"], "user_requested");
}

#[test]
fn a_pause_file_holds_the_calls_of_the_command_until_it_is_gone() {
    let file = directory("pause-file").join("hold");
    std::fs::write(&file, "lunch").unwrap();
    let held = file.display();
    // The agent waits with its first call; the file is removed once that was printed.
    let script = format!("(sleep 1; rm {held}) & {AGENT}; wait");
    let flags = ["--steps", "3", "--pause-file", file.to_str().unwrap()];
    let (output, told) = run("pause-file-run", &flags, &script);
    let stderr = text(&output.stderr);
    let words = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(&format!("endstop: paused by {held}: lunch endstop: resumed")),
        "{stderr}"
    );
    assert_eq!((output.status.code(), &told["upstream_calls"]), (Some(124), &3.into()), "{stderr}");
    assert_eq!(told["report"]["reason"], "steps_limit", "{told}");
}

#[test]
fn a_signal_file_stops_the_command() {
    let file = directory("signal-file").join("review");
    let script = format!("touch {}; exec sleep 60", file.display());
    let signal = format!("review={}", file.display());
    let flags =
        ["--stop", "signal(\"review\") or steps >= 9", "--signal", &signal, "--grace", "1ms"];
    let (output, told) = run("signal-file-run", &flags, &script);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    assert_eq!(told["report"]["reason"], "user_requested", "{told}");
}

#[test]
fn a_rule_that_waits_for_a_signal_is_told_with_what_sets_it() {
    let stop = ["--stop", "signal(\"review\") or steps >= 9"];
    let (output, _) = run("signal-told", &stop, "exit 0");
    let stderr = text(&output.stderr);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let warning = "waits for the signal `review`, and nothing sets it: add --signal review=FILE";
    assert!(words(&stderr).contains(warning), "{stderr}");
    let (output, _) =
        run("signal-set", &[&stop[..], &["--signal", "review=ok"]].concat(), "exit 0");
    let stderr = text(&output.stderr);
    assert!(
        words(&stderr).contains("waits for the signal `review`: create `ok` to set it"),
        "{stderr}"
    );
}

/// A trace of the gateway has the reserved amounts, and reservations are not spend.
#[test]
fn the_trace_of_a_run_is_explained_swept_and_suggested_by_what_was_spent() {
    let trace = directory("trace").join("a.jsonl");
    let trace = trace.to_str().unwrap();
    let agent = "\"$AGENT\" demo-agent --iterations 15 --searches 3";
    let (_, told) = run("trace-run", &["--usd", "5", "--trace", trace], agent);
    assert_eq!(told["upstream_calls"], 60, "{told}");
    let whole: f64 = told["report"]["spend"]["usd"].as_str().unwrap().parse().unwrap();
    let said = |arguments: &[&str]| {
        let output = Command::new(snapbox::cmd::cargo_bin!("endstop")).args(arguments).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let explained = said(&["explain", trace, "--stop", "cost >= $0.10"]);
    assert!(explained.contains("would have been stopped at step 6 of 60"), "{explained}");
    assert!(explained.contains("after 6 steps"), "{explained}");
    let swept = said(&["replay", trace, "--sweep", "cost=$0.10..$2.10:$1.00", "--json"]);
    let swept: Value = serde_json::from_str(&swept).unwrap();
    let points = swept["sweep"].as_array().unwrap().iter();
    let stops: Vec<_> = points.map(|point| &point["effect"]["stopped"]).collect();
    assert_eq!(stops, [1, 1, 0], "{swept}");
    let suggested = said(&["replay", trace, "--suggest"]);
    assert!(suggested.contains(&format!("${whole:.2} in all")), "{whole} {suggested}");
}

#[test]
fn a_kill_file_is_real_in_a_dry_run_and_told_once() {
    let file = directory("dry-kill").join("stop");
    std::fs::write(&file, "enough").unwrap();
    let flags = ["--dry-run", "--steps", "9", "--kill-file", file.to_str().unwrap()];
    let (output, told) = run("dry-kill-run", &flags, "exec sleep 60");
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), &told["stopped"]), (Some(124), &true.into()), "{stderr}");
    assert_eq!(told["dry_run"]["would_have_stopped"], false);
    assert_eq!(stderr.matches("\nafter 0 steps").count(), 1, "{stderr}");
    let words = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("nothing is stopped, but by the kill file"), "{stderr}");
}

#[test]
fn a_pause_waits_for_an_approval() {
    let policy = directory("pause").join("policy.toml");
    std::fs::write(&policy, "[stop]\nlimit = 'steps >= 20'\n[pause]\nask = 'steps >= 2'\n")
        .unwrap();
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let mut command = Command::new(endstop);
    command.args(["run", "--upstream", "sim", "--policy", policy.to_str().unwrap(), "--"]);
    command.args(["/bin/sh", "-c", AGENT]).env("AGENT", endstop).stdin(Stdio::null());
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap());
    let mut stderr = String::new();
    // A person approves the rule that is reported to wait.
    while !stderr.contains("endstop: paused by ask: steps >= 2 is 2") {
        assert!(said.read_line(&mut stderr).unwrap() > 0, "{stderr}");
    }
    let approved = Command::new("kill").args(["-USR1", &running.id().to_string()]).status();
    assert!(approved.unwrap().success());
    said.read_to_string(&mut stderr).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(124), "{stderr}");
    assert!(stderr.contains("endstop: approved"), "{stderr}");
    assert!(stderr.contains("20 model calls"), "{stderr}");
}

#[test]
fn a_pause_that_nobody_approves_holds_the_run_up() {
    let policy = directory("held").join("policy.toml");
    std::fs::write(&policy, "[stop]\nlimit = 'steps >= 20'\n[pause]\nask = 'steps >= 2'\n")
        .unwrap();
    let flags = ["--policy", policy.to_str().unwrap(), "--pause-limit", "100ms"];
    let (output, told) = run("held-run", &flags, AGENT);
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), &told["stopped"]), (Some(124), &true.into()), "{stderr}");
    assert_eq!((&told["upstream_calls"], &told["command_exit_code"]), (&2.into(), &0.into()));
    assert_eq!(told["paused_by"][0], "ask: steps >= 2 is 2");
    let why = "endstop: stopped: not approved within 100ms (rule ask: steps >= 2 is 2)";
    assert!(stderr.contains(why), "{stderr}");
    let flags = [&flags[..], &["--preserve-status"]].concat();
    assert_eq!(run("held-preserved", &flags, AGENT).0.status.code(), Some(0));
}

#[test]
fn a_run_that_is_stopped_before_its_first_call_has_a_bill() {
    let (output, told) = run("nothing", &["--usd", "0"], AGENT);
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), &told["upstream_calls"]), (Some(124), &0.into()));
    assert!(stderr.contains("0 model calls") && stderr.contains("1 stop response"), "{stderr}");
    assert!(!stderr.contains("no model call came"), "{stderr}");
    let (output, _) = run("no-call", &["--timeout", "100ms", "--grace", "0s"], "exec sleep 60");
    assert!(!text(&output.stderr).contains("no model call came"), "{output:?}");
}

#[test]
fn the_trace_can_be_replayed() {
    let file = directory("trace-replay").join("run.jsonl");
    let path = file.to_str().unwrap();
    run("trace-replayed", &["--steps", "3", "--trace", path], AGENT);
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    let output = command.args(["replay", path, "--stop", "steps >= 2", "-q"]).output().unwrap();
    assert!(text(&output.stdout).contains("would have stopped 1 of 1"), "{output:?}");
}

/// The guide's cron line names a file in a directory that the first night has to create.
#[test]
fn a_trace_is_written_into_a_new_directory_and_explained_without_a_policy() {
    let file = directory("trace-new").join("runs/nightly/run.jsonl");
    let path = file.to_str().unwrap();
    let (output, _) = run("trace-new-run", &["--steps", "3", "--trace", path], AGENT);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    let explain = |more: &[&str]| {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        let output = command.args(["explain", path]).args(more).output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let (explained, said) = explain(&[]);
    let end = "\nEndstop stopped it: its limits refused step 4\nafter 3 steps, ";
    assert!(explained.contains(end), "{explained}");
    assert!(!explained.contains("no stop signal"), "{explained}");
    assert!(
        said.contains("no policy given: `--stop 'cost >= $2'` or `--policy FILE` shows"),
        "{said}"
    );
    let (explained, said) = explain(&["--stop", "steps >= 3"]);
    assert!(explained.contains("\nwould have been stopped at step 3 of 3\n"), "{explained}");
    assert!(!explained.contains("Endstop stopped it") && said.is_empty(), "{explained}{said}");
}

/// The same command under the suggested option makes the call that was refused.
#[test]
fn a_refusal_names_the_option_that_admits_the_call() {
    let script = "\"$AGENT\" demo-agent --searches 0 --iterations 1";
    let (output, told) = run("refused", &["--usd", "0.0001"], script);
    assert_eq!((output.status.code(), &told["upstream_calls"]), (Some(124), &0.into()));
    let refused = told["not_sent"].as_str().unwrap();
    let (parts, enough) = refused.split_once("--usd ").unwrap_or_else(|| panic!("{refused}"));
    assert!(parts.starts_with("not sent: this request could cost up to $0.0"), "{refused}");
    let (enough, answer) = enough.split_once(" would admit it with an answer of ").unwrap();
    assert!(answer.ends_with(" tokens"), "{refused}");
    let (_, told) = run("admitted", &["--usd", enough], script);
    assert!(told["upstream_calls"].as_u64() > Some(0), "{told}");
    // A limit that the user did not give by the option is not named as one.
    let (_, told) = run("not-named", &["--stop", "cost >= $0.0001"], script);
    let refused = told["not_sent"].as_str().unwrap();
    assert!(refused.contains("a limit of $") && !refused.contains("--usd"), "{refused}");
    assert!(refused.contains(" (rule `stop`) would admit it"), "{refused}");
    // Nor is the option if the rule of a policy refuses.
    let file = directory("refused-policy").join("p.toml");
    std::fs::write(&file, "[stop]\ncost = \"cost >= $0.0001\"\n").unwrap();
    let path = file.to_str().unwrap();
    let (_, told) = run("of-policy", &["--policy", path, "--usd", "0.50"], script);
    let refused = told["not_sent"].as_str().unwrap();
    assert!(refused.contains(&format!(" (rule `cost` of {path}) would admit it")), "{refused}");
    assert!(!refused.contains("--usd"), "{refused}");
}
