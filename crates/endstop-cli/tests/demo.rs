//! The demo as a whole command: its figures have to agree with each other and with the limits.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Output, Stdio};

use endstop::core::units::Money;
use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("endstop"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    // The whole story takes a build with optimisations.
    command.args(["demo", "--iterations", "3"]).args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = demo(&[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn money(value: &Value) -> Money {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn without_limits_everything_is_counted_and_nothing_is_stopped() {
    let told = json(&[]);
    let act = &told["without_limits"];
    // Three calls of the planner, and 22 of each of its sub-agents.
    assert_eq!((&act["upstream_calls"], &act["exit_code"]), (&69.into(), &0.into()));
    assert_eq!(act["report"]["totals"]["sub_agents"], 3);
    assert_eq!(act["dry_run"]["would_have_stopped"], true);
    assert!(money(&act["report"]["spend"]["usd"]) > "5".parse().unwrap(), "{act}");
}

#[test]
fn no_limit_is_passed_and_what_is_saved_is_the_difference() {
    for limit in ["0.10", "2.00"] {
        let told = json(&["--usd", limit]);
        let (first, second) = (&told["without_limits"]["report"], &told["under_limits"]["report"]);
        let (all, spent) = (money(&first["spend"]["usd"]), money(&second["spend"]["usd"]));
        assert!(spent <= limit.parse().unwrap(), "{spent} of {limit}");
        assert_eq!(money(&told["saved_usd"]), all.saturating_sub(spent));
        assert_eq!(
            (&second["reason"], &told["under_limits"]["exit_code"]),
            (&"cost_limit".into(), &124.into())
        );
    }
}

#[test]
fn people_see_both_acts_and_the_trip_record() {
    let output = demo(&[]);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for part in [
        "1. Dry run: count everything, stop nothing",
        "agent: the limit of 3 iterations",
        "2. The same program",
        "agent: Endstop stopped this run",
        "Saved $",
    ] {
        assert!(stdout.contains(part), "no `{part}` in {stdout}");
    }
    for part in
        ["dry run: it would have been stopped", "stopped: cost_limit", "sub-agent research-1"]
    {
        assert!(stderr.contains(part), "no `{part}` in {stderr}");
    }
}

#[test]
fn a_limit_that_is_no_amount_is_refused() {
    let output = demo(&["--usd", "-1"]);
    assert_eq!(output.status.code(), Some(2));
}
