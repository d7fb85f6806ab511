//! Whole commands: what they print, and how they end.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn endstop(arguments: &[&str]) -> Output {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    // A home without transcripts, so that no test reads the user's transcripts.
    command.env("HOME", "/nonexistent").env_remove("CLAUDE_CONFIG_DIR").env_remove("CODEX_HOME");
    command.args(arguments).current_dir(root()).output().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A directory of recorded runs, if it is present.
fn traces(directory: &str) -> Option<String> {
    let path = format!("../shared/traces/{directory}");
    if root().join(&path).is_dir() {
        return Some(path);
    }
    eprintln!("skipped: there is no `{path}`");
    None
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = endstop(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file in the directory for temporary files, named after the test.
fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn replay_bills_real_runs_to_the_micro_dollar() {
    let Some(directory) = traces("mini-swe-agent") else { return };
    let outcomes = format!("{directory}/outcomes.json");
    let report =
        json(&["replay", "--stop", "cost >= $0.50", "--outcomes", &outcomes, "--json", &directory]);
    assert_eq!(report["version"], 1);
    assert_eq!((&report["runs"], &report["steps"]), (&46.into(), &1_810.into()));
    assert_eq!(report["cost_usd"], "19.502722");
    assert_eq!(report["outcomes"]["succeeded"], 35);
    assert_eq!(report["outcomes"]["failed"], 11);
    assert_eq!(report["outcomes"]["unknown"], 0);
    let rule = &report["rules"]["stop"];
    assert_eq!(rule["stopped"], report["stopped"]);
    assert_eq!(rule["saved_usd"], report["saved_usd"]);
    let runs = report["per_run"].as_array().unwrap();
    assert_eq!(runs.len(), 46);
    for run in runs {
        let cost: f64 = run["cost_usd"].as_str().unwrap().parse().unwrap();
        let was_stopped = !run["stopped_at_step"].is_null();
        assert!(!was_stopped || cost >= 0.5, "{run}");
        assert_eq!(was_stopped, run["rule"] == "stop", "{run}");
        assert_eq!(was_stopped, run["reason"] == "cost_limit", "{run}");
    }
}

#[test]
fn replay_says_that_claude_code_costs_are_lower_bounds() {
    let Some(directory) = traces("claude-code") else { return };
    let report = json(&["replay", "--json", &directory]);
    assert_eq!(
        (&report["runs"], &report["steps"], &report["tokens"]),
        (&4.into(), &169.into(), &13_564_009.into())
    );
    assert!(
        report["per_run"].as_array().unwrap().iter().all(|run| run["cost_is"] == "lower_bound")
    );
    assert!(
        report["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|warning| warning["kind"] == "lower_bound")
    );
    let told = endstop(&["replay", &directory]);
    let said = stderr(&told);
    assert_eq!(said.matches("lower bounds").count(), 1, "once for all files: {said}");
    assert!(said.contains("(and 3 like it)"), "{said}");
}

#[test]
fn finding_nothing_is_said() {
    let output = endstop(&["replay", "docs", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: no run in `docs`"), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runs"], 0);
    assert_eq!(report["warnings"][0]["kind"], "no_runs");
    assert_eq!(report["warnings"][0]["message"], "no transcript is in this directory");
}

#[test]
fn a_rule_that_a_format_cannot_show_is_not_testable_and_stops_nothing() {
    let Some(directory) = traces("openai-chat") else { return };
    let report = json(&["replay", "--stop", "cost >= $0.01", "--json", &directory]);
    assert_eq!(report["rules"]["stop"]["not_testable"], 40);
    assert_eq!(report["stopped"], 0);
    assert_eq!(report["per_run"][0]["cost_is"], "unknown");
    assert_eq!(report["per_run"][0]["cost_usd"], Value::Null);
}

#[test]
fn replay_without_paths_takes_the_sample() {
    let output = endstop(&["replay"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stdout(&output).starts_with("This policy would have stopped 2 of 10 runs"),
        "{}",
        stdout(&output)
    );
    let said = stderr(&output);
    assert!(said.contains("the built-in sample"), "{said}");
    assert!(said.contains("which stops at $1.00, 50 steps or no_progress()\n"), "{said}");
    let quiet = endstop(&["replay", "--quiet"]);
    assert_eq!(stderr(&quiet), "");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let one = endstop(&["replay", "--json", "--jobs", "1", "--stop", "steps >= 5"]);
    let many = endstop(&["replay", "--json", "--jobs", "4", "--stop", "steps >= 5"]);
    assert_eq!(stdout(&one), stdout(&many));
}

#[test]
fn outcomes_have_two_forms_and_win_over_the_file() {
    let outcomes = file(
        "outcomes.json",
        r#"{"weekly-digest": false, "fix-date-parser": {"resolved": true, "x": 1}, "other": 3e0, "y": null}"#,
    );
    let sample = "crates/endstop-transcript/data/sample/agents.jsonl";
    let bad = endstop(&["replay", sample, "--outcomes", &outcomes]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(
        stderr(&bad).contains("the outcome of `other` is neither true nor false"),
        "{}",
        stderr(&bad)
    );
    let outcomes = file(
        "outcomes-2.json",
        r#"{"weekly-digest": false, "fix-date-parser": {"resolved": true, "x": 1}}"#,
    );
    let report = json(&["replay", sample, "--outcomes", &outcomes, "--json"]);
    let run = |id: &str| {
        report["per_run"].as_array().unwrap().iter().find(|run| run["id"] == id).unwrap().clone()
    };
    assert_eq!(
        (&run("weekly-digest")["outcome"], &run("fix-date-parser")["outcome"]),
        (&false.into(), &true.into())
    );
}

#[test]
fn check_refuses_what_is_unbounded_and_says_why() {
    for (arguments, code, said) in [
        (&["check", "--stop", "text_mention(\"done\")"][..], 1, "unbounded: no stop rule limits"),
        (&["check", "--stop", "text_mention(\"done\")", "--unbounded"], 0, "no bound"),
        (
            &[
                "check",
                "--stop",
                "MaxMessages(50) | TokenBudget(200_000) | TextMention('final_answer') | ExternalSignal(\"cancel\")",
            ],
            0,
            "steps   50 (53 with every override), by rule `stop`",
        ),
        (
            &["check", "--stop", "MaxIters(25) | MaxUsd(2.00) | MaxTokens(50_000) | NoProgress(3)"],
            0,
            "cost    $2.00, by rule `stop`",
        ),
    ] {
        let output = endstop(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stdout(&output).contains(said), "{}", stdout(&output));
    }
    let ignores =
        file("ignores.toml", "on_unpriced = \"ignore\"\n[stop]\nmoney = \"cost >= $2\"\n");
    let output = endstop(&["check", &ignores]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output)
            .contains("money is the only bound, and calls without a price count nothing")
    );
    let unbounded = file("unbounded.toml", "unbounded = true\n[stop]\ndone = 'said(\"x\")'\n");
    assert_eq!(endstop(&["check", &unbounded]).status.code(), Some(0));
    let checked = json(&["check", "--json", "--stop", "steps >= 3"]);
    assert_eq!(
        (&checked["bounded"], &checked["bounds"]["steps"]["limit"]),
        (&true.into(), &"3".into())
    );
}

#[test]
fn a_policy_file_error_shows_its_place_in_the_file() {
    let bad = file("bad.toml", "[stop]\nbudget = \"steps >= 25 or cost >= 2\"\n");
    let output = endstop(&["check", &bad]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("bad.toml:2:34") && said.contains("hint: write `$2.00`"), "{said}");
    let missing = endstop(&["check", "no-such.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("cannot read the policy file `no-such.toml`"));
}

/// A device has no length to ask for, and `/dev/zero` no end.
#[test]
fn no_more_is_read_of_a_file_than_it_may_have() {
    let large = file("large.toml", &"# a comment\n".repeat(100_000));
    let sample = "crates/endstop-transcript/data/sample/agents.jsonl";
    let mut files = vec![large.as_str()];
    if cfg!(unix) {
        files.push("/dev/zero");
    }
    for file in files {
        for line in [
            vec!["check", file],
            vec!["run", "--policy", file, "--", "true"],
            vec!["serve", "--upstream", "sim", "--policy", file],
            vec!["agent", "--no-store", "-m", "scripted", "--policy", file, "x"],
            vec!["explain", sample, "--policy", file],
            vec!["replay", sample, "--policy", file],
            vec!["replay", sample, "--policy", file, "--sweep", "steps=1..3:1"],
        ] {
            let output = endstop(&line);
            assert!(!output.status.success(), "{line:?}");
            let told = format!(
                "error: `{file}` is larger than 1 MiB, the limit of the policy file\nhint: check that \
                 `{file}` is the policy file you mean\n"
            );
            assert_eq!(stderr(&output), told, "{line:?}");
        }
    }
    if cfg!(unix) {
        for (option, kind) in
            [("--outcomes", "outcomes"), ("--prices", "prices"), ("--drift", "baseline")]
        {
            let output = endstop(&["replay", sample, option, "/dev/zero"]);
            assert_eq!(output.status.code(), Some(2), "{option}");
            let told =
                format!("error: `/dev/zero` is larger than 64 MiB, the limit of the {kind}\n");
            assert!(stderr(&output).starts_with(&told), "{}", stderr(&output));
        }
    }
}

#[test]
fn explain_shows_the_leaf_the_value_and_the_margins() {
    let sample = "crates/endstop-transcript/data/sample/agents.jsonl";
    let policy = ["--stop", "steps >= 50 or cost >= $0.10"];
    let output = endstop(&["explain", sample, "--run", "fix-date-parser", policy[0], policy[1]]);
    let said = stdout(&output);
    assert!(said.contains("[x] cost >= $0.10"), "{said}");
    assert!(said.contains("[ ] steps >= 50  is ") && said.contains(" left"), "{said}");
    let record =
        json(&["explain", sample, "--run", "fix-date-parser", policy[0], policy[1], "--json"]);
    assert_eq!(record["verdict"]["primary"]["reason"], "cost_limit");
    assert_eq!(record["verdict"]["terminated_by"], "cost >= $0.10");
    let unknown = endstop(&["explain", sample, "--run", "nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no run `nobody`"));
}

/// No policy judges the runs, so no line names a stop that would have been.
#[test]
fn explain_without_a_policy_says_how_the_runs_ended() {
    let output = endstop(&["explain", "crates/endstop-transcript/data/sample"]);
    let said = stdout(&output);
    assert_eq!(said.matches("run ").count(), 10, "{said}");
    for nothing in ["would have been", "would not", "no stop signal"] {
        assert!(!said.contains(nothing), "{nothing}: {said}");
    }
    assert!(stderr(&output).contains("no policy given: `--stop 'cost >= $2'`"), "{said}");
    let quiet = endstop(&["explain", "--quiet", "crates/endstop-transcript/data/sample"]);
    assert_eq!((stderr(&quiet), stdout(&quiet)), (String::new(), said));
}

#[test]
fn what_is_no_transcript_is_an_error_when_it_is_named() {
    let output = endstop(&["replay", "Cargo.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("Cargo.toml: not read, of no known format"), "{said}");
    assert!(said.contains("`endstop replay --formats` lists the formats"), "{said}");
    let missing = endstop(&["replay", "no/such/directory"]);
    assert_eq!(missing.status.code(), Some(2));
    let said = stderr(&missing);
    assert!(said.contains("check the path") && !said.contains("--formats"), "{said}");
}
