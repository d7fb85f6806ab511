//! The demo as a whole command: its figures have to agree with each other and with the price table.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::process::{Command, Output};

use endstop::core::units::Money;
use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    command.arg("demo").args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = demo(&[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn picos(value: &Value) -> u64 {
    value.as_str().unwrap().parse::<Money>().unwrap().picos()
}

/// Dollars for a million tokens, as `endstop price` says.
fn rates(model: &str) -> (u64, u64) {
    let rate = |class: &str| {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        command.args(["price", model, "--at", "2026-01-01", class, "1000", "--json"]);
        let output = command.output().unwrap();
        let price: Value = serde_json::from_slice(&output.stdout).unwrap();
        picos(&price["total_usd"]) / 1_000
    };
    (rate("--input"), rate("--output"))
}

/// What is true of either act.
fn check_act(act: &Value, rates: (u64, u64)) {
    let number = |key: &str| act[key].as_u64().unwrap();
    assert_eq!(number("input_tokens") + number("output_tokens"), number("tokens"));
    let cost = number("input_tokens") * rates.0 + number("output_tokens") * rates.1;
    assert_eq!(picos(&act["cost_usd"]), cost, "{act}");
    // Calls take three seconds each, one after the other.
    assert_eq!(number("simulated_ms"), number("model_calls") * 3_000);
    assert!(number("iterations") <= number("iterations_limit"));
    assert!(number("sub_agents") <= number("iterations"));
    assert!(number("model_calls") <= number("steps"));
    assert_eq!(act["status"], "stopped");
    assert_eq!(act["verdict"]["cost_usd"], act["cost_usd"]);
}

#[test]
fn without_a_shared_budget_the_cap_holds_and_an_hour_costs_two_hundred_dollars() {
    let report = json(&[]);
    let act = &report["without_shared_budget"];
    check_act(act, rates(report["model"].as_str().unwrap()));
    assert_eq!(act["reason"], "steps_limit");
    assert_eq!(act["iterations"], act["iterations_limit"]);
    assert_eq!(act["sub_agents"], 50);
    assert_eq!(act["steps"], act["model_calls"]);
    let cost = picos(&act["cost_usd"]);
    let dollar = 1_000_000_000_000;
    assert!((195 * dollar..=205 * dollar).contains(&cost), "{cost}");
    assert_eq!(act["simulated_ms"], 3_600_000);
}

#[test]
fn no_limit_is_passed_and_what_is_saved_is_the_difference() {
    for limit in ["0.10", "2.00", "7.77", "60"] {
        let report = json(&["--usd", limit]);
        let (first, second) = (&report["without_shared_budget"], &report["with_shared_budget"]);
        check_act(second, rates(report["model"].as_str().unwrap()));
        let (spent, limit) = (picos(&second["cost_usd"]), limit.parse::<Money>().unwrap().picos());
        assert!(spent <= limit, "{spent} of {limit}");
        assert_eq!(picos(&report["limit_usd"]), limit);
        assert_eq!(picos(&report["saved_usd"]), picos(&first["cost_usd"]) - spent);
        assert_eq!(second["reason"], "cost_limit", "{second}");
        assert_eq!(second["verdict"]["rule"], "stop");
        // What was refused began nothing.
        assert_eq!(second["steps"].as_u64(), second["model_calls"].as_u64().map(|n| n + 1));
    }
}

#[test]
fn a_limit_of_nothing_makes_no_call_and_one_of_plenty_saves_nothing() {
    let report = json(&["--usd", "0"]);
    let act = &report["with_shared_budget"];
    assert_eq!((&act["model_calls"], &act["cost_usd"]), (&0.into(), &"0".into()));
    assert_eq!(report["saved_usd"], report["without_shared_budget"]["cost_usd"]);
    let report = json(&["--usd", "1000"]);
    assert_eq!(report["saved_usd"], "0");
    assert_eq!(report["with_shared_budget"]["reason"], "steps_limit");
}

#[test]
fn every_run_counts_the_same() {
    assert_eq!(demo(&["--json"]).stdout, demo(&["--json", "--fast"]).stdout);
    assert_eq!(demo(&[]).stdout, demo(&["--fast"]).stdout);
}

#[test]
fn people_read_the_figures_of_the_json_without_colour_in_a_pipe() {
    let report = json(&[]);
    let text = String::from_utf8(demo(&[]).stdout).unwrap();
    assert!(!text.contains('\u{1b}'));
    let calls = report["with_shared_budget"]["model_calls"].to_string();
    assert!(text.contains(&format!("model calls  {calls}\n")), "{text}");
    for part in ["cost >= $2.00 or own.steps >= 50", "The trip record:", "endstop replay"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let forced = String::from_utf8(demo(&["--color", "always"]).stdout).unwrap();
    assert!(forced.contains("\u{1b}[1mSaved $"), "{forced}");
}

#[test]
fn wrong_amounts_are_usage_errors() {
    for wrong in ["-1", "two", "", "1e3"] {
        let output = demo(&[&format!("--usd={wrong}")]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(output.stdout.is_empty(), "{wrong}");
    }
}

#[test]
fn its_text_fits_the_columns_that_are_asked_for() {
    let longest = |columns: &str| {
        let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
        let output = command.args(["demo", "--fast"]).env("COLUMNS", columns).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(longest("70") <= 70, "{}", longest("70"));
    assert!(longest("wide") > 70);
}
