//! `endstop agent` as a whole command: its answers, its exit codes, and that it can be stopped and resumed.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use snapbox::{assert_data_eq, str};

#[path = "support/place.rs"]
mod place;

use place::{Place, text};

const SENTENCE: &str = "I am a script without a model behind it, and say this sentence to everything. \
    Name a real model to get an answer.\n";

#[test]
fn the_answer_goes_to_standard_output_and_the_rest_to_standard_error() {
    let place = Place::new("answer");
    let (stdout, stderr) = place.ends_with(0, &["--model", "scripted", "hello"]);
    assert_eq!(stdout, SENTENCE);
    assert_data_eq!(
        stderr,
        str![[r#"
warning: `scripted` has no price, so no cost limit applies; --prices FILE names a table that has one, --unpriced IN,OUT gives rates for it
model scripted, stops at 50 steps or 10m (the default; set others with --usd,
  --steps, --tokens, --timeout, --stop or --policy)
completed · 1 step · 46 tokens · cost unknown · [..] · run [..]

"#]]
    );
    let (stdout, stderr) =
        place.ends_with(0, &["--quiet", "--no-store", "--model", "scripted", "hi"]);
    assert_eq!((stdout.as_str(), stderr.as_str()), (SENTENCE, ""));
}

#[test]
fn a_limit_ends_with_124_and_the_trip_record() {
    let place = Place::new("limit");
    let arguments = ["-m", "scripted:loop", "--steps", "3", "--stop", "tokens >= 200k", "loop"];
    let (stdout, stderr) = place.ends_with(124, &arguments);
    assert_eq!(stdout, "");
    assert_data_eq!(
        stderr,
        str![[r#"
model scripted:loop, stops at 3 steps or 200k tokens

stopped: steps_limit: steps is 3 (limit 3)
after 3 steps, [..] tokens, unknown cost
terminated by steps >= 3

stop (stop, hard) does not trip
  [ ] tokens >= 200k  is [..], [..] left

steps (stop) trips, from --steps
  [x] steps >= 3  is 3

stopped (steps_limit) · 3 steps · [..] tokens · cost unknown · [..] · run [..]

"#]]
    );
}

#[test]
fn sub_agents_spend_from_the_limit_of_the_run() {
    let place = Place::new("sub-agents");
    for depth in ["1", "2", "3"] {
        let flags = ["-m", "scripted:loop", "--sub-agents", "--depth", depth, "--steps", "7", "x"];
        let report = place.json(124, &flags);
        assert_eq!((&report["steps"], &report["reason"]), (&7.into(), &"steps_limit".into()));
    }
    let model = "scripted:loop@anthropic/claude-sonnet-4-5";
    let report = place.json(124, &["-m", model, "--sub-agents", "--usd", "0.02", "x"]);
    assert_eq!(report["reason"], "cost_limit");
    let cost: f64 = report["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!(cost > 0.01 && cost <= 0.02, "{cost}");
}

#[test]
fn a_policy_and_flags_hold_together_and_flags_only_tighten() {
    let place = Place::new("merge");
    let policy = place.file("policy.toml", "[stop]\nsteps = \"steps >= 4\"\n");
    let steps = |more: &[&str]| {
        let flags = ["-m", "scripted:loop", "--policy", &policy, "x"];
        place.json(124, &[&flags, more].concat())["steps"].as_u64().unwrap()
    };
    assert_eq!(steps(&[]), 4);
    assert_eq!(steps(&["--steps", "2"]), 2);
    assert_eq!(steps(&["--steps", "9"]), 4);
}

#[test]
fn a_model_that_fails_ends_with_1() {
    let place = Place::new("fails");
    let (stdout, stderr) = place.ends_with(1, &["-m", "scripted:fail", "x"]);
    assert_eq!(stdout, "");
    let error = "error: `scripted` cannot answer: the provider refused the request";
    assert!(stderr.contains(error), "{stderr}");
    assert_eq!(place.json(1, &["-m", "scripted:fail", "x"])["status"], "failed");
}

#[test]
fn wrong_arguments_end_with_2_and_say_what_to_do() {
    let place = Place::new("wrong");
    let unbounded = place.file("unbounded.toml", "[stop]\nsaid = 'said(\"done\")'\n");
    let cases: &[(&[&str], &str)] = &[
        (&["x"], "hint: try it offline: `endstop agent --model scripted \"hello\"`"),
        (&["-m", "scripted"], "error: missing prompt"),
        (&["-m", "scripted", "  "], "error: missing prompt"),
        (&["-m", "scripted:fast", "x"], "error: no model `scripted:fast`"),
        (&["-m", "nobody/x", "x"], "error: unknown provider `nobody`"),
        (&["-m", "replay:nowhere.jsonl", "x"], "nowhere.jsonl"),
        (
            &["-m", "scripted", "--policy", "nowhere.toml", "x"],
            "error: cannot read the policy file",
        ),
        (
            &["-m", "scripted", "--policy", &unbounded, "x"],
            "hint: add --steps, --usd, --tokens or --timeout",
        ),
        (&["-m", "scripted", "--stop", "cost >= 5", "x"], "hint: write `$5.00`"),
        (
            &["-m", "scripted", "--stop", "steps >= 2", "--policy", "p.toml", "x"],
            "cannot be used with",
        ),
        (&["-m", "scripted", "--timeout", "5", "x"], "did you mean `5s`?"),
        (&["-m", "scripted", "--timeout", "5s or steps >= 9", "x"], "write a time such as `90s`"),
        (&["-m", "scripted", "--usd", "much", "x"], "write an amount of dollars"),
        (&["-m", "scripted", "--tools", "read,wirte", "x"], "did you mean `write`?"),
        (&["-m", "scripted", "--tools", "read", "--folder", "nowhere", "x"], "`nowhere`"),
        (&["-m", "scripted", "--folder", "nowhere", "x"], "`nowhere`"),
        (&["-m", "scripted", "--tools", "", "x"], "name at least one"),
        (&["-m", "scripted", "--usd", "-1", "x"], "write an amount of dollars"),
        (&["-m", "scripted", "--steps", "-1", "x"], "write a whole number"),
        (&["-m", "scripted", "--unpriced", "3", "x"], "write `stop`, `ignore`, or dollars"),
        (&["-m", "scripted", "--prices", "nowhere.json", "x"], "cannot read the prices"),
        (&["-m", "scripted", "--depth", "2", "x"], "--sub-agents"),
        (
            &["-m", "scripted", "--resume", "../x", "x"],
            "hint: `endstop agent --runs` lists the runs",
        ),
        (&["-m", "scripted", "--resume", "not-there", "x"], "error: no stored run `not-there`"),
        (&["-m", "scripted", "--resume", "last"], "error: no stored run"),
    ];
    for (arguments, expected) in cases {
        let (stdout, stderr) = place.ends_with(2, arguments);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_prompt_comes_from_standard_input() {
    let place = Place::new("stdin");
    let mut child = place.command(&["-m", "scripted", "-"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"Say it.\n").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), SENTENCE);
    let (listed, _) = place.ends_with(0, &["--runs"]);
    assert!(listed.contains("Say it."), "{listed}");
}

#[test]
fn a_recorded_run_answers_again_and_its_record_is_the_same() {
    let place = Place::new("replay");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../endstop-transcript/data/sample/agents.jsonl");
    let model = format!("replay:{}", sample.display());
    let first = place.json(0, &["-m", &model, "--record", "first.jsonl", "again"]);
    let second = place.json(0, &["-m", "replay:first.jsonl", "again"]);
    for key in ["response", "steps", "usage", "cost_usd"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    assert!(first["steps"].as_u64() > Some(1));
    let mut explain = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    let explain = explain.current_dir(&place.0).args(["explain", "first.jsonl"]).output().unwrap();
    assert!(text(&explain.stdout).contains(first["run"].as_str().unwrap()), "{explain:?}");
}

#[test]
fn tools_work_in_their_directory() {
    let place = Place::new("tools");
    std::fs::create_dir(place.0.join("inside")).unwrap();
    place.file("inside/note.txt", "hello");
    let flags =
        ["-m", "scripted:loop", "--tools", "list", "--folder", "inside", "--steps", "1", "x"];
    let report = place.json(124, &[&["--record", "run.jsonl"][..], &flags].concat());
    assert_eq!(report["steps"], 1);
    let trace = std::fs::read_to_string(place.0.join("run.jsonl")).unwrap();
    assert!(trace.contains("note.txt"), "{trace}");
}

#[test]
fn a_pause_is_kept_and_goes_on_with_all_counters_once_it_is_approved() {
    let place = Place::new("pause");
    let rules = "[stop]\nsteps = \"steps >= 6\"\n[pause]\nask = \"steps >= 2\"\n";
    let policy = place.file("policy.toml", rules);
    let (_, stderr) = place.ends_with(124, &["-m", "scripted:loop", "--policy", &policy, "x"]);
    assert!(stderr.contains("paused · 2 steps"), "{stderr}");
    assert!(stderr.contains("--approve"), "{stderr}");
    // Without approval it is where it was.
    let again = place.json(124, &["--resume", "last"]);
    assert_eq!((&again["status"], &again["steps"]), (&"paused".into(), &2.into()));
    let done = place.json(124, &["--resume", "last", "--approve"]);
    assert_eq!((&done["status"], &done["steps"]), (&"stopped".into(), &6.into()));
    assert_eq!((&done["run"], &done["model"]), (&again["run"], &"scripted:loop".into()));
    // A run that has ended continues only as another one.
    let (_, stderr) = place.ends_with(2, &["--resume", "last"]);
    assert!(stderr.contains("has ended (steps_limit)"), "{stderr}");
    let fresh = place.json(0, &["--resume", "last", "-m", "scripted", "go on"]);
    assert_ne!(fresh["run"], done["run"]);
}

#[test]
fn a_prompt_goes_on_with_the_conversation_of_a_completed_run() {
    let place = Place::new("completed");
    let first = place.json(0, &["-m", "scripted", "one"]);
    let id = first["run"].as_str().unwrap();
    let (_, stderr) = place.ends_with(2, &["--resume", id]);
    assert!(stderr.contains("hint: give a prompt"), "{stderr}");
    let second = place.json(0, &["--resume", id, "two"]);
    // The conversation continues; the counters and the limits are those of a new run.
    assert_eq!((&second["status"], &second["steps"]), (&"completed".into(), &1.into()));
    assert_ne!(second["run"], first["run"]);
    let runs = place.run(&["--runs", "--json"]);
    let runs: Value = serde_json::from_slice(&runs.stdout).unwrap();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
    assert_eq!(runs["runs"][0]["prompt"], "one");
    let (bare, _) = place.ends_with(0, &["--resume"]);
    assert!(bare.contains(id), "{bare}");
}

#[test]
fn a_stored_run_is_read_by_replay_and_refused_if_it_is_damaged() {
    let place = Place::new("damaged");
    let first = place.json(124, &["-m", "scripted:loop", "--stop", "steps >= 2", "x"]);
    let runs = place.0.join("endstop/runs");
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let replay = Command::new(endstop).args(["replay", "--json"]).arg(&runs).output().unwrap();
    let report: Value = serde_json::from_slice(&replay.stdout).unwrap();
    assert_eq!((&report["runs"], replay.stderr.as_slice()), (&1.into(), &b""[..]), "{report}");
    let trace = runs.join(format!("{}.run/trace.jsonl", first["run"].as_str().unwrap()));
    let text = std::fs::read_to_string(&trace).unwrap();
    let last = text.trim_end().rfind('\n').unwrap();
    std::fs::write(&trace, &text[..=last]).unwrap();
    let resume = ["--resume", "last", "-m", "scripted:loop", "--stop", "steps >= 4"];
    let (_, stderr) = place.ends_with(1, &resume);
    let words = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("lines at its end are missing"), "{stderr}");
    assert!(stderr.contains("trace.jsonl"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), text[..=last]);
    std::fs::write(&trace, text).unwrap();
    assert_eq!(place.json(124, &resume)["steps"], 4);
}

#[test]
fn a_kill_file_refuses_new_runs() {
    let place = Place::new("kill-file");
    let file = place.file("kill", "the night shift says no\n");
    let report = place.json(130, &["-m", "scripted", "--kill-file", &file, "x"]);
    assert_eq!((&report["steps"], &report["reason"]), (&0.into(), &"user_requested".into()));
    let message = &report["verdict"]["primary"]["message"];
    assert_eq!(message, "the night shift says no");
}

#[test]
fn a_pause_file_holds_the_run_until_it_is_gone() {
    let place = Place::new("pause-file");
    let file = place.file("hold", "lunch\nand more\n");
    let arguments = ["-m", "scripted:loop", "--steps", "3", "--pause-file", &file, "x"];
    let mut command = place.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("paused by") {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
    }
    assert!(said.ends_with(&format!("paused by {file}: lunch\n")), "{said}");
    assert!(!said.contains("stopped"), "{said}");
    std::fs::remove_file(&file).unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124), "{said}");
    assert!(said.contains("resumed") && said.contains("after 3 steps"), "{said}");
}

#[test]
fn a_signal_is_set_by_its_file() {
    let place = Place::new("signal-file");
    let file = place.file("review", "");
    let stop = "signal(\"review\") or steps >= 2";
    let signal = format!("review={file}");
    let set = ["-m", "scripted:loop", "--stop", stop, "--signal", &signal, "x"];
    let (_, stderr) = place.ends_with(130, &set);
    assert!(stderr.contains("create `") && stderr.contains("terminated by signal"), "{stderr}");
    let (_, stderr) = place.ends_with(124, &["-m", "scripted:loop", "--stop", stop, "x"]);
    let words = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("nothing sets it: add --signal review=FILE"), "{stderr}");
    let (_, stderr) = place.ends_with(2, &["-m", "scripted", "--signal", "review", "x"]);
    assert!(stderr.contains("expected NAME=FILE"), "{stderr}");
}

#[cfg(unix)]
mod signals {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, ChildStderr};
    use std::time::Duration;

    use super::*;

    /// A run of the slow script whose first step has begun.
    fn slow(place: &Place) -> (Child, BufReader<ChildStderr>) {
        let mut command = place.command(&["-m", "scripted:slow", "-v", "x"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        read_to(&mut stderr, "Step 1 started");
        (child, stderr)
    }

    fn read_to(from: &mut impl BufRead, wanted: &str) {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            assert_ne!(from.read_line(&mut line).unwrap(), 0, "ended before `{wanted}`");
        }
    }

    /// The stored runs so far.
    fn traces(place: &Place) -> String {
        let runs = std::fs::read_dir(place.0.join("endstop/runs")).into_iter().flatten();
        let traces = runs.map(|run| run.unwrap().path().join("trace.jsonl"));
        traces.map(|trace| std::fs::read_to_string(trace).unwrap_or_default()).collect()
    }

    fn send(signal: &str, child: &Child) {
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn rest(mut child: Child, mut stderr: impl Read) -> (Option<i32>, String, String) {
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        (child.wait().unwrap().code(), answer, said)
    }

    #[test]
    fn one_interrupt_lets_the_answer_end_and_two_cut_it() {
        let place = Place::new("interrupt");
        let (child, mut stderr) = slow(&place);
        send("-INT", &child);
        read_to(&mut stderr, "stopping after the calls in flight");
        let (code, answer, said) = rest(child, stderr);
        assert_eq!((code, answer.as_str()), (Some(130), SENTENCE), "{said}");
        assert!(said.contains("stopped: user_requested"), "{said}");

        let (child, mut stderr) = slow(&place);
        send("-INT", &child);
        read_to(&mut stderr, "stopping after the calls in flight");
        send("-INT", &child);
        let (code, answer, said) = rest(child, stderr);
        assert_eq!(code, Some(130), "{said}");
        assert!(answer.len() < SENTENCE.len(), "{answer}");
        assert!(said.contains("stopped: user_requested"), "{said}");
    }

    #[test]
    fn a_run_that_was_interrupted_goes_on_with_its_counters() {
        let place = Place::new("interrupted");
        let arguments = ["-m", "scripted:loop", "--stop", "steps >= 100_000", "-v", "x"];
        let mut command = place.command(&arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        read_to(&mut stderr, "Step 2 started");
        send("-INT", &child);
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
        let runs = place.run(&["--runs", "--json"]);
        let runs: Value = serde_json::from_slice(&runs.stdout).unwrap();
        let steps = runs["runs"][0]["steps"].as_u64().unwrap();
        assert!(steps >= 2, "{runs}");
        let limit = format!("steps >= {}", steps + 2);
        let report = place.json(124, &["--resume", "last", "--stop", &limit]);
        assert_eq!(
            (&report["run"], &report["steps"]),
            (&runs["runs"][0]["run"], &(steps + 2).into())
        );
        assert_eq!(report["reason"], "steps_limit", "{report}");
        // A raised limit continues it once more; the same limit does not.
        let (_, stderr) = place.ends_with(2, &["--resume", "last", "--stop", &limit]);
        assert!(stderr.contains("has ended (steps_limit)") && stderr.contains("raise the limit"));
        let raised = format!("steps >= {}", steps + 3);
        let report = place.json(124, &["--resume", "last", "--stop", &raised]);
        assert_eq!(report["steps"], steps + 3);
    }

    #[test]
    fn a_run_whose_process_was_killed_in_its_first_step_goes_on() {
        let place = Place::new("killed");
        let (mut child, _stderr) = slow(&place);
        // That the request is sent is written before; its answer takes almost four seconds.
        while !traces(&place).contains("attempt_begin") {
            std::thread::sleep(Duration::from_millis(20));
        }
        send("-KILL", &child);
        child.wait().unwrap();
        let report = place.json(0, &["--resume", "last", "-m", "scripted"]);
        assert_eq!(
            (&report["status"], &report["response"]),
            (&"completed".into(), &SENTENCE.trim().into())
        );
        // A call that has begun and is not settled is charged.
        assert_eq!((&report["steps"], &report["is_estimate"]), (&2.into(), &true.into()));
    }
}
