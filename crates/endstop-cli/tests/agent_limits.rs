//! `endstop agent`: the limits of a run that continues, its record, and its report of money.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::process::Command;

use serde_json::Value;

#[path = "support/place.rs"]
mod place;

use place::{Place, text};

/// A model whose calls have a price.
const PRICED: &str = "scripted:loop@claude-sonnet-4-5";

fn paused(place: &Place, pause: &str) {
    let rules = format!(
        "[stop]\nmoney = \"cost >= $0.01\"\nsteps = \"steps >= 100\"\n[pause]\nask = \"{pause}\"\n"
    );
    let policy = place.file("policy.toml", &rules);
    let report = place.json(124, &["-m", PRICED, "--policy", &policy, "x"]);
    assert_eq!(report["status"], "paused");
    assert_eq!(report["paused_by"][0]["rule"], "ask");
    assert_eq!(report["paused_by"][0]["condition"], pause);
    assert!(report["paused_by"][0]["observed"].is_string());
}

#[test]
fn flags_tighten_stored_limits_and_only_a_policy_replaces_them() {
    let place = Place::new("resume-limits");
    paused(&place, "steps >= 2");
    let (_, stderr) = place.ends_with(124, &["--resume", "last", "--steps", "60", "--approve"]);
    assert!(stderr.contains("stops at $0.01, 100 steps or 60 steps"), "{stderr}");
    assert!(stderr.contains("steps >= 60"), "{stderr}");
    assert!(stderr.contains("stopped (cost_limit)"), "{stderr}");

    let other = Place::new("resume-replaced");
    paused(&other, "steps >= 2");
    let (_, stderr) = other.ends_with(124, &["--resume", "last", "--stop", "steps >= 5"]);
    assert!(stderr.contains("stops at 5 steps (instead of those"), "{stderr}");
    assert!(stderr.contains("stopped (steps_limit) · 5 steps"), "{stderr}");
}

#[test]
fn an_amount_is_approved_only_where_money_is_asked_for() {
    let place = Place::new("approve-steps");
    paused(&place, "steps >= 2");
    let (_, stderr) = place.ends_with(2, &["--resume", "last", "--approve=0.005"]);
    assert!(stderr.contains("rule `ask` does not ask about money"), "{stderr}");
    let (_, stderr) = place.ends_with(124, &["--resume", "last"]);
    assert!(stderr.contains("paused by ask: steps >= 2 is 2"), "{stderr}");
    assert!(!stderr.contains("--approve=USD"), "{stderr}");

    let place = Place::new("approve-money");
    paused(&place, "cost >= $0.002");
    let (_, stderr) = place.ends_with(124, &["--resume", "last"]);
    assert!(stderr.contains("--approve=USD"), "{stderr}");
    let again = place.json(124, &["--resume", "last", "--approve=0.004"]);
    assert_eq!(again["status"], "paused");
    let cost: f64 = again["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!((0.004..0.006).contains(&cost), "{cost}");
}

#[test]
fn a_record_holds_the_whole_run_and_destroys_nothing() {
    let place = Place::new("record");
    paused(&place, "steps >= 2");
    place.json(124, &["--resume", "last", "--approve", "--steps", "6", "--record", "r.jsonl"]);
    let path = place.0.join("r.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole.matches("endstop_trace").count(), 1);
    assert_eq!(whole.matches("\"step_begin\"").count(), 6);
    let mut explain = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    explain.current_dir(&place.0).args(["explain", "r.jsonl", "--stop", "steps >= 4"]);
    let said = text(&explain.output().unwrap().stdout);
    assert!(said.contains("would have been stopped at step 4"), "{said}");

    let refused: &[&[&str]] = &[
        &["--resume", "last", "--record", "r.jsonl"],
        &["-m", "replay:r.jsonl", "--record", "./r.jsonl", "x"],
        &["-m", "nobody/x", "--record", "r.jsonl", "x"],
        &["-m", "scripted", "--policy", "policy.toml", "--record", "policy.toml", "x"],
    ];
    for arguments in refused {
        place.ends_with(2, arguments);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "{arguments:?}");
    }
    assert!(!std::fs::read_to_string(place.0.join("policy.toml")).unwrap().is_empty());
}

#[test]
fn a_cost_that_is_not_known_is_not_said_to_be_nothing() {
    let place = Place::new("unpriced");
    let report = place.json(0, &["-m", "scripted", "x"]);
    assert_eq!((&report["cost_usd"], &report["verdict"]["cost_usd"]), (&Value::Null, &Value::Null));
    assert_eq!(report["overshoot"], Value::Null);
    let (_, stderr) = place.ends_with(0, &["-m", "scripted", "x"]);
    assert!(stderr.contains("warning: `scripted` has no price"), "{stderr}");
    assert!(!stderr.contains("cost >= $1.00") && stderr.contains("cost unknown"), "{stderr}");
    let (listed, _) = place.ends_with(0, &["--runs"]);
    assert!(listed.contains(" ? |"), "{listed}");

    let (_, stderr) = place.ends_with(124, &["-m", "scripted", "--usd", "1", "x"]);
    assert!(stderr.contains("hint: --prices FILE"), "{stderr}");
    let rated = place.json(0, &["-m", "scripted", "--usd", "1", "--unpriced", "3,15", "x"]);
    // 16 tokens in, 29 out.
    assert_eq!(rated["cost_usd"], "0.000483");
    let stops = ["-m", "scripted", "--unpriced", "stop", "x"];
    assert_eq!(place.json(124, &stops)["reason"], "cost_limit");
    // A cost limit that is added to the default ones has to apply.
    place.json(0, &["-m", "scripted", "x"]);
    assert_eq!(place.json(124, &["--resume", "last", "--usd", "1", "y"])["reason"], "cost_limit");
}

#[test]
fn what_went_beyond_a_limit_is_named() {
    let place = Place::new("overshoot");
    let trace = "{\"endstop_trace\":1,\"run\":\"big\",\"model\":\"gpt-4o\",\"cost_is\":\"computed\"}\n\
        {\"at\":0,\"event\":\"run_begin\"}\n{\"at\":0,\"event\":\"user_message\"}\n\
        {\"at\":0,\"event\":\"step_begin\"}\n{\"at\":0,\"event\":\"attempt_begin\"}\n\
        {\"at\":9,\"event\":\"reply\",\"model\":\"gpt-4o\",\"usage\":{\"input\":800000,\"output\":1},\
        \"finish\":\"stop\"}\n{\"at\":9,\"event\":\"step_end\"}\n";
    place.file("big.jsonl", trace);
    let report = place.json(0, &["-m", "replay:big.jsonl", "--usd", "1", "x"]);
    let cost: f64 = report["cost_usd"].as_str().unwrap().parse().unwrap();
    let beyond: f64 = report["overshoot"]["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!((cost - 1.0 - beyond).abs() < 1e-9 && beyond > 0.5, "{cost} {beyond}");
    let (_, stderr) = place.ends_with(0, &["-m", "replay:big.jsonl", "--usd", "1", "x"]);
    assert!(stderr.contains("overshoot: $1.00 beyond the limit"), "{stderr}");
}

#[test]
fn warn_rules_are_heard_without_asking() {
    let place = Place::new("warn");
    let rules = "[stop]\nsteps = \"steps >= 3\"\n[warn]\nsoon = \"steps >= 2\"\n";
    let policy = place.file("policy.toml", rules);
    let flags = ["-m", "scripted:loop", "--policy", &policy, "x"];
    let (_, stderr) = place.ends_with(124, &flags);
    assert!(stderr.contains("warning: soon: steps is 2"), "{stderr}");
    let (_, stderr) = place.ends_with(124, &[&["--quiet"], &flags[..]].concat());
    assert_eq!(stderr, "");
}

#[test]
fn only_what_is_new_is_the_answer_of_a_run_that_went_on() {
    let place = Place::new("new-answer");
    let (stdout, _) = place.ends_with(0, &["-m", "scripted", "--steps", "1", "one"]);
    assert!(!stdout.is_empty());
    let (stdout, _) = place.ends_with(124, &["--resume", "last", "--steps", "0", "two"]);
    assert_eq!(stdout, "");
}

#[test]
fn ids_stay_whole_in_the_list_of_runs() {
    let place = Place::new("ids");
    let prompt = "wide ".repeat(40);
    let run = place.json(0, &["-m", "scripted", &prompt]);
    let (listed, _) = place.ends_with(0, &["--runs"]);
    assert!(listed.contains(run["run"].as_str().unwrap()), "{listed}");
}

#[test]
fn errors_of_files_tell_their_cause() {
    let place = Place::new("causes");
    place.file("file", "no directory");
    let (_, stderr) = place.ends_with(1, &["-m", "scripted", "--store", "file", "x"]);
    assert!(stderr.contains("os error"), "{stderr}");
    let (_, stderr) = place.ends_with(2, &["-m", "replay:nowhere.jsonl", "x"]);
    assert!(stderr.contains("os error"), "{stderr}");
}

#[test]
fn a_rule_on_an_external_signal_says_that_nothing_sets_it() {
    let place = Place::new("signal");
    let stop = "steps >= 3 or signal(\"review\")";
    let (_, stderr) = place.ends_with(0, &["-m", "scripted", "--stop", stop, "x"]);
    assert!(stderr.contains("warning: rule"), "{stderr}");
    assert!(
        stderr.contains("the signal `review`, and nothing sets it: add --signal review=FILE"),
        "{stderr}"
    );
    let (_, stderr) = place.ends_with(0, &["-m", "scripted", "--steps", "3", "x"]);
    assert!(!stderr.contains("signal"), "{stderr}");
}
